//! The clients of a server: a list of keys, read again when its file changes.

use crate::access::{Authority, Rights, not_good_from};
use crate::error::from_store;
use crate::keys::{AuthorizedKeys, KeyError, PublicKey};
use crate::{Error, ErrorKind, Log};
use howdah_audit::Level;
use howdah_session::Memory;
use howdah_store::Root;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// So many lines that make no sense are named.
const MISTAKES_TOLD: usize = 20;

/// How often it is looked whether the file has changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A file of authorised keys that a server reads again while it runs.
#[derive(Clone, Debug)]
pub struct Reread {
    /// The file.
    pub path: PathBuf,
    /// Whoever sets it wants the file to be read even if it looks the same: for SIGHUP.
    pub now: Arc<AtomicBool>,
}

/// Lets in who is on the list.
pub(crate) struct Listed {
    /// Of a tree whose client asks for more than usual.
    memory: u64,
    /// Opened when a session first asks for something: it is what its name means then.
    root: PathBuf,
    file: Option<Reread>,
    own: Arc<OwnFiles>,
    open: Arc<OpenRoots>,
    state: Mutex<State>,
    log: Log,
}

struct State {
    keys: AuthorizedKeys,
    seen: Seen,
    /// Whoever began has read it, and said what is in it.
    is_told: bool,
    /// Why it could not be read, if that was said.
    trouble: Option<String>,
    looked_at: Instant,
}

/// What was seen of the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Seen {
    /// It is to be read.
    Nothing,
    /// What it looked like before it was read last, if it was there.
    As(Option<Look>),
}

/// Everything that a change of a file changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Look {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl Look {
    fn at(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok()?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            changed: (meta.ctime(), meta.ctime_nsec()),
            modified: (meta.mtime(), meta.mtime_nsec()),
        })
    }
}

/// Roots that sessions have open, one descriptor of each for all: idle sessions of a key are as many as there are connections.
#[derive(Debug, Default)]
struct OpenRoots(Mutex<BTreeMap<(u64, u64), Weak<Root>>>);

impl OpenRoots {
    /// That root, or the same one that is open already.
    fn share(&self, root: Root) -> Arc<Root> {
        let Some(identity) = root.identity() else {
            return Arc::new(root);
        };
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, root| root.strong_count() > 0);
        if let Some(root) = open.get(&identity).and_then(Weak::upgrade) {
            return root;
        }
        let root = Arc::new(root);
        open.insert(identity, Arc::downgrade(&root));
        root
    }
}

/// Files of the server's own, by their names and by what links lead to: no key with limits has a root with any of them.
#[derive(Debug, Default)]
struct OwnFiles(Vec<PathBuf>);

impl OwnFiles {
    fn add(&mut self, path: &Path) {
        let named = std::path::absolute(path).ok();
        let in_directory = named.as_deref().and_then(|named| {
            let above = named.parent()?.canonicalize().ok()?;
            Some(above.join(named.file_name()?))
        });
        self.0
            .extend(in_directory.into_iter().chain(path.canonicalize().ok()));
    }

    /// The first of them that lies below that directory.
    fn below(&self, root: &Path) -> Option<&Path> {
        let root = root.canonicalize().ok()?;
        let found = self.0.iter().find(|file| file.starts_with(&root));
        found.map(|file| &**file)
    }

    /// What to say of a root that has one of them.
    fn warning(&self, root: &Path) -> Option<String> {
        let file = self.below(root)?;
        Some(format!(
            "{} is the server's own and lies below the root {}, where whoever may write could let anybody in: keys with limits are refused \
             there; keep it elsewhere (--authorized-keys, --identity, --audit), or serve another directory",
            file.display(),
            root.display()
        ))
    }
}

impl Listed {
    /// `keys` is what `file` held a moment ago.
    pub(crate) fn new(root: PathBuf, keys: AuthorizedKeys, file: Option<Reread>, log: Log) -> Self {
        let memory = Memory::DEFAULT;
        let state = State {
            keys,
            // Somebody may have written to it since.
            seen: Seen::Nothing,
            is_told: true,
            trouble: None,
            looked_at: Instant::now(),
        };
        Self {
            root,
            memory,
            file,
            own: Arc::default(),
            open: Arc::default(),
            state: Mutex::new(state),
            log,
        }
    }

