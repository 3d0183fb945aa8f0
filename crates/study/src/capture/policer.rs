//! Policers: a token bucket that is empty at the losses and not elsewhere, or whose passage is the same however much is sent.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::estimate::PolicerEstimate;
use super::flow::Flow;
use super::judge::{Link, quantile};
use super::loss::{EPISODES_MIN, FULL_SHARE};
use super::signals::Timeline;

/// Excess of the losses at an empty bucket over the data sent at one, from which it is a policer. Ours.
const POLICED: f64 = 0.5;
/// Largest distance between the quartiles of the bucket's level at the losses, as a share of its depth. Ours: it is below 0.3
/// for nearly all policers, and 0.8 for a burst loss that passes the other tests.
const STEADY: f64 = 0.6;
/// Rates tried for the tokens, as shares of the rate between the losses, and their ratio. Ours: tokens that overflow a
/// small bucket are lost to the flow.
const TOKEN_RATES: (f64, f64, f64) = (0.9, 3.0, 1.01);
/// The same where each packet is known, the excess and the distance, and the number of depths tried. Ours: then a bucket of the right rate
/// has one level at all losses; with random ones the best of all rates and depths has an excess of up to 0.65.
const EXACT_RATES: (f64, f64, f64) = (0.9, 3.0, 1.001);
const EXACT_POLICED: f64 = 0.7;
const EXACT_STEADY: f64 = 0.2;
const EXACT_DEPTHS: u32 = 16;
/// Runs of losses among the packets that are remembered, from which those behind them are not needed. Ours.
const EXACT_RUNS: usize = 16;
/// Largest number of packets remembered one by one. Ours: 1.3 MB.
pub const STEPS_MAX: usize = 32_768;
/// Share of the best excess from which a rate is as good; the steadiest level at the losses decides. Ours.
const AS_GOOD: f64 = 0.9;
const EXACT_AS_GOOD: f64 = 0.998;
/// Windows into which the time between first and last loss is divided, and the fewest of them with losses, to look for a policer that
/// is never idle. Ours.
const WINDOWS: usize = 24;
const LOSSY_WINDOWS: usize = 8;
/// Largest deviation of the data passed in these windows from their mean, and largest share of the variation of the losses that does
/// not come from that of the data sent. Ours: a random loss leaves nearly all of it.
const EVEN: f64 = 0.05;
const UNEXPLAINED: f64 = 0.2;
/// Median distance from the mean in standard deviations of a normal distribution.
const MEDIAN_DEVIATION: f64 = 0.6745;
/// Smallest depth of a bucket, segments. Ours: below it, rounding dominates.
const DEPTH_SEGMENTS: f64 = 5.0;
const NANOS: f64 = 1e9;

/// Basis of a policer that was found by its bucket.
pub const EMPTY: &str = "a token bucket of its rate, empty at the losses and not elsewhere";

/// The policer that explains the losses, and the basis.
pub fn policed(
    episodes: usize,
    timeline: &Timeline,
    flow: &Flow,
    link: &Link,
) -> Option<(PolicerEstimate, &'static str)> {
    let exact = || policer(episodes, &flow.steps, true, flow, link);
    // Losses may be behind the packets that are remembered.
    let is_cut = flow.steps.is_empty() || flow.steps.len() == STEPS_MAX;
    let has_most = !is_cut || flow.steps.iter().filter(|step| step.weight > 0.0).count() >= EXACT_RUNS;
    let in_bins = || if has_most { None } else { policer(episodes, &steps_of(timeline), false, flow, link) };
    let idle = || Some((exact().or_else(in_bins)?, EMPTY));
    let busy = || Some((busy_policer(timeline, flow, link)?, "however much was sent, the same passed"));
    idle().or_else(busy)
}

