//! Paths of other machines, byte for byte.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path, or one name, as the bytes that it is on its machine: names of files need not be UTF-8.
///
/// In the protocol's messages it is a length and the bytes, so that of UTF-8 text it is what a `String` is. In JSON
/// it is a string where it is UTF-8, and an array of bytes otherwise.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct PathBytes(Vec<u8>);

impl PathBytes {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same as a path of this machine.
    pub fn as_path(&self) -> &Path {
        Path::new(self.as_os_str())
    }

    /// The same as a name of this machine.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

impl From<&str> for PathBytes {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for PathBytes {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<&[u8]> for PathBytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_owned())
    }
}

impl From<&OsStr> for PathBytes {
    fn from(name: &OsStr) -> Self {
        name.as_bytes().into()
    }
}

impl PartialEq<str> for PathBytes {
    fn eq(&self, text: &str) -> bool {
        self.0 == text.as_bytes()
    }
}

/// What is not UTF-8 is shown as U+FFFD.
impl fmt::Display for PathBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_path().display().fmt(f)
    }
}

/// Quoted, and escaped for terminals and logs.
impl fmt::Debug for PathBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_os_str(), f)
    }
}

impl Serialize for PathBytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match str::from_utf8(&self.0) {
            Ok(text) => to.serialize_str(text),
            Err(_) => to.serialize_bytes(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for PathBytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            from.deserialize_any(BytesOrText)
        } else {
            from.deserialize_bytes(BytesOrText)
        }
    }
}

struct BytesOrText;

impl<'de> Visitor<'de> for BytesOrText {
    type Value = PathBytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PathBytes, E> {
        Ok(text.into())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<PathBytes, E> {
        Ok(bytes.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<PathBytes, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = items.next_element()? {
            bytes.push(byte);
        }
        Ok(PathBytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let path = PathBytes::from(&*bytes);
            let wire = postcard::to_stdvec(&path).unwrap();
            prop_assert_eq!(&wire, &postcard::to_stdvec(&bytes).unwrap());
            prop_assert_eq!(&postcard::from_bytes::<PathBytes>(&wire).unwrap(), &path);
            let json = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(&serde_json::from_str::<PathBytes>(&json).unwrap(), &path);
        }

        /// What peers of earlier versions send and take.
        #[test]
        fn text_is_what_a_string_is(text in "\\PC{0,20}") {
            let path = PathBytes::from(&*text);
            prop_assert_eq!(postcard::to_stdvec(&path).unwrap(), postcard::to_stdvec(&text).unwrap());
            prop_assert_eq!(serde_json::to_string(&path).unwrap(), serde_json::to_string(&text).unwrap());
        }
    }

    #[test]
    fn hostile_names_are_escaped_in_logs() {
        let path = PathBytes::from(&b"a\n\x1b[2J\xff"[..]);
        assert_eq!(format!("{path:?}"), r#""a\n\u{1b}[2J\xFF""#);
    }
}
