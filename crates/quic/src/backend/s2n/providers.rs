//! Seeded providers that replace s2n-quic's use of the operating system's random numbers.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::convert::Infallible;

use bbrlab_core::Rng;
use s2n_quic::provider::connection_id::{ConnectionInfo, Generator as IdGenerator, LocalId, Validator};
use s2n_quic::provider::{random, stateless_reset_token};
use s2n_quic_core::stateless_reset::Token;

use crate::backend::tls::fill_from;

/// Length of connection IDs.
const ID_BYTES: usize = 16;

/// Generator of random numbers.
pub struct SeededRng(pub Rng);

impl random::Generator for SeededRng {
    fn public_random_fill(&mut self, bytes: &mut [u8]) {
        fill_from(&mut self.0, bytes);
    }
    fn private_random_fill(&mut self, bytes: &mut [u8]) {
        fill_from(&mut self.0, bytes);
    }
}

impl random::Provider for SeededRng {
    type Generator = Self;
    type Error = Infallible;

    fn start(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

/// Generator of connection IDs.
pub struct Ids(pub Rng);

impl IdGenerator for Ids {
    fn generate(&mut self, _connection: &ConnectionInfo) -> LocalId {
        let mut bytes = [0; ID_BYTES];
        fill_from(&mut self.0, &mut bytes);
        LocalId::try_from_bytes(&bytes).expect("its length is allowed")
    }
}

impl Validator for Ids {
    fn validate(&self, _connection: &ConnectionInfo, bytes: &[u8]) -> Option<usize> {
        (bytes.len() >= ID_BYTES).then_some(ID_BYTES)
    }
}

/// Generator of stateless-reset tokens, which is disabled.
pub struct Resets(pub Rng);

impl stateless_reset_token::Generator for Resets {
    const ENABLED: bool = false;

    fn generate(&mut self, _id: &[u8]) -> Token {
        let mut bytes = [0; 16];
        fill_from(&mut self.0, &mut bytes);
        bytes.into()
    }
}

impl stateless_reset_token::Provider for Resets {
    type Generator = Self;
    type Error = Infallible;

    fn start(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}
