//! TLS 1.3 with raw public keys, by rustls.

use super::{HandshakeError, KeyCheck, NewKeys, Side};
use crate::codec::ConnectionId;
use crate::keys::{KeyPair, KeySource};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::quic::{ClientConnection, Connection, KeyChange, ServerConnection, Suite, Version};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, PeerIncompatible,
    ServerConfig, SignatureScheme,
};
use std::fmt;
use std::sync::Arc;

const ALPN: &[u8] = b"howdah/1";

/// What the handshake needs to know about this side.
#[derive(Clone)]
pub struct TlsIdentity {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsIdentity")
    }
}

/// TLS cannot be set up with that key.
#[derive(Clone, Debug, thiserror::Error)]
#[error("unusable key: {0}")]
pub struct IdentityError(String);

pub(crate) fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = cipher_suites();
    Arc::new(provider)
}

/// AES-128-GCM first where the processor has AES instructions, ChaCha20-Poly1305 elsewhere.
fn cipher_suites() -> Vec<rustls::SupportedCipherSuite> {
    use aws_lc_rs::cipher_suite::{
        TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
    };
    let aes = [TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384];
    let chacha = [TLS13_CHACHA20_POLY1305_SHA256];
    if has_aes_instructions() {
        [&aes[..], &chacha].concat()
    } else {
        [&chacha[..], &aes].concat()
    }
}

fn has_aes_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// The suite of Initial packets, as in QUIC (RFC 9001 section 5.2).
fn initial_suite() -> Suite {
    aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256
        .tls13()
        .and_then(rustls::Tls13CipherSuite::quic_suite)
        .expect("the provider has AES-128-GCM for QUIC")
}

impl TlsIdentity {
    /// Both sides' TLS settings for one key pair. `check_peer` sees every peer's key before
    /// anything is exchanged with it; returning false ends the handshake.
    pub fn new(key: Arc<CertifiedKey>, check_peer: KeyCheck) -> Result<Self, IdentityError> {
        Self::with_provider(provider(), key, check_peer)
    }

    pub(crate) fn with_provider(
        provider: Arc<CryptoProvider>,
        key: Arc<CertifiedKey>,
        check_peer: KeyCheck,
    ) -> Result<Self, IdentityError> {
        let error = |e: rustls::Error| IdentityError(e.to_string());
        let verifier = Arc::new(RawKeyVerifier {
            check_peer,
            algorithms: provider.signature_verification_algorithms,
        });
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(error)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&verifier) as _)
            .with_client_cert_resolver(Arc::new(
                rustls::client::AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&key)),
            ));
        client.alpn_protocols = vec![ALPN.to_vec()];
        client.resumption = rustls::client::Resumption::disabled();
        client.enable_sni = false;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(error)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(
                rustls::server::AlwaysResolvesServerRawPublicKeys::new(key),
            ));
        server.alpn_protocols = vec![ALPN.to_vec()];
        server.send_tls13_tickets = 0;
        server.max_early_data_size = 0;
        Ok(Self {
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }
}

/// Accepts raw public keys that `check_peer` likes; checks their signatures.
struct RawKeyVerifier {
    check_peer: KeyCheck,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for RawKeyVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawKeyVerifier")
    }
}

impl RawKeyVerifier {
    fn check(&self, key: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        if (self.check_peer)(key.as_ref()) {
            Ok(())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(key.as_ref()),
            dss,
            &self.algorithms,
        )
    }
}

impl ServerCertVerifier for RawKeyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(end_entity)
            .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for RawKeyVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // Judged once its signature has shown that the peer holds the key: else strangers could find
        // out whose keys are let in.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let refused = |_| rustls::Error::from(CertificateError::ApplicationVerificationFailure);
        let valid = self.verify(message, cert, dss).map_err(refused)?;
        self.check(cert).map(|()| valid)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// One side of a running handshake.
pub(crate) struct TlsHandshake(Connection);

impl TlsHandshake {
    pub(super) fn new(
        identity: &TlsIdentity,
        side: Side,
        parameters: Vec<u8>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self(match side {
            Side::Client => {
                let name = ServerName::try_from("howdah").expect("a valid name");
                let config = Arc::clone(&identity.client);
                ClientConnection::new(config, Version::V1, name, parameters)?.into()
            }
            Side::Server => {
                ServerConnection::new(Arc::clone(&identity.server), Version::V1, parameters)?.into()
            }
        }))
    }

    /// Keys of Initial packets, from the client's first destination id.
    pub(super) fn initial_keys(id: ConnectionId, side: Side) -> KeyPair {
        let side = match side {
            Side::Client => rustls::Side::Client,
            Side::Server => rustls::Side::Server,
        };
        let keys = initial_suite().keys(&id.0.to_be_bytes(), side, Version::V1);
        keys.into()
    }

    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        self.0.read_hs(bytes).map_err(|error| match error {
            rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
                HandshakeError::KeyRefused
            }
            error => error.into(),
        })
    }

    pub(super) fn write(&mut self, out: &mut Vec<u8>) -> Option<NewKeys> {
        self.0.write_hs(out).map(|change| match change {
            KeyChange::Handshake { keys } => NewKeys::Handshake(keys.into()),
            KeyChange::OneRtt { keys, next } => {
                NewKeys::Data(keys.into(), KeySource::Tls(Box::new(next)))
            }
        })
    }

    pub(super) fn is_done(&self) -> bool {
        !self.0.is_handshaking()
    }

    pub(super) fn peer_parameters(&self) -> Option<&[u8]> {
        self.0.quic_transport_parameters()
    }

    /// The peer's `SubjectPublicKeyInfo` in DER.
    pub(super) fn peer_key(&self) -> Vec<u8> {
        let keys = self.0.peer_certificates();
        let key = keys.and_then(<[_]>::first);
        key.map(|key| key.as_ref().to_vec()).unwrap_or_default()
    }
}

impl From<rustls::Error> for HandshakeError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error.to_string())
    }
}
