//! What a receipt says, and its form: canonical JSON (RFC 8785), so that what means the same is the same bytes. Members stand in the order of their
//! names, as the fields here do.

use crate::{Error, ErrorKind, PathBytes, PublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use howdah_session::files::STATEMENT_MAX;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Component, Path};

/// Of the form.
pub(crate) const SCHEMA: u32 = 1;
/// What is signed begins with it: the same keys sign handshakes, which begin otherwise.
const CONTEXT: &[u8] = b"howdah receipt\n";
/// Bytes of lines that are hashed together, unless one alone has more.
const PART_BYTES: usize = 16 << 10;
/// Numbers beyond are none of JSON's.
pub(crate) const NUMBER_MAX: u64 = (1 << 53) - 1;

/// Which way the data went.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From whoever began the copy to the other end.
    ToServer,
    /// From the other end to whoever began the copy.
    FromServer,
}

/// A file of a receipt.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// Its path at the server, if that is not the server's place with `path` behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_base64: Option<String>,
    blake3: String,
    bytes: u64,
    /// Its path at the destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
}

/// One of the two ends of a copy.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Where it was, as the other end called it: its address, or the name that the user wrote.
    pub address: String,
    /// Its public key, as `howdah key show` prints it.
    pub key: String,
    /// Of the server: the directory below which the files lay there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The same in base64, where it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place_base64: Option<String>,
}

/// What both ends sign.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// When the copy began, by the client's clock.
    pub began_utc: String,
    /// In all files.
    pub bytes: u64,
    /// Whoever began the copy.
    pub client: End,
    /// Which way the data went.
    pub direction: Direction,
    /// When everything was in place, by the client's clock.
    pub ended_utc: String,
    /// How many.
    pub files: u64,
    /// Over the list of all files.
    pub root: String,
    /// Of this form.
    pub schema: u32,
    /// The other end.
    pub server: End,
    /// When the server signed, by its clock.
    pub signed_utc: String,
    /// Whether the destination is what was copied as a whole, so that nothing else belongs there.
    pub whole: bool,
}

/// In base64.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signatures {
    pub(crate) client: String,
    pub(crate) server: String,
}

/// What stands in the file.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    pub(crate) files: Vec<Entry>,
    pub(crate) signatures: Signatures,
    pub(crate) statement: Statement,
}

/// A path as text, or as base64 where it is none.
fn words(path: &[u8]) -> (Option<String>, Option<String>) {
    match str::from_utf8(path) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(path))),
    }
}

/// The path that such words mean. Text is never in base64: one path is written in one way only.
fn path_of(text: Option<&String>, base64: Option<&String>) -> Option<PathBytes> {
    match (text, base64) {
        (Some(text), None) => Some(text.as_str().into()),
        (None, Some(base64)) => {
            let bytes = STANDARD.decode(base64).ok()?;
            let is_text = str::from_utf8(&bytes).is_ok();
            (!is_text).then(|| bytes.as_slice().into())
        }
        _ => None,
    }
}

fn canonical(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it is plain data")
}

impl Entry {
    pub(crate) fn new(
        path: &PathBytes,
        at: Option<&PathBytes>,
        bytes: u64,
        hash: [u8; 32],
    ) -> Self {
        let (path, path_base64) = words(path.as_bytes());
        let (at, at_base64) = at.map_or((None, None), |at| words(at.as_bytes()));
        Self {
            at,
            at_base64,
            blake3: blake3::Hash::from_bytes(hash).to_hex().to_string(),
            bytes,
            path,
            path_base64,
        }
    }

    /// Its path at the destination, if it is one below a directory.
    pub(crate) fn path(&self) -> Option<PathBytes> {
        let path = path_of(self.path.as_ref(), self.path_base64.as_ref())?;
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        let named = path.as_path();
        let is_below = named.components().all(is_plain) && named.file_name().is_some();
        is_below.then_some(path)
    }

