//! Why a cell is simulated to its end.

use crate::catalog;
use crate::scenario::{Cell, JitterSpec, LossSpec, OneWaySpec};
use howdah_core::Span;

/// Why a cell is simulated to its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Flows interact.
    #[error("there is other traffic than one flow")]
    OtherTraffic,
    /// The network changes at set times.
    #[error("the timeline changes the network")]
    Timeline,
    /// The network changes by itself, or is of a kind that remembers.
    #[error("a path or a host changes with time")]
    Changing,
    /// Only the start is of interest.
    #[error("the scenario looks at the start")]
    Start,
    /// The packets are written down.
    #[error("its packets are captured")]
    Captured,
    /// No cycle of the protocol is known, or it was found to be wrong.
    #[error("the protocol's steady state is not known to repeat itself")]
    Protocol,
    /// The course of the flow depends on its size or on what its disk has kept so far.
    #[error("the size of the flow decides its course")]
    Size,
    /// It never was steady in this, or not before there was little left.
    #[error("no two halves in a row were alike: {0}")]
    Unsteady(&'static str),
}

/// Whether anything of a cell may be repeated, and the protocol's own cycle, if it has one that time rules.
pub(super) fn cycle(cell: &Cell) -> Result<Span, Refusal> {
    let [flow] = &cell.flows[..] else {
        return Err(Refusal::OtherTraffic);
    };
    if !cell.groups.is_empty() || !cell.streams.is_empty() {
        return Err(Refusal::OtherTraffic);
    }
    if !cell.timeline.is_empty() {
        return Err(Refusal::Timeline);
    }
    let mut ways = (cell.paths.iter()).flat_map(|path| [&path.forward, &path.backward]);
    let mut hosts = cell.hosts.iter();
    if !ways.all(is_constant) || hosts.any(|host| host.disturbance.stall_every_ns > 0) {
        return Err(Refusal::Changing);
    }
    if cell.measure.start {
        return Err(Refusal::Start);
    }
    let sized = flow.size_bytes.is_some();
    let slow_sink = flow.options.write_bps.is_some_and(|sink| {
        let mut rates = flow
            .via
            .iter()
            .map(|&path| cell.paths[path].forward.rate_bps);
        rates.all(|rate| rate.is_none_or(|rate| rate > sink))
    });
    if sized && catalog::goes_in_rounds(&flow.protocol) || slow_sink {
        return Err(Refusal::Size);
    }
    catalog::cycle(&flow.protocol).ok_or(Refusal::Protocol)
}

/// Nothing in it follows the time, and what it loses is decided packet by packet.
fn is_constant(way: &OneWaySpec) -> bool {
    let loses = matches!(
        way.loss,
        LossSpec::None
            | LossSpec::Bernoulli(_)
            | LossSpec::NormalGap { .. }
            | LossSpec::GilbertElliott { .. }
    );
    let jitters = !matches!(way.jitter, JitterSpec::Trace(_));
    loses && jitters && way.rate_trace.is_none() && way.bucket.is_none()
}
