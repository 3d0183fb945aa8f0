//! Parser for the fields of `ss -tin`: `cwnd:10`, `pacing_rate 9.5Mbps`, `app_limited`. Unknown fields are skipped.
// SPDX-License-Identifier: Apache-2.0 OR MIT
// Form: iproute2 `misc/ss.c`.

/// Names of Linux's congestion controls.
const KERNEL_NAMES: [&str; 20] = [
    "cubic",
    "reno",
    "bbr",
    "bbr1",
    "bbr2",
    "bbr3",
    "dctcp",
    "htcp",
    "vegas",
    "westwood",
    "veno",
    "nv",
    "illinois",
    "bic",
    "hybla",
    "highspeed",
    "lp",
    "scalable",
    "yeah",
    "cdg",
];

/// Whitespace-separated fields of a line.
#[derive(Debug)]
pub struct Fields<'a>(pub Vec<&'a str>);

impl<'a> Fields<'a> {
    pub fn of(line: &'a str) -> Self {
        Self(line.split_whitespace().collect())
    }

    /// Returns the text after `key:`.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix(':'))
    }

    /// Returns the number after `key:`, up to a slash.
    pub fn number(&self, key: &str) -> Option<f64> {
        finite(self.text(key)?.split('/').next()?)
    }

    /// Returns the rate in the field after `key`, bit/s.
    pub fn rate(&self, key: &str) -> Option<f64> {
        let at = self.0.iter().position(|word| *word == key)?;
        bits(self.0.get(at + 1)?)
    }

    /// Returns the kernel's name of the congestion control.
    pub fn congestion_control(&self) -> Option<&'a str> {
        self.0.iter().copied().find(|word| KERNEL_NAMES.contains(word))
    }

    pub fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }
}

/// Returns both addresses of `ESTAB 0 0 10.0.0.1:5201 10.0.0.2:4444`.
pub fn addresses<'a>(words: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let state = words.first()?;
    if !state.chars().all(|c| c.is_ascii_uppercase() || c == '-') || words.len() < 5 {
        return None;
    }
    let has_port =
        |word: &&&str| word.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && !port.is_empty());
    let mut ends = words[3..].iter().filter(has_port);
    Some((ends.next()?, ends.next()?))
}

/// Parses a finite number that is not below 0.
pub fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

/// Parses `9.5Mbps`, `9500000bps` or `1.2Gbps` into bit/s.
pub fn bits(text: &str) -> Option<f64> {
    let text = text.trim_end_matches(',').strip_suffix("bps")?;
    let (number, scale) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        b'T' => (&text[..text.len() - 1], 1e12),
        _ => (text, 1.0),
    };
    finite(number).map(|value| value * scale).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_name() {
        let words =
            Fields::of("\t bbr rtt:41.5/0.5 cwnd:80 retrans:0/3 pacing_rate 27.1Mbps delivery_rate app_limited");
        assert_eq!(
            (words.number("rtt"), words.number("cwnd"), words.text("retrans")),
            (Some(41.5), Some(80.0), Some("0/3"))
        );
        assert_eq!(
            (words.rate("pacing_rate"), words.rate("delivery_rate"), words.number("tt")),
            (Some(27.1e6), None, None)
        );
        assert!(words.has("app_limited") && !words.has("app"));
    }

    #[test]
    fn rates_have_a_unit_and_are_numbers() {
        assert_eq!([bits("12bps"), bits("1.5Gbps"), bits("2Tbps,")], [Some(12.0), Some(1.5e9), Some(2e12)]);
        assert_eq!([bits("12"), bits("bps"), bits("nanbps"), bits("-1bps"), bits("1e308Tbps")], [None; 5]);
    }
}
