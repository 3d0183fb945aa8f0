//! Counts in sentences, with the noun or verb in agreement: "1 claim holds", "2 claims hold".
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Display;

/// Formats a count with its noun, adding an s for the plural.
pub fn counted<N: Display + PartialEq + From<u8>>(n: N, noun: &str) -> String {
    let ending = if n == N::from(1) { "" } else { "s" };
    format!("{n} {noun}{ending}")
}

/// Formats a count with its verb, which is singular for one and plural for any other number.
pub fn verb<N: Display + PartialEq + From<u8>>(n: N, one: &str, many: &str) -> String {
    let word = if n == N::from(1) { one } else { many };
    format!("{n} {word}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alone_is_singular() {
        let said = [0_usize, 1, 2].map(|n| format!("{}: {}", counted(n, "claim"), verb(n, "holds", "hold")));
        assert_eq!(said, ["0 claims: 0 hold", "1 claim: 1 holds", "2 claims: 2 hold"]);
    }
}
