//! Public keys and their one-line text form.

use aws_lc_rs::digest;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use std::fmt;
use std::str::FromStr;

/// First word of a key line.
pub const KEY_WORD: &str = "howdah-ed25519";
/// DER of everything in an Ed25519 `SubjectPublicKeyInfo` before the 32 bytes of the key
/// (RFC 8410, section 4).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
const SPKI_LEN: usize = SPKI_PREFIX.len() + 32;
/// Longest comment of a key line, in bytes.
const MAX_COMMENT: usize = 256;

/// An Ed25519 public key.
///
/// Its text form is `howdah-ed25519` and the base64 of its 32 bytes.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PublicKey {
    spki: [u8; SPKI_LEN],
}

/// A line of text with a key and perhaps a comment, as `howdah key show` prints it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyLine {
    /// The key.
    pub key: PublicKey,
    /// What follows it; empty if nothing does.
    pub comment: String,
}

/// Text that is not a public key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseKeyError {
    /// The first word is not `howdah-ed25519`.
    #[error("a key starts with 'howdah-ed25519', this line does not")]
    Algorithm,
    /// The second word is not base64.
    #[error("the key is not valid base64")]
    Base64,
    /// The comment is longer than 256 bytes.
    #[error("the comment is longer than {MAX_COMMENT} bytes")]
    CommentTooLong,
    /// A control character.
    #[error("it holds a control character")]
    ControlCharacter,
    /// An Ed25519 public key is 32 bytes.
    #[error("the key is {0} bytes long, an Ed25519 key is 32")]
    Length(usize),
    /// A line of known hosts does not start with `HOST:PORT`.
    #[error("the line does not start with HOST:PORT")]
    Host,
    /// No key at all.
    #[error("the key is missing")]
    Missing,
    /// An option in front of a key.
    #[error("{0}")]
    Option(&'static str),
    /// Every point of that kind lets anybody sign in its name.
    #[error("the key is one of the few that anybody can sign for")]
    SmallOrder,
    /// Not UTF-8.
    #[error("it is not UTF-8 text")]
    Utf8,
}

impl PublicKey {
    /// The key with these 32 bytes (RFC 8032, section 5.1.5).
    pub fn from_raw(raw: [u8; 32]) -> Self {
        let mut spki = [0; SPKI_LEN];
        spki[..SPKI_PREFIX.len()].copy_from_slice(&SPKI_PREFIX);
        spki[SPKI_PREFIX.len()..].copy_from_slice(&raw);
        Self { spki }
    }

    /// Reads a DER `SubjectPublicKeyInfo`, as TLS carries it; `None` unless it is Ed25519, and one that only its
    /// owner can sign for.
    pub fn from_spki_der(der: &[u8]) -> Option<Self> {
        let raw = der.strip_prefix(&SPKI_PREFIX)?.try_into().ok()?;
        (!is_small_order(&raw)).then(|| Self::from_raw(raw))
    }

    /// DER `SubjectPublicKeyInfo`, 44 bytes.
    pub fn spki_der(&self) -> &[u8] {
        &self.spki
    }

    /// The 32 bytes of the key.
    pub fn raw(&self) -> &[u8] {
        &self.spki[SPKI_PREFIX.len()..]
    }

    /// Whether its owner has signed these bytes.
    pub(crate) fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, self.raw());
        key.verify(bytes, signature).is_ok()
    }

    /// Short form for people to compare: `SHA256:` and the base64 of the digest of the 44 bytes.
    pub fn fingerprint(&self) -> String {
        let digest = digest::digest(&digest::SHA256, &self.spki);
        format!("SHA256:{}", STANDARD_NO_PAD.encode(digest))
    }
}

impl FromStr for PublicKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        text.parse().map(|line: KeyLine| line.key)
    }
}

impl FromStr for KeyLine {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let text = text.trim_matches([' ', '\t']);
        if text.chars().any(|c| c.is_control() && c != '\t') {
            return Err(ParseKeyError::ControlCharacter);
        }
        let (algorithm, rest) = split_word(text);
        if algorithm != KEY_WORD {
            return Err(ParseKeyError::Algorithm);
        }
        let (key, comment) = split_word(rest);
        if key.is_empty() {
            return Err(ParseKeyError::Missing);
        }
        if comment.len() > MAX_COMMENT {
            return Err(ParseKeyError::CommentTooLong);
        }
        let raw = STANDARD.decode(key).map_err(|_| ParseKeyError::Base64)?;
        let raw: [u8; 32] = raw
            .try_into()
            .map_err(|raw: Vec<u8>| ParseKeyError::Length(raw.len()))?;
        if is_small_order(&raw) {
            return Err(ParseKeyError::SmallOrder);
        }
        Ok(Self {
            key: PublicKey::from_raw(raw),
            comment: comment.to_owned(),
        })
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEY_WORD} {}", STANDARD.encode(self.raw()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl fmt::Display for KeyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)?;
        if self.comment.is_empty() {
            Ok(())
        } else {
            write!(f, " {}", self.comment)
        }
    }
}

