//! What a daemon tells of itself and of its jobs. Labels are words of a few known ones, never names or addresses.

use super::{LOSSES, Process};
use crate::follower::Told;
use crate::job::{Ended, JobId, State};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// A word that is one of a few.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Word(&'static str);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.encode(encoder)
    }
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfState {
    state: Word,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfResult {
    result: Word,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfCode {
    code: Word,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfReason {
    reason: Word,
}

/// Why somebody did not get in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// No token of this daemon's.
    Token,
    /// Another host or origin, another user, or too small a role.
    Forbidden,
    /// Too much of it.
    Rate,
}

impl Refusal {
    const ALL: [Self; 3] = [Self::Token, Self::Forbidden, Self::Rate];

    fn word(self) -> OfReason {
        OfReason {
            reason: Word(match self {
                Self::Token => "token",
                Self::Forbidden => "forbidden",
                Self::Rate => "rate",
            }),
        }
    }
}

/// What became of a notice, or of a try.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoticeEnd {
    /// It arrived.
    Told,
    /// It did not, and is tried again.
    Failed,
    /// It did not, and is not.
    GivenUp,
}

impl NoticeEnd {
    const ALL: [Self; 3] = [Self::Told, Self::Failed, Self::GivenUp];

    fn word(self) -> OfResult {
        OfResult {
            result: Word(match self {
                Self::Told => "told",
                Self::Failed => "failed",
                Self::GivenUp => "given_up",
            }),
        }
    }
}

/// A running copy.
#[derive(Debug, Default)]
struct Flow {
    /// When it was first seen.
    first: u64,
    /// At its last word.
    bytes: u64,
    goodput_bps: f64,
    wire_bps: f64,
    /// It ran before this daemon did.
    adopted: bool,
}

/// All figures of a daemon.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    jobs: Family<OfState, Gauge>,
    attempts: Family<OfResult, Counter>,
    copied: Counter,
    wire: Counter,
    retransmitted: Counter,
    goodput: Gauge<f64, std::sync::atomic::AtomicU64>,
    wire_rate: Gauge<f64, std::sync::atomic::AtomicU64>,
    rtt: Histogram,
    queue: Histogram,
    loss: Histogram,
    requests: Family<OfCode, Counter>,
    refusals: Family<OfReason, Counter>,
    streams: Gauge,
    dropped: Counter,
    notices: Family<OfResult, Counter>,
    flows: Mutex<BTreeMap<(JobId, u32), Flow>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process::new()));
        let own = registry.sub_registry_with_prefix("howdah_daemon");
        let version = env!("CARGO_PKG_VERSION");
        own.register(
            "build",
            "The program that this is",
            Info::new([("version", version)]),
        );
        let new = Self {
            jobs: Family::default(),
            attempts: Family::default(),
            copied: Counter::default(),
            wire: Counter::default(),
            retransmitted: Counter::default(),
            goodput: Gauge::default(),
            wire_rate: Gauge::default(),
            // 0.1 ms to 1.6 s, and more.
            rtt: Histogram::new(exponential_buckets(0.0001, 2.0, 15)),
            queue: Histogram::new(exponential_buckets(0.0001, 2.0, 15)),
            loss: Histogram::new(LOSSES),
            requests: Family::default(),
            refusals: Family::default(),
            streams: Gauge::default(),
            dropped: Counter::default(),
            notices: Family::default(),
            flows: Mutex::default(),
            registry: Registry::default(),
        };
        own.register(
            "jobs",
            "Jobs that are known, by how they stand",
            new.jobs.clone(),
        );
        own.register(
            "job_attempts",
            "Attempts of jobs that have ended, by how",
            new.attempts.clone(),
        );
        own.register(
            "copied_bytes",
            "Content that copies have brought to their destinations",
            new.copied.clone(),
        );
        own.register(
            "wire_bytes",
            "Bytes of IP packets of copies that are over, in the direction of the data",
            new.wire.clone(),
        );
        own.register(
            "retransmitted_bytes",
            "Of these, what was sent again",
            new.retransmitted.clone(),
        );
        own.register(
            "goodput_bytes_per_second",
            "Content that running copies bring each second",
            new.goodput.clone(),
        );
        own.register(
            "wire_bytes_per_second",
            "Bytes of IP packets of running copies each second",
            new.wire_rate.clone(),
        );
        own.register(
            "rtt_seconds",
            "Round trips of running copies, looked at once a second",
            new.rtt.clone(),
        );
        own.register(
            "queue_seconds",
            "What packets of running copies wait in queues of the network, looked at once a second",
            new.queue.clone(),
        );
        own.register(
            "loss_ratio",
            "Packets of running copies that are lost, looked at once a second",
            new.loss.clone(),
        );
        own.register(
            "http_requests",
            "Answers, by their class",
            new.requests.clone(),
        );
        own.register(
            "http_refusals",
            "Requests that were not let in, by why",
            new.refusals.clone(),
        );
        own.register(
            "event_streams",
            "Streams of events that are followed",
            new.streams.clone(),
        );
        own.register(
            "event_streams_dropped",
            "Streams that ended because they were read too slowly",
            new.dropped.clone(),
        );
        own.register(
            "notices",
            "Notices to webhooks, commands and mail: those that arrived, tries that failed, and what was given up",
            new.notices.clone(),
        );
        // All series are there from the beginning: what rises from 0 is seen.
        for state in State::ALL {
            drop(new.jobs.get_or_create(&of_state(state)));
        }
        for result in RESULTS {
            drop(new.attempts.get_or_create(&OfResult {
                result: Word(result),
            }));
        }
        for result in NoticeEnd::ALL {
            drop(new.notices.get_or_create(&result.word()));
        }
        for reason in Refusal::ALL {
            drop(new.refusals.get_or_create(&reason.word()));
        }
        for code in CODES {
            drop(new.requests.get_or_create(&OfCode { code: Word(code) }));
        }
        Self { registry, ..new }
    }

    /// The page, with jobs counted and streams just now.
    pub(crate) fn page(&self, jobs: &[(State, u64)], streams: usize) -> String {
        for state in State::ALL {
            let count = jobs.iter().find(|(of, _)| *of == state);
            let count = count.map_or(0, |(_, count)| *count);
            self.jobs
                .get_or_create(&of_state(state))
                .set(count.try_into().unwrap_or(i64::MAX));
        }
        self.streams.set(streams.try_into().unwrap_or(i64::MAX));
        let flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        self.goodput.set(sum(&flows, |flow| flow.goodput_bps) / 8.0);
        self.wire_rate.set(sum(&flows, |flow| flow.wire_bps) / 8.0);
        drop(flows);
        super::page(&self.registry)
    }

    pub(crate) fn answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, CODES.len());
        let code = Word(CODES[class - 1]);
        self.requests.get_or_create(&OfCode { code }).inc();
    }

    pub(crate) fn refused(&self, why: Refusal) {
        self.refusals.get_or_create(&why.word()).inc();
    }

    pub(crate) fn noticed(&self, end: NoticeEnd) {
        self.notices.get_or_create(&end.word()).inc();
    }

    pub(crate) fn stream_dropped(&self) {
        self.dropped.inc();
    }

    /// Something happened to a job.
    pub(crate) fn count(&self, told: &Told) {
        match told {
            Told::Progress {
                job,
                attempt,
                event,
            } => self.progress((*job, *attempt), event),
            Told::Ended {
                job,
                attempt,
                how,
                last,
            } => {
                let result = Word(result(how));
                self.attempts.get_or_create(&OfResult { result }).inc();
                self.ended((*job, *attempt), last.as_ref());
            }
            Told::Job(_) | Told::Many(_) | Told::Limits => {}
        }
    }

    fn progress(&self, key: (JobId, u32), event: &Value) {
        /// Who says more at its first word ran before.
        const NEW_SECONDS: f64 = 3.0;
        let number = |name: &str| event[name].as_f64().unwrap_or(0.0);
        let bytes = event["bytes"].as_u64().unwrap_or(0);
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        // What a resumed copy had before is nobody's now.
        let flow = flows.entry(key).or_insert_with(|| Flow {
            first: bytes,
            bytes,
            adopted: number("elapsed_seconds") > NEW_SECONDS,
            ..Flow::default()
        });
        self.copied.inc_by(bytes.saturating_sub(flow.bytes));
        flow.bytes = flow.bytes.max(bytes);
        flow.goodput_bps = number("goodput_bps");
        flow.wire_bps = number("wire_bps");
        drop(flows);
        self.loss.observe(number("loss_rate"));
        if let Some(rtt) = event["rtt_us"].as_f64().filter(|rtt| *rtt > 0.0) {
            self.rtt.observe(rtt / 1e6);
            self.queue.observe(number("queue_us") / 1e6);
        }
    }

    fn ended(&self, key: (JobId, u32), last: Option<&Value>) {
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let flow = flows.remove(&key).unwrap_or_default();
        drop(flows);
        let Some(last) = last.filter(|last| last["event"] == "summary") else {
            return;
        };
        let number = |name: &str| last[name].as_u64().unwrap_or(0);
        let counted = flow.bytes - flow.first;
        let moved = number("bytes").saturating_sub(number("resumed_bytes"));
        // Of one that ran before nobody knows what was counted then.
        let rest = if flow.adopted {
            number("bytes").saturating_sub(flow.bytes)
        } else {
            moved.saturating_sub(counted)
        };
        self.copied.inc_by(rest);
        self.wire.inc_by(number("wire_bytes"));
        self.retransmitted.inc_by(number("retransmitted_bytes"));
    }
}

