//! The check before a run: whether a backend of this build runs a setup.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::backend::Backend;
use bbrlab_sim::scenario::support;
use bbrlab_sim::setup::Setup;

use crate::Result;
use crate::kernel::ours;
use crate::uml::launch;

/// Rejects a setup that a backend cannot run, with the value and the backends that can run it.
pub fn check(backend: Backend, setup: &Setup) -> Result<()> {
    support::check(backend, setup)?;
    match backend {
        Backend::Kernel => setup.flows.iter().try_for_each(ours::check),
        Backend::Uml => launch::check_modules(setup, launch::is_kernel_given()),
        Backend::Sim | Backend::Quic(_) => Ok(()),
    }
}
