//! An evolutionary search for what is worst, and the way back to what is simplest.
//!
//! A population is scored, the best survive, and their children differ from them a little (mutation) or mix two of them
//! (uniform crossover); parents are the better ones of random pairs. It is the simplest of the family (H.-G. Beyer,
//! H.-P. Schwefel, "Evolution strategies", Natural Computing 1, 2002: mu + lambda).

use super::conditions::{Bounds, Conditions};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// How many survive a generation, and how many children they have.
const POPULATION: usize = 24;
/// A simpler network that keeps this share of the score is preferred.
const KEEPS: f64 = 0.95;

/// Scores networks, each once: higher is worse for whom is attacked. `None` ends the search.
pub(super) type Score<'a> = dyn FnMut(&[Conditions]) -> Option<Vec<f64>> + 'a;

/// What a search remembers.
pub(super) struct Search<'a> {
    bounds: Bounds,
    score: &'a mut Score<'a>,
    known: BTreeMap<Conditions, f64>,
    /// The worst of them, and of equals the simpler ones, first.
    elite: Vec<Conditions>,
}

impl<'a> Search<'a> {
    pub(super) fn new(bounds: Bounds, score: &'a mut Score<'a>) -> Self {
        Self {
            bounds,
            score,
            known: BTreeMap::new(),
            elite: Vec::new(),
        }
    }

    /// How many networks have been scored.
    pub(super) fn scored(&self) -> usize {
        self.known.len()
    }

    pub(super) fn score_of(&self, conditions: Conditions) -> f64 {
        self.known.get(&conditions).copied().unwrap_or(0.0)
    }

    /// Scores those that are not known yet. `false` if that has been ended.
    fn look_at(&mut self, wanted: &[Conditions]) -> bool {
        let mut new: Vec<Conditions> = wanted.to_vec();
        new.sort_unstable();
        new.dedup();
        new.retain(|conditions| !self.known.contains_key(conditions));
        if new.is_empty() {
            return true;
        }
        let Some(scores) = (self.score)(&new) else {
            return false;
        };
        self.elite.extend(&new);
        self.known.extend(new.into_iter().zip(scores));
        let mut elite = std::mem::take(&mut self.elite);
        elite.sort_by(|&a, &b| {
            let worse = self.score_of(b).total_cmp(&self.score_of(a));
            let simpler = a.distance(self.bounds).cmp(&b.distance(self.bounds));
            worse.then(simpler).then(a.cmp(&b))
        });
        elite.truncate(POPULATION);
        self.elite = elite;
        true
    }

    /// The worst of all that were looked at, a population at most.
    pub(super) fn worst(&self) -> &[Conditions] {
        &self.elite
    }

    /// Looks at `runs` networks.
    pub(super) fn run(&mut self, runs: usize, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let bounds = self.bounds;
        let mut next = vec![Conditions::plain(bounds)];
        while next.len() < POPULATION.min(runs) {
            next.push(Conditions::random(bounds, &mut rng));
        }
        // The space is finite: where everything near has been seen, children are known already.
        let mut idle = 0;
        while self.look_at(&next) && self.scored() < runs && idle < 100 {
            let mut parent = || {
                let pick = [0, 1].map(|_| rng.random_range(0..self.elite.len()));
                self.elite[pick[0].min(pick[1])]
            };
            let pairs: Vec<_> = (0..POPULATION).map(|_| (parent(), parent())).collect();
            next = pairs
                .into_iter()
                .map(|(mother, father)| {
                    let child = if rng.random_bool(0.3) {
                        mother.crossed(father, &mut rng)
                    } else {
                        mother
                    };
                    child.mutated(bounds, &mut rng)
                })
                .filter(|child| !self.known.contains_key(child))
                .collect();
            next.sort_unstable();
            next.dedup();
            next.truncate(runs - self.scored());
            idle = if next.is_empty() { idle + 1 } else { 0 };
        }
    }

    /// The worst of these networks, and the simplest on the way back from there that is nearly as bad.
    pub(super) fn simplest(&mut self, of: &[Conditions]) -> Option<(Conditions, Conditions)> {
        if !self.look_at(of) {
            return None;
        }
        let worst = *self.elite.first()?;
        Some((worst, self.simplified(worst)))
    }

    fn simplified(&mut self, from: Conditions) -> Conditions {
        let least = self.score_of(from) * KEEPS;
        let mut now = from;
        loop {
            let simpler = now.simpler(self.bounds);
            if simpler.is_empty() || !self.look_at(&simpler) {
                return now;
            }
            match simpler.into_iter().find(|c| self.score_of(*c) >= least) {
                Some(next) => now = next,
                None => return now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up weakness: the worst place is a few levels away from the plainest, and one gene does not matter.
    fn weakness(bounds: Bounds) -> impl Fn(Conditions) -> f64 {
        move |conditions: Conditions| {
            let told = conditions.described(bounds);
            let has =
                |(name, level): (&str, &str)| told.iter().any(|t| t.0 == name && t.1 == level);
            let rtt = if has(("rtt", "300ms")) { 0.5 } else { 0.0 };
            let loss = if has(("loss", "1%")) { 0.3 } else { 0.0 };
            let aqm = if has(("aqm", "codel")) { 0.2 } else { 0.0 };
            rtt + loss + aqm
        }
    }

    #[test]
    fn a_weakness_is_found_and_what_does_not_matter_is_left_out() {
        let bounds = Bounds::new(1_000_000_000, false);
        let weak = weakness(bounds);
        for seed in 1..6 {
            let mut score =
                |all: &[Conditions]| Some(all.iter().map(|c| weak(*c)).collect::<Vec<f64>>());
            let mut search = Search::new(bounds, &mut score);
            search.run(3_000, seed);
            let worst = search.worst().to_vec();
            assert!(
                (search.score_of(worst[0]) - 1.0).abs() < 1e-9,
                "seed {seed}"
            );
            let (_, simple) = search.simplest(&worst).unwrap();
            assert!(search.score_of(simple) >= KEEPS, "seed {seed}");
            let told = simple.described(bounds);
            // Rate and buffer are always told, as the plainest are.
            let expected = [
                ("rate", "100mbit"),
                ("rtt", "300ms"),
                ("buffer", "1bdp"),
                ("aqm", "codel"),
                ("loss", "1%"),
            ];
            assert_eq!(
                told,
                expected.map(|(name, level)| (name, level.to_owned())),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn no_network_is_run_twice_and_no_more_than_wished_for() {
        let bounds = Bounds::new(1_000_000_000, true);
        let mut seen = std::collections::BTreeSet::new();
        let mut score = |all: &[Conditions]| {
            assert!(all.iter().all(|conditions| seen.insert(*conditions)));
            Some(vec![0.5; all.len()])
        };
        let mut search = Search::new(bounds, &mut score);
        search.run(100, 9);
        assert_eq!(search.scored(), 100);
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let bounds = Bounds::new(1_000_000_000, true);
        let mut left = 3;
        let mut score = |all: &[Conditions]| {
            left -= 1;
            (left > 0).then(|| vec![0.5; all.len()])
        };
        let mut search = Search::new(bounds, &mut score);
        search.run(1_000, 9);
        let scored = search.scored();
        assert!(
            (POPULATION + 1..=2 * POPULATION).contains(&scored),
            "{scored}"
        );
    }
}
