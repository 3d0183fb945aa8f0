//! `struct tcp_info` and `tcp_bbr_info` as Linux writes them, by length: older kernels write less, newer ones more.
//! In: bytes from getsockopt or inet_diag. Out: plain fields. Never: a field that the kernel did not write, a panic.
//! Source: Linux `include/uapi/linux/tcp.h`, `inet_diag.h`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// What the kernel says of a TCP connection. A field that the kernel does not know is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// `TCP_ESTABLISHED` is 1.
    pub state: u8,
    /// Open 0, Disorder 1, CWR 2, Recovery 3, Loss 4.
    pub ca_state: u8,
    /// Segment size.
    pub snd_mss: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Of these, selectively acknowledged.
    pub sacked: u32,
    /// Of these, marked lost.
    pub lost: u32,
    /// Of these, sent again.
    pub retrans: u32,
    /// Smoothed RTT, µs.
    pub rtt: u32,
    /// Slow-start threshold, segments.
    pub snd_ssthresh: u32,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Segments sent again, in all.
    pub total_retrans: u32,
    /// Bytes a second; all ones without pacing.
    pub pacing_rate: u64,
    /// Payload bytes acknowledged.
    pub bytes_acked: u64,
    /// Payload bytes received in order.
    pub bytes_received: u64,
    /// Minimum RTT, µs.
    pub min_rtt: u32,
    /// Data segments sent.
    pub data_segs_out: u32,
    /// Newest delivery rate, bytes a second.
    pub delivery_rate: u64,
    /// Segments delivered.
    pub delivered: u32,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes sent again.
    pub bytes_retrans: u64,
    /// Segments that the receiver had already (DSACK).
    pub dsack_dups: u32,
    /// Retransmission time-outs (since Linux 6.7).
    pub total_rto: u16,
}

/// What BBR says of itself.
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
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

impl TcpInfo {
    /// Reads as much as is there.
    pub fn parse(bytes: &[u8]) -> Self {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        Self {
            state: byte(0),
            ca_state: byte(1),
            snd_mss: u32_at(bytes, 16),
            unacked: u32_at(bytes, 24),
            sacked: u32_at(bytes, 28),
            lost: u32_at(bytes, 32),
            retrans: u32_at(bytes, 36),
            rtt: u32_at(bytes, 68),
            snd_ssthresh: u32_at(bytes, 76),
            snd_cwnd: u32_at(bytes, 80),
            total_retrans: u32_at(bytes, 100),
            pacing_rate: u64_at(bytes, 104),
            bytes_acked: u64_at(bytes, 120),
            bytes_received: u64_at(bytes, 128),
            min_rtt: u32_at(bytes, 148),
            data_segs_out: u32_at(bytes, 156),
            delivery_rate: u64_at(bytes, 160),
            delivered: u32_at(bytes, 192),
            bytes_sent: u64_at(bytes, 200),
            bytes_retrans: u64_at(bytes, 208),
            dsack_dups: u32_at(bytes, 216),
            total_rto: u16_at(bytes, 240),
        }
    }

    /// Segments in flight, as Linux `tcp_packets_in_flight` counts them.
    pub const fn in_flight(&self) -> u32 {
        (self.unacked + self.retrans).saturating_sub(self.sacked + self.lost)
    }
}

impl BbrInfo {
    /// Reads the 20 bytes of mainline (a v3 kernel writes 52, which begin the same way); `None` for less.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= 20).then(|| Self {
            bw: u64::from(u32_at(bytes, 0)) | u64::from(u32_at(bytes, 4)) << 32,
            min_rtt: u32_at(bytes, 8),
            pacing_gain: u32_at(bytes, 12),
            cwnd_gain: u32_at(bytes, 16),
        })
    }
}
