//! What stands in brackets in a pattern, as git and rsync read it.
//!
//! To them `\` takes away the meaning of a character there, too, `[:alpha:]` and its like are sets of characters, and no set has a
//! slash, whatever it leaves out. To the library that compiles patterns none of this is so; what comes out of here means the same
//! to both.

use std::borrow::Cow;
use std::str::Chars;

const UNCLOSED: &str = "a '[' in it has no ']'";
/// No path has it.
const NOBODY: char = '\0';

/// A pattern in which sets are written in the library's words. An error if one of them is none.
pub fn spelt_out(pattern: &str) -> Result<Cow<'_, str>, &'static str> {
    if !pattern.contains('[') {
        return Ok(Cow::Borrowed(pattern));
    }
    let mut plain = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                plain.push(c);
                plain.extend(chars.next());
            }
            '[' => Set::read(&mut chars)?.write(&mut plain),
            c => plain.push(c),
        }
    }
    Ok(Cow::Owned(plain))
}

/// What a pair of brackets stands for.
struct Set {
    negated: bool,
    ascii: [bool; 128],
    /// First and last ones.
    others: Vec<(char, char)>,
}

impl Set {
    /// What stands behind a `[`.
    fn read(chars: &mut Chars<'_>) -> Result<Self, &'static str> {
        let mut set = Self {
            negated: chars.as_str().starts_with(['!', '^']),
            ascii: [false; 128],
            others: Vec::new(),
        };
        if set.negated {
            chars.next();
        }
        // What a range may begin with.
        let mut before = None;
        // The first one may be a ']'.
        let mut c = chars.next().ok_or(UNCLOSED)?;
        loop {
            let rest = chars.as_str();
            before = match (c, before) {
                ('\\', _) => Some(set.add(chars.next().ok_or(UNCLOSED)?)),
                ('-', Some(first)) if !rest.starts_with(']') => {
                    let last = match chars.next() {
                        Some('\\') => chars.next(),
                        last => last,
                    };
                    set.add_range(first, last.ok_or(UNCLOSED)?);
                    None
                }
                ('[', _) if rest.starts_with(':') => {
                    let end = rest.find(']').ok_or(UNCLOSED)?;
                    let name = rest.get(1..end).and_then(|name| name.strip_suffix(':'));
                    if let Some(name) = name {
                        set.add_named(name)?;
                        *chars = rest.get(end + 1..).unwrap_or_default().chars();
                        None
                    } else {
                        Some(set.add(c))
                    }
                }
                (c, _) => Some(set.add(c)),
            };
            c = chars.next().ok_or(UNCLOSED)?;
            if c == ']' {
                return Ok(set);
            }
        }
    }

    fn add(&mut self, c: char) -> char {
        self.add_range(c, c);
        c
    }

    fn add_range(&mut self, first: char, last: char) {
        for (c, is_in) in ('\0'..).zip(&mut self.ascii) {
            *is_in |= (first..=last).contains(&c);
        }
        if last >= '\u{80}' && first <= last {
            self.others.push((first.max('\u{80}'), last));
        }
    }

    fn add_named(&mut self, name: &str) -> Result<(), &'static str> {
        let is_in: fn(&char) -> bool = match name {
            "alnum" => char::is_ascii_alphanumeric,
            "alpha" => char::is_ascii_alphabetic,
            "blank" => |c| matches!(c, ' ' | '\t'),
            "cntrl" => char::is_ascii_control,
            "digit" => char::is_ascii_digit,
            "graph" => char::is_ascii_graphic,
            "lower" => char::is_ascii_lowercase,
            "print" => |c| *c == ' ' || c.is_ascii_graphic(),
            "punct" => char::is_ascii_punctuation,
            "space" => |c| *c == '\x0b' || c.is_ascii_whitespace(),
            "upper" => char::is_ascii_uppercase,
            "xdigit" => char::is_ascii_hexdigit,
            _ => return Err("there is no such set of characters as '[:' in it names"),
        };
        for (c, there) in ('\0'..).zip(&mut self.ascii) {
            *there |= is_in(&c);
        }
        Ok(())
    }

    fn has(&self, c: char) -> bool {
        let at = usize::try_from(u32::from(c)).unwrap_or(usize::MAX);
        self.ascii.get(at).is_some_and(|&is_in| is_in)
    }

