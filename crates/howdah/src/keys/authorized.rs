//! The keys that a server lets in.

use super::files::{self, Exposure};
use super::options;
use super::public::split_word;
use super::{KEY_WORD, KeyError, KeyLine, KeyOptions, ParseKeyError, PublicKey};
use howdah_core::text::without_byte_order_mark;
use std::collections::HashSet;
use std::path::Path;
use std::str::FromStr;

/// Largest file that is read, in bytes: room for some ten thousand keys.
const MAX_FILE: u64 = 1 << 20;

const TWICE: ParseKeyError = ParseKeyError::Option("that key stands on an earlier line already");

/// Keys that stand anywhere in a line that makes no sense.
fn keys_in(line: &str) -> impl Iterator<Item = PublicKey> + '_ {
    let behind_words = line.split(KEY_WORD).skip(1);
    behind_words.filter_map(|rest| {
        let base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
        let rest = rest.trim_start();
        let key = &rest[..rest.find(|c| !base64(c)).unwrap_or(rest.len())];
        format!("{KEY_WORD} {key}").parse().ok()
    })
}

/// One entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuthorizedKey {
    /// What its holder may do.
    pub options: KeyOptions,
    /// The key.
    pub key: PublicKey,
    /// What follows it; empty if nothing does.
    pub comment: String,
}

impl FromStr for AuthorizedKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let text = text.trim_matches([' ', '\t']);
        let plain: Result<KeyLine, _> = text.parse();
        let (options, line) = match plain {
            Err(ParseKeyError::Algorithm) => {
                let (front, line) = options::split(text)?;
                (KeyOptions::parse(front)?, line.parse()?)
            }
            other => (KeyOptions::default(), other?),
        };
        let KeyLine { key, comment } = line;
        Ok(Self {
            options,
            key,
            comment,
        })
    }
}

/// A list of client keys. The empty list lets nobody in.
///
/// The file has one key per line as `howdah key show` prints it, perhaps with [`KeyOptions`] before
/// it; blank lines and lines that start with `#` are skipped. A key may stand there once. It is read strictly: a line that is anything else is an error, so
/// that a mistake never silently locks out or lets in.
#[derive(Clone, Debug, Default)]
pub struct AuthorizedKeys {
    keys: Vec<AuthorizedKey>,
}

impl AuthorizedKeys {
    /// A list that lets nobody in.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file that nobody but its owner can change.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let bytes = files::read(path, MAX_FILE, Exposure::Readable)?;
        let malformed = |(line, reason)| KeyError::MalformedLine {
            path: path.to_owned(),
            line,
            reason,
        };
        let keys = parse_lines(&bytes, str::parse::<AuthorizedKey>).map_err(malformed)?;
        // Which of two sets of options holds must not be a question.
        let mut seen = HashSet::new();
        for (line, entry) in &keys {
            if !seen.insert(entry.key) {
                return Err(malformed((*line, TWICE)));
            }
        }
        Ok(keys.into_iter().map(|(_, key)| key).collect())
    }

    /// The same for somebody who serves already: what makes sense, and the errors of the lines that do not. A key that one of these
    /// is about is not on the list, whatever other lines say of it.
    pub(crate) fn load_what_makes_sense(path: &Path) -> Result<(Self, Vec<KeyError>), KeyError> {
        let bytes = files::read(path, MAX_FILE, Exposure::Readable)?;
        let (mut keys, mut mistakes) = (Vec::<AuthorizedKey>::new(), Vec::new());
        let (mut seen, mut shut_out) = (HashSet::new(), HashSet::new());
        for (line, bytes) in each_line(&bytes) {
            let parsed = parse_line(bytes, str::parse::<AuthorizedKey>);
            let parsed = parsed.and_then(|entry| {
                if seen.insert(entry.key) {
                    Ok(entry)
                } else {
                    shut_out.insert(entry.key);
                    Err(TWICE)
                }
            });
            match parsed {
                Ok(entry) => keys.push(entry),
                Err(reason) => {
                    shut_out.extend(keys_in(&String::from_utf8_lossy(bytes)));
                    let path = path.to_owned();
                    mistakes.push(KeyError::MalformedLine { path, line, reason });
                }
            }
        }
        keys.retain(|entry| !shut_out.contains(&entry.key));
        Ok((Self { keys }, mistakes))
    }

    /// Whether the holder of `key` may come in.
    pub fn contains(&self, key: &PublicKey) -> bool {
        self.find(key).is_some()
    }

    /// The entry of `key`.
    pub fn find(&self, key: &PublicKey) -> Option<&AuthorizedKey> {
        self.keys.iter().find(|entry| entry.key == *key)
    }

    /// All entries in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, AuthorizedKey> {
        self.keys.iter()
    }

    /// The roots of keys that have one of their own.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.keys
            .iter()
            .filter_map(|entry| entry.options.root.as_deref())
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether nobody gets in.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl FromIterator<AuthorizedKey> for AuthorizedKeys {
    fn from_iter<I: IntoIterator<Item = AuthorizedKey>>(entries: I) -> Self {
        Self {
            keys: entries.into_iter().collect(),
        }
    }
}

impl FromIterator<PublicKey> for AuthorizedKeys {
    fn from_iter<I: IntoIterator<Item = PublicKey>>(keys: I) -> Self {
        keys.into_iter()
            .map(|key| AuthorizedKey {
                options: KeyOptions::default(),
                key,
                comment: String::new(),
            })
            .collect()
    }
}

