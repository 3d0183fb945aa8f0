//! Compiles `bpf/*.bpf.c` if the feature `bpf` is enabled and clang is available.
//! Without clang the build continues, without the tap.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Oldest and newest clang that is searched for under a versioned name, as Debian installs them. Ours.
const CLANG_VERSIONS: std::ops::RangeInclusive<u32> = 14..=22;

/// The tap's programs: at the kernel's functions, and as congestion controls.
const TAPS: [&str; 2] = ["tap", "tap_ops"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(tap)");
    println!("cargo::rerun-if-env-changed=CLANG");
    // Relative: a copy of the sources may have left the compiled script and its answers in a target directory that both share, and paths
    // into a copy that is gone would have everything built again at each call.
    let sources = Path::new("../../bpf");
    for file in ["tap.bpf.c", "tap_ops.bpf.c", "record.h", "tap.h", "kernel.h"] {
        println!("cargo::rerun-if-changed={}", sources.join(file).display());
    }
    if env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let Some(clang) = clang() else {
        println!("cargo::warning=no clang in PATH, so `bbrlab record` is left out; on Debian: apt-get install clang");
        return;
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for name in TAPS {
        let status = Command::new(&clang)
            .args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3", "-c"])
            .arg(sources.join(format!("{name}.bpf.c")))
            .arg("-o")
            .arg(out.join(format!("{name}.bpf.o")))
            .status();
        if !status.is_ok_and(|status| status.success()) {
            panic!("{clang} does not compile bpf/{name}.bpf.c; set CLANG to one that does (16 is known to)");
        }
    }
    println!("cargo::rustc-cfg=tap");
}

/// Returns `$CLANG`, or the newest clang in PATH.
fn clang() -> Option<String> {
    let named = CLANG_VERSIONS.rev().map(|version| format!("clang-{version}"));
    let known = env::var("CLANG").ok().into_iter().chain(["clang".to_owned()]).chain(named);
    known
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()))
}
