//! Text that came from elsewhere, made safe for a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes control characters and the characters that cannot be seen or turn the direction of writing:
/// all of them can make a terminal show something else than what is there (A59).
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_deceptive(c) {
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Marks of direction, separators of lines, and what has no width or no meaning.
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// The end of `name`, which tells files apart, in at most `width` columns.
pub(crate) fn fit_end(name: &str, width: usize) -> Cow<'_, str> {
    if console::measure_text_width(name) <= width {
        return Cow::Borrowed(name);
    }
    let room = width.saturating_sub(3);
    let mut start = name.len();
    let mut used = 0;
    for (at, c) in name.char_indices().rev() {
        let columns = console::measure_text_width(c.encode_utf8(&mut [0; 4]));
        if used + columns > room {
            break;
        }
        used += columns;
        start = at;
    }
    Cow::Owned(format!("...{}", &name[start..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a59_control_and_direction_characters_are_escaped() {
        assert_eq!(printable("plain ünïcode 漢字"), "plain ünïcode 漢字");
        assert_eq!(printable("a\x1b[2J\n\u{9b}b"), r"a\u{1b}[2J\n\u{9b}b");
        assert_eq!(printable("fdp.\u{202e}exe"), r"fdp.\u{202e}exe");
        assert_eq!(printable("a\u{200b}b\u{2028}c"), r"a\u{200b}b\u{2028}c");
        assert_eq!(printable("\u{feff}x\u{e0041}"), r"\u{feff}x\u{e0041}");
        assert_eq!(
            printable("tab\tbell\x07del\x7f"),
            r"tab\tbell\u{7}del\u{7f}"
        );
    }

    #[test]
    fn a59_no_character_of_any_text_is_left_that_could_act() {
        for c in ('\0'..=char::MAX).step_by(1) {
            let text = c.to_string();
            let shown = printable(&text);
            assert!(!shown.chars().any(char::is_control), "{c:?}");
        }
    }

    #[test]
    fn the_end_of_a_long_name_is_kept() {
        assert_eq!(fit_end("short", 10), "short");
        assert_eq!(fit_end("a/long/way/to/file.txt", 12), ".../file.txt");
        assert_eq!(fit_end("漢字漢字漢字", 9), "...字漢字");
        assert_eq!(fit_end("abcdef", 2), "...");
    }
}
