//! The form of small files that are whole or nothing, and of names in them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::Write as _;

/// What stands there is none: nobody finished writing it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("it is torn")]
pub struct Torn;

/// A line of JSON, and one with its BLAKE3.
pub fn sealed<T: Serialize>(what: &T) -> String {
    let line = serde_json::to_string(what).unwrap_or_default();
    format!("{line}\n{}\n", blake3::hash(line.as_bytes()))
}

/// Reads what [`sealed`] wrote.
///
/// # Errors
///
/// Anything else is torn.
pub fn unsealed<T: for<'de> Deserialize<'de>>(text: &[u8]) -> Result<T, Torn> {
    let text = str::from_utf8(text).map_err(|_| Torn)?;
    let (line, check) = text.split_once('\n').ok_or(Torn)?;
    if check.strip_suffix('\n') != Some(blake3::hash(line.as_bytes()).to_hex().as_str()) {
        return Err(Torn);
    }
    serde_json::from_str(line).map_err(|_| Torn)
}

/// A path in a tree, of any bytes: below its top, with slashes, without dots. In JSON it is text; bytes that are no printable ASCII are
/// `%XX`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Name(Vec<u8>);

impl Name {
    /// `None`: it leads out of the tree, or is no path.
    pub fn new(path: impl Into<Vec<u8>>) -> Option<Self> {
        let path = path.into();
        let is_plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
        path.split(|byte| *byte == b'/')
            .all(is_plain)
            .then_some(Self(path))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bytes of it in JSON.
    pub(crate) fn text_len(&self) -> usize {
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' if *byte != b'%');
        let others = self.0.iter().filter(|byte| !is_plain(byte)).count();
        self.0.len() + 2 * others
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(self.0.len());
        for byte in &self.0 {
            match byte {
                b' '..=b'~' if *byte != b'%' => text.push(char::from(*byte)),
                _ => drop(write!(text, "%{byte:02X}")),
            }
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let no_name = || serde::de::Error::custom("no name of a tree");
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        let mut path = Vec::with_capacity(text.len());
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            if byte != b'%' {
                path.push(byte);
                continue;
            }
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            let byte = digit().zip(digit()).map(|(high, low)| high << 4 | low);
            path.push(
                byte.and_then(|byte| u8::try_from(byte).ok())
                    .ok_or_else(no_name)?,
            );
        }
        Self::new(path).ok_or_else(no_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_bytes_come_back_and_none_leads_out() {
        for path in [
            &b"a"[..],
            b"a/b c",
            b"100%",
            b"%41",
            b"\n\\\"",
            b"\xff\xfe/\xc3\xa4",
            b"..a/b..",
        ] {
            let name = Name::new(path).unwrap();
            let text = serde_json::to_string(&name).unwrap();
            assert!(text.is_ascii(), "{text}");
            assert_eq!(serde_json::from_str::<Name>(&text).unwrap(), name);
        }
        for path in ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\0"] {
            assert_eq!(Name::new(path), None, "{path}");
            let text = path.replace('\0', "%00");
            assert!(
                serde_json::from_str::<Name>(&format!("{text:?}")).is_err(),
                "{path}"
            );
        }
        for text in ["\"%\"", "\"%4\"", "\"%4g\"", "3"] {
            assert!(serde_json::from_str::<Name>(text).is_err(), "{text}");
        }
    }
}
