//! From the tree of a cell to the [`Cell`].

use super::cell::{
    Cell, Change, FlowSpec, GroupSpec, LossSpec, Measure, OneWaySpec, Options, PathSpec, QueueSpec,
    StreamSpec,
};
use super::error::{ScenarioError, hint};
use super::expand::Expanded;
use super::node::{Entry, Node, Sources, Value};
use super::read::Table;
use super::values::Amount;
use crate::protocol;
use crate::sim::{ERAS, RECEIVERS};
use howdah_core::{Rate, Span, units};

/// Keys of an experiment.
const EXPERIMENT_KEYS: [&str; 18] = [
    "id",
    "title",
    "paper",
    "figure",
    "note",
    "seed",
    "repeats",
    "path",
    "flow",
    "group",
    "stream",
    "timeline",
    "measure",
    // These are gone when a cell is decoded; they stand here for the hints.
    "axes",
    "exclude",
    "quick",
    "include",
    "experiment",
];

/// Keys that a path and each of its directions have.
const ONE_WAY_KEYS: [&str; 12] = [
    "rate",
    "delay",
    "buffer",
    "loss",
    "burst",
    "lose",
    "jitter",
    "reorder",
    "duplicate",
    "corrupt",
    "mtu",
    "overhead",
];

/// Keys that only a path as a whole has.
const PATH_KEYS: [&str; 4] = ["rtt", "base_rtt", "forward", "backward"];

/// Options of a protocol, common to flows and groups.
const OPTION_KEYS: [&str; 14] = [
    "mss",
    "socket_buffer",
    "send_buffer",
    "receive_buffer",
    "receiver",
    "era",
    "pacing",
    "initial_window",
    "max_ssthresh",
    "ssthresh",
    "ack_every",
    "sack",
    "timestamps",
    "rate",
];

/// Longest scenario time: a mistyped unit, not an experiment.
const MAX_DURATION: Span = Span::from_secs(1_000_000);

/// All cells of one place in the matrix: one for each repeat.
pub(crate) fn decode(
    sources: &Sources,
    experiment: &str,
    expanded: &Expanded,
) -> Result<Vec<Cell>, ScenarioError> {
    let top = Table::open(sources, &expanded.tree, "the experiment", &EXPERIMENT_KEYS)?;
    let paths = paths(&top)?;
    let decoder = Decoder {
        sources,
        paths: &paths,
    };
    let cell = Cell {
        experiment: experiment.to_owned(),
        at: expanded.at.clone(),
        seed: top.whole("seed", 0)?.unwrap_or(1),
        flows: decoder.all(&top, "flow", Decoder::flow)?,
        groups: decoder.all(&top, "group", Decoder::group)?,
        streams: decoder.all(&top, "stream", Decoder::stream)?,
        timeline: timeline(&top, &paths)?,
        measure: measure(&top)?,
        paths,
    };
    if cell.flows.is_empty() && cell.groups.is_empty() && cell.streams.is_empty() {
        let message = "no flow, group or stream: nothing would happen";
        return Err(sources.error(expanded.tree.place, message));
    }
    let repeats = top.whole("repeats", 1)?.unwrap_or(1);
    Ok((0..repeats)
        .map(|repeat| Cell {
            seed: cell.seed.wrapping_add(repeat),
            ..cell.clone()
        })
        .collect())
}

fn paths(top: &Table<'_>) -> Result<Vec<PathSpec>, ScenarioError> {
    let Some(table) = top.node.get("path") else {
        return Err(top.error("there is no [path.NAME]"));
    };
    table
        .entries()
        .iter()
        .map(|entry| {
            let what = format!("[path.{}]", entry.key);
            path(top.sources, &entry.key, &entry.node, &what, &[])
        })
        .collect()
}

