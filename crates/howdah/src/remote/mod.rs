//! Single files of another machine, through one session that stays open.

use crate::connect::{Remote, run};
use crate::desk::{Desk, FilesAnswer};
use crate::task::Task;
use crate::{Cancel, Client, CopyConfig, Error, ErrorKind, KnownHosts, PathBytes, Place, Trust};
use howdah_session::files::{DirEntry, FileInfo, FileVersion, FilesRequest, RANGES_MAX, cost};
use std::fmt;
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

/// Ranges that are asked for in one question, so that the server's threads share those of one file.
const RANGES_TOGETHER: usize = 16;

/// Of one question, in bytes of its cost: none with paths that there are has more, and it fits into a message.
const QUESTION_MAX: u64 = 48 << 10;

/// The files of another machine: they are looked at and read through one connection, any number of questions at a time, and answered as
/// they come. Threads may share it.
///
/// The connection is made by [`Client::open`]. One that is lost, or that the server has ended because nothing was asked for 15 minutes, is made
/// again when there is something to ask, and what was only read is asked for again. Dropping it ends the session, and what is not
/// answered by then.
///
/// ```no_run
/// # fn main() -> Result<(), howdah::Error> {
/// let files = howdah::Client::of_this_user()?.open("howdah://site/")?;
/// for entry in files.list("data")? {
///     println!("{} {}", entry.name, entry.info.version.size);
/// }
/// // Two ranges of one file, in one round trip.
/// let ranges = [(0, 4096), (1 << 30, 4096)].map(|range| ("data/big", None, range));
/// for bytes in files.read_ranges(ranges) {
///     println!("{} bytes", bytes?.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Files {
    desk: Desk,
    cancel: Cancel,
    driver: Option<JoinHandle<()>>,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

impl Client {
    /// Opens a session for single files of the machine of `place`, whose path does not matter. With a server that stands before them,
    /// paths are below what it serves to this key.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Usage`] if the place is on this machine. [`ErrorKind::Protocol`] if its howdah is too old for this. Others are about the
    /// way to it, as for a copy.
    pub fn open(&self, place: impl Place) -> Result<Files, Error> {
        let place = place.place()?;
        let Some((remote, _)) = Remote::of(&place) else {
            let text =
                format!("{place} is on this machine; a session of files is with another one");
            return Err(Error::new(ErrorKind::Usage, text));
        };
        Files::begin(remote, self.config().once(), Desk::default())
    }
}

impl Files {
    /// Opens a session, and waits until the other end answers.
    pub(crate) fn begin(remote: Remote, config: CopyConfig, desk: Desk) -> Result<Self, Error> {
        let cancel = Cancel::new();
        let driver = {
            let (desk, cancel) = (desk.clone(), cancel.clone());
            Builder::new()
                .name("howdah-session".to_owned())
                .spawn(move || drive(&desk, &remote, config, &cancel))
                .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))?
        };
        let files = Self {
            desk,
            cancel,
            driver: Some(driver),
        };
        files.desk.wait_open()?;
        Ok(files)
    }
}

/// However the thread that keeps the connection ends, nobody waits for an answer any more.
struct Keeper<'a>(&'a Desk);

impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = "a fault of this program ended the session (the message above says where; please report it)";
            self.0.on_end(Some(Error::new(ErrorKind::Io, text)));
        }
        self.0.close();
    }
}

/// Keeps a connection as long as somebody asks.
fn drive(desk: &Desk, remote: &Remote, mut config: CopyConfig, cancel: &Cancel) {
    let _keeper = Keeper(desk);
    loop {
        let task = Task::Files { desk: desk.clone() };
        let result = run(task, remote.clone(), &config, cancel, &mut |_| ());
        desk.on_end(result.err());
        if !desk.wait_for_work() {
            return;
        }
        desk.forget_failure();
        // Whoever answers now is the one who answered before, and nobody is asked again.
        let path = config.known_hosts.path().to_owned();
        if !path.as_os_str().is_empty()
            && matches!(config.trust, Trust::Ask(_) | Trust::AcceptNew)
            && let Ok(known) = KnownHosts::load(&path)
        {
            config.known_hosts = known;
            config.trust = Trust::Strict;
        }
    }
}