/// Finds a policer whose bucket is hardly ever full: what is sent varies, what passes does not, so each byte sent more is a byte lost.
/// With random losses, what passes varies as much as what is sent, and at least as the losses' chance does.
fn busy_policer(timeline: &Timeline, flow: &Flow, link: &Link) -> Option<PolicerEstimate> {
    let bins = &timeline.bins;
    let is_lossy = |bin: &(u32, u32)| bin.1 > 0;
    let (first, last) = (bins.iter().position(is_lossy)?, bins.iter().rposition(is_lossy)?);
    let width = (last - first) / WINDOWS;
    if width == 0 {
        return None;
    }
    // The bucket is empty at a loss, so windows end at losses.
    let mut ends: Vec<usize> =
        (0..=WINDOWS).filter_map(|nth| (first + nth * width..=last).find(|&bin| is_lossy(&bins[bin]))).collect();
    ends.dedup();
    let windows: Vec<Window> = ends.windows(2).map(|ends| Window::of(&bins[ends[0] + 1..=ends[1]])).collect();
    let (tokens, deviation) = even_passage(&windows, flow.mss() as f64)?;
    let rate = tokens / (timeline.width_ns as f64 / NANOS);
    let is_slower = link.is_lower_bound || rate < 0.97 * link.rate;
    let depth = bucket(&steps_of(timeline), rate, false)?.depth;
    let wire = flow.wire_ratio();
    is_slower.then(|| PolicerEstimate {
        bps: 8.0 * rate * wire,
        burst_bytes: depth * wire,
        from: format!("what passes differs by {:.1} % from one time to another", 100.0 * deviation),
    })
}

/// Time between two losses.
#[derive(Clone, Copy, Debug)]
struct Window {
    bins: f64,
    /// Bytes.
    passed: f64,
    lost: f64,
}

impl Window {
    fn of(bins: &[(u32, u32)]) -> Self {
        let sum = |of: &dyn Fn(&(u32, u32)) -> u32| bins.iter().map(|bin| f64::from(of(bin))).sum();
        Self { bins: bins.len() as f64, passed: sum(&|bin| bin.0.saturating_sub(bin.1)), lost: sum(&|bin| bin.1) }
    }
}

/// Bytes that pass in a bin, and the relative deviation of what passes in a window, if that is the same however much is sent. Medians,
/// because a sender that pauses leaves tokens.
fn even_passage(windows: &[Window], mss: f64) -> Option<(f64, f64)> {
    if windows.len() < LOSSY_WINDOWS {
        return None;
    }
    let mean = |of: &dyn Fn(&Window) -> f64| windows.iter().map(of).sum::<f64>() / windows.len() as f64;
    let mut rates: Vec<(f64, f64)> = windows.iter().map(|one| (one.passed / one.bins, one.bins)).collect();
    let tokens = quantile(&mut rates, 0.5)?;
    let deviation = |off: &dyn Fn(&Window) -> f64| {
        let mut all: Vec<(f64, f64)> = windows.iter().map(|one| (off(one).abs(), 1.0)).collect();
        Some(quantile(&mut all, 0.5)? / MEDIAN_DEVIATION)
    };
    let (passed, lost) = (mean(&|one| one.passed), mean(&|one| one.lost));
    let of_passed = deviation(&|one| one.passed - tokens * one.bins)?;
    // Losses by chance vary at least as their number does: a Poisson distribution.
    let of_lost = deviation(&|one| one.lost - lost)?.powi(2).max(lost * mss);
    let is_even = of_passed <= EVEN * passed && of_passed.powi(2) <= UNEXPLAINED * of_lost;
    is_even.then(|| (tokens, of_passed / passed))
}

