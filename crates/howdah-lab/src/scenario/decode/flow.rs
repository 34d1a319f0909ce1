//! Flows, groups and streams.

use super::super::cell::{FlowSpec, GroupSpec, HostSpec, PathSpec, StreamSpec};
use super::super::error::{ScenarioError, hint};
use super::super::node::{Entry, Sources, Value};
use super::super::one_way::{JitterSpec, OneWaySpec};
use super::super::read::Table;
use super::super::values::{self, Amount};
use super::{blast, find_path};
use crate::catalog::{self, Options, Protocol, stacks};
use howdah_core::{Rate, Span, units};
use howdah_proto::{MIN_DATAGRAM, Share};
use howdah_rivals::sabul::SabulSettings;

/// Headers of IP and UDP, and the least of IP and TCP, in bytes.
const UDP_HEADERS: u32 = 28;
const TCP_HEADERS: u32 = 40;
/// The shortest time that a stream sends between two times of silence.
const SHORTEST: Span = Span::from_micros(1);
/// Most flows of a group.
const MOST_SHORTS: u64 = 1_000_000;
/// Most TCP connections that carry a flow together: a bundle has no more.
const MOST_STREAMS: u32 = 256;

/// The hosts of flows and groups.
const END_KEYS: [&str; 2] = ["from", "to"];

/// Options of a protocol, common to flows and groups.
const OPTION_KEYS: [&str; 25] = [
    "mss",
    "socket_buffer",
    "send_buffer",
    "receive_buffer",
    "receiver",
    "era",
    "pacing",
    "burst_segments",
    "initial_window",
    "max_ssthresh",
    "ssthresh",
    "metrics_cache",
    "sack_walk",
    "ack_every",
    "sack",
    "timestamps",
    "rate",
    "packet",
    "flight",
    "app_write",
    "streams",
    "read",
    "write",
    "expect_loss",
    "share",
];

/// The keys of a flow or a group that are options of its protocol.
pub(in crate::scenario) fn option_keys() -> impl Iterator<Item = &'static str> {
    OPTION_KEYS.into_iter().chain(blast::KEYS)
}

/// Reads what uses the paths.
pub(super) struct Decoder<'a> {
    pub(super) sources: &'a Sources,
    pub(super) paths: &'a [PathSpec],
    pub(super) hosts: &'a [HostSpec],
    /// How long is measured.
    pub(super) duration: Span,
}

