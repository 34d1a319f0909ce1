//! The table on the terminal, and its cells for the page.

use super::Demo;
use super::result::{Arrived, Run};
use howdah_core::{Rate, units};
use std::fmt::Write as _;

/// A cell per column of a run.
pub(super) struct Cells {
    pub(super) head: [String; 7],
    pub(super) rows: Vec<[String; 7]>,
}

pub(super) fn cells(demo: &Demo) -> Cells {
    let size = units::format_bytes(demo.file_bytes);
    Cells {
        head: [
            String::new(),
            "goodput".to_owned(),
            format!("{size} in"),
            "CPU sender".to_owned(),
            "CPU receiver".to_owned(),
            "feedback".to_owned(),
            "verified".to_owned(),
        ],
        rows: demo
            .runs
            .iter()
            .map(|run| row(run, demo.file_bytes))
            .collect(),
    }
}

fn row(run: &Run, file_bytes: u64) -> [String; 7] {
    let cpu = |seconds| match run.per_gbit(seconds) {
        Some(value) => format!("{value:.3} s/Gbit"),
        None => "-".to_owned(),
    };
    [
        run.name.clone(),
        Rate::from_bits_per_sec(run.goodput_bps() as u64).to_string(),
        arrived(run.time_for(file_bytes)),
        cpu(run.sender_cpu_seconds),
        cpu(run.receiver_cpu_seconds),
        match run.feedback_per_gib() {
            Some(bytes) => format!("{}/GiB", units::format_bytes(bytes as u64)),
            None => "not counted".to_owned(),
        },
        run.verified.clone(),
    ]
}

pub(super) fn arrived(arrived: Arrived) -> String {
    match arrived {
        Arrived::Measured(seconds) => seconds_text(seconds),
        Arrived::Projected(seconds) => format!("about {}", seconds_text(seconds)),
        Arrived::Never => "never".to_owned(),
    }
}

fn seconds_text(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{s:.2} s"),
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{s:.0} s"),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The table for a terminal, the notes below it.
pub(crate) fn table(demo: &Demo) -> String {
    let Cells { head, rows } = cells(demo);
    let widths: [usize; 7] = std::array::from_fn(|column| {
        std::iter::once(&head)
            .chain(&rows)
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    });
    let mut out = format!("{}\n\n", demo.path);
    for row in std::iter::once(&head).chain(&rows) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            // Numbers to the right, words to the left.
            let _ = match column {
                0 | 6 => write!(line, "{gap}{cell:<width$}"),
                _ => write!(line, "{gap}{cell:>width$}"),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push('\n');
    for note in &demo.notes {
        out.push_str(note);
        out.push('\n');
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Made-up figures.
    pub(in crate::demo) fn example() -> Demo {
        let gib = 1u64 << 30;
        Demo {
            path: "10 Gbit/s, RTT 100 ms, loss 1 %".to_owned(),
            machine: "a machine with 2 cores".to_owned(),
            command: "howdah demo".to_owned(),
            file_bytes: gib,
            link: Rate::from_gbit_per_sec(10),
            runs: vec![
                Run {
                    name: "howdah".to_owned(),
                    bytes: gib,
                    seconds: 2.0,
                    sender_cpu_seconds: 0.5,
                    receiver_cpu_seconds: 1.0,
                    feedback_bytes: Some(3000),
                    verified: "BLAKE3".to_owned(),
                    samples: vec![
                        (0.5, gib / 8),
                        (1.0, gib / 2),
                        (1.5, 7 * (gib / 8)),
                        (2.0, gib),
                    ],
                },
                Run {
                    name: "TCP BBR".to_owned(),
                    bytes: 2 * gib,
                    seconds: 10.0,
                    sender_cpu_seconds: 0.8,
                    receiver_cpu_seconds: 0.9,
                    feedback_bytes: Some(9_000_000),
                    verified: "no".to_owned(),
                    samples: (1..=10)
                        .map(|i| (f64::from(i), u64::from(i as u8) * gib / 5))
                        .collect(),
                },
                Run {
                    name: "TCP CUBIC".to_owned(),
                    bytes: gib / 128,
                    seconds: 10.0,
                    verified: "no".to_owned(),
                    samples: (1..=10)
                        .map(|i| (f64::from(i), u64::from(i as u8) * gib / 1280))
                        .collect(),
                    ..Run::default()
                },
            ],
            notes: vec!["A note.".to_owned()],
        }
    }

    #[test]
    fn the_table_is_as_it_was() {
        let want = "\
10 Gbit/s, RTT 100 ms, loss 1 %

               goodput   1.00 GiB in    CPU sender  CPU receiver     feedback  verified
howdah     4.29 Gbit/s        2.00 s  0.058 s/Gbit  0.116 s/Gbit  2.9 KiB/GiB  BLAKE3
TCP BBR    1.72 Gbit/s        5.00 s  0.047 s/Gbit  0.052 s/Gbit  4.3 MiB/GiB  no
TCP CUBIC   6.7 Mbit/s  about 1280 s  0.000 s/Gbit  0.000 s/Gbit  not counted  no

A note.
";
        assert_eq!(table(&example()), want);
    }

    #[test]
    fn long_times_stay_short() {
        assert_eq!(arrived(Arrived::Measured(1.234)), "1.23 s");
        assert_eq!(arrived(Arrived::Projected(98.76)), "about 98.8 s");
        assert_eq!(arrived(Arrived::Projected(7200.0)), "about 2.0 h");
        assert_eq!(arrived(Arrived::Never), "never");
    }
}