/// Finds a token bucket that was empty at the losses and not elsewhere.
///
/// The idea is that of Flach et al., "An Internet-Wide Analysis of Traffic Policing" (SIGCOMM 2016), section 3: between
/// losses a policed flow carries what its tokens permit, so a bucket simulated at that rate is empty when packets are
/// lost, and not when they pass. Here the level is computed over bins of time, for several rates.
pub fn policer(episodes: usize, steps: &[Step], is_exact: bool, flow: &Flow, link: &Link) -> Option<PolicerEstimate> {
    if episodes < EPISODES_MIN {
        return None;
    }
    let (first, last) =
        (steps.iter().position(|step| step.lost > 0.0)?, steps.iter().rposition(|step| step.lost > 0.0)?);
    let between = &steps[first..last];
    let (passed, time) = between.iter().fold((0.0, 0.0), |sum, step| (sum.0 + step.passed, sum.1 + step.after_s));
    if time <= 0.0 || passed <= 0.0 {
        return None;
    }
    let rate = passed / time;
    let mss = flow.mss() as f64;
    let (low, high, ratio) = if is_exact { EXACT_RATES } else { TOKEN_RATES };
    let most = if link.is_lower_bound { high * rate } else { (high * rate).min(link.rate) };
    let tried = std::iter::successors(Some(low * rate), |rate| Some(rate * ratio)).take_while(|rate| *rate <= most);
    let scored = tried.filter_map(|rate| Some((rate, bucket(steps, rate, is_exact)?)));
    let scored: Vec<(f64, Bucket)> = scored.filter(|(_, bucket)| bucket.depth >= DEPTH_SEGMENTS * mss).collect();
    let best = scored.iter().map(|one| one.1.excess).reduce(f64::max)?;
    let as_good = if is_exact { EXACT_AS_GOOD } else { AS_GOOD };
    let good = scored.iter().filter(|one| one.1.excess >= as_good * best);
    let &(rate, Bucket { excess, depth, spread }) = good.min_by(|a, b| a.1.spread.total_cmp(&b.1.spread))?;
    // A link that serves at this rate has a queue; a policer has none.
    let is_slower = link.is_lower_bound || rate < 0.97 * link.rate;
    let wire = flow.wire_ratio();
    let (policed, steady) = if is_exact { (EXACT_POLICED, EXACT_STEADY) } else { (POLICED, STEADY) };
    (excess >= policed && spread <= steady && is_slower).then(|| PolicerEstimate {
        bps: 8.0 * rate * wire,
        burst_bytes: depth * wire,
        from: format!("its bucket is empty at {:.0} points more of the losses than of all data", 100.0 * excess),
    })
}

/// Bytes that passed and bytes that were lost at a time.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Time since the one before, seconds.
    pub after_s: f64,
    /// Bytes passed.
    pub passed: f64,
    /// Bytes lost.
    pub lost: f64,
    /// Weight of the loss: its bytes, or 1 for the first packet of a run.
    pub weight: f64,
    /// RTT of what was lost, if the queue had had room, seconds.
    pub rtt_s: f64,
}

/// The bins of a timeline.
fn steps_of(timeline: &Timeline) -> Vec<Step> {
    let after_s = timeline.width_ns as f64 / NANOS;
    let step = |bin: &(u32, u32)| {
        let lost = f64::from(bin.1);
        Step { after_s, passed: f64::from(bin.0.saturating_sub(bin.1)), lost, weight: lost, rtt_s: 0.0 }
    };
    timeline.bins.iter().map(step).collect()
}

/// A token bucket beside the losses.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Share of the losses at an empty bucket, less that of the data passed at one.
    excess: f64,
    /// Tokens that it holds, bytes.
    depth: f64,
    /// Distance between the quartiles of its level at the losses, as a share of the depth.
    spread: f64,
}

