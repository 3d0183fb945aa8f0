//! `bbrlab host policy`: which new connections of this host get which congestion control.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{Error, Verdict};

/// Arguments of `bbrlab host policy`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        sudo bbrlab host policy apply /etc/bbrlab/policy.toml --dry-run\n  \
        sudo bbrlab host policy apply /etc/bbrlab/policy.toml\n  \
        sudo bbrlab host policy status\n  \
        sudo bbrlab host policy explain 192.0.2.7:443 --rtt 90ms\n  \
        sudo bbrlab host policy remove\n\n\
        docs/policy.md describes the file. Needs Linux 6.1 or later with BTF, cgroup v2, and root.")]
pub struct PolicyArgs {
    #[command(subcommand)]
    pub what: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Put a policy in force, or replace the one that is, from the next connection on
    Apply(ApplyArgs),
    /// Show what each rule does
    Status(StatusArgs),
    /// Tell which rule takes a client, and why the others do not
    Explain(ExplainArgs),
    /// Take the policy out of force; connections keep their congestion control if the kernel still has it
    Remove,
}

#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The policy
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print what it would do to the connections of now, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Put rules in force again that a guardrail has withdrawn
    #[arg(long)]
    pub reinstate: bool,
    /// Decide on connections of this cgroup and those below it, by a name below the root of version 2 [default: all]
    #[arg(long, value_name = "NAME")]
    pub cgroup: Option<String>,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The client, with the port of the service: 192.0.2.7, 192.0.2.7:443 or [2001:db8::1]:443
    #[arg(value_name = "ADDRESS[:PORT]", value_parser = client)]
    pub client: Client,
    /// RTT of its handshake; without it, a rule's condition on the RTT is taken as met
    #[arg(long, value_name = "TIME")]
    pub rtt: Option<String>,
    /// Cgroup of the service; without it, a rule's condition on the cgroup is taken as met
    #[arg(long, value_name = "NAME")]
    pub cgroup: Option<String>,
}

/// A client's address, and the port of the service.
pub type Client = (IpAddr, Option<u16>);

fn client(text: &str) -> Result<Client, String> {
    let with_port = || text.parse::<SocketAddr>().map(|one| (one.ip(), Some(one.port())));
    let alone = |_| text.parse::<IpAddr>().map(|address| (address, None));
    with_port().or_else(alone).map_err(|_| "write 192.0.2.7, 192.0.2.7:443 or [2001:db8::1]:443".to_owned())
}

#[cfg(not(feature = "host"))]
pub fn policy(args: &PolicyArgs) -> Result<Verdict, Error> {
    if let PolicyCommand::Apply(args) = &args.what {
        bbrlab_host::policy::read(&args.file)?;
    }
    Err(Error::NoLoader)
}

#[cfg(feature = "host")]
pub use with_host::policy;

#[cfg(feature = "host")]
mod with_host {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;
    use std::path::Path;

    use bbrlab_host::clock;
    use bbrlab_host::host_paths::HostPaths;
    use bbrlab_host::policy::{self, AppliedPolicy, Candidate, Counters, Mismatch, Policy, Rule};
    use bbrlab_live::watch::{ConnectionState, Filter, Watcher, listening};
    use bbrlab_stats::median;
    use bbrlab_stats::number::hundredths;
    use bbrlab_stats::plural::counted;

    use super::*;
    use crate::command::host::with;
    use crate::grid::{Align, aligned};
    use crate::print;

    /// Runs the requested subcommand.
    pub fn policy(args: &PolicyArgs) -> Result<Verdict, Error> {
        match &args.what {
            PolicyCommand::Apply(args) if args.dry_run => preview(&args.file),
            PolicyCommand::Apply(args) => apply(args),
            PolicyCommand::Status(args) => status(args.json),
            PolicyCommand::Explain(args) => explain(args),
            PolicyCommand::Remove => remove(),
        }
    }

