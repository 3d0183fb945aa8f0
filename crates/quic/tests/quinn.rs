//! Connections of quinn-proto behind an emulated link, in virtual time, with our controllers and quinn's own.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bbrlab_core::{ALGORITHMS, Rng};
use bbrlab_quic::quinn::Factory;
use bytes::BytesMut;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ServerConfig,
    StreamEvent, StreamId, TransportConfig,
};

/// Headers of IPv4, UDP and Ethernet around a datagram.
const HEADERS: u64 = 42;
/// Datagrams per call, as in quinn's `MAX_TRANSMIT_SEGMENTS`.
const BATCH: usize = 10;
/// Time before counting begins.
const WARM_UP: Duration = Duration::from_secs(2);

/// A bottleneck with a drop-tail queue before half of the round trip; the way back has no limit.
#[derive(Clone, Copy)]
struct Link {
    bits_per_s: u64,
    round_trip: Duration,
    buffer_bytes: u64,
    /// Share of the datagrams lost at random, in 1/1000.
    loss_per_mille: u64,
}

impl Link {
    /// 100 Mbit/s, 20 ms, and a buffer of four BDP.
    const WIDE: Self = Self {
        bits_per_s: 100_000_000,
        round_trip: Duration::from_millis(20),
        buffer_bytes: 1_000_000,
        loss_per_mille: 0,
    };
}

/// Figures of an upload: packets of all of it, the rest after the warm-up.
#[derive(Debug)]
struct Figures {
    mbps: f64,
    /// Median round trip of the path: its base, and queueing and serialisation.
    rtt_ms: f64,
    packets: u64,
    lost: u64,
    /// Longest time without a byte for the receiver.
    pause: Duration,
}

/// One end of the connection.
struct Host {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    stream: Option<StreamId>,
    other: SocketAddr,
}

struct World {
    link: Link,
    now: Duration,
    origin: Instant,
    rng: Rng,
    /// The sender, then the receiver.
    hosts: [Host; 2],
    /// Datagrams by time of arrival, and order of sending; the receiver's end is 1.
    under_way: BTreeMap<(Duration, u64), (usize, Vec<u8>)>,
    serial: u64,
    /// Time at which the bottleneck has sent what it holds, and departures of that.
    idle_at: Duration,
    queue: VecDeque<(Duration, u64)>,
    queued_bytes: u64,
    sojourns_us: Vec<u64>,
    received: u64,
    received_at: Duration,
    pause: Duration,
}

/// Uploads for this long, and returns the figures.
fn upload(factory: Shared, link: Link, duration: Duration) -> Figures {
    let key = rcgen::generate_simple_self_signed(["link".to_owned()]).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(key.cert.der().clone()).unwrap();
    let private = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let server = ServerConfig::with_single_cert(vec![key.cert.der().clone()], private.into()).unwrap();
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(factory).send_window(64 << 20);
    client.transport_config(Arc::new(transport));
    let mut receiving = TransportConfig::default();
    receiving.stream_receive_window((64_u32 << 20).into()).receive_window((64_u32 << 20).into());
    let mut server = server;
    server.transport_config(Arc::new(receiving));

    let endpoint = |server, seed| {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([seed; 32]));
        Endpoint::new(Arc::new(config), server, true, None)
    };
    let address = |host| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 4433);
    #[expect(clippy::disallowed_methods, reason = "an origin to count from")]
    let origin = Instant::now();
    let mut sender = endpoint(None, 1);
    let connection = sender.connect(origin, client, address(2), "link").unwrap();
    let host = |endpoint, connection, other| Host { endpoint, connection, stream: None, other };
    let mut world = World {
        link,
        now: Duration::ZERO,
        origin,
        rng: Rng::new(1),
        hosts: [
            host(sender, Some(connection), address(2)),
            host(endpoint(Some(Arc::new(server)), 2), None, address(1)),
        ],
        under_way: BTreeMap::new(),
        serial: 0,
        idle_at: Duration::ZERO,
        queue: VecDeque::new(),
        queued_bytes: 0,
        sojourns_us: Vec::new(),
        received: 0,
        received_at: Duration::ZERO,
        pause: Duration::ZERO,
    };
    world.run(WARM_UP);
    let before = world.received;
    world.sojourns_us.clear();
    world.pause = Duration::ZERO;
    world.run(duration);
    let (packets, lost) = world.stats();
    world.sojourns_us.sort_unstable();
    let sojourn_us = world.sojourns_us.get(world.sojourns_us.len() / 2).copied().unwrap_or_default();
    Figures {
        mbps: (world.received - before) as f64 * 8e-6 / (duration - WARM_UP).as_secs_f64(),
        rtt_ms: link.round_trip.as_secs_f64() * 1e3 + sojourn_us as f64 / 1e3,
        packets,
        lost,
        pause: world.pause.max(duration - world.received_at),
    }
}

