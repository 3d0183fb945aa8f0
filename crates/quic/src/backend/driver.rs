//! Event loop for the endpoints of noq and quinn on the simulated path. noq is a fork of quinn, so this file is compiled once for each;
//! `super::stack` contains the stack's types and the calls that differ.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bbrlab_core::{Rng, Span, Time};
use bbrlab_sim::backend::Backend;
use bbrlab_sim::record::Output;
use bbrlab_sim::script::Script;
use bbrlab_sim::setup::{FlowSetup, Setup};
use bytes::BytesMut;

use super::control::ObservedFactory;
use super::stack::{
    AckFrequencyConfig, BATCH, ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator,
    CubicConfig, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig, Event, MtuDiscoveryConfig,
    PEERS_THAT_VARY, QuicClientConfig, QuicServerConfig, SINGLY, STACK, ServerConfig, StreamEvent, StreamId,
    TimeSource, TransportConfig, VarInt, endpoint, generate_ids, handle, look, poll_transmit,
};
use crate::backend::reader::Reader;
use crate::backend::stage::Stage;
use crate::backend::store::End;
use crate::backend::{CHUNK, datagram, send_buffer, tls, window};
use crate::{Error, Result, StackError};

/// Parts of a seed used for the endpoints, their connection IDs and their controllers.
const ENDPOINT: u64 = 0x656e_6470;
const IDS: u64 = 0x0069_6473;
const CONTROLLER: u64 = 0x6363;
/// Initial window of the receiver in a scripted run. Source: RFC 9002, section 7.2.
const INITIAL_WINDOW_PACKETS: u64 = 10;
/// Length of connection IDs.
const ID_BYTES: usize = 8;

/// Fixed clock, so that tokens have the same age in every run.
struct FixedTime;

impl TimeSource for FixedTime {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_780_000_000)
    }
}

/// Generator of connection IDs from the seed.
struct Ids(Rng);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.next_u64().to_be_bytes())
    }
    fn cid_len(&self) -> usize {
        ID_BYTES
    }
    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// One endpoint of a flow.
struct Host {
    flow: usize,
    endpoint: Endpoint,
    /// Configuration with which the sender's end opens its connection; `None` afterwards.
    client: Option<ClientConfig>,
    connection: Option<(ConnectionHandle, Connection)>,
    stream: Option<StreamId>,
    /// Number of datagrams sent.
    sent: u64,
    /// Bytes of the stream that its stack has accepted; then an estimate of those that it has sent.
    written: u64,
    reached: u64,
    /// Its application, if it receives.
    reader: Reader,
    own: SocketAddr,
    other: SocketAddr,
    /// Time of its next call.
    due: Time,
}

/// A datagram.
#[derive(Clone, Debug)]
struct Payload {
    bytes: Vec<u8>,
    /// True if it may be marked.
    ect: bool,
    /// Number of datagrams that its end had sent before.
    number: u64,
    /// Approximate bytes of the stream that its end had sent by then.
    reached: u64,
}

struct Simulation<'p> {
    stage: Stage<Payload>,
    origin: Instant,
    /// Even sides are senders, each followed by its receiver. Flows of the TCP model have none here.
    sides: Vec<Host>,
    timers: BTreeSet<(Time, usize)>,
    touched: BTreeSet<usize>,
    buffer: Vec<u8>,
    zeros: Vec<u8>,
    progress: &'p mut dyn FnMut(Time),
}

pub fn run(setup: &Setup, script: Option<&Script>, progress: &mut dyn FnMut(Time)) -> Result<Output> {
    tls::seed(setup.seed);
    let stage = Stage::new(setup, script);
    #[expect(clippy::disallowed_methods, reason = "an origin to count from: nothing reads the clock again")]
    let origin = Instant::now();
    let mut sides = Vec::new();
    for (index, flow) in setup.flows.iter().enumerate().filter(|(_, flow)| !flow.is_tcp) {
        let sender = stage.tally.flows[index].sender.clone();
        sides.extend(ends(
            setup,
            flow,
            index,
            ObservedFactory {
                flow: flow.clone(),
                seed: Rng::derive(setup.seed, CONTROLLER + ((index as u64) << 16)).next_u64(),
                origin,
                sender,
            },
            script.is_some(),
        )?);
    }
    let timers = sides.iter().enumerate().map(|(side, end)| (end.due, side)).collect();
    let (buffer, zeros) = (Vec::with_capacity(CHUNK), vec![0; CHUNK]);
    let mut simulation = Simulation { stage, origin, sides, timers, touched: BTreeSet::new(), buffer, zeros, progress };
    simulation.play()?;
    let mut output = simulation.stage.finish(Backend::Quic(STACK).name());
    if setup.flows.iter().any(|flow| PEERS_THAT_VARY.contains(&flow.cc())) {
        // They take random numbers from the operating system, without a setting for a seed.
        output.result.provenance = Some(serde_json::json!({ "stack": STACK.name(), "repeats": false }));
    }
    Ok(output)
}

