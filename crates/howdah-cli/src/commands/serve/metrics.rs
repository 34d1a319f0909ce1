//! Figures of a server for Prometheus. Labels are words of a few known ones, never names, keys or addresses.

use howdah::{Error, ErrorKind, ServerControl, ServerEvent, ServerRefusal, SessionMoved};
use howdah_daemon::metrics::{self, LOSSES, Process};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfReason {
    reason: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfResult {
    result: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfOperation {
    operation: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfDirection {
    direction: &'static str,
}

const REASONS: [&str; 5] = ["key", "rights", "sessions", "busy", "draining"];
const RESULTS: [&str; 2] = ["done", "failed"];
const DIRECTIONS: [&str; 2] = ["sent", "received"];
const OPERATIONS: [&str; 2] = ["read", "write"];

type Seconds = Counter<f64, AtomicU64>;

fn reason(why: ServerRefusal) -> &'static str {
    match why {
        ServerRefusal::Key => "key",
        ServerRefusal::Sessions => "sessions",
        ServerRefusal::Busy => "busy",
        ServerRefusal::Draining => "draining",
        _ => "rights",
    }
}

/// What is counted.
#[derive(Clone)]
struct Counts {
    sessions: Counter,
    refusals: Family<OfReason, Counter>,
    requests: Family<OfResult, Counter>,
    content: Family<OfDirection, Counter>,
    wire: Family<OfDirection, Counter>,
    disk_waits: Family<OfOperation, Seconds>,
    retransmitted: Counter,
    waits: Counter,
    rtt: Histogram,
    queue: Histogram,
    loss: Histogram,
    active: Gauge,
    draining: Gauge,
    rate: Gauge<f64, AtomicU64>,
    goodput: Gauge<f64, AtomicU64>,
}

impl Counts {
    fn new(registry: &mut Registry) -> Self {
        let own = registry.sub_registry_with_prefix("howdah_server");
        let new = Self {
            sessions: Counter::default(),
            refusals: Family::default(),
            requests: Family::default(),
            content: Family::default(),
            wire: Family::default(),
            disk_waits: Family::default(),
            retransmitted: Counter::default(),
            waits: Counter::default(),
            // 0.1 ms to 1.6 s, and more.
            rtt: Histogram::new(exponential_buckets(0.0001, 2.0, 15)),
            queue: Histogram::new(exponential_buckets(0.0001, 2.0, 15)),
            loss: Histogram::new(LOSSES),
            active: Gauge::default(),
            draining: Gauge::default(),
            rate: Gauge::default(),
            goodput: Gauge::default(),
        };
        let version = env!("CARGO_PKG_VERSION");
        own.register(
            "build",
            "The program that this is",
            Info::new([("version", version)]),
        );
        own.register(
            "sessions",
            "Clients that have come in",
            new.sessions.clone(),
        );
        own.register(
            "active_sessions",
            "Clients that are there",
            new.active.clone(),
        );
        own.register(
            "refusals",
            "Clients that did not come in, by why",
            new.refusals.clone(),
        );
        own.register(
            "requests",
            "What clients asked for, by how it ended",
            new.requests.clone(),
        );
        own.register(
            "content_bytes",
            "Content with names and lists of trees, each byte once, by direction",
            new.content.clone(),
        );
        own.register(
            "disk_wait_seconds",
            "Time in which sessions were held up by disks here, by what they did; looked at twice a second",
            new.disk_waits.clone(),
        );
        own.register(
            "wire_bytes",
            "Bytes of packets, by direction",
            new.wire.clone(),
        );
        own.register(
            "retransmitted_bytes",
            "Content that was sent again",
            new.retransmitted.clone(),
        );
        own.register(
            "room_waits",
            "How often a copy had to wait for room on the destination's disk",
            new.waits.clone(),
        );
        own.register(
            "wire_bytes_per_second",
            "Bytes of packets each second, in both directions",
            new.rate.clone(),
        );
        own.register(
            "goodput_bytes_per_second",
            "Content each second, in both directions",
            new.goodput.clone(),
        );
        own.register(
            "draining",
            "1 if no session begins any more, and the server ends with the last one",
            new.draining.clone(),
        );
        own.register(
            "rtt_seconds",
            "Round trips of sessions that move something, looked at twice a second",
            new.rtt.clone(),
        );
        own.register(
            "queue_seconds",
            "What packets wait in queues of the network, looked at twice a second",
            new.queue.clone(),
        );
        own.register(
            "loss_ratio",
            "Packets that are lost, looked at twice a second",
            new.loss.clone(),
        );
        // All series are there from the beginning: what rises from 0 is seen.
        for reason in REASONS {
            drop(new.refusals.get_or_create(&OfReason { reason }));
        }
        for result in RESULTS {
            drop(new.requests.get_or_create(&OfResult { result }));
        }
        for direction in DIRECTIONS {
            drop(new.wire.get_or_create(&OfDirection { direction }));
            drop(new.content.get_or_create(&OfDirection { direction }));
        }
        for operation in OPERATIONS {
            drop(new.disk_waits.get_or_create(&OfOperation { operation }));
        }
        new
    }

    fn count(&self, event: &ServerEvent) {
        let ended = |result| self.requests.get_or_create(&OfResult { result }).inc();
        match event {
            ServerEvent::Session => {
                self.sessions.inc();
            }
            ServerEvent::Refused(why) => {
                let reason = reason(*why);
                self.refusals.get_or_create(&OfReason { reason }).inc();
            }
            ServerEvent::Done => {
                ended("done");
            }
            ServerEvent::Failed => {
                ended("failed");
            }
            ServerEvent::NoRoom => {
                self.waits.inc();
            }
            ServerEvent::Moved(moved) => self.moved(moved),
            _ => {}
        }
    }

    fn moved(&self, moved: &SessionMoved) {
        let bytes = [moved.sent_bytes, moved.received_bytes];
        for (direction, bytes) in DIRECTIONS.into_iter().zip(bytes) {
            self.wire
                .get_or_create(&OfDirection { direction })
                .inc_by(bytes);
        }
        let bytes = [moved.content_sent_bytes, moved.content_received_bytes];
        for (direction, bytes) in DIRECTIONS.into_iter().zip(bytes) {
            self.content
                .get_or_create(&OfDirection { direction })
                .inc_by(bytes);
        }
        let waits = [moved.read_wait, moved.write_wait];
        for (operation, wait) in OPERATIONS.into_iter().zip(waits) {
            self.disk_waits
                .get_or_create(&OfOperation { operation })
                .inc_by(wait.as_secs_f64());
        }
        self.retransmitted.inc_by(moved.repeated_bytes);
        if moved.rtt.as_nanos() > 0 {
            self.rtt.observe(moved.rtt.as_nanos() as f64 / 1e9);
            self.queue.observe(moved.queue.as_nanos() as f64 / 1e9);
            self.loss.observe(moved.loss);
        }
    }
}

/// A socket for it, opened while that is still allowed.
pub(super) struct Figures(TcpListener, SocketAddr);

impl Figures {
    pub(super) fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |error: io::Error| {
            let text = format!("--metrics: cannot listen on {address}: {error}");
            Error::new(ErrorKind::Io, text)
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self(listener, address))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.1
    }

    /// From now on: in a thread of its own, which is in the sandbox as all others.
    pub(super) fn begin(self, control: &ServerControl) -> io::Result<()> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process::new()));
        let counts = Counts::new(&mut registry);
        let counting = counts.clone();
        control.observe(move |event| counting.count(event));
        let (control, registry) = (control.clone(), Arc::new(registry));
        metrics::listen(self.0, move || {
            let sessions = control.sessions();
            let bits: u64 = sessions.iter().map(|s| s.rate.bits_per_sec()).sum();
            let content: u64 = sessions.iter().map(|s| s.goodput.bits_per_sec()).sum();
            counts
                .active
                .set(sessions.len().try_into().unwrap_or(i64::MAX));
            counts.rate.set(bits as f64 / 8.0);
            counts.goodput.set(content as f64 / 8.0);
            counts.draining.set(control.is_draining().into());
            metrics::page(&registry)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::Span;

    #[test]
    fn what_happens_is_counted_by_words_that_are_known() {
        let mut registry = Registry::default();
        let counts = Counts::new(&mut registry);
        let moved = SessionMoved::default();
        for event in [
            ServerEvent::Session,
            ServerEvent::Refused(ServerRefusal::Key),
            ServerEvent::Refused(ServerRefusal::Busy),
            ServerEvent::Done,
            ServerEvent::Failed,
            ServerEvent::NoRoom,
            ServerEvent::Moved(moved),
        ] {
            counts.count(&event);
        }
        let page = metrics::page(&registry);
        for line in [
            "howdah_server_sessions_total 1",
            "howdah_server_refusals_total{reason=\"key\"} 1",
            "howdah_server_refusals_total{reason=\"draining\"} 0",
            "howdah_server_requests_total{result=\"failed\"} 1",
            "howdah_server_room_waits_total 1",
            "howdah_server_rtt_seconds_count 0",
            "howdah_server_wire_bytes_total{direction=\"sent\"} 0",
            "howdah_server_content_bytes_total{direction=\"received\"} 0",
            "howdah_server_disk_wait_seconds_total{operation=\"write\"} 0.0",
            "howdah_server_goodput_bytes_per_second 0.0",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        assert_eq!(moved.rtt, Span::ZERO);
        for why in [ServerRefusal::Rights, ServerRefusal::Sessions] {
            assert!(REASONS.contains(&reason(why)));
        }
    }
}
