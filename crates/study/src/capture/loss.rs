//! Kinds of loss: a full queue drops when the waiting time is at its highest, a policer when its bucket is empty, and
//! everything else drops regardless of both.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::estimate::{LossEstimate, LossKind, PolicerEstimate};
use super::flow::Flow;
use super::judge::{Link, quantile};
use super::policer::{EMPTY, Step, policed, policer};
use super::signals::{LossRun, Signals};

/// Share of the full queue's waiting time, and of the bucket's depth, from which it counts as full, or empty. Ours.
pub const FULL_SHARE: f64 = 0.8;
/// The same where the waiting time of each packet is known, unless fewer than this number of segments are missing. Ours: a queue of bytes
/// drops when the next packet has no room.
const EXACT_FULL_SHARE: f64 = 0.97;
const EXACT_FULL_SEGMENTS: f64 = 2.0;
/// Share of the episodes that a kind must have to be reported. Ours.
const KIND_SHARE: f64 = 0.15;
/// Share of an episode's runs of losses that are longer than one segment, from which losses are bursts; the mean over the episodes. Ours:
/// independent losses of 10 % have 0.1, bursts with a mean of 2.5 have 0.6, and one overflow of the queue, with many runs, is one episode.
const BURST_SHARE: f64 = 0.4;
/// Smallest overflow of the queue among losses of another kind, in segments, and as a multiple of the other episodes' 90th
/// percentile. Ours: a start-up that doubles its window loses as much as the queue holds.
const OVERFLOW_SEGMENTS: u64 = 8;
const OVERFLOW_MULTIPLE: f64 = 5.0;
/// Smallest number of episodes for a judgement on chance: fewer are too few for a share. Ours.
pub const EPISODES_MIN: usize = 3;
/// Share of the episodes at a full queue from which no policer is looked for. Ours.
const TAIL_SHARE: f64 = 0.5;
const NANOS: f64 = 1e9;

/// Losses of a connection, judged.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// Kinds, the most frequent first.
    pub kinds: Vec<LossEstimate>,
    /// Waiting time at which the full queue dropped, seconds.
    pub full_s: Option<f64>,
    /// Policer.
    pub policer: Option<PolicerEstimate>,
    /// Reason for which the kinds are unknown.
    pub unknown: Option<&'static str>,
}

/// Losses within a round trip of each other.
#[derive(Clone, Debug)]
struct Episode<'a> {
    runs: Vec<&'a LossRun>,
    /// Waiting time next to its first loss, seconds, if known.
    queue_s: Option<f64>,
}

impl Episode<'_> {
    fn segments(&self) -> u64 {
        self.runs.iter().map(|run| run.segments).sum()
    }

    /// Median waiting time next to its runs of losses, seconds, if known.
    fn middle_s(&self, link: &Link) -> Option<f64> {
        let known = self.runs.iter().filter(|run| run.rtt_ns > 0);
        let mut all: Vec<(f64, f64)> = known.map(|run| (link.queue_s(run.rtt_ns as f64 / NANOS), 1.0)).collect();
        quantile(&mut all, 0.5)
    }
}