    fn apply(args: &ApplyArgs) -> Result<Verdict, Error> {
        let written = policy::read(&args.file)?;
        let done = with(|host| policy::apply(host, &written, args.cgroup.as_deref(), args.reinstate))?;
        let mut text = format!(
            "{} with {} in force{}, from the next connection on",
            counted(written.policy.rules.len(), "rule"),
            counted(written.networks.len(), "network"),
            if done.replaced { ", in the place of the one before" } else { "" }
        );
        let changes = [
            ("loaded", &done.loaded),
            ("unloaded", &done.unloaded),
            ("still withdrawn, see --reinstate", &done.withdrawn),
        ];
        for (what, names) in changes {
            if !names.is_empty() {
                let _ = write!(text, "; {what}: {}", names.join(", "));
            }
        }
        print(&format!("{text}. Undo: bbrlab host policy remove\n"))
    }

    fn remove() -> Result<Verdict, Error> {
        match with(policy::remove)? {
            None => print("no policy is in force\n"),
            Some(done) if done.unloaded.is_empty() => print("the policy is no longer in force\n"),
            Some(done) => print(&format!("the policy is no longer in force; unloaded: {}\n", done.unloaded.join(", "))),
        }
    }

    fn in_force() -> Result<AppliedPolicy, Error> {
        Ok(policy::in_force(&HostPaths::default())?.ok_or(bbrlab_host::Error::NoPolicy)?)
    }

    /// The connections of now, by the rule that takes each, and last those that none takes.
    struct Live {
        by_rule: Vec<Vec<ConnectionState>>,
    }

    impl Live {
        fn of(policy: &Policy, rules_of: impl Fn(IpAddr) -> Result<u64, Error>) -> Result<Self, Error> {
            let listening = listening()?;
            let mut by_rule = vec![Vec::new(); policy.rules.len() + 1];
            for one in Watcher::default().sample(&Filter::default())? {
                let candidate = candidate(&one, &listening);
                let rule = policy.rule_of(&candidate, rules_of(candidate.client)?).unwrap_or(policy.rules.len());
                by_rule[rule].push(one);
            }
            Ok(Self { by_rule })
        }
    }

    /// A live connection as a rule sees it; its cgroup is not known.
    fn candidate(one: &ConnectionState, listening: &BTreeSet<u16>) -> Candidate {
        let is_passive = listening.contains(&one.local.port());
        let rtt_ms = one.min_rtt_ms.unwrap_or(one.rtt_ms);
        Candidate {
            client: one.remote.ip(),
            port: Some(if is_passive { one.local.port() } else { one.remote.port() }),
            rtt_us: (rtt_ms * 1e3) as u32,
            cgroup: None,
        }
    }

