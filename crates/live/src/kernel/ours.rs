//! Congestion controls of a run on this host's kernel. Its own are used by name, ours are loaded for the run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::AlgorithmConfig;
use bbrlab_sim::setup::{FlowSetup, Setup};

use crate::{Error, Result, socket};

/// Names that the flows pass to `TCP_CONGESTION`.
#[derive(Debug)]
pub struct Controls {
    /// One per flow.
    pub names: Vec<String>,
    // Registered until dropped; connections that still live then continue, but the name is gone.
    #[cfg(feature = "host")]
    _registered: Vec<bbrlab_host::program::Registered>,
}

/// Rejects a flow whose algorithm this build cannot load.
pub fn check(flow: &FlowSetup) -> Result<()> {
    if flow.kernels_own().is_some() || cfg!(feature = "host") {
        return Ok(());
    }
    Err(Error::NoProgram { flow: flow.name.clone(), algorithm: flow.algorithm.name() })
}

impl Controls {
    /// Loads the algorithms that the kernel lacks.
    pub fn of(setup: &Setup) -> Result<Self> {
        let mut ours: Vec<AlgorithmConfig> = Vec::new();
        let mut names = Vec::new();
        for flow in &setup.flows {
            names.push(match flow.kernels_own() {
                Some(cc) if socket::has_congestion_control(cc).map_err(Error::io("sockets"))? => cc.to_owned(),
                Some(cc) => return Err(Error::NoKernelAlgorithm { flow: flow.name.clone(), cc }),
                None => {
                    let known = ours.iter().position(|one| *one == flow.algorithm);
                    let nth = known.unwrap_or_else(|| {
                        ours.push(flow.algorithm);
                        ours.len() - 1
                    });
                    own_name(nth)
                }
            });
        }
        Self::load(&ours, names)
    }

    #[cfg(feature = "host")]
    fn load(ours: &[AlgorithmConfig], names: Vec<String>) -> Result<Self> {
        let load = |(nth, config)| bbrlab_host::program::Program::load(config, &own_name(nth))?.register();
        Ok(Self { names, _registered: ours.iter().enumerate().map(load).collect::<bbrlab_host::Result<_>>()? })
    }

    #[cfg(not(feature = "host"))]
    fn load(ours: &[AlgorithmConfig], names: Vec<String>) -> Result<Self> {
        match ours.first() {
            None => Ok(Self { names }),
            Some(config) => Err(Error::NotLoadable { algorithm: config.name() }),
        }
    }
}

/// A name that no other process of ours uses.
pub fn own_name(nth: usize) -> String {
    format!("lab{nth}.{}", std::process::id())
}
