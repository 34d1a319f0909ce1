//! Who may touch which files.

mod entry;

use crate::error::from_store;
use crate::keys::{KeyOptions, Networks};
use crate::rules_digest::digest;
use crate::{Error, ErrorKind, Location, PathBytes, PublicKey};
use howdah_core::Rate;
use howdah_session::{Metadata, RuleList, TreeOptions};
use howdah_store::{Quota, Root, StoreError, may_be_reserved, may_be_room};
use howdah_tree::{GlobPlace, Matched, is_begun, is_directory};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// Lets peers in, by their keys. Asked from the endpoint's thread and during handshakes.
pub(crate) trait Authority: Send + Sync {
    /// Whether the holder of `key` may come in at all.
    fn admits(&self, key: &PublicKey) -> bool;

    /// What a session of the holder of `key` may do, who comes from that address; called once when it begins.
    fn enter(&self, key: &PublicKey, from: IpAddr) -> Result<Rights, Error>;

    /// What the list says about that key: its comment.
    fn comment(&self, _key: &PublicKey) -> String {
        String::new()
    }

    /// Called about ten times a second, from a thread that may wait for a disk: lists may have changed meanwhile.
    fn refresh(&self) {}

    /// The directories that somebody may write below.
    fn roots(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Whether there is anything to refresh.
    fn changes(&self) -> bool {
        false
    }
}

/// What a session may do.
#[derive(Clone, Debug)]
pub(crate) struct Rights {
    reach: Reach,
    read: bool,
    write: bool,
    /// He may learn what is there: names, sizes, whether something is equal.
    list: bool,
    /// Writes new files only.
    add_only: bool,
    /// All that the session is for.
    only: Option<Arc<Only>>,
    /// What this side sends and takes at most; the peer has no say in it.
    pub(crate) max_rate: Option<Rate>,
    /// The peer may ask for a rate that ignores what else the path carries.
    pub(crate) fixed_rate: bool,
    /// So many sessions of that key at a time.
    pub(crate) max_sessions: Option<u32>,
    /// What may come in a session, all that it asks for together.
    pub(crate) quota: Quota,
    /// Nothing is begun from then on.
    until: Option<Timestamp>,
    /// He comes from there, and stays there.
    from: Option<Networks>,
    /// No more of the metadata of what comes is set.
    sets: Metadata,
    /// No more of the metadata of what is there is shown.
    shows: Metadata,
    /// Memory that a tree may take, however much the peer asks for. `None`: what it asks for.
    max_memory: Option<u64>,
}

/// What a copy between two other machines needs at the receiver, and nothing besides: the sender is not trusted with more.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Only {
    /// As whoever asked for the copy wrote it.
    pub(crate) destination: PathBytes,
    /// The last components of what is copied.
    pub(crate) names: BTreeSet<OsString>,
    /// How, if they are trees and not one file; without rules and lists.
    pub(crate) tree: Option<TreeOptions>,
    /// What tells the rules from others, if whoever asked for the copy says so. They choose what is read, and also what is
    /// written and deleted.
    pub(crate) selection: Option<[u8; 32]>,
}

impl Only {
    /// Whether the sender asks for nothing that whoever asked for the copy did not. Each option counts, whatever it is about: what
    /// bounds a deletion or keeps what is newer is as good as a right.
    fn allows(&self, options: &TreeOptions) -> bool {
        let does = |options: &TreeOptions| TreeOptions {
            rules: RuleList::default(),
            files: None,
            // What the sender only has itself told, or knows better.
            origin: None,
            memory: None,
            tells_files: false,
            tells_all: false,
            sums: false,
            ..options.clone()
        };
        let asked = self.tree.as_ref();
        asked.is_some_and(|asked| does(asked) == does(options))
            && self.selection.is_none_or(|asked| asked == digest(options))
    }
}

#[derive(Clone, Debug)]
enum Reach {
    /// What lies below a directory.
    Below(Later),
    /// Whatever the user of this process can reach; relative to that home directory.
    User { home: PathBuf },
}

/// A directory that is opened when something there is first asked for, or why it cannot be: whoever opens it may wait for its disk.
type Later =
    Arc<LazyLock<Result<Arc<Root>, Error>, Box<dyn FnOnce() -> Result<Arc<Root>, Error> + Send>>>;

