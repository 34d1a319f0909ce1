//! Fast-forward: a steady stretch of a single flow is repeated instead of being simulated.
//!
//! Whoever looks at a flow that does the same again and again has seen enough at some time. [`Watch`] asks at the end of each interval
//! whether both halves of what has lately been seen, whole cycles of the protocol each, are alike (see [`agreement`]) in all that a
//! result tells: rate, packets, feedback, drops, queue, processor time. If they are, they are repeated, counters and all, for the time
//! that is left: a bulk flow's cell then ends. The end of a sized flow has a shape of its own, so its cell is run anew with an object
//! that is smaller by what the repeated stretch carries, and the stretch is put into the middle.
//!
//! Nothing of this is done where flows interact or the network changes: [`Refusal`].

use super::build::{Built, current};
use super::plan::Plan;
use super::refusal::{Refusal, cycle};
use super::sample::Log;
use super::totals::{FlowTotals, LinkTotals, Totals};
use crate::figures::{route_rtt_s, seconds};
use crate::scenario::Cell;
use howdah_report::metrics::agreement;
use howdah_report::stats;

/// What the repeated stretch may be wrong by in rate, packets, drops and queue, as a share, ...
const BOUND: f64 = 0.005;
/// ... and in feedback and processor time.
const COST_BOUND: f64 = 0.01;
/// A queue need not be known better than this, in milliseconds.
const QUEUE_MS: f64 = 0.005;
/// Drops need not be known better than this share of all packets.
const DROPS: f64 = 1e-5;
/// Parts of a cycle that are compared one by one.
const PARTS: usize = 10;
/// A cycle has at least so many round trips, ...
const RTTS: f64 = 20.0;
/// ... and so many seconds.
const LEAST_S: f64 = 2.0;

/// Looks at the only flow of a cell.
pub(crate) struct Watch {
    /// The least that a cycle takes, in intervals.
    cycle: usize,
    /// Before the first step, and after each.
    looks: Vec<Look>,
    /// Before the first interval, and after each.
    totals: Vec<Totals>,
    /// What was not steady when it was last looked at.
    pub(crate) unsteady: &'static str,
}

