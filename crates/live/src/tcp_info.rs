//! `struct tcp_info` and `tcp_bbr_info` of Linux, parsed by length: older kernels write less, newer ones more.
//! A field that the kernel did not write is not reported.
//! Source: Linux `include/uapi/linux/tcp.h`, `inet_diag.h`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Declares [`TcpInfo`]: name, type, offset in the kernel's structure, meaning.
macro_rules! tcp_info {
    ($($name:ident: $type:ident = $at:literal, $doc:literal;)*) => {
        /// Kernel state of a TCP connection. A field that the kernel did not write is 0: see [`TcpInfo::has`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct TcpInfo {
            /// Number of bytes that the kernel wrote.
            pub length: usize,
            $(#[doc = $doc] pub $name: $type,)*
        }

        impl TcpInfo {
            /// Every field: name, offset, size.
            pub const FIELDS: &'static [(&'static str, usize, usize)] =
                &[$((stringify!($name), $at, size_of::<$type>()),)*];

            /// Parses as much as is present. A partly written field counts as absent.
            pub fn parse(bytes: &[u8]) -> Self {
                Self { length: bytes.len(), $($name: at::<$type, _>(bytes, $at, $type::from_ne_bytes),)* }
            }
        }
    };
}

tcp_info! {
    state: u8 = 0, "`TCP_ESTABLISHED` is 1.";
    ca_state: u8 = 1, "Open 0, Disorder 1, CWR 2, Recovery 3, Loss 4.";
    retransmits: u8 = 2, "Time-outs in a row so far.";
    probes: u8 = 3, "Window probes unanswered.";
    backoff: u8 = 4, "Exponent of the time-out's back-off.";
    options: u8 = 5, "1 timestamps, 2 SACK, 4 window scaling, 8 ECN, 16 ECN seen, 32 SYN data.";
    wscale: u8 = 6, "Window scales: the sender's in the low four bits, the receiver's in the high ones.";
    flags: u8 = 7, "1: the newest delivery rate is the application's; 2 and 4: why TCP Fast Open failed.";
    rto: u32 = 8, "Retransmission time-out, µs.";
    ato: u32 = 12, "Delayed-ACK time, µs.";
    snd_mss: u32 = 16, "Segment size.";
    rcv_mss: u32 = 20, "The peer's segment size.";
    unacked: u32 = 24, "Segments sent and not acknowledged.";
    sacked: u32 = 28, "Of these, selectively acknowledged.";
    lost: u32 = 32, "Of these, marked lost.";
    retrans: u32 = 36, "Of these, retransmitted.";
    last_data_sent: u32 = 44, "Since data was sent, ms.";
    last_data_recv: u32 = 52, "Since data came, ms.";
    last_ack_recv: u32 = 56, "Since an ACK came, ms.";
    pmtu: u32 = 60, "Path MTU, bytes.";
    rcv_ssthresh: u32 = 64, "Bound on the window offered, bytes.";
    rtt: u32 = 68, "Smoothed RTT, µs.";
    rttvar: u32 = 72, "Its mean deviation, µs.";
    snd_ssthresh: u32 = 76, "Slow-start threshold, segments.";
    snd_cwnd: u32 = 80, "Congestion window, segments.";
    advmss: u32 = 84, "Segment size announced to the peer.";
    reordering: u32 = 88, "Reordering that is tolerated, segments.";
    rcv_rtt: u32 = 92, "RTT estimated at the receiver, µs.";
    rcv_space: u32 = 96, "Bytes that the application took in that time.";
    total_retrans: u32 = 100, "Segments retransmitted, in total.";
    pacing_rate: u64 = 104, "Bytes a second; all ones without pacing.";
    max_pacing_rate: u64 = 112, "Its bound, `SO_MAX_PACING_RATE`.";
    bytes_acked: u64 = 120, "Payload bytes acknowledged.";
    bytes_received: u64 = 128, "Payload bytes received in order.";
    segs_out: u32 = 136, "Segments sent.";
    segs_in: u32 = 140, "Segments received.";
    notsent_bytes: u32 = 144, "Bytes written and never sent.";
    min_rtt: u32 = 148, "Minimum RTT, µs.";
    data_segs_in: u32 = 152, "Data segments received.";
    data_segs_out: u32 = 156, "Data segments sent.";
    delivery_rate: u64 = 160, "Newest delivery rate, bytes a second.";
    busy_time: u64 = 168, "Time with data to send, µs.";
    rwnd_limited: u64 = 176, "Of that, limited by the receive window, µs.";
    sndbuf_limited: u64 = 184, "Of that, limited by the send buffer, µs.";
    delivered: u32 = 192, "Segments delivered.";
    delivered_ce: u32 = 196, "Of these, marked congestion experienced.";
    bytes_sent: u64 = 200, "Payload bytes sent, retransmissions included.";
    bytes_retrans: u64 = 208, "Payload bytes retransmitted.";
    dsack_dups: u32 = 216, "Segments that the receiver already had (DSACK).";
    reord_seen: u32 = 220, "Reorderings seen.";
    rcv_ooopack: u32 = 224, "Segments that came out of order.";
    snd_wnd: u32 = 228, "Window that the peer offers, bytes.";
    rcv_wnd: u32 = 232, "Window offered to the peer, bytes (since Linux 6.2).";
    rehash: u32 = 236, "New paths tried (PLB and time-outs).";
    total_rto: u16 = 240, "Retransmission time-outs (since Linux 6.7).";
    total_rto_recoveries: u16 = 242, "Episodes of them.";
    total_rto_time: u32 = 244, "Time in these episodes, ms.";
}

