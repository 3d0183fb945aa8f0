//! The emulator's self-check: the link's achieved rate, delay and punctuality against the requested ones.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;

use bbrlab_sim::metrics::Histogram;
use serde::{Deserialize, Serialize};

use super::packet::Packet;

/// Limits within which a run counts. Ours: a tenth of the smallest effect that the experiments look for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum lateness of 99 of 100 packets, µs.
    pub late_p99_us: f64,
    /// Maximum lateness of any packet, µs.
    pub late_max_us: f64,
    /// Maximum deviation of the achieved rate from the requested one, a share.
    pub rate_error: f64,
    /// Maximum CPU time stolen by the hypervisor, a share.
    pub steal: f64,
    /// Maximum TCP memory, as a share of the level at which the kernel starts to save memory. Counts all TCP sockets of
    /// the machine.
    pub tcp_memory: f64,
}

impl Limits {
    /// The limits for a path with this two-way delay.
    pub fn for_rtt_us(rtt_us: f64) -> Self {
        Self {
            late_p99_us: (0.01 * rtt_us).max(250.0),
            late_max_us: (0.5 * rtt_us).max(50_000.0),
            rate_error: 0.005,
            steal: 0.05,
            tcp_memory: 1.0,
        }
    }
}

/// Quality of a run, reported beside its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// True if every value is within its limit.
    pub clean: bool,
    /// Violated limits, as text.
    pub faults: Vec<String>,
    pub limits: Limits,
    /// Rate that the link model granted while it was busy, bit/s; 0 if it never was.
    pub asked_rate_bps: f64,
    /// Rate at which those packets actually left.
    pub achieved_rate_bps: f64,
    /// Two-way propagation delay without queueing, ms.
    pub asked_delay_ms: f64,
    /// The same with the emulator's mean lateness in both directions.
    pub achieved_delay_ms: f64,
    /// Median lateness of departing packets, µs.
    pub late_p50_us: f64,
    /// 99th percentile.
    pub late_p99_us: f64,
    /// Largest.
    pub late_max_us: f64,
    /// Packets that left.
    pub packets: u64,
    /// Packets that the machine lost around the link, because a TUN queue or our memory was full.
    pub host_drops: u64,
    /// CPU time stolen by the hypervisor during the run, a share.
    pub steal: f64,
    /// TCP memory, as a share of the level at which the kernel starts to save memory.
    ///
    /// Counts all TCP sockets of the machine. Above that level windows and buffers no longer grow. The larger of the
    /// values before and after the run.
    pub tcp_memory: f64,
    /// CPU time of the emulator divided by the run's duration, in cores.
    pub emulator_cores: f64,
    /// The emulator's scheduling: `fifo`, or `other` where real-time scheduling is not permitted.
    pub scheduler: String,
    /// Number of attempts, including this one; the earlier ones exceeded a limit.
    pub attempts: u32,
}

/// Data collected while the emulator runs.
#[derive(Clone, Debug, Default)]
pub struct CheckSamples {
    /// Lateness of each packet, ns, by direction.
    pub late: [Histogram; 2],
    /// Packets for which there was no buffer.
    pub no_room: u64,
    ways: [BusyTime; 2],
}

/// Busy periods of one direction's bottleneck: planned and actual duration.
#[derive(Clone, Debug, Default)]
struct BusyTime {
    /// Bytes that left in them, and the time that the model granted them.
    bytes: u64,
    model_ns: u64,
    last_left: (u32, u64),
    /// One per delay line: where lines differ, packets do not arrive in the order in which they left.
    lines: Vec<ArrivalTime>,
}

/// The same packets on arrival, over one delay line.
#[derive(Clone, Copy, Debug, Default)]
struct ArrivalTime {
    period: u32,
    /// True if the current period has at least two packets.
    is_counted: bool,
    /// Periods with at least two packets.
    periods: u64,
    last_ns: (u64, u64),
    asked_ns: i64,
    taken_ns: i64,
}

