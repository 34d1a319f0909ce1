//! What is seen of a copy while it runs: a few lines on a terminal that are drawn again and again, or now
//! and then a line where there is no terminal.

mod lines;
mod stage;

use super::style::{self, Paint};
use howdah::Progress;
use howdah_core::{Span, Time};
use indicatif::{ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;

pub(crate) use lines::{mean, one_line, remaining};
pub(crate) use stage::{leave_question, with_a_question};

/// Without a terminal a line is written that often, if it is wanted at all.
const LINE_EVERY: Span = Span::from_secs(5);

/// Where progress is shown.
#[derive(Debug)]
enum Where {
    Nowhere,
    /// On a terminal.
    Terminal(indicatif::ProgressBar),
    /// A line now and then; when the next one is due, as time since the beginning.
    Lines {
        next: Time,
    },
}

/// The view of a running copy.
#[derive(Debug)]
pub(crate) struct ProgressView(Where);

impl ProgressView {
    /// On standard error if that is a terminal and `wanted`; lines if there is none and they are
    /// `forced`. It appears with the first [`ProgressView::show`].
    pub(crate) fn new(wanted: bool, forced: bool) -> Self {
        let terminal = std::io::stderr().is_terminal() && !style::is_dumb();
        Self(if !wanted {
            Where::Nowhere
        } else if terminal {
            let bar = indicatif::ProgressBar::hidden();
            bar.set_style(
                ProgressStyle::with_template("{msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            Where::Terminal(bar)
        } else if forced {
            Where::Lines { next: Time::ZERO }
        } else {
            Where::Nowhere
        })
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        match &mut self.0 {
            Where::Nowhere => {}
            // What is drawn there now is somebody else's. Back in the foreground it appears again.
            Where::Terminal(bar) if !stage::is_ours() => {
                bar.set_draw_target(ProgressDrawTarget::hidden());
            }
            Where::Terminal(bar) => {
                if bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
                }
                // Asked each time: people change the size of their windows.
                let width = console::Term::stderr().size_checked().map_or(80, |s| s.1);
                let lines = lines::lines(progress, usize::from(width), Paint::stderr());
                bar.set_message(lines.join("\n"));
            }
            Where::Lines { next } => {
                let now = Time::ZERO + progress.elapsed;
                if now >= *next {
                    *next = now + LINE_EVERY;
                    super::say(&one_line(progress));
                }
            }
        }
    }

    /// Writes something else meanwhile.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.0 {
            Where::Terminal(bar) if stage::is_ours() => bar.suspend(write),
            _ => write(),
        }
    }

    /// Takes it away.
    pub(crate) fn clear(&mut self) {
        if let Where::Terminal(bar) = std::mem::replace(&mut self.0, Where::Nowhere) {
            if !stage::is_ours() {
                bar.set_draw_target(ProgressDrawTarget::hidden());
            }
            bar.finish_and_clear();
        }
    }
}
