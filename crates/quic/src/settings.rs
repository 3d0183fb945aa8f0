//! Settings of the controllers that a factory makes, the same for every stack.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{AlgorithmConfig, Controller, Init, Time};

/// Algorithm, seed and initial window of the controllers.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub config: AlgorithmConfig,
    pub seed: u64,
    /// Packets.
    pub initial_window: u32,
}

impl Settings {
    /// Takes the defaults: Linux's initial window.
    pub const fn new(config: AlgorithmConfig) -> Self {
        Self { config, seed: 1, initial_window: 10 }
    }

    /// Makes the controller of the `nth` connection, whose clock begins now.
    pub fn controller(&self, mss: u32, nth: u64) -> Controller {
        let mut init = Init::new(Time::ZERO).with_mss(mss).with_seed(self.seed.wrapping_add(nth));
        init.initial_cwnd = self.initial_window;
        Controller::new(&self.config, &init)
    }

    /// Bytes of the initial window.
    pub fn initial_bytes(&self, mss: u32) -> u64 {
        u64::from(self.initial_window) * u64::from(mss)
    }
}

/// The public setters of a factory with a field `settings`.
macro_rules! setters {
    () => {
        /// Sets the seed of the algorithms' random numbers, from which each connection derives its own. They prevent flows from
        /// probing in lockstep and need not be secret.
        #[must_use]
        pub const fn with_seed(mut self, seed: u64) -> Self {
            self.settings.seed = seed;
            self
        }

        /// Sets the packets of the initial window; the default is 10.
        #[must_use]
        pub const fn with_initial_window(mut self, packets: u32) -> Self {
            self.settings.initial_window = packets;
            self
        }
    };
}

pub(crate) use setters;
