//! What needs a look inside.

use super::*;
use crate::handshake::{Security, TlsIdentity, provider};
use rustls::crypto::{GetRandomFailed, SecureRandom};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// A system that has no randomness to give.
#[derive(Debug)]
struct Dry;

impl SecureRandom for Dry {
    fn fill(&self, _buffer: &mut [u8]) -> Result<(), GetRandomFailed> {
        Err(GetRandomFailed)
    }
}

fn certified_key() -> Arc<CertifiedKey> {
    let pkcs8 =
        aws_lc_rs::signature::Ed25519KeyPair::generate_pkcs8(&aws_lc_rs::rand::SystemRandom::new())
            .expect("keys work");
    let private = PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec());
    let signer = rustls::crypto::aws_lc_rs::sign::any_eddsa_type(&private).expect("keys work");
    let spki = signer.public_key().expect("it has one").to_vec();
    Arc::new(CertifiedKey::new(vec![CertificateDer::from(spki)], signer))
}

#[test]
fn without_tls_there_is_no_connection_rather_than_one_in_the_clear() {
    let mut provider = Arc::unwrap_or_clone(provider());
    provider.secure_random = &Dry;
    let identity = TlsIdentity::with_provider(
        Arc::new(provider),
        certified_key(),
        Arc::new(|_: &[u8]| true),
    )
    .expect("settings need no randomness");
    let connection = Connection::new(
        Time::ZERO,
        Role::Client,
        Config::new(Security::Tls(identity)),
        ConnectionId(1),
        SocketAddr::from(([127, 0, 0, 1], 1)),
        7,
    );
    match connection {
        Err(ConnectionError::Handshake(why)) => assert!(why.contains("random"), "{why}"),
        other => panic!("{other:?}"),
    }
}