/// Creates both ends of a flow.
fn ends(
    setup: &Setup,
    flow: &FlowSetup,
    index: usize,
    watching: ObservedFactory,
    has_script: bool,
) -> Result<[Host; 2]> {
    let fault = |source: StackError| Error::Flow { stack: STACK.name(), flow: flow.name.clone(), source };
    let (server_tls, client_tls) = tls::configs(rustls::crypto::ring::default_provider())?;
    let number = (index as u32).to_be_bytes();
    let address = |host: u8| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, host, number[2], number[3])), 4433);
    let (left, right) = (address(1), address(2));
    let config = |side: u64| {
        let own = ((index as u64) << 1) + side;
        let mut config = EndpointConfig::default();
        let mut seed = [0; 32];
        tls::fill_from(&mut Rng::derive(setup.seed, ENDPOINT + (own << 32)), &mut seed);
        config.rng_seed(Some(seed));
        let ids = setup.seed;
        generate_ids(&mut config, move || Box::new(Ids(Rng::derive(ids, IDS + (own << 32)))));
        config.max_udp_payload_size(datagram(flow)).map_err(|error| fault(error.into()))?;
        Ok::<_, Error>(config)
    };
    let mut sending = transport(flow, has_script);
    sending.send_window(send_buffer(setup, flow).into());
    sending.congestion_controller_factory(Arc::new(watching));
    if let Some(ack) = flow.host.ack {
        let mut frequency = AckFrequencyConfig::default();
        frequency.ack_eliciting_threshold(VarInt::from_u32(ack.packets - 1));
        frequency.max_ack_delay(Some(Duration::from_nanos(ack.delay.as_nanos())));
        sending.ack_frequency_config(Some(frequency));
    }
    let mut receiving = transport(flow, has_script);
    receiving.stream_receive_window(VarInt::from_u32(window(flow)));
    receiving.receive_window(VarInt::from_u32(window(flow)));
    if has_script {
        // Packets are large from the start. The stacks' default window may hold only one, and then acknowledgements wait too.
        let mut controller = CubicConfig::default();
        controller.initial_window(INITIAL_WINDOW_PACKETS * u64::from(datagram(flow)));
        receiving.congestion_controller_factory(Arc::new(controller));
    }
    let crypto = QuicServerConfig::try_from(server_tls).map_err(|error| fault(error.into()))?;
    let mut server = ServerConfig::with_crypto(Arc::new(crypto));
    server.time_source(Arc::new(FixedTime));
    server.transport_config(Arc::new(receiving));
    let crypto = QuicClientConfig::try_from(client_tls).map_err(|error| fault(error.into()))?;
    let mut client = ClientConfig::new(Arc::new(crypto));
    client.transport_config(Arc::new(sending));
    let mut first = [0; ID_BYTES];
    tls::fill_from(&mut Rng::derive(setup.seed, IDS + ((index as u64) << 40)), &mut first);
    client.initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&first)));
    let side = |endpoint, client, own, other, due| Host {
        flow: index,
        endpoint,
        client,
        connection: None,
        stream: None,
        sent: 0,
        written: 0,
        reached: 0,
        reader: Reader::default(),
        own,
        other,
        due,
    };
    let (sender, receiver) = (endpoint(config(0)?, None), endpoint(config(1)?, Some(server)));
    Ok([side(sender, Some(client), left, right, flow.start), side(receiver, None, right, left, Time::NEVER)])
}

/// Returns the settings that both ends share.
fn transport(flow: &FlowSetup, is_full_from_the_first: bool) -> TransportConfig {
    let mut config = TransportConfig::default();
    if is_full_from_the_first {
        config.initial_mtu(datagram(flow)).min_mtu(datagram(flow)).mtu_discovery_config(None);
    } else {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(datagram(flow));
        config.mtu_discovery_config(Some(discovery));
    }
    config.max_idle_timeout(None);
    config
}

