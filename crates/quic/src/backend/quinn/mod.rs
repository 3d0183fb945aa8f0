//! quinn's endpoints on the path.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod control;
#[path = "../driver.rs"]
mod driver;

pub use driver::run;

/// quinn's types, and calls that differ from noq's.
mod stack {
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::time::Instant;

    use bbrlab_sim::backend::Stack;
    use bytes::BytesMut;
    use quinn_proto::Transmit;
    pub use quinn_proto::congestion::CubicConfig;
    pub use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
    pub use quinn_proto::{
        AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator,
        DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig, Event, MtuDiscoveryConfig, ServerConfig,
        StreamEvent, StreamId, TimeSource, TransportConfig, VarInt,
    };

    pub const STACK: Stack = Stack::Quinn;
    /// Its controllers whose random numbers have no seed.
    pub const PEERS_THAT_VARY: &[&str] = &["quinn:bbr"];
    /// Maximum number of datagrams per call: the size of a socket's super-packet. Source: quinn's own `MAX_TRANSMIT_SEGMENTS`.
    pub const BATCH: usize = 10;
    /// With a script, the application is called after each datagram.
    pub const SINGLY: usize = 1;

    pub fn endpoint(config: EndpointConfig, server: Option<ServerConfig>) -> Endpoint {
        Endpoint::new(Arc::new(config), server.map(Arc::new), true, None)
    }

    pub fn generate_ids(
        config: &mut EndpointConfig,
        generate: impl Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
    ) {
        config.cid_generator(generate);
    }

    /// Passes a datagram to an endpoint. `ends`: the other's address and its own.
    pub fn handle(
        endpoint: &mut Endpoint,
        now: Instant,
        ends: [SocketAddr; 2],
        ecn: Option<EcnCodepoint>,
        bytes: BytesMut,
        buffer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        let [other, own] = ends;
        endpoint.handle(now, other, Some(own.ip()), ecn, bytes, buffer)
    }

    /// Reads the controller's metrics.
    pub fn look(connection: &Connection) {
        let _ = connection.congestion_state().metrics();
    }

    pub fn poll_transmit(
        connection: &mut Connection,
        now: Instant,
        datagrams: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, datagrams, buffer)
    }
}
