//! Runs a cell in virtual time.
//!
//! [`run`] builds a [`World`](howdah_sim::World) from a cell, drives it in steps of at most 10 ms,
//! looks at it after each (looking changes nothing), and makes a [`CellResult`] of what it saw.
//! Equal cells give equal results, whatever runs beside them.

mod build;
mod capture;
mod finish;
mod node;
mod probes;
mod sample;
mod shorts;
mod start;
mod udt;

use crate::scenario::Cell;
use build::Built;
#[cfg(target_os = "linux")]
pub(crate) use build::path_seeds;
pub(crate) use capture::Capture;
use howdah_core::Time;
use howdah_report::result::CellResult;
use sample::Log;
#[cfg(target_os = "linux")]
pub(crate) use shorts::draw;
use std::sync::atomic::{AtomicBool, Ordering};

/// The run was told to stop before its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;

/// Runs one cell. `stop` ends it early, without a result.
///
/// # Panics
/// If one of the simulator's checks fails: a bug in a transport, a path or the engine.
pub fn run(cell: &Cell, stop: &AtomicBool) -> Result<CellResult, Stopped> {
    run_seen_by(cell, stop, None)
}

/// The same, and `capture` sees every packet.
pub(crate) fn run_seen_by(
    cell: &Cell,
    stop: &AtomicBool,
    capture: Option<&Capture>,
) -> Result<CellResult, Stopped> {
    let mut built = Built::new(cell);
    if let Some(capture) = capture.cloned() {
        built.world.capture(move |packet| capture.see(packet));
    }
    let mut log = Log::new(cell, &mut built);
    let starts = start::watch(cell, &mut built);
    let probes = probes::watch(cell, &mut built);
    let mut changes = cell.timeline.iter().peekable();
    let mut shortened = false;
    let mut now = Time::ZERO;
    while now < cell.measure.end() {
        if stop.load(Ordering::Relaxed) {
            return Err(Stopped);
        }
        let next = log.next_step(cell);
        while let Some(change) = changes.next_if(|change| change.at_ns <= next.as_nanos()) {
            built.world.run_until(Time::from_nanos(change.at_ns));
            log.before_change(cell, &built, change);
            built.change(cell, change);
        }
        built.world.run_until(next);
        now = next;
        let end_of_interval = log.step(cell, &mut built);
        if end_of_interval && log.is_settled(cell) {
            shortened = now < cell.measure.end();
            break;
        }
        if cell.measure.until_complete && built.is_complete() {
            break;
        }
    }
    let mut result = finish::result(cell, &built, log, now, shortened);
    start::add(cell, &built, &starts, now, &mut result.metrics);
    probes::add(cell, &probes, &mut result.metrics);
    Ok(result)
}

/// What a failed check of the simulator said.
pub(crate) fn what_failed(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the simulator failed")
}
