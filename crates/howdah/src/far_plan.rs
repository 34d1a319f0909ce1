//! A plan of what goes to another machine.

use crate::connect::Remote;
use crate::desk::Desk;
use crate::desk::FilesAnswer;
use crate::lease::{
    LeaseRun, PlanAnswer, PlanPlace, PlanRecord, PlanRequest, identity, lacking, not_finished,
};
use crate::range::lasting_range;
use crate::reconnect::repeated;
use crate::remote::Files;
use crate::task::{LeaseTask, Task};
use crate::trees::copy_tree_into_plan;
use crate::{Cancel, CopyConfig, Error, ErrorKind, Location, PathBytes, Progress, Summary};
use howdah_lease::{Lease, NotFinished, Plan, Sheet, TreePlan};
use howdah_session::TreeOptions;
use howdah_session::files::FilesRequest;
use howdah_session::message::shown;
use howdah_session::plans::{SHEET_PART, SHEETS_ASKED};
use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How often it is looked whether the user has had enough.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Speaks with the machine to which the file of a plan goes.
pub struct FarPlan {
    /// Until it is dropped.
    files: Option<Files>,
    path: PathBytes,
    cancel: Cancel,
}

impl fmt::Debug for FarPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FarPlan({})", self.path)
    }
}

/// What is there of a plan, or of one lease of it.
#[derive(Clone, Debug)]
pub struct Looked {
    /// Of each run that was through.
    pub records: Vec<PlanRecord>,
    /// Of that lease: the highest epoch in which it was begun.
    pub highest: u64,
    /// Nobody has begun to clear it up.
    pub has_plan: bool,
}

/// What became of the small files of a lease.
#[derive(Clone, Debug)]
pub struct Landed {
    /// Bytes that are in their places.
    pub bytes: u64,
    /// Files that could not be had.
    pub lacking: u64,
    /// What is known of some of them.
    pub notes: Vec<String>,
}

/// What a tree has become.
#[derive(Clone, Debug)]
pub struct FinishedTree {
    /// Of the list of its files, in hexadecimal.
    pub blake3: String,
    /// How many files it has.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Files of the plan that could not be had.
    pub lacking: u64,
    /// The list, if it was asked for; none of a tree that had its name before.
    pub sums: Vec<u8>,
}

/// As a terminal may have it.
fn shown_all(notes: &[String]) -> Vec<String> {
    notes.iter().map(|note| shown(note)).collect()
}

/// Many questions that are under way together, whose only answer is that it is done.
#[derive(Default)]
struct Asked {
    open: VecDeque<Receiver<Result<FilesAnswer, Error>>>,
}

impl Asked {
    fn send(&mut self, far: &FarPlan, request: PlanRequest) -> Result<(), Error> {
        if self.open.len() >= SHEETS_ASKED {
            self.next(far)?;
        }
        self.open.push_back(far.begin_asking(request));
        Ok(())
    }

    fn next(&mut self, far: &FarPlan) -> Result<(), Error> {
        self.open
            .pop_front()
            .map_or(Ok(()), |heard| far.await_answer(&heard).map(drop))
    }

    fn end(mut self, far: &FarPlan) -> Result<(), Error> {
        while !self.open.is_empty() {
            self.next(far)?;
        }
        Ok(())
    }
}

fn remote(destination: &Location) -> Result<(Remote, PathBytes), Error> {
    Remote::of(destination).ok_or_else(|| {
        let text = format!("{destination} is not on another machine");
        Error::new(ErrorKind::Usage, text)
    })
}

impl FarPlan {
    /// Asks for a session with that machine.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Usage`] if the place is on this one; what reaching it gives.
    pub fn open(
        destination: &Location,
        config: &CopyConfig,
        cancel: &Cancel,
    ) -> Result<Self, Error> {
        let (remote, path) = remote(destination)?;
        if cancel.is_cancelled() {
            return Err(given_up());
        }
        let files = Files::begin(remote, config.once(), Desk::default())?;
        let cancel = cancel.clone();
        Ok(Self {
            files: Some(files),
            path,
            cancel,
        })
    }

    fn ask(&self, request: PlanRequest) -> Result<Option<PlanAnswer>, Error> {
        self.await_answer(&self.begin_asking(request))
    }

    fn begin_asking(&self, request: PlanRequest) -> Receiver<Result<FilesAnswer, Error>> {
        let (tell, heard) = channel();
        let question = FilesRequest::Plan(request);
        if let Some(files) = &self.files {
            files.ask(question, move |answer| drop(tell.send(answer)));
        }
        heard
    }

