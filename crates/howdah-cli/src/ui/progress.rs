//! The progress bar.

use howdah::Progress;
use howdah_core::{Rate, Span, units};
use indicatif::{ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;

/// A line on the terminal that shows how a copy is doing; nothing where there is no terminal.
#[derive(Debug)]
pub(crate) struct ProgressBar(Option<indicatif::ProgressBar>);

impl ProgressBar {
    /// A bar on standard error if that is a terminal and `wanted`. It appears with the first
    /// [`ProgressBar::show`].
    pub(crate) fn new(wanted: bool) -> Self {
        Self((wanted && std::io::stderr().is_terminal()).then(|| {
            let bar = indicatif::ProgressBar::hidden();
            let style = ProgressStyle::with_template("[{bar:16}] {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style.progress_chars("=> "));
            bar
        }))
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        let Some(bar) = &self.0 else { return };
        if bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
        bar.set_length(progress.total_bytes.unwrap_or(0));
        bar.set_position(if progress.total_bytes.is_some() {
            progress.bytes
        } else {
            0
        });
        bar.set_message(line(progress));
    }

    /// Takes the bar away.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

/// The most useful first: a narrow terminal cuts the end off.
fn line(progress: &Progress) -> String {
    let mean = mean(progress);
    let bytes = units::format_bytes(progress.bytes);
    let amount = match progress.total_bytes {
        Some(total) => format!("{bytes} of {}", units::format_bytes(total)),
        None => bytes,
    };
    let left = match remaining(progress, mean) {
        Some(left) => format!("{} left", clock(left)),
        None => clock(progress.elapsed),
    };
    format!(
        "{amount}, {left}, {} (mean {mean}), RTT {}, loss {:.2} %",
        progress.goodput_now,
        progress.rtt,
        progress.loss * 100.0
    )
}

fn mean(progress: &Progress) -> Rate {
    if progress.elapsed.is_zero() {
        Rate::ZERO
    } else {
        Rate::from_bytes_over(progress.bytes, progress.elapsed)
    }
}

/// What is left at the rate of the last second, or at the mean if that second brought nothing.
fn remaining(progress: &Progress, mean: Rate) -> Option<Span> {
    let left = progress.total_bytes?.saturating_sub(progress.bytes);
    let rate = if progress.goodput_now == Rate::ZERO {
        mean
    } else {
        progress.goodput_now
    };
    (rate != Rate::ZERO).then(|| rate.span_for(left))
}

fn clock(span: Span) -> String {
    let seconds = span.as_nanos().div_ceil(1_000_000_000);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        3600..360_000 => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
        _ => "days".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_it_all() {
        let mut progress = Progress {
            bytes: 1 << 29,
            total_bytes: Some(1 << 30),
            elapsed: Span::from_secs(2),
            goodput_now: Rate::from_gbit_per_sec(4),
            rtt: Span::from_millis(100),
            loss: 0.0102,
            ..Progress::default()
        };
        assert_eq!(
            line(&progress),
            "512.0 MiB of 1.00 GiB, 2 s left, 4.00 Gbit/s (mean 2.15 Gbit/s), RTT 100.0ms, loss 1.02 %"
        );
        progress.total_bytes = None;
        assert!(line(&progress).starts_with("512.0 MiB, 2 s, 4.00 Gbit/s"));
        progress.goodput_now = Rate::ZERO;
        progress.total_bytes = Some(1 << 40);
        assert!(line(&progress).starts_with("512.0 MiB of 1.00 TiB, 1:08 h left, 0 bit/s"));
        progress.bytes = 0;
        assert!(line(&progress).starts_with("0 B of 1.00 TiB, 2 s, 0 bit/s"));
    }

    #[test]
    fn times_are_short() {
        for (seconds, want) in [
            (0, "0 s"),
            (59, "59 s"),
            (61, "1:01 min"),
            (7_260, "2:01 h"),
        ] {
            assert_eq!(clock(Span::from_secs(seconds)), want);
        }
        assert_eq!(clock(Span::MAX), "days");
    }
}
