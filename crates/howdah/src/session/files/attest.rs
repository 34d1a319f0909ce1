//! The server's part in a receipt: it reads again what it is to vouch for, and signs that it has it. docs/receipts.md.

use super::protocol;
use super::worker::{Shared, Trouble};
use crate::statement::{Entry, PartSum, Statement, root_of};
use crate::{Error, ErrorKind, Identity, PathBytes, PublicKey};
use howdah_audit::now_utc;
use howdah_session::files::{AttestedFile, Part};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts of one list: some gigabytes of names.
const PARTS_MAX: usize = 1 << 16;

/// What one takes in memory.
const PART_BYTES: u64 = 128;

/// What a receipt says of it.
pub(crate) fn entry_of(file: &AttestedFile) -> Entry {
    Entry::new(&file.path, file.at.as_ref(), file.bytes, file.blake3)
}

/// Who signs, and for whom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness {
    /// This end's own key, if it has one.
    pub(crate) signer: Option<Identity>,
    /// The key that the client has proved; `None`: that of the session says nothing, for ssh has let it in.
    pub(crate) client: Option<PublicKey>,
    /// Where the client comes from.
    pub(crate) address: String,
}

/// What of a list has been read here, and is as it says.
#[derive(Debug, Default)]
pub(super) struct Attested(Mutex<List>);

#[derive(Debug, Default)]
struct List {
    place: Option<PathBytes>,
    parts: BTreeMap<u32, PartSum>,
}

impl Attested {
    /// What is remembered of it, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        PART_BYTES * self.lock().parts.len() as u64
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn signer(&self) -> Result<&Identity, Trouble> {
        self.witness.signer.as_ref().ok_or_else(|| {
            let text = "this end has no key of its own that could sign a receipt; make one there with 'howdah key new'";
            Trouble::Failed(Error::new(ErrorKind::Refused, text))
        })
    }

    /// Reads these files. Without any: whether this end would sign at all.
    pub(super) fn attest(
        &self,
        place: &PathBytes,
        part: u32,
        files: &[AttestedFile],
    ) -> Result<Part, Trouble> {
        self.signer()?;
        self.rights.check_read()?;
        for file in files {
            let entry = entry_of(file);
            let senseless =
                || protocol("the client asks for a receipt of what has no path below a directory");
            let at = entry.path().and_then(|_| entry.at(place.as_path()));
            self.compare(&at.ok_or_else(senseless)?, file)?;
        }
        if files.is_empty() {
            return Ok(Part::Done);
        }
        let entries: Vec<_> = files.iter().map(entry_of).collect();
        let mut list = self.attested.lock();
        if list.parts.len() >= PARTS_MAX {
            let text = "the list is longer than a receipt's may be; copy in parts";
            return Err(Trouble::Failed(Error::new(ErrorKind::Refused, text)));
        }
        if list.place.get_or_insert_with(|| place.clone()) != place {
            return Err(Trouble::Failed(protocol("a receipt is about one place")));
        }
        list.parts.insert(part, PartSum::of(&entries));
        Ok(Part::Done)
    }

    fn compare(&self, at: &PathBytes, file: &AttestedFile) -> Result<(), Trouble> {
        let other = |what: &str| {
            let text = format!(
                "{at:?} {what} here than the receipt would say: it was changed since it was copied; copy it again"
            );
            Trouble::Failed(Error::new(ErrorKind::Integrity, text))
        };
        let found = self.found(at)?;
        if found.size != file.bytes {
            return Err(other("has another size"));
        }
        match self.hash(at)? {
            Part::Hash { blake3, .. } if blake3 == file.blake3 => Ok(()),
            _ => Err(other("has another content")),
        }
    }

