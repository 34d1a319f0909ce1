//! The lines themselves: a function of the figures and of the room that there is.

use crate::ui::style::Paint;
use crate::ui::text::{fit_end, printable};
use howdah::Progress;
use howdah_core::{Rate, Span, units};

/// A terminal that is narrower gets one line.
const WIDE: usize = 72;
/// Names of files under way that are shown.
const NAMES: usize = 3;
/// Lines that the figures of the path may take.
const PATH_LINES: usize = 2;
/// Loss that is worth a colour.
const MUCH_LOSS: f64 = 0.01;
const BAR: std::ops::RangeInclusive<usize> = 8..=40;

/// What a terminal of that width shows.
pub(crate) fn lines(progress: &Progress, width: usize, paint: Paint) -> Vec<String> {
    // A line that fills the last column makes some terminals begin another.
    let room = width.saturating_sub(1).max(1);
    if width < WIDE {
        return vec![narrow(progress, room, paint)];
    }
    let mut lines = vec![total(progress, room, paint)];
    let figures = path(progress, paint);
    let mut figures = figures.as_slice();
    for _ in 0..PATH_LINES {
        let (line, used) = join(figures, room - 2, "  ");
        figures = &figures[used..];
        if used > 0 {
            lines.push(line);
        }
    }
    let names = progress.current.iter().take(NAMES);
    lines.extend(names.map(|name| {
        let name = printable(name);
        paint.dim(&format!("  {}", fit_end(&name, room - 2)))
    }));
    let more = progress.current.len().saturating_sub(NAMES);
    if more > 0 {
        lines.push(paint.dim(&format!("  and {more} more")));
    }
    lines
}

/// The same in one line of any length, without colour.
pub(crate) fn one_line(progress: &Progress) -> String {
    let mut parts = amounts(progress);
    parts.extend(path(progress, Paint(false)));
    if let Some(percent) = percent(progress) {
        parts.insert(0, format!("{percent} %"));
    }
    parts.join(", ")
}

/// The first line: how much of what, and how long yet.
fn total(progress: &Progress, room: usize, paint: Paint) -> String {
    let text = amounts(progress).join(", ");
    let Some(percent) = percent(progress) else {
        return paint.bold(&fit(&text, room));
    };
    let head = format!("{percent:>3} %");
    // Percentage, a space, the bar in brackets, a space.
    let bar = room.saturating_sub(head.len() + 4 + console::measure_text_width(&text));
    if bar < *BAR.start() {
        return fit(&format!("{head} {text}"), room);
    }
    let bar = bar.min(*BAR.end());
    let full = (bar as u64 * percent / 100) as usize;
    let tip = if full < bar { ">" } else { "" };
    let done = "=".repeat(full);
    let left = " ".repeat(bar - full - tip.len());
    format!(
        "{} [{}{left}] {text}",
        paint.bold(&head),
        paint.good(&format!("{done}{tip}"))
    )
}

/// One line, the most useful first, as many of them as fit.
fn narrow(progress: &Progress, room: usize, paint: Paint) -> String {
    let mut parts = Vec::new();
    if let Some(percent) = percent(progress) {
        parts.push(paint.bold(&format!("{percent:>3} %")));
    }
    parts.push(units::format_bytes(progress.bytes));
    parts.push(rate_now(progress));
    parts.push(time_left(progress));
    parts.extend(files(progress));
    join(&parts, room, "").0
}

/// As many of the parts as fit, from the first on, and how many that are.
fn join(parts: &[String], room: usize, indent: &str) -> (String, usize) {
    let mut line = indent.to_owned();
    let mut columns = 0;
    for (index, part) in parts.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let more = console::measure_text_width(part) + comma.len();
        if columns + more > room {
            return (line, index);
        }
        columns += more;
        line.push_str(comma);
        line.push_str(part);
    }
    (line, parts.len())
}

fn fit(text: &str, room: usize) -> String {
    console::truncate_str(text, room, "...").into_owned()
}

fn percent(progress: &Progress) -> Option<u64> {
    let total = progress.total_bytes?;
    if total == 0 {
        return Some(100);
    }
    let share = u128::from(progress.bytes.min(total)) * 100 / u128::from(total);
    u64::try_from(share).ok()
}

fn amounts(progress: &Progress) -> Vec<String> {
    let bytes = units::format_bytes(progress.bytes);
    let amount = match progress.total_bytes {
        Some(total) => format!("{bytes} of {}", units::format_bytes(total)),
        None => bytes,
    };
    let mut parts = vec![amount];
    parts.extend(files(progress));
    parts.push(time_left(progress));
    parts
}

fn files(progress: &Progress) -> Option<String> {
    match (progress.files_done, progress.files_total) {
        // One file needs no count.
        (_, Some(0 | 1)) | (0, None) => None,
        (done, Some(total)) => Some(format!("{done} of {total} files")),
        (done, None) => Some(format!("{done} files")),
    }
}

fn time_left(progress: &Progress) -> String {
    if progress.paused {
        return "paused".to_owned();
    }
    match remaining(progress) {
        Some(left) => format!("{} left", clock(left)),
        None => clock(progress.elapsed),
    }
}

fn rate_now(progress: &Progress) -> String {
    progress.goodput_now.to_string()
}

