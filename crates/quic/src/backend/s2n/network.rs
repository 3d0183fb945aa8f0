//! The path as a virtual network for s2n-quic.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use bach::time::Instant;
use bbrlab_core::Time;
use s2n_quic::provider::io::testing::network::{Buffers, Network, Packet};
use s2n_quic::provider::io::testing::spawn;
use s2n_quic_core::inet::ExplicitCongestionNotification as Ecn;

use crate::Error;
use crate::backend::stage::Stage;
use crate::backend::store::End;

/// State of the run, shared by the network and the applications on one thread.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Run>>);

pub struct Run {
    pub stage: Stage<Packet>,
    /// Flows of the stack, with the addresses of sender and receiver.
    pub ends: Vec<(usize, [SocketAddr; 2])>,
    /// Tasks that wait for an application to write.
    pub writers: Vec<Option<Waker>>,
    /// Task that waits for the end of the run.
    pub ending: Option<Waker>,
    pub failure: Option<Error>,
    /// True once the run has ended and only the endpoints are being closed.
    pub is_over: bool,
}

impl Shared {
    pub fn new(stage: Stage<Packet>) -> Self {
        let writers = stage.setup.flows.iter().map(|_| None).collect();
        let run = Run { stage, ends: Vec::new(), writers, ending: None, failure: None, is_over: false };
        Self(Arc::new(Mutex::new(run)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Run> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the run if no other handle exists.
    pub fn into_inner(self) -> Option<Run> {
        Arc::into_inner(self.0).map(|run| run.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the run's time.
pub fn now() -> Time {
    let since = Instant::now().elapsed_since_start().as_nanos();
    Time::nanos(u64::try_from(since).unwrap_or(u64::MAX))
}

/// Waits until a time of the run.
pub async fn sleep_until(at: Time) {
    bach::time::sleep(Duration::from_nanos(at.since(now()).as_nanos())).await;
}

/// Waits for the end of the run, which a script may bring forward.
pub async fn end(shared: &Shared) {
    let latest = shared.lock().stage.setup.duration;
    let mut sleep = Box::pin(sleep_until(latest));
    poll_fn(|context| {
        let mut run = shared.lock();
        if run.stage.is_over() {
            return Poll::Ready(());
        }
        run.ending = Some(context.waker().clone());
        drop(run);
        sleep.as_mut().poll(context)
    })
    .await;
}

/// The path between all endpoints.
pub struct SharedNetwork<'p> {
    pub shared: Shared,
    pub progress: &'p mut dyn FnMut(Time),
    /// Time of its next requested call.
    pub armed: Time,
}

impl Network for SharedNetwork<'_> {
    fn execute(&mut self, buffers: &Buffers) -> usize {
        let now = now();
        let mut run = self.shared.lock();
        let Run { stage, ends, writers, ending, .. } = &mut *run;
        let mut count = 0;
        while let Some(arrival) = stage.arrival(now, self.progress) {
            let mut packet = arrival.payload;
            if arrival.ce {
                packet.ecn = Ecn::Ce;
            }
            packet.switch();
            buffers.rx(*packet.path.local_address, |queue| queue.enqueue(packet));
            count += 1;
        }
        // In the order of the flows, since the order affects the run.
        for (flow, pair) in ends.iter().map(|(flow, pair)| (*flow, pair)) {
            let has_ecn = stage.setup.flows[flow].host.ecn;
            for (address, from) in pair.iter().zip([End::Sender, End::Receiver]) {
                let mut sent: Vec<Packet> = Vec::new();
                buffers.tx((*address).into(), |queue| sent.extend(queue.drain()));
                count += sent.len();
                for mut packet in sent {
                    let (bytes, ect) = (packet.payload.len(), packet.ecn != Ecn::NotEct);
                    if !has_ecn {
                        packet.ecn = Ecn::NotEct;
                    }
                    stage.send(from, flow, packet, bytes, ect);
                }
            }
        }
        // With a script, an application writes as fast as packets leave.
        if stage.follow() || (count > 0 && stage.has_script()) {
            writers.iter_mut().filter_map(Option::take).for_each(Waker::wake);
        }
        if stage.is_over() {
            ending.take().into_iter().for_each(Waker::wake);
        }
        let next = stage.next();
        if next != Time::NEVER && next > now && (self.armed <= now || next < self.armed) {
            self.armed = next;
            spawn(sleep_until(next));
        }
        count
    }
}