fn path(
    sources: &Sources,
    name: &str,
    node: &Node,
    what: &str,
    more_keys: &[&str],
) -> Result<PathSpec, ScenarioError> {
    let known = [&ONE_WAY_KEYS[..], &PATH_KEYS, more_keys].concat();
    let table = Table::open(sources, node, what, &known)?;
    if table.has("rtt") && table.has("delay") {
        return Err(table.error_at("delay", "a path has 'rtt' (both ways) or 'delay' (one way)"));
    }
    let rtt =
        table.span("rtt")?.unwrap_or(Span::ZERO) + table.span("base_rtt")?.unwrap_or(Span::ZERO);
    let there = rtt / 2;
    let back = rtt.saturating_sub(there);
    let direction = |key: &str| -> Result<Node, ScenarioError> {
        let mut node = node.clone();
        for key in [&PATH_KEYS[..], more_keys].concat() {
            let _ = node.take(key);
        }
        if let Some(over) = table.node.get(key) {
            Table::open(sources, over, format!("{what}.{key}"), &ONE_WAY_KEYS)?;
            node.merge(over.clone());
        }
        Ok(node)
    };
    let (forward, backward) = (direction("forward")?, direction("backward")?);
    let delay = |node: &Node, half: Span| -> Result<Span, ScenarioError> {
        let table = Table::open(sources, node, what, &ONE_WAY_KEYS)?;
        Ok(table.span("delay")?.unwrap_or(half))
    };
    let (there, back) = (delay(&forward, there)?, delay(&backward, back)?);
    let rtt = there + back;
    Ok(PathSpec {
        name: name.to_owned(),
        forward: one_way(sources, &forward, what, there, rtt)?,
        backward: one_way(sources, &backward, what, back, rtt)?,
    })
}

fn one_way(
    sources: &Sources,
    node: &Node,
    what: &str,
    delay: Span,
    rtt: Span,
) -> Result<OneWaySpec, ScenarioError> {
    let table = Table::open(sources, node, what, &ONE_WAY_KEYS)?;
    let rate = table.parse("rate", |text| match text {
        "unlimited" => Ok(None),
        text => match units::parse_rate(text) {
            Ok(Rate::ZERO) => Err("a path of rate 0 carries nothing".to_owned()),
            other => other.map(Some).map_err(|error| error.to_string()),
        },
    })?;
    let rate = rate.flatten();
    let queue = table.parse("buffer", |text| Amount::parse(text)?.queue(rate, rtt))?;
    if delay > Span::from_secs(3600) {
        return Err(table.error("a delay of more than an hour"));
    }
    Ok(OneWaySpec {
        rate_bps: rate.map(Rate::bits_per_sec),
        queue: queue.unwrap_or(QueueSpec::Unlimited),
        loss: loss(&table)?,
        delay_ns: delay.as_nanos(),
        jitter_ns: table.span("jitter")?.unwrap_or(Span::ZERO).as_nanos(),
        reorder: table.probability("reorder")?.unwrap_or(0.0),
        duplicate: table.probability("duplicate")?.unwrap_or(0.0),
        corrupt: table.probability("corrupt")?.unwrap_or(0.0),
        mtu_bytes: mtu(&table)?,
        overhead_bytes: table.whole("overhead", 0)?.unwrap_or(38) as u32,
    })
}

fn mtu(table: &Table<'_>) -> Result<u32, ScenarioError> {
    let mtu = table.parse("mtu", |text| {
        let bytes = units::parse_bytes(text).map_err(|error| error.to_string())?;
        match bytes {
            576..=65_535 => Ok(bytes as u32),
            _ => Err(format!("{bytes} bytes; an MTU is from 576 to 65535")),
        }
    })?;
    Ok(mtu.unwrap_or(1500))
}

fn loss(table: &Table<'_>) -> Result<LossSpec, ScenarioError> {
    if table.has("lose") {
        if table.has("loss") {
            return Err(table.error_at("lose", "random 'loss' or a list 'lose', not both"));
        }
        let list = table.with("lose", |node| {
            let Value::List(items) = &node.value else {
                return Err("a list of packet numbers".to_owned());
            };
            items
                .iter()
                .map(|item| match item.value {
                    Value::Int(number) if number >= 0 => Ok(number as u64),
                    _ => Err(format!("{item} is not the number of a packet")),
                })
                .collect()
        })?;
        return Ok(LossSpec::List(list.unwrap_or_default()));
    }
    if let Some(node) = table
        .node
        .get("loss")
        .filter(|n| matches!(n.value, Value::Table(_)))
    {
        let table = Table::open(
            table.sources,
            node,
            "'loss'",
            &["enter", "leave", "good", "bad"],
        )?;
        let need = |key: &str| {
            table
                .probability(key)?
                .ok_or_else(|| table.error(format!("'{key}' is missing")))
        };
        let (enter, leave) = (need("enter")?, need("leave")?);
        if enter > 0.0 && leave == 0.0 {
            return Err(table.error_at("leave", "a burst of loss that never ends"));
        }
        return Ok(LossSpec::GilbertElliott {
            enter,
            leave,
            good: table.probability("good")?.unwrap_or(0.0),
            bad: table.probability("bad")?.unwrap_or(1.0),
        });
    }
    let p = table.probability("loss")?.unwrap_or(0.0);
    if p >= 1.0 {
        return Err(table.error_at("loss", "a path that loses everything"));
    }
    let Some(burst) = table.number("burst")? else {
        return Ok(if p > 0.0 {
            LossSpec::Bernoulli(p)
        } else {
            LossSpec::None
        });
    };
    if burst < 1.0 {
        return Err(table.error_at(
            "burst",
            "the mean number of packets lost in a row is at least 1",
        ));
    }
    // All packets of the bad state are lost, so its stationary share is the loss.
    let leave = 1.0 / burst;
    let enter = p * leave / (1.0 - p);
    if enter > 1.0 {
        return Err(table.error_at(
            "burst",
            "no such bursts at this loss: they would have to overlap",
        ));
    }
    Ok(if p > 0.0 {
        LossSpec::GilbertElliott {
            enter,
            leave,
            good: 0.0,
            bad: 1.0,
        }
    } else {
        LossSpec::None
    })
}