    /// Its path at the server, whose place is that.
    pub(crate) fn at(&self, place: &Path) -> Option<PathBytes> {
        match (&self.at, &self.at_base64) {
            (None, None) => Some(place.join(self.path()?.as_path()).as_os_str().into()),
            (text, base64) => path_of(text.as_ref(), base64.as_ref()),
        }
    }

    pub(crate) fn hash(&self) -> Option<[u8; 32]> {
        let hash = blake3::Hash::from_hex(&self.blake3).ok()?;
        Some(*hash.as_bytes())
    }

    fn line(&self) -> Vec<u8> {
        let mut line = canonical(self);
        line.push(b'\n');
        line
    }
}

/// Lines of a list that are hashed together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct PartSum {
    pub(crate) digest: [u8; 32],
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl PartSum {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let mut hasher = blake3::Hasher::new();
        let mut sum = Self::default();
        for entry in entries {
            hasher.update(&entry.line());
            sum.files += 1;
            sum.bytes = sum.bytes.saturating_add(entry.bytes);
        }
        sum.digest = *hasher.finalize().as_bytes();
        sum
    }
}

/// Which lines are hashed together: as many as have [`PART_BYTES`] bytes, at least one.
pub(crate) fn parts_of(entries: &[Entry]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, entry) in entries.iter().enumerate() {
        let len = entry.line().len();
        if at > start && bytes + len > PART_BYTES {
            parts.push(start..at);
            (start, bytes) = (at, 0);
        }
        bytes += len;
    }
    if start < entries.len() {
        parts.push(start..entries.len());
    }
    parts
}

/// All of a list, from its parts: as a statement has it.
pub(crate) fn root_of<'a>(parts: impl IntoIterator<Item = &'a PartSum>) -> (String, u64, u64) {
    let mut hasher = blake3::Hasher::new();
    let (mut files, mut bytes) = (0u64, 0u64);
    for part in parts {
        hasher.update(&part.digest);
        files += part.files;
        bytes = bytes.saturating_add(part.bytes);
    }
    (hasher.finalize().to_hex().to_string(), files, bytes)
}

/// The same of a whole list.
pub(crate) fn sums_of(entries: &[Entry]) -> (String, u64, u64) {
    let parts = parts_of(entries).into_iter();
    let sums: Vec<_> = parts.map(|part| PartSum::of(&entries[part])).collect();
    root_of(&sums)
}

impl End {
    /// An end that is not known yet, or has no place.
    pub(crate) fn new(address: String, key: String, place: Option<&PathBytes>) -> Self {
        let (place, place_base64) = place.map_or((None, None), |place| words(place.as_bytes()));
        Self {
            address,
            key,
            place,
            place_base64,
        }
    }

    /// Where the files lay there.
    pub(crate) fn place(&self) -> Option<PathBytes> {
        path_of(self.place.as_ref(), self.place_base64.as_ref())
    }

    fn public_key(&self) -> Option<PublicKey> {
        let key: PublicKey = self.key.parse().ok()?;
        // Without a comment, and with the blanks as they are.
        (key.to_string() == self.key).then_some(key)
    }
}

impl Statement {
    pub(crate) fn from_json(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > STATEMENT_MAX {
            return None;
        }
        serde_json::from_slice(bytes).ok()
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        canonical(self)
    }

    /// What is signed.
    pub(crate) fn to_be_signed(&self) -> Vec<u8> {
        [CONTEXT, &self.to_json()].concat()
    }

    /// The keys of client and server.
    pub(crate) fn keys(&self) -> Option<(PublicKey, PublicKey)> {
        Some((self.client.public_key()?, self.server.public_key()?))
    }
}

impl Receipt {
    pub(crate) fn new(
        files: Vec<Entry>,
        statement: Statement,
        (client, server): (&[u8], &[u8]),
    ) -> Self {
        let signatures = Signatures {
            client: STANDARD.encode(client),
            server: STANDARD.encode(server),
        };
        Self {
            files,
            signatures,
            statement,
        }
    }

