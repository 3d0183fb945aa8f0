//! The example of an algorithm from another crate builds outside the workspace and does what it asserts.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::Path;
use std::process::Command;

#[test]
fn an_algorithm_of_another_crate_runs_in_the_controller() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-algorithm/Cargo.toml");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["run", "--quiet", "--offline", "--manifest-path"])
        .arg(manifest)
        // Below the tests' own target directory, which the cargo that runs this test may hold locked.
        .args(["--target-dir", concat!(env!("CARGO_TARGET_TMPDIR"), "/own-algorithm")])
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