fn timeline(top: &Table<'_>, paths: &[PathSpec]) -> Result<Vec<Change>, ScenarioError> {
    let Some(list) = top.node.get("timeline") else {
        return Ok(Vec::new());
    };
    let Value::List(items) = &list.value else {
        return Err(top.error_at("timeline", "write each change as [[timeline]]"));
    };
    // What each path has become so far.
    let mut trees: Vec<Node> = top
        .node
        .get("path")
        .map(|table| table.entries().iter().map(|e| e.node.clone()).collect())
        .unwrap_or_default();
    let mut changes: Vec<Change> = Vec::new();
    for item in items {
        let known = [&["at", "path"], &ONE_WAY_KEYS[..], &PATH_KEYS].concat();
        let table = Table::open(top.sources, item, "[[timeline]]", &known)?;
        let at = table
            .span("at")?
            .ok_or_else(|| table.error("'at' is missing"))?;
        if changes
            .last()
            .is_some_and(|last| last.at_ns > at.as_nanos())
        {
            return Err(table.error_at("at", "earlier than the change before it"));
        }
        let index = match table.text("path")? {
            Some(name) => find_path(&table, "path", &name, paths)?,
            None if paths.len() == 1 => 0,
            None => return Err(table.error("'path' is missing")),
        };
        let mut over = item.clone();
        for key in ["at", "path"] {
            let _ = over.take(key);
        }
        if over.entries().is_empty() {
            return Err(table.error("nothing changes"));
        }
        // A path has either a round-trip time or a delay: the new one wins.
        for (new, old) in [("delay", "rtt"), ("rtt", "delay")] {
            if over.get(new).is_some() {
                let _ = trees[index].take(old);
            }
        }
        trees[index].merge(over);
        let spec = path(
            top.sources,
            &paths[index].name,
            &trees[index],
            "[[timeline]]",
            &[],
        )?;
        changes.push(Change {
            at_ns: at.as_nanos(),
            path: index,
            forward: spec.forward,
            backward: spec.backward,
        });
    }
    Ok(changes)
}

fn find_path(
    table: &Table<'_>,
    key: &str,
    name: &str,
    paths: &[PathSpec],
) -> Result<usize, ScenarioError> {
    let names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
    names
        .iter()
        .position(|known| *known == name)
        .ok_or_else(|| table.error_at(key, format!("no path '{name}'{}", hint(name, &names))))
}

fn measure(top: &Table<'_>) -> Result<Measure, ScenarioError> {
    let empty = Node::empty_table(top.node.place);
    let node = top.node.get("measure").unwrap_or(&empty);
    let known = ["duration", "warmup", "interval", "settle", "until_complete"];
    let table = Table::open(top.sources, node, "[measure]", &known)?;
    let duration = table
        .span("duration")?
        .ok_or_else(|| table.error("'duration' is missing"))?;
    if duration.is_zero() || duration > MAX_DURATION {
        return Err(table.error_at("duration", format!("{duration} is no time to measure")));
    }
    let warmup = table.span("warmup")?.unwrap_or(Span::ZERO);
    if warmup >= duration {
        return Err(table.error_at("warmup", "not shorter than 'duration'"));
    }
    let interval = table.span("interval")?.unwrap_or(Span::from_secs(1));
    if interval < Span::from_millis(1) || interval > duration {
        return Err(table.error_at("interval", "from 1ms to 'duration'"));
    }
    let settle = table.probability("settle")?;
    if settle == Some(0.0) {
        return Err(table.error_at("settle", "a confidence interval is never 0 wide"));
    }
    Ok(Measure {
        duration_ns: duration.as_nanos(),
        warmup_ns: warmup.as_nanos(),
        interval_ns: interval.as_nanos(),
        settle,
        until_complete: table.truth("until_complete")?.unwrap_or(false),
    })
}