    fn await_answer(
        &self,
        heard: &Receiver<Result<FilesAnswer, Error>>,
    ) -> Result<Option<PlanAnswer>, Error> {
        loop {
            match heard.recv_timeout(LOOK_EVERY) {
                Ok(Ok(FilesAnswer::Plan(answer))) => return Ok(Some(answer)),
                Ok(Ok(FilesAnswer::Done)) => return Ok(None),
                Ok(Err(error)) => return Err(too_old(error)),
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => {
                    return Err(given_up());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Ok(_)) | Err(RecvTimeoutError::Disconnected) => return Err(senseless()),
            }
        }
    }

    /// The path that a file of that name gets there: of what is asked for, or below it if that is a directory.
    ///
    /// # Errors
    ///
    /// No such directory, no right to write there, and what asking gives; so it is with all others.
    pub fn place(&mut self, name: PathBytes) -> Result<PathBytes, Error> {
        let path = self.path.clone();
        match self.ask(PlanRequest::Place { path, name })? {
            Some(PlanAnswer::Place(place)) => {
                self.path = place.clone();
                Ok(place)
            }
            _ => Err(senseless()),
        }
    }

    /// Has the room of that plan made, with its space.
    ///
    /// # Errors
    ///
    /// Besides others that there is no space.
    pub fn make(&self, plan: &str) -> Result<(), Error> {
        let (path, plan) = (self.path.clone(), plan.to_owned());
        self.ask(PlanRequest::Make { path, plan }).map(drop)
    }

    /// What was moved of all leases, or of one.
    ///
    /// # Errors
    ///
    /// Besides others that there is no such plan.
    pub fn look(&self, plan: &str, lease: Option<u64>) -> Result<Looked, Error> {
        let (path, plan) = (self.path.clone(), plan.to_owned());
        match self.ask(PlanRequest::Look { path, plan, lease })? {
            Some(PlanAnswer::Looked {
                records,
                highest,
                has_plan,
            }) => Ok(Looked {
                records,
                highest,
                has_plan,
            }),
            _ => Err(senseless()),
        }
    }

    /// Has the file given its name, if all of it is there; returns its BLAKE3 in hexadecimal.
    ///
    /// # Errors
    ///
    /// Besides others [`ErrorKind::Partial`] if leases are missing.
    pub fn finish(&self, plan: &str) -> Result<String, Error> {
        let (path, plan) = (self.path.clone(), plan.to_owned());
        match self.ask(PlanRequest::Finish { path, plan })? {
            Some(PlanAnswer::Finished(blake3)) if is_hash(&blake3) => Ok(blake3),
            Some(PlanAnswer::Missing(count, first)) => {
                Err(not_finished(&NotFinished::Missing { count, first }))
            }
            _ => Err(senseless()),
        }
    }

    /// Has the room of a tree made, with what its leases have, which `sheets` gives one after the other. It has [begun](Self::begin) when
    /// directories, links, and the places of large files have come.
    ///
    /// # Errors
    ///
    /// Besides others that something has the name.
    pub fn make_tree(
        &self,
        plan: &str,
        sheets: impl Iterator<Item = Result<Sheet, Error>>,
    ) -> Result<(), Error> {
        let (path, plan) = (&self.path, plan.to_owned());
        self.ask(PlanRequest::MakeTree {
            path: path.clone(),
            plan: plan.clone(),
        })?;
        let mut asked = Asked::default();
        for sheet in sheets {
            let sheet = sheet?;
            let text = sheet.encode();
            let (mut at, mut rest) = (0, &*text);
            while !rest.is_empty() {
                let (part, behind) = rest.split_at(rest.floor_char_boundary(SHEET_PART));
                let request = PlanRequest::PutSheet {
                    path: path.clone(),
                    plan: plan.clone(),
                    lease: sheet.lease,
                    at,
                    text: part.to_owned(),
                };
                asked.send(self, request)?;
                (at, rest) = (at + part.len() as u64, behind);
            }
        }
        asked.end(self)
    }

    /// Directories and links are there: has the places of large files made, which get the attributes of their sources next.
    ///
    /// # Errors
    ///
    /// Besides others that there is no space.
    pub fn lay(&self, plan: &str) -> Result<(), Error> {
        let (path, plan) = (self.path.clone(), plan.to_owned());
        self.ask(PlanRequest::Lay { path, plan }).map(drop)
    }

