//! The programs that a testbed can run: an adapter of a few lines each, which says how the program is
//! installed, how its two ends are started, and how to read what they say.

mod default_tcp;
mod howdah;
mod kernel;
mod loads;
mod quic;
mod rival;
mod srt;
mod ssh;
#[cfg(test)]
mod tests;
mod tools;
mod udt;

use super::Trouble;
use super::kit::{Kit, in_path};
use super::plan::{Ends, Plan};
use crate::scenario::{Cell, FlowSpec, PathSpec};
use howdah_load::tcp::TcpSample;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What an adapter is told of a flow.
pub(super) struct AdapterArgs<'a> {
    pub(super) kit: &'a Kit,
    pub(super) flow: &'a FlowSpec,
    pub(super) ends: Ends,
    /// Largest IP packet of the route.
    pub(super) mtu: u32,
    /// Rate of the narrowest path in bit/s, if any has one.
    pub(super) rate_bps: Option<u64>,
    /// Round-trip time without queues, in seconds.
    pub(super) rtt_s: f64,
    /// From its start to the end of the measurement, in seconds.
    pub(super) seconds: f64,
    /// Where a warm flow remembers paths.
    pub(super) memory: &'a Path,
}

/// How to start one end, given a directory of the flow's own.
pub(super) struct Recipe {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(String, OsString)>,
    pub(super) ready: Ready,
    /// It ends by itself when the flow is over; else it is interrupted.
    pub(super) ends_itself: bool,
}

impl Recipe {
    pub(super) fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            ready: Ready::AtOnce,
            ends_itself: false,
        }
    }

    pub(super) fn args<T: Into<OsString>>(
        mut self,
        arguments: impl IntoIterator<Item = T>,
    ) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub(super) fn ready(mut self, ready: Ready) -> Self {
        self.ready = ready;
        self
    }

    pub(super) fn ends_itself(mut self) -> Self {
        self.ends_itself = true;
        self
    }
}

/// How to tell that a receiving end may be spoken to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ready {
    /// It is, as soon as it runs.
    AtOnce,
    /// It has written a line that contains this.
    Line(&'static str),
    /// It listens at this TCP port.
    TcpPort(u16),
    /// It has bound this UDP port.
    UdpPort(u16),
}

/// What an end has written.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub(super) out: String,
    pub(super) err: String,
}

/// What both ends told of a flow. What is not known is left to the emulator's counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// As the program or the kernel names it, with what was read back.
    pub(super) algorithm: String,
    /// User bytes that reached the application.
    pub(super) delivered_bytes: Option<u64>,
    /// Seconds of a sized transfer, as the program measures it; else from its start to its end.
    pub(super) seconds: Option<f64>,
    /// The kernel's TCP carries it: what the kernel counts on the sender's host is the flow's.
    pub(super) over_tcp: bool,
    /// Payload bytes sent, repetitions included; else what the emulator saw leave the host.
    pub(super) sent_bytes: Option<u64>,
    /// Repetitions among them, where the program tells.
    pub(super) retransmitted_bytes: Option<u64>,
    /// States of the sender, where it tells.
    pub(super) samples: Vec<TcpSample>,
    /// Settings and buffers that the flow met.
    pub(super) environment: Vec<(String, String)>,
}

/// Reads what sender and receiver said.
pub(super) type Read = Box<dyn Fn(&Said, &Said) -> Result<Figures, String> + Send + Sync>;

/// A flow ready to be started.
pub(super) struct Launch {
    pub(super) receiver: Recipe,
    pub(super) sender: Recipe,
    pub(super) read: Read,
    /// What must live as long as the flow: a congestion control in the kernel, files.
    pub(super) keep: Vec<Box<dyn Send>>,
}

/// The errand, and the flow's own directory.
type Prepare = fn(&AdapterArgs<'_>, &Path) -> Result<Launch, Trouble>;

/// How a program of the [catalog](crate::catalog) is run.
struct Adapter {
    name: &'static str,
    prepare: Prepare,
}

/// The programs that only a testbed has, and quinn, which the simulator has a model of.
const ADAPTERS: [&[Adapter]; 5] = [tools::ALL, udt::ALL, srt::ALL, quic::ALL, ssh::ALL];

/// The adapter of that name.
fn find(name: &str) -> Option<&'static Adapter> {
    let mut all = ADAPTERS.into_iter().flatten();
    all.find(|adapter| adapter.name == name)
}

