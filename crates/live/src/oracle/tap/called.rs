//! The tap as congestion controls under names private to this process, which call the kernel's functions.
//! For kernels that refuse programs at these functions.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use libbpf_rs::{MapCore as _, OpenObject};

use super::{Loaded, TapConfig, Tapped, open, refused, set_ring};
use crate::{Error, Result};

/// The programs, compiled by the build script.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tap_ops.bpf.o"));
/// Maximum length of a congestion control's name, including the final zero. Source: Linux `TCP_CA_NAME_MAX`.
const NAME_MAX: usize = 16;
/// The congestion controls in the object.
const CONTROLS: [(&str, Tapped); 2] = [("tap_bbr", Tapped::Bbr), ("tap_cubic", Tapped::Cubic)];

/// Loads and registers both algorithms.
pub fn load(config: TapConfig<'_>) -> Result<Loaded> {
    let mut unloaded = open(OBJECT)?;
    set_ring(&mut unloaded, config.ring_bytes)?;
    set_names(&mut unloaded)?;
    let mut object = unloaded.load().map_err(refused)?;
    let controls = object.maps_mut().filter(|map| CONTROLS.iter().any(|(control, _)| map.name() == *control));
    let links = controls.map(|mut control| control.attach_struct_ops()).collect::<Result<_, _>>().map_err(refused)?;
    Ok(Loaded { _links: links, object })
}

/// Name under which this process registers an algorithm.
pub fn name(algorithm: Tapped) -> String {
    let short = match algorithm {
        Tapped::Bbr => "bbr",
        Tapped::Cubic => "cub",
    };
    format!("{short}_tap.{}", std::process::id())
}

/// Sets the names before loading.
fn set_names(unloaded: &mut OpenObject) -> Result<()> {
    for mut map in unloaded.maps_mut() {
        let Some((_, algorithm)) = CONTROLS.iter().find(|(control, _)| map.name() == *control) else { continue };
        let value = map.initial_value_mut().ok_or(Error::NoPart("the tap has no algorithm to name"))?;
        // `name` is the first member of our tcp_congestion_ops, which is larger than any name.
        let place = value.get_mut(..NAME_MAX).ok_or(Error::NoPart("the tap's algorithm is too small"))?;
        place.fill(0);
        for (to, from) in place[..NAME_MAX - 1].iter_mut().zip(name(*algorithm).bytes()) {
            *to = from;
        }
    }
    Ok(())
}
