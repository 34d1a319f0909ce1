//! What would limit a copy, from the figures.

use howdah::Summary;
use howdah_core::Rate;
use serde::Serialize;

/// A run that reaches less of what memory alone does is held up by its disk.
const DISK_SHARE: f64 = 0.8;

/// A machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Side {
    Here,
    There,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::There => "there",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Here => Self::There,
            Self::There => Self::Here,
        }
    }
}

/// One measured copy.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Leg {
    name: &'static str,
    sender: Side,
    /// Of the best second, or of the whole run if it was shorter than two or had a disk in it.
    bps: f64,
    summary: Summary,
}

/// A disk alone.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Speed {
    pub(super) name: &'static str,
    side: Side,
    pub(super) bps: f64,
}

/// What would limit copies in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Verdict {
    /// "network", "disk here", "processor there", "socket buffers here", "other program there".
    limit: String,
    bps: f64,
    pub(super) text: String,
}

impl Speed {
    pub(super) fn new(name: &'static str, side: Side, bps: f64) -> Self {
        Self { name, side, bps }
    }
}

impl Leg {
    pub(super) fn new(name: &'static str, sender: Side, summary: Summary) -> Self {
        let seconds = &summary.goodput_per_second_bps;
        let best = seconds.iter().copied().fold(0.0, f64::max);
        // A disk's best second is that of the memory before it; what it keeps up is told by the whole.
        let bps = if name.contains("disk") {
            summary.goodput_bps
        } else {
            best.max(summary.goodput_bps)
        };
        Self {
            name,
            sender,
            bps,
            summary,
        }
    }

    /// Processors that each side used.
    fn processors(&self) -> (f64, f64) {
        let seconds = self.summary.seconds.max(1e-9);
        (
            self.summary.sender.cpu_seconds / seconds,
            self.summary.receiver.cpu_seconds / seconds,
        )
    }

    pub(super) fn line(&self) -> String {
        let s = &self.summary;
        let (sender, receiver) = self.processors();
        let (here, there) = match self.sender {
            Side::Here => (sender, receiver),
            Side::There => (receiver, sender),
        };
        format!(
            "{:28} {} (mean {}), RTT {:.1} ms, loss {:.2} %, MTU {}, processors {here:.2} here and {there:.2} there",
            self.name,
            Rate::from_bits_per_sec(self.bps as u64),
            Rate::from_bits_per_sec(s.goodput_bps as u64),
            s.rtt_min_us as f64 / 1e3,
            s.loss_rate * 100.0,
            s.mtu,
        )
    }

    /// What limited it.
    fn limit(&self, receive_buffer: u64) -> String {
        let receiver = self.sender.other();
        match self.summary.bottleneck.as_str() {
            "cpu" => {
                let (sending, receiving) = self.processors();
                let side = if sending >= receiving {
                    self.sender
                } else {
                    receiver
                };
                format!("processor {}", side.word())
            }
            "source" if self.name.starts_with("disk") => format!("disk {}", self.sender.word()),
            "sink" if self.name.ends_with("disk there") => format!("disk {}", receiver.word()),
            "source" => format!("other program {}", self.sender.word()),
            "sink" => format!("other program {}", receiver.word()),
            "rate cap" => "rate cap".to_owned(),
            // What overflows within 5 ms at the rate that was reached.
            _ if receiver == Side::Here && self.bps > receive_buffer as f64 * 8.0 * 200.0 * 0.7 => {
                "socket buffers here".to_owned()
            }
            _ => "network".to_owned(),
        }
    }
}

