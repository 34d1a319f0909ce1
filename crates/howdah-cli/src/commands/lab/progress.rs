//! How far a campaign is.

use crate::ui;
use howdah_lab::run::RunProgress;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Write as _;
use std::io::IsTerminal as _;

/// A line on the terminal; a few lines in a log file.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    /// Tenths that the log has been told of.
    told: Option<usize>,
}

impl Progress {
    /// Shows nothing unless `wanted`.
    pub(super) fn new(wanted: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self {
            bar: (wanted && is_terminal).then(|| {
                let bar = ProgressBar::new(1000);
                let style = ProgressStyle::with_template("[{bar:16}] {wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_bar());
                bar.set_style(style.progress_chars("=> "));
                bar
            }),
            told: (wanted && !is_terminal).then_some(0),
        }
    }

    pub(super) fn show(&mut self, progress: &RunProgress) {
        self.at(progress.share, || line(progress));
    }

    /// That share, from 0 to 1, is done.
    pub(super) fn at(&mut self, share: f64, line: impl Fn() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_position((share * 1000.0) as u64);
            bar.set_message(line());
        }
        if let Some(told) = &mut self.told {
            let tenths = (share * 10.0) as usize;
            if tenths > *told {
                *told = tenths;
                ui::say(&line());
            }
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn line(progress: &RunProgress) -> String {
    let mut text = format!("{} of {} cells", progress.done, progress.cells);
    if progress.failed > 0 {
        let _ = write!(text, ", {} failed", progress.failed);
    }
    if let Some(left) = progress.left_s() {
        let _ = write!(text, ", {} left", clock(left));
    }
    if !progress.last.is_empty() {
        let _ = write!(text, ", last {}", progress.last);
    }
    text
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_left() {
        let mut progress = RunProgress {
            cells: 10,
            done: 4,
            share: 0.25,
            elapsed_s: 30.0,
            last: "J-A1 protocol=fast".to_owned(),
            ..RunProgress::default()
        };
        assert_eq!(
            line(&progress),
            "4 of 10 cells, 1:30 min left, last J-A1 protocol=fast"
        );
        progress.share = 0.0;
        progress.failed = 1;
        assert_eq!(
            line(&progress),
            "4 of 10 cells, 1 failed, last J-A1 protocol=fast"
        );
        assert_eq!(clock(3725.0), "1:02 h");
    }
}
