//! A receipt is held against what lies in a directory.

use crate::manifest::{Sums, check_manifest};
use crate::statement::{Entry, Receipt, Statement};
use crate::{Cancel, Error, ErrorKind, Progress, PublicKey, Verification};
use howdah_store::is_reserved;
use howdah_tree::{Difference, DifferenceKind, NOTES};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// How a check went.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What both ends have signed.
    pub statement: Statement,
    /// The files of the receipt (A) and those of the directory (B).
    pub verification: Verification,
}

/// What is to be checked besides the files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Both must be among these keys, if there are some; two of them, if they are not all the same.
    pub signers: &'a [PublicKey],
    /// Files that the receipt does not name are none of its business.
    pub allow_extra: bool,
    /// The file of the receipt itself, which may lie there.
    pub file: Option<&'a Path>,
}

/// Holds a receipt, which has been [read](Receipt::from_json), against the files below `dir`: each must be there and have its content, and there is nothing else
/// where everything was copied. Directories, symbolic links and what is neither of both nor a file are not looked at. The network is not used.
///
/// `on_difference` is called for each difference, and `on_progress` about ten times a second, both on the calling thread.
///
/// # Errors
///
/// [`ErrorKind::Auth`] if a signer is not among those that are wanted; and what keeps the directory from being read.
pub fn check_receipt(
    receipt: &Receipt,
    dir: &Path,
    wanted: Wanted<'_>,
    cancel: &Cancel,
    on_difference: &mut dyn FnMut(&Difference),
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Checked, Error> {
    let (client, server) = receipt.keys()?;
    for key in [client, server] {
        if !wanted.signers.is_empty() && !wanted.signers.contains(&key) {
            let text = format!(
                "the receipt is signed by {}, which is not among the keys that are wanted",
                key.fingerprint()
            );
            return Err(Error::new(ErrorKind::Auth, text));
        }
    }
    // Whoever is one of several could have signed for the other end, too.
    if client == server && wanted.signers.iter().any(|key| *key != client) {
        let text = format!(
            "one key ({}) has signed for both ends, so it says nothing of the other one; if both have that key, name it alone",
            client.fingerprint()
        );
        return Err(Error::new(ErrorKind::Auth, text));
    }
    let files = receipt.files.iter();
    let files = files.filter_map(|file| Some((file.path()?.as_path().to_owned(), file.hash()?)));
    let sums = Sums::of_files(files);
    let mut verification = check_manifest(&sums, Some(dir), cancel, on_difference, on_progress)?;
    if !wanted.allow_extra {
        Extra {
            dir,
            receipt,
            own: wanted.file.and_then(inode),
            found: &mut verification,
            on_difference,
        }
        .look(cancel)?;
    }
    verification.equal = verification.tally.is_equal() && verification.failed == 0;
    Ok(Checked {
        statement: receipt.statement.clone(),
        verification,
    })
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// What is there and not in the receipt.
struct Extra<'a, 'b> {
    dir: &'a Path,
    receipt: &'a Receipt,
    /// Of the receipt itself.
    own: Option<(u64, u64)>,
    found: &'b mut Verification,
    on_difference: &'b mut dyn FnMut(&Difference),
}

impl Extra<'_, '_> {
    fn look(&mut self, cancel: &Cancel) -> Result<(), Error> {
        let paths = self.receipt.files.iter().filter_map(Entry::path);
        let paths: BTreeSet<PathBuf> = paths.map(|path| path.as_path().to_owned()).collect();
        let tops = paths.iter().filter_map(|path| {
            let mut parts = path.components();
            let top = parts.next()?;
            // A file at the top came among others, which are not its business.
            (!parts.as_path().as_os_str().is_empty()).then(|| PathBuf::from(top.as_os_str()))
        });
        let mut dirs: Vec<PathBuf> = if self.receipt.statement.whole {
            vec![PathBuf::new()]
        } else {
            tops.collect::<BTreeSet<_>>().into_iter().rev().collect()
        };
        while let Some(at) = dirs.pop() {
            if cancel.is_cancelled() {
                return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
            }
            // A link is none, nor what is missing, which was said.
            let real = self.dir.join(&at);
            if !fs::symlink_metadata(&real).is_ok_and(|found| found.is_dir() || at == Path::new(""))
            {
                continue;
            }
            let listed = fs::read_dir(&real).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let mut entries = match listed {
                Ok(entries) => entries,
                Err(error) => {
                    self.unread(&at, &error);
                    continue;
                }
            };
            entries.sort_by_key(fs::DirEntry::file_name);
            let mut below = Vec::new();
            for entry in entries {
                let path = at.join(entry.file_name());
                let Ok(found) = entry.metadata() else {
                    // It went meanwhile.
                    continue;
                };
                let is_own = self.own == Some((found.dev(), found.ino()));
                if found.is_dir() {
                    below.push(path);
                } else if found.is_file()
                    && !paths.contains(&path)
                    && !is_own
                    && !is_reserved(&entry.file_name())
                {
                    self.found.tally.missing_in_a += 1;
                    self.tell(&path, DifferenceKind::MissingInA { inside: 0 });
                }
            }
            dirs.extend(below.into_iter().rev());
        }
        Ok(())
    }

    fn unread(&mut self, at: &Path, error: &std::io::Error) {
        self.found.tally.unread += 1;
        self.found.failed += 1;
        if self.found.notes.len() < NOTES {
            let note = format!("{:?} cannot be read: {error}", at.display().to_string());
            self.found.notes.push(note);
        }
        self.tell(at, DifferenceKind::Unread { a: false, b: true });
    }

    fn tell(&mut self, path: &Path, what: DifferenceKind) {
        (self.on_difference)(&Difference {
            path: path.as_os_str().as_bytes().to_vec(),
            is_dir: false,
            what,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::tests::sample;

    /// Whoever is believed to be one end signs as both.
    #[test]
    fn h15_one_of_several_signers_does_not_stand_for_both_ends() {
        let (honest, me, other) = sample();
        let keys = [*me.public_key(), *other.public_key()];
        let mut statement = honest.statement.clone();
        statement.server.key.clone_from(&statement.client.key);
        let signature = me.sign(&statement.to_be_signed()).expect("signed");
        let forged = Receipt::new(honest.files.clone(), statement, (&signature, &signature));
        let forged = Receipt::from_json(&forged.to_json()).expect("its form is right");
        let dir = tempfile::tempdir().expect("a place");
        let check = |receipt: &Receipt, signers: &[PublicKey]| {
            let wanted = Wanted {
                signers,
                ..Wanted::default()
            };
            let cancel = Cancel::new();
            check_receipt(
                receipt,
                dir.path(),
                wanted,
                &cancel,
                &mut |_| (),
                &mut |_| (),
            )
        };
        assert!(check(&honest, &keys).is_ok());
        let error = check(&forged, &keys).expect_err("nobody else has signed");
        assert_eq!(error.kind(), ErrorKind::Auth);
        assert!(error.to_string().contains("both ends"), "{error}");
        // Two machines may share a key, if that is what is said.
        assert!(check(&forged, &keys[..1]).is_ok() && check(&forged, &[]).is_ok());
    }
}