/// For each direction: the slowest of what a copy has to pass, and the next one.
pub(super) fn verdict(legs: &[Leg], disks: &[Speed], receive_buffer: u64) -> Vec<Verdict> {
    [Side::Here, Side::There]
        .into_iter()
        .filter_map(|sender| {
            let mut stages: Vec<(String, f64)> = legs
                .iter()
                .filter(|leg| leg.sender == sender)
                .map(|leg| (leg.limit(receive_buffer), leg.bps))
                .collect();
            // A run with a disk that is clearly slower than one without shows the disk, whatever it says itself.
            let memory = stages.first().map_or(0.0, |stage| stage.1);
            for stage in stages.iter_mut().skip(1) {
                if stage.1 < memory * DISK_SHARE {
                    "disk there".clone_into(&mut stage.0);
                }
            }
            let what = if sender == Side::Here {
                "read"
            } else {
                "write"
            };
            let local = disks.iter().filter(|disk| disk.name.ends_with(what));
            stages.extend(local.map(|disk| (format!("disk {}", disk.side.word()), disk.bps)));
            stages.sort_by(|a, b| a.1.total_cmp(&b.1));
            let (limit, bps) = stages.first()?.clone();
            let next = stages.iter().find(|stage| stage.0 != limit);
            let rate = |bps: f64| Rate::from_bits_per_sec(bps as u64);
            let next = next.map_or_else(String::new, |(name, bps)| {
                format!("; next: the {name}, {}", rate(*bps))
            });
            let text = format!(
                "A copy from {} to {} would be limited by the {limit}: {}{next}.",
                sender.word(),
                sender.other().word(),
                rate(bps)
            );
            Some(Verdict { limit, bps, text })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah::SideUsage;

    fn leg(name: &'static str, sender: Side, gbit: f64, bottleneck: &str) -> Leg {
        let cpu = |cpu_seconds| SideUsage {
            cpu_seconds,
            ..SideUsage::default()
        };
        let summary = Summary {
            seconds: 2.0,
            goodput_bps: gbit * 1e9,
            sender: cpu(0.5),
            receiver: cpu(1.9),
            bottleneck: bottleneck.to_owned(),
            ..Summary::default()
        };
        Leg::new(name, sender, summary)
    }

    fn limits(legs: &[Leg], disks: &[Speed], buffer: u64) -> Vec<String> {
        let all = verdict(legs, disks, buffer);
        all.into_iter().map(|verdict| verdict.limit).collect()
    }

    #[test]
    fn the_slowest_stage_limits_each_direction() {
        let legs = [
            leg("memory here -> memory there", Side::Here, 9.0, "network"),
            leg("memory there -> memory here", Side::There, 8.0, "cpu"),
        ];
        assert_eq!(limits(&legs, &[], 64 << 20), ["network", "processor here"]);
        let disks = [
            Speed::new("disk here, write", Side::Here, 2e9),
            Speed::new("disk here, read", Side::Here, 20e9),
        ];
        assert_eq!(limits(&legs, &disks, 64 << 20), ["network", "disk here"]);
        let text = &verdict(&legs, &disks, 64 << 20)[1].text;
        assert_eq!(
            text,
            "A copy from there to here would be limited by the disk here: 2.00 Gbit/s; next: the processor here, 8.00 Gbit/s."
        );
    }

    #[test]
    fn a_small_buffer_is_told_from_the_network() {
        let legs = [leg(
            "memory there -> memory here",
            Side::There,
            0.3,
            "network",
        )];
        assert_eq!(limits(&legs, &[], 212_992), ["socket buffers here"]);
        assert_eq!(limits(&legs, &[], 32 << 20), ["network"]);
    }

    #[test]
    fn o4_no_disk_is_promised_more_than_it_kept_up() {
        // Memory took the first second.
        let mut written = leg("memory here -> disk there", Side::Here, 2.8, "cpu").summary;
        written.goodput_per_second_bps = vec![10.8e9, 0.3e9];
        let legs = [
            leg("memory here -> memory there", Side::Here, 10.9, "cpu"),
            Leg::new("memory here -> disk there", Side::Here, written),
        ];
        let all = verdict(&legs, &[], 64 << 20);
        assert!(all[0].bps <= 2.8e9, "{all:?}");
        assert_eq!(all[0].limit, "disk there");
        // Nor one that was measured alone, in either direction.
        for (what, sender) in [
            ("disk here, read", Side::Here),
            ("disk here, write", Side::There),
        ] {
            let legs = [leg("memory", sender, 10.8, "network")];
            let disks = [Speed::new(what, Side::Here, 2.8e9)];
            let all = verdict(&legs, &disks, 64 << 20);
            assert_eq!((all[0].bps, &*all[0].limit), (2.8e9, "disk here"));
        }
    }

    #[test]
    fn the_disk_there_is_named() {
        let legs = [
            leg("memory here -> memory there", Side::Here, 9.0, "network"),
            leg("memory here -> disk there", Side::Here, 3.0, "sink"),
        ];
        assert_eq!(limits(&legs, &[], 32 << 20), ["disk there"]);
        let legs = [
            leg("memory there -> memory here", Side::There, 9.0, "network"),
            leg("disk there -> memory here", Side::There, 4.0, "network"),
        ];
        assert_eq!(limits(&legs, &[], 32 << 20), ["disk there"]);
    }
}