/// An empty sum of floats is -0.
fn sum(flows: &BTreeMap<(JobId, u32), Flow>, of: impl Fn(&Flow) -> f64) -> f64 {
    flows.values().fold(0.0, |sum, flow| sum + of(flow))
}

fn of_state(state: State) -> OfState {
    OfState {
        state: Word(state.name()),
    }
}

const CODES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// As the exit codes of docs/cli.md; what else can become of a process at the end.
const RESULTS: [&str; 18] = [
    "done",
    "failed",
    "usage",
    "not_found",
    "refused",
    "network",
    "partial",
    "auth",
    "limit",
    "integrity",
    "no_space",
    "cancelled",
    "source_changed",
    "differences",
    "killed",
    "vanished",
    "never_began",
    "cannot_start",
];

fn result(how: &Ended) -> &'static str {
    match how {
        Ended::Code(code @ 0..=8) => RESULTS[usize::from(*code)],
        Ended::Code(10) => "integrity",
        Ended::Code(11) => "no_space",
        Ended::Code(12) => "cancelled",
        Ended::Code(13) => "source_changed",
        Ended::Code(15) => "differences",
        Ended::Code(_) => "failed",
        Ended::Signal(_) => "killed",
        Ended::Vanished => "vanished",
        Ended::NeverBegan => "never_began",
        Ended::CannotStart(_) => "cannot_start",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn progress(attempt: u32, elapsed: f64, bytes: u64) -> Told {
        Told::Progress {
            job: JobId(1),
            attempt,
            event: json!({
                "event": "progress", "elapsed_seconds": elapsed, "bytes": bytes, "goodput_bps": 800, "wire_bps": 1600,
                "loss_rate": 0.001, "rtt_us": 20_000, "queue_us": 300,
            }),
        }
    }

    fn ended(attempt: u32, bytes: u64, resumed: u64) -> Told {
        Told::Ended {
            job: JobId(1),
            attempt,
            how: Ended::Code(0),
            last: Some(json!({
                "event": "summary", "bytes": bytes, "resumed_bytes": resumed, "wire_bytes": bytes + 10,
                "retransmitted_bytes": 3,
            })),
        }
    }

    #[test]
    fn bytes_count_once_whoever_began_the_copy() {
        let metrics = Metrics::new();
        let copied = |metrics: &Metrics| metrics.copied.get();
        // From its beginning, with 50 of an earlier attempt.
        metrics.count(&progress(1, 1.0, 60));
        metrics.count(&progress(1, 2.0, 90));
        metrics.count(&progress(1, 3.0, 80));
        metrics.count(&progress(1, 4.0, 100));
        assert_eq!(copied(&metrics), 40);
        let page = metrics.page(&[(State::Running, 1)], 2);
        assert!(
            page.contains("howdah_daemon_goodput_bytes_per_second 100.0"),
            "{page}"
        );
        assert!(
            page.contains("howdah_daemon_jobs{state=\"running\"} 1"),
            "{page}"
        );
        assert!(page.contains("howdah_daemon_event_streams 2"), "{page}");
        metrics.count(&ended(1, 120, 50));
        assert_eq!(copied(&metrics), 70);
        // One that another daemon has begun.
        metrics.count(&progress(2, 100.0, 1_000));
        metrics.count(&progress(2, 101.0, 1_010));
        metrics.count(&ended(2, 1_015, 0));
        assert_eq!(copied(&metrics), 85);
        // One that was too fast to be seen.
        metrics.count(&ended(3, 5, 0));
        assert_eq!(copied(&metrics), 90);
        let page = metrics.page(&[], 0);
        for line in [
            "howdah_daemon_job_attempts_total{result=\"done\"} 3",
            "howdah_daemon_retransmitted_bytes_total 9",
            "howdah_daemon_goodput_bytes_per_second 0.0",
            "howdah_daemon_rtt_seconds_count 6",
            "howdah_daemon_jobs{state=\"running\"} 0",
            "howdah_daemon_http_refusals_total{reason=\"token\"} 0",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
    }

    #[test]
    fn each_end_has_its_word() {
        for (how, word) in [
            (Ended::Code(0), "done"),
            (Ended::Code(5), "network"),
            (Ended::Code(13), "source_changed"),
            (Ended::Code(8), "limit"),
            (Ended::Code(9), "failed"),
            (Ended::Code(200), "failed"),
            (Ended::Signal(9), "killed"),
            (Ended::CannotStart("x".into()), "cannot_start"),
        ] {
            assert_eq!(result(&how), word);
            assert!(RESULTS.contains(&word));
        }
    }
}