impl Files {
    /// Asks, and has `on_answer` called with the answer, by a thread of this session's: all other answers wait for its return. The errors
    /// are those of the method of that name.
    pub fn ask(
        &self,
        request: FilesRequest,
        on_answer: impl FnOnce(Result<FilesAnswer, Error>) + Send + 'static,
    ) {
        let bytes = cost(&request);
        let refused = match &request {
            FilesRequest::Read { ranges, .. } if ranges.len() > RANGES_MAX => Some(format!(
                "{} ranges are more than the {RANGES_MAX} of one question",
                ranges.len()
            )),
            _ if bytes > QUESTION_MAX => Some(format!(
                "a question of {bytes} bytes is too long: no machine has such a path"
            )),
            _ => None,
        };
        if let Some(text) = refused {
            return on_answer(Err(Error::new(ErrorKind::Usage, text)));
        }
        self.desk.ask(request, Box::new(on_answer));
    }

    /// Asks all of them at once and waits for the answers, which are in the order of the questions.
    pub fn answers(
        &self,
        requests: impl IntoIterator<Item = FilesRequest>,
    ) -> Vec<Result<FilesAnswer, Error>> {
        let (tell, heard) = channel();
        let mut count = 0;
        for request in requests {
            let (tell, index) = (tell.clone(), count);
            self.ask(request, move |answer| drop(tell.send((index, answer))));
            count += 1;
        }
        drop(tell);
        let unanswered = || Err(Error::new(ErrorKind::Cancelled, "nobody answers any more"));
        let mut answers: Vec<_> = (0..count).map(|_| unanswered()).collect();
        for (index, answer) in heard {
            answers[index] = answer;
        }
        answers
    }

    fn answer(&self, request: FilesRequest) -> Result<FilesAnswer, Error> {
        let last = self.answers([request]).pop();
        last.unwrap_or_else(|| Err(other_answer()))
    }

    /// The answer, awaited. Dropping the future does not take the question back.
    ///
    /// # Errors
    ///
    /// Those of the method that asks the same.
    #[cfg(feature = "tokio")]
    pub async fn answered(&self, request: FilesRequest) -> Result<FilesAnswer, Error> {
        let (tell, heard) = tokio::sync::oneshot::channel();
        self.ask(request, move |answer| drop(tell.send(answer)));
        heard.await.unwrap_or_else(|_| Err(other_answer()))
    }

    /// What has that name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Refused`] without the right to read, of a directory to list, or for a path that leads out;
    /// [`ErrorKind::Network`] and [`ErrorKind::Protocol`] as for a copy.
    pub fn stat(&self, path: impl Into<PathBytes>) -> Result<FileInfo, Error> {
        match self.answer(FilesRequest::Stat { path: path.into() })? {
            FilesAnswer::Info(info) => Ok(info),
            _ => Err(other_answer()),
        }
    }

    /// What is in a directory, in no order.
    ///
    /// # Errors
    ///
    /// As [`stat`](Self::stat), and [`ErrorKind::Refused`] if it is no directory.
    pub fn list(&self, path: impl Into<PathBytes>) -> Result<Vec<DirEntry>, Error> {
        match self.answer(FilesRequest::List { path: path.into() })? {
            FilesAnswer::Entries(entries) => Ok(entries),
            _ => Err(other_answer()),
        }
    }

    /// Bytes of files, all asked for at once: path, the version that the file must have if that matters, and first byte and number of bytes.
    /// What lies behind the end of a file is left out.
    ///
    /// # Errors
    ///
    /// Of each as [`stat`](Self::stat); [`ErrorKind::SourceChanged`] if the file is another version, or somebody writes to it meanwhile.
    pub fn read_ranges<P: Into<PathBytes>>(
        &self,
        wanted: impl IntoIterator<Item = (P, Option<FileVersion>, (u64, u64))>,
    ) -> Vec<Result<Vec<u8>, Error>> {
        let mut requests: Vec<FilesRequest> = Vec::new();
        for (path, version, range) in wanted {
            let path = path.into();
            match requests.last_mut() {
                Some(FilesRequest::Read {
                    path: last,
                    version: same,
                    ranges,
                }) if *last == path && *same == version && ranges.len() < RANGES_TOGETHER => {
                    ranges.push(range);
                }
                _ => requests.push(FilesRequest::Read {
                    path,
                    version,
                    ranges: vec![range],
                }),
            }
        }
        let counts: Vec<usize> = requests
            .iter()
            .map(|request| match request {
                FilesRequest::Read { ranges, .. } => ranges.len(),
                _ => 0,
            })
            .collect();
        let mut all = Vec::new();
        for (answer, count) in self.answers(requests).into_iter().zip(counts) {
            match answer {
                Ok(FilesAnswer::Bytes { parts, .. }) => all.extend(parts.into_iter().map(Ok)),
                Ok(_) => all.extend((0..count).map(|_| Err(other_answer()))),
                Err(error) => all.extend((0..count).map(|_| Err(error.clone()))),
            }
        }
        all
    }

