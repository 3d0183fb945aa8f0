//! noq's endpoints on the path.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod control;
#[path = "../driver.rs"]
mod driver;

pub use driver::run;

/// noq's types, and calls that differ from quinn's.
mod stack {
    use std::net::SocketAddr;
    use std::num::NonZeroUsize;
    use std::sync::Arc;
    use std::time::Instant;

    use bbrlab_sim::backend::Stack;
    use bytes::BytesMut;
    use noq_proto::congestion::Controller;
    pub use noq_proto::congestion::CubicConfig;
    pub use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
    pub use noq_proto::{
        AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator,
        DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig, Event, MtuDiscoveryConfig, ServerConfig,
        StreamEvent, StreamId, TimeSource, TransportConfig, VarInt,
    };
    use noq_proto::{FourTuple, PathId, Transmit};

    pub const STACK: Stack = Stack::Noq;
    /// Its controllers whose random numbers have no seed.
    pub const PEERS_THAT_VARY: &[&str] = &["noq:bbr3"];
    /// Maximum number of datagrams per call: the size of a socket's super-packet. Source: noq's own `MAX_TRANSMIT_SEGMENTS`.
    pub const BATCH: NonZeroUsize = NonZeroUsize::new(10).unwrap();
    /// With a script, the application is called after each datagram.
    pub const SINGLY: NonZeroUsize = NonZeroUsize::MIN;

    pub fn endpoint(config: EndpointConfig, server: Option<ServerConfig>) -> Endpoint {
        Endpoint::new(Arc::new(config), server.map(Arc::new), true)
    }

    pub fn generate_ids(
        config: &mut EndpointConfig,
        generate: impl Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
    ) {
        config.cid_generator(Arc::new(generate));
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
        endpoint.handle(now, FourTuple::new(other, Some(own.ip())), ecn, bytes, buffer)
    }

    /// Reads the controller's metrics.
    pub fn look(connection: &Connection) {
        let _ = connection.congestion_state(PathId::ZERO).map(Controller::metrics);
    }

    pub fn poll_transmit(
        connection: &mut Connection,
        now: Instant,
        datagrams: NonZeroUsize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, datagrams, buffer)
    }
}
