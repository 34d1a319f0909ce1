//! Repeats of a cell: the same with another seed.

use super::expand::MAX_CELLS;
use super::{Cell, FlowSpec, Plan};

/// More seeds than an experiment can have cells.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{seeds} seeds of each cell; an experiment has at most {MAX_CELLS} cells")]
pub struct TooManySeeds {
    seeds: u64,
}

/// Where a scenario does not say by how much starts differ, repeats move them by a round trip of the flow's route, but
/// within these bounds: what a program takes to start, and what two people who start two programs are apart.
const WITHIN_NS: [u64; 2] = [1_000_000, 100_000_000];

impl Cell {
    /// The repeat of that number, from 0 on, of a cell that is none: another seed, and starts that it has moved.
    ///
    /// Repeat 0 starts as the scenario says, but where that asks for drawn starts. In the others nobody starts two programs to
    /// the nanosecond: where nothing else is left to chance, all of them would be the same run.
    #[must_use]
    pub(super) fn repeat(&self, number: u64) -> Self {
        let mut cell = Self {
            seed: self.seed.wrapping_add(number),
            ..self.clone()
        };
        let duration_ns = cell.measure.duration_ns;
        let usual: Vec<u64> = (cell.flows.iter())
            .map(|flow| usual_within_ns(&cell, flow))
            .collect();
        for (index, flow) in cell.flows.iter_mut().enumerate() {
            let unsaid = if number == 0 { 0 } else { usual[index] };
            let within_ns = flow.start_within_ns.unwrap_or(unsaid);
            if within_ns > 0 && flow.start_ns + within_ns < duration_ns {
                flow.drawn_ns = draw(cell.seed, index) % within_ns;
                flow.start_ns += flow.drawn_ns;
            }
        }
        cell
    }

    /// The cell that this is a repeat of, with a seed of 0: equal for all seeds of one configuration.
    fn without_seed(&self) -> Self {
        let mut cell = Self {
            seed: 0,
            ..self.clone()
        };
        for flow in &mut cell.flows {
            flow.start_ns -= std::mem::take(&mut flow.drawn_ns);
        }
        cell
    }

    /// Names the configuration as [`id`](Self::id) names the cell: equal for all of its seeds.
    pub fn design(&self) -> String {
        self.without_seed().id()
    }
}

impl Plan {
    /// At least so many seeds of each cell, those of the scenario first.
    ///
    /// # Errors
    ///
    /// More cells than a plan may have; the plan is left as it is in part.
    pub fn repeat(&mut self, seeds: u64) -> Result<(), TooManySeeds> {
        for experiment in &mut self.experiments {
            let mut cells: Vec<Cell> = Vec::new();
            let designs = experiment.cells.chunk_by(|a, b| a.at == b.at).count();
            if seeds.saturating_mul(designs as u64) > MAX_CELLS as u64 {
                return Err(TooManySeeds { seeds });
            }
            for same in experiment.cells.chunk_by(|a, b| a.at == b.at) {
                cells.extend_from_slice(same);
                let Some(first) = same.first() else { continue };
                let base = Cell {
                    seed: first.seed,
                    ..first.without_seed()
                };
                cells.extend((same.len() as u64..seeds).map(|number| base.repeat(number)));
            }
            experiment.cells = cells;
        }
        Ok(())
    }
}

/// By how much a repeat moves the start of a flow whose scenario does not say it.
fn usual_within_ns(cell: &Cell, flow: &FlowSpec) -> u64 {
    let round_trip = |path: &usize| {
        let path = &cell.paths[*path];
        path.forward.delay_ns + path.backward.delay_ns
    };
    let rtt_ns: u64 = flow.via.iter().map(round_trip).sum();
    rtt_ns.clamp(WITHIN_NS[0], WITHIN_NS[1])
}

/// Numbers of their own: what else is drawn from the seed stays as it is.
fn draw(seed: u64, flow: usize) -> u64 {
    let mut hash = blake3::Hasher::new();
    hash.update(b"start").update(&seed.to_le_bytes());
    hash.update(&(flow as u64).to_le_bytes());
    let mut drawn = [0; 8];
    hash.finalize_xof().fill(&mut drawn);
    u64::from_le_bytes(drawn)
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse;
    use std::path::Path;

    const TEXT: &str = "id = 'x'\nrepeats = 2\n[path.main]\nrate = '10mbit'\nrtt = '20ms'\n\
                        [flow.a]\nprotocol = ['reno', 'cubic']\n[flow.b]\nprotocol = 'bbr1'\nstart_within = '0s'\n\
                        [measure]\nduration = '5s'\n";

    fn starts(plan: &super::Plan) -> Vec<(u64, u64, u64)> {
        (plan.cells())
            .map(|cell| (cell.seed, cell.flows[0].start_ns, cell.flows[1].start_ns))
            .collect()
    }

    #[test]
    fn repeats_beyond_the_first_start_a_little_later_unless_told_not_to() {
        let plan = parse(Path::new("x.toml"), TEXT, false).unwrap();
        let two = starts(&plan);
        assert_eq!(two[0], (1, 0, 0));
        let (seed, moved, told) = two[1];
        assert_eq!((seed, told), (2, 0));
        assert!((1..20_000_000).contains(&moved), "{moved}");
    }

    #[test]
    fn more_seeds_go_on_behind_those_of_the_scenario() {
        let plan = parse(Path::new("x.toml"), TEXT, false).unwrap();
        let mut more = plan.clone();
        more.repeat(4).unwrap();
        let cells: Vec<_> = more.cells().collect();
        assert_eq!(cells.len(), 8);
        let seeds: Vec<u64> = cells.iter().map(|cell| cell.seed).collect();
        assert_eq!(seeds, [1, 2, 3, 4, 1, 2, 3, 4]);
        for (old, new) in plan.cells().zip([0, 1, 4, 5]) {
            assert_eq!(old.id(), cells[new].id());
        }
        let mut fewer = plan.clone();
        fewer.repeat(1).unwrap();
        assert_eq!(fewer, plan);
        // Two cells more than there may be, and more than memory has.
        for seeds in [50_001, 1 << 60] {
            let error = plan.clone().repeat(seeds).unwrap_err().to_string();
            assert!(error.contains("at most 100000 cells"), "{error}");
        }
        // All seeds of one configuration are one design, and no other's.
        for four in cells.chunks(4) {
            assert!(four.iter().all(|cell| cell.design() == four[0].design()));
            assert_ne!(four[0].id(), four[1].id());
        }
        assert_ne!(cells[0].design(), cells[4].design());
    }
}