/// Simulates a bucket in which this many bytes of tokens arrive in a second. Each step is a packet if it is exact.
fn bucket(steps: &[Step], rate: f64, is_exact: bool) -> Option<Bucket> {
    let mut level = 0.0_f64;
    // Bytes that the bucket must hold for what passes, and for a packet that is lost.
    let needs: Vec<f64> = steps
        .iter()
        .map(|step| {
            level = (level - rate * step.after_s).max(0.0) + step.passed;
            if is_exact { level + step.lost } else { level }
        })
        .collect();
    // What was needed at the losses is the depth, if it is a policer; a few may be misplaced.
    let mut at_losses: Vec<(f64, f64)> = needs
        .iter()
        .zip(steps)
        .filter(|(_, step)| step.weight > 0.0)
        .map(|(need, step)| (*need, step.weight))
        .collect();
    let depth = quantile(&mut at_losses, 0.75)?;
    let spread = (depth - quantile(&mut at_losses, 0.25)?) / depth.max(1.0);
    if !is_exact {
        let excess = excess(&needs, steps, &[FULL_SHARE * depth])[0];
        return Some(Bucket { excess, depth, spread });
    }
    // A burst that the sender hands over as one frame is dropped as one: the depth is among the smaller needs.
    let tried = (0..EXACT_DEPTHS).filter_map(|nth| quantile(&mut at_losses, f64::from(nth) / f64::from(EXACT_DEPTHS)));
    let depths: Vec<f64> = tried.map(|need| need - 1.0).collect();
    let excess = excess(&needs, steps, &depths);
    let (&depth, excess) = depths.iter().zip(excess).max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Bucket { excess, depth, spread })
}

