//! What a run leaves behind: the words between runner, ledger and report.
//!
//! A campaign is a directory:
//!
//! | file | what is in it |
//! |---|---|
//! | `campaign.json` | [`Campaign`]: scenario texts, commit, machine, command line |
//! | `cells/<id>.json` | [`CellResult`], written whole when the cell is done |
//! | `intervals/<id>.parquet` | the [`Interval`]s of the cell, one row per flow and interval |
//! | `summary.json` | [`Summary`]: every cell, flat, for other programs |
//! | `report.html` | the report |

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of these files.
pub const FORMAT: u32 = 1;

/// What holds for all cells of a campaign.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Campaign {
    /// [`FORMAT`].
    pub format: u32,
    /// The scenarios that were run: path as given, and the whole text.
    pub scenarios: Vec<ScenarioText>,
    /// Commit of the program, "unknown" outside a repository.
    pub commit: String,
    /// The working tree differed from the commit when the program was built.
    pub dirty: bool,
    /// Processor, cores, kernel, memory.
    pub machine: BTreeMap<String, String>,
    /// Command line that repeats the campaign.
    pub command: String,
    /// Start, seconds since 1970.
    pub started_unix_s: u64,
    /// Reduced set (`--quick`).
    pub quick: bool,
    /// Ids of all cells, in the order of the scenarios, whether they are finished or not.
    #[serde(default)]
    pub cells: Vec<String>,
    /// What the scenarios say about their experiments, in their order.
    #[serde(default)]
    pub experiments: Vec<ExperimentNote>,
    /// Per experiment: key and value of what the paper does not state (`stated = false`).
    #[serde(default)]
    pub chosen: BTreeMap<String, Vec<(String, String)>>,
    /// Per experiment: key and value of what was found by fitting (`fitted = true`).
    #[serde(default)]
    pub fitted: BTreeMap<String, Vec<(String, String)>>,
}

/// What a scenario says about an experiment.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ExperimentNote {
    /// As the ledger names it.
    pub id: String,
    /// What it is about, in a line.
    pub title: String,
    /// Which paper it comes from.
    pub paper: String,
    /// Which figure or table it repeats.
    pub figure: String,
    /// Remarks.
    pub note: String,
    /// The file that it stands in.
    pub file: String,
    /// Its cells, whether they are finished or not; 0 in campaigns of before this was written down.
    #[serde(default)]
    pub cells: usize,
    /// Largest IP packet in bytes, if all of its paths have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
    /// What is swept in this campaign: key, and its values with their source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<(String, String)>,
}

/// A scenario file as it was run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ScenarioText {
    /// Path as given.
    pub path: String,
    /// The whole file.
    pub text: String,
}