/// How a flow of that protocol is run.
fn prepare(name: &str) -> Result<Prepare, Trouble> {
    if let Some(adapter) = find(name) {
        return Ok(adapter.prepare);
    }
    if howdah::runs(name) {
        return Ok(howdah::prepare);
    }
    if rival::runs(name) {
        return Ok(rival::prepare);
    }
    if kernel::runs(name) {
        return Ok(kernel::prepare);
    }
    Err(Trouble::Skipped(format!(
        "'{name}' runs in the simulator only: there is no real program or kernel for it here"
    )))
}

/// Everything that a cell starts, by directory: the flows, then the groups, then the streams.
pub(super) struct Launches<'a> {
    pub(super) flows: Vec<(AdapterArgs<'a>, Prepare)>,
    pub(super) groups: Vec<Group>,
    pub(super) streams: Vec<Stream>,
    pub(super) kit: &'a Kit,
}

use loads::Group;
use loads::Stream;
pub(super) use loads::{read_group, read_stream};

/// Looks which program each flow needs; those that are missing are found here, before anything runs.
pub(super) fn launches<'a>(
    kit: &'a Kit,
    cell: &'a Cell,
    plan: &Plan,
    memory: &'a Path,
) -> Result<Launches<'a>, Trouble> {
    let end_ns = cell.measure.duration_ns;
    let flows = cell.flows.iter().enumerate().map(|(index, flow)| {
        let ends = plan.flow(index);
        let paths = || flow.via.iter().map(|&path| &cell.paths[path]);
        let side = |path: &'a PathSpec| {
            if flow.reverse {
                &path.backward
            } else {
                &path.forward
            }
        };
        let errand = AdapterArgs {
            kit,
            flow,
            ends,
            mtu: plan.mtu(ends.route),
            rate_bps: paths()
                .map(|path| side(path).mean_rate_bps())
                .filter(|&bps| bps > 0)
                .min(),
            rtt_s: crate::figures::route_rtt_s(cell, flow),
            seconds: end_ns.saturating_sub(flow.start_ns) as f64 / 1e9,
            memory,
        };
        Ok((errand, prepare(&flow.protocol)?))
    });
    let flows = flows.collect::<Result<Vec<_>, Trouble>>()?;
    let groups = cell.groups.iter().enumerate();
    let groups = groups.map(|(index, spec)| loads::group(cell, spec, plan.group(index)));
    let streams = cell.streams.iter().enumerate();
    let streams = streams.map(|(index, spec)| loads::stream(cell, spec, plan.stream(index)));
    Ok(Launches {
        flows,
        groups: groups.collect::<Result<_, _>>()?,
        streams: streams.collect(),
        kit,
    })
}

pub(super) use howdah::remembers;

/// Figures of a sized flow whose sender was interrupted by the end of the measurement and so printed no result: the
/// emulator's counts stand for what came. A sender that fails by itself has been found out before.
fn cut_off(size: Option<u64>, algorithm: &str, sender: &Said) -> Option<Figures> {
    let has_result = sender.out.lines().any(|line| line.contains("\"bytes\":"));
    (size.is_some() && !has_result).then(|| Figures {
        algorithm: algorithm.to_owned(),
        ..Figures::default()
    })
}

/// The last line that is JSON.
fn last_json<T: serde::de::DeserializeOwned>(said: &Said, whose: &str) -> Result<T, String> {
    let line = said.out.lines().rev().find(|line| line.starts_with('{'));
    let line = line.ok_or_else(|| format!("{whose} printed no result"))?;
    serde_json::from_str(line)
        .map_err(|error| format!("{whose} printed something unexpected: {error}"))
}

/// A peer of our own that `make peers` builds, or why the flow is skipped.
fn need_peer(errand: &AdapterArgs<'_>, name: &str) -> Result<PathBuf, Trouble> {
    let found = errand.kit.peer(name);
    found.ok_or_else(|| Trouble::Skipped(format!("the peer '{name}' is missing (make peers)")))
}

/// The program, or why the flow is skipped.
fn need(name: &str, install: &str) -> Result<PathBuf, Trouble> {
    in_path(name)
        .ok_or_else(|| Trouble::Skipped(format!("the program '{name}' is missing ({install})")))
}

/// What must be under way to fill the path twice, in bytes.
fn window_bytes(errand: &AdapterArgs<'_>) -> u64 {
    let bytes = errand.rate_bps.unwrap_or(0) as f64 / 8.0 * errand.rtt_s;
    (2.0 * bytes).clamp(16e6, 1e9) as u64
}