/// The second line: the path.
fn path(progress: &Progress, paint: Paint) -> Vec<String> {
    let loss = format!("loss {:.2} %", progress.loss * 100.0);
    let mut parts = vec![
        format!("goodput {} (mean {})", rate_now(progress), mean(progress)),
        format!("wire {}", progress.wire_rate_now),
        if progress.loss >= MUCH_LOSS {
            paint.warning(&loss)
        } else {
            loss
        },
        format!("RTT {}", progress.rtt),
    ];
    if let Some(limit) = progress.limit {
        // Whoever set one wants to see it before the queue.
        parts.insert(2, paint.warning(&format!("limit {limit}")));
    }
    parts.push(format!("queue {}", progress.queue_delay));
    parts
}

/// Goodput since the beginning.
pub(crate) fn mean(progress: &Progress) -> Rate {
    if progress.elapsed.is_zero() {
        Rate::ZERO
    } else {
        let moved = progress.bytes.saturating_sub(progress.resumed_bytes);
        Rate::from_bytes_over(moved, progress.elapsed)
    }
}

/// What is left at the rate of the last second, or at the mean if that second brought nothing.
pub(crate) fn remaining(progress: &Progress) -> Option<Span> {
    let left = progress.total_bytes?.saturating_sub(progress.bytes);
    let rate = if progress.goodput_now == Rate::ZERO {
        mean(progress)
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
    use std::fmt::Write as _;

    fn half() -> Progress {
        Progress {
            bytes: 1 << 29,
            total_bytes: Some(1 << 30),
            files_total: Some(1),
            elapsed: Span::from_secs(2),
            goodput_now: Rate::from_gbit_per_sec(4),
            wire_rate_now: Rate::from_mbit_per_sec(4_210),
            rtt: Span::from_millis(100),
            loss: 0.0102,
            queue_delay: Span::from_micros(2_100),
            ..Progress::default()
        }
    }

    fn many() -> Progress {
        Progress {
            files_done: 1_204,
            files_total: Some(9_000),
            current: [
                "src/a.rs",
                "photos/2026/a-really-long-directory-name/and-another-one/IMG_0001.raw",
                "evil\x1b[2J\nname",
                "four",
                "five",
            ]
            .map(String::from)
            .to_vec(),
            limit: Some(Rate::from_gbit_per_sec(5)),
            ..half()
        }
    }

    /// All that a terminal of that width would show.
    fn shown(progress: &Progress, width: usize) -> String {
        let plain = lines(progress, width, Paint(false));
        let coloured = lines(progress, width, Paint(true));
        assert_eq!(
            console::strip_ansi_codes(&coloured.join("\n")),
            plain.join("\n"),
            "colour adds nothing"
        );
        for line in &plain {
            assert!(console::measure_text_width(line) < width, "{line}");
        }
        plain.join("\n")
    }

    /// The views of several copies at several widths, as `golden.txt` has them.
    fn gallery() -> String {
        let mut text = String::new();
        let unknown = Progress {
            total_bytes: None,
            files_total: None,
            files_done: 3,
            ..half()
        };
        let paused = Progress {
            paused: true,
            goodput_now: Rate::ZERO,
            wire_rate_now: Rate::ZERO,
            ..half()
        };
        for (name, progress) in [
            ("one file", half()),
            ("many files, limited", many()),
            ("a total that nobody knows", unknown),
            ("paused", paused),
        ] {
            for width in [40, 80, 120] {
                for colour in [false, true] {
                    let what = if colour { "in colour" } else { "plain" };
                    let shown = if colour {
                        lines(&progress, width, Paint(true)).join("\n")
                    } else {
                        shown(&progress, width)
                    };
                    let _ = writeln!(text, "== {name}, {width} columns, {what}");
                    text.push_str(&shown.replace('\x1b', "<ESC>"));
                    text.push('\n');
                }
            }
        }
        text
    }

    /// `HOWDAH_BLESS=1` writes it anew; look at the difference before you commit it.
    #[test]
    fn the_views_are_those_of_the_gallery() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ui/progress/golden.txt");
        if std::env::var_os("HOWDAH_BLESS").is_some() {
            std::fs::write(path, gallery()).unwrap();
        }
        let golden = std::fs::read_to_string(path).unwrap();
        assert_eq!(gallery(), golden);
    }

    #[test]
    fn any_width_is_kept() {
        for width in 1..200 {
            shown(&half(), width.max(8));
            shown(&many(), width.max(8));
            lines(&many(), width, Paint(true));
        }
    }

    #[test]
    fn the_line_says_it_all() {
        let mut progress = half();
        assert_eq!(
            one_line(&progress),
            "50 %, 512.0 MiB of 1.00 GiB, 2 s left, goodput 4.00 Gbit/s (mean 2.15 Gbit/s), \
             wire 4.21 Gbit/s, loss 1.02 %, RTT 100.0ms, queue 2.1ms"
        );
        progress.total_bytes = None;
        assert!(one_line(&progress).starts_with("512.0 MiB, 2 s, goodput 4.00 Gbit/s"));
        progress.goodput_now = Rate::ZERO;
        progress.total_bytes = Some(1 << 40);
        assert!(one_line(&progress).starts_with("0 %, 512.0 MiB of 1.00 TiB, 1:08 h left"));
        progress.bytes = 0;
        assert!(one_line(&progress).starts_with("0 %, 0 B of 1.00 TiB, 2 s, goodput 0 bit/s"));
        progress.paused = true;
        assert!(one_line(&progress).contains("paused"));
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