/// One cell of a matrix, run once with one seed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CellResult {
    /// Hash of the cell's canonical form.
    pub id: String,
    /// Experiment, as the ledger names it: "J-A1".
    pub experiment: String,
    /// Where the cell stands in the matrix: axis to value as written in the scenario
    /// ("protocol" to "fast", "buffer" to "127packets").
    pub at: BTreeMap<String, String>,
    /// "sim" or "netns".
    pub testbed: String,
    /// Seed.
    pub seed: u64,
    /// Names the configuration as `id` names the cell: equal for all of its seeds. Empty in results of before it was
    /// written down.
    #[serde(default)]
    pub design: String,
    /// Of the reduced set (`--quick`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reduced: bool,
    /// Commit of the program that ran it.
    #[serde(default)]
    pub commit: String,
    /// Scenario time that was run, in seconds.
    pub duration_s: f64,
    /// Wall time that it took, in seconds. Not part of comparisons.
    pub wall_s: f64,
    /// Ended before its planned duration because the mean was settled.
    pub shortened: bool,
    /// A steady stretch of it was not simulated but repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded: Option<Forwarded>,
    /// Why none was, where the scenario allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_forwarded: Option<String>,
    /// Fingerprint of the simulator's events, in hexadecimal; empty on a testbed.
    pub fingerprint: String,
    /// Why the cell gave no result.
    pub error: Option<String>,
    /// Why this testbed cannot run the cell at all: a program or a kernel that does not have it. No
    /// failure: the report shows the reason in the cell's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// What qualifies the figures: see [`Mark`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// How well the testbed emulated the network; `None` in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateNote>,
    /// Goodput of all flows together in each run of the cell on a testbed that counts, in bit/s, in the
    /// order of the runs (all runs, where the certificate speaks against each of them); the other figures
    /// are those of the run in the middle. Empty in virtual time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs_bps: Vec<f64>,
    /// Long-lived flows, in the order of the scenario.
    pub flows: Vec<FlowResult>,
    /// Short flows, each group taken together.
    pub groups: Vec<GroupResult>,
    /// Constant-rate streams.
    pub streams: Vec<StreamResult>,
    /// Bottlenecks, each direction apart.
    pub links: Vec<LinkResult>,
    /// Further figures by name, with the unit in the name; behind a slash, the flow that it is
    /// about. docs/lab.md explains each.
    ///
    /// | name | |
    /// |---|---|
    /// | `sum_goodput_bps`, `sum_steady_goodput_bps` | of all long-lived flows, over the time in which any was active; behind the warm-up |
    /// | `jain`, `jain_min` | of the means; least of any second after the last start, until the first flow is done |
    /// | `maxmin`, `asymmetry` | least over greatest; (x1 - x2)/(x1 + x2) of two flows |
    /// | `convergence_s` | from the last start until Jain's index over 10 s reaches 0.95, and that of the rest of the run does |
    /// | `longest_stall_s/FLOW` | whole intervals in a row in which nothing arrived, between its first byte and its end |
    /// | `harm/FLOW` | share of the goodput alone that the neighbours took, where the campaign has the flow alone |
    /// | `retransmit_share/FLOW` | repeated payload bytes over all |
    /// | `feedback_bytes_per_gib/FLOW` | IP + 14 |
    /// | `forward_efficiency/FLOW` | user bytes over bytes sent forward, IP + 14 |
    /// | `t90_ms/FLOW/N` | from the N-th change of a path until 90 % of the even share of what the route then lets pass |
    /// | `change_bps/FLOW/N`, `after_change_bps/FLOW/N` | mean of the second half of the stretch behind it, and of its first 5 s |
    pub metrics: BTreeMap<String, f64>,
}

/// A stretch of a cell that was seen, and stands for what follows it.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Forwarded {
    /// Its beginning, in scenario seconds.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// For how long it was repeated from there on, in seconds.
    pub skipped_s: f64,
    /// The largest error, as a share, that the stretch lets expect of the skipped part in rate, packets, feedback, processor time and queue
    /// (95 %, by what its two halves differ in).
    pub error: f64,
}

/// What qualifies a testbed's figures.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// The certificate speaks against the run: it measured the machine as well.
    Invalid,
    /// The processors of this machine were the bottleneck, not the network.
    HostLimited,
    /// Run at a tenth of the rate, with the same bandwidth-delay product in packets.
    Scaled,
    /// The 95 % confidence interval of the median is wider than 5 % after the last run, or there
    /// were too few runs for one; and they do not agree, where that is asked.
    Unsettled,
}

/// What a testbed says about its own quality during a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CertificateNote {
    /// Nothing speaks against the run.
    pub valid: bool,
    /// What does, in words.
    pub objections: Vec<String>,
    /// Everything that the emulator knows of itself: lateness, unplanned drops, processor time.
    pub emulator: serde_json::Value,
    /// Kernel, settings, offloads and buffers that the flows met.
    pub environment: BTreeMap<String, String>,
}