/// Judges the losses of a connection.
pub fn judge(flow: &Flow, link: &Link) -> Losses {
    let Some(signals) = flow.signals.as_deref().filter(|signals| signals.lost_segments > 0) else {
        return Losses::default();
    };
    let mut runs: Vec<&LossRun> = signals.runs.iter().filter(|run| run.segments > 0).collect();
    runs.sort_by_key(|run| run.first_ns);
    let episodes = episodes(&runs, link);
    let mut losses = Losses::default();
    if episodes.is_empty() {
        losses.unknown = Some("every loss was withdrawn by a duplicate report");
        return losses;
    }
    let queue = QueueTest::of(&episodes, signals, link);
    let every: Vec<&Episode<'_>> = episodes.iter().collect();
    if queue.tail_episodes < TAIL_SHARE * every.len() as f64
        && let Some((policer, basis)) = policed(every.len(), &signals.timeline, flow, link)
    {
        let basis = basis.to_owned();
        losses.kinds.push(estimate(LossKind::Policer, every.len() as f64, &every, flow, basis));
        losses.policer = Some(policer);
        return losses;
    }
    let (tail, rest): (Vec<&Episode<'_>>, Vec<&Episode<'_>>) = episodes.iter().partition(|one| queue.is_full(one));
    let own = queue.tail_episodes;
    let total = episodes.len() as f64;
    if own >= KIND_SHARE * total && own > 0.5 {
        losses.full_s = queue.full_at(&tail);
        losses.kinds.push(estimate(LossKind::TailDrop, own, &tail, flow, queue.basis(&tail)));
    }
    let (overflows, rest) = if tail.is_empty() { apart(&rest, signals, link) } else { (Vec::new(), rest) };
    if !overflows.is_empty() {
        // A random loss may be the first of the episode.
        let mut full: Vec<(f64, f64)> =
            overflows.iter().filter_map(|one| one.middle_s(link)).map(|full_s| (full_s, 1.0)).collect();
        losses.full_s = quantile(&mut full, 0.5);
        let (count, basis) = (overflows.len() as f64, at_full_queue(losses.full_s.unwrap_or(queue.full_s)));
        losses.kinds.push(estimate(LossKind::TailDrop, count, &overflows, flow, basis));
    }
    let others = total - own - overflows.len() as f64;
    if others >= KIND_SHARE * total && !rest.is_empty() {
        // What the queue dropped had passed the policer.
        let dropped = |step: &Step| step.lost > 0.0 && queue.is_full_at(link.queue_s(step.rtt_s));
        let passed = |step: &Step| Step { passed: step.passed + step.lost, lost: 0.0, weight: 0.0, ..*step };
        let steps: Vec<Step> = flow.steps.iter().map(|step| if dropped(step) { passed(step) } else { *step }).collect();
        if !tail.is_empty()
            && let Some(policer) = policer(rest.len(), &steps, true, flow, link)
        {
            losses.kinds.push(estimate(LossKind::Policer, others, &rest, flow, EMPTY.to_owned()));
            losses.policer = Some(policer);
            losses.kinds.sort_by(|a, b| b.episodes.total_cmp(&a.episodes));
            return losses;
        }
        let kind = others_kind(&rest);
        let basis = match kind {
            LossKind::Burst => "losses at any waiting time, several segments in a row",
            _ => "losses at any waiting time, one by one",
        }
        .to_owned();
        losses.kinds.push(estimate(kind, others, &rest, flow, basis));
    }
    losses.kinds.sort_by(|a, b| b.episodes.total_cmp(&a.episodes));
    losses
}

/// Groups runs of losses that are within a round trip of each other.
fn episodes<'a>(runs: &[&'a LossRun], link: &Link) -> Vec<Episode<'a>> {
    let mut all: Vec<Episode<'a>> = Vec::new();
    let (mut last_ns, mut rtt_s) = (0_u64, link.base_s);
    for run in runs {
        // A retransmission that was lost too has none of its own.
        if run.rtt_ns > 0 {
            rtt_s = run.rtt_ns as f64 / NANOS;
        }
        let is_new = run.first_ns.saturating_sub(last_ns) as f64 / NANOS > rtt_s;
        last_ns = last_ns.max(run.last_ns);
        match all.last_mut().filter(|_| !is_new) {
            Some(episode) => episode.runs.push(run),
            None => all.push(Episode { runs: vec![run], queue_s: None }),
        }
    }
    for episode in &mut all {
        let known = episode.runs.iter().find(|run| run.rtt_ns > 0);
        episode.queue_s = known.map(|run| link.queue_s(run.rtt_ns as f64 / NANOS));
    }
    all
}

/// Comparison of the waiting times next to losses with those of all data.
struct QueueTest {
    full_s: f64,
    /// Waiting time from which the queue counts as full.
    from_s: f64,
    /// Episodes that are more at a full queue than chance explains.
    tail_episodes: f64,
    can_be_full: bool,
}

