//! Parser of an algorithm with its parameters: `bbr3,loss_thresh=1%`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{AlgorithmConfig, params::ParamError};

use crate::{Error, Result};

/// Parses `NAME[,PARAMETER=VALUE…]`.
pub fn algorithm(text: &str) -> Result<AlgorithmConfig> {
    let mut parts = text.split(',').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let mut config = AlgorithmConfig::named(name).ok_or_else(|| Error::UnknownAlgorithm { name: name.to_owned() })?;
    for part in parts {
        let (key, value) = part.split_once('=').ok_or_else(|| Error::NotAParameter { part: part.to_owned() })?;
        config.set(key, value).map_err(|source| match source {
            ParamError::Unknown => Error::UnknownParameter { algorithm: name.to_owned(), key: key.to_owned() },
            source => Error::Parameter { key: key.to_owned(), value: value.to_owned(), source },
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