    fn preview(file: &Path) -> Result<Verdict, Error> {
        let written = policy::read(file)?;
        let policy = &written.policy;
        let live = Live::of(policy, |client| Ok(written.networks.rules_of(client)))?;
        let row = |nth: usize| {
            let (name, algorithm) = named(policy, nth);
            let own = &live.by_rule[nth];
            let mut has: Vec<&str> = own.iter().map(|one| one.cc.as_str()).collect();
            has.sort_unstable();
            let mut counts: Vec<(usize, &str)> =
                has.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0])).collect();
            counts.sort_by(|a, b| b.cmp(a));
            let has: Vec<String> = counts.iter().take(3).map(|(count, name)| format!("{name} {count}")).collect();
            vec![name, algorithm, own.len().to_string(), has.join(", ")]
        };
        let head = ["rule", "would get", "connections now", "which have"];
        let rows = (0..=policy.rules.len()).map(row);
        let mut text = aligned(&head, &[Align::Left, Align::Left, Align::Right, Align::Left], rows);
        text += "\nConnections that are open keep what they have; new ones like them would get what the rule says. The RTT is their least\n\
                 so far, and a condition on the cgroup is taken as met. Nothing was changed.\n";
        print(&text)
    }

    /// Name and algorithm of a rule, or of what none takes.
    fn named(policy: &Policy, nth: usize) -> (String, String) {
        match policy.rules.get(nth) {
            Some(rule) => (rule.name.clone(), rule.algorithm.clone()),
            None => ("(no rule)".to_owned(), policy.default.clone().unwrap_or_else(|| "what it has".to_owned())),
        }
    }

    fn status(is_json: bool) -> Result<Verdict, Error> {
        with(|host| host.recover_if_idle())?;
        let force = in_force()?;
        let policy = &force.described.policy;
        let counters = force.counters()?;
        let live = Live::of(policy, |client| Ok(force.rules_of(client)?))?;
        let rows = (0..=policy.rules.len()).map(|nth| (nth, figures(&live.by_rule[nth]), counters[nth]));
        if is_json {
            let row = |(nth, now, count): (usize, Figures, Counters)| {
                let (name, algorithm) = named(policy, nth);
                serde_json::json!({
                    "rule": name, "algorithm": algorithm, "holdout": policy.rules.get(nth).map(|rule| f64::from(rule.holdout) / 1e4),
                    "withdrawn": policy.rules.get(nth).and_then(|rule| rule.withdrawn.clone()),
                    "connections_now": now.connections, "acked_bytes": now.acked_bytes, "rtt_ms": now.rtt_ms,
                    "retransmit_ratio": now.retransmit_ratio, "taken": count.taken, "set": count.set, "held_out": count.held_out,
                    "refused": count.refused, "chosen": count.chosen,
                    "last_s_ago": (count.last_ns > 0).then(|| seconds_since(count.last_ns)),
                })
            };
            let whole = serde_json::json!({
                "schema": 1, "attached": force.is_attached, "cgroup": force.described.cgroup, "program": force.program, "ran_ns": force.ran_ns, "version": force.described.version,
                "rules": rows.map(row).collect::<Vec<_>>(),
            });
            return print(&format!("{whole:#}\n"));
        }
        let row = |(nth, now, count): (usize, Figures, Counters)| {
            let (name, algorithm) = named(policy, nth);
            let known = |value: Option<f64>, unit: &str| {
                value.map_or("–".to_owned(), |value| format!("{} {unit}", hundredths(value)))
            };
            vec![
                name,
                algorithm,
                now.connections.to_string(),
                format!("{} MB", hundredths(now.acked_bytes as f64 / 1e6)),
                known(now.rtt_ms, "ms"),
                known(now.retransmit_ratio.map(|ratio| 100.0 * ratio), "%"),
                count.taken.to_string(),
                count.held_out.to_string(),
                count.refused.to_string(),
                count.chosen.to_string(),
                if count.last_ns > 0 { format!("{:.0} s ago", seconds_since(count.last_ns)) } else { "–".to_owned() },
            ]
        };
        let head = [
            "rule",
            "algorithm",
            "now",
            "data",
            "RTT",
            "retransmitted",
            "taken",
            "held out",
            "refused",
            "chosen",
            "last",
        ];
        let sides = [&[Align::Left; 2][..], &[Align::Right; 9]].concat();
        let mut text = format!("in force on {}, by bbrlab {}\n", force.described.cgroup, force.described.version);
        if !force.is_attached {
            text = format!(
                "NOT in force: its program was taken from {}, or the cgroup was removed; apply the policy again\n",
                force.described.cgroup
            );
        }
        text += &aligned(&head, &sides, rows.map(row));
        for rule in &policy.rules {
            if let Some(why) = &rule.withdrawn {
                let _ = writeln!(text, "{} is withdrawn, its clients get the default: {why}", rule.name);
            }
        }
        text += "\nnow, data, RTT and retransmitted are of the connections of now that the rule would take; the others count since it is in force.\n";
        print(&text)
    }

    fn seconds_since(ns: u64) -> f64 {
        clock::now_ns().saturating_sub(ns) as f64 / 1e9
    }

    /// Totals of connections.
    struct Figures {
        connections: usize,
        acked_bytes: u64,
        rtt_ms: Option<f64>,
        retransmit_ratio: Option<f64>,
    }

    fn figures(own: &[ConnectionState]) -> Figures {
        let mut rtts: Vec<f64> = own.iter().map(|one| one.rtt_ms).filter(|rtt| *rtt > 0.0).collect();
        let sent: u64 = own.iter().map(|one| one.sent_bytes).sum();
        let again: u64 = own.iter().map(|one| one.retransmitted_bytes).sum();
        Figures {
            connections: own.len(),
            acked_bytes: own.iter().map(|one| one.acked_bytes).sum(),
            rtt_ms: (!rtts.is_empty()).then(|| median(&mut rtts)),
            retransmit_ratio: (sent > 0).then(|| again as f64 / sent as f64),
        }
    }

    fn explain(args: &ExplainArgs) -> Result<Verdict, Error> {
        let force = in_force()?;
        let policy = &force.described.policy;
        let time = args.rtt.as_deref().map(|text| text.parse::<bbrlab_sim::scenario::TimeSpan>());
        let rtt_s = time.transpose().map_err(Error::flag("--rtt"))?.map_or(0.0, |time| time.as_secs());
        let (client, port) = args.client;
        let one = Candidate { client, port, rtt_us: (rtt_s * 1e6) as u32, cgroup: args.cgroup.clone() };
        let named = force.rules_of(client)?;
        let mut text = String::new();
        for (nth, rule) in policy.rules.iter().enumerate() {
            let Some(mismatch) = policy.mismatch(nth, &one, named) else {
                let _ = writeln!(text, "{} takes it: {}{}", rule.name, rule.algorithm, provisos(rule, &one));
                return print(&text);
            };
            let _ = writeln!(text, "{} does not: {}", rule.name, reason(rule, mismatch));
        }
        let (_, default) = super::with_host::named(policy, policy.rules.len());
        let _ = writeln!(text, "no rule takes it: {default}");
        print(&text)
    }

    fn reason(rule: &Rule, mismatch: Mismatch) -> String {
        match mismatch {
            Mismatch::Client => format!("no network of {} has that client", rule.clients.join(", ")),
            Mismatch::Port => {
                let ports: Vec<String> = rule.ports.iter().map(u16::to_string).collect();
                format!("its port is {}", ports.join(" or "))
            }
            Mismatch::Rtt => format!("its RTT is {}", range(rule.rtt_us)),
            Mismatch::Cgroup => format!("its cgroup is {}", rule.cgroup.as_deref().unwrap_or("/")),
        }
    }

    fn range((from, below): (u32, u32)) -> String {
        let ms = |us: u32| format!("{} ms", hundredths(f64::from(us) / 1e3));
        match (from, below) {
            (0, below) => format!("below {}", ms(below)),
            (from, u32::MAX) => format!("from {}", ms(from)),
            (from, below) => format!("from {} to below {}", ms(from), ms(below)),
        }
    }

    /// Further conditions.
    fn provisos(rule: &Rule, one: &Candidate) -> String {
        let mut all = Vec::new();
        if rule.rtt_us != (0, u32::MAX) && one.rtt_us == 0 {
            all.push(format!("if the RTT of its handshake is {}", range(rule.rtt_us)));
        }
        if let (Some(cgroup), None) = (&rule.cgroup, &one.cgroup) {
            all.push(format!("if its service is in {cgroup}"));
        }
        if !rule.ports.is_empty() && one.port.is_none() {
            all.push(reason(rule, Mismatch::Port).replace("its port is", "if its port is"));
        }
        if let Some(why) = &rule.withdrawn {
            all.push(format!("but it is withdrawn ({why}), so it gets the default"));
        } else if rule.holdout > 0 {
            all.push(format!("unless its network is among the {} % held out", f64::from(rule.holdout) / 100.0));
        }
        if all.is_empty() { String::new() } else { format!(", {}", all.join(", ")) }
    }
}
