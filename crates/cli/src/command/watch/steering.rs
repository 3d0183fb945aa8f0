//! Metrics of what gives connections their congestion control: the policy in force, and running A/B tests.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[cfg(any(feature = "host", feature = "parquet"))]
use std::sync::atomic::Ordering;
use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RuleLabels {
    rule: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ArmLabels {
    arm: String,
}

type Count<L> = Family<L, Counter<u64, AtomicU64>>;

/// Counters of the kernel's programs. Policies need the right to read their pin, usually root's.
#[derive(Default)]
pub struct Steering {
    rules: Count<RuleLabels>,
    withdrawn: Gauge<i64, AtomicI64>,
    is_in_force: Gauge<i64, AtomicI64>,
    arms: Count<ArmLabels>,
    refused: Count<ArmLabels>,
    shares: Family<ArmLabels, Gauge<f64, AtomicU64>>,
    tests: Gauge<i64, AtomicI64>,
    lost: Counter<u64, AtomicU64>,
}

impl Steering {
    pub fn register(&self, to: &mut Registry) {
        let text = "Connections that a rule of the policy took, by what became of them";
        to.register("policy_connections", text, self.rules.clone());
        to.register("policy_in_force", "1 while a policy is in force", self.is_in_force.clone());
        to.register("policy_withdrawn", "Rules that a guardrail has withdrawn", self.withdrawn.clone());
        to.register("ab_connections", "Connections of an arm of the running A/B tests", self.arms.clone());
        to.register("ab_refused", "Connections on which the kernel refused their arm", self.refused.clone());
        to.register("ab_share", "Share of new connections that an arm gets; 0 once it is stopped", self.shares.clone());
        to.register("ab_tests", "A/B tests that run", self.tests.clone());
        to.register("ab_lost_records", "Records that running A/B tests have lost", self.lost.clone());
    }

    /// A value for each metric.
    #[cfg(test)]
    pub fn pretend(&self) {
        self.rules.get_or_create(&RuleLabels { rule: "far".to_owned(), outcome: "set" }).inc();
        let labels = ArmLabels { arm: "cubic".to_owned() };
        self.arms.get_or_create(&labels).inc();
        self.refused.get_or_create(&labels).inc();
        self.shares.get_or_create(&labels).set(0.5);
    }

    /// Takes what the kernel and the tests' descriptions say now.
    pub fn read(&self) {
        #[cfg(feature = "host")]
        self.read_policy();
        #[cfg(feature = "parquet")]
        self.read_tests();
    }

    #[cfg(feature = "host")]
    fn read_policy(&self) {
        self.rules.clear();
        self.withdrawn.set(0);
        let force = bbrlab_host::policy::in_force(&bbrlab_host::host_paths::HostPaths::default()).ok().flatten();
        // A program that was taken from its cgroup decides on nothing.
        self.is_in_force.set(force.as_ref().is_some_and(|force| force.is_attached).into());
        let Some((force, counters)) =
            force.and_then(|force| Some((force.counters().ok()?, force))).map(|(c, f)| (f, c))
        else {
            return;
        };
        let withdrawn = force.described.policy.rules.iter().filter(|rule| rule.withdrawn.is_some());
        self.withdrawn.set(withdrawn.count() as i64);
        let names = force.described.policy.rules.iter().map(|rule| rule.name.as_str()).chain(["(no rule)"]);
        for (rule, count) in names.zip(counters) {
            let all = [
                ("set", count.set),
                ("held_out", count.held_out),
                ("refused", count.refused),
                ("chosen", count.chosen),
            ];
            for (outcome, value) in all {
                let labels = RuleLabels { rule: rule.to_owned(), outcome };
                self.rules.get_or_create(&labels).inner().store(value, Ordering::Relaxed);
            }
        }
    }

    #[cfg(feature = "parquet")]
    fn read_tests(&self) {
        use bbrlab_host::ab::{Entry, Folder};
        self.arms.clear();
        self.refused.clear();
        self.shares.clear();
        let folders = Entry::all().into_iter().map(|entry| Folder(entry.out)).filter(Folder::runs);
        let tests: Vec<_> = folders.filter_map(|folder| folder.experiment().ok()).collect();
        self.tests.set(tests.len() as i64);
        let lost = tests.iter().map(|test| test.counts.ring_lost + test.counts.disk_lost);
        self.lost.inner().store(lost.sum(), Ordering::Relaxed);
        for test in &tests {
            let shares = test.split().map(|change| change.shares.0.clone()).unwrap_or_default();
            for (nth, arm) in test.arms.iter().enumerate() {
                let labels = ArmLabels { arm: arm.label.clone() };
                let counts = test.counts.arms.get(nth).copied().unwrap_or_default();
                self.arms.get_or_create(&labels).inner().fetch_add(counts.established, Ordering::Relaxed);
                self.refused.get_or_create(&labels).inner().fetch_add(counts.refused, Ordering::Relaxed);
                let share = shares.get(nth).copied().unwrap_or(0);
                self.shares.get_or_create(&labels).set(f64::from(share) / 1e4);
            }
        }
    }
}