impl Simulation<'_> {
    fn play(&mut self) -> Result<()> {
        loop {
            let own = self.timers.first().map_or(Time::NEVER, |(at, _)| *at);
            let now = if self.touched.is_empty() { self.stage.next().min(own) } else { self.stage.now };
            if now > self.stage.setup.duration {
                return Ok(());
            }
            while let Some(arrival) = self.stage.arrival(now, self.progress) {
                let sender = self.sides.partition_point(|side| side.flow < arrival.flow);
                let side = sender + usize::from(arrival.from == End::Sender);
                self.deliver(side, arrival.payload, arrival.ce)?;
                self.touched.insert(side);
            }
            while let Some(&(at, side)) = self.timers.first().filter(|(at, _)| *at <= now) {
                self.timers.remove(&(at, side));
                self.sides[side].due = Time::NEVER;
                self.touched.insert(side);
            }
            while let Some(side) = self.touched.pop_first() {
                self.serve(side)?;
            }
            if self.stage.follow() {
                self.touched.insert(0);
            }
        }
    }

    fn instant(&self) -> Instant {
        self.origin + Duration::from_nanos(self.stage.now.as_nanos())
    }

    fn flow_name(&self, side: usize) -> String {
        self.stage.setup.flows[self.sides[side].flow].name.clone()
    }

    fn fault(&self, side: usize, source: impl Into<StackError>) -> Error {
        Error::Flow { stack: STACK.name(), flow: self.flow_name(side), source: source.into() }
    }

    fn deliver(&mut self, side: usize, payload: Payload, ce: bool) -> Result<()> {
        let now = self.instant();
        let end = &mut self.sides[side];
        let ecn = match (ce, payload.ect) {
            (true, _) => Some(EcnCodepoint::Ce),
            (false, true) => Some(EcnCodepoint::Ect0),
            (false, false) => None,
        };
        if !side.is_multiple_of(2) {
            end.reader.on_datagram(payload.number, payload.reached);
        }
        self.buffer.clear();
        let bytes = BytesMut::from(&payload.bytes[..]);
        match handle(&mut end.endpoint, now, [end.other, end.own], ecn, bytes, &mut self.buffer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = end.endpoint.accept(incoming, now, &mut self.buffer, None);
                self.sides[side].connection = Some(accepted.map_err(|error| self.fault(side, error.cause))?);
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut end.connection {
                    connection.handle_event(event);
                    // Reading its metrics makes an observed controller process the datagram.
                    if self.stage.has_script() {
                        look(connection);
                    }
                }
            }
            // Answers to unknown peers, which do not exist here.
            Some(DatagramEvent::Response(_)) | None => {}
        }
        Ok(())
    }

    /// Runs one end as far as it can proceed, and schedules its next call.
    fn serve(&mut self, side: usize) -> Result<()> {
        let now = self.instant();
        if let Some(config) = self.sides[side].client.take() {
            let end = &mut self.sides[side];
            let opened = end.endpoint.connect(now, config, end.other, tls::NAME);
            self.sides[side].connection = Some(opened.map_err(|error| self.fault(side, error))?);
        }
        let Some((handle, mut connection)) = self.sides[side].connection.take() else { return Ok(()) };
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        self.exchange(side, handle, &mut connection)?;
        if side.is_multiple_of(2) {
            self.write(side, &mut connection);
            while self.transmit(side, now, &mut connection) && self.stage.has_script() {
                self.write(side, &mut connection);
            }
        } else {
            self.read(side, &mut connection)?;
            self.transmit(side, now, &mut connection);
        }
        let timeout = connection.poll_timeout().map_or(Time::NEVER, |at| {
            let since = at.saturating_duration_since(self.origin).as_nanos();
            Time::nanos(u64::try_from(since).unwrap_or(u64::MAX))
        });
        let app =
            if side.is_multiple_of(2) { self.stage.tally.flows[self.sides[side].flow].next_app() } else { Time::NEVER };
        self.sides[side].connection = Some((handle, connection));
        self.call(side, timeout.min(app));
        Ok(())
    }

    /// Schedules an end's next call, replacing the previous one.
    fn call(&mut self, side: usize, at: Time) {
        let end = &mut self.sides[side];
        if end.due != at {
            self.timers.remove(&(end.due, side));
            end.due = at;
            if at != Time::NEVER {
                self.timers.insert((at, side));
            }
        }
    }

    fn exchange(&mut self, side: usize, handle: ConnectionHandle, connection: &mut Connection) -> Result<()> {
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.sides[side].endpoint.handle_event(handle, event) {
                connection.handle_event(answer);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected if side.is_multiple_of(2) => {
                    self.sides[side].stream = connection.streams().open(Dir::Uni);
                    let flow = self.sides[side].flow;
                    self.stage.tally.flows[flow].begin(self.stage.now, &self.stage.setup.flows[flow]);
                }
                Event::Stream(StreamEvent::Opened { dir }) => {
                    self.sides[side].stream = connection.streams().accept(dir);
                }
                Event::ConnectionLost { reason } => return Err(self.fault(side, reason)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Passes the application's data to the stack.
    fn write(&mut self, side: usize, connection: &mut Connection) {
        let (has_script, end) = (self.stage.has_script(), &mut self.sides[side]);
        let flow = &mut self.stage.tally.flows[end.flow];
        flow.on_app(self.stage.now);
        let Some(stream) = end.stream else { return };
        let window = if has_script {
            let shallow = flow.shallow();
            connection.set_send_window(shallow);
            shallow
        } else {
            send_buffer(&self.stage.setup, &self.stage.setup.flows[end.flow]).into()
        };
        loop {
            let wanted = flow.to_write().min(CHUNK as u64) as usize;
            if wanted == 0 {
                break;
            }
            // Blocked: the write is retried at the next event.
            let Ok(taken) = connection.send_stream(stream).write(&self.zeros[..wanted]) else { break };
            flow.on_written(taken as u64);
            end.written += taken as u64;
        }
        end.reached = end.written;
        if flow.to_write() > 0 {
            // Unacknowledged data fills the window: it is in transit, is lost and sent before the rest, or waits.
            let under_way = flow.sender.lock().now.in_flight;
            end.reached = end.written.min(end.written.saturating_sub(window) + 2 * under_way + CHUNK as u64);
        }
        if flow.is_written() {
            let _ = connection.send_stream(stream).finish();
            end.stream = None;
        }
    }

    /// Reads arrived data, and notifies the sender's application of a new request.
    fn read(&mut self, side: usize, connection: &mut Connection) -> Result<()> {
        let Some(stream) = self.sides[side].stream else { return Ok(()) };
        let end = &mut self.sides[side];
        let mut bytes = 0;
        if let Ok(mut chunks) = connection.recv_stream(stream).read(end.reader.is_in_order()) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                bytes += end.reader.on_piece(self.stage.now, chunk.offset, chunk.bytes.len() as u64);
            }
            let _ = chunks.finalize();
        }
        let setup = &self.stage.setup;
        let round_trip = Span::micros(self.stage.tally.flows[end.flow].sender.lock().rtt.last_us.into());
        if end.reader.has_lost(self.stage.now, round_trip, send_buffer(setup, &setup.flows[end.flow]).into()) {
            return Err(Error::Lost { stack: STACK.name(), flow: self.flow_name(side) });
        }
        let flow = &mut self.stage.tally.flows[end.flow];
        if bytes > 0 && flow.on_read(self.stage.now, bytes) {
            let app = flow.next_app().min(self.sides[side - 1].due);
            self.call(side - 1, app);
        }
        Ok(())
    }

    /// Sends all available datagrams, or at most one with a script. Returns true if any was sent.
    fn transmit(&mut self, side: usize, now: Instant, connection: &mut Connection) -> bool {
        let from = if side.is_multiple_of(2) { End::Sender } else { End::Receiver };
        let is_single = self.stage.has_script() && from == End::Sender;
        let batch = if is_single { SINGLY } else { BATCH };
        let end = &mut self.sides[side];
        let flow = end.flow;
        let mut out = VecDeque::new();
        loop {
            self.buffer.clear();
            let Some(transmit) = poll_transmit(connection, now, batch, &mut self.buffer) else { break };
            let bytes = &self.buffer[..transmit.size];
            let ect = transmit.ecn.is_some() && self.stage.setup.flows[flow].host.ecn;
            for one in bytes.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
                out.push_back(Payload { bytes: one.to_vec(), ect, number: end.sent, reached: end.reached });
                end.sent += 1;
            }
            if is_single {
                break;
            }
        }
        let has_sent = !out.is_empty();
        for payload in out {
            let (bytes, ect) = (payload.bytes.len(), payload.ect);
            self.stage.send(from, flow, payload, bytes, ect);
        }
        has_sent
    }
}
