//! Tells people and programs what becomes of jobs, as the administrator has set it in a file: webhooks, commands, mail.
//!
//! Each receiver has a thread and a place in the history of its own: one that hangs holds up no job and no other receiver. What a daemon
//! has not told when it ends the next one tells.

mod command;
mod course;
mod file;
mod mail;
mod notice;
mod webhook;

pub use file::FILE;
pub(crate) use file::load;

use crate::metrics::Metrics;
use crate::position::Position;
use crate::state::Reader;
use crate::{Error, Level, private};
use course::Course;
use notice::{Kind, Notice};
use std::error;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// How often is tried, at most, what may go well later: about a day.
const MANY: u32 = 30;
/// What was refused, and may have been a mistake that somebody mends.
const FEW: u32 = 5;
/// What would be refused again.
const ONCE: u32 = 1;

/// Why a notice did not arrive.
#[derive(Debug)]
struct NotTaken {
    why: String,
    /// How often is tried in all.
    tries: u32,
}

impl NotTaken {
    fn new(tries: u32, why: impl Into<String>) -> Self {
        Self {
            why: notice::plain(&why.into(), WHY),
            tries,
        }
    }
}

/// Characters of a reason. Others have a say in it.
const WHY: usize = 300;

/// With what led to it.
fn in_words(error: &(dyn error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = source.source();
    }
    text
}

/// Somebody who is told.
trait Receiver: Send {
    /// Says it, in bounded time. What it has to say to that is for the log.
    fn tell(&mut self, notice: &Notice, runtime: &Runtime) -> Result<String, NotTaken>;
}

/// One that the file names.
pub(crate) struct Named {
    /// Alone in the file.
    name: String,
    /// For people: `webhook 'ops'`.
    shown: String,
    kinds: Vec<Kind>,
    receiver: Box<dyn Receiver>,
}

/// What receivers need of the daemon.
pub(crate) struct Home {
    pub(crate) database: PathBuf,
    /// Where is remembered how far each has come.
    pub(crate) directory: PathBuf,
    pub(crate) written: watch::Receiver<u64>,
    pub(crate) log: fn(Level, &str),
    pub(crate) metrics: Arc<Metrics>,
}

/// Begins to tell all of them, until the daemon ends.
pub(crate) fn begin(receivers: Vec<Named>, home: &Home) -> Result<(), Error> {
    let system = |source: io::Error| Error::System {
        what: format!("notices ({})", home.directory.display()),
        source,
    };
    tidy(&home.directory, &receivers).map_err(system)?;
    if receivers.is_empty() {
        return Ok(());
    }
    let instance = instance(&home.directory).map_err(system)?;
    for named in receivers {
        let last = Reader::open(&home.database)?.last_happened()?;
        let position = Position::load(home.directory.join(&named.name), last);
        position.save_durably().map_err(system)?;
        let runtime = quiet_runtime().map_err(system)?;
        let mut course = Course {
            named,
            database: home.database.clone(),
            position,
            written: home.written.clone(),
            log: home.log,
            metrics: Arc::clone(&home.metrics),
            instance: instance.clone(),
            first: course::FIRST,
            failures: 0,
            runtime,
        };
        let kinds: Vec<_> = course.named.kinds.iter().map(|kind| kind.name()).collect();
        let text = format!(
            "{} is told of jobs that are {}",
            course.named.shown,
            kinds.join(", ")
        );
        (home.log)(Level::Info, &text);
        let thread = thread::Builder::new().name("howdah-notices".to_owned());
        thread.spawn(move || course.run()).map_err(system)?;
    }
    Ok(())
}

/// Who it was, in words, and why nothing arrived.
pub type Tested = (String, Result<(), String>);

/// Tells each receiver of the file that this is a test, once, whether or not there is a daemon; who it was, and why it did not arrive.
/// Takes as long as they do.
///
/// Fails if there is no such file, or if it makes no sense.
pub fn test(directory: &Path, named: Option<&Path>) -> Result<Vec<Tested>, Error> {
    let receivers = load(directory, named)?;
    if receivers.is_empty() {
        return Err(Error::Directory {
            path: named.map_or_else(|| directory.join(FILE), Path::to_owned),
            why: "nobody is named there who could be told".to_owned(),
        });
    }
    let runtime = quiet_runtime().map_err(|source| Error::System {
        what: "threads".to_owned(),
        source,
    })?;
    let tell = |mut named: Named| {
        let told = named.receiver.tell(&Notice::test(), &runtime);
        (named.shown, told.map(drop).map_err(|error| error.why))
    };
    Ok(receivers.into_iter().map(tell).collect())
}

/// Of the thread that it is used in.
fn quiet_runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// The name that is nobody's in the file.
const INSTANCE: &str = "instance.id";

/// A receiver that is not in the file any more, and is again one day, hears nothing of the time between.
fn tidy(directory: &Path, receivers: &[Named]) -> io::Result<()> {
    if !receivers.is_empty() {
        fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(directory)?;
    }
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name != INSTANCE && !receivers.iter().any(|known| name == known.name.as_str()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Tells this daemon's notices from those of others.
fn instance(directory: &Path) -> io::Result<String> {
    let path = directory.join(INSTANCE);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(text) if text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit()) => {
            return Ok(text);
        }
        Ok(_) => {}
    }
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let text = blake3::Hash::from_bytes(bytes).to_hex()[..16].to_owned();
    private::write_new(&path, &text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Receiver for Nobody {
        fn tell(&mut self, _: &Notice, _: &Runtime) -> Result<String, NotTaken> {
            Ok(String::new())
        }
    }

    #[test]
    fn who_is_not_in_the_file_any_more_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("notices");
        tidy(&directory, &[]).unwrap();
        assert!(!directory.exists());
        let named = |name: &str| Named {
            name: name.to_owned(),
            shown: name.to_owned(),
            kinds: Vec::new(),
            receiver: Box::new(Nobody),
        };
        tidy(&directory, &[named("a")]).unwrap();
        let first = instance(&directory).unwrap();
        for name in ["a", "b", "b.new"] {
            fs::write(directory.join(name), "7\n").unwrap();
        }
        tidy(&directory, &[named("a")]).unwrap();
        assert!(directory.join("a").exists());
        assert!(!directory.join("b").exists() && !directory.join("b.new").exists());
        assert_eq!(instance(&directory).unwrap(), first);
        fs::write(directory.join(INSTANCE), "x\n").unwrap();
        assert_ne!(instance(&directory).unwrap(), first);
    }
}
