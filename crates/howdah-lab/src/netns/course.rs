//! What the emulator carried, over time.

use crate::figures::route_rtt_s;
use crate::scenario::Cell;
use howdah_wan::{Network, Traffic};
use std::time::Instant;

/// Length of a step in seconds, where no start is looked at.
pub(super) const STEP_S: f64 = 0.05;
/// Looks in a round trip where one is, and the least time between two: what a sleeping thread keeps to.
const LOOKS: f64 = 32.0;
const SHORTEST_S: f64 = 0.002;

/// How far apart looks are in a cell.
pub(super) fn step_s(cell: &Cell) -> f64 {
    let rtts = (cell.flows.iter())
        .map(|flow| route_rtt_s(cell, flow))
        .filter(|rtt_s| cell.measure.start && *rtt_s > 0.0);
    rtts.map(|rtt_s| (rtt_s / LOOKS).max(SHORTEST_S))
        .fold(STEP_S, f64::min)
}

/// Both hosts of a route: what they sent, and what arrived of it.
pub(super) type Route = [(Traffic, Traffic); 2];

/// Every route at a moment.
#[derive(Clone, Debug)]
struct Look {
    t_s: f64,
    routes: Vec<Route>,
}

/// Looks at the network at equal steps, as well as the machine lets us; the series are put on the exact
/// grid afterwards.
#[derive(Debug)]
pub(super) struct Course {
    begin: Instant,
    step_s: f64,
    next_s: f64,
    looks: Vec<Look>,
}

impl Course {
    /// From now on.
    pub(super) fn begin(network: &Network, step_s: f64) -> Self {
        let mut course = Self {
            begin: Instant::now(),
            step_s,
            next_s: 0.0,
            looks: Vec::new(),
        };
        course.look(network);
        course
    }

    /// Seconds since the beginning.
    pub(super) fn now_s(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// To be called often.
    pub(super) fn look(&mut self, network: &Network) {
        let t_s = self.now_s();
        if t_s < self.next_s {
            return;
        }
        if let Some(routes) = network.traffic() {
            self.looks.push(Look { t_s, routes });
        }
        self.next_s = (t_s / self.step_s).floor() * self.step_s + self.step_s;
    }

    /// A last look, whatever the time.
    pub(super) fn end(&mut self, network: &Network) {
        self.next_s = 0.0;
        self.look(network);
    }

    /// A count at the end of each step of [`STEP_S`] up to `end_s`, linear between the looks.
    pub(super) fn series(&self, end_s: f64, count: impl Fn(&[Route]) -> u64) -> Vec<u64> {
        self.series_of(STEP_S, end_s, count)
    }

    /// The same at the steps in which it looked.
    pub(super) fn fine_series(&self, end_s: f64, count: impl Fn(&[Route]) -> u64) -> Vec<u64> {
        self.series_of(self.step_s, end_s, count)
    }

    fn series_of(&self, step_s: f64, end_s: f64, count: impl Fn(&[Route]) -> u64) -> Vec<u64> {
        let steps = (end_s / step_s).round() as usize;
        let mut series = Vec::with_capacity(steps);
        let mut at = 0;
        let mut least = 0;
        for step in 1..=steps {
            let t_s = step as f64 * step_s;
            while self.looks.get(at + 1).is_some_and(|look| look.t_s <= t_s) {
                at += 1;
            }
            let value = match (self.looks.get(at), self.looks.get(at + 1)) {
                (Some(a), Some(b)) => {
                    let share = ((t_s - a.t_s) / (b.t_s - a.t_s).max(1e-9)).clamp(0.0, 1.0);
                    let (from, to) = (count(&a.routes) as f64, count(&b.routes) as f64);
                    (from + (to - from) * share) as u64
                }
                (Some(a), None) => count(&a.routes),
                _ => 0,
            };
            least = value.max(least);
            series.push(least);
        }
        series
    }

    /// The last look before a flow's first packet was seen to leave its host.
    pub(super) fn first_sent_s(&self, route: usize) -> Option<f64> {
        let sent = |look: &Look| {
            let routes = look.routes.get(route);
            routes.is_some_and(|[(sent, _), _]| sent.packets > 0)
        };
        let first = self.looks.iter().position(sent)?;
        self.looks.get(first.saturating_sub(1)).map(|look| look.t_s)
    }

    pub(super) fn step_s(&self) -> f64 {
        self.step_s
    }

    /// A route as it was at a moment, or a little later.
    pub(super) fn at(&self, t_s: f64, route: usize) -> Route {
        let look = self.looks.iter().find(|look| look.t_s >= t_s);
        let look = look.or_else(|| self.looks.last());
        look.and_then(|look| look.routes.get(route).copied())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(t_s: f64, bytes: u64) -> Look {
        let traffic = Traffic {
            payload_bytes: bytes,
            ..Traffic::default()
        };
        Look {
            t_s,
            routes: vec![[(traffic, traffic), Default::default()]],
        }
    }

    #[test]
    fn late_looks_are_put_on_the_grid() {
        let course = Course {
            begin: Instant::now(),
            step_s: 0.01,
            next_s: 0.0,
            looks: vec![
                look(0.0, 0),
                look(0.06, 600),
                look(0.11, 1100),
                look(0.3, 1100),
            ],
        };
        let series = course.series(0.25, |routes| routes[0][0].1.payload_bytes);
        assert_eq!(series, [500, 1000, 1100, 1100, 1100]);
        let fine = course.fine_series(0.07, |routes| routes[0][0].1.payload_bytes);
        assert_eq!(fine, [100, 200, 300, 400, 500, 600, 700]);
        assert_eq!(course.at(0.07, 0)[0].0.payload_bytes, 1100);
    }

    #[test]
    fn a_start_begins_before_the_first_packet_is_seen() {
        let mut course = Course {
            begin: Instant::now(),
            step_s: 0.01,
            next_s: 0.0,
            looks: vec![look(0.0, 0), look(0.02, 0), look(0.03, 0)],
        };
        assert_eq!(course.first_sent_s(0), None);
        course.looks[2].routes[0][0].0.packets = 20;
        assert_eq!(course.first_sent_s(0), Some(0.02));
    }
}
