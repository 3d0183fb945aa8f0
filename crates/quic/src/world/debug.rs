//! What a stack's own controller prints of itself, read back: the only way to see the model inside.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::{self, Debug, Write};

use bbrlab_core::State;

/// Takes text until it holds `end`, then stops the formatting.
struct Head<'e> {
    text: String,
    end: &'e str,
}

impl Write for Head<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.text.push_str(part);
        let from = self.text.len().saturating_sub(part.len() + self.end.len());
        let is_there = self.text.as_bytes()[from..].windows(self.end.len()).any(|window| window == self.end.as_bytes());
        if is_there { Err(fmt::Error) } else { Ok(()) }
    }
}

/// What a value prints of itself up to `end`.
pub fn head(value: &dyn Debug, end: &str) -> String {
    let mut head = Head { text: String::new(), end };
    // An error is the end that was asked for.
    let _ = write!(head, "{value:?}");
    head.text
}

/// The text behind `name: `, up to the next comma or bracket.
pub fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let key = format!(" {name}: ");
    let at = text.find(&key)? + key.len();
    let rest = &text[at..];
    Some(&rest[..rest.find([',', '}', '{']).unwrap_or(rest.len())])
}

/// A state of noq's `Bbr3`, as it prints it.
pub fn noq_state(text: &str) -> Option<State> {
    Some(match field(text, "state")? {
        "Startup" => State::Startup,
        "Drain" => State::Drain,
        "ProbeBw(Down)" => State::ProbeBwDown,
        "ProbeBw(Cruise)" => State::ProbeBwCruise,
        "ProbeBw(Refill)" => State::ProbeBwRefill,
        "ProbeBw(Up)" => State::ProbeBwUp,
        "ProbeRtt" => State::ProbeRtt,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noq_proto::congestion::{Bbr3Config, ControllerFactory};

    use super::*;

    #[test]
    fn the_state_of_noqs_bbr_is_read_from_what_it_prints() {
        #[expect(clippy::disallowed_methods, reason = "an origin to count from")]
        let now = std::time::Instant::now();
        let controller = Arc::new(Bbr3Config::default()).build(now, 1_200);
        let text = head(&controller, "undo_state");
        assert_eq!(noq_state(&text), Some(State::Startup), "{text}");
        assert!(text.len() < 2_000 && field(&text, "smss") == Some("1200"), "{text}");
    }
}