impl Decoder<'_> {
    /// All `[kind.NAME]` tables. A reader returns `None` for what is not there in this cell.
    pub(super) fn all<T>(
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

    /// When it begins.
    fn start(&self, table: &Table<'_>) -> Result<Span, ScenarioError> {
        let start = table.span("start")?.unwrap_or(Span::ZERO);
        if start >= self.duration {
            let message = format!(
                "the measurement ends after {}: it would never begin",
                self.duration
            );
            return Err(table.error_at("start", message));
        }
        Ok(start)
    }

    /// By how much later it may begin.
    fn start_within(&self, table: &Table<'_>) -> Result<Option<Span>, ScenarioError> {
        let Some(within) = table.span("start_within")? else {
            return Ok(None);
        };
        let latest = table.span("start")?.unwrap_or(Span::ZERO) + within;
        if !within.is_zero() && latest >= self.duration {
            let message = format!("the measurement ends after {}", self.duration);
            return Err(table.error_at("start_within", message));
        }
        Ok(Some(within))
    }

    pub(super) fn flow(
        &self,
        entry: &Entry,
        what: &str,
    ) -> Result<Option<FlowSpec>, ScenarioError> {
        let known = [
            &[
                "protocol",
                "start",
                "start_within",
                "size",
                "via",
                "reverse",
                "warm",
            ][..],
            &END_KEYS[..],
            &OPTION_KEYS[..],
            &blast::KEYS,
        ]
        .concat();
        let table = Table::open(self.sources, &entry.node, what, &known)?;
        let Some(protocol) = Self::protocol(&table)? else {
            return Ok(None);
        };
        let warm = table.truth("warm")?.unwrap_or(false);
        if warm && protocol != catalog::HOWDAH {
            let message = format!("'{protocol}' remembers no path; '{}' does", catalog::HOWDAH);
            return Err(table.error_at("warm", message));
        }
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
            start_ns: self.start(&table)?.as_nanos(),
            start_within_ns: self.start_within(&table)?.map(Span::as_nanos),
            drawn_ns: 0,
            size_bytes: size_bytes.flatten(),
            via,
            reverse: table.truth("reverse")?.unwrap_or(false),
            ends: self.ends(&table)?,
            warm,
        }))
    }

    pub(super) fn group(
        &self,
        entry: &Entry,
        what: &str,
    ) -> Result<Option<GroupSpec>, ScenarioError> {
        let known = [
            &[
                "protocol", "start", "window", "count", "load", "mean", "shape", "sizes", "via",
                "reverse",
            ][..],
            &END_KEYS[..],
            &OPTION_KEYS[..],
            &blast::KEYS,
        ]
        .concat();
        let table = Table::open(self.sources, &entry.node, what, &known)?;
        let Some(protocol) = Self::protocol(&table)? else {
            return Ok(None);
        };
        let load = table.parse("load", values::rate_or_none)?;
        let count = match (table.whole("count", 0)?, load) {
            (Some(_), Some(_)) => return Err(table.error_at("load", "either 'count' or 'load'")),
            (None, None) => return Err(table.error("'count' or 'load' is missing")),
            (Some(0), None) | (None, Some(Rate::ZERO)) => return Ok(None),
            (count, _) => count.unwrap_or(0),
        };
        if count > MOST_SHORTS {
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
        let sizes = table.parse("sizes", |text| match text {
            "equal" => Ok(false),
            "exponential" => Ok(true),
            _ => Err("'equal' or 'exponential'; 'shape' makes Pareto's"),
        })?;
        if shape.is_some() && sizes.is_some() {
            return Err(table.error_at("sizes", "'shape' says it already"));
        }
        let start = self.start(&table)?;
        // Arrivals of a load go on to the end.
        let rest = load.map(|_| self.duration.saturating_sub(start));
        let window = table.span("window")?.or(rest);
        let window = window
            .ok_or_else(|| table.error("'window', the time in which flows start, is missing"))?;
        if start + window > self.duration {
            let message = format!(
                "that is until {}, and the measurement ends after {}: some would never begin",
                start + window,
                self.duration
            );
            return Err(table.error_at("window", message));
        }
        if let Some(load) = load {
            let flows = load.as_f64() * window.as_secs_f64() / 8.0 / mean as f64;
            if flows > MOST_SHORTS as f64 {
                return Err(table.error_at(
                    "load",
                    format!("that is {flows:.0} flows, more than a million"),
                ));
            }
        }
        let via = self.via(&table)?;
        Ok(Some(GroupSpec {
            name: entry.key.clone(),
            options: self.options(&table, &via, &protocol)?,
            protocol,
            count: count as u32,
            mean_bytes: mean as f64,
            shape,
            exponential: sizes.unwrap_or(false),
            load_bps: load.map(Rate::bits_per_sec),
            start_ns: start.as_nanos(),
            window_ns: window.as_nanos(),
            via,
            reverse: table.truth("reverse")?.unwrap_or(false),
            ends: self.ends(&table)?,
        }))
    }

    pub(super) fn stream(
        &self,
        entry: &Entry,
        what: &str,
    ) -> Result<Option<StreamSpec>, ScenarioError> {
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
            .parse("rate", values::rate_or_none)?
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
            (Some(on), Some(off)) if on >= SHORTEST => Some((on.as_nanos(), off.as_nanos())),
            (None, None) => None,
            _ => {
                let message =
                    format!("'on' and 'off' go together, and 'on' is at least {SHORTEST}");
                return Err(table.error(message));
            }
        };
        let (via, reverse) = (self.via(&table)?, table.truth("reverse")?.unwrap_or(false));
        let exponential = table.truth("exponential")?.unwrap_or(false);
        if exponential && on_off.is_none() {
            let message = "of which times? 'on' and 'off' are missing";
            return Err(table.error_at("exponential", message));
        }
        let packet_bytes = packet.unwrap_or(1470);
        self.check_fits(
            &table,
            "packet",
            packet_bytes + UDP_HEADERS,
            (&via, reverse),
        )?;
        let (start, stop) = (self.start(&table)?, table.span("stop")?);
        if stop.is_some_and(|stop| stop <= start) {
            let message = format!("it begins at {start}: nothing would be sent");
            return Err(table.error_at("stop", message));
        }
        Ok(Some(StreamSpec {
            name: entry.key.clone(),
            rate_bps: rate.bits_per_sec(),
            packet_bytes,
            start_ns: start.as_nanos(),
            stop_ns: stop.map(Span::as_nanos),
            on_off_ns: on_off,
            exponential,
            via,
            reverse,
        }))
    }

    /// Packets that are longer than a path takes are dropped there, all of them and without a word.
    fn check_fits(
        &self,
        table: &Table<'_>,
        key: &str,
        ip_bytes: u32,
        (via, reverse): (&[usize], bool),
    ) -> Result<(), ScenarioError> {
        let lanes = via.iter().map(|&at| {
            let path = &self.paths[at];
            if reverse {
                &path.backward
            } else {
                &path.forward
            }
        });
        let mtus = lanes.map(|lane| lane.mtu_bytes).filter(|&mtu| mtu > 0);
        let Some(mtu) = mtus.min().filter(|&mtu| ip_bytes > mtu) else {
            return Ok(());
        };
        let message = format!(
            "that makes IP packets of {ip_bytes} bytes, and the way there takes no more than {mtu} ('mtu')"
        );
        Err(table.error_at(key, message))
    }

    /// The protocol's name; `None` for "none".
    fn protocol(table: &Table<'_>) -> Result<Option<String>, ScenarioError> {
        let name = table
            .text("protocol")?
            .ok_or_else(|| table.error("'protocol' is missing"))?;
        if name == "none" {
            return Ok(None);
        }
        if catalog::find(&name).is_none() {
            let names = catalog::names();
            let message = format!("unknown protocol '{name}'{}", hint(&name, &names));
            return Err(table.error_at("protocol", message));
        }
        Ok(Some(name))
    }

    /// Nothing is as if it were not said: an axis may have it.
    fn sack_walk(table: &Table<'_>) -> Result<Option<u64>, ScenarioError> {
        let walk = table.span("sack_walk")?.filter(|walk| !walk.is_zero());
        if walk.is_none() {
            return Ok(None);
        }
        for key in ["from", "streams", "read", "write"] {
            if table.node.get(key).is_some() {
                let message = format!(
                    "not together with '{key}': it is of one connection on a host without other costs"
                );
                return Err(table.error_at("sack_walk", message));
            }
        }
        Ok(walk.map(Span::as_nanos))
    }

    /// The hosts of sender and receiver.
    fn ends(&self, table: &Table<'_>) -> Result<[Option<usize>; 2], ScenarioError> {
        let host = |key: &str| -> Result<Option<usize>, ScenarioError> {
            let Some(name) = table.text(key)? else {
                return Ok(None);
            };
            let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
            let found = names.iter().position(|known| *known == name);
            found.map(Some).ok_or_else(|| {
                table.error_at(key, format!("no host '{name}'{}", hint(&name, &names)))
            })
        };
        Ok([host("from")?, host("to")?])
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

    /// Where nothing takes any time, nothing ever ends.
    fn check_time(&self, table: &Table<'_>, via: &[usize]) -> Result<(), ScenarioError> {
        let takes_time = |lane: &OneWaySpec| {
            let jitters = !matches!(lane.jitter, JitterSpec::None);
            lane.delay_ns > 0 || lane.rate_bps.is_some() || lane.rate_trace.is_some() || jitters
        };
        let mut paths = via.iter().map(|&at| &self.paths[at]);
        if paths.any(|path| takes_time(&path.forward) || takes_time(&path.backward)) {
            return Ok(());
        }
        Err(table.error("nothing on its way has a 'rate' or an 'rtt': it would never end"))
    }

    fn options(
        &self,
        table: &Table<'_>,
        via: &[usize],
        protocol: &str,
    ) -> Result<Options, ScenarioError> {
        self.check_time(table, via)?;
        let reverse = table.truth("reverse")?.unwrap_or(false);
        let route = || via.iter().map(|&at| &self.paths[at]);
        let there = |path: &PathSpec| {
            let way = if reverse {
                &path.backward
            } else {
                &path.forward
            };
            (way.mean_rate_bps(), way.delay_ns)
        };
        let rate = route()
            .map(|path| there(path).0)
            .filter(|&bps| bps > 0)
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
        // "none" is without limit, so that an axis may have it.
        let rate_of = |key: &str| {
            let rate = table.parse(key, |text| match text {
                "none" => Ok(None),
                text => values::rate(text).map(Some),
            })?;
            Ok(rate.flatten().map(Rate::bits_per_sec))
        };
        let options = Options {
            mss_bytes: table.within("mss", 256..=65_000)?,
            send_buffer_bytes: buffer("send_buffer")?.or(both),
            receive_buffer_bytes: buffer("receive_buffer")?.or(both),
            receiver: one_of("receiver", &stacks::receivers())?,
            era: one_of("era", &stacks::eras())?,
            pacing: table.truth("pacing")?,
            burst_segments: segments("burst_segments")?,
            initial_window_segments: segments("initial_window")?,
            max_ssthresh_segments: segments("max_ssthresh")?,
            ssthresh_segments: segments("ssthresh")?,
            metrics_cache: table.truth("metrics_cache")?,
            sack_walk_ns: Self::sack_walk(table)?,
            ack_every_segments: segments("ack_every")?,
            sack: table.truth("sack")?,
            timestamps: table.truth("timestamps")?,
            rate_bps: rate_of("rate")?,
            packet_bytes: table.within("packet", 128..=65_535)?,
            flight_packets: segments("flight")?,
            app_write_bytes: (table.parse("app_write", units::parse_bytes)?)
                .map(|bytes| bytes.min(u64::from(u32::MAX)) as u32),
            streams: table.within("streams", 1..=MOST_STREAMS)?,
            read_bps: rate_of("read")?,
            write_bps: rate_of("write")?,
            blast: blast::options(table, route().map(|path| there(path).1).sum())?,
            expect_loss: table.probability("expect_loss")?,
            share_of: (table.parse("share", str::parse::<Share>)?)
                .filter(|share| *share != Share::WHOLE)
                .map(Share::sessions),
        };
        let fits = |key, ip_bytes| self.check_fits(table, key, ip_bytes, (via, reverse));
        match catalog::find(protocol) {
            Some(Protocol::Tcp(_)) => {
                let mss = options.mss_bytes;
                mss.map_or(Ok(()), |mss| fits("mss", mss + TCP_HEADERS))?;
            }
            // It would never have a connection, in whatever direction.
            Some(Protocol::Howdah(_)) => {
                let least = MIN_DATAGRAM as u32 + UDP_HEADERS;
                self.check_fits(table, "protocol", least, (via, false))?;
                self.check_fits(table, "protocol", least, (via, true))?;
            }
            Some(Protocol::Udt(config)) => {
                let usual = config();
                let headers = usual.packet_bytes - usual.payload_bytes();
                fits_as_told(&options, headers, fits)?;
            }
            Some(Protocol::Sabul) => {
                let usual = SabulSettings::default();
                let headers = usual.packet_bytes - usual.payload_bytes();
                fits_as_told(&options, headers, fits)?;
            }
            _ => {}
        }
        catalog::check(protocol, &options)
            .map_err(|(key, message)| table.error_at(key, message))?;
        Ok(options)
    }
}

/// UDT and SABUL have packets of the size that they are told, whatever the way takes.
fn fits_as_told(
    options: &Options,
    headers: u32,
    fits: impl Fn(&'static str, u32) -> Result<(), ScenarioError>,
) -> Result<(), ScenarioError> {
    match (options.packet_bytes, options.mss_bytes) {
        (Some(packet), _) => fits("packet", packet),
        (None, Some(mss)) => fits("mss", mss + headers),
        (None, None) => Ok(()),
    }
}
