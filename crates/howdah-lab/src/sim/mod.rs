//! Runs a cell in virtual time.
//!
//! [`run`] builds a [`World`](howdah_sim::World) from a cell, drives it in steps of at most 10 ms,
//! looks at it after each (looking changes nothing), and makes a [`CellResult`] of what it saw.
//! Equal cells give equal results, whatever runs beside them.

mod build;
mod capture;
mod finish;
mod forward;
mod node;
mod plan;
mod probes;
mod refusal;
mod sample;
mod shorts;
mod start;
mod totals;
mod udt;

use crate::scenario::Cell;
use build::Built;
#[cfg(target_os = "linux")]
pub(crate) use build::path_seeds;
pub(crate) use capture::Capture;
use forward::Watch;
use howdah_core::{Span, Time};
use howdah_report::result::CellResult;
use plan::Plan;
pub use refusal::Refusal;
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
    let mut course = Course::new(cell, capture);
    if !cell.measure.fast_forward {
        course.drive(cell, stop, None, None)?;
        return Ok(course.result(cell, None));
    }
    let watch = match capture {
        Some(_) => Err(Refusal::Captured),
        None => Watch::new(cell, &mut course.built),
    };
    let found = match watch {
        Ok(watch) => forward(cell, stop, &mut course, watch)?,
        Err(refusal) => Err(refusal),
    };
    if found.is_err() {
        course.drive(cell, stop, None, None)?;
    }
    let watched = found.as_ref().ok();
    let mut result = course.result(cell, watched.map(|(watch, plan)| (watch, *plan)));
    result.not_forwarded = found.err().map(|refusal| refusal.to_string());
    Ok(result)
}

/// Drives a cell to the end of what has to be simulated, and says what is to be repeated; or stops where it is known why nothing can be.
fn forward(
    cell: &Cell,
    stop: &AtomicBool,
    course: &mut Course,
    mut watch: Watch,
) -> Result<Result<(Watch, Plan), Refusal>, Stopped> {
    let Some(plan) = course.drive(cell, stop, Some(&mut watch), None)? else {
        return Ok(Err(Refusal::Unsteady(watch.unsteady)));
    };
    if cell.flows[0].size_bytes.is_none() {
        course.drive(cell, stop, Some(&mut watch), Some(plan))?;
        return Ok(Ok((watch, plan)));
    }
    let smaller = watch.smaller(cell, &plan);
    let mut again = Course::new(&smaller, None);
    let seen = Watch::new(&smaller, &mut again.built);
    let Ok(mut seen) = seen else {
        return Ok(seen.map(|seen| (seen, plan)));
    };
    again.drive(&smaller, stop, Some(&mut seen), Some(plan))?;
    if !watch.agrees(&seen, &plan) {
        return Ok(Err(Refusal::Size));
    }
    *course = again;
    Ok(Ok((seen, plan)))
}

/// A cell on its way.
struct Course {
    built: Built,
    log: Log,
    starts: Vec<start::Start>,
    probes: probes::Probes,
    /// Changes of the network that have been made.
    changed: usize,
    /// Nothing more is to be simulated.
    ended: bool,
    /// Since the mean is settled.
    shortened: bool,
}

impl Course {
    fn new(cell: &Cell, capture: Option<&Capture>) -> Self {
        let mut built = Built::new(cell);
        if let Some(capture) = capture.cloned() {
            built.world.capture(move |packet| capture.see(packet));
        }
        Self {
            log: Log::new(cell, &mut built),
            starts: start::watch(cell, &mut built),
            probes: probes::watch(cell, &mut built),
            built,
            changed: 0,
            ended: false,
            shortened: false,
        }
    }

    /// Goes on to the end, which comes sooner by what a plan skips. With a watch and no plan it stops where there can be one.
    fn drive(
        &mut self,
        cell: &Cell,
        stop: &AtomicBool,
        mut watch: Option<&mut Watch>,
        plan: Option<Plan>,
    ) -> Result<Option<Plan>, Stopped> {
        let (built, log) = (&mut self.built, &mut self.log);
        let skipped = plan.map_or(0, |plan| plan.skipped as u64) * cell.measure.interval_ns;
        while !self.ended && built.world.now() + Span::from_nanos(skipped) < cell.measure.end() {
            if stop.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            let next = log.next_step(cell);
            let changes = cell.timeline[self.changed..].iter();
            for change in changes.take_while(|change| change.at_ns <= next.as_nanos()) {
                built.world.run_until(Time::from_nanos(change.at_ns));
                log.before_change(cell, built, change);
                built.change(cell, change);
                self.changed += 1;
            }
            built.world.run_until(next);
            let end_of_interval = log.step(cell, built);
            if let Some(watch) = &mut watch {
                watch.look(cell, built, log, end_of_interval);
                let found = (plan.is_none() && end_of_interval).then(|| watch.plan(cell));
                if let Some(plan) = found.flatten() {
                    return Ok(Some(plan));
                }
            }
            let settled = end_of_interval && plan.is_none() && log.is_settled(cell);
            self.shortened = settled && built.world.now() < cell.measure.end();
            let complete = cell.measure.until_complete && built.is_complete();
            self.ended = self.shortened || complete;
        }
        Ok(None)
    }

    fn result(self, cell: &Cell, watched: Option<(&Watch, Plan)>) -> CellResult {
        let Self {
            built,
            log,
            starts,
            probes,
            shortened,
            ..
        } = self;
        let mut result = finish::result(cell, &built, log, watched, shortened);
        start::add(
            cell,
            &built,
            &starts,
            built.world.now(),
            &mut result.metrics,
        );
        probes::add(cell, &probes, &mut result.metrics);
        result
    }
}

/// What a failed check of the simulator said.
pub(crate) fn what_failed(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the simulator failed")
}