    /// What was signed.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// The keys that have signed: the client's and the server's.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Integrity`] if they are none, which no receipt has that was [read](Self::from_json).
    pub fn keys(&self) -> Result<(PublicKey, PublicKey), Error> {
        self.statement
            .keys()
            .ok_or_else(|| altered("a key in it is none"))
    }

    /// As it stands in a file.
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = canonical(self);
        text.push(b'\n');
        text
    }

    /// Reads what a file has, and holds it against both signatures. Nothing else is looked at.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Integrity`] if it is not, byte for byte, what the two keys in it have signed; [`ErrorKind::Protocol`] if it is of a form of a later howdah.
    pub fn from_json(text: &[u8]) -> Result<Self, Error> {
        let receipt: Self = match serde_json::from_slice(text) {
            Ok(receipt) => receipt,
            Err(error) => return Err(no_receipt(text, &error)),
        };
        let Self {
            files,
            signatures,
            statement,
        } = &receipt;
        if statement.schema != SCHEMA {
            return Err(later(statement.schema));
        }
        if receipt.to_json() != text {
            return Err(altered(
                "it is not in the form in which receipts are written",
            ));
        }
        let (client, server) = receipt.keys()?;
        let signed = statement.to_be_signed();
        for (who, key, signature) in [
            ("whoever began the copy", client, &signatures.client),
            ("the other end", server, &signatures.server),
        ] {
            let signature = STANDARD.decode(signature).unwrap_or_default();
            if !key.has_signed(&signed, &signature) {
                let key = key.fingerprint();
                return Err(altered(&format!(
                    "what it states is not what {who} ({key}) has signed"
                )));
            }
        }
        let (root, count, bytes) = sums_of(files);
        if (&root, count, bytes) != (&statement.root, statement.files, statement.bytes) {
            return Err(altered("its list of files is not the one that was signed"));
        }
        let mut last: Option<PathBytes> = None;
        for entry in files {
            let (Some(path), Some(_)) = (entry.path(), entry.hash()) else {
                return Err(altered(
                    "a file in it has no path below a directory, or no hash",
                ));
            };
            if last.is_some_and(|last| last.as_bytes() >= path.as_bytes()) {
                return Err(altered("its files are not in their order"));
            }
            last = Some(path);
        }
        Ok(receipt)
    }
}

fn altered(why: &str) -> Error {
    Error::new(
        ErrorKind::Integrity,
        format!("the receipt does not hold: {why}"),
    )
}

fn later(schema: u32) -> Error {
    let text = format!(
        "the receipt has form {schema}, and this howdah knows {SCHEMA}: check it with a later howdah"
    );
    Error::new(ErrorKind::Protocol, text)
}