    /// Everything is there: leases can be moved.
    ///
    /// # Errors
    ///
    /// Besides others that a large file is another one by now.
    pub fn begin(&self, plan: &str) -> Result<(), Error> {
        let (path, plan) = (self.path.clone(), plan.to_owned());
        self.ask(PlanRequest::Begin { path, plan }).map(drop)
    }

    /// What a lease of a tree has.
    ///
    /// # Errors
    ///
    /// Besides others that there is no such plan.
    pub fn sheet(&self, (plan, text): (&TreePlan, &str), lease: u64) -> Result<Sheet, Error> {
        let (path, text) = (self.path.clone(), text.to_owned());
        let request = PlanRequest::Sheet {
            path,
            plan: text,
            lease,
        };
        let Some(PlanAnswer::Sheet(text)) = self.ask(request)? else {
            return Err(senseless());
        };
        match Sheet::decode(text.as_bytes()) {
            Ok(sheet) if sheet.plan == plan.id() && sheet.lease == lease => Ok(sheet),
            _ => Err(senseless()),
        }
    }

    /// Has the small files of a run that have come put into their places; it took them that long.
    ///
    /// # Errors
    ///
    /// Besides others that a higher epoch has begun.
    pub fn land(&self, plan: &str, run: LeaseRun, took: Duration) -> Result<Landed, Error> {
        let (path, plan) = (self.path.clone(), plan.to_owned());
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let request = PlanRequest::Land {
            path,
            plan,
            run,
            millis,
        };
        match self.ask(request)? {
            Some(PlanAnswer::Landed {
                bytes,
                lacking,
                notes,
            }) => Ok(Landed {
                bytes,
                lacking,
                notes: shown_all(&notes),
            }),
            _ => Err(senseless()),
        }
    }

    /// Says that a range of a large file cannot be had.
    ///
    /// # Errors
    ///
    /// What asking gives.
    pub fn lacks(&self, plan: &str, run: LeaseRun, why: &str) -> Result<(), Error> {
        let (path, plan, why) = (self.path.clone(), plan.to_owned(), why.to_owned());
        let request = PlanRequest::Lacks {
            path,
            plan,
            run,
            why,
        };
        self.ask(request).map(drop)
    }

    /// Has the tree given its name, if all of it is there, or without what could not be had if that `is_partial`. `sums`: with the list of
    /// its hashes.
    ///
    /// # Errors
    ///
    /// Besides others [`ErrorKind::Partial`] if leases are missing, or files are lacking.
    pub fn finish_tree(
        &self,
        plan: &str,
        (is_partial, sums): (bool, bool),
        on_lack: &mut dyn FnMut(&str),
    ) -> Result<FinishedTree, Error> {
        let (path, plan) = (self.path.clone(), plan.to_owned());
        let request = PlanRequest::FinishTree {
            path,
            plan,
            partial: is_partial,
            sums,
        };
        match self.ask(request)? {
            Some(PlanAnswer::FinishedTree {
                blake3,
                files,
                bytes,
                lacking,
                notes,
                sums,
            }) if is_hash(&blake3) => {
                for note in shown_all(&notes) {
                    on_lack(&note);
                }
                Ok(FinishedTree {
                    blake3,
                    files,
                    bytes,
                    lacking,
                    sums,
                })
            }
            Some(PlanAnswer::Missing(count, first)) => {
                Err(not_finished(&NotFinished::Missing { count, first }))
            }
            Some(PlanAnswer::Lacking { count, notes }) => {
                for note in shown_all(&notes) {
                    on_lack(&note);
                }
                Err(lacking(count))
            }
            _ => Err(senseless()),
        }
    }

    /// Has the room removed.
    ///
    /// # Errors
    ///
    /// Besides others that there is none.
    pub fn forget(&self, plan: &str) -> Result<(), Error> {
        let (path, plan) = (self.path.clone(), plan.to_owned());
        self.ask(PlanRequest::Forget { path, plan }).map(drop)
    }

    /// Ends the session.
    pub fn close(self) {}
}