    /// Trees of clients that ask for more than usual get so much memory.
    pub(crate) fn with_memory(mut self, bytes: Option<u64>) -> Self {
        self.memory = bytes.unwrap_or(self.memory);
        self
    }

    /// No key with limits has a root with any of these files.
    pub(crate) fn keeping(self, files: &[PathBuf]) -> Self {
        let mut own = OwnFiles::default();
        for file in files {
            own.add(file);
        }
        let own = Arc::new(own);
        Self { own, ..self }
    }

    /// Says which roots have files of the server's own.
    pub(crate) fn warn_of_roots(&self) {
        let warnings = self.roots().into_iter();
        for warning in warnings.filter_map(|root| self.own.warning(&root)) {
            self.log.at(Level::Warning, &warning);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A list is replaced as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file. Whoever stands on a line that makes no sense does not get in: what he could before may be more than the
    /// line was to say. A list that is gone, or none, lets nobody in. `look`: what it looked like before.
    fn read(&self, path: &Path, look: Option<Look>) {
        let name = path.display();
        let (keys, mistakes) = match AuthorizedKeys::load_what_makes_sense(path) {
            Ok(read) => read,
            Err(error) if error.is_not_found() => {
                let gone = format!("{name} is gone: nobody gets in any more");
                return self.take(AuthorizedKeys::new(), look, || self.log.line(&gone));
            }
            Err(error @ KeyError::Io { .. }) => {
                // It may be this process that could not, for want of descriptors or memory: it is tried again.
                let error = error.to_string();
                let mut state = self.lock();
                (state.seen, state.is_told) = (Seen::Nothing, false);
                let told = state.trouble.replace(error.clone());
                drop(state);
                if told.as_ref() != Some(&error) {
                    self.log.line(&format!(
                        "{error}; the list as it was before stays in force, and it is tried again each second"
                    ));
                }
                return;
            }
            Err(error) => {
                self.lock().is_told = false;
                let none = format!("{error}; nobody gets in until then");
                return self.take(AuthorizedKeys::new(), look, || self.log.line(&none));
            }
        };
        self.lock().is_told &= mistakes.is_empty();
        let count = keys.len();
        self.take(keys, look, || {
            for mistake in mistakes.iter().take(MISTAKES_TOLD) {
                self.log.line(&format!(
                    "{mistake}; whoever is meant does not get in, the other lines are in force"
                ));
            }
            if mistakes.len() > MISTAKES_TOLD {
                let more = mistakes.len() - MISTAKES_TOLD;
                self.log.line(&format!(
                    "{name} has {more} more such lines, which are not named"
                ));
            }
            self.log.line(&format!("{name}: read again, {count} keys"));
        });
    }

    /// These keys are in force from now on.
    fn take(&self, keys: AuthorizedKeys, look: Option<Look>, tell: impl FnOnce()) {
        let mut state = self.lock();
        let is_told = state.is_told && state.keys.iter().eq(&keys);
        (state.keys, state.seen) = (keys, Seen::As(look));
        (state.is_told, state.trouble) = (false, None);
        drop(state);
        if !is_told {
            tell();
        }
    }
}

impl Authority for Listed {
    fn admits(&self, key: &PublicKey) -> bool {
        self.lock().keys.contains(key)
    }

    fn comment(&self, key: &PublicKey) -> String {
        let state = self.lock();
        let entry = state.keys.find(key);
        entry.map_or_else(String::new, |entry| entry.comment.clone())
    }

    fn enter(&self, key: &PublicKey, from: IpAddr) -> Result<Rights, Error> {
        let options = match self.lock().keys.find(key) {
            Some(entry) => entry.options.clone(),
            None => return Err(Error::new(ErrorKind::Auth, "this key is not on the list")),
        };
        let turned_away = |why: String| Err(Error::new(ErrorKind::Auth, why));
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        if let Some(day) = options.expires.filter(|day| today > *day) {
            return turned_away(format!(
                "says: this key was good until {day}; ask whoever runs the server"
            ));
        }
        if options
            .from
            .as_ref()
            .is_some_and(|networks| !networks.contains(from))
        {
            return turned_away(not_good_from(from));
        }
        let root = options.root.clone().unwrap_or_else(|| self.root.clone());
        let (read, write) = (!options.write_only, !options.read_only);
        // (Whoever has no limits is trusted with all of the server.)
        let is_limited = options.is_limited();
        let (log, own) = (self.log.clone(), Arc::clone(&self.own));
        let open = Arc::clone(&self.open);
        let rights = Rights::below(move || {
            // Where it lies is for whoever runs the server.
            let opened = Root::open(&root).map(|root| open.share(root.untold()));
            let opened = opened.map_err(|e| {
                // The sandbox has what was there at the start.
                let (root, e) = (root.display(), from_store(&e));
                format!(
                    "the root {root} cannot be used now ({e}); one that was added or mounted since the server started takes a restart"
                )
            });
            // It may be another one than at the start.
            let own = is_limited.then(|| own.warning(&root)).flatten();
            own.map_or(opened, Err).map_err(|why| {
                log.line(&why);
                let text = "the server's root for this key cannot be used now; ask whoever runs the server, whose log says why";
                Error::new(ErrorKind::Refused, text)
            })
        });
        Ok(rights
            .restricted(read, write, options.max_rate)
            .adding_only(options.no_delete)
            .bounded(&options)
            .with_memory(self.memory))
    }

    fn refresh(&self) {
        let Some(file) = &self.file else { return };
        let asked = file.now.swap(false, Ordering::Relaxed);
        let mut state = self.lock();
        if !asked && state.looked_at.elapsed() < LOOK_EVERY {
            return;
        }
        state.looked_at = Instant::now();
        state.is_told &= !asked;
        // Nobody who comes in waits for this disk.
        drop(state);
        // What changes while it is read will look different next time.
        let look = Look::at(&file.path);
        if asked || Seen::As(look) != self.lock().seen {
            self.read(&file.path, look);
        }
    }

    fn roots(&self) -> Vec<PathBuf> {
        let state = self.lock();
        let of_keys = state.keys.roots().map(Path::to_path_buf);
        of_keys.chain([self.root.clone()]).collect()
    }

    fn changes(&self) -> bool {
        self.file.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    #[test]
    fn the_list_is_read_again_and_who_stands_on_a_broken_line_is_shut_out() {
        let dir = tempfile::tempdir().expect("a place");
        let path = dir.path().join("keys");
        let key = |who: &Identity| format!("{}\n", who.public_key());
        let (anna, ben) = (
            Identity::generate().expect("a key"),
            Identity::generate().expect("a key"),
        );
        fs::write(&path, key(&anna)).expect("written");
        let now = Arc::new(AtomicBool::new(false));
        let file = Reread {
            path: path.clone(),
            now: Arc::clone(&now),
        };
        let keys = AuthorizedKeys::load(&path).expect("a list");
        let listed = Listed::new(dir.path().to_path_buf(), keys, Some(file), Log::default());
        let refresh = || {
            now.store(true, Ordering::Relaxed);
            listed.refresh();
            [&anna, &ben].map(|who| listed.admits(who.public_key()))
        };
        assert_eq!(refresh(), [true, false]);
        fs::write(&path, key(&anna) + &key(&ben)).expect("written");
        assert_eq!(refresh(), [true, true]);
        // Others are not held up by a mistake, and nobody has the rights that he had before.
        for (lines, admitted) in [
            (format!("{}nonsense\n", key(&anna)), [true, false]),
            (
                format!("{}readonly {}", key(&anna), key(&ben)),
                [true, false],
            ),
            (
                format!("expires=\"31.1.\" {}{}", key(&anna), key(&ben)),
                [false, true],
            ),
            (
                format!("readonly,x {}read-only {}", key(&ben), key(&ben)),
                [false, false],
            ),
            (
                format!("root=\"/a {}{}", key(&ben), key(&ben) + &key(&anna)),
                [true, false],
            ),
            (
                format!("read-only {}{}", key(&anna), key(&anna) + &key(&ben)),
                [false, true],
            ),
            (
                format!("{}\u{7f}{}", key(&anna).trim_end(), key(&ben)),
                [false, false],
            ),
            ("nonsense\n".to_owned(), [false, false]),
        ] {
            fs::write(&path, key(&anna) + &key(&ben)).expect("written");
            assert_eq!(refresh(), [true, true]);
            fs::write(&path, &lines).expect("written");
            assert_eq!(refresh(), admitted, "{lines}");
        }
        fs::write(&path, format!("read-only {}", key(&ben))).expect("written");
        assert_eq!(refresh(), [false, true]);
        let here = IpAddr::from([127, 0, 0, 1]);
        let rights = listed.enter(ben.public_key(), here).expect("on the list");
        assert!(rights.source(Path::new("")).is_ok() && rights.target(Path::new("x")).is_err());
        assert!(listed.enter(anna.public_key(), here).is_err());
        fs::remove_file(&path).expect("removed");
        assert_eq!(refresh(), [false, false]);
    }

    /// Whoever comes in waits for no disk: it is the thread of all connections that lets him in.
    #[test]
    fn h13_a_root_is_opened_when_something_is_asked_for_and_not_before() {
        let dir = tempfile::tempdir().expect("a place");
        let root = dir.path().join("later");
        let anna = Identity::generate().expect("a key");
        let list = dir.path().join("keys");
        fs::write(&list, format!("{}\n", anna.public_key())).expect("written");
        let keys = AuthorizedKeys::load(&list).expect("a list");
        let listed = Listed::new(root.clone(), keys, None, Log::default());
        let here = IpAddr::from([127, 0, 0, 1]);
        let enter = || {
            let _loop = howdah_core::NoWaiting::here();
            listed.enter(anna.public_key(), here).expect("on the list")
        };
        let early = enter();
        let asked = |rights: &Rights| rights.source(Path::new("")).map(drop).map_err(|e| e.kind());
        assert_eq!(asked(&early), Err(ErrorKind::Refused));
        let rights = enter();
        fs::create_dir(&root).expect("made");
        assert_eq!(asked(&rights), Ok(()));
        // It stays what its name meant then.
        assert_eq!(asked(&early), Err(ErrorKind::Refused));
        // However many sessions have it, it takes one descriptor; another directory is another one.
        let opened = |rights: &Rights| rights.source(Path::new("")).expect("there").0;
        let (first, second) = (opened(&rights), opened(&enter()));
        assert!(Arc::ptr_eq(&first, &second));
        fs::rename(&root, dir.path().join("elsewhere")).expect("renamed");
        assert_eq!(asked(&rights), Ok(()));
        fs::create_dir(&root).expect("made");
        assert!(!Arc::ptr_eq(&first, &opened(&enter())));
    }

    /// Whoever may write there could let anybody in, and whoever may read there has the server's private key.
    #[test]
    fn h19_no_key_with_limits_has_files_of_the_servers_own() {
        let dir = tempfile::tempdir().expect("a place");
        let place = |name: &str| dir.path().join(name);
        for name in ["site/data", "conf"] {
            fs::create_dir_all(place(name)).expect("made");
        }
        let anna = Identity::generate().expect("a key");
        let line = anna.public_key();
        std::os::unix::fs::symlink(place("site"), place("link")).expect("linked");
        let listed = |list: &str, root: &str, own: &str| {
            fs::write(place(own), "x").expect("written");
            let list = place(list);
            let keys = AuthorizedKeys::load(&list).expect("a list");
            let listed = Listed::new(place(root), keys, None, Log::default());
            listed.keeping(&[place(own), list])
        };
        let write = |list: &str, root: &str| {
            let root = place(root);
            fs::write(place(list), format!("root=\"{}\" {line}\n", root.display()))
                .expect("written");
        };
        write("conf/keys", "site/data");
        write("site/keys", "site/data");
        write("conf/wide", "");
        std::os::unix::fs::symlink(place("site/keys"), place("conf/keys-link")).expect("linked");
        let here = IpAddr::from([127, 0, 0, 1]);
        for (list, root, own, is_good) in [
            ("conf/keys", "site", "conf/id", true),
            ("conf/keys", "site", "site/data/id", false),
            ("conf/keys", "link", "site/id", false),
            ("conf/keys", "site/data", "site/id", true),
            ("site/keys", "site", "conf/id", false),
            ("conf/keys-link", "site", "conf/id", false),
            // The root of the key.
            ("conf/wide", "site", "conf/id", false),
        ] {
            let listed = listed(list, root, own);
            let mut roots = listed.roots().into_iter();
            let warned = roots.any(|root| listed.own.warning(&root).is_some());
            assert_eq!(!warned, is_good, "{list} {root} {own}");
        }
        // It is added, or becomes that, while the server runs.
        let listed = listed("conf/keys", "site", "conf/id");
        write("conf/keys", "conf");
        listed.read(&place("conf/keys"), None);
        let asked = |listed: &Listed| {
            let rights = listed.enter(line, here).expect("on the list");
            rights.source(Path::new("")).map(drop)
        };
        assert_eq!(
            asked(&listed).expect_err("refused").kind(),
            ErrorKind::Refused
        );
        // Who has no limits is trusted with them.
        for (limits, is_in) in [("", true), ("read-only ", false)] {
            let list = place("conf/keys");
            fs::write(&list, format!("{limits}{line}\n")).expect("written");
            let keys = AuthorizedKeys::load(&list).expect("a list");
            let wide = Listed::new(place(""), keys, None, Log::default()).keeping(&[list]);
            assert_eq!(asked(&wide).is_ok(), is_in, "{limits}");
        }
    }

    /// A server takes a moment to begin.
    #[test]
    fn what_is_written_to_the_list_while_a_server_begins_is_read() {
        let dir = tempfile::tempdir().expect("a place");
        let path = dir.path().join("keys");
        let [anna, ben] = [(); 2].map(|()| Identity::generate().expect("a key"));
        let said = Arc::new(Mutex::new(Vec::new()));
        for is_there in [true, false] {
            for is_changed in [true, false] {
                let _ = fs::remove_file(&path);
                let write = |who: &Identity| {
                    fs::write(&path, format!("{}\n", who.public_key())).expect("written");
                };
                let mut keys = AuthorizedKeys::new();
                if is_there {
                    write(&anna);
                    keys = AuthorizedKeys::load(&path).expect("a list");
                }
                if is_changed {
                    write(&ben);
                }
                let file = Reread {
                    path: path.clone(),
                    now: Arc::default(),
                };
                let heard = Arc::clone(&said);
                let log =
                    Log::new(move |line| heard.lock().expect("no panic").push(line.to_owned()));
                let listed = Listed::new(dir.path().to_path_buf(), keys, Some(file), log);
                for _ in 0..2 {
                    let earlier = listed.lock().looked_at.checked_sub(LOOK_EVERY);
                    listed.lock().looked_at = earlier.expect("a moment ago");
                    listed.refresh();
                }
                let admitted = [&anna, &ben].map(|who| listed.admits(who.public_key()));
                assert_eq!(admitted, [is_there && !is_changed, is_changed]);
                let said = std::mem::take(&mut *said.lock().expect("no panic"));
                assert_eq!(said.len(), usize::from(is_changed), "{said:?}");
            }
        }
    }

    #[test]
    fn a32_a_list_that_others_may_change_lets_nobody_in() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a place");
        let path = dir.path().join("keys");
        let anna = Identity::generate().expect("a key");
        fs::write(&path, format!("{}\n", anna.public_key())).expect("written");
        let now = Arc::new(AtomicBool::new(true));
        let file = Reread {
            path: path.clone(),
            now,
        };
        let keys = AuthorizedKeys::load(&path).expect("a list");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("changed");
        let listed = Listed::new(dir.path().to_path_buf(), keys, Some(file), Log::default());
        assert!(listed.admits(anna.public_key()));
        listed.refresh();
        assert!(!listed.admits(anna.public_key()));
    }
}