/// A long-lived or sized flow.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct FlowResult {
    /// Name in the scenario.
    pub name: String,
    /// Protocol as the scenario writes it.
    pub protocol: String,
    /// Algorithm as the live object names itself.
    pub algorithm: String,
    /// Its data take the backward direction of the paths.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reverse: bool,
    /// TCP connections that carried it; `None` where nobody tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// First and last moment of activity, in scenario seconds.
    pub start_s: f64,
    /// End of activity.
    pub end_s: f64,
    /// User bytes delivered within that time.
    pub delivered_bytes: u64,
    /// Goodput over the whole activity, in bit/s.
    pub goodput_bps: f64,
    /// Goodput over the measured part (after the warm-up), in bit/s.
    pub steady_goodput_bps: f64,
    /// Time until all bytes were known to be delivered; for sized transfers.
    pub completion_s: Option<f64>,
    /// Why the transfer was given up, where it was and somebody tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Payload bytes sent, repetitions included. On a testbed, of a program that does not tell, what left its host, its own
    /// headers included.
    pub sent_bytes: u64,
    /// Repetitions among them; `None` where nobody tells.
    #[serde(default)]
    pub retransmitted_bytes: Option<u64>,
    /// Packets sent forward, and IP + 14 bytes of them.
    pub forward_packets: u64,
    /// IP + 14 bytes sent forward.
    pub forward_wire_bytes: u64,
    /// Packets sent backward.
    pub feedback_packets: u64,
    /// IP + 14 bytes sent backward.
    pub feedback_wire_bytes: u64,
    /// Reductions for loss; `None` where nobody tells.
    #[serde(default)]
    pub congestion_events: Option<u64>,
    /// Timeouts; `None` where nobody tells.
    #[serde(default)]
    pub timeouts: Option<u64>,
    /// Seconds from the flow's start until the mean over a round trip, a tenth of a second at least, reached 90 % of the steady goodput.
    pub ramp_s: Option<f64>,
    /// Predicted processor time of the sender in seconds, where a host cost model was on.
    pub sender_cpu_s: Option<f64>,
    /// The same of the receiver.
    pub receiver_cpu_s: Option<f64>,
    /// Per-interval series, kept in Parquet; not in the JSON file.
    #[serde(skip)]
    pub intervals: Vec<Interval>,
}

/// One interval of one flow. Counters are those of the interval; the others are states at its end.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Interval {
    /// End of the interval, in scenario seconds.
    pub t_s: f64,
    /// Goodput in bit/s.
    pub goodput_bps: f64,
    /// Bit/s on the wire, forward.
    pub wire_bps: f64,
    /// Payload bytes sent again.
    pub retransmitted_bytes: u64,
    /// Congestion window in bytes; 0 where there is none.
    pub cwnd_bytes: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Smoothed round-trip time in milliseconds; 0 before the first sample.
    pub srtt_ms: f64,
    /// Waiting time in the forward bottleneck in milliseconds.
    pub queue_ms: f64,
}

/// A group of short flows.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct GroupResult {
    /// Name in the scenario.
    pub name: String,
    /// Algorithm of its flows.
    pub algorithm: String,
    /// Its data take the backward direction of the paths.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reverse: bool,
    /// Flows started by the end of the run.
    pub flows: u64,
    /// Flows that finished.
    pub finished: u64,
    /// Bytes of those that finished.
    pub bytes: u64,
    /// Bytes that all of them were to carry: the realised load.
    pub offered_bytes: u64,
    /// Sum of bytes over sum of durations of those that finished, in bit/s (J, `short_tput`).
    pub throughput_bps: f64,
    /// Completion times in seconds: p50, p95, p99; missing where none finished.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "percentiles::if_any"
    )]
    pub completion_s: Option<[f64; 3]>,
    /// Their whole distribution: the times within which 0, 1, 2, ... 100 % of those that finished
    /// were done; empty if none did.
    #[serde(default)]
    pub completion_cdf_s: Vec<f64>,
    /// Retransmission timeouts among them; `None` where nobody tells.
    #[serde(default)]
    pub timeouts: Option<u64>,
}