impl World {
    /// Packets sent, and declared lost.
    fn stats(&self) -> (u64, u64) {
        let (_, connection) = self.hosts[0].connection.as_ref().unwrap();
        let path = connection.stats().path;
        (path.sent_packets, path.lost_packets)
    }

    fn run(&mut self, until: Duration) {
        loop {
            (0..2).for_each(|side| self.serve(side));
            let arrival = self.under_way.first_key_value().map(|(key, _)| key.0);
            let timers = self.hosts.iter_mut().filter_map(|host| {
                let at = host.connection.as_mut()?.1.poll_timeout()?;
                Some(at.saturating_duration_since(self.origin))
            });
            let next = timers.chain(arrival).min().expect("a connection has a timer").max(self.now);
            if next > until {
                return;
            }
            self.now = next;
            while let Some(first) = self.under_way.first_entry().filter(|first| first.key().0 <= next) {
                let (side, bytes) = first.remove();
                self.deliver(side, &bytes);
            }
        }
    }

    fn deliver(&mut self, side: usize, bytes: &[u8]) {
        let now = self.origin + self.now;
        let host = &mut self.hosts[side];
        let mut answer = Vec::new();
        match host.endpoint.handle(now, host.other, None, None, BytesMut::from(bytes), &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let Ok(accepted) = host.endpoint.accept(incoming, now, &mut answer, None) else { panic!("refused") };
                host.connection = Some(accepted);
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut host.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    fn serve(&mut self, side: usize) {
        let now = self.origin + self.now;
        let Some((handle, mut connection)) = self.hosts[side].connection.take() else { return };
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.hosts[side].endpoint.handle_event(handle, event) {
                connection.handle_event(answer);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected if side == 0 => self.hosts[side].stream = connection.streams().open(Dir::Uni),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    self.hosts[side].stream = connection.streams().accept(dir);
                }
                Event::ConnectionLost { reason } => panic!("side {side}: {reason}"),
                _ => {}
            }
        }
        match self.hosts[side].stream {
            Some(stream) if side == 0 => while connection.send_stream(stream).write(&[0; 1 << 16]).is_ok() {},
            Some(stream) => self.read(&mut connection, stream),
            None => {}
        }
        let mut buffer = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, BATCH, &mut buffer) {
            for datagram in buffer.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
                self.send(side, datagram.to_vec());
            }
            buffer.clear();
        }
        self.hosts[side].connection = Some((handle, connection));
    }

    fn read(&mut self, connection: &mut Connection, stream: StreamId) {
        let mut recv = connection.recv_stream(stream);
        let Ok(mut chunks) = recv.read(true) else { return };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            self.received += chunk.bytes.len() as u64;
            self.pause = self.pause.max(self.now - self.received_at);
            self.received_at = self.now;
        }
        let _ = chunks.finalize();
    }

    fn send(&mut self, side: usize, datagram: Vec<u8>) {
        let half = self.link.round_trip / 2;
        let mut arrival = self.now + half;
        if side == 0 {
            while let Some((_, bytes)) = self.queue.pop_front_if(|(left, _)| *left <= self.now) {
                self.queued_bytes -= bytes;
            }
            let bytes = datagram.len() as u64 + HEADERS;
            if self.queued_bytes + bytes > self.link.buffer_bytes || self.rng.below(1000) < self.link.loss_per_mille {
                return;
            }
            self.idle_at =
                self.idle_at.max(self.now) + Duration::from_nanos(bytes * 8_000_000_000 / self.link.bits_per_s);
            self.queue.push_back((self.idle_at, bytes));
            self.queued_bytes += bytes;
            self.sojourns_us.push((self.idle_at - self.now).as_micros() as u64);
            arrival = self.idle_at + half;
        }
        self.under_way.insert((arrival, self.serial), (1 - side, datagram));
        self.serial += 1;
    }
}