/// Share of the losses that needed more than each of these depths, less that of the bytes passed.
fn excess(needs: &[f64], steps: &[Step], depths: &[f64]) -> Vec<f64> {
    // (passed, lost) by the number of depths that are exceeded.
    let mut above = vec![(0.0, 0.0); depths.len() + 1];
    for (need, step) in needs.iter().zip(steps) {
        let sum = &mut above[depths.partition_point(|depth| depth < need)];
        *sum = (sum.0 + step.passed, sum.1 + step.weight);
    }
    let all = above.iter().fold((0.0, 0.0), |sum: (f64, f64), one| (sum.0 + one.0, sum.1 + one.1));
    let mut high = all;
    let below = above.iter().take(depths.len());
    below
        .map(|one| {
            high = (high.0 - one.0, high.1 - one.1);
            high.1 / all.1.max(1.0) - high.0 / all.0.max(1.0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::signals::{Lost, Signals};
    use super::*;

    #[test]
    fn what_passes_a_busy_policer_is_the_same_however_much_is_sent() {
        let windows = |sent: &dyn Fn(usize) -> f64, lost: &dyn Fn(usize) -> f64| -> Vec<Window> {
            (0..24).map(|nth| Window { bins: 10.0, passed: sent(nth) - lost(nth), lost: lost(nth) }).collect()
        };
        // A gain cycle of BBR: 25 % more in one window of eight, 25 % less in the next.
        let cycle = |nth: usize| -> f64 { 1e6 * [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0][nth % 8] };
        let policed = windows(&cycle, &|nth| (cycle(nth) - 0.8e6).max(0.0));
        let (tokens, deviation) = even_passage(&policed, 1448.0).unwrap();
        assert!((tokens - 0.8e5).abs() < 1.0 && deviation < 1e-9, "{tokens} {deviation}");
        let chance =
            |lost: f64, nth: usize| 1448.0 * (lost + lost.sqrt() * [-1.7, -0.9, -0.4, 0.4, 0.9, 1.7, 0.6][nth % 7]);
        assert!(even_passage(&windows(&cycle, &|nth| chance(cycle(nth) / 7240.0, nth)), 1448.0).is_none());
        assert!(even_passage(&policed[..7], 1448.0).is_none(), "too few windows with losses");
        // A steady sender: random losses scatter, 100 of 1448 bytes by 10, a policer's do not.
        let steady = |_: usize| 1e6;
        assert!(even_passage(&windows(&steady, &|nth| chance(100.0, nth)), 1448.0).is_none());
        assert!(even_passage(&windows(&steady, &|nth| 1448.0 * (100 + nth % 2) as f64), 1448.0).is_some());
    }

    /// Steps of a sender whose rate rises until a policer of 1 MB/s with this many bytes drops, and then falls by one of several shares.
    fn sawtooth(depth: f64, packets: usize) -> Vec<Step> {
        let (mut rate, mut tokens) = (0.5e6, depth);
        let mut cuts = [0.5, 0.95, 0.7, 0.9].into_iter().cycle();
        let packet = |_| {
            let after_s = 1250.0 / rate;
            tokens = f64::min(depth, tokens + 1e6 * after_s);
            let is_lost = tokens < 1250.0;
            let (passed, lost) = if is_lost { (0.0, 1250.0) } else { (1250.0, 0.0) };
            tokens -= passed;
            rate *= if is_lost { cuts.next().unwrap_or(0.5) } else { 1.0002 };
            Step { after_s, passed, lost, weight: if is_lost { 1.0 } else { 0.0 }, rtt_s: 0.0 }
        };
        (0..packets).map(packet).collect()
    }

    #[test]
    fn packets_one_by_one_show_the_rate_and_depth_of_a_policer() {
        let steps = sawtooth(1e5, 30_000);
        assert!((4..100).contains(&steps.iter().filter(|step| step.lost > 0.0).count()));
        let at = |rate: f64| bucket(&steps, rate, true).unwrap();
        let own = at(1e6);
        assert!(own.excess > 0.99 && own.spread < 0.02 && (own.depth / 1e5 - 1.0).abs() < 0.03, "{own:?}");
        assert!(at(0.97e6).spread > 5.0 * own.spread && at(1.03e6).spread > 5.0 * own.spread, "{:?}", at(1.03e6));
    }

    #[test]
    fn random_losses_are_no_policer() {
        let mut rng = bbrlab_core::Rng::new(1);
        for draw in 0..40 {
            let mut rate = 1e6;
            let packet = |_| {
                let after_s = 1250.0 / rate;
                let is_lost = rng.below(400) == 0;
                let (passed, lost) = if is_lost { (0.0, 1250.0) } else { (1250.0, 0.0) };
                rate *= if is_lost { 0.7 } else { 1.001 };
                Step { after_s, passed, lost, weight: if is_lost { 1.0 } else { 0.0 }, rtt_s: 0.0 }
            };
            let steps: Vec<Step> = (0..3000).map(packet).collect();
            let mut flow = Flow::default();
            flow.counters.largest = 1250;
            assert!(policer(8, &steps, true, &flow, &link(3e6)).is_none(), "draw {draw}");
        }
    }

    fn link(rate: f64) -> Link {
        Link {
            rate,
            serialisation_s: 1250.0 / rate,
            base_s: 0.02,
            is_lower_bound: false,
            busy_bytes: 0.0,
            range: (rate, rate),
            agreement: None,
        }
    }

    #[test]
    fn a_policer_shows_behind_the_packets_that_are_remembered() {
        let passed = Step { after_s: 1e-3, passed: 1250.0, lost: 0.0, weight: 0.0, rtt_s: 0.0 };
        let (mut signals, mut now_s) = (Signals::default(), 0.0);
        for (number, step) in (0..).zip(sawtooth(1e5, 30_000)) {
            now_s += step.after_s;
            let sent_ns = (now_s * NANOS) as u64;
            signals.on_sent(sent_ns, 1250);
            if step.lost > 0.0 {
                let from = number * 1250;
                let lost = Lost { sent_ns, from, to: from + 1250, bytes: 1250, before_ns: 0, after_ns: 0 };
                signals.on_lost(&lost, 1250);
            }
        }
        let mut flow = Flow::default();
        flow.steps = vec![passed; STEPS_MAX];
        flow.counters.largest = 1250;
        let (found, basis) = policed(signals.runs.len(), &signals.timeline, &flow, &link(3e6)).unwrap();
        assert!(basis == EMPTY && (found.bps / 8e6 - 1.0).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn losses_between_which_nothing_passed_are_no_policer() {
        let lost = Step { after_s: 0.1, passed: 0.0, lost: 1200.0, weight: 1.0, rtt_s: 0.0 };
        assert!(policer(4, &[lost; 4], true, &Flow::default(), &link(1e6)).is_none());
    }
}
