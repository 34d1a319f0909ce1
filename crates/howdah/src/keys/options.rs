//! What may stand in front of an authorised key: `root="/data/anna",read-only,max-rate="2gbit" KEY`.

use super::ParseKeyError;
use super::networks::Networks;
use howdah_core::{Rate, units};
use howdah_session::Metadata;
use jiff::civil::Date;
use std::path::PathBuf;

/// What the holder of a key may do. The default is everything below the server's root.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KeyOptions {
    /// The directory below which he moves, instead of the server's.
    pub root: Option<PathBuf>,
    /// He may read and not write.
    pub read_only: bool,
    /// He may write and not read.
    pub write_only: bool,
    /// He adds files, and neither replaces nor deletes any.
    pub no_delete: bool,
    /// The server neither sends to him nor takes from him faster than that, in each of his sessions.
    pub max_rate: Option<Rate>,
    /// He may have the server send at a rate of his choice, whatever else the path carries.
    pub fixed_rate: bool,
    /// So many sessions at a time.
    pub max_sessions: Option<u32>,
    /// In each session he brings at most so many bytes.
    pub max_bytes: Option<u64>,
    /// In each session he brings at most so many files.
    pub max_files: Option<u64>,
    /// The key is good through that day, in UTC.
    pub expires: Option<Date>,
    /// He comes from one of these networks.
    pub from: Option<Networks>,
    /// No more of the metadata does he set, or is he shown. Without a word he sets times and permissions, and is shown all.
    pub metadata: Option<Metadata>,
    /// He names what he wants, and does not learn what else is there.
    pub no_list: bool,
}

impl KeyOptions {
    /// Whether he may do less than somebody without any of them.
    pub(crate) fn is_limited(&self) -> bool {
        let rest = Self {
            fixed_rate: false,
            metadata: self.metadata.filter(|metadata| *metadata != Metadata::All),
            ..self.clone()
        };
        rest != Self::default()
    }
}

/// Splits a line into its options and the rest: at the first blank outside of quotes.
pub(super) fn split(line: &str) -> Result<(&str, &str), ParseKeyError> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ' ' | '\t' if !quoted => {
                return Ok((&line[..at], line[at..].trim_start_matches([' ', '\t'])));
            }
            _ => {}
        }
    }
    if quoted {
        return Err(ParseKeyError::Option("a quotation mark is not closed"));
    }
    Ok((line, ""))
}

