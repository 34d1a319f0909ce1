//! How long a copy would take over the path that a probe saw, and what would change that.
//!
//! The probe is a recorded copy of some seconds. It is one sample of what the path does, so its time is cut into pieces and drawn from
//! anew (a moving-block bootstrap, Kuensch 1989): each drawing is a probe that could have been, goes on for as long as the copy
//! takes, and is run in the simulator. How far the drawings lie apart is how little a probe of that length says; to both ends comes
//! what the simulator itself is wrong by.

use super::path::{PathModel, Steps};
use super::{NotReplayable, Replay, ReplayError, cells, run_all};
use crate::catalog::{HOWDAH, HOWDAH_BACKGROUND};
use howdah_recording::Recording;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::AtomicBool;

/// Drawings, and the probe as it was.
const DRAWINGS: u64 = 8;
/// What a replay may be wrong by; docs/fidelity.md has by how much they are.
const MODEL_ERROR: f64 = 0.10;
/// The simulator runs so many packets of a copy at most, ...
const MOST_PACKETS: u64 = 2_000_000;
/// ... and so many seconds of it; what is left goes on as the second half of that did.
const MOST_SECONDS: f64 = 60.0;
/// Shortest piece that is drawn, in microseconds, and in round trips: what follows on each other stays together.
const PIECE: (u64, u64) = (500_000, 4);
/// Path MTU of a network with jumbo frames.
const JUMBO_BYTES: u64 = 9000;
/// How many times longer the queue is.
const DEEPER: u64 = 4;

/// What could be otherwise.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// Packets of 9000 bytes all the way.
    Jumbo,
    /// Four times the queue at the bottleneck.
    Deeper,
    /// As a guest that takes what others leave.
    Background,
    /// One TCP connection with CUBIC.
    Cubic,
    /// One TCP connection with BBR v1.
    Bbr,
}

impl Change {
    /// In the order in which they are told.
    pub const ALL: [Self; 5] = [
        Self::Jumbo,
        Self::Deeper,
        Self::Background,
        Self::Cubic,
        Self::Bbr,
    ];

    /// For programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jumbo => "mtu_9000",
            Self::Deeper => "queue_x4",
            Self::Background => "background",
            Self::Cubic => "tcp_cubic",
            Self::Bbr => "tcp_bbr",
        }
    }

    /// As scenarios name the transport.
    fn protocol(self) -> &'static str {
        match self {
            Self::Jumbo | Self::Deeper => HOWDAH,
            Self::Background => HOWDAH_BACKGROUND,
            Self::Cubic => "cubic",
            Self::Bbr => "bbr1",
        }
    }

    /// The path with it; nothing if it is so already, or nothing is known of it.
    fn applied(self, model: &PathModel) -> Option<PathModel> {
        let mut model = model.clone();
        match self {
            Self::Jumbo if model.mtu_bytes * 2 < JUMBO_BYTES => model.mtu_bytes = JUMBO_BYTES,
            Self::Deeper if model.overflowed => model.buffer_us *= DEEPER,
            Self::Jumbo | Self::Deeper => return None,
            Self::Background | Self::Cubic | Self::Bbr => {}
        }
        Some(model)
    }
}

/// A time, and what it should lie between. In seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// The middle one.
    pub likely_s: f64,
    /// Hardly less.
    pub least_s: f64,
    /// Hardly more.
    pub most_s: f64,
}

impl Forecast {
    /// Of the times of several drawings; `None` without one.
    fn of(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        Some(Self {
            likely_s: *seconds.get(seconds.len() / 2)?,
            least_s: seconds.first()? * (1.0 - MODEL_ERROR),
            most_s: seconds.last()? * (1.0 + MODEL_ERROR),
        })
    }
}

/// What the simulator says of a copy.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The path of the probe.
    pub path: PathModel,
    /// Over the network as it is.
    pub as_is: Forecast,
    /// What the likely time would be instead, in seconds.
    pub changed: Vec<(Change, f64)>,
}

/// Predicts a copy of `bytes` over the path of `probe`, `jobs` runs at a time.
pub fn predict(
    probe: &Recording,
    bytes: u64,
    jobs: usize,
    stop: &AtomicBool,
) -> Result<Prediction, ReplayError> {
    let path = PathModel::new(probe)?;
    let bps = path.mean_rate_bps().max(1.0);
    let packets = (MOST_PACKETS * path.mtu_bytes).min((MOST_SECONDS * bps / 8.0) as u64);
    let run = bytes.min(packets).max(1);
    let plan = Plan {
        bytes,
        // Of what is left the second half of the run tells the rate.
        runs: if run < bytes {
            vec![run, run / 2]
        } else {
            vec![run]
        },
        seconds: run as f64 * 8.0 / bps,
    };
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut ways = vec![(HOWDAH, plan.extended(&path))];
    ways.extend((0..DRAWINGS).map(|_| (HOWDAH, plan.extended(&drawn(&path, &mut random)))));
    let seconds = plan.run(&ways, jobs, stop)?;
    let none = || ReplayError::Recording(NotReplayable::Short);
    let as_is = Forecast::of(seconds.clone()).ok_or_else(none)?;
    // Like for like: what could be otherwise meets the drawing that gave the likely time.
    let typical = seconds
        .iter()
        .position(|it| it.to_bits() == as_is.likely_s.to_bits());
    let (_, typical) = typical.and_then(|at| ways.get(at)).ok_or_else(none)?;
    let changes: Vec<(Change, PathModel)> = Change::ALL
        .into_iter()
        .filter_map(|change| Some((change, change.applied(typical)?)))
        .collect();
    let others: Vec<_> = changes
        .iter()
        .map(|(change, model)| (change.protocol(), model.clone()))
        .collect();
    let seconds = plan.run(&others, jobs, stop)?;
    Ok(Prediction {
        path,
        as_is,
        changed: changes
            .iter()
            .map(|(change, _)| *change)
            .zip(seconds)
            .collect(),
    })
}

