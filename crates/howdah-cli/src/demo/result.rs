//! What was measured.

use howdah_core::Rate;

/// Everything that the table and the page show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demo {
    /// The path in words.
    pub(crate) path: String,
    /// The machine in words.
    pub(crate) machine: String,
    /// The command that measures it again.
    pub(crate) command: String,
    /// Size of the file, in bytes.
    pub(crate) file_bytes: u64,
    /// Rate of the bottleneck.
    pub(crate) link: Rate,
    /// One per transport.
    pub(crate) runs: Vec<Run>,
    /// What a reader must know to judge the figures.
    pub(crate) notes: Vec<String>,
}

/// One transport.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// Its name.
    pub(crate) name: String,
    /// Payload bytes that arrived.
    pub(crate) bytes: u64,
    /// How long that took, in seconds.
    pub(crate) seconds: f64,
    /// CPU time of the sending process, in seconds.
    pub(crate) sender_cpu_seconds: f64,
    /// CPU time of the receiving process, in seconds.
    pub(crate) receiver_cpu_seconds: f64,
    /// IP bytes from receiver to sender, if they were counted.
    pub(crate) feedback_bytes: Option<u64>,
    /// How the content was checked.
    pub(crate) verified: String,
    /// Seconds since its start, bytes so far.
    pub(crate) samples: Vec<(f64, u64)>,
}

impl Run {
    /// Payload bits per second over the whole run.
    pub(crate) fn goodput_bps(&self) -> f64 {
        if self.seconds > 0.0 {
            self.bytes as f64 * 8.0 / self.seconds
        } else {
            0.0
        }
    }

    /// When `bytes` had arrived, in seconds.
    pub(crate) fn time_for(&self, bytes: u64) -> Arrived {
        if self.bytes < bytes {
            return match self.goodput_bps() {
                0.0 => Arrived::Never,
                bps => Arrived::Projected(bytes as f64 * 8.0 / bps),
            };
        }
        let (mut before, mut before_bytes) = (0.0, 0);
        for &(seconds, so_far) in &self.samples {
            if so_far >= bytes {
                let share = (bytes - before_bytes) as f64 / (so_far - before_bytes).max(1) as f64;
                return Arrived::Measured(before + (seconds - before) * share);
            }
            (before, before_bytes) = (seconds, so_far);
        }
        Arrived::Measured(self.seconds)
    }

    /// CPU seconds per Gbit of payload.
    pub(crate) fn per_gbit(&self, cpu_seconds: f64) -> Option<f64> {
        (self.bytes > 0).then(|| cpu_seconds / (self.bytes as f64 * 8.0 / 1e9))
    }

    /// Feedback bytes per GiB of payload.
    pub(crate) fn feedback_per_gib(&self) -> Option<f64> {
        let share = self.feedback_bytes? as f64 / self.bytes.max(1) as f64;
        (self.bytes > 0).then_some(share * f64::from(1 << 30))
    }

    /// Goodput between the samples: end of each interval in seconds, bit/s.
    pub(crate) fn throughput(&self) -> Vec<(f64, f64)> {
        let mut points = Vec::with_capacity(self.samples.len());
        let (mut before, mut before_bytes) = (0.0, 0);
        for &(seconds, bytes) in &self.samples {
            // Shorter intervals are mostly noise.
            if seconds - before >= 0.05 {
                let bits = bytes.saturating_sub(before_bytes) as f64 * 8.0;
                points.push((seconds, bits / (seconds - before)));
                (before, before_bytes) = (seconds, bytes);
            }
        }
        points
    }
}

/// When a number of bytes had arrived, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arrived {
    /// During the run.
    Measured(f64),
    /// If it had gone on at its mean rate.
    Projected(f64),
    /// Nothing came.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_size_is_interpolated_or_projected() {
        let run = Run {
            bytes: 300,
            seconds: 2.0,
            samples: vec![(1.0, 100), (2.0, 300)],
            ..Run::default()
        };
        assert_eq!(run.time_for(200), Arrived::Measured(1.5));
        assert_eq!(run.time_for(300), Arrived::Measured(2.0));
        assert_eq!(run.time_for(600), Arrived::Projected(4.0));
        assert_eq!(Run::default().time_for(1), Arrived::Never);
        assert_eq!(run.throughput(), vec![(1.0, 800.0), (2.0, 1600.0)]);
    }
}
