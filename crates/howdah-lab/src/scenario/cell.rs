//! One cell of a matrix, completely spelt out.
//!
//! Everything that has an influence on the result is in a [`Cell`], in integers where that is
//! possible; [`Cell::id`] is the hash of its canonical form, so equal cells have equal names.

use super::one_way::OneWaySpec;
use crate::catalog::Options;
use howdah_core::{Span, Time};
use howdah_path::{Backlog, Order, Switch};
use howdah_sim::{Disturbance, Stalls, Tail};
use serde::Serialize;
use std::collections::BTreeMap;

/// One cell, to be run once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Experiment, as the ledger names it.
    pub experiment: String,
    /// Axis to value, as written in the scenario.
    pub at: BTreeMap<String, String>,
    /// All randomness comes from it.
    pub seed: u64,
    /// Paths, in the order of the scenario.
    pub paths: Vec<PathSpec>,
    /// Machines that are not infinitely fast.
    pub hosts: Vec<HostSpec>,
    /// Long-lived and sized flows.
    pub flows: Vec<FlowSpec>,
    /// Groups of short flows.
    pub groups: Vec<GroupSpec>,
    /// Constant-rate and on-off streams.
    pub streams: Vec<StreamSpec>,
    /// Changes of paths, by time.
    pub timeline: Vec<Change>,
    /// How long, and what is looked at.
    pub measure: Measure,
}

/// Both directions of a stretch of network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathSpec {
    /// Name in the scenario.
    pub name: String,
    /// The way of the data.
    pub forward: OneWaySpec,
    /// The way of the acknowledgements.
    pub backward: OneWaySpec,
    /// It is a host's port, whose queue refuses more packets than these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_queue_packets: Option<u64>,
}

/// A long-lived or sized flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSpec {
    /// Name in the scenario.
    pub name: String,
    /// Protocol as the scenario names it.
    pub protocol: String,
    /// First action, in nanoseconds; what was drawn of [`start_within_ns`](Self::start_within_ns) included.
    pub start_ns: u64,
    /// The seed moves the start by up to this; `None` where the scenario does not say.
    #[serde(skip)]
    pub start_within_ns: Option<u64>,
    /// What was drawn of it: `start_ns` without it is what the scenario says.
    #[serde(skip)]
    pub drawn_ns: u64,
    /// Bytes to carry; `None` for as much as the time allows.
    pub size_bytes: Option<u64>,
    /// Paths on the way, by index into [`Cell::paths`].
    pub via: Vec<usize>,
    /// The data takes the backward direction of each path.
    pub reverse: bool,
    /// Machines of the sender and of the receiver, by index into [`Cell::hosts`]; infinitely fast
    /// if `None`.
    pub ends: [Option<usize>; 2],
    /// It begins with what a flow like it has learnt of the idle path before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub warm: bool,
    /// Options of the protocol.
    pub options: Options,
}

/// Many short flows, drawn from the cell's seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupSpec {
    /// Name in the scenario.
    pub name: String,
    /// Protocol of each.
    pub protocol: String,
    /// How many; 0 where a load says it.
    pub count: u32,
    /// Flows arrive as a Poisson process of this load in bit/s, instead of so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_bps: Option<u64>,
    /// Mean size in bytes.
    pub mean_bytes: f64,
    /// Pareto shape; sizes are all equal if it is `None`.
    pub shape: Option<f64>,
    /// Sizes are exponentially distributed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exponential: bool,
    /// Start times are uniform from here, in nanoseconds, ...
    pub start_ns: u64,
    /// ... for this long.
    pub window_ns: u64,
    /// As in [`FlowSpec`].
    pub via: Vec<usize>,
    /// As in [`FlowSpec`].
    pub reverse: bool,
    /// As in [`FlowSpec`].
    pub ends: [Option<usize>; 2],
    /// As in [`FlowSpec`].
    pub options: Options,
}

/// A stream that does not react to the network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamSpec {
    /// Name in the scenario.
    pub name: String,
    /// UDP payload bits per second while it is on.
    pub rate_bps: u64,
    /// UDP payload bytes of a packet.
    pub packet_bytes: u32,
    /// First packet, in nanoseconds.
    pub start_ns: u64,
    /// No packet after this, in nanoseconds.
    pub stop_ns: Option<u64>,
    /// Lengths of sending and of silence in nanoseconds; always on if `None`.
    pub on_off_ns: Option<(u64, u64)>,
    /// These are means of exponential distributions.
    pub exponential: bool,
    /// As in [`FlowSpec`].
    pub via: Vec<usize>,
    /// As in [`FlowSpec`].
    pub reverse: bool,
}

/// A path becomes another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// When, in nanoseconds.
    pub at_ns: u64,
    /// Which, by index into [`Cell::paths`].
    pub path: usize,
    /// What it is from then on.
    pub forward: OneWaySpec,
    /// The same for the way back.
    pub backward: OneWaySpec,
    /// Packets of the new path may overtake those of the old; if `None`, they may if the delay
    /// changes.
    pub overtake: Option<bool>,
    /// What becomes of the queues.
    pub backlog: BacklogSpec,
}

