//! The space that an attack searches: a path, what changes on it, and who else is there, each as one of a few levels.

use rand::{Rng, RngExt as _};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write as _;

/// One property of the network: its levels as the scenario writes them, and the one that says the least.
struct Gene {
    name: &'static str,
    levels: &'static [&'static str],
    plain: u8,
}

const fn gene(name: &'static str, levels: &'static [&'static str], plain: u8) -> Gene {
    Gene {
        name,
        levels,
        plain,
    }
}

/// Queues are never shorter than that: as long as the shortest of switches.
const LEAST_QUEUE_PACKETS: f64 = 20.0;

const RATE: usize = 0;
const RTT: usize = 1;
const BUFFER: usize = 2;
const AQM: usize = 3;
const LOSS: usize = 4;
const BURST: usize = 5;
const JITTER: usize = 6;
const HOSTS: usize = 7;
const CHANGE: usize = 8;
const STREAM: usize = 9;
const NEIGHBOUR: usize = 10;
const ORDER: usize = 11;

/// The paths are long, fat, short and thin; losses those of DESIGN's movers (0 to 2 %), once more beyond that.
const GENES: [Gene; 12] = [
    gene(
        "rate",
        &[
            "10mbit", "20mbit", "50mbit", "100mbit", "200mbit", "500mbit", "1gbit",
        ],
        3,
    ),
    gene(
        "rtt",
        &[
            "1ms", "2ms", "5ms", "10ms", "20ms", "40ms", "80ms", "160ms", "300ms", "400ms",
        ],
        5,
    ),
    gene(
        "buffer",
        &[
            "0.05bdp", "0.1bdp", "0.2bdp", "0.5bdp", "1bdp", "2bdp", "4bdp",
        ],
        4,
    ),
    gene("aqm", &["droptail", "codel", "dualpi2"], 0),
    gene(
        "loss",
        &["0%", "0.001%", "0.01%", "0.1%", "0.5%", "1%", "2%"],
        0,
    ),
    gene("burst", &["1", "3", "10", "30"], 0),
    gene("jitter", &["0ms", "0.1ms", "0.5ms", "2ms", "10ms"], 0),
    gene("hosts", &["ideal", "testbed"], 0),
    gene(
        "change",
        &[
            "none",
            "rate halved",
            "rate quartered",
            "rate doubled",
            "rtt doubled",
            "rtt quartered",
        ],
        0,
    ),
    gene("stream", &["none", "10%", "20%", "40%"], 0),
    gene(
        "neighbour",
        &["none", "cubic", "reno", "bbr1", "bbr3", "quic", "howdah"],
        0,
    ),
    gene("order", &["first", "second"], 0),
];

/// One network with its traffic: a level of each gene.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Conditions([u8; GENES.len()]);

/// The slowest path that is tried.
pub(super) const SLOWEST: &str = GENES[RATE].levels[0];

/// What conditions may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Levels of the rate that are allowed.
    pub(super) rates: u8,
    /// Somebody else must be there; else nobody is.
    pub(super) neighbour: bool,
}

impl Bounds {
    /// Rates up to `most` bit/s, at least one of them.
    pub(super) fn new(most_bps: u64, neighbour: bool) -> Self {
        let rate = |text: &&str| howdah_core::units::parse_rate(text);
        let below = GENES[RATE].levels.iter().map(rate);
        let count = below
            .take_while(|rate| matches!(rate, Ok(rate) if rate.bits_per_sec() <= most_bps))
            .count();
        Self {
            rates: count.max(1) as u8,
            neighbour,
        }
    }

    /// First and last level of a gene.
    fn range(self, gene: usize) -> (u8, u8) {
        let last = GENES[gene].levels.len() as u8 - 1;
        match gene {
            RATE => (0, self.rates - 1),
            NEIGHBOUR if self.neighbour => (1, last),
            NEIGHBOUR | ORDER if !self.neighbour => (0, 0),
            _ => (0, last),
        }
    }

    /// The level that says the least.
    fn plain(self, gene: usize) -> u8 {
        let (first, last) = self.range(gene);
        GENES[gene].plain.clamp(first, last)
    }
}

impl Conditions {
    /// 100 Mbit/s, 40 ms, a queue of one bandwidth-delay product, and nothing else.
    pub(super) fn plain(bounds: Bounds) -> Self {
        Self(std::array::from_fn(|gene| bounds.plain(gene)))
    }

    pub(super) fn random(bounds: Bounds, rng: &mut ChaCha8Rng) -> Self {
        Self(std::array::from_fn(|gene| {
            let (first, last) = bounds.range(gene);
            rng.random_range(first..=last)
        }))
        .sensible()
    }