/// Of what cannot be read: perhaps a later howdah can.
fn no_receipt(text: &[u8], error: &serde_json::Error) -> Error {
    #[derive(Deserialize)]
    struct Form {
        statement: Number,
    }
    #[derive(Deserialize)]
    struct Number {
        schema: u32,
    }
    match serde_json::from_slice::<Form>(text) {
        Ok(form) if form.statement.schema > SCHEMA => later(form.statement.schema),
        _ => altered(&format!("it is no receipt ({error})")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Identity;
    use proptest::prelude::*;

    /// One of three files, and who has signed it.
    pub(crate) fn sample() -> (Receipt, Identity, Identity) {
        let place = PathBytes::from("store");
        let files = [&b"a"[..], b"b\xff", b"run\n\"7\""].map(|path| {
            let at = (path == b"a").then(|| PathBytes::from("elsewhere/x"));
            let hash = *blake3::hash(path).as_bytes();
            Entry::new(&path.into(), at.as_ref(), path.len() as u64, hash)
        });
        sign(files.to_vec(), &place)
    }

    pub(crate) fn sign(files: Vec<Entry>, place: &PathBytes) -> (Receipt, Identity, Identity) {
        let [client, server] = [(); 2].map(|()| Identity::generate().expect("a key"));
        let (root, count, bytes) = sums_of(&files);
        let key = |of: &Identity| of.public_key().to_string();
        let statement = Statement {
            began_utc: "2026-11-26T20:00:00.000Z".to_owned(),
            bytes,
            client: End::new("192.0.2.7:50112".to_owned(), key(&client), None),
            direction: Direction::ToServer,
            ended_utc: "2026-11-26T20:00:09.000Z".to_owned(),
            files: count,
            root,
            schema: SCHEMA,
            server: End::new("site:4433".to_owned(), key(&server), Some(place)),
            signed_utc: "2026-11-26T20:00:10.000Z".to_owned(),
            whole: false,
        };
        let bytes = statement.to_be_signed();
        let signed = (
            client.sign(&bytes).expect("signed"),
            server.sign(&bytes).expect("signed"),
        );
        let receipt = Receipt::new(files, statement, (&signed.0, &signed.1));
        (receipt, client, server)
    }

    #[test]
    fn a_receipt_comes_back_as_it_was_and_its_members_are_sorted() {
        let (receipt, ..) = sample();
        let text = receipt.to_json();
        assert_eq!(Receipt::from_json(&text).expect("it holds"), receipt);
        // Another library sorts members by their names, which is what RFC 8785 asks for.
        let value: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let sorted = serde_json::to_string(&value).expect("JSON");
        assert_eq!(format!("{sorted}\n").as_bytes(), text);
        let entry = receipt.files[2].line();
        assert!(
            entry.ends_with(b"\"path\":\"run\\n\\\"7\\\"\"}\n"),
            "{entry:?}"
        );
    }

    #[test]
    fn any_byte_that_is_another_one_is_noticed() {
        let (receipt, ..) = sample();
        let text = receipt.to_json();
        for at in 0..text.len() {
            for flip in [1, 0x20, 0x80] {
                let mut other = text.clone();
                other[at] ^= flip;
                assert!(
                    Receipt::from_json(&other).is_err(),
                    "{}",
                    String::from_utf8_lossy(&other)
                );
            }
            assert!(Receipt::from_json(&text[..at]).is_err());
            let mut other = text.clone();
            other.insert(at, b' ');
            assert!(Receipt::from_json(&other).is_err(), "a blank at {at}");
        }
    }

    #[test]
    fn what_is_true_of_no_copy_is_refused_whoever_signed_it() {
        let place = PathBytes::from("x");
        let entry = |path: &str| Entry::new(&path.into(), None, 1, [7; 32]);
        for files in [
            vec![entry("b"), entry("a")],
            vec![entry("a"), entry("a")],
            vec![entry("../a")],
            vec![entry("/etc/passwd")],
            vec![entry("")],
            vec![Entry {
                blake3: "x".to_owned(),
                ..entry("a")
            }],
            vec![Entry {
                path: None,
                path_base64: Some(STANDARD.encode("a")),
                ..entry("a")
            }],
        ] {
            let (receipt, ..) = sign(files.clone(), &place);
            let error = Receipt::from_json(&receipt.to_json()).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Integrity, "{files:?}");
        }
        let (mut receipt, ..) = sample();
        receipt.statement.schema = 2;
        let error = Receipt::from_json(&receipt.to_json()).expect_err("of later");
        assert_eq!(error.kind(), ErrorKind::Protocol);
    }

    #[test]
    fn a_list_is_hashed_in_parts() {
        let files: Vec<_> = (0..1_000)
            .map(|n| Entry::new(&format!("dir/{n:04}").into(), None, 3, [n as u8; 32]))
            .collect();
        let parts = parts_of(&files);
        assert!(parts.len() > 1);
        assert_eq!(
            parts.iter().map(ExactSizeIterator::len).sum::<usize>(),
            1_000
        );
        for part in &parts {
            let bytes: usize = files[part.clone()].iter().map(|f| f.line().len()).sum();
            assert!(bytes <= PART_BYTES);
        }
        assert!(parts_of(&[]).is_empty());
        let long = Entry::new(&"x".repeat(PART_BYTES + 1).into(), None, 0, [0; 32]);
        assert_eq!(parts_of(&[long.clone(), long]), [0..1, 1..2]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Receipt::from_json(&text);
        }
    }
}