impl CheckSamples {
    /// Records the hand-over at `now_ns` of a packet that was due at `due_ns`.
    #[inline]
    pub fn on_delivered(&mut self, direction: usize, due_ns: u64, now_ns: u64, packet: &Packet) {
        self.late[direction].add(now_ns.saturating_sub(due_ns));
        if packet.busy == 0 {
            return;
        }
        let lines = &mut self.ways[direction].lines;
        let index = usize::from(packet.line);
        if index >= lines.len() {
            lines.resize(index + 1, ArrivalTime::default());
        }
        let line = &mut lines[index];
        if packet.busy == line.period {
            // Signed: where packets overtake, the sums still come out right.
            line.asked_ns += packet.left_ns.wrapping_sub(line.last_ns.0).cast_signed();
            line.taken_ns += now_ns.wrapping_sub(line.last_ns.1).cast_signed();
            line.periods += u64::from(!line.is_counted);
        }
        line.is_counted = packet.busy == line.period;
        line.period = packet.busy;
        line.last_ns = (packet.left_ns, now_ns);
    }

    /// Records a packet's departure from the bottleneck, whether or not it arrives.
    #[inline]
    pub fn on_left(&mut self, direction: usize, packet: &Packet) {
        let time = &mut self.ways[direction];
        if packet.busy == time.last_left.0 {
            time.bytes += u64::from(packet.wire);
            time.model_ns += packet.left_ns.saturating_sub(time.last_left.1);
        }
        time.last_left = (packet.busy, packet.left_ns);
    }

    /// Requested and achieved rate of the busier direction, and the mean time by which its busy periods took longer, ns.
    fn rates(&self) -> (f64, f64, f64) {
        let [a, b] = &self.ways;
        let time = if a.bytes >= b.bytes { a } else { b };
        if time.model_ns == 0 {
            return (0.0, 0.0, 0.0);
        }
        let asked = time.bytes as f64 * 8e9 / time.model_ns as f64;
        let sum = |of: fn(&ArrivalTime) -> i64| time.lines.iter().map(of).sum::<i64>() as f64;
        let (asked_ns, taken_ns) = (sum(|line| line.asked_ns), sum(|line| line.taken_ns));
        let periods = time.lines.iter().map(|line| line.periods).sum::<u64>().max(1) as f64;
        let longer_ns = (taken_ns - asked_ns) / periods;
        (asked, if taken_ns > 0.0 { asked * asked_ns / taken_ns } else { 0.0 }, longer_ns)
    }

    /// Computes the verdict from the collected data and the caller's readings.
    pub fn verdict(&self, limits: Limits, delay_ms: f64, surroundings: &Readings) -> SelfCheck {
        let late = |q: f64| self.late.iter().map(|late| late.quantile(q)).fold(0.0, f64::max) / 1e3;
        let (asked_rate_bps, achieved_rate_bps, longer_ns) = self.rates();
        let mut check = SelfCheck {
            clean: true,
            faults: Vec::new(),
            limits,
            asked_rate_bps,
            achieved_rate_bps,
            asked_delay_ms: delay_ms,
            achieved_delay_ms: delay_ms + self.late.iter().map(Histogram::mean).sum::<f64>() / 1e6,
            late_p50_us: late(0.5),
            late_p99_us: late(0.99),
            late_max_us: late(1.0),
            packets: self.late.iter().map(Histogram::count).sum(),
            host_drops: self.no_room + surroundings.device_drops,
            steal: surroundings.steal,
            tcp_memory: surroundings.tcp_memory,
            emulator_cores: surroundings.cores,
            scheduler: surroundings.scheduler.clone(),
            attempts: 1,
        };
        check.judge(longer_ns);
        check
    }
}