/// A path on this machine: below an open directory, which nothing there can lead out of. An empty path
/// is the directory itself.
pub(crate) type Place = (Arc<Root>, PathBuf);

impl Rights {
    fn all(reach: Reach) -> Self {
        Self {
            reach,
            read: true,
            write: true,
            list: true,
            add_only: false,
            only: None,
            max_rate: None,
            fixed_rate: true,
            max_sessions: None,
            quota: Quota::default(),
            until: None,
            from: None,
            sets: Metadata::All,
            shows: Metadata::All,
            max_memory: None,
        }
    }

    /// Everything below what `open` opens when it is needed; its error is the answer to whatever is asked for.
    pub(crate) fn below(open: impl FnOnce() -> Result<Arc<Root>, Error> + Send + 'static) -> Self {
        Self::all(Reach::Below(Arc::new(LazyLock::new(Box::new(open)))))
    }

    /// Everything that the user of this process may do, as with scp: absolute paths, `~`, and links in
    /// the path that was named are followed.
    pub(crate) fn of_user(home: PathBuf) -> Self {
        Self::all(Reach::User { home })
    }

    /// Takes rights away.
    pub(crate) fn restricted(mut self, read: bool, write: bool, max_rate: Option<Rate>) -> Self {
        (self.read, self.write, self.max_rate) = (read, write, max_rate);
        // Whoever may not read learns nothing of what is there, either.
        self.list = read;
        self
    }

    /// A tree takes so much memory at the most.
    pub(crate) fn with_memory(mut self, bytes: u64) -> Self {
        self.max_memory = Some(bytes);
        self
    }

    /// What of the memory that a peer asks for it gets.
    pub(crate) fn memory(&self, asked: Option<u64>) -> Option<u64> {
        match (asked, self.max_memory) {
            (Some(asked), Some(max)) => Some(asked.min(max)),
            (asked, _) => asked,
        }
    }