/// Reads a number of `N` bytes at `place`; 0 if it is not complete.
fn at<T: Default, const N: usize>(bytes: &[u8], place: usize, read: fn([u8; N]) -> T) -> T {
    let there = place.checked_add(N).and_then(|end| bytes.get(place..end)).and_then(|part| part.try_into().ok());
    there.map_or_else(T::default, read)
}

impl TcpInfo {
    /// True if the kernel wrote this field.
    pub fn has(&self, name: &str) -> bool {
        Self::FIELDS.iter().any(|(known, place, size)| *known == name && place + size <= self.length)
    }

    /// Segments in flight, as Linux `tcp_packets_in_flight` counts them.
    pub const fn in_flight(&self) -> u32 {
        self.unacked.saturating_add(self.retrans).saturating_sub(self.sacked.saturating_add(self.lost))
    }
}

/// Bytes written by mainline's BBR.
const BBR_BYTES: usize = 20;
/// Bytes written by BBRv3 of Google's kernels.
const BBR3_BYTES: usize = 52;

/// Figures reported by BBR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BbrInfo {
    /// Bandwidth estimate, bytes a second.
    pub bw: u64,
    /// Minimum RTT, µs.
    pub min_rtt: u32,
    /// Pacing gain, in 1/256.
    pub pacing_gain: u32,
    /// Window gain, in 1/256.
    pub cwnd_gain: u32,
    /// Figures that only BBRv3 reports.
    pub v3: Option<Bbr3Info>,
}

/// Additional figures of BBRv3 in Google's kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bbr3Info {
    /// Maximum recent bandwidth, bytes a second.
    pub bw_hi: u64,
    /// Short-term bound on the bandwidth, bytes a second; all ones for none.
    pub bw_lo: u64,
    /// State machine: 0 STARTUP, 1 DRAIN, 2 PROBE_BW, 3 PROBE_RTT.
    pub mode: u8,
    /// Current phase.
    pub phase: Bbr3Phase,
    /// Version of the algorithm.
    pub version: u8,
    /// Short-term bound on the data in flight, segments; all ones for none.
    pub inflight_lo: u32,
    /// Long-term bound on the data in flight, segments; all ones for none.
    pub inflight_hi: u32,
    /// Allowance for aggregated ACKs, segments.
    pub extra_acked: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bbr3Phase {
    /// Not reported, or a number unknown to this code.
    #[default]
    Unknown,
    /// Doubles the rate every round.
    Startup,
    /// Drains the queue that Startup built.
    Drain,
    /// Measures the path's minimum RTT.
    ProbeRtt,
    /// Probes for bandwidth.
    ProbeBwUp,
    ProbeBwDown,
    /// Cruises between probes, with headroom.
    ProbeBwCruise,
    /// Refills the pipe before probing for bandwidth.
    ProbeBwRefill,
}

