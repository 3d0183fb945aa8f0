//! Certificate of the server, generated or read, and the hash by which a client can verify its key.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::net::IpAddr;
use std::path::Path;

use bbrlab_live::clock::wall_ns;
use data_encoding::BASE64;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ParsedCertificate;
use time::{Duration, OffsetDateTime};

use crate::{Error, Result};

/// Validity of a generated certificate. Browsers accept a key by its hash only if it is shorter than 14 days.
const VALID: Duration = Duration::days(13);
/// Tolerance for a client's slow clock.
const BEFORE: Duration = Duration::hours(1);

/// A certificate chain and its key.
pub struct Certificate {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

/// Generates a self-signed certificate for this host's own names and the address on which it serves.
pub fn make(address: IpAddr) -> Result<Certificate> {
    let fault = |error: rcgen::Error| Error::MakeCertificate(error.into());
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if !address.is_unspecified() && !names.contains(&address.to_string()) {
        names.push(address.to_string());
    }
    // ECDSA on P-256, as browsers require for this purpose.
    let key = KeyPair::generate().map_err(fault)?;
    let mut params = CertificateParams::new(names).map_err(fault)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "bbrlab serve");
    let now = OffsetDateTime::from_unix_timestamp_nanos(wall_ns().into());
    let now = now.map_err(|error| Error::MakeCertificate(error.into()))?;
    params.not_before = now - BEFORE;
    params.not_after = now - BEFORE + VALID;
    let certificate = params.self_signed(&key).map_err(fault)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok(Certificate { chain: vec![certificate.der().clone()], key: key.into() })
}

/// Reads a certificate chain and its key.
pub fn read(chain: &Path, key: &Path) -> Result<Certificate> {
    let fault = |flag, path: &Path, error, wanted| match error {
        pem::Error::Io(source) => Error::TlsFile { flag, path: path.to_owned(), source },
        _ => Error::NoPem { flag, path: path.to_owned(), wanted },
    };
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(chain).and_then(|certificates| certificates.collect());
    let certificates = certificates.map_err(|error| fault("--cert", chain, error, "certificate"))?;
    if certificates.is_empty() {
        return Err(fault("--cert", chain, pem::Error::NoItemsFound, "certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| fault("--key", key, error, "private key"))?;
    Ok(Certificate { chain: certificates, key })
}

/// SHA-256 of the public key, in the form that browsers and `bbrlab get --spki` accept.
pub fn spki_hash(certificate: &CertificateDer<'_>) -> Result<String, rustls::Error> {
    let key = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
    Ok(BASE64.encode(ring::digest::digest(&ring::digest::SHA256, &key).as_ref()))
}
