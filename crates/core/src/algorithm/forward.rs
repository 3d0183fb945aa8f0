//! Macros that define a trait once for its implementors and for the enums that choose among them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Defines a trait whose methods all take `self` by reference, and `forward_algorithm!`, which implements it for an enum by a match in
/// each method. An enum, not a trait object: the hot path has no indirect call, and BPF gets no table of functions.
///
/// - `forward_algorithm! { POLICY Enum () { A, B } }` is for an enum,
/// - `forward_algorithm! { POLICY Type (.field) Enum { A, B } }` for a struct around one.
///
/// A label before `fn` states how often a method is called; [`forward_method`] turns it into an inlining attribute by policy.
macro_rules! define {
    (
        ($d:tt)
        $(#[$trait_meta:meta])*
        pub trait $Trait:ident {
            required { $( $(#[$r_meta:meta])* $([$r_label:ident])? fn $r_name:ident $r_args:tt $(-> $r_ret:ty)?; )* }
            provided { $( $(#[$p_meta:meta])* $([$p_label:ident])? fn $p_name:ident $p_args:tt $(-> $p_ret:ty)? $p_body:block )* }
        }
    ) => {
        $(#[$trait_meta])*
        #[allow(unused_variables, reason = "a default that does nothing still names its arguments")]
        pub trait $Trait {
            $( $(#[$r_meta])* fn $r_name $r_args $(-> $r_ret)?; )*
            $( $(#[$p_meta])* fn $p_name $p_args $(-> $p_ret)? $p_body )*
        }

        #[cfg(test)]
        pub(crate) const METHOD_COUNT: usize = [$( stringify!($r_name), )* $( stringify!($p_name) ),*].len();

        macro_rules! forward_algorithm {
            ($d policy:ident $d Enum:ident () $d variants:tt) => {
                $crate::algorithm::forward_algorithm! { $d policy $d Enum () $d Enum $d variants }
            };
            ($d policy:ident $d Type:ident ($d ($d field:tt)*) $d Enum:ident $d variants:tt) => {
                const _: () = {
                    use $crate::algorithm::signature::*;
                    #[allow(clippy::inline_always, reason = "a match in between, and nothing else")]
                    impl $crate::algorithm::$Trait for $d Type {
                        $( $crate::algorithm::forward_method! {
                            $d policy [$($r_label)?] ($d ($d field)*) $d Enum $d variants fn $r_name $r_args $(-> $r_ret)?
                        } )*
                        $( $crate::algorithm::forward_method! {
                            $d policy [$($p_label)?] ($d ($d field)*) $d Enum $d variants fn $p_name $p_args $(-> $p_ret)?
                        } )*
                    }
                };
            };
        }
        pub(crate) use forward_algorithm;
    };
}

/// Forwards one method of an enum of algorithms.
///
/// Policy `in_place`: the match is inlined into frequent callers. Policy `out_of_line`: the enum is itself a variant of another, whose
/// other variants must not grow by it. There the methods labelled `each_ack`, which combine others, stay at their defaults: their
/// result in memory instead of registers would cost every algorithm nine instructions an ACK (callgrind, `examples/ack_cost.rs`).
macro_rules! forward_method {
    (in_place [each_packet] $($rest:tt)*) => { $crate::algorithm::forward_method! { @ #[inline(always)] $($rest)* } };
    (in_place [each_ack] $($rest:tt)*) => { $crate::algorithm::forward_method! { @ #[inline(always)] $($rest)* } };
    (in_place [read] $($rest:tt)*) => { $crate::algorithm::forward_method! { @ #[inline] $($rest)* } };
    (in_place [] $($rest:tt)*) => { $crate::algorithm::forward_method! { @ $($rest)* } };
    (out_of_line [each_ack] $($rest:tt)*) => {};
    (out_of_line [each_packet] $($rest:tt)*) => { $crate::algorithm::forward_method! { @ #[inline] $($rest)* } };
    (out_of_line [$($label:ident)?] $($rest:tt)*) => { $crate::algorithm::forward_method! { @ #[inline(never)] $($rest)* } };
    (
        @ $(#[$inline:meta])? ($($field:tt)*) $Enum:ident $variants:tt
        fn $name:ident (&mut $self:ident $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)?
    ) => {
        $(#[$inline])?
        fn $name(&mut $self $(, $arg: $ty)*) $(-> $ret)? {
            $crate::algorithm::forward_match! { (&mut (*$self) $($field)*) $Enum $variants chosen => $name (chosen $(, $arg)*) }
        }
    };
    (
        @ $(#[$inline:meta])? ($($field:tt)*) $Enum:ident $variants:tt
        fn $name:ident (&$self:ident $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)?
    ) => {
        $(#[$inline])?
        fn $name(&$self $(, $arg: $ty)*) $(-> $ret)? {
            $crate::algorithm::forward_match! { (&(*$self) $($field)*) $Enum $variants chosen => $name (chosen $(, $arg)*) }
        }
    };
}

/// The body of such a method.
macro_rules! forward_match {
    (($($of:tt)+) $Enum:ident { $( $(#[$cfg:meta])* $Variant:ident ),* $(,)? } $chosen:ident => $name:ident $args:tt) => {
        match $($of)+ {
            $( $(#[$cfg])* $Enum::$Variant($chosen) => $crate::algorithm::Algorithm::$name $args, )*
        }
    };
}

/// Implements methods of the trait by the type's own methods of the same names.
macro_rules! own_methods {
    (
        mut { $( $(#[$mut_inline:meta])? $mut_name:ident($($mut_arg:ident: $mut_ty:ty),*); )* }
        read { $( $(#[$inline:meta])? $name:ident() -> $ret:ty; )* }
    ) => {
        $( $(#[$mut_inline])? fn $mut_name(&mut self, $($mut_arg: $mut_ty),*) { Self::$mut_name(self, $($mut_arg),*); } )*
        $( $(#[$inline])? fn $name(&self) -> $ret { Self::$name(self) } )*
    };
}

pub(crate) use {define, forward_match, forward_method, own_methods};
