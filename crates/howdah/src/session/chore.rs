//! Small questions that are no copies: what a name with wildcards means there, what interrupted copies have left.

use super::lengths::check_paths;
use crate::access::Rights;
use crate::error::from_store;
use crate::{Error, ErrorKind, PathBytes};
use howdah_proto::Connection;
use howdah_session::message::Message;
use howdah_session::questions::{Finding, Question, Sum};
use howdah_store::{StoreError, Wake, threads};
use howdah_tree::{Fate, Leftovers, MATCHES_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Findings in one message: as many as surely fit.
const PART_BYTES: usize = 24 << 10;
/// Messages that wait for the connection.
const WAITING: usize = 4;
/// What is said and not confirmed, in bytes: more is told as the client takes it.
const UNCONFIRMED_BYTES: usize = 1 << 20;
/// What was left is named up to that number, and counted beyond it.
const NAMED_MAX: u64 = 100_000;
/// Of a note, in bytes: a name that nobody can read is many times as long when it is shown, and all of them go into one message.
const NOTE_BYTES: usize = 2_000;

enum Said {
    Findings(Vec<Finding>),
    Done(Result<Sum, Error>),
}

/// An answer under way: a thread looks, since no disk may hold up the network. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Chore {
    said: Receiver<Said>,
    stop: Arc<AtomicBool>,
}

impl std::fmt::Debug for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Said")
    }
}

impl Chore {
    pub(crate) fn start(question: Question, rights: Rights, wake: Wake) -> Result<Self, Error> {
        let (out, said) = sync_channel(WAITING);
        let stop = Arc::new(AtomicBool::new(false));
        let mut worker = Worker {
            rights,
            stop: Arc::clone(&stop),
            out,
            wake,
            part: Vec::new(),
            part_bytes: 0,
        };
        let work = move || {
            let result = worker.answer(question);
            worker.say(Said::Done(result));
        };
        threads::start("howdah-chore", work).map_err(|e| Error::no_thread(&e))?;
        Ok(Self { said, stop })
    }

    /// Tells what was found; `Some` at the end.
    pub(crate) fn poll(&mut self, connection: &mut Connection) -> Result<Option<Sum>, Error> {
        while connection.control_backlog() < UNCONFIRMED_BYTES {
            match self.said.try_recv() {
                Ok(Said::Findings(part)) => {
                    connection.send_control(&Message::Findings(part).encode());
                }
                Ok(Said::Done(result)) => return result.map(Some),
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => {
                    return Err(Error::new(ErrorKind::Io, "the search ended without a word"));
                }
            }
        }
        Ok(None)
    }
}

impl Drop for Chore {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A line for each, with its name: for who may hear it.
fn notes(unread: &[StoreError], named: bool) -> Vec<String> {
    let all = unread.iter().filter(|_| named).map(ToString::to_string);
    all.map(|mut note| {
        note.truncate(note.floor_char_boundary(NOTE_BYTES));
        note
    })
    .collect()
}

struct Worker {
    rights: Rights,
    stop: Arc<AtomicBool>,
    out: SyncSender<Said>,
    wake: Wake,
    part: Vec<Finding>,
    part_bytes: usize,
}

impl Worker {
    /// Whether somebody hears it.
    fn say(&self, said: Said) -> bool {
        let heard = self.out.send(said).is_ok();
        (self.wake)();
        heard && !self.stop.load(Ordering::Relaxed)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.part_bytes = 0;
        let part = std::mem::take(&mut self.part);
        if self.say(Said::Findings(part)) {
            Ok(())
        } else {
            Err(StoreError::Aborted)
        }
    }

    fn find(&mut self, finding: Finding) -> Result<(), StoreError> {
        let bytes = finding.path.as_bytes().len() + 32;
        if self.part_bytes + bytes > PART_BYTES {
            self.flush()?;
        }
        self.part_bytes += bytes;
        self.part.push(finding);
        Ok(())
    }

    fn answer(&mut self, question: Question) -> Result<Sum, Error> {
        match question {
            Question::Expand { patterns } => self.expand(&patterns),
            Question::Clean {
                path,
                dry_run,
                modified_until,
            } => {
                let what = Leftovers {
                    dry_run,
                    modified_until,
                };
                self.clean(&path, what)
            }
        }
    }

    fn expand(&mut self, patterns: &[PathBytes]) -> Result<Sum, Error> {
        self.rights.check_list()?;
        // What is there as it is written is told as that, with more around it.
        check_paths(patterns)?;
        // Somebody waits for a sign that the question was understood.
        self.flush().map_err(|e| from_store(&e))?;
        let mut sum = Sum::default();
        for (of, pattern) in (0..).zip(patterns) {
            let stop = Arc::clone(&self.stop);
            let is_stopped = move || stop.load(Ordering::Relaxed);
            let found = self.rights.expand(pattern.as_path(), &is_stopped)?;
            sum.names += found.len() as u64;
            if sum.names > MATCHES_MAX as u64 {
                let text =
                    format!("the patterns match more than {MATCHES_MAX} names; copy in parts");
                return Err(Error::new(ErrorKind::Usage, text));
            }
            for matched in found {
                let finding = Finding {
                    of,
                    path: PathBytes::from(matched.path.as_os_str()),
                    is_dir: matched.is_dir,
                    bytes: matched.size,
                    fate: 0,
                };
                self.find(finding).map_err(|e| from_store(&e))?;
            }
        }
        self.flush().map_err(|e| from_store(&e))?;
        Ok(sum)
    }

