//! Who comes over TCP: roles, and the tokens that prove them.

use crate::private;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};
use std::io;
use std::path::Path;

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
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

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