impl SelfCheck {
    fn judge(&mut self, longer_ns: f64) {
        let limits = self.limits;
        let mut over = |what: &str, value: f64, limit: f64, unit: &str| {
            if value > limit {
                self.faults.push(format!("{what} {value:.1}{unit}, limit {limit:.1}{unit}"));
            }
        };
        over("lateness p99", self.late_p99_us, limits.late_p99_us, " µs");
        over("lateness max", self.late_max_us, limits.late_max_us, " µs");
        over("CPU steal", 100.0 * self.steal, 100.0 * limits.steal, " %");
        over("memory of the machine's TCP sockets", 100.0 * self.tcp_memory, 100.0 * limits.tcp_memory, " %");
        over("packets lost around the link:", self.host_drops as f64, 0.0, "");
        // In a busy period of milliseconds, a lateness within its limit is a large part of the time: its first packet waits
        // for the emulator to wake up, the others do not.
        let is_late = longer_ns.abs() > 1e3 * limits.late_p99_us;
        let is_off = self.asked_rate_bps > 0.0 && is_late;
        let error = if is_off { (self.achieved_rate_bps / self.asked_rate_bps - 1.0).abs() } else { 0.0 };
        over("rate off by", 100.0 * error, 100.0 * limits.rate_error, " %");
        self.clean = self.faults.is_empty();
    }

    /// Formats the figures as one line.
    pub fn line(&self) -> String {
        let verdict = if self.clean { "clean".to_owned() } else { self.faults.join("; ") };
        format!(
            "self-check: {verdict} (rate {} of {} Mbit/s, delay {:.3} of {:.3} ms, late p50 {:.0} p99 {:.0} max {:.0} µs, \
             steal {:.1} %, {:.2} cores, {})",
            mbit(self.achieved_rate_bps),
            mbit(self.asked_rate_bps),
            self.achieved_delay_ms,
            self.asked_delay_ms,
            self.late_p50_us,
            self.late_p99_us,
            self.late_max_us,
            100.0 * self.steal,
            self.emulator_cores,
            self.scheduler,
        )
    }
}

fn mbit(bps: f64) -> String {
    format!("{:.3}", bps / 1e6)
}

/// Readings taken around the emulator's run.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// Packets that the TUN devices dropped.
    pub device_drops: u64,
    /// Share of stolen CPU time.
    pub steal: f64,
    /// As [`TcpMemory::share`].
    pub tcp_memory: f64,
    /// The emulator's CPU time over the run's.
    pub cores: f64,
    /// `fifo` or `other`.
    pub scheduler: String,
}

/// The machine's CPU time since boot: stolen, and total.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTime {
    stolen: u64,
    all: u64,
}

impl CpuTime {
    /// Reads /proc/stat; zeros where it cannot be read.
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let ticks: Vec<u64> = text
            .lines()
            .next()
            .unwrap_or("")
            .split_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|n| n.parse().ok())
            .collect();
        Self { stolen: ticks.get(7).copied().unwrap_or(0), all: ticks.iter().sum() }
    }

    /// Share of CPU time stolen since `before`.
    pub fn steal_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        if all == 0 { 0.0 } else { self.stolen.saturating_sub(before.stolen) as f64 / all as f64 }
    }
}

/// Memory of all TCP sockets of the machine, pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpMemory {
    used: u64,
    /// Level below which the kernel never saves memory: the first number of `tcp_mem`.
    ample: u64,
}

