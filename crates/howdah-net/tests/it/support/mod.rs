//! What tests of endpoints over sockets have in common.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use howdah_core::Span;
use howdah_proto::{Config, Policy, Security, TlsIdentity};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// Of somebody with a new key, who admits everybody.
pub(crate) fn config() -> Config {
    const SPKI_PREFIX: [u8; 12] = [
        0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0,
    ];
    let pkcs8 =
        Ed25519KeyPair::generate_pkcs8(&aws_lc_rs::rand::SystemRandom::new()).expect("keys work");
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("keys work");
    let spki = [&SPKI_PREFIX[..], pair.public_key().as_ref()].concat();
    let private = PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec());
    let signer = rustls::crypto::aws_lc_rs::sign::any_eddsa_type(&private).expect("keys work");
    let key = Arc::new(CertifiedKey::new(vec![CertificateDer::from(spki)], signer));
    let identity = TlsIdentity::new(key, Arc::new(|_: &[u8]| true)).expect("keys work");
    let mut config = Config::new(Security::Tls(identity));
    // A busy machine is no dead peer.
    config.idle_timeout = Span::from_secs(60);
    // This is not about rate control; the transfer takes many rounds.
    config.policy = Policy::Fixed(howdah_core::Rate::from_mbit_per_sec(200));
    config
}