type Shared = Arc<dyn ControllerFactory + Send + Sync>;

fn unpaced(text: &str) -> Shared {
    Arc::new(Factory::new(text).unwrap())
}

/// An algorithm that may need a pacing rate.
#[cfg(not(bbrlab_quinn_patched))]
fn ours(text: &str) -> Shared {
    Arc::new(bbrlab_quic::quinn::window_only(text).unwrap())
}

#[cfg(bbrlab_quinn_patched)]
fn ours(text: &str) -> Shared {
    unpaced(text)
}

const LONG: Duration = Duration::from_secs(8);

#[test]
fn cubic_and_reno_fill_the_link_like_quinns_own_cubic() {
    let theirs = upload(Arc::new(CubicConfig::default()), Link::WIDE, LONG);
    for name in ["cubic", "reno"] {
        let figures = upload(unpaced(name), Link::WIDE, LONG);
        assert!(figures.mbps > 0.98 * theirs.mbps, "{name}: {figures:?}, quinn's {theirs:?}");
        assert!(figures.rtt_ms > 40.0, "{name}: it fills the buffer: {figures:?}");
        assert!(figures.lost <= theirs.lost, "{name}: {figures:?}, quinn's {theirs:?}");
    }
}

#[cfg(not(bbrlab_quinn_patched))]
#[test]
fn bbr_by_its_window_keeps_a_queue_of_a_bdp_or_two() {
    for name in ["bbr1", "bbr2", "bbr3", "bbr3-linux"] {
        let figures = upload(ours(name), Link::WIDE, LONG);
        assert!(figures.mbps > 90.0, "{name}: {figures:?}");
        assert!((35.0..65.0).contains(&figures.rtt_ms), "{name}: {figures:?}");
        assert_eq!(figures.lost, 0, "{name}: {figures:?}");
    }
}

#[cfg(bbrlab_quinn_patched)]
#[test]
fn bbr_with_its_rate_keeps_no_queue() {
    for name in ["bbr1", "bbr2", "bbr3", "bbr3-linux"] {
        let figures = upload(ours(name), Link::WIDE, LONG);
        assert!(figures.mbps > 90.0, "{name}: {figures:?}");
        assert!(figures.rtt_ms < 23.0, "{name}: {figures:?}");
        assert_eq!(figures.lost, 0, "{name}: {figures:?}");
    }
}

#[test]
fn no_algorithm_stalls_on_a_lossy_link_with_a_short_buffer() {
    let link = Link { bits_per_s: 10_000_000, buffer_bytes: 12_000, loss_per_mille: 50, ..Link::WIDE };
    for info in ALGORITHMS {
        let figures = upload(ours(info.name), link, LONG);
        assert!(figures.mbps > 0.5, "{}: {figures:?}", info.name);
        assert!(figures.pause < Duration::from_secs(2), "{}: {figures:?}", info.name);
    }
}

#[test]
#[ignore = "prints the table of docs/quic.md"]
fn figures() {
    let quinns: [(&str, Shared); 2] =
        [("quinn:bbr", Arc::new(BbrConfig::default())), ("quinn:cubic", Arc::new(CubicConfig::default()))];
    let ours = ["cubic", "reno", "bbr1", "bbr2", "bbr3"].map(|name| (name, ours(name)));
    for (name, factory) in quinns.iter().chain(&ours) {
        for loss_per_mille in [0, 10] {
            let link = Link { loss_per_mille, ..Link::WIDE };
            let Figures { mbps, rtt_ms, packets, lost, .. } =
                upload(Arc::clone(factory), link, Duration::from_secs(12));
            println!(
                "{name:11} loss {loss_per_mille:2} ‰  {mbps:5.1} Mbit/s  RTT p50 {rtt_ms:4.1} ms  lost {lost} of {packets}"
            );
        }
    }
}