    /// Memory for names and rules that come before a request, in bytes: as much as a tree may take. `None`: any.
    pub(crate) fn selection_memory(&self) -> Option<usize> {
        let most = self.max_memory;
        most.map(|most| usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// Leaves what one copy needs that somebody else sends.
    pub(crate) fn for_one_copy(mut self, only: Only) -> Self {
        self.read = false;
        self.only = Some(Arc::new(only));
        self
    }

    /// Whether the holder must not learn what is there.
    pub(crate) fn is_blind(&self) -> bool {
        !self.list
    }

    /// The names that may come, if the session is for these alone.
    pub(crate) fn names(&self) -> Option<&BTreeSet<OsString>> {
        let only = self.only.as_ref()?;
        let is_contents = only.tree.as_ref().is_some_and(|tree| tree.contents);
        (!is_contents).then_some(&only.names)
    }

    /// Refuses a tree that is more than the session is for, or asks what its holder must not learn.
    pub(crate) fn check_tree(&self, options: &TreeOptions) -> Result<(), Error> {
        let looks = options.dry_run
            || options.checksum
            || options.update
            || options.ignore_existing
            || !options.link_dest.is_empty();
        if !self.list && looks {
            let why = if self.read {
                "this key may not look around here (no-list)"
            } else {
                "this key may write here and not read"
            };
            let text = format!(
                "{why}: --dry-run, --checksum, --update, --ignore-existing and --link-dest would tell what is there"
            );
            return Err(Error::new(ErrorKind::Refused, text));
        }
        match &self.only {
            Some(only) if !only.allows(options) => Err(more_than_asked()),
            _ => Ok(()),
        }
    }

    /// Whether it is of a user of this machine, who does what that user may.
    pub(crate) fn is_of_user(&self) -> bool {
        matches!(self.reach, Reach::User { .. })
    }

    /// Refuses what a session that is for one copy has no part in.
    pub(crate) fn check_no_one_copy(&self) -> Result<(), Error> {
        match self.only {
            Some(_) => Err(more_than_asked()),
            None => Ok(()),
        }
    }

    /// Refuses a file of another name.
    pub(crate) fn check_file(&self, name: Option<&OsStr>) -> Result<(), Error> {
        match (&self.only, name) {
            (Some(only), _) if only.tree.is_some() => Err(more_than_asked()),
            (Some(only), Some(name)) if !only.names.contains(name) => Err(more_than_asked()),
            _ => Ok(()),
        }
    }

    /// What is set of the metadata of what comes.
    pub(crate) fn sets(&self) -> Metadata {
        self.sets
    }

    /// What is shown of the metadata of what is there.
    pub(crate) fn shows(&self) -> Metadata {
        self.shows
    }

    /// Refuses to tell what is there besides what was named.
    pub(crate) fn check_list(&self) -> Result<(), Error> {
        self.check_read()?;
        if self.list {
            return Ok(());
        }
        let text = "this key may fetch files that it names, and not look around (no-list): no directories, no wildcards; ask \
                    whoever runs the server";
        Err(Error::new(ErrorKind::Refused, text))
    }

    /// Bounds what a session costs, and what it learns and sets.
    pub(crate) fn bounded(mut self, options: &KeyOptions) -> Self {
        self.fixed_rate = options.fixed_rate;
        self.max_sessions = options.max_sessions;
        self.list &= !options.no_list;
        // Special bits, owners and attributes are nothing that a peer may give away unless somebody says so (H6).
        self.sets = options.metadata.unwrap_or(Metadata::Modes);
        self.shows = options.metadata.unwrap_or(Metadata::All);
        self.quota = Quota::new(options.max_files, options.max_bytes);
        self.until = options.expires.and_then(end_of);
        self.from.clone_from(&options.from);
        self
    }

    /// Refuses whatever is begun when the key is good no more: a session may have begun long before.
    fn check_time(&self) -> Result<(), Error> {
        if self.until.is_none_or(|until| Timestamp::now() < until) {
            return Ok(());
        }
        let text = "this key is good no more (expires); ask whoever runs the server";
        Err(Error::new(ErrorKind::Refused, text))
    }

    /// Whether the holder may be at that address.
    pub(crate) fn is_good_from(&self, address: IpAddr) -> bool {
        let from = self.from.as_ref();
        from.is_none_or(|networks| networks.contains(address))
    }

    /// Takes away the right to replace, change or delete what exists.
    pub(crate) fn adding_only(mut self, add_only: bool) -> Self {
        self.add_only = add_only;
        self
    }

    /// Whether what exists must stay as it is.
    pub(crate) fn is_adding_only(&self) -> bool {
        self.add_only
    }

    /// Refuses what only readers may do.
    pub(crate) fn check_read(&self) -> Result<(), Error> {
        self.check_time()?;
        if self.read {
            return Ok(());
        }
        let text = "this key may write here and not read; ask whoever runs the server";
        Err(Error::new(ErrorKind::Refused, text))
    }

    /// Refuses what only writers may do.
    pub(crate) fn check_write(&self) -> Result<(), Error> {
        self.check_time()?;
        if self.write {
            return Ok(());
        }
        let text = "this key may read here and not write; ask whoever runs the server";
        Err(Error::new(ErrorKind::Refused, text))
    }

    /// Refuses to take away what was read.
    pub(crate) fn check_remove(&self) -> Result<(), Error> {
        if self.write && !self.add_only {
            return Ok(());
        }
        let text = "this key may not remove files here, so nothing was moved (--remove-source-files); ask whoever runs the \
                    server";
        Err(Error::new(ErrorKind::Refused, text))
    }

    /// Where something that exists lies. For a user, all links of `path` are followed.
    pub(crate) fn source(&self, path: &Path) -> Result<Place, Error> {
        self.check_read()?;
        match &self.reach {
            Reach::Below(root) => {
                // What is in the room of a plan is its key's alone.
                if path.iter().any(may_be_room) {
                    let path = path.to_owned();
                    return Err(from_store(&StoreError::NotFound { path }));
                }
                Ok((opened(root)?, plain(path)))
            }
            Reach::User { home } => {
                let named = expand(home, path)?;
                let real = match fs::canonicalize(&named) {
                    // A link that leads nowhere is itself.
                    Err(_) if named.is_symlink() => {
                        let above = named.parent().unwrap_or(&named);
                        let above = fs::canonicalize(above).map_err(|e| trouble(&named, &e))?;
                        above.join(named.file_name().unwrap_or_default())
                    }
                    real => real.map_err(|e| trouble(&named, &e))?,
                };
                match (real.parent(), real.file_name()) {
                    (Some(parent), Some(name)) => open(parent, name),
                    _ => open(&real, OsStr::new("")),
                }
            }
        }
    }

    /// What a name with wildcards means, each as it would be named.
    pub(crate) fn expand(
        &self,
        pattern: &Path,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Matched>, Error> {
        self.check_list()?;
        let stored = |e| from_store(&e);
        match &self.reach {
            Reach::Below(root) => {
                let root = opened(root)?;
                let found = howdah_tree::expand(&GlobPlace::Below(&root), pattern, is_stopped);
                let mut found = found.map_err(stored)?;
                for matched in &mut found {
                    matched.path = as_named(&matched.path);
                }
                Ok(found)
            }
            Reach::User { home } => {
                let named = expand(home, pattern)?;
                let found = howdah_tree::expand(&GlobPlace::User, &named, is_stopped);
                let mut found = found.map_err(stored)?;
                let tilde = pattern.as_os_str().as_bytes().starts_with(b"~");
                for matched in &mut found {
                    let Ok(below) = matched.path.strip_prefix(home) else {
                        continue;
                    };
                    if tilde {
                        matched.path = Path::new("~").join(below);
                    } else if pattern.is_relative() {
                        matched.path = as_named(below);
                    }
                }
                Ok(found)
            }
        }
    }

    /// A directory whose leftovers are to be removed: a right to write, and to delete.
    pub(crate) fn leftovers(&self, path: &Path) -> Result<Place, Error> {
        let (root, at) = self.target(path)?;
        if self.only.is_some() {
            return Err(more_than_asked());
        }
        if self.add_only {
            let path = path.to_owned();
            return Err(from_store(&StoreError::MayOnlyAdd { path }));
        }
        let names = at.as_os_str().as_bytes();
        let end = names
            .iter()
            .rposition(|&b| b != b'/')
            .map_or(0, |at| at + 1);
        Ok((root, PathBuf::from(OsStr::from_bytes(&names[..end]))))
    }

    fn check_destination(&self, path: &Path) -> Result<(), Error> {
        let only = self.only.as_ref();
        match only.filter(|only| only.destination.as_path().as_os_str() != path.as_os_str()) {
            Some(_) => Err(more_than_asked()),
            None => Ok(()),
        }
    }

    /// Where something is to lie, with directories on the way that are not there yet.
    pub(crate) fn target_to_make(&self, path: &Path) -> Result<Place, Error> {
        let Reach::User { home } = &self.reach else {
            return self.target(path);
        };
        self.check_destination(path)?;
        let named = expand(home, path)?;
        let mut above = named.clone();
        while !above.exists() && !above.is_symlink() && above.pop() {}
        match named.strip_prefix(&above) {
            Ok(rest) if rest.iter().count() > 1 || is_directory(path) && !named.is_dir() => {
                self.check_write()?;
                open(&above, rest.as_os_str())
            }
            _ => self.target(path),
        }
    }

    /// Where something is to lie. For a user, a directory that exists is one whatever links lead to it.
    pub(crate) fn target(&self, path: &Path) -> Result<Place, Error> {
        self.target_of(path, false)
    }

    /// The same for what may be a directory itself, and so become one that is not there, with a slash behind its name or without.
    pub(crate) fn tree_target(&self, path: &Path) -> Result<Place, Error> {
        self.target_of(path, true)
    }

    /// Refuses a name that copies keep for themselves: what stands in a journal, or in the room of a plan, is believed, so nobody may write one.
    pub(crate) fn check_kept(&self, path: &Path) -> Result<(), StoreError> {
        let is_kept = path.file_name().is_some_and(may_be_reserved) || path.iter().any(may_be_room);
        if is_kept && !self.is_of_user() {
            return Err(StoreError::PathEscapes {
                path: path.to_owned(),
                reason: "that name is kept for unfinished copies",
            });
        }
        Ok(())
    }

    fn target_of(&self, path: &Path, of_tree: bool) -> Result<Place, Error> {
        self.check_write()?;
        self.check_destination(path)?;
        match &self.reach {
            Reach::Below(root) => {
                self.check_kept(path).map_err(|e| from_store(&e))?;
                Ok((opened(root)?, plain(path)))
            }
            Reach::User { home } => {
                let named = expand(home, path)?;
                let bytes = path.as_os_str().as_bytes();
                let becomes_it = of_tree && !named.exists();
                let as_directory = !becomes_it && (bytes.ends_with(b"/") || bytes.ends_with(b"/."));
                // What an interrupted copy has begun is not there yet: the same copy goes on in it.
                let is_new = !as_directory && !named.is_dir() || is_begun(&named);
                match (named.parent(), named.file_name()) {
                    (Some(parent), Some(name)) if is_new => open(parent, name),
                    _ => open(&named, OsStr::new("")),
                }
            }
        }
    }
}

/// What somebody hears whose key is for other networks.
pub(crate) fn not_good_from(address: IpAddr) -> String {
    format!("says: this key is not good from {address}; ask whoever runs the server")
}

/// When a day is over, in UTC.
fn end_of(day: Date) -> Option<Timestamp> {
    let next = day.tomorrow().ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(next.timestamp())
}

fn opened(root: &Later) -> Result<Arc<Root>, Error> {
    (**root).clone()
}

fn more_than_asked() -> Error {
    let text = "this session is for one copy to one place, and that is another one";
    Error::new(ErrorKind::Refused, text)
}

/// How somebody names a file that was found there: it may be called like something that is made up (`zero:5`), and is not that.
fn as_named(found: &Path) -> PathBuf {
    match Location::try_from(found.as_os_str()) {
        Ok(Location::Zero(_) | Location::Null) => Path::new(".").join(found),
        _ => found.to_owned(),
    }
}

/// The root itself is the empty path. A name that begins with `./` is one of a file, whatever it is called.
fn plain(path: &Path) -> PathBuf {
    // Not as paths: "./" is no name.
    match path.as_os_str().as_bytes() {
        b"." => PathBuf::new(),
        [b'.', b'/', name @ ..] if !name.is_empty() => OsStr::from_bytes(name).into(),
        _ => path.to_owned(),
    }
}

fn open(parent: &Path, name: &OsStr) -> Result<Place, Error> {
    let root = Root::open(parent).map_err(|e| match e {
        StoreError::NotFound { path } => from_store(&StoreError::NoDirectory { path }),
        StoreError::Io { source, path, .. }
            if source.kind() == std::io::ErrorKind::NotADirectory =>
        {
            let text = format!("{} is not a directory", path.display());
            Error::new(ErrorKind::Refused, text)
        }
        other => from_store(&other),
    })?;
    Ok((Arc::new(root.of_user()), PathBuf::from(name)))
}

fn trouble(path: &Path, error: &std::io::Error) -> Error {
    use std::io::ErrorKind as Io;
    let (kind, what) = match error.kind() {
        Io::NotFound => (ErrorKind::NotFound, "there is no such file".to_owned()),
        Io::PermissionDenied => (ErrorKind::Refused, "permission denied".to_owned()),
        Io::NotADirectory => (
            ErrorKind::Refused,
            "what a slash stands behind is not a directory".to_owned(),
        ),
        _ => (ErrorKind::Io, error.to_string()),
    };
    Error::new(kind, format!("{}: {what}", path.display()))
}

/// The path that a user means.
pub(crate) fn expand(home: &Path, path: &Path) -> Result<PathBuf, Error> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.contains(&0) {
        let text = "a path cannot contain a NUL byte";
        return Err(Error::new(ErrorKind::Refused, text));
    }
    match bytes.strip_prefix(b"~") {
        Some(b"") => Ok(home.to_owned()),
        Some(rest) if rest.starts_with(b"/") => {
            let slashes = rest.iter().take_while(|&&byte| byte == b'/').count();
            Ok(home.join(OsStr::from_bytes(&rest[slashes..])))
        }
        Some(_) => Err(Error::new(
            ErrorKind::Refused,
            format!(
                "{path}: only ~ itself is a home directory here; write the path in full, or ./{path} \
                 for a name that begins with ~",
                path = path.display()
            ),
        )),
        None => Ok(home.join(path)),
    }
}

#[cfg(test)]
mod tests;
