//! Peers that wish a server ill, a thousand times a second: strangers, people with a key who talk nonsense, and people with a key
//! who make packets of their own.

pub(crate) mod by_hand;
pub(crate) mod forgers;
pub(crate) mod strangers;
pub(crate) mod talkers;

use howdah::Identity;
use howdah_core::Span;
use howdah_proto::{Config, Security, TlsIdentity};
use howdah_proto::{ConnectionId, KnockKey};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

pub(crate) const PER_SECOND: u64 = 1_000;
/// Each kind does it at least that often.
pub(crate) const LEAST: u64 = 200;
/// So often, and the company is there.
const BEGUN: u64 = 20;

/// When they begin and end.
pub(crate) struct Stage {
    stop: AtomicBool,
    begun: Sender<()>,
    is_told: AtomicBool,
}

impl Stage {
    /// Tells `begun` when what is done on it is under way.
    pub(crate) fn new(begun: Sender<()>) -> Self {
        Self {
            stop: AtomicBool::new(false),
            begun,
            is_told: AtomicBool::new(false),
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether whoever has done it that often shall go on.
    fn goes_on(&self, count: u64) -> bool {
        if count >= BEGUN && !self.is_told.swap(true, Ordering::Relaxed) {
            // Who does not wait for it any more does not want to know.
            let _ = self.begun.send(());
        }
        !self.is_stopped() || count < LEAST
    }

    /// Calls `act` a thousand times a second with a number that grows.
    fn in_time(&self, mut act: impl FnMut(u64)) {
        let (began, mut count) = (Instant::now(), 0);
        while self.goes_on(count) {
            if began.elapsed().as_micros() as u64 * PER_SECOND / 1_000_000 < count {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            act(count);
            count += 1;
        }
    }
}

pub(crate) fn config(key: &Identity, knock: Option<KnockKey>) -> Config {
    let tls = TlsIdentity::new(key.rustls_certified_key(), Arc::new(|_: &[u8]| true));
    let mut config = Config::new(Security::Tls(tls.expect("a key")));
    config.knock = knock;
    // A busy machine is no dead peer.
    config.idle_timeout = Span::from_secs(60);
    config.handshake_timeout = Span::from_secs(60);
    config
}

/// One that nobody else in this program has.
fn fresh_id() -> ConnectionId {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
    ConnectionId(NEXT.fetch_add(1, Ordering::Relaxed))
}