    /// Signs what the client states, if all of it is so as far as this end can know it. What the client says of itself (times, the direction, by which
    /// address it has reached this end) is signed as its word.
    pub(super) fn sign(&self, statement: &[u8]) -> Result<Part, Trouble> {
        let signer = self.signer()?;
        // Also of nothing: what stands beside the list is the client's word.
        self.rights.check_read()?;
        let refused = |text: &str| Trouble::Failed(Error::new(ErrorKind::Refused, text));
        let senseless = || Trouble::Failed(protocol("the client states what makes no sense"));
        let mut statement = Statement::from_json(statement).ok_or_else(senseless)?;
        let is_time = |text: &str| text.len() < 40 && text.parse::<jiff::Timestamp>().is_ok();
        let is_plain = |text: &str| text.len() < 300 && !text.contains(char::is_control);
        if !is_time(&statement.began_utc)
            || !is_time(&statement.ended_utc)
            || !is_plain(&statement.server.address)
        {
            return Err(senseless());
        }
        let list = self.attested.lock();
        let is_whole = (0..).zip(list.parts.keys()).all(|(n, part)| n == *part);
        let sum = root_of(list.parts.values());
        let stated = (statement.root.clone(), statement.files, statement.bytes);
        // Of nothing, any place will do.
        let place = statement.server.place();
        let is_there = list.place.is_none() || list.place == place;
        drop(list);
        if !is_whole || !is_there || place.is_none() || sum != stated {
            return Err(refused(
                "the receipt would state something else than what was read here",
            ));
        }
        statement.client.address.clone_from(&self.witness.address);
        statement.server.key = signer.public_key().to_string();
        statement.signed_utc = now_utc();
        let Some((client, _)) = statement.keys() else {
            return Err(senseless());
        };
        if self.witness.client.is_some_and(|known| known != client) {
            return Err(refused(
                "a receipt is signed with the key with which the session began, and this names another one",
            ));
        }
        let signature = signer.sign(&statement.to_be_signed());
        let signature = signature.map_err(|e| Trouble::Failed(e.into()))?;
        Ok(Part::Signed {
            statement: statement.to_json(),
            signature: signature.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Rights;
    use crate::session::places::{Bounds, Places};
    use crate::statement::{Direction, End};
    use howdah_tree::pipe;
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    fn a_key() -> Identity {
        Identity::generate().expect("a key")
    }

    fn shared(dir: &Path, witness: Witness) -> Shared {
        shared_with(Rights::of_user(dir.to_owned()), witness)
    }

    fn shared_with(rights: Rights, witness: Witness) -> Shared {
        let places = (Places::new(Bounds::of_system()), String::new());
        Shared::new(rights, witness, places, pipe().0, Arc::new(|| ()))
    }

    fn file(path: &str, content: &str) -> AttestedFile {
        AttestedFile {
            path: path.into(),
            at: None,
            bytes: content.len() as u64,
            blake3: *blake3::hash(content.as_bytes()).as_bytes(),
        }
    }

    fn statement(parts: &[&[AttestedFile]], client: &Identity) -> Statement {
        let sums = parts.iter().map(|part| {
            let entries: Vec<_> = part.iter().map(entry_of).collect();
            PartSum::of(&entries)
        });
        let (root, files, bytes) = root_of(&sums.collect::<Vec<_>>());
        let key = client.public_key().to_string();
        Statement {
            began_utc: now_utc(),
            bytes,
            client: End::new("made up".to_owned(), key, None),
            direction: Direction::ToServer,
            ended_utc: now_utc(),
            files,
            root,
            schema: 1,
            server: End::new("site".to_owned(), String::new(), Some(&"in".into())),
            signed_utc: "yesterday".to_owned(),
            whole: false,
        }
    }

    fn failed(result: Result<Part, Trouble>) -> (ErrorKind, String) {
        match result {
            Err(Trouble::Failed(error)) => (error.kind(), error.to_string()),
            other => panic!("{:?}", other.ok()),
        }
    }

    #[test]
    fn what_was_read_here_is_signed_with_what_this_end_knows() {
        let dir = tempfile::tempdir().expect("a place");
        fs::create_dir(dir.path().join("in")).expect("a directory");
        for name in ["a", "b", "c"] {
            fs::write(dir.path().join("in").join(name), name).expect("a file");
        }
        let (server, client) = (a_key(), a_key());
        let witness = Witness {
            signer: Some(server.clone()),
            client: Some(*client.public_key()),
            address: "192.0.2.7:5".to_owned(),
        };
        let shared = shared(dir.path(), witness);
        let place = PathBytes::from("in");
        let (first, second) = ([file("a", "a"), file("b", "b")], [file("c", "c")]);
        let stated = statement(&[&first, &second], &client);
        let sign = |stated: &Statement| shared.sign(&stated.to_json());
        // Nothing was read yet, then only the end of it.
        assert_eq!(failed(sign(&stated)).0, ErrorKind::Refused);
        assert!(shared.attest(&place, 1, &second).is_ok());
        assert_eq!(failed(sign(&stated)).0, ErrorKind::Refused);
        assert!(shared.attest(&place, 0, &first).is_ok());
        let Ok(Part::Signed {
            statement: signed,
            signature,
        }) = sign(&stated)
        else {
            panic!("not signed");
        };
        let signed = Statement::from_json(&signed).expect("a statement");
        assert!(
            server
                .public_key()
                .has_signed(&signed.to_be_signed(), &signature)
        );
        assert_eq!(signed.client.address, "192.0.2.7:5");
        assert_eq!(signed.server.key, server.public_key().to_string());
        assert_ne!(signed.signed_utc, "yesterday");
        // Whatever else it is asked to state.
        for change in [
            |stated: &mut Statement| stated.bytes += 1,
            |stated: &mut Statement| stated.files -= 1,
            |stated: &mut Statement| stated.root = stated.root.replace('0', "1"),
            |stated: &mut Statement| stated.server.place = Some("elsewhere".to_owned()),
            |stated: &mut Statement| stated.client.key = a_key().public_key().to_string(),
        ] {
            let mut other = stated.clone();
            change(&mut other);
            if other != stated {
                assert_eq!(failed(sign(&other)).0, ErrorKind::Refused);
            }
        }
        let mut other = stated.clone();
        other.began_utc = "\u{1b}[2J".to_owned();
        assert_eq!(failed(sign(&other)).0, ErrorKind::Protocol);
        assert_eq!(failed(shared.sign(b"{}")).0, ErrorKind::Protocol);
        // One place for all of it.
        assert_eq!(
            failed(shared.attest(&"".into(), 2, &[file("in/a", "a")])).0,
            ErrorKind::Protocol
        );
    }

    #[test]
    fn what_is_another_one_here_is_not_signed() {
        let dir = tempfile::tempdir().expect("a place");
        fs::write(dir.path().join("a"), "one").expect("a file");
        let witness = Witness {
            signer: Some(a_key()),
            ..Witness::default()
        };
        let shared = shared(dir.path(), witness);
        for (file, kind, part) in [
            (file("a", "two"), ErrorKind::Integrity, "another content"),
            (file("a", "three"), ErrorKind::Integrity, "another size"),
            (file("b", "one"), ErrorKind::NotFound, "b"),
            (
                file("../a", "one"),
                ErrorKind::Protocol,
                "below a directory",
            ),
        ] {
            let (found, text) = failed(shared.attest(&"".into(), 0, &[file]));
            assert_eq!(found, kind, "{text}");
            assert!(text.contains(part), "{text}");
        }
        assert!(shared.attested.lock().parts.is_empty());
    }

    #[test]
    fn who_has_no_key_or_may_not_read_gets_nothing_signed() {
        let dir = tempfile::tempdir().expect("a place");
        let nobody = shared(dir.path(), Witness::default());
        let (kind, text) = failed(nobody.attest(&"".into(), 0, &[]));
        assert_eq!(kind, ErrorKind::Refused);
        assert!(text.contains("howdah key new"), "{text}");
        assert_eq!(failed(nobody.sign(b"{}")).0, ErrorKind::Refused);
        let witness = Witness {
            signer: Some(a_key()),
            ..Witness::default()
        };
        let rights = Rights::of_user(dir.path().to_owned()).restricted(false, true, None);
        let blind = shared_with(rights, witness);
        assert_eq!(
            failed(blind.attest(&"".into(), 0, &[])).0,
            ErrorKind::Refused
        );
        // Nor of no file at all.
        let nothing = statement(&[], &a_key());
        assert_eq!(failed(blind.sign(&nothing.to_json())).0, ErrorKind::Refused);
    }
}
