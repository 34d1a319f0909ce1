//! A plan whose file goes to another machine.

use super::{PlanAnswer, PlanRecord, PlanRequest, identity, not_finished};
use crate::client::{LeaseTask, Task};
use crate::copy::Remote;
use crate::range::lasting_range;
use crate::remote::desk::Desk;
use crate::remote::{Files, FilesAnswer};
use crate::{Cancel, CopyConfig, Error, ErrorKind, Location, PathBytes, Progress, Summary};
use howdah_lease::{Lease, NotFinished, Plan};
use howdah_session::files::FilesRequest;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
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
        let (tell, heard) = channel();
        let question = FilesRequest::Plan(request);
        if let Some(files) = &self.files {
            files.ask(question, move |answer| drop(tell.send(answer)));
        }
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
        "{error}; if its howdah is too old for plans whose file comes to it, install the same version there"
    );
    error.in_words(text)
}

/// Puts one lease of the file `source` of this machine in that epoch: it is in its place there, verified, durable and on record, when this
/// returns. A connection that is lost is made again for [`CopyConfig::reconnect`], and the lease begins anew.
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
    let task = Arc::new(LeaseTask {
        source: source.to_path_buf(),
        identity: identity(&plan.version()),
        path,
        plan: text,
        lease: lease.id,
        epoch,
    });
    let whole = size >> 20 << 20;
    let within = range.end.min(whole).saturating_sub(range.start);
    let elsewhere = whole.saturating_sub(within);
    let task = || Task::PutLease(Arc::clone(&task));
    lasting_range(
        (range.len(), elsewhere),
        (task, there),
        (config, cancel),
        on_progress,
    )
}