impl QueueTest {
    fn of(episodes: &[Episode<'_>], signals: &Signals, link: &Link) -> Self {
        let mut at_losses: Vec<(f64, f64)> =
            episodes.iter().filter_map(|one| one.queue_s).map(|queue_s| (queue_s, 1.0)).collect();
        let highest = quantile(&mut at_losses, 0.9).unwrap_or(0.0);
        let usual = signals.waits().map_or(0.0, |all| link.queue_s(all.value_at_quantile(0.995) as f64 / 1e6));
        // A queue drops at its fullest: waiting times next to its drops are no less than all others.
        let full_s = if highest > 0.0 { highest.max(usual.min(1.5 * highest)) } else { usual };
        // A queue computed with packets that a policer dropped is longer than any that ACKs show.
        let longest_s = signals.rtt.as_ref().map_or(f64::INFINITY, |all| link.queue_s(all.max() as f64 / 1e6));
        let is_seen = FULL_SHARE * full_s <= longest_s + EXACT_FULL_SEGMENTS * link.serialisation_s;
        let can_be_full = !link.is_lower_bound && is_seen && full_s >= link.full_min_s();
        let known = at_losses.len() as f64;
        let room_s = full_s - (EXACT_FULL_SEGMENTS * link.serialisation_s);
        let exact_s = signals.passed.as_ref().map_or(0.0, |_| room_s.min(EXACT_FULL_SHARE * full_s));
        let from_s = exact_s.max(FULL_SHARE * full_s);
        let high = at_losses.iter().filter(|one| one.0 >= from_s).count() as f64;
        let limit_us = 1e6 * (link.base_s + link.serialisation_s + from_s);
        let chance = signals.waits().map_or(0.0, |all| 1.0 - all.quantile_below(limit_us as u64));
        let tail_share = if known == 0.0 || !can_be_full {
            0.0
        } else if chance > 0.9 {
            // The queue is always full: its drops cannot be told from others, and are the likely ones.
            high / known
        } else {
            ((high / known - chance) / (1.0 - chance)).max(0.0)
        };
        // A few episodes may all be at a full queue by chance.
        let is_chance = known < EPISODES_MIN as f64 && chance.powf(known) > 0.2;
        let tail_episodes = if is_chance { 0.0 } else { tail_share * episodes.len() as f64 };
        Self { full_s, from_s, tail_episodes, can_be_full }
    }

    fn is_full(&self, episode: &Episode<'_>) -> bool {
        episode.queue_s.is_some_and(|queue_s| self.is_full_at(queue_s))
    }

    fn is_full_at(&self, queue_s: f64) -> bool {
        self.can_be_full && self.tail_episodes > 0.5 && queue_s >= self.from_s
    }

    /// Waiting time at the drops: the median over all runs, which leaves out the first ones of an episode.
    fn full_at(&self, tail: &[&Episode<'_>]) -> Option<f64> {
        let mut all: Vec<(f64, f64)> =
            tail.iter().filter_map(|one| one.queue_s).map(|queue_s| (queue_s, 1.0)).collect();
        quantile(&mut all, 0.5)
    }

    fn basis(&self, tail: &[&Episode<'_>]) -> String {
        at_full_queue(self.full_at(tail).unwrap_or(self.full_s))
    }
}

fn at_full_queue(full_s: f64) -> String {
    format!("waiting times at their highest, {:.1} ms, next to the losses", 1e3 * full_s)
}

fn estimate(kind: LossKind, episodes: f64, of: &[&Episode<'_>], flow: &Flow, from: String) -> LossEstimate {
    let segments: u64 = of.iter().map(|one| one.segments()).sum();
    let runs: usize = of.iter().map(|one| one.runs.len()).sum();
    let bytes: u64 = of.iter().flat_map(|one| &one.runs).map(|run| run.bytes).sum();
    LossEstimate {
        kind,
        episodes,
        ratio: bytes as f64 / (flow.counters.sent as f64).max(1.0),
        run: segments as f64 / (runs as f64).max(1.0),
        from,
    }
}

/// Sets overflows of the queue apart from the other episodes: those at the longest waiting times that lost many times more.
fn apart<'a, 'b>(
    rest: &[&'a Episode<'b>],
    signals: &Signals,
    link: &Link,
) -> (Vec<&'a Episode<'b>>, Vec<&'a Episode<'b>>) {
    let mut sizes: Vec<f64> = rest.iter().map(|one| one.segments() as f64).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.pop(); // the candidate is no measure of itself
    let mut others: Vec<(f64, f64)> = sizes.into_iter().map(|size| (size, 1.0)).collect();
    let usual = quantile(&mut others, 0.9).unwrap_or(0.0);
    let longest_s = signals.waits().map_or(0.0, |all| link.queue_s(all.value_at_quantile(0.999) as f64 / 1e6));
    let full_s = (FULL_SHARE * longest_s).max(link.full_min_s());
    let is_overflow = |one: &&Episode<'_>| {
        let is_large = one.segments() >= OVERFLOW_SEGMENTS && one.segments() as f64 >= OVERFLOW_MULTIPLE * usual;
        is_large && one.middle_s(link).is_some_and(|queue_s| queue_s >= full_s)
    };
    let can_be_told = !link.is_lower_bound && rest.len() >= EPISODES_MIN;
    rest.iter().partition(|one| can_be_told && is_overflow(one))
}

/// Kind of the losses that depend on neither queue nor bucket.
fn others_kind(rest: &[&Episode<'_>]) -> LossKind {
    let long_share = |episode: &&Episode<'_>| {
        let long = episode.runs.iter().filter(|run| run.segments > 1).count();
        long as f64 / episode.runs.len() as f64
    };
    let mean = rest.iter().map(long_share).sum::<f64>() / rest.len() as f64;
    if mean >= BURST_SHARE { LossKind::Burst } else { LossKind::Random }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_overflow_among_single_losses_is_no_burst() {
        let run = |segments| LossRun { first_ns: 0, last_ns: 0, from: 0, to: 1250, rtt_ns: 0, segments, bytes: 1250 };
        let (one, two) = (run(1), run(2));
        let single = Episode { runs: vec![&one], queue_s: None };
        let overflow = Episode { runs: [&one, &two].repeat(50), queue_s: None };
        let mut rest = vec![&single; 9];
        rest.push(&overflow);
        assert_eq!(others_kind(&rest), LossKind::Random);
        let burst = Episode { runs: vec![&two], queue_s: None };
        assert_eq!(others_kind(&[&single, &burst]), LossKind::Burst);
    }
}
