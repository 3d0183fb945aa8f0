//! Parts that all generated policy files have in common.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Last lines of a rule: its algorithm, and the holdout that keeps the default.
pub fn algorithm(algorithm: &str, has_holdout: bool) -> String {
    let holdout = if has_holdout { "holdout = \"2%\"\n" } else { "" };
    format!("algorithm = {algorithm:?}\n{holdout}")
}

/// The rule of a policy without evidence for a change.
pub fn keep_default(default: &str) -> String {
    format!(
        "\n# Keep the default: no class has evidence for another congestion control. A policy needs a rule:\n\
         [[rule]]\nname = \"all\"\nalgorithm = {default:?}\n"
    )
}
