//! Text as people's editors write it.

/// UTF-8's byte order mark, with which editors and shells of Windows begin a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text without that. It is no part of the first line.
pub fn without_byte_order_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// The same of a first line that is kept in a buffer.
pub fn remove_byte_order_mark(line: &mut Vec<u8>) {
    let mark = line.len() - without_byte_order_mark(line).len();
    line.drain(..mark);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_mark_at_the_very_beginning_goes() {
        for (text, rest) in [
            ("\u{feff}a", "a"),
            ("a\u{feff}", "a\u{feff}"),
            ("\u{feff}\u{feff}a", "\u{feff}a"),
            ("\u{feff}", ""),
            ("", ""),
        ] {
            assert_eq!(without_byte_order_mark(text.as_bytes()), rest.as_bytes());
            let mut line = text.as_bytes().to_vec();
            remove_byte_order_mark(&mut line);
            assert_eq!(line, rest.as_bytes());
        }
        // A part of one is none.
        assert_eq!(without_byte_order_mark(b"\xef\xbb"), b"\xef\xbb");
    }
}
