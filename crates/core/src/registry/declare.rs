//! The macro that makes of one table everything that names all algorithms.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Generates [`ALGORITHMS`](super::ALGORITHMS), [`AlgorithmConfig`](super::AlgorithmConfig) with its lookup by name, and
/// [`AnyAlgorithm`](super::AnyAlgorithm) with its implementation of the trait.
///
/// `types` lists the types that implement [`Algorithm`](crate::algorithm::Algorithm), each under the name by which rows refer to it.
/// A row declares one algorithm. Its identifier becomes a variant of `AlgorithmConfig`, which holds the parameters.
macro_rules! algorithms {
    (
        types { $( $(#[$type_cfg:meta])* $Type:ident($Flow:ty), )+ }
        $(
            $(#[cfg($cfg:meta)])?
            $Config:ident($Params:ty) {
                name: $name:literal $(or $alias:literal)*,
                summary: $summary:literal,
                source: $source:literal,
                defaults: $defaults:expr,
                specs: $specs:expr,
                runs: $Runs:ident by $new:expr,
                needs_pacing: $needs_pacing:literal,
                counts_bytes: $counts_bytes:literal,
                linux_name: $linux_name:expr,
                bpf_object: $bpf_object:expr,
                plot: ($hue:literal, $dash:literal, $marker:literal),
            }
        )+
    ) => {
        /// An algorithm with all its parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum AlgorithmConfig {
            $(
                #[doc = concat!("`", $name, "`: ", $summary, ".")]
                $(#[cfg($cfg)])?
                $Config($Params),
            )+
        }

        #[allow(non_upper_case_globals, reason = "a row keeps its name")]
        mod rows {
            use super::{AlgorithmInfo, PlotStyle};
            $(
                $(#[cfg($cfg)])?
                pub(super) const $Config: AlgorithmInfo = AlgorithmInfo {
                    name: $name,
                    aliases: &[$($alias),*],
                    summary: $summary,
                    source: $source,
                    needs_pacing: $needs_pacing,
                    counts_bytes: $counts_bytes,
                    linux_name: $linux_name,
                    bpf_object: $bpf_object,
                    plot: PlotStyle { hue: $hue, dash: $dash, marker: $marker },
                };
            )+
        }

        /// All algorithms, in the order in which `bbrlab list algorithms` shows them.
        pub const ALGORITHMS: &[AlgorithmInfo] = &[$( $(#[cfg($cfg)])? rows::$Config, )+];

        impl AlgorithmConfig {
            /// Returns the algorithm of this name or alias with its defaults.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $( $(#[cfg($cfg)])? $name $(| $alias)* => Some(Self::$Config($defaults)), )+
                    _ => None,
                }
            }

            /// Returns the algorithm's row in [`ALGORITHMS`].
            pub const fn info(&self) -> &'static AlgorithmInfo {
                match self {
                    $( $(#[cfg($cfg)])? Self::$Config(_) => &rows::$Config, )+
                }
            }

            /// Sets one parameter from text.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError> {
                if !self.specs().iter().any(|table| table.iter().any(|spec| spec.name == name)) {
                    return Err(ParamError::Unknown);
                }
                match self {
                    $( $(#[cfg($cfg)])? Self::$Config(params) => params.set(name, text), )+
                }
            }

            /// Returns the present values, then zeros, for `from_values` of the parameters' type. A variant's own come before BBRv1's.
            pub fn values(&self) -> [u32; MAX_PARAMS] {
                match self {
                    $( $(#[cfg($cfg)])? Self::$Config(params) => collect(params.values()), )+
                }
            }

            /// The descriptions of the parameters: the algorithm's own, then those of the algorithm on which it is based.
            fn specs(&self) -> [&'static [ParamSpec]; 2] {
                match self {
                    $( $(#[cfg($cfg)])? Self::$Config(_) => $specs, )+
                }
            }
        }

        /// Any algorithm, chosen by name when a connection begins. An enum inside, so that the hot path has no virtual call.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "core does not allocate, so a flow holds its algorithm in place")]
        pub struct AnyAlgorithm(Any);

        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "core does not allocate, so a flow holds its algorithm in place")]
        enum Any {
            $( $(#[$type_cfg])* $Type($Flow), )+
        }

        impl AnyAlgorithm {
            /// Returns a flow of the algorithm with these parameters.
            pub fn new(config: &AlgorithmConfig, init: &Init) -> Self {
                Self(match config {
                    $( $(#[cfg($cfg)])? AlgorithmConfig::$Config(params) => Any::$Runs($new(params, init)), )+
                })
            }
        }

        forward_algorithm! { in_place AnyAlgorithm (.0) Any { $( $(#[$type_cfg])* $Type, )+ } }
    };
}

pub(super) use algorithms;
