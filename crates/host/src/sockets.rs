//! Sockets that use a congestion control, in all network namespaces, and their move to another one.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::Read;

use libbpf_rs::{Iter, Link, Object, ObjectBuilder};

use crate::objects::SWITCH;
use crate::{Error, Result, namespaces, program};

/// Bytes of a name, and of a row written by `bpf/cc/switch.bpf.c`: state, moved, error.
const NAME: usize = 16;
const ROW: usize = 12;
/// Linux `TCP_LISTEN`.
const LISTEN: u32 = 10;
/// All TCP states.
const ALL: u32 = u32::MAX;

/// Result of a walk over the sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounts {
    /// Connections that use it.
    pub connections: u64,
    /// Listeners, whose future connections will use it.
    pub listeners: u64,
    /// Sockets that were moved.
    pub moved: u64,
    /// Sockets that the kernel refused to move.
    pub stayed: u64,
}

/// Selection of the sockets to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveScope {
    /// None: sockets are only counted.
    None,
    /// Listeners, so that no new connection starts with it.
    Listeners,
    /// All.
    All,
}

/// The iterator, loaded.
#[derive(Debug)]
pub struct Sockets {
    link: Link,
    _object: Object,
}

impl Sockets {
    /// Prepares to move sockets from `from` to `to`.
    pub fn of(from: &str, to: &str, which: MoveScope) -> Result<Self> {
        let fault = |source| program::refused("the iterator over sockets", source);
        program::listen();
        let mut open = ObjectBuilder::default().open_memory(SWITCH).map_err(fault)?;
        let states = match which {
            MoveScope::None => 0,
            MoveScope::Listeners => 1 << LISTEN,
            MoveScope::All => ALL,
        };
        let mut settings = [0; 2 * NAME + 4];
        for (place, name) in [(0, from), (NAME, to)] {
            for (to, from) in settings[place..place + NAME - 1].iter_mut().zip(name.bytes()) {
                *to = from;
            }
        }
        settings[2 * NAME..].copy_from_slice(&u32::to_ne_bytes(states));
        program::set(&mut open, ".rodata.settings", &settings)?;
        let object = open.load().map_err(fault)?;
        let iterator = object.progs_mut().next().ok_or(Error::EmptyIterator)?;
        let link = iterator.attach().map_err(fault)?;
        Ok(Self { link, _object: object })
    }

    /// Walks the sockets of every network namespace once.
    pub fn walk(&self) -> Result<SocketCounts> {
        let mut all = SocketCounts::default();
        for found in namespaces::in_each(|| self.walk_here()) {
            let found = found?;
            all.connections += found.connections;
            all.listeners += found.listeners;
            all.moved += found.moved;
            all.stayed += found.stayed;
        }
        Ok(all)
    }

    fn walk_here(&self) -> Result<SocketCounts> {
        let fault = |source| Error::List { what: "the kernel's list of sockets", source };
        let mut rows = Vec::new();
        let mut iterator = Iter::new(&self.link).map_err(fault)?;
        iterator.read_to_end(&mut rows).map_err(|error| fault(error.into()))?;
        let mut found = SocketCounts::default();
        for row in rows.chunks_exact(ROW) {
            let word = |at: usize| u32::from_ne_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]);
            match word(0) {
                LISTEN => found.listeners += 1,
                _ => found.connections += 1,
            }
            match (word(4), word(8)) {
                (0, _) => {}
                (_, 0) => found.moved += 1,
                _ => found.stayed += 1,
            }
        }
        Ok(found)
    }
}

/// Counts the sockets that use a congestion control.
pub fn count(name: &str) -> Result<SocketCounts> {
    Sockets::of(name, "", MoveScope::None)?.walk()
}