/// What is run of a copy.
struct Plan {
    /// All that it has.
    bytes: u64,
    /// How many of them are run.
    runs: Vec<u64>,
    /// How long the longest run takes at the mean rate.
    seconds: f64,
}

impl Plan {
    /// The path for as long as a run takes: the probe again and again.
    fn extended(&self, probe: &PathModel) -> PathModel {
        let probe_us = (probe.recorded_s * 1e6) as u64;
        let times = (self.seconds * 1e6) as u64 / probe_us.max(1) + 1;
        let pieces: Vec<(u64, u64)> = (0..times).map(|_| (0, probe_us)).collect();
        let mut model = joined(probe, &pieces);
        model.recorded_s = self.seconds.max(1.0);
        model
    }

    /// How long all bytes take on each of these ways, in seconds. One that does not come to its end in
    /// the simulator's patience goes on as it did.
    fn run(
        &self,
        ways: &[(&str, PathModel)],
        jobs: usize,
        stop: &AtomicBool,
    ) -> Result<Vec<f64>, ReplayError> {
        let mut all = Vec::new();
        for (number, (protocol, model)) in (1..).zip(ways) {
            for bytes in &self.runs {
                let mut model = model.clone();
                model.moved_bytes = *bytes;
                let replay = Replay {
                    model,
                    own: HOWDAH,
                    rate_bps: 0,
                };
                let mut made = cells(&replay.scenario(&[(*protocol).to_owned()]))?;
                for cell in &mut made {
                    cell.seed = number;
                }
                all.extend(made);
            }
        }
        let outcomes = run_all(&all, jobs, stop)?;
        let each = outcomes.chunks(self.runs.len());
        let seconds = each.map(|outcomes| {
            let seconds = |at: usize| {
                let (outcome, bytes) = (outcomes.get(at)?, self.runs.get(at)?);
                let at_its_rate = *bytes as f64 * 8.0 / outcome.goodput_bps.max(1.0);
                Some(outcome.seconds.unwrap_or(at_its_rate))
            };
            let whole = seconds(0).unwrap_or_default();
            match (self.runs.as_slice(), seconds(1)) {
                ([run, half], Some(first)) => {
                    let each = (whole - first).max(0.0) / (run - half).max(1) as f64;
                    whole + (self.bytes - run) as f64 * each
                }
                _ => whole,
            }
        });
        Ok(seconds.collect())
    }
}

/// A probe that could have been: pieces of the one that was, drawn with replacement.
fn drawn(probe: &PathModel, random: &mut ChaCha8Rng) -> PathModel {
    let probe_us = (probe.recorded_s * 1e6) as u64;
    let piece = PIECE.0.max(probe.rtt_us * PIECE.1).min(probe_us).max(1);
    let pieces: Vec<(u64, u64)> = (0..probe_us.div_ceil(piece))
        .map(|_| (random.random_range(0..=probe_us - piece), piece))
        .collect();
    joined(probe, &pieces)
}

/// A path that does what that one did in these pieces (begin and length in microseconds), one after the other.
fn joined(of: &PathModel, pieces: &[(u64, u64)]) -> PathModel {
    PathModel {
        rate: pieces_of(&of.rate, pieces),
        programs: pieces_of(&of.programs, pieces),
        loss: pieces_of(&of.loss, pieces),
        longer_us: pieces_of(&of.longer_us, pieces),
        recorded_s: pieces.iter().map(|piece| piece.1).sum::<u64>() as f64 / 1e6,
        ..of.clone()
    }
}

fn pieces_of<T: Copy + PartialEq>(steps: &Steps<T>, pieces: &[(u64, u64)]) -> Steps<T> {
    let mut joined: Steps<T> = Vec::new();
    let mut at_us = 0;
    for &(from, length) in pieces {
        let before = steps.iter().take_while(|step| step.0 <= from).last();
        joined.extend(before.map(|step| (at_us, step.1)));
        let inside = |step: &&(u64, T)| step.0 > from && step.0 < from + length;
        joined.extend(
            steps
                .iter()
                .filter(inside)
                .map(|step| (at_us + step.0 - from, step.1)),
        );
        at_us += length;
    }
    joined.dedup_by(|next, before| next.1 == before.1);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_what_was_in_them() {
        let steps = vec![(0, 'a'), (100, 'b'), (250, 'c')];
        let joined = pieces_of(&steps, &[(200, 100), (50, 100)]);
        assert_eq!(joined, [(0, 'b'), (50, 'c'), (100, 'a'), (150, 'b')]);
        assert_eq!(pieces_of(&steps, &[(0, 300)]), steps);
        assert!(pieces_of(&Vec::<(u64, char)>::new(), &[(0, 300)]).is_empty());
    }

    #[test]
    fn a_forecast_holds_all_drawings_and_what_the_model_is_wrong_by() {
        let forecast = Forecast::of(vec![30.0, 10.0, 20.0]).unwrap();
        assert_eq!(forecast.likely_s.to_bits(), 20f64.to_bits());
        assert!((forecast.least_s - 9.0).abs() < 1e-9 && (forecast.most_s - 33.0).abs() < 1e-9);
        assert_eq!(Forecast::of(Vec::new()), None);
    }
}
