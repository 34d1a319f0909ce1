//! Clients that hold a session and want nothing of it.

use howdah::{Cancel, Identity};
use howdah_core::{ObjectId, Time};
use howdah_net::{
    Application, Attended, Clock, ConnKey, Endpoint, EndpointConfig, Placement, bind,
};
use howdah_proto::KnockKey;
use howdah_proto::{Config, Connection, Event, Security, TlsIdentity};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Clients that come in and then ask for nothing.
struct Idle<'a> {
    connected: &'a AtomicUsize,
    closed: Vec<String>,
    stop: Cancel,
    nobody: BTreeSet<ConnKey>,
    now: Time,
}

impl Application for Idle<'_> {
    fn on_event(&mut self, now: Time, _: ConnKey, connection: &mut Connection, event: Event) {
        match event {
            Event::Connected { .. } => {
                connection.set_quiet(now, true);
                self.connected.fetch_add(1, Ordering::Relaxed);
            }
            Event::Closed(error) => self.closed.push(error.to_string()),
            _ => {}
        }
    }

    fn read(&mut self, _: ConnKey, _: ObjectId, _: u64, buffer: &mut [u8]) {
        buffer.fill(0);
    }

    fn accepts_data(&mut self, _: ConnKey) -> bool {
        true
    }

    fn place(&mut self, _: ConnKey, _: ObjectId, _: &mut Vec<u8>, _: &[Placement]) {}

    fn take_spare(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn poll(&mut self, _: Time, _: ConnKey, _: &mut Connection) {}

    fn attended(&self) -> Attended<'_> {
        Attended::Only(&self.nobody)
    }

    fn keep_running(&mut self, now: Time) -> bool {
        self.now = now;
        !self.stop.is_cancelled()
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.now + howdah_core::Span::from_millis(50))
    }
}

/// Idles at the server with so many connections, until it is stopped; what ended meanwhile.
pub(crate) fn idle(
    target: SocketAddr,
    (ours, server): (&Identity, KnockKey),
    (wanted, connected): (usize, &AtomicUsize),
    stop: &Cancel,
) -> Vec<String> {
    let tls = TlsIdentity::new(ours.rustls_certified_key(), Arc::new(|_: &[u8]| true));
    let mut protocol = Config::new(Security::Tls(tls.expect("a key")));
    protocol.idle_timeout = howdah_core::Span::from_secs(60);
    protocol.handshake_timeout = howdah_core::Span::from_secs(60);
    protocol.knock = Some(server);
    let socket = bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let config = EndpointConfig {
        protocol,
        accept: false,
    };
    let mut endpoint = Endpoint::new(socket, config, Clock::new()).expect("a socket");
    for _ in 0..wanted {
        endpoint.connect(target).expect("a connection");
    }
    let mut application = Idle {
        connected,
        closed: Vec::new(),
        stop: stop.clone(),
        nobody: BTreeSet::new(),
        now: Time::ZERO,
    };
    endpoint.run(&mut application).expect("a socket");
    application.closed
}