    /// One that is a little different: one or two genes, mostly by one level.
    pub(super) fn mutated(mut self, bounds: Bounds, rng: &mut ChaCha8Rng) -> Self {
        for _ in 0..=u32::from(rng.random_bool(0.5)) {
            let gene = rng.random_range(0..GENES.len());
            let (first, last) = bounds.range(gene);
            let level = &mut self.0[gene];
            *level = match rng.next_u32() % 10 {
                0..3 => level.saturating_sub(1).max(first),
                3..6 => (*level + 1).min(last),
                _ => rng.random_range(first..=last),
            };
        }
        self.sensible()
    }

    /// One that has each gene of one or the other.
    pub(super) fn crossed(self, other: Self, rng: &mut ChaCha8Rng) -> Self {
        Self(std::array::from_fn(|gene| {
            let from = if rng.random_bool(0.5) { self } else { other };
            from.0[gene]
        }))
        .sensible()
    }

    /// The same without what has no effect (bursts of no losses, the order of a flow that is alone), and with a stream that leaves
    /// most of the path even when its rate has fallen.
    fn sensible(mut self) -> Self {
        let most_stream = match self.level(CHANGE) {
            "rate quartered" => 1,
            "rate halved" => 2,
            _ => 3,
        };
        self.0[STREAM] = self.0[STREAM].min(most_stream);
        if self.0[LOSS] == 0 {
            self.0[BURST] = 0;
        }
        if self.0[NEIGHBOUR] == 0 {
            self.0[ORDER] = 0;
        }
        self
    }

    /// Those that say less in one gene, the plainest first; nothing if it is plain.
    pub(super) fn simpler(self, bounds: Bounds) -> Vec<Self> {
        let mut all = Vec::new();
        for gene in 0..GENES.len() {
            let (own, plain) = (self.0[gene], bounds.plain(gene));
            let step = if own > plain {
                own.wrapping_sub(1)
            } else {
                own + 1
            };
            let mut levels = vec![plain, step];
            levels.dedup();
            for level in levels {
                let mut other = self;
                other.0[gene] = level;
                let other = other.sensible();
                if own != plain && other != self && !all.contains(&other) {
                    all.push(other);
                }
            }
        }
        all.sort_by_key(|other: &Self| other.distance(bounds));
        all
    }

    /// Levels between it and the plainest.
    pub(super) fn distance(self, bounds: Bounds) -> u32 {
        let apart = |gene: usize| self.0[gene].abs_diff(bounds.plain(gene));
        (0..GENES.len()).map(|gene| u32::from(apart(gene))).sum()
    }

