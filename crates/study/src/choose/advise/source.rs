//! Sources of an advised algorithm, with the commands to install and remove it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Advice, WORTH_A_CHANGE};

/// A title, a sentence, and the command lines that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub title: &'static str,
    pub text: String,
    pub commands: Vec<String>,
}

/// Title for algorithms that need no installation.
const KERNEL: &str = "Available in your kernel";

/// Sources of the advised algorithm and, if no kernel has it, of the kernel's own BBR; none if nothing changes.
pub fn sources(advice: &Advice) -> Vec<Source> {
    if advice.choice == 0 {
        return Vec::new();
    }
    std::iter::once(source_of(&advice.candidates[advice.choice].flow)).chain(in_the_kernel(advice)).collect()
}

fn source(text: &str, commands: &[&str]) -> Source {
    Source {
        title: "To install",
        text: format!("{text}."),
        commands: commands.iter().map(|&command| command.to_owned()).collect(),
    }
}

fn source_of(flow: &str) -> Source {
    let (cc, has_parameters) = flow.split_once(',').map_or((flow, false), |(cc, _)| (cc, true));
    match cc {
        "bbr1" if has_parameters => source(
            "the kernel's bbr takes no parameters; they are constants of net/ipv4/tcp_bbr.c, to be changed there and built \
             as a module; a transport of your own can use the crate bbrlab-core",
            &[],
        ),
        "bbr1" => source(
            "it is in Linux, as bbr",
            &[
                "modprobe tcp_bbr",
                "sysctl -w net.core.default_qdisc=fq net.ipv4.tcp_congestion_control=bbr",
                "# for one route: ip route change ROUTE congctl bbr; for one socket: setsockopt TCP_CONGESTION \"bbr\"",
                "# back: sysctl -w net.ipv4.tcp_congestion_control=cubic",
            ],
        ),
        "bbr3" | "bbr3-linux" | "bbr3-draft06" => source(
            "no released Linux has BBRv3; bbrlab can load it as root into a kernel with BTF, until you unload it. \
             https://github.com/google/bbr has a kernel, branch v3, where it is called bbr; a transport of your own can \
             take it from the crate bbrlab-core",
            &["bbrlab host load bbr3-linux", "# back: bbrlab host unload bbr3_linux"],
        ),
        "bbr2" => {
            source("no released Linux has BBRv2; its code is in https://github.com/google/bbr, branch v2alpha", &[])
        }
        "bbr-lab" => source(
            "it is experimental: no real path has carried it. Test it on a small share of connections before anything depends on it; \
             bbrlab can load it as root into a kernel with BTF, until you unload it, and a transport of your own can take it from \
             the crate bbrlab-core",
            &[
                "bbrlab host load bbr-lab",
                "bbrlab ab start --arms CURRENT,bbr-lab --canary 1% --out test",
                "bbrlab ab report test --report test.html",
                "# back: bbrlab host unload bbr_lab",
            ],
        ),
        "cubic" => source("it is the default of Linux", &["sysctl -w net.ipv4.tcp_congestion_control=cubic"]),
        "reno" => source("it is in every Linux", &["sysctl -w net.ipv4.tcp_congestion_control=reno"]),
        _ => source(
            "no kernel has it: it is a variant from research; a transport of your own can use the crate bbrlab-core",
            &[],
        ),
    }
}

/// The kernel's own BBR, if the advised algorithm is in no kernel.
fn in_the_kernel(advice: &Advice) -> Option<Source> {
    let choice = &advice.candidates[advice.choice].flow;
    let own = advice.candidates.iter().skip(1).find(|one| one.flow == "bbr1")?;
    if matches!(choice.as_str(), "bbr1" | "cubic" | "reno") {
        return None;
    }
    let gain = 100.0 * (own.score_gain.middle - 1.0);
    let base = &advice.candidates[0].flow;
    let found = format!("bbr1 scores {gain:+.0} % against {base}");
    Some(if gain > 100.0 * WORTH_A_CHANGE {
        Source { title: KERNEL, text: format!("{found}."), commands: source_of("bbr1").commands }
    } else {
        Source { title: KERNEL, text: format!("{found}, so without {choice} keep {base}."), commands: Vec::new() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_keeps_commands_apart_from_the_explanation() {
        for flow in ["bbr1", "bbr3", "cubic", "reno"] {
            let found = source_of(flow);
            assert!(!found.commands.is_empty() && !found.text.contains("sysctl"), "{found:?}");
        }
        assert!(source_of("bbr1,cwnd_gain=3").commands.is_empty());
    }

    #[test]
    fn what_is_loaded_is_unloaded_by_its_name_in_the_kernel() {
        for flow in ["bbr3", "bbr3-linux", "bbr3-draft06", "bbr-lab"] {
            let commands = source_of(flow).commands;
            let loaded = commands.iter().find_map(|line| line.strip_prefix("bbrlab host load ")).unwrap();
            let back = format!("# back: bbrlab host unload {}", loaded.replace('-', "_"));
            assert_eq!(commands.last(), Some(&back), "{flow}");
        }
    }
}
