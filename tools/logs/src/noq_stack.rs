//! noq's BBR3 as a client that sends; it writes its own qlog.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::File;
use std::io::BufWriter;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use noq::congestion::Bbr3Config;
use noq::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use noq::{ClientConfig, ConnectionId, Endpoint, QlogConfig, QlogFactory, ServerConfig, Side, TransportConfig, rustls};

use crate::Fault;

/// Logs every connection of the client to one file: there is only one connection.
#[derive(Debug)]
struct OneFile(String);

impl QlogFactory for OneFile {
    fn for_connection(&self, _: Side, _: SocketAddr, _: ConnectionId, _: Instant) -> Option<QlogConfig> {
        let mut config = QlogConfig::new(Box::new(BufWriter::new(File::create(&self.0).ok()?)));
        config.title(Some("noq 1.4.0, Bbr3, loopback".to_owned()));
        Some(config)
    }
}

/// Sends this number of bytes from a client to a server in the same process.
pub async fn record(file: &str, bytes: usize) -> Result<(), Fault> {
    let named = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let cert = CertificateDer::from(named.cert.der().to_vec());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(named.signing_key.serialize_der()));
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Endpoint::server(ServerConfig::with_single_cert(vec![cert.clone()], key)?, here)?;
    let address = server.local_addr()?;
    let receiver = tokio::spawn(async move {
        let connection = server.accept().await.ok_or("no connection came")?.await?;
        let mut stream = connection.accept_uni().await?;
        let mut received = 0;
        while let Some(chunk) = stream.read_chunk(1 << 16).await? {
            received += chunk.len();
        }
        Ok::<usize, Fault>(received)
    });
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert)?;
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(Bbr3Config::default()));
    transport.qlog_factory(Arc::new(OneFile(file.to_owned())));
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(Arc::new(transport));
    let client = Endpoint::client(here)?;
    client.set_default_client_config(config);
    let connection = client.connect(address, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    for _ in 0..bytes >> 16 {
        stream.write_all(&[0_u8; 1 << 16]).await?;
    }
    stream.finish()?;
    println!("{} bytes arrived", receiver.await??);
    connection.close(0_u32.into(), b"done");
    client.wait_idle().await;
    Ok(())
}