impl Drop for FarPlan {
    fn drop(&mut self) {
        // The other side is to hear of it, however it ends: a process that is gone says nothing any more.
        if let Some(files) = self.files.take() {
            files.close();
        }
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn senseless() -> Error {
    let text = "the server answers another question about the plan than the one asked";
    Error::new(ErrorKind::Protocol, text)
}

fn given_up() -> Error {
    Error::new(ErrorKind::Cancelled, "interrupted")
}

/// What does not know a question closes the connection.
fn too_old(error: Error) -> Error {
    if error.kind() != ErrorKind::Protocol {
        return error;
    }
    let text = format!(
        "{error}; if its howdah is too old for plans of what comes to it, install the same version there"
    );
    error.in_words(text)
}

/// Puts one lease of the file `source` of this machine in that epoch: it is in its place there, verified, durable and on record, when this
/// returns. A connection that is lost is made again for [`CopyConfig::reconnect`]; what has come and is right does not come again.
///
/// The summary counts its bytes only.
///
/// # Errors
///
/// [`ErrorKind::SourceChanged`] if it is another version by now, [`ErrorKind::Refused`] if a higher epoch has begun, and those of
/// [`copy`](crate::copy()).
pub fn push_range(
    (source, destination): (&Path, &Location),
    plan: (&Plan, String),
    (lease, epoch): (Lease, u64),
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let (there, path) = remote(destination)?;
    let (plan, text) = plan;
    let (range, size) = (lease.range, plan.version().size);
    let whole = size >> 20 << 20;
    let within = range.end.min(whole).saturating_sub(range.start);
    let elsewhere = whole.saturating_sub(within);
    let task = Arc::new(LeaseTask {
        source: source.to_path_buf(),
        identity: identity(&plan.version()),
        path,
        plan: text,
        lease: lease.id,
        epoch,
        run: RandomState::new().build_hasher().finish(),
        elsewhere,
    });
    let task = || Task::PutLease(Arc::clone(&task));
    lasting_range(
        (range.len(), elsewhere),
        (task, there),
        (config, cancel),
        on_progress,
    )
}

/// Has the small files of a run that have come put into their places; it took them that long. What has come stays, so a connection that is
/// lost now costs none of it: it is asked for again for [`CopyConfig::reconnect`], and another mover of the same lease is waited for.
///
/// # Errors
///
/// Those of [`FarPlan::land`] and of reaching it; the user has had enough.
pub fn land_tree(
    (destination, plan): (&Location, &str),
    (run, took): (LeaseRun, Duration),
    config: &CopyConfig,
    cancel: &Cancel,
) -> Result<Landed, Error> {
    repeated((config, cancel), || {
        FarPlan::open(destination, config, cancel)?.land(plan, run, took)
    })
}

/// Puts a tree of this machine, as far as `options` say, into the room of that plan there: directories and links while it is planned, the
/// small files of a run later. A connection that is lost is made again for [`CopyConfig::reconnect`], and what is there already does not
/// come again.
///
/// # Errors
///
/// [`ErrorKind::Refused`] if a higher epoch has begun, and those of [`copy_tree`](crate::copy_tree).
pub fn push_tree(
    (source, destination): (&Location, &Location),
    (plan, run): (String, Option<LeaseRun>),
    options: &TreeOptions,
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let (_, path) = remote(destination)?;
    let into = PlanPlace { path, plan, run };
    let places = (source, destination);
    copy_tree_into_plan(places, &into, options, (config, cancel), on_progress)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::dialogue;
    use howdah_session::FailureKind;
    use howdah_session::message::Message;
    use serde::Deserialize;

    /// The questions of before plans, as far as their number counts.
    #[derive(Debug, Deserialize)]
    enum Before {
        Stat,
        List,
        Read,
        Hash,
        MakeDir,
        Remove,
        Rename,
        Attest,
        Sign,
    }

    /// A server of before plans cannot read what it is asked, which it says in these words and closes.
    #[test]
    fn o9_a_server_that_is_too_old_for_plans_is_told_of_with_what_to_do() {
        let place = PlanRequest::Place {
            path: "x".into(),
            name: "y".into(),
        };
        let question = postcard::to_stdvec(&FilesRequest::Plan(place)).expect("encoded");
        let read = postcard::from_bytes::<Before>(&question);
        assert!(read.is_err(), "{read:?}");
        let old = "the client sent a message that makes no sense to howdah 0.0.9 (dialogue 2)";
        let said = Message::fail(FailureKind::Protocol, old).encode();
        let Ok(Message::Fail { kind, message }) = dialogue::decode(&said) else {
            panic!("no failure");
        };
        let error = too_old(dialogue::failure(kind, &message, "the server"));
        assert_eq!(error.kind(), ErrorKind::Protocol);
        let text = error.to_string();
        for part in [
            "howdah 0.0.9",
            "too old for plans",
            "install the same version there",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // What is wrong in another way is not.
        let refused = too_old(Error::new(ErrorKind::Refused, "no"));
        assert_eq!(refused.to_string(), "no");
    }
}