impl KeyOptions {
    /// Reads options as they stand in front of a key, separated by commas.
    pub(super) fn parse(text: &str) -> Result<Self, ParseKeyError> {
        let mut options = Self::default();
        let mut rest = text;
        loop {
            let end = rest.find([',', '=']).unwrap_or(rest.len());
            let name = &rest[..end];
            let value = if let Some(quoted) = rest[end..].strip_prefix('=') {
                let (value, after) = unquote(quoted)?;
                rest = after;
                Some(value)
            } else {
                rest = &rest[end..];
                None
            };
            options.set(name, value)?;
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None if rest.is_empty() => break,
                None => return Err(ParseKeyError::Option("options are separated by commas")),
            }
        }
        if options.read_only && options.write_only {
            return Err(ParseKeyError::Option(
                "read-only and write-only leave nothing",
            ));
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: Option<String>) -> Result<(), ParseKeyError> {
        let twice = Err(ParseKeyError::Option("an option stands there twice"));
        match (name, value) {
            ("read-only", None) if self.read_only => return twice,
            ("read-only", None) => self.read_only = true,
            ("write-only", None) if self.write_only => return twice,
            ("write-only", None) => self.write_only = true,
            ("no-delete", None) if self.no_delete => return twice,
            ("no-delete", None) => self.no_delete = true,
            ("root", Some(_)) if self.root.is_some() => return twice,
            ("root", Some(dir)) if dir.starts_with('/') => self.root = Some(dir.into()),
            ("root", _) => {
                return Err(ParseKeyError::Option(
                    "root takes an absolute path in quotes: root=\"/data/anna\"",
                ));
            }
            ("max-rate", Some(_)) if self.max_rate.is_some() => return twice,
            ("max-rate", value) => {
                let rate = value.and_then(|rate| units::parse_rate(&rate).ok());
                let rate = rate.filter(|rate| *rate >= SMALLEST_RATE);
                self.max_rate = Some(rate.ok_or(ParseKeyError::Option(
                    "max-rate takes a rate of at least 64kbit in quotes: max-rate=\"2gbit\"",
                ))?);
            }
            ("fixed-rate", None) if self.fixed_rate => return twice,
            ("fixed-rate", None) => self.fixed_rate = true,
            ("max-sessions", Some(_)) if self.max_sessions.is_some() => return twice,
            ("max-sessions", value) => {
                let count = value.and_then(|count| a_number(&count));
                let count = count.and_then(|count| u32::try_from(count).ok());
                self.max_sessions = Some(count.filter(|count| *count > 0).ok_or(
                    ParseKeyError::Option(
                        "max-sessions takes a number in quotes: max-sessions=\"4\"",
                    ),
                )?);
            }
            ("max-bytes", Some(_)) if self.max_bytes.is_some() => return twice,
            ("max-bytes", value) => {
                let bytes = value.and_then(|size| units::parse_bytes(&size).ok());
                self.max_bytes = Some(bytes.ok_or(ParseKeyError::Option(
                    "max-bytes takes a size in quotes: max-bytes=\"2TB\"",
                ))?);
            }
            ("max-files", Some(_)) if self.max_files.is_some() => return twice,
            ("max-files", value) => {
                let count = value.and_then(|count| a_number(&count));
                self.max_files = Some(count.ok_or(ParseKeyError::Option(
                    "max-files takes a number in quotes: max-files=\"100000\"",
                ))?);
            }
            ("expires", Some(_)) if self.expires.is_some() => return twice,
            ("expires", value) => {
                let date = value.and_then(|date| a_day(&date));
                self.expires = Some(date.ok_or(ParseKeyError::Option(
                    "expires takes a day in quotes: expires=\"2027-01-31\"",
                ))?);
            }
            ("from", Some(_)) if self.from.is_some() => return twice,
            ("from", value) => {
                let networks = value.and_then(|list| Networks::parse(&list));
                self.from = Some(networks.ok_or(ParseKeyError::Option(
                    "from takes networks in quotes: from=\"192.0.2.0/24,2001:db8::/32\"",
                ))?);
            }
            ("metadata", Some(_)) if self.metadata.is_some() => return twice,
            ("metadata", value) => {
                let metadata = value.and_then(|text| text.parse().ok());
                self.metadata = Some(metadata.ok_or(ParseKeyError::Option(
                    "metadata takes none, times, modes or all in quotes: metadata=\"all\"",
                ))?);
            }
            ("no-list", None) if self.no_list => return twice,
            ("no-list", None) => self.no_list = true,
            _ => {
                return Err(ParseKeyError::Option(
                    "it begins with neither 'howdah-ed25519' nor an option (root=\"DIR\", read-only, \
                     write-only, no-delete, max-rate=\"RATE\", fixed-rate, max-sessions=\"N\", \
                     max-bytes=\"SIZE\", max-files=\"N\", expires=\"DAY\", from=\"NETWORKS\", \
                     metadata=\"none|times|modes|all\", no-list)",
                ));
            }
        }
        Ok(())
    }
}

/// `2027-01-31` and nothing else: of a time or a zone behind it nothing would be kept, and the key would be good for longer
/// than is written.
fn a_day(text: &str) -> Option<Date> {
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let digits = [0, 1, 2, 3, 5, 6, 8, 9].into_iter().all(is_digit);
    let day = (text.len() == 10 && digits).then(|| text.parse().ok())?;
    day.filter(|day: &Date| day.to_string() == text)
}

/// Digits and nothing else.
fn a_number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Below this nothing works any more, not even the end of a session.
const SMALLEST_RATE: Rate = Rate::from_bits_per_sec(64_000);

