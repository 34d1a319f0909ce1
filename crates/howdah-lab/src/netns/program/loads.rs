//! Short flows and streams, as real sockets.

use super::{Ready, Recipe, Said, kernel, last_json};
use crate::netns::Trouble;
use crate::netns::kit::Kit;
use crate::netns::plan::Ends;
use crate::scenario::{Cell, GroupSpec, StreamSpec};
use crate::sim::draw;
use howdah_load::READY;
use howdah_load::short_flows::{ShortFlow, ShortReport};
use howdah_load::stream::SinkReport;
use std::path::Path;

const SHORT_PORT: u16 = 5003;
const STREAM_PORT: u16 = 5005;

/// The receiving and the sending end, and what must live as long as they do.
type Ensemble = ([Recipe; 2], Vec<Box<dyn Send>>);

/// A group of short flows.
pub(in crate::netns) struct Group {
    pub(in crate::netns) ends: Ends,
    pub(in crate::netns) flows: Vec<ShortFlow>,
    congestion: String,
    keep: Vec<Box<dyn Send>>,
}

pub(super) fn group(cell: &Cell, spec: &GroupSpec, ends: Ends) -> Result<Group, Trouble> {
    let (congestion, keep) =
        kernel::congestion(&spec.protocol).map_err(|trouble| match trouble {
            Trouble::Skipped(why) => {
                Trouble::Skipped(format!("short flows '{}': {why}", spec.name))
            }
            other => other,
        })?;
    let flows = draw(spec, cell.seed);
    let flows = flows.iter().map(|short| ShortFlow {
        start_ns: short.start_ns,
        size_bytes: short.size_bytes,
    });
    Ok(Group {
        ends,
        flows: flows.collect(),
        congestion,
        keep,
    })
}

impl Group {
    /// The receiving and the sending end.
    pub(in crate::netns) fn recipes(&mut self, kit: &Kit, dir: &Path) -> Result<Ensemble, Trouble> {
        let at = format!("{}:{SHORT_PORT}", self.ends.receiver);
        let list = dir.join("flows.json");
        let text = serde_json::to_string(&self.flows).unwrap_or_default();
        std::fs::write(&list, text).map_err(Trouble::io("write the list of short flows"))?;
        let receiver = Recipe::new(kit.howdah())
            .args(["internal", "short-recv", "--listen", &at])
            .ready(Ready::Line(READY));
        let sender = Recipe::new(kit.howdah())
            .args([
                "internal",
                "short-send",
                "--to",
                &at,
                "--congestion",
                &self.congestion,
            ])
            .args(["--flows".into(), list.into_os_string()]);
        Ok(([receiver, sender], std::mem::take(&mut self.keep)))
    }
}

/// What became of a group.
pub(in crate::netns) fn read_group(sender: &Said) -> Result<ShortReport, String> {
    last_json(sender, "the sender of short flows")
}

/// A stream.
pub(in crate::netns) struct Stream {
    ends: Ends,
    start_s: f64,
    words: Vec<String>,
}

pub(super) fn stream(cell: &Cell, spec: &StreamSpec, ends: Ends) -> Stream {
    let end_ns = spec
        .stop_ns
        .unwrap_or(u64::MAX)
        .min(cell.measure.duration_ns);
    let ns = |ns: u64| format!("{ns}ns");
    let mut words = vec!["--rate".to_owned(), format!("{}bit", spec.rate_bps)];
    words.extend(["--packet".to_owned(), spec.packet_bytes.to_string()]);
    words.extend([
        "--time".to_owned(),
        ns(end_ns.saturating_sub(spec.start_ns)),
    ]);
    if let Some((on, off)) = spec.on_off_ns {
        words.extend(["--on".to_owned(), ns(on), "--off".to_owned(), ns(off)]);
        words.extend(["--seed".to_owned(), cell.seed.to_string()]);
        if spec.exponential {
            words.push("--exponential".to_owned());
        }
    }
    Stream {
        ends,
        start_s: spec.start_ns as f64 / 1e9,
        words,
    }
}

impl Stream {
    pub(in crate::netns) fn ends(&self) -> Ends {
        self.ends
    }

    pub(in crate::netns) fn start_s(&self) -> f64 {
        self.start_s
    }

    /// The receiving and the sending end.
    pub(in crate::netns) fn recipes(&self, kit: &Kit) -> [Recipe; 2] {
        let at = format!("{}:{STREAM_PORT}", self.ends.receiver);
        let receiver = Recipe::new(kit.howdah())
            .args(["internal", "stream-recv", "--listen", &at])
            .ready(Ready::Line(READY));
        let sender = Recipe::new(kit.howdah())
            .args(["internal", "stream-send", "--to", &at])
            .args(self.words.clone())
            .ends_itself();
        [receiver, sender]
    }
}

/// What the sink of a stream saw, and how many datagrams were sent.
pub(in crate::netns) fn read_stream(
    sender: &Said,
    receiver: &Said,
) -> Result<(u64, SinkReport), String> {
    let sent = sender.out.lines().rev().find_map(|line| line.parse().ok());
    let sent = sent.ok_or("the sender of a stream printed no result")?;
    Ok((sent, last_json(receiver, "the sink of a stream")?))
}