impl TcpMemory {
    /// Reads /proc; zeros where it cannot be read.
    pub fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/net/sockstat"), &read("/proc/sys/net/ipv4/tcp_mem"))
    }

    fn parse(sockstat: &str, tcp_mem: &str) -> Self {
        let tcp = sockstat.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or("");
        let used = tcp.split_whitespace().skip_while(|word| *word != "mem").nth(1);
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).unwrap_or(0);
        Self { used: number(used), ample: number(tcp_mem.split_whitespace().next()) }
    }

    /// Memory used, as a share of the ample level; 0 if either is unknown.
    pub fn share(self) -> f64 {
        if self.ample == 0 { 0.0 } else { self.used as f64 / self.ample as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_other_connections_hold_is_a_fault() {
        let sockstat = "sockets: used 8\nTCP: inuse 1 orphan 17 tw 0 alloc 18 mem 330042\nUDP: inuse 0 mem 0\n";
        let memory = TcpMemory::parse(sockstat, "287898\t383867\t575796\n");
        assert_eq!((memory.used, memory.ample), (330_042, 287_898));
        let surroundings = Readings { tcp_memory: memory.share(), ..Readings::default() };
        let check = CheckSamples::default().verdict(Limits::for_rtt_us(1e6), 0.0, &surroundings);
        assert_eq!(check.faults, ["memory of the machine's TCP sockets 114.6 %, limit 100.0 %"]);
        assert_eq!(TcpMemory::parse("", "").share(), 0.0);
    }

    fn packet(busy: u32, left_ns: u64) -> Packet {
        Packet {
            buffer: 0,
            flow: 0,
            wire: 1250,
            busy,
            left_ns,
            line: 0,
            segment: 0,
            hop: 0,
            traffic_class: 0,
            ce: false,
            plain_ack: None,
        }
    }

    #[test]
    fn the_achieved_rate_counts_busy_periods_alone() {
        let mut gather = CheckSamples::default();
        // Two busy periods at 10 Mbit/s with a second of silence between them, everything 1 ms late.
        for (period, from) in [(1, 0), (2, 1_000_000_000)] {
            for i in 0..10 {
                let left = from + i * 1_000_000;
                gather.on_left(0, &packet(period, left));
                gather.on_delivered(0, left, left + 1_000_000, &packet(period, left));
            }
        }
        let check = gather.verdict(Limits::for_rtt_us(1e6), 0.0, &Readings::default());
        assert_eq!((check.asked_rate_bps, check.achieved_rate_bps), (10e6, 10e6));
        assert!(check.clean);
    }

    /// The last packet of ten is late; at 1 ms a packet, 200 µs are 2 % of the time.
    #[test]
    fn a_short_transfer_may_be_as_late_as_any_packet() {
        let check = |late_ns: u64| {
            let mut gather = CheckSamples::default();
            for i in 0..10 {
                let left = i * 1_000_000;
                gather.on_left(0, &packet(1, left));
                gather.on_delivered(0, left, left + if i == 9 { late_ns } else { 0 }, &packet(1, left));
            }
            gather.verdict(Limits { late_p99_us: 250.0, ..Limits::for_rtt_us(1e4) }, 0.0, &Readings::default())
        };
        assert!(check(200_000).clean, "{:?}", check(200_000).faults);
        assert!(check(300_000).faults.iter().any(|fault| fault.starts_with("rate off by")));
    }

    /// Bursts of `count` packets at 1 ms a packet, the first one late by a wake-up, the others by their share of `slow_ns`.
    fn bursts(count: u64, wake_ns: u64, slow_ns: u64) -> CheckSamples {
        let mut gather = CheckSamples::default();
        for burst in 0..100 {
            for i in 0..count {
                let left = (burst * 2 * count + i) * 1_000_000;
                let late = if i == 0 { wake_ns } else { slow_ns * i };
                let packet = packet(1 + burst as u32, left);
                gather.on_left(0, &packet);
                gather.on_delivered(0, left, left + late, &packet);
            }
        }
        gather
    }

    #[test]
    fn a_wake_up_before_each_burst_is_no_wrong_rate() {
        let limits = Limits { late_p99_us: 250.0, ..Limits::for_rtt_us(1e4) };
        let check = |samples: &CheckSamples| samples.verdict(limits, 0.0, &Readings::default());
        let woken = check(&bursts(5, 200_000, 0));
        assert!(woken.clean, "{:?}", woken.faults);
        // A hundredth too slow, and late as long as a burst is long.
        let slow = check(&bursts(50, 0, 10_000));
        assert!(slow.faults.iter().any(|fault| fault.starts_with("rate off by 1.0 %")), "{:?}", slow.faults);
    }

    #[test]
    fn a_stall_is_told_as_lateness_and_as_a_lower_rate() {
        let mut gather = CheckSamples::default();
        for i in 0..100 {
            let left = i * 1_000_000;
            let stall = if i >= 90 { 60_000_000 } else { 0 };
            gather.on_left(0, &packet(1, left));
            gather.on_delivered(0, left, left + stall, &packet(1, left));
        }
        let check = gather.verdict(Limits::for_rtt_us(40_000.0), 40.0, &Readings::default());
        assert!(!check.clean);
        assert_eq!(check.faults.len(), 3, "{:?}", check.faults);
    }
}
