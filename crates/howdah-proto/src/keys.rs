//! Packet protection: who seals, who opens, and when keys change.
//!
//! Packet protection is that of QUIC (RFC 9001 section 5) without header protection: packet
//! numbers are not secret here. The nonce is the packet number, which never repeats under a key.

use howdah_core::{Span, Time};
#[cfg(feature = "tls")]
use rustls::quic::{PacketKey, PacketKeySet, Secrets};
use std::fmt;
#[cfg(feature = "tls")]
use std::sync::Arc;

/// Between the first packet of a phase that opens and the first one of the next lie at least three
/// probe timeouts of the peer (it counts from our confirmation, which comes later), and a probe
/// timeout is never below 51 ms (srtt, 1 ms, 50 ms).
const PHASE_MIN: Span = Span::from_millis(150);

/// Bytes that sealing adds to a packet.
pub const TAG_LEN: usize = 16;

/// A packet that is not what a holder of the key sealed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("packet does not authenticate")]
pub struct OpenError;

/// One direction's AEAD key, shared with whatever thread seals or opens.
#[derive(Clone)]
pub enum AeadKey {
    /// TLS 1.3 traffic key.
    #[cfg(feature = "tls")]
    Sealed(Arc<dyn PacketKey>),
    /// No protection: for the simulator, which carries no payload to protect.
    #[cfg(feature = "sim")]
    Clear,
}

impl fmt::Debug for AeadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            #[cfg(feature = "tls")]
            Self::Sealed(_) => "Sealed(..)",
            #[cfg(feature = "sim")]
            Self::Clear => "Clear",
        })
    }
}

impl AeadKey {
    /// Encrypts `body` in place and returns the tag that goes behind it.
    ///
    /// # Panics
    /// If the AEAD refuses, which it does for bodies above 2^36 bytes only.
    pub fn seal(&self, number: u64, header: &[u8], body: &mut [u8]) -> [u8; TAG_LEN] {
        let mut tag = [0; TAG_LEN];
        match self {
            #[cfg(feature = "tls")]
            Self::Sealed(key) => {
                let sealed = key
                    .encrypt_in_place(number, header, body)
                    .expect("an AEAD seals any body that fits a datagram");
                tag.copy_from_slice(sealed.as_ref());
            }
            #[cfg(feature = "sim")]
            Self::Clear => {}
        }
        tag
    }

    /// Decrypts `body` (ciphertext and tag) in place; the plaintext stands at its front.
    pub fn open(&self, number: u64, header: &[u8], body: &mut [u8]) -> Result<usize, OpenError> {
        match self {
            #[cfg(feature = "tls")]
            Self::Sealed(key) => key
                .decrypt_in_place(number, header, body)
                .map(<[u8]>::len)
                .map_err(|_| OpenError),
            #[cfg(feature = "sim")]
            Self::Clear => Ok(body.len()),
        }
    }

    fn confidentiality_limit(&self) -> u64 {
        match self {
            #[cfg(feature = "tls")]
            Self::Sealed(key) => key.confidentiality_limit(),
            #[cfg(feature = "sim")]
            Self::Clear => u64::MAX,
        }
    }

    fn integrity_limit(&self) -> u64 {
        match self {
            #[cfg(feature = "tls")]
            Self::Sealed(key) => key.integrity_limit(),
            #[cfg(feature = "sim")]
            Self::Clear => u64::MAX,
        }
    }
}

/// A key for each direction.
#[derive(Clone, Debug)]
pub(crate) struct KeyPair {
    /// Seals what this side sends.
    pub(crate) local: AeadKey,
    /// Opens what the peer sends.
    pub(crate) remote: AeadKey,
}

#[cfg(feature = "sim")]
impl KeyPair {
    /// No protection in either direction.
    pub(crate) const CLEAR: Self = Self {
        local: AeadKey::Clear,
        remote: AeadKey::Clear,
    };
}

#[cfg(feature = "tls")]
impl From<rustls::quic::Keys> for KeyPair {
    fn from(keys: rustls::quic::Keys) -> Self {
        Self {
            local: AeadKey::Sealed(keys.local.packet.into()),
            remote: AeadKey::Sealed(keys.remote.packet.into()),
        }
    }
}

#[cfg(feature = "tls")]
impl From<PacketKeySet> for KeyPair {
    fn from(keys: PacketKeySet) -> Self {
        Self {
            local: AeadKey::Sealed(keys.local.into()),
            remote: AeadKey::Sealed(keys.remote.into()),
        }
    }
}

