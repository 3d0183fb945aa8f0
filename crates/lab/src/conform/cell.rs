//! Grid of rates and RTTs, and the variables of a cell that a case's expressions may use. Every case runs in every
//! cell; its rule defines the cell's meaning for it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::str::FromStr;

use bbrlab_sim::scenario::{BitRate, TextError, TimeSpan};
use bbrlab_sim::tcp::HEADER_BYTES;

/// Bottleneck rates, bit/s. The draft names the extremes; those between are ours.
const RATES: [u64; 5] = [64_000, 1_000_000, 20_000_000, 500_000_000, 10_000_000_000];
/// Two-way propagation times, µs. The draft requires less than 1 ms up to 1 s; those between are ours.
const RTTS_US: [u64; 4] = [500, 10_000, 100_000, 1_000_000];
/// Payload bytes of a packet: an Ethernet frame's, a jumbo frame's, and an offload burst's.
const MSS: [u32; 3] = [1_448, 8_948, 65_000];
/// Maximum packets of a run; a cell uses the smallest packet size that stays below. Ours: a fraction of a second's work
/// for two cores.
const PACKETS_MAX: f64 = 400_000.0;

/// A rate and an RTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Bottleneck rate, bit/s.
    pub rate: u64,
    /// Two-way propagation time, ns.
    pub rtt_ns: u64,
}

/// All cells, the lowest rate first.
pub fn grid() -> Vec<Cell> {
    let row = |rate: u64| RTTS_US.iter().map(move |us| Cell { rate, rtt_ns: us * 1000 });
    RATES.into_iter().flat_map(row).collect()
}

impl Cell {
    /// Formats the rate.
    pub fn rate_text(&self) -> String {
        BitRate(self.rate).to_string()
    }

    /// Formats the RTT.
    pub fn rtt_text(&self) -> String {
        TimeSpan(self.rtt_ns).to_string()
    }

    /// Smallest packet size that keeps a run of `seconds` affordable.
    pub(super) fn mss(&self, seconds: f64) -> u32 {
        let packets = |mss: u32| self.rate as f64 * seconds / 8.0 / f64::from(mss + HEADER_BYTES);
        let fits = MSS.into_iter().find(|mss| packets(*mss) <= PACKETS_MAX);
        fits.unwrap_or(MSS[MSS.len() - 1])
    }

    /// Variables of the cell for expressions.
    pub(super) fn variables(&self, mss: u32) -> Vec<(String, f64)> {
        let (rate, rtt) = (self.rate as f64, self.rtt_ns as f64 * 1e-9);
        let wire = f64::from(mss + HEADER_BYTES);
        let packet = wire * 8.0 / rate;
        let pipe = (rtt + packet) / packet;
        // Minimum in flight, and so the round trip of a flow on a path with a smaller BDP.
        let turn = (rtt + packet).max(4.0 * packet);
        let named = [
            ("rate", rate),
            ("rtt", rtt),
            ("mss", f64::from(mss)),
            ("wire", wire),
            ("packet", packet),
            ("pipe", pipe),
            ("turn", turn),
            ("payload", rate * f64::from(mss) / wire),
            ("deep", (8.0 * pipe + 200.0) * wire),
            // Upper bound on Startup and Drain: doublings, three rounds, and the ProbeRTTs in between.
            (
                "startup",
                (rtt + packet).max(10.0 * packet) * (24.0 + (pipe / 5.0).max(1.0).log2() * 4.0) + 150.0 * packet,
            ),
        ];
        named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.rate_text(), self.rtt_text())
    }
}

impl FromStr for Cell {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let (rate, rtt) = text
            .split_once('/')
            .ok_or_else(|| TextError(format!("{text:?} is not a cell; write RATE/RTT, as in 20mbit/100ms")))?;
        let cell = Self { rate: rate.parse::<BitRate>()?.0, rtt_ns: rtt.parse::<TimeSpan>()?.0 };
        if grid().contains(&cell) {
            return Ok(cell);
        }
        let list = |texts: Vec<String>| texts.join(", ");
        let rates = list(RATES.iter().map(|rate| BitRate(*rate).to_string()).collect());
        let rtts = list(RTTS_US.iter().map(|us| TimeSpan(us * 1000).to_string()).collect());
        Err(TextError(format!("{text:?} is not in the grid; it has the rates {rates} and the RTTs {rtts}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_reaches_to_both_extremes_that_the_draft_names() {
        let cells = grid();
        let (min, max) = (cells[0], cells[cells.len() - 1]);
        assert_eq!((min.rate, max.rate), (64_000, 10_000_000_000));
        assert!(
            cells.iter().any(|cell| cell.rtt_ns < 1_000_000) && cells.iter().any(|cell| cell.rtt_ns == 1_000_000_000)
        );
        assert_eq!(cells.len(), 20);
    }

    #[test]
    fn packets_grow_only_where_a_run_would_have_too_many() {
        let cell = |text: &str| text.parse::<Cell>().unwrap();
        assert_eq!(cell("20mbit/100ms").mss(30.0), 1_448);
        assert_eq!(cell("500mbit/100ms").mss(30.0), 8_948);
        assert_eq!(cell("10gbit/1s").mss(30.0), 65_000);
    }

    #[test]
    fn a_cell_reads_back_from_its_text_and_a_stranger_is_refused() {
        for cell in grid() {
            assert_eq!(cell.to_string().parse(), Ok(cell));
        }
        assert!("1kbit/1s".parse::<Cell>().unwrap_err().0.contains("64kbit"));
        assert!("fast".parse::<Cell>().is_err());
    }
}
