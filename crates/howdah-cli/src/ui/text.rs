//! Text that came from elsewhere, made safe for a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes control characters and the characters that turn the direction of writing: both can
/// make a terminal show something else than what is there.
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
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_escaped() {
        assert_eq!(printable("plain ünïcode"), "plain ünïcode");
        assert_eq!(printable("a\x1b[2J\n\u{9b}b"), r"a\u{1b}[2J\n\u{9b}b");
        assert_eq!(printable("fdp.\u{202e}exe"), r"fdp.\u{202e}exe");
    }
}