/// Derives the keys of the phases to come (RFC 9001 section 6.1).
pub(crate) enum KeySource {
    /// From TLS secrets.
    #[cfg(feature = "tls")]
    Tls(Box<Secrets>),
    /// Always [`KeyPair::CLEAR`].
    #[cfg(feature = "sim")]
    Clear,
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySource")
    }
}

impl KeySource {
    fn next_pair(&mut self) -> KeyPair {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(secrets) => secrets.next_packet_keys().into(),
            #[cfg(feature = "sim")]
            Self::Clear => KeyPair::CLEAR,
        }
    }
}

/// Which key opened a packet; given back with the opened packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum KeyChoice {
    /// The phase in force.
    Current,
    /// The phase before it, for packets that were overtaken by an update.
    Previous,
    /// The phase after it: the peer updates.
    Next,
}

/// The data keys of a connection, with their phases.
///
/// Either side may update once a packet of the phase in force has been confirmed
/// (RFC 9001 section 6.1). Packets are sealed under the new phase at once; those of the peer
/// that are still of the old phase are told by their lower numbers.
#[derive(Debug)]
pub(crate) struct KeyRing {
    source: KeySource,
    current: KeyPair,
    next: KeyPair,
    previous_remote: Option<AeadKey>,
    phase: bool,
    /// Packets sealed in this phase.
    sealed: u64,
    /// Update after so many.
    update_after: u64,
    /// First packet number sealed in this phase.
    first_sealed: u64,
    /// Lowest packet number opened in this phase.
    first_opened: Option<u64>,
    /// When the first one was.
    opened_at: Time,
    /// Lowest packet number opened in the phase before.
    first_of_previous: u64,
    /// Since when a packet of this phase is known to have been confirmed.
    confirmed_at: Option<Time>,
    failed_opens: u64,
    updates: u64,
}

impl KeyRing {
    /// Keys of the first phase. `update_after` is in packets and is lowered to half of what the
    /// AEAD allows.
    pub(crate) fn new(current: KeyPair, mut source: KeySource, update_after: u64) -> Self {
        let limit = current.local.confidentiality_limit() / 2;
        let next = source.next_pair();
        Self {
            source,
            current,
            next,
            previous_remote: None,
            phase: false,
            sealed: 0,
            update_after: update_after.clamp(1, limit),
            first_sealed: 0,
            first_opened: None,
            opened_at: Time::ZERO,
            first_of_previous: 0,
            confirmed_at: None,
            failed_opens: 0,
            updates: 0,
        }
    }

    /// Phase bit and key for packet `number`, updating if it is time: three times `probe_timeout`
    /// after the phase was confirmed, at the earliest (RFC 9001 section 6.5).
    pub(crate) fn seal_key(
        &mut self,
        now: Time,
        number: u64,
        probe_timeout: Span,
    ) -> (bool, &AeadKey) {
        let settled = self
            .confirmed_at
            .is_some_and(|at| now.since(at) >= probe_timeout * 3);
        if self.sealed >= self.update_after && settled && self.first_opened.is_some() {
            self.rotate(number);
        }
        self.sealed += 1;
        (self.phase, &self.current.local)
    }

