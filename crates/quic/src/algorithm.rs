//! Parser of an algorithm with its parameters: `bbr3,loss_thresh=1%`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;

use bbrlab_core::{ALGORITHMS, AlgorithmConfig, params::ParamError};

/// An invalid algorithm: the text found and the values accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlgorithmError(String);

impl AlgorithmError {
    #[cfg(feature = "s2n")]
    pub(crate) const fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for AlgorithmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AlgorithmError {}

/// Parses `NAME[,PARAMETER=VALUE…]`.
pub fn algorithm(text: &str) -> Result<AlgorithmConfig, AlgorithmError> {
    let mut parts = text.split(',').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let mut config = AlgorithmConfig::named(name).ok_or_else(|| {
        let known: Vec<&str> = ALGORITHMS.iter().map(|info| info.name).collect();
        AlgorithmError(format!("no algorithm {name:?}; there are {}", known.join(", ")))
    })?;
    for part in parts {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| AlgorithmError(format!("{part:?} is not a parameter; write PARAMETER=VALUE")))?;
        config.set(key, value).map_err(|error| match error {
            ParamError::Unknown => AlgorithmError(format!("{name} has no parameter {key:?}")),
            error => AlgorithmError(format!("{key}: {value:?} is {error}")),
        })?;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_is_read_with_its_parameters_and_what_is_wrong_is_named() {
        let mut wanted = AlgorithmConfig::named("bbr3").unwrap();
        wanted.set("loss_thresh", "1%").unwrap();
        assert_eq!(algorithm("bbr3, loss_thresh=1%").unwrap(), wanted);
        assert_eq!(algorithm("bbr1").unwrap(), AlgorithmConfig::named("bbr1").unwrap());
        let fault = |text: &str| algorithm(text).unwrap_err().to_string();
        assert!(fault("bbr9").starts_with("no algorithm \"bbr9\"; there are fixed, reno"));
        assert!(fault("bbr3,loss_thresh").contains("write PARAMETER=VALUE"));
        assert!(fault("bbr3,thresh=1").contains("bbr3 has no parameter \"thresh\""));
        assert!(fault("bbr3,loss_thresh=much").starts_with("loss_thresh: \"much\" is "));
    }
}
