//! A test that assigns nothing: it compares the clients that a rule of the policy in force holds out with the others that the rule takes.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::PathBuf;

use bbrlab_study::ab::{Arm, AssignmentUnit, Key, PrefixLengths, Shares, labels};

use super::{Direction, TestRequest};
use crate::host_paths::HostPaths;
use crate::policy::{self, AppliedPolicy};
use crate::{Error, Result, kernel};

/// Shares of a policy are counted in hundredths of a per cent.
const WHOLE: u32 = 10_000;

/// The observed rule, and the policy to which it belongs.
pub(super) struct ObservedRule {
    pub policy: AppliedPolicy,
    pub nth: u32,
    pub arms: Vec<Arm>,
}

impl ObservedRule {
    /// Finds a rule of the policy in force, and completes the request by what the policy says.
    pub fn find(name: &str, request: &mut TestRequest) -> Result<Self> {
        let policy = policy::in_force(&HostPaths::default())?.ok_or(Error::NoPolicy)?;
        let described = &policy.described;
        let found = described.policy.rules.iter().enumerate().find(|(_, rule)| rule.name == name);
        let (nth, rule) = found.ok_or_else(|| policy.no_rule(name))?;
        let nothing = |why: String| Error::NothingToCompare { name: name.to_owned(), why };
        if let Some(why) = &rule.withdrawn {
            return Err(nothing(format!(
                "was withdrawn: {why}; `policy apply FILE --reinstate` puts it in force again"
            )));
        }
        if rule.holdout == 0 {
            return Err(nothing(
                "holds no client out, so there is nothing to compare with; give it a holdout".to_owned(),
            ));
        }
        if rule.holdout == WHOLE {
            return Err(nothing("holds all clients out; give it a smaller holdout".to_owned()));
        }
        if !policy.is_attached {
            return Err(nothing("its policy is no longer attached to its cgroup; apply it again".to_owned()));
        }
        let control = described.policy.default.clone().map_or_else(kernel::default, Ok)?;
        request.algorithms = vec![control, rule.algorithm.clone()];
        request.shares = Shares(vec![rule.holdout, WHOLE - rule.holdout]);
        request.cgroup = Some(PathBuf::from(&described.cgroup));
        request.ports.clone_from(&rule.ports);
        request.prefixes = Vec::new();
        request.direction = match described.policy.direction {
            policy::Direction::In => Direction::In,
            policy::Direction::Out => Direction::Out,
            policy::Direction::Both => Direction::Both,
        };
        request.by = AssignmentUnit::ClientPrefix;
        request.keep = PrefixLengths::default();
        request.key = Some(Key(described.key));
        let known = |algorithm: &String| described.names.iter().find(|(own, _)| own == algorithm);
        let arm = |(algorithm, label): (&String, String)| Arm {
            label,
            algorithm: algorithm.clone(),
            name: known(algorithm).map_or_else(|| algorithm.clone(), |(_, name)| name.clone()),
            is_loaded_for_it: false,
        };
        let arms = request.algorithms.iter().zip(labels(&request.algorithms)).map(arm).collect();
        Ok(Self { nth: nth as u32, arms, policy })
    }

    /// True while the observed policy is attached.
    pub fn is_in_force(&self) -> bool {
        let now = policy::in_force(&HostPaths::default()).ok().flatten();
        now.is_some_and(|now| now.is_attached && now.program == self.policy.program)
    }
}
