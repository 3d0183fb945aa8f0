//! bbr-lab: the draft's BBRv3 with rules on the queue, and their parameters.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::queue::Queue;
use super::rules::Edition;
use super::{Bbr3, Bbr3Params, Lab};
use crate::event::Init;
use crate::params::{MAX_PARAMS, ParamError, collect, params};

params! {
    /// The parameters of bbr-lab's own rules. Gains and shares are in 1/25600.
    QueueParams {
        /// Queue that the window aims at between probes, at most a quarter of the minimum RTT; 0 switches every rule off: v3.
        queue_aim: Micros = 1_500, 0, 1_000_000, "ours: of 1, 1.25, 1.5, 2 ms on the design sets";
        /// Number of aims that the queue of a whole round may reach before a probe ends; 0 for v3's probe.
        probe_queue: Count = 5, 0, 100, "ours: of 2, 3, 4, 5, 6 on the design sets";
        /// Share of the path's RTT above which a queue may be a competitor's; 0: no flow is one.
        competitor_queue: FineShare = 5_120, 0, 25_600, "ours: of 15, 20, 25, 30 % on the design sets";
        /// Rounds with such a queue that show a competitor, and rounds without that show its end.
        competitor_rounds: Rounds = 5, 1, 1_000, "ours: of 4, 5, 6, 8, 12 on the design sets";
        /// RTT below which a flow yields no faster than one of this RTT, and window in which a longer round looks for a queue.
        even_rtt: Micros = 40_000, 0, 1_000_000, "ours: of 30, 40, 60 ms on the design sets";
        /// Largest share of loss without a queue that is added to `loss_thresh`; 0: none.
        random_loss: FineShare = 2_560, 0, 12_800, "ours: twice the largest loss of set 0";
        /// BDP below which no loss counts as random.
        random_loss_bdp: Packets = 32, 0, 1_000, "ours: of 16, 24, 32, by the drops of 30 and 60 flows";
        /// Share above the minimum RTT up to which an RTT postpones ProbeRTT; 0 for the draft's ProbeRTT.
        min_rtt_tolerance: FineShare = 768, 0, 12_800, "ours: of 3, 5 % on the design sets";
    }
}

/// The parameters of bbr-lab: those of its own rules, and the draft's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabParams {
    queue: QueueParams,
    base: Bbr3Params,
}

impl Default for LabParams {
    fn default() -> Self {
        Self { queue: QueueParams::default(), base: Bbr3Params::of(Edition::Lab) }
    }
}

impl LabParams {
    /// The parameters of bbr-lab's own rules.
    pub const fn queue(&self) -> &QueueParams {
        &self.queue
    }

    /// The draft's part of the parameters.
    pub const fn base(&self) -> &Bbr3Params {
        &self.base
    }

    /// Sets one parameter from text.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError> {
        match self.queue.set(name, text) {
            Err(ParamError::Unknown) => self.base.set_for(Edition::Lab, name, text),
            done => done,
        }
    }

    /// Every present value, in the order of the tables: bbr-lab's own, then the draft's.
    pub(crate) fn values(&self) -> [u32; MAX_PARAMS] {
        collect(self.queue.values().chain(self.base.values()))
    }
}

impl Bbr3<Lab> {
    /// Creates a flow of bbr-lab that begins now.
    pub fn lab(params: &LabParams, init: &Init) -> Self {
        let mut bbr = Self::new(&params.base, init);
        bbr.queue = Queue { p: params.queue, ..Queue::NONE };
        bbr
    }
}
