//! Who comes over TCP: roles, and the tokens that prove them.

use crate::private;
use howdah_audit::Level;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What somebody may. A greater one may what a smaller one may.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Read,
    /// Submit jobs, and change them.
    Submit,
    /// Everything.
    Admin,
}

impl Role {
    const ALL: [Self; 3] = [Self::Read, Self::Submit, Self::Admin];

    /// As in the file of tokens.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bytes of a token.
const LENGTH: usize = 32;
/// How often it is looked whether their file has changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Its name in the daemon's directory.
pub const FILE: &str = "tokens";

/// The tokens of a daemon, as hashes: they are compared in the same time whatever they are.
#[derive(Clone)]
pub struct Tokens(Vec<(Role, blake3::Hash, String)>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.0.len())
    }
}

impl Tokens {
    /// Reads the file, or makes it with a token for each role.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        match Self::load(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            loaded => return loaded,
        }
        let mut text = String::from(
            "# ROLE TOKEN, and perhaps a name: who shows one may look (read), submit and change jobs (submit), or everything (admin)\n",
        );
        for role in Role::ALL {
            let mut token = [0; LENGTH];
            getrandom::fill(&mut token).map_err(io::Error::other)?;
            let token = blake3::Hash::from_bytes(token).to_hex();
            let _ = writeln!(text, "{role} {token}");
        }
        private::write_new(path, &text)?;
        Self::load(path)
    }

    fn load(path: &Path) -> io::Result<Self> {
        let text = private::read(path)?;
        let tokens = parse(&text).map_err(io::Error::other)?;
        let hashed = tokens.into_iter().map(|line| {
            let hash = blake3::hash(line.token.as_bytes());
            // What a hash begins with tells tokens apart, and opens nothing.
            let name = match line.name {
                "" => format!("blake3:{}", &hash.to_hex()[..12]),
                name => name.to_owned(),
            };
            (line.role, hash, name)
        });
        Ok(Self(hashed.collect()))
    }

    /// What it is good for, and its name.
    pub fn known(&self, token: &str) -> Option<(Role, &str)> {
        let hash = blake3::hash(token.as_bytes());
        // All of them are looked at, whichever it is.
        let fits = self.0.iter().filter(|(_, known, _)| *known == hash);
        fits.map(|(role, _, name)| (*role, name.as_str())).max()
    }
}