/// The first word and what follows the blanks after it.
pub(super) fn split_word(text: &str) -> (&str, &str) {
    match text.find([' ', '\t']) {
        Some(at) => (&text[..at], text[at..].trim_matches([' ', '\t'])),
        None => (text, ""),
    }
}

/// Whether the point has an order of at most 8: then a signature says nothing about its maker.
///
/// These are all encodings of such points, the sign bit left out.
fn is_small_order(raw: &[u8; 32]) -> bool {
    const P_LOW: u8 = 0xed;
    const ORDER_8: [[u8; 32]; 2] = [
        [
            0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef,
            0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88,
            0x6d, 0x53, 0xfc, 0x05,
        ],
        [
            0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10,
            0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77,
            0x92, 0xac, 0x03, 0x7a,
        ],
    ];
    let mut y = *raw;
    y[31] &= 0x7f;
    let near_p = y[31] == 0x7f && y[1..31].iter().all(|&b| b == 0xff);
    let near_0 = y[1..].iter().all(|&b| b == 0);
    // y = 0 and 1, y = p - 1, and the same written as p, p + 1.
    (near_0 && y[0] <= 1)
        || (near_p && (P_LOW - 1..=P_LOW + 1).contains(&y[0]))
        || ORDER_8.contains(&y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Public key of the first test of RFC 8032, section 7.1.
    const LINE: &str = "howdah-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

    #[test]
    fn the_text_form_and_the_der_form_are_stable() {
        let line: KeyLine = format!("{LINE} anna@site").parse().unwrap();
        assert_eq!(line.comment, "anna@site");
        assert_eq!(line.key.to_string(), LINE);
        assert_eq!(line.to_string(), format!("{LINE} anna@site"));
        assert_eq!(line.key.spki_der().len(), 44);
        assert_eq!(
            PublicKey::from_spki_der(line.key.spki_der()),
            Some(line.key)
        );
        assert_eq!(
            line.key.fingerprint(),
            "SHA256:BuP9j9opu2CrWVV95h7bCuzbIxE0vjDnW0Vfjht5L6k"
        );
    }

    #[test]
    fn each_mistake_has_its_name() {
        for (text, want) in [
            ("", ParseKeyError::Algorithm),
            ("ssh-ed25519 AAAA", ParseKeyError::Algorithm),
            ("howdah-ed25519", ParseKeyError::Missing),
            ("howdah-ed25519 \t ", ParseKeyError::Missing),
            ("howdah-ed25519 !!!!", ParseKeyError::Base64),
            ("howdah-ed25519 AAAA", ParseKeyError::Length(3)),
            (&format!("{LINE}\u{1b}[2J"), ParseKeyError::ControlCharacter),
            (&format!("{LINE} a\u{7}"), ParseKeyError::ControlCharacter),
            (
                &format!("{LINE} {}", "c".repeat(257)),
                ParseKeyError::CommentTooLong,
            ),
            // Bits that the length does not need, and a missing '='.
            (
                "howdah-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURp=",
                ParseKeyError::Base64,
            ),
            (
                "howdah-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo",
                ParseKeyError::Base64,
            ),
        ] {
            assert_eq!(text.parse::<KeyLine>().unwrap_err(), want, "{text:?}");
        }
    }

    #[test]
    fn h13_keys_that_anybody_can_sign_for_are_refused() {
        let mut one = [0; 32];
        one[0] = 1;
        let mut minus_one = [0xff; 32];
        minus_one[0] = 0xec;
        minus_one[31] = 0x7f;
        let mut negative_zero = [0; 32];
        negative_zero[31] = 0x80;
        for raw in [[0; 32], one, minus_one, negative_zero] {
            let key = PublicKey::from_raw(raw);
            // Neither from a file nor from a peer.
            assert_eq!(PublicKey::from_spki_der(key.spki_der()), None);
            let text = key.to_string();
            assert_eq!(
                text.parse::<PublicKey>().unwrap_err(),
                ParseKeyError::SmallOrder
            );
        }
    }

    #[test]
    fn other_der_is_not_a_key() {
        let key: PublicKey = LINE.parse().unwrap();
        let der = key.spki_der();
        assert_eq!(PublicKey::from_spki_der(&der[..43]), None);
        assert_eq!(PublicKey::from_spki_der(&[der, &[0]].concat()), None);
        assert_eq!(PublicKey::from_spki_der(&[0; 44]), None);
    }

    proptest! {
        #[test]
        fn any_key_survives_the_text_form(raw: [u8; 32], comment in "[ -~äß]{0,40}") {
            prop_assume!(!is_small_order(&raw));
            let line = KeyLine { key: PublicKey::from_raw(raw), comment: comment.trim().to_owned() };
            prop_assert_eq!(line.to_string().parse::<KeyLine>(), Ok(line));
        }

        #[test]
        fn no_text_panics(text in "\\PC*|howdah-ed25519 \\PC{0,80}") {
            if let Ok(line) = text.parse::<KeyLine>() {
                prop_assert_eq!(line.to_string().parse::<KeyLine>(), Ok(line));
            }
        }
    }
}