    fn clean(&mut self, path: &PathBytes, what: Leftovers) -> Result<Sum, Error> {
        let (root, at) = self.rights.leftovers(path.as_path())?;
        // A key that may not look around hears no names.
        let named = self.rights.check_list().is_ok();
        self.flush().map_err(|e| from_store(&e))?;
        let mut sum = Sum::default();
        let unread = what.clean(&root, &at, &mut |left| {
            if self.stop.load(Ordering::Relaxed) {
                return Err(StoreError::Aborted);
            }
            let fate = match left.fate {
                Fate::Removed => {
                    sum.names += 1;
                    sum.bytes += left.bytes;
                    0
                }
                Fate::InUse => {
                    sum.in_use += 1;
                    1
                }
                Fate::Failed => {
                    sum.failed += 1;
                    2
                }
            };
            let is_short = left.path.as_os_str().len() <= PART_BYTES;
            if named && is_short && sum.names + sum.in_use + sum.failed <= NAMED_MAX {
                self.find(Finding {
                    of: 0,
                    path: PathBytes::from(left.path.as_os_str()),
                    is_dir: false,
                    bytes: left.bytes,
                    fate,
                })?;
            }
            Ok(())
        });
        let unread = unread.map_err(|e| from_store(&e))?;
        self.flush().map_err(|e| from_store(&e))?;
        sum.failed += unread.len() as u64;
        sum.notes = notes(&unread, named);
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::alone::connection;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::PathBuf;

    /// A directory that cannot be read is a name, too.
    #[test]
    fn h8_who_may_not_look_around_hears_no_names_of_what_cannot_be_read() {
        let path = "secret/project".into();
        let unread = [StoreError::NotFound { path }];
        assert_eq!(notes(&unread, false), [""; 0]);
        assert!(notes(&unread, true)[0].contains("secret"));
    }

    /// They are of somebody's making, and a message that is longer than it may be is a fault.
    #[test]
    fn h18_notes_of_names_that_nobody_can_read_fit_into_a_message() {
        let path = PathBuf::from(OsStr::from_bytes(&[1; 4_000]));
        let unread = vec![StoreError::PermissionDenied { path }; 8];
        assert!(unread[0].to_string().len() > 16_000);
        let sum = Sum {
            notes: notes(&unread, true),
            ..Sum::default()
        };
        connection().send_control(&Message::Answered(sum).encode());
    }

    /// What is found by it is as long, and a message that is longer than it may be is a fault.
    #[test]
    fn h20_a_pattern_that_is_longer_than_any_path_is_refused() {
        let dir = tempfile::tempdir().expect("a place");
        std::fs::create_dir(dir.path().join("d")).expect("made");
        let root = dir.path().to_owned();
        let open_root = move || Ok(Arc::new(howdah_store::Root::open(&root).expect("there")));
        let (tell, told) = std::sync::mpsc::channel();
        let wake: Wake = Arc::new(move || {
            let _ = tell.send(());
        });
        // It fits into the question.
        let patterns = vec![PathBytes::from(format!("d{}", "/".repeat(65_527)))];
        let question = Question::Expand { patterns };
        let chore = Chore::start(question, Rights::below(open_root), wake);
        let (mut chore, mut connection) = (chore.expect("a thread"), connection());
        let error = loop {
            told.recv().expect("it has something to say");
            match chore.poll(&mut connection) {
                Ok(None) => {}
                Ok(Some(sum)) => panic!("{sum:?}"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Usage);
    }

    /// Who asks and confirms nothing has so much of it kept here, and no more.
    #[test]
    fn h18_findings_that_nobody_takes_wait_where_they_were_found() {
        const PARTS: usize = 100;
        let (out, said) = sync_channel(PARTS);
        let finding = Finding {
            of: 0,
            path: PathBytes::from("x".repeat(PART_BYTES)),
            is_dir: false,
            bytes: 0,
            fate: 0,
        };
        for _ in 0..PARTS {
            let part = Said::Findings(vec![finding.clone()]);
            out.send(part).expect("there is room");
        }
        let stop = Arc::default();
        let mut chore = Chore { said, stop };
        let mut connection = connection();
        for _ in 0..3 {
            assert_eq!(chore.poll(&mut connection).expect("it goes on"), None);
        }
        let kept = connection.control_backlog();
        let most = UNCONFIRMED_BYTES + 2 * PART_BYTES;
        assert!((UNCONFIRMED_BYTES..most).contains(&kept), "{kept} bytes");
    }
}
