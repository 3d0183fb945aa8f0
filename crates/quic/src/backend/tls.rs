//! TLS whose every byte follows from a seed, for simulations that must be reproducible. It keeps no secret.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use bbrlab_core::Rng;
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, SerialNumber, date_time_ymd};
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, NamedGroup, RootCertStore, ServerConfig};

use crate::Result;

/// Part of the seed used for TLS.
const STREAM: u64 = 0x0074_6c73;
/// Name in the certificate.
pub const NAME: &str = "bbrlab.invalid";
/// Current time for certificate checks, in the year 2026.
const NOW_S: u64 = 1_780_000_000;
/// Encoding of an Ed25519 key in PKCS #8 (RFC 8410 §7), up to the key.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
const PROTOCOL: &[u8] = b"bbrlab";

thread_local! {
    /// Random numbers for rustls, which requires a static source. A run stays on its thread.
    static DICE: RefCell<Rng> = const { RefCell::new(Rng::new(0)) };
}

/// Seeds the random numbers of a run.
pub fn seed(seed: u64) {
    DICE.set(Rng::derive(seed, STREAM));
}

fn fill(bytes: &mut [u8]) {
    DICE.with_borrow_mut(|dice| fill_from(dice, bytes));
}

/// Fills bytes with random numbers.
pub fn fill_from(dice: &mut Rng, bytes: &mut [u8]) {
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&dice.next_u64().to_le_bytes()[..part.len()]);
    }
}

#[derive(Debug)]
struct SeededRng;

impl SecureRandom for SeededRng {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        fill(bytes);
        Ok(())
    }
}

/// Key exchange in X25519's shape: the "shared secret" is the exclusive or of two public values.
#[derive(Debug)]
struct OpenExchange;

struct Active([u8; 32]);

impl SupportedKxGroup for OpenExchange {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        let mut own = [0; 32];
        fill(&mut own);
        Ok(Box::new(Active(own)))
    }
    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl ActiveKeyExchange for Active {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, rustls::Error> {
        let both: Vec<u8> = self.0.iter().zip(peer).map(|(own, other)| own ^ other).collect();
        Ok(SharedSecret::from(&both[..]))
    }
    fn pub_key(&self) -> &[u8] {
        &self.0
    }
    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

#[derive(Debug)]
struct Fixed;

impl TimeProvider for Fixed {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(NOW_S)))
    }
}

static DICE_SOURCE: SeededRng = SeededRng;
static EXCHANGE: OpenExchange = OpenExchange;

/// Returns both ends' configurations, with the primitives of `base`.
pub fn configs(base: CryptoProvider) -> Result<(ServerConfig, ClientConfig)> {
    let mut pkcs8 = PKCS8.to_vec();
    pkcs8.extend([7; 32]);
    let key_der = PrivatePkcs8KeyDer::from(pkcs8);
    let key = KeyPair::from_pkcs8_der_and_sign_algo(&key_der, &PKCS_ED25519)?;
    let mut params = CertificateParams::new([NAME.to_owned()])?;
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2099, 1, 1);
    params.serial_number = Some(SerialNumber::from(1));
    let certificate = params.self_signed(&key)?;
    let provider = Arc::new(CryptoProvider { secure_random: &DICE_SOURCE, kx_groups: vec![&EXCHANGE], ..base });
    let versions = [&rustls::version::TLS13];
    let server = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::new(Fixed))
        .with_protocol_versions(&versions)
        .and_then(|builder| {
            let chain = vec![certificate.der().clone()];
            builder.with_no_client_auth().with_single_cert(chain, PrivateKeyDer::Pkcs8(key_der.clone_key()))
        });
    let mut server = server?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone())?;
    let client = ClientConfig::builder_with_details(provider, Arc::new(Fixed)).with_protocol_versions(&versions);
    let client = client?;
    let mut client = client.with_root_certificates(roots).with_no_client_auth();
    server.alpn_protocols = vec![PROTOCOL.to_vec()];
    server.max_early_data_size = u32::MAX;
    server.send_tls13_tickets = 0;
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok((server, client))
}
