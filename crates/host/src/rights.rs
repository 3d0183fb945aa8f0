//! Capabilities of this process: a command that runs for long keeps only what it needs to go on and to end.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::prctl::set_no_new_privs;

use crate::{Error, Result};

/// For programs, maps and links of the kernel, their registration and their pins, and for the network namespaces of other users'
/// processes, whose connections move to the default when an algorithm is unloaded.
const KERNEL: [Capability; 5] = [
    Capability::CAP_BPF,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_SYS_PTRACE,
];

/// A command that runs for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// An A/B test, which writes to a folder that may be another user's.
    Test,
    /// An exporter, which listens on any port and reads pins and a token.
    Exporter,
}

impl Service {
    /// Returns the capabilities that it keeps.
    pub fn kept(self) -> CapsHashSet {
        let own: &[Capability] = match self {
            Self::Test => &[Capability::CAP_DAC_OVERRIDE],
            Self::Exporter => &[Capability::CAP_DAC_READ_SEARCH, Capability::CAP_NET_BIND_SERVICE],
        };
        KERNEL.iter().chain(own).copied().collect()
    }

    /// Drops all other capabilities for good, programs that it might execute included. Must be called before any thread begins:
    /// each thread has capabilities of its own.
    pub fn drop_others(self) -> Result<()> {
        let kept = self.kept();
        let has = caps::read(None, CapSet::Permitted).map_err(|fault| Error::Rights(Box::new(fault)))?;
        let left: CapsHashSet = has.intersection(&kept).copied().collect();
        let drop = || {
            // Only who may set capabilities can shrink the bounding set; no new ones can be had without it either.
            if has.contains(&Capability::CAP_SETPCAP) {
                for one in caps::runtime::thread_all_supported().difference(&kept) {
                    caps::drop(None, CapSet::Bounding, *one)?;
                }
            }
            caps::clear(None, CapSet::Inheritable)?;
            caps::set(None, CapSet::Effective, &left)?;
            caps::set(None, CapSet::Permitted, &left)
        };
        drop().map_err(|fault| Error::Rights(Box::new(fault)))?;
        set_no_new_privs().map_err(|fault| Error::Rights(fault.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_loses_what_it_does_not_need() {
        // Capabilities are a thread's own.
        let left = std::thread::spawn(|| {
            Service::Exporter.drop_others().unwrap();
            [CapSet::Effective, CapSet::Permitted].map(|set| caps::read(None, set).unwrap())
        });
        for set in left.join().unwrap() {
            assert!(set.is_subset(&Service::Exporter.kept()), "{set:?}");
        }
        assert!(!Service::Test.kept().contains(&Capability::CAP_SETUID));
    }
}