    /// Where each character stands matters: `]` is itself in front only, `-` at the end, `!` and `^` elsewhere than in front.
    fn write(&self, out: &mut String) {
        out.push_str(if self.negated { "[!" } else { "[" });
        let begins = out.len();
        let put = |c: char, out: &mut String| {
            if self.has(c) {
                out.push(c);
            }
        };
        put(']', out);
        if self.negated {
            out.push('/');
        }
        self.write_runs(out);
        for &(first, last) in &self.others {
            out.push(first);
            if first != last {
                out.extend(['-', last]);
            }
        }
        put('[', out);
        if out.len() == begins {
            out.push(NOBODY);
        }
        for c in ['^', '!', '\\', '-'] {
            put(c, out);
        }
        out.push(']');
    }

    /// All that means nothing in brackets.
    fn write_runs(&self, out: &mut String) {
        const SPECIAL: [char; 7] = [']', '/', '[', '^', '!', '\\', '-'];
        let mut run: Option<(char, char)> = None;
        let all = ('\0'..).zip(&self.ascii);
        // One more, so that the last run ends.
        for (c, is_in) in all.map(|(c, &is_in)| (c, is_in)).chain([('\u{80}', false)]) {
            run = match run {
                _ if is_in && !SPECIAL.contains(&c) => Some((run.map_or(c, |(first, _)| first), c)),
                Some((first, last)) => {
                    out.push(first);
                    if first != last {
                        out.extend(['-', last]);
                    }
                    None
                }
                None => None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use globset::GlobBuilder;

    fn is_match(pattern: &str, path: &str) -> bool {
        let plain = spelt_out(pattern).unwrap();
        let mut glob = GlobBuilder::new(&plain);
        let glob = glob.literal_separator(true).backslash_escape(true).build();
        glob.unwrap().compile_matcher().is_match(path)
    }

    /// What git says of these (`git check-ignore`).
    #[test]
    fn sets_mean_what_they_mean_to_git() {
        for (pattern, those, others) in [
            ("a[!b]c", &["axc", "a]c"][..], &["a/c", "abc", "ac"][..]),
            ("a[^b]c", &["axc", "a^c"], &["a/c", "abc"]),
            ("[a/b]c", &["ac", "bc"], &["/c", "c"]),
            ("x[/]y", &[], &["x/y", "xy"]),
            ("[[:alpha:]]", &["a", "Z"], &["1", "[", ":", "a]"]),
            ("[[:upper:][:digit:]_]", &["A", "1", "_"], &["a", ":"]),
            ("[![:space:]]x", &["ax"], &[" x", "\tx", "\u{b}x", "/x"]),
            ("[[:alpha:]-z]", &["a", "-", "z"], &["1"]),
            (
                "[a[:punct:]]",
                &["a", "-", "]", "!", "^", "\\"],
                &["b", "/"],
            ),
            ("[\\]]", &["]"], &["\\", "\\]"]),
            ("[\\]x]", &["]", "x"], &["\\"]),
            ("[a\\-z]", &["a", "-", "z"], &["b", "\\"]),
            ("[\\\\]", &["\\"], &["a"]),
            ("[a-\\c]", &["a", "b", "c"], &["\\", "d"]),
            ("[]a]", &["]", "a"], &["b", "]a"]),
            ("[]-a]", &["]", "^", "_", "`", "a"], &["b", "-"]),
            ("[!]a]", &["b"], &["]", "a", "/"]),
            ("[!-]", &["a"], &["-", "/"]),
            ("[-a]", &["-", "a"], &["b"]),
            ("[a-]", &["-", "a"], &["b"]),
            ("[z-a]", &["z"], &["a", "m", "-"]),
            ("[a-[:digit:]]", &["a]"], &["5", "a"]),
            ("[[]", &["["], &["a"]),
            ("[[:]", &["[", ":"], &["a"]),
            ("[*]", &["*"], &["a"]),
            ("[\\^]", &["^"], &["a", "\\"]),
            ("[\\^!]", &["^", "!"], &["a", "\\"]),
            ("[\\!-]", &["!", "-"], &["a", "^"]),
            ("\\[a]", &["[a]"], &["a"]),
            ("[é]", &[], &["e"]),
            ("[!é]", &["e"], &["/"]),
        ] {
            for path in those {
                assert!(is_match(pattern, path), "{pattern} {path}");
            }
            for path in others {
                assert!(!is_match(pattern, path), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for pattern in [
            "[",
            "[a",
            "a[]",
            "[!]",
            "[a\\",
            "[a-",
            "[[:alpha:]",
            "[[:foo:]]",
            "[[::]]",
        ] {
            assert!(spelt_out(pattern).is_err(), "{pattern}");
        }
    }
}
