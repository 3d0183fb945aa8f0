//! Storage of packets in transit; the path carries only a small handle of each.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::cell::RefCell;

use bbrlab_sim::link::LinkPacket;
use bbrlab_sim::path::PathPacket;
use bbrlab_sim::tcp::{AckPacket, Segment};

thread_local! {
    /// Datagrams dropped by queues, which do not report them individually. A run stays on its thread.
    static DROPPED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Content of a packet on the path.
#[derive(Clone, Debug)]
pub enum Payload<P> {
    /// A datagram of a stack.
    Quic(P),
    /// A segment of the TCP model.
    Segment(Segment),
    Ack(AckPacket),
    /// A lag probe, or its echo.
    Probe(Segment),
}

/// End of a flow that sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The sender of data.
    Sender,
    /// The receiver of data, which sends ACKs.
    Receiver,
}

/// Handle of a packet on the path.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// Index in the store.
    pub id: u32,
    pub flow: u32,
    /// End that sent it.
    pub from: End,
    /// Bytes on the wire.
    pub wire: u32,
    pub hop: u8,
    /// True if it may be marked.
    pub ect: bool,
    /// True if an L4S link takes it for one of its own: ECT(1) on the path. A stack sends ECT(0) and gets that back.
    pub ect_1: bool,
    /// True if it is CE-marked.
    pub ce: bool,
}

/// A datagram in a link's queue. If it is dropped there, its bytes are released.
#[derive(Debug)]
pub struct Queued(Datagram);

impl Drop for Queued {
    fn drop(&mut self) {
        DROPPED.with_borrow_mut(|dropped| dropped.push(self.0.id));
    }
}

impl LinkPacket for Queued {
    fn wire_bytes(&self) -> u32 {
        self.0.wire
    }
    fn flow(&self) -> u32 {
        self.0.flow
    }
    fn ect(&self) -> bool {
        self.0.ect
    }
    fn is_l4s(&self) -> bool {
        self.0.ect_1 || self.0.ce
    }
    fn mark_ce(&mut self) {
        self.0.ce = true;
    }
}

impl PathPacket for Datagram {
    type Queued = Queued;

    fn into_queue(self) -> Queued {
        Queued(self)
    }
    fn from_queue(queued: Queued) -> Self {
        let datagram = queued.0;
        std::mem::forget(queued);
        datagram
    }
    fn flow(&self) -> u32 {
        self.flow
    }
    fn hop(&self) -> u8 {
        self.hop
    }
    fn set_hop(&mut self, hop: u8) {
        self.hop = hop;
    }
}

/// Bytes of datagrams in transit, with the number of copies of each.
#[derive(Debug)]
pub struct Store<P> {
    places: Vec<(u32, Option<P>)>,
    free: Vec<u32>,
}

impl<P> Store<P> {
    pub fn new() -> Self {
        DROPPED.with_borrow_mut(Vec::clear);
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub fn put(&mut self, payload: P) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        self.places[id as usize] = (1, Some(payload));
        id
    }

    /// Adds a copy that will arrive.
    pub fn hold(&mut self, id: u32) {
        self.places[id as usize].0 += 1;
    }

    /// Removes a copy that is lost.
    pub fn release(&mut self, id: u32) {
        let (copies, payload) = &mut self.places[id as usize];
        *copies -= 1;
        if *copies == 0 {
            *payload = None;
            self.free.push(id);
        }
    }

    /// Releases the datagrams dropped by queues and returns their number.
    pub fn release_dropped(&mut self) {
        DROPPED.with_borrow_mut(|dropped| dropped.drain(..).for_each(|id| self.release(id)));
    }
}

impl<P: Clone> Store<P> {
    /// Takes the bytes of a copy that arrives.
    pub fn take(&mut self, id: u32) -> Option<P> {
        let place = &mut self.places[id as usize];
        let payload = if place.0 == 1 { place.1.take() } else { place.1.clone() };
        self.release(id);
        payload
    }
}