/// What tells whether a file is another one, or has another content.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Look {
    file: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Look {
    fn at(path: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(path).ok()?;
        Some(Self {
            file: (found.dev(), found.ino()),
            size: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// The file of them, which is read again when it changes: whoever takes a line out shuts its holder out.
pub(crate) struct TokenFile {
    path: PathBuf,
    log: fn(Level, &str),
    state: Mutex<(Tokens, Option<Look>, Instant)>,
}

impl TokenFile {
    /// Reads it, or makes it. What is wrong with it later is told to `log`.
    pub(crate) fn open(path: &Path, log: fn(Level, &str)) -> io::Result<Self> {
        let tokens = Tokens::load_or_create(path)?;
        Ok(Self {
            path: path.to_owned(),
            log,
            state: Mutex::new((tokens, Look::at(path), Instant::now())),
        })
    }

    /// What that token is good for, and its name.
    pub(crate) fn known(&self, token: &str) -> Option<(Role, String)> {
        let state = self.state.lock();
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.2.elapsed() >= LOOK_EVERY {
            state.2 = Instant::now();
            self.look(&mut state);
        }
        let (role, name) = state.0.known(token)?;
        Some((role, name.to_owned()))
    }

    /// A file that is gone, that others may read, or that makes no sense lets nobody in: it may have been meant to shut somebody out.
    fn look(&self, state: &mut (Tokens, Option<Look>, Instant)) {
        self.look_by(Tokens::load, state);
    }

    fn look_by(
        &self,
        load: impl Fn(&Path) -> io::Result<Tokens>,
        (tokens, seen, _): &mut (Tokens, Option<Look>, Instant),
    ) {
        let now = Look::at(&self.path);
        if now == *seen {
            return;
        }
        let before = std::mem::replace(seen, now);
        let path = self.path.display();
        match load(&self.path) {
            Ok(read) => {
                let text = format!("{path}: read again, {} tokens", read.0.len());
                (self.log)(Level::Info, &text);
                *tokens = read;
            }
            Err(error) => {
                // It may be this process that could not, for want of descriptors: it is tried again, and said once.
                let is_system = error.raw_os_error().is_some();
                *seen = now.filter(|_| !is_system);
                if before.is_some() || !is_system {
                    let text = format!("{path}: {error}; nobody gets in over TCP until then");
                    (self.log)(Level::Error, &text);
                }
                *tokens = Tokens(Vec::new());
            }
        }
    }
}

/// A token of that role, as it stands in the file.
pub(crate) fn secret(path: &Path, role: Role) -> io::Result<String> {
    let text = private::read(path)?;
    let tokens = parse(&text).map_err(io::Error::other)?;
    let found = tokens.into_iter().find(|line| line.role == role);
    let none = || io::Error::other(format!("there is no token of '{role}' in it"));
    found.map(|line| line.token.to_owned()).ok_or_else(none)
}

/// A line of the file: `ROLE TOKEN`, and perhaps a name.
#[derive(Debug)]
struct Line<'a> {
    role: Role,
    token: &'a str,
    name: &'a str,
}

fn parse(text: &str) -> Result<Vec<Line<'_>>, String> {
    const SHORTEST: usize = 32;
    const LONGEST_NAME: usize = 64;
    let mut found = Vec::new();
    for (at, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || format!("line {at} is no 'ROLE TOKEN' or 'ROLE TOKEN NAME'");
        let (role, token) = line.split_once(' ').ok_or_else(wrong)?;
        let role = Role::ALL.into_iter().find(|known| known.name() == role);
        let token = token.trim();
        let (token, name) = token.split_once(' ').unwrap_or((token, ""));
        let name = name.trim();
        if token.len() < SHORTEST || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(format!(
                "the token in line {at} is too short, or no word: at least {SHORTEST} characters"
            ));
        }
        if name.len() > LONGEST_NAME || name.contains(char::is_control) {
            return Err(format!("the name in line {at} is too long, or no text"));
        }
        found.push(Line {
            role: role.ok_or_else(wrong)?,
            token,
            name,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn tokens_are_made_once_and_are_nobody_elses() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let tokens = Tokens::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        let again = Tokens::load_or_create(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        for role in Role::ALL {
            let line = text.lines().find(|line| line.starts_with(role.name()));
            let (_, token) = line.unwrap().split_once(' ').unwrap();
            assert_eq!(token.len(), 2 * LENGTH);
            let hash = blake3::hash(token.as_bytes()).to_hex();
            let name = format!("blake3:{}", &hash[..12]);
            assert_eq!(tokens.known(token), Some((role, name.as_str())));
            assert_eq!(again.known(token), Some((role, name.as_str())));
            assert_eq!(secret(&path, role).unwrap(), token);
            assert_eq!(tokens.known(&token[1..]), None);
            assert_eq!(tokens.known(&token.to_uppercase()), None);
        }
        assert_eq!(tokens.known(""), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = Tokens::load_or_create(&path).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }

    #[test]
    fn who_is_taken_out_of_the_file_is_shut_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let file = TokenFile::open(&path, |_, _| ()).unwrap();
        let look = || file.look(&mut file.state.lock().unwrap());
        let [old, other] = [Role::Admin, Role::Read].map(|role| secret(&path, role).unwrap());
        let role = |token: &str| file.known(token).map(|(role, _)| role);
        let new = "n".repeat(32);
        let changed = fs::read_to_string(&path).unwrap().replace(&old, &new);
        private::write_new(&path, &changed).unwrap();
        look();
        assert_eq!(role(&old), None);
        assert_eq!(
            [&*new, &*other].map(role),
            [Some(Role::Admin), Some(Role::Read)]
        );
        // In place, and what is worse than a line less.
        fs::write(&path, changed.replace(&other, "short")).unwrap();
        look();
        assert_eq!([&*new, &*other].map(role), [None, None]);
        private::write_new(&path, &changed).unwrap();
        look();
        assert_eq!(role(&new), Some(Role::Admin));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        look();
        assert_eq!(role(&new), None);
        private::write_new(&path, &changed).unwrap();
        look();
        assert_eq!(role(&new), Some(Role::Admin));
        fs::remove_file(&path).unwrap();
        look();
        assert_eq!(role(&new), None);
    }

    #[test]
    fn a_file_that_could_not_be_read_for_want_of_descriptors_is_read_when_it_can_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let file = TokenFile::open(&path, |_, _| ()).unwrap();
        let token = secret(&path, Role::Read).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        private::write_new(&path, &format!("{text}# changed\n")).unwrap();
        let none = |_: &Path| Err(rustix::io::Errno::MFILE.into());
        let mut state = file.state.lock().unwrap();
        for _ in 0..2 {
            file.look_by(none, &mut state);
            assert_eq!(state.0.known(&token), None);
        }
        file.look(&mut state);
        let known = state.0.known(&token);
        assert_eq!(known.map(|(role, _)| role), Some(Role::Read));
    }

    #[test]
    fn a_file_that_makes_no_sense_lets_nobody_in() {
        let long = "x".repeat(32);
        assert_eq!(parse(&format!("read {long}\n\n# x\n")).unwrap().len(), 1);
        for text in [
            "read",
            "root 0123",
            "read short",
            "admin",
            "READ 0",
            &format!("root {long}"),
            &format!("read {long} {long}{long}x"),
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("").unwrap().is_empty());
        let named = format!("submit {long} anna, room 3");
        assert_eq!(parse(&named).unwrap()[0].name, "anna, room 3");
    }

    #[test]
    fn a_greater_role_may_what_a_smaller_one_may() {
        assert!(Role::Admin > Role::Submit && Role::Submit > Role::Read);
    }
}