/// Reads what uses the paths.
struct Decoder<'a> {
    sources: &'a Sources,
    paths: &'a [PathSpec],
}

impl Decoder<'_> {
    /// All `[kind.NAME]` tables. A reader returns `None` for what is not there in this cell.
    fn all<T>(
        &self,
        top: &Table<'_>,
        kind: &str,
        read: impl Fn(&Self, &Entry, &str) -> Result<Option<T>, ScenarioError>,
    ) -> Result<Vec<T>, ScenarioError> {
        let Some(table) = top.node.get(kind) else {
            return Ok(Vec::new());
        };
        if !matches!(table.value, Value::Table(_)) {
            return Err(top.error_at(kind, format!("write each as [{kind}.NAME]")));
        }
        let mut all = Vec::new();
        for entry in table.entries() {
            let what = format!("[{kind}.{}]", entry.key);
            all.extend(read(self, entry, &what)?);
        }
        Ok(all)
    }

    fn flow(&self, entry: &Entry, what: &str) -> Result<Option<FlowSpec>, ScenarioError> {
        let known = [
            &["protocol", "start", "size", "via", "reverse"],
            &OPTION_KEYS[..],
        ]
        .concat();
        let table = Table::open(self.sources, &entry.node, what, &known)?;
        let Some(protocol) = Self::protocol(&table)? else {
            return Ok(None);
        };
        let size_bytes = table.parse("size", |text| match text {
            "bulk" => Ok(None),
            text => match units::parse_bytes(text) {
                Ok(0) => Err("0 bytes".to_owned()),
                other => other.map(Some).map_err(|error| error.to_string()),
            },
        })?;
        let via = self.via(&table)?;
        Ok(Some(FlowSpec {
            name: entry.key.clone(),
            options: self.options(&table, &via, &protocol)?,
            protocol,
            start_ns: table.span("start")?.unwrap_or(Span::ZERO).as_nanos(),
            size_bytes: size_bytes.flatten(),
            via,
            reverse: table.truth("reverse")?.unwrap_or(false),
        }))
    }

    fn group(&self, entry: &Entry, what: &str) -> Result<Option<GroupSpec>, ScenarioError> {
        let known = [
            &[
                "protocol", "start", "window", "count", "mean", "shape", "via", "reverse",
            ],
            &OPTION_KEYS[..],
        ]
        .concat();
        let table = Table::open(self.sources, &entry.node, what, &known)?;
        let Some(protocol) = Self::protocol(&table)? else {
            return Ok(None);
        };
        let count = table
            .whole("count", 0)?
            .ok_or_else(|| table.error("'count' is missing"))?;
        if count == 0 {
            return Ok(None);
        }
        if count > 1_000_000 {
            return Err(table.error_at("count", "more than a million flows"));
        }
        let mean = table
            .parse("mean", units::parse_bytes)?
            .filter(|&bytes| bytes > 0)
            .ok_or_else(|| table.error("'mean', the mean size of a flow, is missing or 0"))?;
        let shape = table.number("shape")?;
        if shape.is_some_and(|shape| shape <= 1.0) {
            return Err(table.error_at("shape", "a Pareto distribution has a mean only above 1"));
        }
        let via = self.via(&table)?;
        Ok(Some(GroupSpec {
            name: entry.key.clone(),
            options: self.options(&table, &via, &protocol)?,
            protocol,
            count: count as u32,
            mean_bytes: mean as f64,
            shape,
            start_ns: table.span("start")?.unwrap_or(Span::ZERO).as_nanos(),
            window_ns: table
                .span("window")?
                .ok_or_else(|| table.error("'window', the time in which flows start, is missing"))?
                .as_nanos(),
            via,
            reverse: table.truth("reverse")?.unwrap_or(false),
        }))
    }

    fn stream(&self, entry: &Entry, what: &str) -> Result<Option<StreamSpec>, ScenarioError> {
        let known = [
            "rate",
            "packet",
            "start",
            "stop",
            "on",
            "off",
            "exponential",
            "via",
            "reverse",
        ];
        let table = Table::open(self.sources, &entry.node, what, &known)?;
        let rate = table
            .parse("rate", |text| match text {
                "none" => Ok(Rate::ZERO),
                text => units::parse_rate(text).map_err(|error| error.to_string()),
            })?
            .ok_or_else(|| table.error("'rate' is missing"))?;
        if rate == Rate::ZERO {
            return Ok(None);
        }
        let packet = table.parse("packet", |text| {
            match units::parse_bytes(text).map_err(|error| error.to_string())? {
                bytes @ 16..=65_507 => Ok(bytes as u32),
                bytes => Err(format!(
                    "{bytes} bytes; a datagram of a stream has from 16 to 65507"
                )),
            }
        })?;
        let on_off = match (table.span("on")?, table.span("off")?) {
            (Some(on), Some(off)) if !on.is_zero() => Some((on.as_nanos(), off.as_nanos())),
            (None, None) => None,
            _ => return Err(table.error("'on' and 'off' go together, and 'on' is not 0")),
        };
        Ok(Some(StreamSpec {
            name: entry.key.clone(),
            rate_bps: rate.bits_per_sec(),
            packet_bytes: packet.unwrap_or(1470),
            start_ns: table.span("start")?.unwrap_or(Span::ZERO).as_nanos(),
            stop_ns: table.span("stop")?.map(Span::as_nanos),
            on_off_ns: on_off,
            exponential: table.truth("exponential")?.unwrap_or(false),
            via: self.via(&table)?,
            reverse: table.truth("reverse")?.unwrap_or(false),
        }))
    }

    /// The protocol's name; `None` for "none".
    fn protocol(table: &Table<'_>) -> Result<Option<String>, ScenarioError> {
        let name = table
            .text("protocol")?
            .ok_or_else(|| table.error("'protocol' is missing"))?;
        if name == "none" {
            return Ok(None);
        }
        if protocol::find(&name).is_none() {
            let names = protocol::names();
            let message = format!("unknown protocol '{name}'{}", hint(&name, &names));
            return Err(table.error_at("protocol", message));
        }
        Ok(Some(name))
    }

    fn via(&self, table: &Table<'_>) -> Result<Vec<usize>, ScenarioError> {
        let Some(names) = table.texts("via")? else {
            return match self.paths {
                [_] => Ok(vec![0]),
                _ => Err(table.error("there are several paths: say 'via' which")),
            };
        };
        if names.is_empty() {
            return Err(table.error_at("via", "at least one path"));
        }
        names
            .iter()
            .map(|(name, _)| find_path(table, "via", name, self.paths))
            .collect()
    }

    fn options(
        &self,
        table: &Table<'_>,
        via: &[usize],
        protocol: &str,
    ) -> Result<Options, ScenarioError> {
        let route = || via.iter().map(|&at| &self.paths[at]);
        let rate = route()
            .filter_map(|path| path.forward.rate_bps)
            .min()
            .map(Rate::from_bits_per_sec);
        let rtt = route()
            .map(|path| path.forward.delay_ns + path.backward.delay_ns)
            .sum();
        let rtt = Span::from_nanos(rtt);
        let buffer = |key: &str| table.parse(key, |text| Amount::parse(text)?.bytes(rate, rtt));
        let both = buffer("socket_buffer")?;
        let segments = |key: &str| {
            let number = table.whole(key, 1)?;
            Ok(number.map(|number| number.min(u64::from(u32::MAX)) as u32))
        };
        let one_of = |key: &str, known: &[&str]| {
            let name = table.text(key)?;
            match &name {
                Some(wrong) if !known.contains(&wrong.as_str()) => {
                    let message = format!("'{wrong}' is unknown{}", hint(wrong, known));
                    Err(table.error_at(key, message))
                }
                _ => Ok(name),
            }
        };
        let options = Options {
            mss_bytes: table.whole("mss", 256)?.map(|mss| mss.min(65_000) as u32),
            send_buffer_bytes: buffer("send_buffer")?.or(both),
            receive_buffer_bytes: buffer("receive_buffer")?.or(both),
            receiver: one_of("receiver", &RECEIVERS)?,
            era: one_of("era", &ERAS)?,
            pacing: table.truth("pacing")?,
            initial_window_segments: segments("initial_window")?,
            max_ssthresh_segments: segments("max_ssthresh")?,
            ssthresh_segments: segments("ssthresh")?,
            ack_every_segments: segments("ack_every")?,
            sack: table.truth("sack")?,
            timestamps: table.truth("timestamps")?,
            rate_bps: table
                .parse("rate", units::parse_rate)?
                .map(Rate::bits_per_sec),
        };
        protocol::check(protocol, &options)
            .map_err(|(key, message)| table.error_at(key, message))?;
        Ok(options)
    }
}