    /// The AEAD's limit is reached and the peer confirms nothing: stop sending.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.sealed >= self.current.local.confidentiality_limit()
    }

    /// The key that should open packet `number` of that phase. `None`: it comes from two phases
    /// back, whose key is gone.
    pub(crate) fn open_key(&self, phase: bool, number: u64) -> Option<(KeyChoice, &AeadKey)> {
        if phase == self.phase {
            return (number >= self.first_of_previous)
                .then_some((KeyChoice::Current, &self.current.remote));
        }
        Some(match (&self.previous_remote, self.first_opened) {
            (Some(previous), None) => (KeyChoice::Previous, previous),
            (Some(previous), Some(first)) if number < first => (KeyChoice::Previous, previous),
            _ => (KeyChoice::Next, &self.next.remote),
        })
    }

    /// Packet `number` was opened with the key of `choice`; `next_to_seal` is the number that this
    /// side will send next. Returns false if the peer may not update yet.
    pub(crate) fn on_opened(
        &mut self,
        now: Time,
        choice: KeyChoice,
        number: u64,
        next_to_seal: u64,
    ) -> bool {
        match choice {
            KeyChoice::Current => {
                if self.first_opened.is_none() {
                    self.opened_at = now;
                }
                self.first_opened = Some(self.first_opened.map_or(number, |f| f.min(number)));
            }
            KeyChoice::Previous => {}
            KeyChoice::Next => {
                // The peer must have seen a packet of this phase before it starts the next, and have
                // waited: each update costs a derivation of keys.
                let too_early =
                    self.first_opened.is_none() || now.since(self.opened_at) < PHASE_MIN;
                if too_early || self.updates > 0 && self.sealed == 0 {
                    return false;
                }
                self.rotate(next_to_seal);
                self.first_opened = Some(number);
                self.opened_at = now;
            }
        }
        true
    }

    /// A packet failed to open. Returns true when the AEAD's integrity limit is reached.
    pub(crate) fn on_open_failed(&mut self) -> bool {
        self.failed_opens += 1;
        self.failed_opens >= self.current.remote.integrity_limit()
    }

    /// The peer confirmed packet `number` of ours.
    pub(crate) fn on_confirmed(&mut self, now: Time, number: u64) {
        if self.confirmed_at.is_none() && self.sealed > 0 && number >= self.first_sealed {
            self.confirmed_at = Some(now);
        }
    }

    /// Number of key updates so far.
    pub(crate) fn updates(&self) -> u64 {
        self.updates
    }

    fn rotate(&mut self, first_sealed: u64) {
        let next = self.source.next_pair();
        let fresh = std::mem::replace(&mut self.next, next);
        let old = std::mem::replace(&mut self.current, fresh);
        self.previous_remote = Some(old.remote);
        self.phase = !self.phase;
        self.sealed = 0;
        self.first_sealed = first_sealed;
        self.first_of_previous = self.first_opened.take().unwrap_or(self.first_of_previous);
        self.confirmed_at = None;
        self.updates += 1;
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;

    fn ring(update_after: u64) -> KeyRing {
        KeyRing::new(KeyPair::CLEAR, KeySource::Clear, update_after)
    }

    /// The least probe timeout that there is.
    const PTO: Span = Span::from_millis(51);

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn updates_wait_for_confirmation_of_the_phase_and_three_probe_timeouts() {
        let mut ring = ring(4);
        for number in 0..10 {
            let (phase, _) = ring.seal_key(at(1_000), number, PTO);
            assert!(!phase, "no update without confirmation");
        }
        ring.on_opened(at(1_000), KeyChoice::Current, 0, 10);
        ring.on_confirmed(at(1_000), 3);
        assert!(
            !ring.seal_key(at(1_152), 10, PTO).0,
            "confirmed, but just now"
        );
        ring.on_confirmed(at(1_100), 3);
        assert!(ring.seal_key(at(1_153), 11, PTO).0, "the phase flips");
        ring.on_confirmed(at(1_200), 10);
        for number in 12..30 {
            let (phase, _) = ring.seal_key(at(9_000), number, PTO);
            assert!(phase, "10 was sealed in the old phase");
        }
    }

    #[test]
    fn a_peer_that_updates_without_end_is_stopped() {
        let mut ring = ring(u64::MAX);
        assert!(
            !ring.on_opened(at(0), KeyChoice::Next, 0, 0),
            "nothing of the first phase can have been confirmed"
        );
        ring.on_opened(at(0), KeyChoice::Current, 0, 0);
        ring.on_opened(at(140), KeyChoice::Current, 1, 0);
        assert!(!ring.on_opened(at(149), KeyChoice::Next, 2, 0));
        assert!(ring.on_opened(at(150), KeyChoice::Next, 2, 0));
        ring.seal_key(at(150), 0, PTO);
        assert!(!ring.on_opened(at(299), KeyChoice::Next, 3, 1));
        assert!(ring.on_opened(at(300), KeyChoice::Next, 3, 1));
        assert_eq!(ring.updates(), 2);
    }

    #[test]
    fn packets_that_were_overtaken_by_an_update_still_open() {
        let mut ring = ring(u64::MAX);
        ring.on_opened(at(0), KeyChoice::Current, 0, 0);
        let choice = |ring: &KeyRing, phase, number| ring.open_key(phase, number).map(|key| key.0);
        assert_eq!(choice(&ring, true, 50), Some(KeyChoice::Next));
        assert!(ring.on_opened(at(200), KeyChoice::Next, 50, 7));
        assert_eq!(choice(&ring, false, 49), Some(KeyChoice::Previous));
        assert_eq!(choice(&ring, true, 51), Some(KeyChoice::Current));
        assert_eq!(choice(&ring, false, 60), Some(KeyChoice::Next));
        assert!(
            !ring.on_opened(at(400), KeyChoice::Next, 60, 7),
            "nothing was sealed in between"
        );
        ring.seal_key(at(400), 7, PTO);
        assert!(ring.on_opened(at(400), KeyChoice::Next, 60, 8));
        assert_eq!(choice(&ring, false, 48), None, "two phases back");
        assert_eq!(choice(&ring, true, 51), Some(KeyChoice::Previous));
    }
}
