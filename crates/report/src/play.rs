//! Links to the playground: a scenario in the fragment of an address.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use bbrlab_sim::scenario::ScenarioFile;
use bbrlab_sim::scenario::support::refused_by_playground;
use serde_json::Value;

/// Port on which `bbrlab play` serves the playground, unless told otherwise. Ours.
pub const PORT: u16 = 8227;
/// Longest fragment that the playground reads, characters: `LENGTH_MAX` of web/src/state.ts.
const LENGTH_MAX: usize = 60_000;

/// Returns the fragment of the playground's address with the scenario of one run; empty if a browser cannot run it.
pub fn fragment(scenario: &Value) -> String {
    let Ok(mut file) = ScenarioFile::from_json(&scenario.to_string(), "") else { return String::new() };
    // The page has no verdicts.
    file.scenario.expect.clear();
    let is_playable =
        refused_by_playground(&file.scenario.filled()).is_none() && file.resolve(&|_| Err("no file".into())).is_ok();
    let text = serde_json::to_string(&file.scenario).ok().filter(|_| is_playable);
    let fragment = text.map(|text| fragment_of(&[("json", text)])).unwrap_or_default();
    if fragment.len() <= LENGTH_MAX { fragment } else { String::new() }
}

/// Formats keys and values as the query of a fragment.
pub fn fragment_of(pairs: &[(&str, String)]) -> String {
    let one = |(key, value): &(&str, String)| format!("{key}={}", escaped(value));
    pairs.iter().map(one).collect::<Vec<String>>().join("&")
}

/// A value with every byte escaped that a fragment's query cannot hold.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~@:,*;=".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fragment_holds_every_text() {
        assert_eq!(escaped("bbr3@4s,cwnd_gain=2"), "bbr3@4s,cwnd_gain=2");
        assert_eq!(escaped("a&b #+%"), "a%26b%20%23%2B%25");
    }

    #[test]
    fn only_a_scenario_that_a_browser_can_run_has_a_fragment() {
        let own = json!({ "rate": "5mbit", "flow": ["bbr3"], "expect": [{ "measure": "r.jain", "min": 0 }] });
        assert_eq!(fragment(&own), fragment(&json!({ "rate": "5mbit", "flow": ["bbr3"] })));
        assert!(fragment(&own).starts_with("json=%7B"));
        for other in
            [json!({ "on": "uml" }), json!({ "trace": "lte.csv" }), json!({ "flow": ["mine.py"] }), Value::Null]
        {
            assert_eq!(fragment(&other), "", "{other}");
        }
    }
}