/// What becomes of a queue when its path changes; see [`Backlog`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BacklogSpec {
    /// It stays in front of the bottleneck.
    #[default]
    Inherited,
    /// It drains over the old path beside the new one.
    Drains,
    /// It is lost.
    Dropped,
}

/// A machine that is not infinitely fast.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostSpec {
    /// Name in the scenario.
    pub name: String,
    /// Cores, over which the endpoints are spread.
    pub cores: u32,
    /// Endpoints send and receive on different cores.
    pub split: bool,
    /// To send.
    pub sent: CostSpec,
    /// To receive.
    pub received: CostSpec,
    /// For each timer, in nanoseconds.
    pub wake_ns: u64,
    /// Datagrams that one system call sends.
    pub batch: u32,
    /// Receive buffer of a socket: bytes, and what is charged for a byte in per cent.
    pub socket: Option<(u64, u32)>,
    /// Share of its idle time that an endpoint spends polling: counted as work, delays nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll: Option<f64>,
    /// Work of other threads, on cores of their own, for each work of an endpoint: counted, delays nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helpers: Option<f64>,
    /// What it does to datagrams beside costing time.
    #[serde(skip_serializing_if = "DisturbanceSpec::is_default")]
    pub disturbance: DisturbanceSpec,
}

/// See [`howdah_sim::Disturbance`]; times in nanoseconds, 0 is off.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct DisturbanceSpec {
    /// The longest interruption of a call, ...
    pub tail_ns: u64,
    /// ... and one in how many calls has one.
    pub tail_calls: u32,
    /// Arrivals are read at multiples of this.
    pub gather_ns: u64,
    /// What the first datagram with payload costs beyond the others.
    pub first_ns: u64,
    /// Mean time between two stalls, ...
    pub stall_every_ns: u64,
    /// ... and the shortest and longest of them.
    pub stall_ns: [u64; 2],
}

impl DisturbanceSpec {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// As the simulator takes it.
    pub(crate) fn to_sim(self) -> Disturbance {
        let span = Span::from_nanos;
        let [least, most] = self.stall_ns.map(span);
        Disturbance {
            tail: (self.tail_ns > 0).then_some(Tail {
                most: span(self.tail_ns),
                calls: self.tail_calls,
            }),
            gather: span(self.gather_ns),
            first: span(self.first_ns),
            stalls: (self.stall_every_ns > 0).then_some(Stalls {
                every: span(self.stall_every_ns),
                least,
                most,
            }),
        }
    }
}

/// What one datagram costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CostSpec {
    /// With payload, in nanoseconds.
    pub packet_ns: u64,
    /// Without, in nanoseconds.
    pub report_ns: u64,
    /// For each byte, in picoseconds.
    pub byte_ps: u64,
}

impl Change {
    /// As the simulator takes it, with whether the delay of that direction changes.
    pub(crate) fn switch(&self, delay_changes: bool) -> Switch {
        Switch {
            order: if self.overtake.unwrap_or(delay_changes) {
                Order::MayOvertake
            } else {
                Order::Kept
            },
            backlog: match self.backlog {
                BacklogSpec::Inherited => Backlog::Inherited,
                BacklogSpec::Drains => Backlog::DrainsOnOldPath,
                BacklogSpec::Dropped => Backlog::Dropped,
            },
        }
    }
}

/// How long, and what is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Scenario time, in nanoseconds.
    pub duration_ns: u64,
    /// What comes before is left out of steady figures, in nanoseconds.
    pub warmup_ns: u64,
    /// Length of an interval of the series, in nanoseconds.
    pub interval_ns: u64,
    /// End early once the 95 % confidence interval of the goodput is narrower than this share.
    pub settle: Option<f64>,
    /// End as soon as every sized flow is complete.
    pub until_complete: bool,
    /// Figures of the first round trips are wanted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub start: bool,
    /// A steady stretch may be repeated instead of simulated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fast_forward: bool,
}

impl Cell {
    /// Canonical form: JSON without spaces, keys sorted.
    pub fn canonical(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        let mut text = String::new();
        write_sorted(&value, &mut text);
        text
    }

    /// Name of the result: the first 16 hexadecimal digits of the canonical form's BLAKE3 hash.
    pub fn id(&self) -> String {
        let mut id = blake3::hash(self.canonical().as_bytes())
            .to_hex()
            .to_string();
        id.truncate(16);
        id
    }

    /// Packets that the bottlenecks can carry in the cell's time: a guess of the work.
    pub fn cost(&self) -> f64 {
        let seconds = self.measure.duration_ns as f64 / 1e9;
        let packets = |spec: &OneWaySpec| {
            let rate = spec.mean_rate_bps() as f64;
            rate / 8.0
                / f64::from(if spec.mtu_bytes == 0 {
                    1500
                } else {
                    spec.mtu_bytes
                })
        };
        let fastest = self.paths.iter().map(|path| packets(&path.forward));
        fastest.fold(1.0, f64::max) * seconds
    }
}

impl Measure {
    /// End of the run, unless it settles earlier.
    pub fn end(&self) -> Time {
        Time::from_nanos(self.duration_ns)
    }
}

fn write_sorted(value: &serde_json::Value, out: &mut String) {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (at, key) in keys.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_sorted(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_sorted(item, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}