impl<'a> IntoIterator for &'a AuthorizedKeys {
    type Item = &'a AuthorizedKey;
    type IntoIter = std::slice::Iter<'a, AuthorizedKey>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The keys of a file of public lines: one that `howdah key show` printed, a list of authorised keys, or one of known
/// hosts. Public keys are no secret, and nobody is let in by what is read here.
pub fn read_public_lines(path: &Path) -> Result<Vec<KeyLine>, KeyError> {
    let bytes = files::read(path, MAX_FILE, Exposure::Anything)?;
    let parse = |text: &str| match text.parse::<AuthorizedKey>() {
        Ok(AuthorizedKey { key, comment, .. }) => Ok(KeyLine { key, comment }),
        Err(error) => {
            let (_host, rest) = split_word(text.trim_matches([' ', '\t']));
            rest.parse().map_err(|_| error)
        }
    };
    let lines = parse_lines(&bytes, parse).map_err(|(line, reason)| KeyError::MalformedLine {
        path: path.to_owned(),
        line,
        reason,
    })?;
    Ok(lines.into_iter().map(|(_, line)| line).collect())
}

/// Parses each line that is neither blank nor a comment, as far as the first mistake; gives back its number, from 1.
pub(super) fn parse_lines<T>(
    bytes: &[u8],
    parse: impl Fn(&str) -> Result<T, ParseKeyError>,
) -> Result<Vec<(usize, T)>, (usize, ParseKeyError)> {
    each_line(bytes)
        .map(|(number, line)| {
            let entry = parse_line(line, &parse);
            entry.map_or_else(|reason| Err((number, reason)), |entry| Ok((number, entry)))
        })
        .collect()
}

fn parse_line<T>(
    line: &[u8],
    parse: impl Fn(&str) -> Result<T, ParseKeyError>,
) -> Result<T, ParseKeyError> {
    str::from_utf8(line)
        .map_err(|_| ParseKeyError::Utf8)
        .and_then(parse)
}

/// The lines that are neither blank nor comments, without blanks around them, and their numbers, from 1.
pub(super) fn each_line(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let bytes = without_byte_order_mark(bytes);
    let lines = (1..).zip(bytes.split(|&b| b == b'\n'));
    lines.filter_map(|(number, line)| {
        let mut line = line.strip_suffix(b"\r").unwrap_or(line);
        while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = line {
            line = rest;
        }
        (!line.is_empty() && !line.starts_with(b"#")).then_some((number, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Identity;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn load(bytes: &[u8], mode: u32) -> Result<AuthorizedKeys, KeyError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("authorized_keys");
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        AuthorizedKeys::load(&path)
    }

    #[test]
    fn reads_keys_comments_and_blank_lines() {
        let (a, b) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let text = format!(
            "\u{feff}# the lab\n\n{} anna at the lab\r\n  \t\n\t{}  \n# end",
            a.public_key(),
            b.public_key()
        );
        let keys = load(text.as_bytes(), 0o644).unwrap();
        assert_eq!(keys.len(), 2);
        assert!(keys.contains(a.public_key()) && keys.contains(b.public_key()));
        assert_eq!(
            keys.find(a.public_key()).unwrap().comment,
            "anna at the lab"
        );
        assert!(!keys.contains(Identity::generate().unwrap().public_key()));
        assert!(load(b"", 0o600).unwrap().is_empty());
    }

    #[test]
    fn options_stand_before_the_key() {
        let key = *Identity::generate().unwrap().public_key();
        let text = format!("root=\"/data/a b\",read-only {key} anna\n");
        let keys = load(text.as_bytes(), 0o600).unwrap();
        let entry = keys.find(&key).unwrap();
        assert_eq!(entry.options.root.as_deref(), Some(Path::new("/data/a b")));
        assert!(entry.options.read_only && entry.comment == "anna");
        // Twice the same key, with other rights.
        let twice = format!("read-only {key}\n# more\n{key}\n");
        let error = load(twice.as_bytes(), 0o600).unwrap_err().to_string();
        assert!(
            error.contains("authorized_keys:3: that key stands"),
            "{error}"
        );
    }

    #[test]
    fn a_malformed_line_is_named() {
        let key = Identity::generate().unwrap().public_key().to_string();
        for (text, line) in [
            (format!("{key}\nnonsense\n").into_bytes(), 2),
            (format!("#\n\n{key}x\n").into_bytes(), 3),
            ([key.as_bytes(), b"\n\xff\xfe\n"].concat(), 2),
            (format!("{key} a\rb\n").into_bytes(), 1),
            (format!("{key}\0\n").into_bytes(), 1),
            (format!("readonly {key}\n").into_bytes(), 1),
            (b"read-only\n".to_vec(), 1),
            (format!("root=\"/data {key}\n").into_bytes(), 1),
            (format!("{key}\n\u{feff}{key}\n").into_bytes(), 2),
        ] {
            let error = load(&text, 0o600).unwrap_err();
            assert!(matches!(&error, KeyError::MalformedLine { line: l, .. } if *l == line));
            assert!(
                error
                    .to_string()
                    .contains(&format!("authorized_keys:{line}: ")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_that_others_can_change_or_that_is_huge_is_refused() {
        assert!(matches!(
            load(b"", 0o664),
            Err(KeyError::WritableByOthers { .. })
        ));
        assert!(matches!(
            load(b"", 0o602),
            Err(KeyError::WritableByOthers { .. })
        ));
        let huge = vec![b'\n'; (MAX_FILE + 1) as usize];
        assert!(matches!(load(&huge, 0o600), Err(KeyError::TooLarge { .. })));
    }

    proptest! {
        #[test]
        fn hostile_bytes_give_keys_or_a_line_number(bytes: Vec<u8>) {
            let parsed = parse_lines(&bytes, str::parse::<AuthorizedKey>);
            if let Err((line, _)) = parsed {
                prop_assert!(line <= bytes.split(|&b| b == b'\n').count());
            }
        }
    }
}
