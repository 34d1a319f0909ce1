//! Words of the document: names, places, reasons, as Markdown can hold them.

use crate::result::CellResult;

/// The axis that names the system.
pub(super) const PROTOCOL: &str = "protocol";

/// Characters of a reason that are shown.
const MOST_CHARACTERS: usize = 240;

/// How the matrix calls what was measured.
pub(super) fn system(cell: &CellResult) -> &str {
    let first = cell.flows.first().map(|flow| flow.protocol.as_str());
    let named = cell.at.get(PROTOCOL).map(String::as_str);
    named.or(first).unwrap_or("-")
}

/// Where the cell stands: "R-TODAY srt, 0.1%, 50ms".
pub(super) fn place(cell: &CellResult) -> String {
    let others = cell.at.iter().filter(|(axis, _)| *axis != PROTOCOL);
    let mut parts = vec![format!("{} {}", cell.experiment, system(cell))];
    parts.extend(others.map(|(_, value)| value.clone()));
    clean(&parts.join(", "))
}

/// Whole numbers from 10 Mbit/s on, two digits below.
pub(super) fn mbps(bps: f64) -> String {
    let mbps = bps / 1e6;
    match mbps {
        _ if mbps >= 10.0 => format!("{mbps:.0}"),
        _ if mbps >= 1.0 => format!("{mbps:.1}"),
        _ => format!("{mbps:.2}"),
    }
}

/// What a program said, in a line: without places of that machine, and not for ever.
pub(super) fn reason(text: &str) -> String {
    let text = clean(&without_places(text));
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

/// No control characters, no columns of its own.
pub(super) fn clean(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ").replace('|', "\\|")
}

/// Absolute paths mean nothing on another machine: from `scenarios` or `results` on, else their last part.
pub(super) fn without_places(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let Some(at) = word.find('/') else {
            return word.to_owned();
        };
        let (before, path) = word.split_at(at);
        let is_absolute = before.chars().all(|c| !c.is_alphanumeric() && c != '.');
        if !is_absolute || path.starts_with("//") {
            return word.to_owned();
        }
        let known = ["/scenarios/", "/results/"].iter();
        let kept = known.filter_map(|part| path.find(part)).min();
        let last = path.trim_end_matches('/').rfind('/');
        let from = kept.or(last).map_or(0, |at| at + 1);
        format!("{before}{}", &path[from..])
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_s_places_are_left_out() {
        for (text, wanted) in [
            (
                "howdah lab run /a/b/scenarios/real/today.toml --on netns",
                "howdah lab run scenarios/real/today.toml --on netns",
            ),
            ("/tmp/m/ladder-netns", "ladder-netns"),
            ("/home/x/results/today/", "results/today/"),
            ("results/today", "results/today"),
            ("'/opt/peers/qcp' is missing", "'qcp' is missing"),
            ("20 Mbit/s of 3 / 4", "20 Mbit/s of 3 / 4"),
            ("https://example.org/a", "https://example.org/a"),
        ] {
            assert_eq!(without_places(text), wanted);
        }
    }

    #[test]
    fn what_a_program_said_stays_in_its_line() {
        assert_eq!(reason("a | b\nc\u{1b}[1m"), "a \\| b c [1m");
        let long = reason(&"\u{e9}".repeat(500));
        assert_eq!(long.chars().count(), MOST_CHARACTERS + 3);
    }
}
