//! Estimates held to known paths: captures of simulated runs, written by our own export and read back.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;
use bbrlab_report::export::pcap;
use bbrlab_sim::engine;
use bbrlab_sim::record::packets::Tap;
use bbrlab_sim::scenario::ScenarioFile;
use bbrlab_sim::setup::Capture;

use super::*;

/// A known path with one flow over it.
#[derive(Clone, Debug)]
struct Known {
    rate_bps: f64,
    rtt_s: f64,
    buffer_bytes: f64,
    kind: Option<LossKind>,
    policer_bps: f64,
    flow: &'static str,
    text: String,
}

fn log_uniform(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(rng.below(1 << 32) as f64 / (1_u64 << 32) as f64)
}

/// Draws path number `nth`: kinds of loss and algorithms in turn, everything else at random.
fn known(nth: u64) -> Known {
    let mut rng = Rng::new(1000 + nth);
    let rate_bps = log_uniform(&mut rng, 1e6, 200e6).round();
    let rtt_s = (log_uniform(&mut rng, 5e-3, 0.2) * 1e6).round() / 1e6;
    let bdp = rate_bps / 8.0 * rtt_s;
    let buffer_bytes = (bdp * log_uniform(&mut rng, 0.2, 4.0)).max(10.0 * 1514.0).round();
    let flow = ["cubic", "bbr1", "reno", "bbr3"][nth as usize / 4 % 4];
    let duration_s = (60_000.0 * 1514.0 * 8.0 / rate_bps).clamp((60.0 * rtt_s).max(10.0), 40.0);
    let mut text = format!(
        "rate = '{rate_bps}bit'\nrtt = '{}us'\nbuffer = '{buffer_bytes}B'\nduration = '{duration_s:.1}s'\nsample = '0s'\n\
         flow = ['{flow}']\nseed = {}\n",
        rtt_s * 1e6,
        nth + 1
    );
    let mut policer_bps = 0.0;
    let kind = match nth % 4 {
        0 => Some(LossKind::TailDrop),
        1 => {
            text += &format!("loss = '{:.3}%'\n", log_uniform(&mut rng, 0.1, 2.0));
            Some(LossKind::Random)
        }
        2 => {
            policer_bps = (rate_bps * log_uniform(&mut rng, 0.3, 0.8)).round();
            let burst = (policer_bps / 8.0 * log_uniform(&mut rng, 0.02, 0.3)).max(15_140.0);
            text += &format!("policer = 'rate={policer_bps}bit,burst={burst:.0}B'\n");
            Some(LossKind::Policer)
        }
        _ => {
            let (into, out) = (log_uniform(&mut rng, 0.05, 0.3), log_uniform(&mut rng, 20.0, 40.0));
            text += &format!("loss = 'ge:{into:.3}%,{out:.1}%'\n");
            Some(LossKind::Burst)
        }
    };
    Known { rate_bps, rtt_s, buffer_bytes, kind, policer_bps, flow, text }
}

/// Capture of a run at its sender, and the true numbers of loss episodes: (queue or policer, random).
fn captured(text: &str) -> (Vec<u8>, [u64; 2]) {
    let mut setup = ScenarioFile::from_toml(text, "x").unwrap().resolve(&|_| unreachable!("no trace")).unwrap();
    setup.capture = Capture::On { limit: usize::MAX, taps: &Tap::ALL };
    let output = engine::run(&setup);
    let at = |tap: Tap| {
        output.packets.records.iter().filter(move |one| one.tap == tap && one.len > 0).map(|one| (one.t_ns, one.seq))
    };
    let rtt_ns = setup.path.rtt.as_nanos();
    // Every place keeps the order of packets: those that a later place skips were lost before it.
    let episodes = |before: Tap, after: Tap| {
        let (mut offered, mut count, mut last_ns) = (at(before).peekable(), 0, 0);
        for (_, seq) in at(after) {
            for (t_ns, _) in std::iter::from_fn(|| offered.next_if(|one| one.1 != seq)) {
                count += u64::from(last_ns == 0 || t_ns > last_ns + rtt_ns);
                last_ns = t_ns;
            }
            offered.next();
        }
        count
    };
    let lost = [episodes(Tap::BottleneckIn, Tap::BottleneckOut), episodes(Tap::BottleneckOut, Tap::Receiver)];
    let mut bytes = Vec::new();
    pcap::write(&output.packets.records, &[Tap::Sender], ["a"].into_iter(), "", &mut bytes).unwrap();
    (bytes, lost)
}