/// A constant-rate stream.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct StreamResult {
    /// Name in the scenario.
    pub name: String,
    /// Its data take the backward direction of the paths.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reverse: bool,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets that did not arrive, as far as a later one tells or none is on the way any more that could.
    pub lost_packets: u64,
    /// Mean of the smoothed interarrival jitter (RFC 3550, 6.4.1) in milliseconds.
    pub jitter_ms: f64,
    /// User bytes that arrived.
    #[serde(default)]
    pub delivered_bytes: u64,
    /// The smoothed jitter at the end of each interval.
    #[serde(skip)]
    pub jitter_series_ms: Vec<f64>,
    /// Those intervals; kept in Parquet as those of flows are.
    #[serde(skip)]
    pub intervals: Vec<Interval>,
}

/// One direction of a stretch of network.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LinkResult {
    /// Name in the scenario, and direction: "main/forward".
    pub name: String,
    /// Configured rate in bit/s at the end; 0 is unlimited.
    pub rate_bps: f64,
    /// Packets offered.
    pub offered_packets: u64,
    /// Dropped by the queue.
    pub queue_drops: u64,
    /// Dropped by active queue management before it was full.
    #[serde(default)]
    pub aqm_drops: u64,
    /// Marked by it (ECN) and let go.
    #[serde(default)]
    pub marked: u64,
    /// Lost at random behind it.
    pub random_losses: u64,
    /// Share of the rate that was used, over the measured part.
    pub utilisation: f64,
    /// Waiting time in milliseconds: p50, p95, p99 over packets or samples.
    #[serde(with = "percentiles")]
    pub queue_ms: [f64; 3],
    /// Its mean over packets; `None` where only samples are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_mean_ms: Option<f64>,
    /// What it let pass in each interval of the series, in bit/s, where that changes: traces and timelines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates_bps: Vec<f64>,
}

/// Every cell of a campaign, without series.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Summary {
    /// What holds for all.
    pub campaign: Campaign,
    /// The cells, in the order of the scenarios.
    pub cells: Vec<CellResult>,
}

/// Three percentiles with their names; a list of three in results of before they had some.
mod percentiles {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize, Serialize)]
    struct Named {
        p50: f64,
        p95: f64,
        p99: f64,
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Named(Named),
        List([f64; 3]),
    }

    pub(super) fn serialize<S: Serializer>(
        &[p50, p95, p99]: &[f64; 3],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Named { p50, p95, p99 }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[f64; 3], D::Error> {
        Either::deserialize(deserializer).map(Either::values)
    }

    impl Either {
        fn values(self) -> [f64; 3] {
            match self {
                Self::Named(Named { p50, p95, p99 }) => [p50, p95, p99],
                Self::List(list) => list,
            }
        }
    }

    /// The same where there may be nothing to take them of.
    pub(super) mod if_any {
        use super::{Either, Named};
        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        #[allow(clippy::ref_option, reason = "serde gives a reference to the field")]
        pub(in crate::result) fn serialize<S: Serializer>(
            values: &Option<[f64; 3]>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            let named = values.map(|[p50, p95, p99]| Named { p50, p95, p99 });
            named.serialize(serializer)
        }

        pub(in crate::result) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<[f64; 3]>, D::Error> {
            let known = Option::<Either>::deserialize(deserializer)?;
            Ok(known.map(Either::values))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_names_and_the_lists_of_before_are_read() {
        let link = LinkResult {
            queue_ms: [1.0, 2.0, 3.0],
            ..LinkResult::default()
        };
        let text = serde_json::to_string(&link).unwrap();
        assert!(
            text.contains(r#""queue_ms":{"p50":1.0,"p95":2.0,"p99":3.0}"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<LinkResult>(&text).unwrap(), link);
        let before = text.replace(r#"{"p50":1.0,"p95":2.0,"p99":3.0}"#, "[1.0,2.0,3.0]");
        assert_eq!(serde_json::from_str::<LinkResult>(&before).unwrap(), link);
    }
}
