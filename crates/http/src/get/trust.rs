//! Certificate verification, and explanations of its errors.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use data_encoding::BASE64;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use x509_parser::parse_x509_certificate;

use crate::serve::certificate::spki_hash;
use crate::{Error, Result};

/// Bytes of a hash.
const HASH_BYTES: usize = 32;

/// The servers that a user trusts.
#[derive(Clone, Copy, Debug)]
pub enum Anchor<'a> {
    Anyone,
    /// SHA-256 hash of the server's key, in Base64.
    Key(&'a str),
    /// Authorities of this file in PEM, or the system's.
    Authorities(Option<&'a Path>),
}

/// A checked [`Anchor`].
#[derive(Clone, Debug)]
enum Trusted {
    Anyone,
    Key(String),
    /// Authorities, and the certificates of the file, which are trusted as a server's own too.
    Authorities(Arc<WebPkiServerVerifier>, Vec<CertificateDer<'static>>),
}

/// A certificate verifier that keeps the error: QUIC would report only the number of an alert.
#[derive(Clone, Debug)]
pub struct Trust {
    trusted: Trusted,
    provider: Arc<CryptoProvider>,
    wrong: Arc<Mutex<Option<rustls::Error>>>,
}

impl Trust {
    /// Prepares the verification of servers.
    pub fn new(anchor: Anchor<'_>) -> Result<Self> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let trusted = match anchor {
            Anchor::Anyone => Trusted::Anyone,
            Anchor::Key(hash) => Trusted::Key(hash_of(hash)?),
            Anchor::Authorities(file) => {
                let (verifier, own) = authorities(file, &provider)?;
                Trusted::Authorities(verifier, own)
            }
        };
        Ok(Self { trusted, provider, wrong: Arc::default() })
    }

    /// Error of the last certificate, if any.
    pub fn wrong(&self) -> Option<rustls::Error> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// TLS configuration for one connection, with errors of its own.
    pub fn tls(&self) -> Result<(ClientConfig, Self), rustls::Error> {
        let own = Self { wrong: Arc::default(), ..self.clone() };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider));
        let mut tls = builder
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(own.clone()))
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        Ok((tls, own))
    }
}

fn hash_of(text: &str) -> Result<String> {
    match BASE64.decode(text.as_bytes()) {
        Ok(hash) if hash.len() == HASH_BYTES => Ok(text.to_owned()),
        _ => Err(Error::Spki(text.to_owned())),
    }
}

/// The system's authorities, or those of a file.
fn authorities(
    file: Option<&Path>,
    provider: &Arc<CryptoProvider>,
) -> Result<(Arc<WebPkiServerVerifier>, Vec<CertificateDer<'static>>)> {
    let (mut roots, mut own) = (RootCertStore::empty(), Vec::new());
    match file {
        None => {
            let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(file) => {
            let fault = |problem| Error::Authorities { path: file.to_owned(), problem };
            let text =
                std::fs::read(file).map_err(|source| Error::TlsFile { flag: "--ca", path: file.to_owned(), source })?;
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let certificate = certificate.map_err(|_| fault("it contains no certificate in PEM"))?;
                own.push(certificate.clone());
                roots.add(certificate).map_err(|_| fault("a certificate in it cannot be read"))?;
            }
            if roots.is_empty() {
                return Err(fault("it contains no certificate in PEM"));
            }
        }
    }
    if roots.is_empty() {
        return Err(Error::NoAuthority);
    }
    Ok((WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build()?, own))
}

/// Verifies a certificate that the user trusts itself, such as a self-signed one that is marked as an authority: its name and its
/// time. The handshake proves that the server has its key.
fn verify_own(certificate: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
    let (_, parsed) = parse_x509_certificate(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let (validity, now) = (parsed.validity(), i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = match &self.trusted {
            Trusted::Anyone => Ok(ServerCertVerified::assertion()),
            Trusted::Key(hash) if spki_hash(certificate).is_ok_and(|own| own == *hash) => {
                Ok(ServerCertVerified::assertion())
            }
            Trusted::Key(_) => Err(CertificateError::ApplicationVerificationFailure.into()),
            Trusted::Authorities(_, own) if own.iter().any(|one| one == certificate) => {
                verify_own(certificate, name, now).map(|()| ServerCertVerified::assertion())
            }
            Trusted::Authorities(verifier, _) => {
                verifier.verify_server_cert(certificate, intermediates, name, ocsp_response, now)
            }
        };
        if let Err(error) = &verified {
            *self.wrong.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