/// Outcome of one path: each estimate beside the truth.
#[derive(Debug, Default)]
struct Score {
    paths: u64,
    rate: u64,
    bounded: u64,
    base: u64,
    kind: u64,
    filled: u64,
    buffer: u64,
    policed: u64,
    policer: u64,
}

impl Score {
    fn add(&mut self, nth: u64) {
        let truth = known(nth);
        let (bytes, [drops, lost]) = captured(&truth.text);
        let own = &read(bytes.as_slice()).unwrap().paths[0];
        let off = |found: f64, true_value: f64| found / true_value - 1.0;
        let of_queue = if truth.policer_bps > 0.0 { LossKind::Policer } else { LossKind::TailDrop };
        let mut kinds = vec![(drops, Some(of_queue)), (lost, truth.kind)];
        kinds.sort_by_key(|one| std::cmp::Reverse(one.0));
        let expected = if kinds[0].0 == 0 { None } else { kinds[0].1 };
        // Where both kinds are about as frequent, either may be named first.
        let is_close = 2 * kinds[0].0 < 3 * kinds[1].0;
        let rate = own.rate.as_ref();
        let found_rate = rate.map_or(f64::NAN, |rate| rate.bps);
        let base = own.rtt.as_ref().map_or(f64::NAN, |rtt| off(rtt.base_ms, 1e3 * truth.rtt_s));
        let is_bound = rate.is_none_or(|rate| rate.is_lower_bound);
        let kind_ok = own.main_loss() == expected || is_close && kinds.iter().any(|one| one.1 == own.main_loss());
        let buffer = own.buffer.as_ref().filter(|buffer| !buffer.is_lower_bound);
        let buffer_off = buffer.map(|buffer| off(buffer.bytes, truth.buffer_bytes));
        let policer_off = own.policer.as_ref().map(|policer| off(policer.bps, truth.policer_bps));
        let rate_ok = match (truth.kind, is_bound) {
            (Some(LossKind::Policer), _) => policer_off.is_some_and(|off| off.abs() <= 0.05),
            (_, true) => found_rate <= 1.05 * truth.rate_bps,
            (_, false) => off(found_rate, truth.rate_bps).abs() <= 0.05,
        };
        self.paths += 1;
        self.rate += u64::from(rate_ok);
        self.bounded += u64::from(is_bound);
        self.base += u64::from(base.abs() <= 0.02);
        self.kind += u64::from(kind_ok);
        let filled = expected == Some(LossKind::TailDrop);
        self.filled += u64::from(filled);
        self.buffer += u64::from(filled && buffer_off.is_some_and(|off| off.abs() <= 0.25));
        let mark = |ok: bool| if ok { ' ' } else { '!' };
        println!(
            "{nth:2} {:5} {:6.2} Mbit/s {:6.1} ms {:5.2} bdp | rate {:+6.1} %{}{} base {:+5.1} %{} buffer {} | {:?} of {drops}+{lost}: {:?}{} | policer {} | {:?}",
            truth.flow,
            truth.rate_bps / 1e6,
            1e3 * truth.rtt_s,
            truth.buffer_bytes / (truth.rate_bps / 8.0 * truth.rtt_s),
            100.0 * off(found_rate, truth.rate_bps),
            if is_bound { "≥" } else { "" },
            mark(rate_ok),
            100.0 * base,
            mark(base.abs() <= 0.02),
            buffer_off.map_or("-".to_owned(), |off| format!("{:+.0} %{}", 100.0 * off, mark(off.abs() <= 0.25))),
            expected,
            own.losses
                .iter()
                .map(|one| (one.kind, one.episodes.round(), (one.run * 100.0).round() / 100.0))
                .collect::<Vec<_>>(),
            mark(kind_ok),
            policer_off.map_or("-".to_owned(), |off| format!("{:+.1} %", 100.0 * off)),
            own.algorithm.as_ref().map(|one| &one.name),
        );
    }
}

#[test]
fn sixty() {
    let mut score = Score::default();
    (0..60).for_each(|nth| score.add(nth));
    println!("{score:?}");
}