/// Name, sum, share that it may be wrong by, and error of its increase in a step that does not matter.
type Figure = (&'static str, fn(&Look) -> f64, f64, f64);

const FEEDBACK: &str = "feedback";

/// Takes out of a figure's parts what follows the losses in them, and says by what share the figure grows with theirs: losses have a mean that is
/// known, so chance in them need not be chance in the figure (control variates: A. M. Law, "Simulation Modeling and Analysis", chapter 11).
fn without(parts: &mut [f64], losses: &[f64]) -> f64 {
    let (mean, lost) = (
        stats::mean(parts).unwrap_or(0.0),
        stats::mean(losses).unwrap_or(0.0),
    );
    let squares: f64 = losses.iter().map(|loss| (loss - lost).powi(2)).sum();
    if squares <= 0.0 || mean <= 0.0 {
        return 0.0;
    }
    let both = losses
        .iter()
        .zip(&*parts)
        .map(|(loss, part)| (loss - lost) * (part - mean));
    let slope = both.sum::<f64>() / squares;
    for (part, loss) in parts.iter_mut().zip(losses) {
        *part -= slope * (loss - lost);
    }
    slope * lost / mean
}

/// Sums since the beginning.
#[derive(Clone, Copy, Default)]
struct Look {
    delivered: f64,
    packets: f64,
    feedback: f64,
    busy: [f64; 2],
    drops: f64,
    /// Drops, and what was lost at random.
    losses: f64,
    /// Of all packets.
    waited_ms: f64,
}

impl Watch {
    pub(crate) fn new(cell: &Cell, built: &mut Built) -> Result<Self, Refusal> {
        let least_s = cycle(cell)?
            .as_secs_f64()
            .max(LEAST_S)
            .max(RTTS * route_rtt_s(cell, &cell.flows[0]));
        for link in built.links.clone() {
            built.world.count_waits(link.forward);
            built.world.count_waits(link.backward);
        }
        Ok(Self {
            cycle: (least_s / seconds(cell.measure.interval_ns))
                .ceil()
                .max(1.0) as usize,
            looks: vec![Look::default()],
            totals: vec![Totals::now(cell, built)],
            unsteady: "there was no time for two",
        })
    }

    /// Looks after a step of the log, which may be the end of an interval.
    pub(crate) fn look(&mut self, cell: &Cell, built: &Built, log: &Log, end_of_interval: bool) {
        let (flow, ends) = (&cell.flows[0], built.flows[0].ends);
        let [there, back] = [ends.a, ends.b].map(|end| built.world.counters(end));
        let busy = [ends.a, ends.b].map(|end| built.world.endpoint_busy(end).as_secs_f64());
        let mut look = Look {
            delivered: built.world.endpoint(ends.b).delivered_bytes() as f64,
            packets: there.sent_datagrams as f64,
            feedback: back.sent_bytes as f64
                + f64::from(built.flows[0].header_bytes) * back.sent_datagrams as f64,
            busy,
            ..Look::default()
        };
        for &path_at in &flow.via {
            let link = built.links[path_at];
            let id = if flow.reverse {
                link.backward
            } else {
                link.forward
            };
            let path = built.world.path(id);
            let counters = path.counters();
            look.drops += (counters.dropped_queue + counters.dropped_aqm) as f64;
            look.losses +=
                (counters.dropped_queue + counters.dropped_aqm + counters.dropped_loss) as f64;
            let earlier = log.links[2 * path_at + usize::from(flow.reverse)]
                .waited
                .as_ref();
            let waits = path.waits().into_iter().chain(earlier);
            look.waited_ms += waits.map(|waits| waits.sum_s() * 1e3).sum::<f64>();
        }
        self.looks.push(look);
        if end_of_interval {
            self.totals.push(Totals::with_all_waits(cell, built, log));
        }
    }

    /// What may be repeated now, at the end of an interval: the last two thirds of what was seen, in whole pairs of cycles. Not the best stretch
    /// of it: among many there is always one in which nothing rare happened.
    pub(crate) fn plan(&mut self, cell: &Cell) -> Option<Plan> {
        let to = self.totals.len() - 1;
        let started = cell.flows[0].start_ns.div_ceil(cell.measure.interval_ns) as usize;
        let pair = 2 * self.cycle;
        let width = to.saturating_sub(started) * 2 / 3 / pair * pair;
        let plan = self.room(cell, to - width, to).filter(|_| width > 0)?;
        match self.error(plan.from, plan.skipped) {
            Ok((error, follows)) => Some(Plan {
                error,
                follows,
                ..plan
            }),
            Err(figure) => {
                self.unsteady = figure;
                None
            }
        }
    }

    /// How much of the cell's time is left for it, and of the flow's bytes but for its end.
    fn room(&self, cell: &Cell, from: usize, to: usize) -> Option<Plan> {
        let width = to - from;
        let intervals = (cell.measure.duration_ns / cell.measure.interval_ns) as usize;
        let mut skipped = intervals.checked_sub(to)?;
        if let Some(size) = cell.flows[0].size_bytes {
            let bytes = |at: usize| self.totals[at].flows[0].delivered_bytes;
            let news = bytes(to) - bytes(from);
            // The end is simulated, and as much before it as is half a cycle.
            let left = size
                .checked_sub(bytes(to) + news / 4)
                .filter(|_| news > 0)?;
            let more = (0..width)
                .rev()
                .find(|&more| bytes(from + more) - bytes(from) <= left % news)?;
            skipped = skipped.min((left / news) as usize * width + more);
            // What has been simulated is simulated once more.
            skipped = Some(skipped).filter(|&skipped| skipped > to)?;
        }
        (skipped > 0).then_some(Plan {
            from,
            to,
            skipped,
            error: 0.0,
            follows: 0.0,
        })
    }

    /// The largest error of all figures, and how feedback follows losses; or the first of those that are not steady enough.
    fn error(&self, from: usize, skipped: usize) -> Result<(f64, f64), &'static str> {
        let width = self.totals.len() - 1 - from;
        let cycles = 2.0 * skipped as f64 / width as f64;
        let steps = (self.looks.len() - 1) / (self.totals.len() - 1);
        let edge = |part: usize| from * steps + width * steps * part / (2 * PARTS);
        // Each part's mean over its steps.
        let parts = |figure: fn(&Look) -> f64| -> Vec<f64> {
            let part = |at: usize| {
                let (start, end) = (edge(at), edge(at + 1));
                (figure(&self.looks[end]) - figure(&self.looks[start])) / (end - start) as f64
            };
            (0..2 * PARTS).map(part).collect()
        };
        let packets = stats::mean(&parts(|look| look.packets)).unwrap_or(0.0);
        let figures: [Figure; 7] = [
            ("rate", |look| look.delivered, BOUND, 0.0),
            ("packets", |look| look.packets, BOUND, 0.0),
            ("drops", |look| look.drops, BOUND, DROPS * packets),
            ("queue", |look| look.waited_ms, BOUND, QUEUE_MS * packets),
            (
                "the sender's processor time",
                |look| look.busy[0],
                COST_BOUND,
                0.0,
            ),
            (
                "the receiver's processor time",
                |look| look.busy[1],
                COST_BOUND,
                0.0,
            ),
            (FEEDBACK, |look| look.feedback, COST_BOUND, 0.0),
        ];
        let losses = parts(|look| look.losses);
        let (mut largest, mut follows): (f64, f64) = (0.0, 0.0);
        for (name, figure, bound, floor) in figures {
            let mut parts = parts(figure);
            if name == FEEDBACK {
                follows = without(&mut parts, &losses);
            }
            let found = agreement(&parts[..PARTS], &parts[PARTS..]).ok_or(name)?;
            let error = found.error(cycles);
            if error > floor {
                let share = error / found.mean.abs();
                if share.is_nan() || share > bound {
                    return Err(name);
                }
                largest = largest.max(share);
            }
        }
        Ok((largest, follows))
    }

    /// All counts at the end of an interval of a cell to which the plan's stretch has been added.
    fn at(&self, plan: &Plan, interval: usize) -> Totals {
        if interval <= plan.to {
            return self.totals[interval].clone();
        }
        let (shown, more) = if interval - plan.to <= plan.skipped {
            (plan.to, interval - plan.to)
        } else {
            (interval - plan.skipped, plan.skipped)
        };
        let mut totals = self.totals[shown].clone();
        self.add(plan, &mut totals, more);
        totals
    }

    /// Adds so many intervals of the plan's stretch.
    fn add(&self, plan: &Plan, totals: &mut Totals, intervals: usize) {
        let width = plan.to - plan.from;
        let [from, rest, to] =
            [plan.from, plan.from + intervals % width, plan.to].map(|at| &self.totals[at]);
        totals.repeat(from, to, (intervals / width) as u64);
        totals.repeat(from, rest, 1);
    }

    /// Puts the plan's stretch into what was noted of a cell that has ended, and returns all that it counts.
    pub(crate) fn forward(&self, cell: &Cell, built: &Built, plan: &Plan, log: &mut Log) -> Totals {
        let before = Totals::with_all_waits(cell, built, log);
        let mut totals = before.clone();
        self.add(plan, &mut totals, plan.skipped);
        Self::throw(cell, built, plan, &before, &mut totals);
        log.repeat(cell, plan);
        let warm = cell.measure.warmup_ns.div_ceil(cell.measure.interval_ns);
        let measured = self.at(plan, warm as usize);
        let from_ns = warm * cell.measure.interval_ns;
        let to_ns = built.world.now().as_nanos() + plan.skipped as u64 * cell.measure.interval_ns;
        for (at, (link, before)) in totals.links.iter_mut().zip(&measured.links).enumerate() {
            let bits = (link.passed_bytes - before.passed_bytes) as f64 * 8.0;
            let spec = current(cell, at, built.world.now());
            log.links[at].carried_bits = bits;
            log.links[at].capacity_bits = spec.capacity_bits(from_ns, to_ns);
            link.waits = link
                .waits
                .as_ref()
                .zip(before.waits.as_ref())
                .map(|(all, before)| all.since(before));
        }
        totals
    }

    /// The packets of the repeated stretch meet the dice that they would have met, and are repeated as often as those say:
    /// the losses of a short look are too few to be multiplied.
    fn throw(cell: &Cell, built: &Built, plan: &Plan, before: &Totals, totals: &mut Totals) {
        let flow = &cell.flows[0];
        let (mut lost, mut drawn) = (0, 0);
        for (at, (link, before)) in totals.links.iter_mut().zip(&before.links).enumerate() {
            let ends = &built.links[at / 2];
            let forward = at % 2 == 0;
            let id = if forward { ends.forward } else { ends.backward };
            let dropped = |link: &LinkTotals| link.queue_drops + link.aqm_drops;
            let drops = dropped(link) - dropped(before);
            let losses = built
                .world
                .path(id)
                .losses_ahead(link.offered - before.offered - drops);
            if forward != flow.reverse && flow.via.contains(&(at / 2)) {
                lost += link.random_losses - before.random_losses + drops;
                drawn += losses + drops;
            }
            link.random_losses = before.random_losses + losses;
        }
        if lost > 0 {
            let more = drawn as f64 / lost as f64 - 1.0;
            let (flow, before) = (&mut totals.flows[0], &before.flows[0]);
            let follow = |all: &mut u64, before: u64, share: f64| {
                *all = before
                    + ((*all - before) as f64 * (1.0 + share * more))
                        .max(0.0)
                        .round() as u64;
            };
            follow(
                &mut flow.retransmitted_bytes,
                before.retransmitted_bytes,
                1.0,
            );
            follow(
                &mut flow.back.datagrams,
                before.back.datagrams,
                plan.follows,
            );
            follow(&mut flow.back.bytes, before.back.bytes, plan.follows);
        }
    }

    /// Whether a cell whose flow was made smaller for the plan does the same in its stretch.
    pub(crate) fn agrees(&self, other: &Self, plan: &Plan) -> bool {
        let bytes =
            |watch: &Self, at: usize| watch.totals.get(at).map(|all| all.flows[0].delivered_bytes);
        let news = |watch: &Self| Some((bytes(watch, plan.to)? - bytes(watch, plan.from)?) as f64);
        news(self)
            .zip(news(other))
            .is_some_and(|(one, two)| (two / one - 1.0).abs() <= BOUND)
    }

    /// The cell with a flow that is smaller by what the stretch carries.
    pub(crate) fn smaller(&self, cell: &Cell, plan: &Plan) -> Cell {
        let mut totals = Totals {
            flows: vec![FlowTotals::default()],
            links: Vec::new(),
        };
        self.add(plan, &mut totals, plan.skipped);
        let mut smaller = cell.clone();
        let size = &mut smaller.flows[0].size_bytes;
        *size = size.map(|bytes| bytes.saturating_sub(totals.flows[0].delivered_bytes));
        smaller
    }
}