impl Bbr3Phase {
    const fn of(number: u8) -> Self {
        match number {
            1 => Self::Startup,
            2 => Self::Drain,
            3 => Self::ProbeRtt,
            4 => Self::ProbeBwUp,
            5 => Self::ProbeBwDown,
            6 => Self::ProbeBwCruise,
            7 => Self::ProbeBwRefill,
            _ => Self::Unknown,
        }
    }
}

impl BbrInfo {
    /// Parses the 20 bytes of mainline or the 52 of a v3 kernel, which share a prefix; `None` for less.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let u32_at = |place| at(bytes, place, u32::from_ne_bytes);
        let u64_at = |place| u64::from(u32_at(place)) | u64::from(u32_at(place + 4)) << 32;
        let byte = |place| at(bytes, place, u8::from_ne_bytes);
        (bytes.len() >= BBR_BYTES).then(|| Self {
            bw: u64_at(0),
            min_rtt: u32_at(8),
            pacing_gain: u32_at(12),
            cwnd_gain: u32_at(16),
            v3: (bytes.len() >= BBR3_BYTES).then(|| Bbr3Info {
                bw_hi: u64_at(20),
                bw_lo: u64_at(28),
                mode: byte(36),
                phase: Bbr3Phase::of(byte(37)),
                version: byte(39),
                inflight_lo: u32_at(40),
                inflight_hi: u32_at(44),
                extra_acked: u32_at(48),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_core::Rng;

    #[test]
    fn fields_stand_in_order_without_overlap() {
        let mut end = 0;
        for (name, place, size) in TcpInfo::FIELDS {
            assert!(*place >= end && place % size == 0, "{name} at {place}");
            end = place + size;
        }
        assert_eq!(end, 248);
    }

    /// Goal: fields that an older kernel does not write are 0 and known to be absent; the rest is unchanged.
    #[test]
    fn a_shorter_answer_is_a_prefix_of_the_longer() {
        let mut rng = Rng::new(1);
        let whole: Vec<u8> = (0..300).map(|_| rng.next_u64() as u8).collect();
        for length in 0..whole.len() {
            let info = TcpInfo::parse(&whole[..length]);
            assert_eq!(info.length, length);
            assert_eq!(info.has("min_rtt"), length >= 152);
            let expected = if length >= 152 { u32::from_ne_bytes(whole[148..152].try_into().unwrap()) } else { 0 };
            assert_eq!(info.min_rtt, expected);
            let _ = info.in_flight();
        }
    }

    #[test]
    fn bbr_is_read_by_its_length() {
        let bytes: Vec<u8> = (1..=60).collect();
        let word = |place: usize| u32::from_ne_bytes(bytes[place..place + 4].try_into().unwrap());
        for length in 0..bytes.len() {
            let info = BbrInfo::parse(&bytes[..length]);
            assert_eq!(info.is_some(), length >= 20, "{length}");
            let Some(info) = info else { continue };
            assert_eq!((info.min_rtt, info.cwnd_gain), (word(8), word(16)));
            assert_eq!(info.v3.is_some(), length >= 52, "{length}");
            if let Some(v3) = info.v3 {
                assert_eq!((v3.mode, v3.version, v3.inflight_lo, v3.extra_acked), (37, 40, word(40), word(48)));
            }
        }
    }

    #[test]
    fn every_phase_has_its_number() {
        assert_eq!(Bbr3Phase::of(4), Bbr3Phase::ProbeBwUp);
        assert_eq!(Bbr3Phase::of(7), Bbr3Phase::ProbeBwRefill);
        assert_eq!(Bbr3Phase::of(0), Bbr3Phase::Unknown);
        assert_eq!(Bbr3Phase::of(255), Bbr3Phase::Unknown);
    }
}