    fn level(self, gene: usize) -> &'static str {
        GENES[gene].levels[usize::from(self.0[gene])]
    }

    /// What is not plain, for people.
    pub(super) fn described(self, bounds: Bounds) -> Vec<(&'static str, String)> {
        let shown = |&gene: &usize| gene <= BUFFER || self.0[gene] != bounds.plain(gene);
        let level = |gene: usize| match gene {
            BUFFER => self.buffer(),
            _ => self.level(gene).to_owned(),
        };
        let told = |gene: usize| (GENES[gene].name, level(gene));
        let always = |&gene: &usize| shown(&gene) || gene == NEIGHBOUR && bounds.neighbour;
        (0..GENES.len()).filter(always).map(told).collect()
    }

    /// Who else is there.
    fn neighbour(self) -> Option<&'static str> {
        Some(self.level(NEIGHBOUR)).filter(|name| *name != "none")
    }

    /// Round-trip time in seconds at the start.
    fn rtt_s(self) -> f64 {
        let span = howdah_core::units::parse_span(self.level(RTT));
        span.map_or(0.0, howdah_core::Span::as_secs_f64)
    }

    /// Rate of the path in bit/s at the start.
    fn rate_bps(self) -> u64 {
        let rate = howdah_core::units::parse_rate(self.level(RATE));
        rate.map_or(0, howdah_core::Rate::bits_per_sec)
    }

    /// The queue as the scenario writes it: no real one is shorter than some packets.
    fn buffer(self) -> String {
        let level = self.level(BUFFER);
        let products: f64 = level.trim_end_matches("bdp").parse().unwrap_or(1.0);
        let bytes = products * self.rate_bps() as f64 / 8.0 * self.rtt_s();
        if bytes < LEAST_QUEUE_PACKETS * 1500.0 {
            format!("{LEAST_QUEUE_PACKETS}packets")
        } else {
            level.to_owned()
        }
    }

    /// What a flow of full packets could have of the path at its worst, less random loss and the stream's share, in bit/s.
    pub(super) fn bound_bps(self) -> f64 {
        let change = match self.level(CHANGE) {
            "rate halved" => 0.5,
            "rate quartered" => 0.25,
            _ => 1.0,
        };
        let share =
            |gene: usize| howdah_core::units::parse_probability(self.level(gene)).unwrap_or(0.0);
        // 1500 bytes and Ethernet around the largest payload that the slimmest transport puts there.
        let payload = 1448.0 / 1538.0;
        self.rate_bps() as f64 * payload * (change - share(STREAM)) * (1.0 - share(LOSS))
    }

    /// The scenario: `subject` is the flow that is attacked.
    pub(super) fn scenario(self, id: &str, subject: &str, seed: u64) -> String {
        let duration_s = (80.0 * self.rtt_s()).clamp(12.0, 40.0).round();
        let mut out = String::new();
        let mut line = |text: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{text}");
        };
        line(format!("id = \"{id}\"\nseed = {seed}\n\n[path.main]"));
        for (key, gene) in [("rate", RATE), ("rtt", RTT)] {
            line(format!("{key} = \"{}\"", self.level(gene)));
        }
        line(format!("buffer = \"{}\"", self.buffer()));
        for (key, gene) in [("aqm", AQM), ("loss", LOSS), ("jitter", JITTER)] {
            if self.0[gene] != GENES[gene].plain {
                line(format!("{key} = \"{}\"", self.level(gene)));
            }
        }
        if self.0[BURST] != 0 {
            line(format!("burst = {}", self.level(BURST)));
        }
        let testbed = self.0[HOSTS] != 0;
        if testbed {
            for host in ["near", "far"] {
                line(format!("\n[host.{host}]\nlike = \"{}\"", self.level(HOSTS)));
            }
        }
        let flow = |name: &str, protocol: &str, start: &str| {
            let hosts = if testbed {
                "\nfrom = \"near\"\nto = \"far\""
            } else {
                ""
            };
            format!("\n[flow.{name}]\nprotocol = \"{protocol}\"\nstart = \"{start}\"{hosts}")
        };
        let is_second = self.0[ORDER] != 0;
        let starts = if is_second {
            ["2s", "0s"]
        } else {
            ["0s", "2s"]
        };
        line(flow("subject", subject, starts[0]));
        if let Some(other) = self.neighbour() {
            line(flow("neighbour", other, starts[1]));
        }
        if self.0[STREAM] != 0 {
            let share = howdah_core::units::parse_probability(self.level(STREAM)).unwrap_or(0.0);
            let bps = (self.rate_bps() as f64 * share).round();
            line(format!(
                "\n[stream.beside]\nrate = \"{bps}bit\"\non = \"1s\"\noff = \"1s\""
            ));
        }
        let (rate, rtt) = (self.rate_bps(), self.rtt_s());
        let half = (duration_s / 2.0).round();
        let change = match self.level(CHANGE) {
            "rate halved" => Some(format!("rate = \"{}bit\"", rate / 2)),
            "rate quartered" => Some(format!("rate = \"{}bit\"", rate / 4)),
            "rate doubled" => Some(format!("rate = \"{}bit\"", rate * 2)),
            "rtt doubled" => Some(format!("rtt = \"{}us\"", (rtt * 2e6).round())),
            "rtt quartered" => Some(format!("rtt = \"{}us\"", (rtt * 0.25e6).round())),
            _ => None,
        };
        if let Some(change) = change {
            line(format!(
                "\n[[timeline]]\nat = \"{half}s\"\npath = \"main\"\n{change}"
            ));
        }
        let warmup = (duration_s / 3.0).round();
        line(format!(
            "\n[measure]\nduration = \"{duration_s}s\"\nwarmup = \"{warmup}s\"\ninterval = \"500ms\""
        ));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;
    use rand::SeedableRng as _;
    use std::path::Path;

    #[test]
    fn whatever_is_drawn_is_a_scenario_of_one_cell() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for round in 0..200_u64 {
            let bounds = Bounds::new(1_000_000_000, round % 2 == 0);
            let drawn = Conditions::random(bounds, &mut rng).mutated(bounds, &mut rng);
            let drawn = drawn.crossed(Conditions::plain(bounds), &mut rng);
            let text = drawn.scenario("t", "howdah", round);
            let plan = parse(Path::new("t.toml"), &text, false);
            let plan = plan.unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(plan.cells().count(), 1, "{text}");
            let flows = plan.cells().next().map_or(0, |cell| cell.flows.len());
            assert_eq!(flows, if bounds.neighbour { 2 } else { 1 }, "{text}");
        }
    }

    #[test]
    fn simpler_ones_come_nearer_to_the_plainest_until_nothing_is_left() {
        let bounds = Bounds::new(200_000_000, true);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for _ in 0..50 {
            let mut now = Conditions::random(bounds, &mut rng);
            while let Some(&next) = now.simpler(bounds).first() {
                assert!(next.distance(bounds) < now.distance(bounds), "{now:?}");
                now = next;
            }
            assert_eq!(now, Conditions::plain(bounds));
        }
    }

    #[test]
    fn a_limit_of_the_rate_holds() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for (most, bound) in [(100_000_000, 100_000_000), (1, 10_000_000)] {
            let bounds = Bounds::new(most, false);
            for _ in 0..50 {
                let drawn = Conditions::random(bounds, &mut rng).mutated(bounds, &mut rng);
                assert!(drawn.rate_bps() <= bound);
            }
        }
    }
}
