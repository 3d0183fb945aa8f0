//! The loaded tap: two congestion controls under names private to this process, and the ring of their records.
//! Nothing is pinned: everything ends with the process.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::time::Duration;

use crate::{Error, Result};
use bbrlab_replay::{COLUMNS, FIELDS, PRIVATE_WORDS};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, RingBufferBuilder};

/// The programs, compiled by the build script.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tap.bpf.o"));
/// Maximum length of a congestion control's name, including the final zero. Source: Linux `TCP_CA_NAME_MAX`.
const NAME_MAX: usize = 16;
/// 64-bit words of a record before its fields: socket and number.
const HEAD: usize = 2;
/// 64-bit words of a record.
const WORDS: usize = HEAD + FIELDS.len() + PRIVATE_WORDS / 2;

/// One record as the kernel wrote it.
pub struct Raw {
    /// Address of the socket, unique while it lives.
    pub socket: u64,
    /// The log's columns.
    pub columns: [u64; COLUMNS],
}

/// The loaded tap.
pub struct Tap {
    // Before the object, so that the algorithms are unregistered before their programs go.
    _links: Vec<Link>,
    object: Object,
    /// Name to select with `TCP_CONGESTION` for the kernel's BBR.
    pub bbr: String,
    /// The same for its CUBIC.
    pub cubic: String,
}

impl Tap {
    /// Loads and registers both algorithms.
    pub fn load(ring_bytes: u32) -> Result<Self> {
        libbpf_rs::set_print(None);
        let mut open =
            ObjectBuilder::default().open_memory(OBJECT).map_err(fault("the tap's BPF object can't be read"))?;
        let pid = std::process::id();
        let (bbr, cubic) = (format!("bbr_tap.{pid}"), format!("cub_tap.{pid}"));
        prepare(&mut open, ring_bytes, &bbr, &cubic)?;
        let mut object = open.load().map_err(refused)?;
        let mut links = Vec::new();
        for map in object.maps_mut().filter(|map| map.name().to_string_lossy().starts_with("tap_")) {
            let mut map = map;
            links.push(map.attach_struct_ops().map_err(refused)?);
        }
        Ok(Self { _links: links, object, bbr, cubic })
    }

    /// Passes each record to `take` while `goes_on` returns true; then drains the rest. Polls for at most `turn` at a
    /// time.
    pub fn collect(&self, turn: Duration, take: &mut dyn FnMut(Raw), goes_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let records =
            self.object.maps().find(|map| map.name() == "records").ok_or(Error::NoPart("the tap has no ring"))?;
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&records, |bytes| {
                if let Some(raw) = parse(bytes) {
                    take(raw);
                }
                0
            })
            .map_err(fault("the tap's ring"))?;
        let ring = builder.build().map_err(fault("the tap's ring"))?;
        while goes_on() {
            // Interrupted by a signal: the next iteration polls again.
            let _ = ring.poll(turn);
        }
        ring.consume().map_err(fault("the tap's ring"))
    }

    /// Calls lost because the ring was full.
    pub fn lost(&self) -> Result<u64> {
        let counters =
            self.object.maps().find(|map| map.name() == "counters").ok_or(Error::NoPart("the tap has no counters"))?;
        let value = counters
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(fault("the tap's counters"))?
            .unwrap_or_default();
        Ok(word(&value, 1).unwrap_or(0))
    }
}

/// Sets the names and the ring's size before loading.
fn prepare(open: &mut OpenObject, ring_bytes: u32, bbr: &str, cubic: &str) -> Result<()> {
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match name.as_str() {
            "records" => {
                map.set_max_entries(ring_bytes).map_err(fault(format!("the tap's ring of {ring_bytes} bytes")))?;
            }
            "tap_bbr" | "tap_cubic" => {
                let wanted = if name == "tap_bbr" { bbr } else { cubic };
                let value = map.initial_value_mut().ok_or(Error::NoPart("the tap has no algorithm to name"))?;
                // `name` is the first member of our tcp_congestion_ops, which is larger than any name.
                let place = value.get_mut(..NAME_MAX).ok_or(Error::NoPart("the tap's algorithm is too small"))?;
                place.fill(0);
                for (to, from) in place[..NAME_MAX - 1].iter_mut().zip(wanted.bytes()) {
                    *to = from;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn fault(what: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Error {
    move |source| Error::Bpf { what: what.into(), source }
}

fn refused(source: libbpf_rs::Error) -> Error {
    let advice = match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => "run as root, or with CAP_BPF and CAP_NET_ADMIN",
        libbpf_rs::ErrorKind::NotFound => {
            "it needs Linux 6.10 or later with BTF, tcp_bbr and tcp_cubic; see `bbrlab doctor`"
        }
        _ => "it needs Linux 6.10 or later; see `bbrlab doctor`",
    };
    Error::TapRefused { source, advice }
}

fn parse(bytes: &[u8]) -> Option<Raw> {
    if bytes.len() < WORDS * 8 {
        return None;
    }
    let mut columns = [0; COLUMNS];
    for (place, column) in columns.iter_mut().enumerate().take(FIELDS.len()) {
        *column = word(bytes, HEAD + place)?;
    }
    for half in 0..PRIVATE_WORDS / 2 {
        let both = word(bytes, HEAD + FIELDS.len() + half)?;
        columns[FIELDS.len() + 2 * half] = both & 0xffff_ffff;
        columns[FIELDS.len() + 2 * half + 1] = both >> 32;
    }
    Some(Raw { socket: word(bytes, 0)?, columns })
}

fn word(bytes: &[u8], nth: usize) -> Option<u64> {
    let word = bytes.get(nth * 8..nth * 8 + 8)?;
    Some(u64::from_ne_bytes(word.try_into().ok()?))
}