    /// The BLAKE3 of a file, as the server reads it from its disk.
    ///
    /// # Errors
    ///
    /// As [`read_ranges`](Self::read_ranges).
    pub fn hash(&self, path: impl Into<PathBytes>) -> Result<[u8; 32], Error> {
        match self.answer(FilesRequest::Hash { path: path.into() })? {
            FilesAnswer::Hash { blake3, .. } => Ok(blake3),
            _ => Err(other_answer()),
        }
    }

    /// Makes a directory; with `parents` also those that it lies in, and then one that is there is no error.
    ///
    /// # Errors
    ///
    /// As [`stat`](Self::stat); [`ErrorKind::Refused`] without the right to write or to list, or if something has that name.
    pub fn make_dir(&self, path: impl Into<PathBytes>, parents: bool) -> Result<(), Error> {
        let path = path.into();
        self.change(FilesRequest::MakeDir { path, parents })
    }

    /// Removes a file or link, or an empty directory.
    ///
    /// # Errors
    ///
    /// As [`make_dir`](Self::make_dir); [`ErrorKind::Refused`] too if only new files may come (`no-delete`), and [`ErrorKind::Io`] of a
    /// directory that is not empty.
    pub fn remove(&self, path: impl Into<PathBytes>, is_dir: bool) -> Result<(), Error> {
        let path = path.into();
        self.change(FilesRequest::Remove { path, is_dir })
    }

    /// Gives a file or directory another name; a file that has it is replaced.
    ///
    /// # Errors
    ///
    /// As [`remove`](Self::remove).
    pub fn rename(
        &self,
        path: impl Into<PathBytes>,
        to: impl Into<PathBytes>,
    ) -> Result<(), Error> {
        let (path, to) = (path.into(), to.into());
        self.change(FilesRequest::Rename { path, to })
    }

    fn change(&self, request: FilesRequest) -> Result<(), Error> {
        self.answer(request).map(drop)
    }

    /// Ends the session and waits until it has ended.
    pub fn close(mut self) {
        self.end();
        if let Some(driver) = self.driver.take() {
            let _ = driver.join();
        }
    }

    fn end(&self) {
        self.desk.close();
        // Of a connection that is still being made.
        self.cancel.cancel();
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.end();
    }
}

fn other_answer() -> Error {
    Error::new(
        ErrorKind::Protocol,
        "the server answers another question than the one asked",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h12_nobody_waits_for_a_session_whose_thread_has_a_fault() {
        let desk = Desk::default();
        let (tell, heard) = channel();
        let ask = |desk: &Desk| {
            let tell = tell.clone();
            let request = FilesRequest::Stat { path: "x".into() };
            desk.ask(request, Box::new(move |answer| drop(tell.send(answer))));
        };
        ask(&desk);
        let theirs = desk.clone();
        let thread: JoinHandle<()> = std::thread::spawn(move || {
            let _keeper = Keeper(&theirs);
            panic!("a fault");
        });
        assert!(thread.join().is_err());
        // Who waits hears of it, and who comes later.
        ask(&desk);
        for kind in [ErrorKind::Io, ErrorKind::Cancelled] {
            let answer = heard.recv().expect("an answer");
            assert_eq!(answer.expect_err("none").kind(), kind);
        }
        let error = desk.wait_open().expect_err("it is not open");
        assert_eq!(error.kind(), ErrorKind::Io);
    }
}