/// The text in quotes, in which a backslash stands before a quotation mark or a backslash; and what follows.
fn unquote(text: &str) -> Result<(String, &str), ParseKeyError> {
    let error = ParseKeyError::Option("the value of an option stands in quotes");
    let mut value = String::new();
    let mut chars = text.strip_prefix('"').ok_or(error)?.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, &text[at + 2..])),
            '\\' => match chars.next() {
                Some((_, c @ ('"' | '\\'))) => value.push(c),
                _ => return Err(error),
            },
            c => value.push(c),
        }
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn options_are_read_as_they_are_meant() {
        let gbit = Rate::from_gbit_per_sec(2);
        let all = KeyOptions::parse(r#"root="/data/a \"b\", c\\",read-only,max-rate="2gbit""#);
        let want = KeyOptions {
            root: Some(r#"/data/a "b", c\"#.into()),
            read_only: true,
            write_only: false,
            no_delete: false,
            max_rate: Some(gbit),
            ..KeyOptions::default()
        };
        assert_eq!(all, Ok(want));
        assert!(KeyOptions::parse("write-only").is_ok_and(|o| o.write_only && !o.no_delete));
        assert!(KeyOptions::parse("no-delete").is_ok_and(|o| o.no_delete && !o.write_only));
        let line = "root=\"/a b\",read-only \t howdah-ed25519 AAAA anna";
        let split_line = ("root=\"/a b\",read-only", "howdah-ed25519 AAAA anna");
        assert_eq!(split(line), Ok(split_line));
    }

    #[test]
    fn a_mistake_never_lets_in_more_than_was_meant() {
        for (text, part) in [
            ("", "nor an option"),
            ("readonly", "nor an option"),
            ("READ-ONLY", "nor an option"),
            ("read-only=\"no\"", "nor an option"),
            ("read-only,", "nor an option"),
            (",read-only", "nor an option"),
            ("read-only,write-only", "leave nothing"),
            ("read-only,read-only", "twice"),
            ("no-delete,no-delete", "twice"),
            ("no-delete=\"no\"", "nor an option"),
            ("root=\"data\"", "absolute path"),
            ("root", "absolute path"),
            ("root=/data", "in quotes"),
            ("root=\"/a\"read-only", "commas"),
            ("root=\"/a\",root=\"/b\"", "twice"),
            ("root=\"/a\\n\"", "in quotes"),
            ("max-rate=\"much\"", "max-rate takes"),
            ("max-rate=\"0bit\"", "max-rate takes"),
            ("max-rate", "max-rate takes"),
            ("fixed-rate=\"1gbit\"", "nor an option"),
            ("max-sessions=\"0\"", "max-sessions takes"),
            ("max-sessions=\"-1\"", "max-sessions takes"),
            ("max-sessions", "max-sessions takes"),
            ("max-bytes=\"much\"", "max-bytes takes"),
            ("max-files=\"1.5\"", "max-files takes"),
            ("expires=\"tomorrow\"", "expires takes"),
            ("expires=\"2027-02-30\"", "expires takes"),
            ("expires=\"2027-01-31T10:00:00\"", "expires takes"),
            (
                "expires=\"2027-01-31T10:00:00+02:00[Europe/Berlin]\"",
                "expires takes",
            ),
            ("expires=\"2027-01-31 10:00\"", "expires takes"),
            ("expires=\"20270131\"", "expires takes"),
            ("expires=\"+002027-01-31\"", "expires takes"),
            ("expires=\"2027-1-31\"", "expires takes"),
            ("expires=\" 2027-01-31\"", "expires takes"),
            ("expires=\"31.01.2027\"", "expires takes"),
            ("expires=\"never\"", "expires takes"),
            ("expires", "expires takes"),
            ("max-sessions=\"+4\"", "max-sessions takes"),
            ("max-sessions=\"4294967296\"", "max-sessions takes"),
            ("max-files=\"+4\"", "max-files takes"),
            ("max-files=\" 4\"", "max-files takes"),
            ("max-files=\"18446744073709551616\"", "max-files takes"),
            ("from=\"\"", "from takes"),
            ("from=\"10.0.0.0/33\"", "from takes"),
            ("from=\"10.0.0.1,\"", "from takes"),
            ("from=\"example.org\"", "from takes"),
            ("from=\"10.0.0.0/+8\"", "from takes"),
            ("from=\"10.0.0.0/\"", "from takes"),
            ("from=\"10.0.0.0/8/8\"", "from takes"),
            ("from=\"!10.0.0.1\"", "from takes"),
            ("from=\"10.0.0.*\"", "from takes"),
            ("from=\"10.0.0.1,,10.0.0.2\"", "from takes"),
            ("from=\"fe80::1%eth0\"", "from takes"),
            ("from=\"::ffff:192.0.2.0/95\"", "from takes"),
            ("from", "from takes"),
            ("from=\"10.0.0.1\",from=\"10.0.0.2\"", "twice"),
            ("metadata", "metadata takes"),
            ("metadata=\"\"", "metadata takes"),
            ("metadata=\"owners\"", "metadata takes"),
            ("metadata=\"All\"", "metadata takes"),
            ("metadata=\"all\",metadata=\"none\"", "twice"),
            ("no-list=\"yes\"", "nor an option"),
            ("no-list,no-list", "twice"),
        ] {
            let error = KeyOptions::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(split("root=\"/a").is_err());
    }

    proptest! {
        #[test]
        fn any_directory_can_be_a_root(dir in "/\\PC{0,40}") {
            let quoted = dir.replace('\\', "\\\\").replace('"', "\\\"");
            let line = format!("root=\"{quoted}\" rest of it");
            let (options, rest) = split(&line).expect("closed");
            prop_assert_eq!(rest, "rest of it");
            prop_assert_eq!(KeyOptions::parse(options).expect("a root").root, Some(dir.into()));
        }

        #[test]
        fn no_text_panics(text in "\\PC*|[a-z=\"\\\\, -]{0,40}") {
            if let Ok((options, _)) = split(&text) {
                let _ = KeyOptions::parse(options);
            }
        }
    }
}
