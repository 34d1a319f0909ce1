//! Where bytes come from and where they go.

use howdah_core::units;
use std::fmt;
use std::path::PathBuf;

/// UDP port of a howdah server unless the URL names another.
pub const DEFAULT_PORT: u16 = 4433;

/// One side of a copy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Location {
    /// A local file (or, as destination, an existing directory).
    File(PathBuf),
    /// Standard input or output.
    Stdio,
    /// That many zero bytes made up on the spot (source only).
    Zero(u64),
    /// Counted and thrown away (destination only).
    Null,
    /// `howdah://HOST:PORT/path`; the path may itself be `zero:SIZE` or `null:`.
    Remote {
        /// Host name or address, without brackets.
        host: String,
        /// UDP port.
        port: u16,
        /// Path below the server's root, without leading slash.
        path: String,
    },
    /// `[USER@]HOST:PATH` or `ssh://[USER@]HOST[:PORT]/PATH`: the other end is started over ssh.
    Ssh(SshLocation),
}

/// A path on a machine that ssh reaches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SshLocation {
    /// Which machine.
    pub target: SshTarget,
    /// Absolute, or relative to the home directory there. It may itself be `zero:SIZE` or `null:`.
    pub path: String,
}

/// Whom to ask ssh for. Made by parsing only, so that nothing in it can be an option of ssh.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SshTarget {
    user: Option<String>,
    host: String,
    port: Option<u16>,
}

impl SshTarget {
    /// The user, if one was named.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Host name, address without brackets, or alias of ssh's configuration.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The TCP port of its sshd, if one was named.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    fn new(user: Option<&str>, host: &str, port: Option<u16>) -> Result<Self, String> {
        if let Some(user) = user {
            if user.contains(':') {
                return Err("a password has no place in a location; ssh asks for it".to_owned());
            }
            check_ssh_word("user", user)?;
        }
        check_ssh_word("host", host)?;
        Ok(Self {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
        })
    }
}

/// A word that ssh could take for an option, or a shell of its configuration for more than a word, is
/// none.
fn check_ssh_word(what: &str, word: &str) -> Result<(), String> {
    const SHELL: &str = "'`\"$\\;&<>|(){}[]*?!#~";
    if word.is_empty() {
        return Err(format!(
            "the {what} is missing before '{}'",
            if what == "user" { '@' } else { ':' }
        ));
    }
    if word.len() > MAX_SSH_WORD {
        return Err(format!("the {what} is longer than {MAX_SSH_WORD} bytes"));
    }
    if word.starts_with('-') {
        return Err(format!("a {what} cannot begin with '-'"));
    }
    match word
        .chars()
        .find(|&c| c.is_whitespace() || c.is_control() || SHELL.contains(c))
    {
        Some(c) => Err(format!("{c:?} cannot be part of a {what}")),
        None => Ok(()),
    }
}

/// Longest user or host, in bytes.
const MAX_SSH_WORD: usize = 255;

/// Text that is not a location.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("'{text}': {reason}")]
pub struct ParseLocationError {
    text: String,
    reason: String,
}

impl Location {
    /// Whether it names another machine.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Remote { .. } | Self::Ssh(_))
    }
}

impl std::str::FromStr for Location {
    type Err = ParseLocationError;

    fn from_str(text: &str) -> Result<Self, ParseLocationError> {
        let error = |reason: String| ParseLocationError {
            text: text.to_owned(),
            reason,
        };
        if text.is_empty() {
            return Err(error("an empty path names nothing".to_owned()));
        }
        if text == "-" {
            return Ok(Self::Stdio);
        }
        if text == "null:" {
            return Ok(Self::Null);
        }
        if let Some(size) = text.strip_prefix("zero:") {
            if size.is_empty() {
                return Ok(Self::Zero(u64::MAX >> 2));
            }
            return units::parse_bytes(size)
                .map(Self::Zero)
                .map_err(|e| error(e.to_string()));
        }
        if let Some(rest) = text.strip_prefix("howdah://") {
            return howdah_url(rest).map_err(error);
        }
        if let Some(rest) = text.strip_prefix("ssh://") {
            return ssh_url(rest).map_err(error);
        }
        if let Some((scheme, _)) = text.split_once("://")
            && scheme.starts_with(|c: char| c.is_ascii_lowercase())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric())
        {
            return Err(error(
                "howdah knows howdah:// and ssh://, no other kind of URL; a local name is written ./NAME"
                    .to_owned(),
            ));
        }
        match scp_form(text).map_err(error)? {
            Some(location) => Ok(Self::Ssh(location)),
            None => Ok(Self::File(PathBuf::from(text))),
        }
    }
}

/// Host and port of a URL, and what follows the first slash.
fn authority(rest: &str) -> Result<(&str, Option<u16>, &str), String> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = if let Some(v6) = authority.strip_prefix('[') {
        let (host, tail) = v6
            .split_once(']')
            .ok_or_else(|| "missing ']' after the address".to_owned())?;
        match tail.strip_prefix(':') {
            None if !tail.is_empty() => return Err("only ':PORT' can follow ']'".to_owned()),
            port => (host, port),
        }
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    let port = match port {
        None => None,
        Some(port) => Some(
            port.parse()
                .ok()
                .filter(|&p| p != 0)
                .ok_or_else(|| format!("'{port}' is not a port (1 to 65535)"))?,
        ),
    };
    Ok((host, port, path))
}

fn howdah_url(rest: &str) -> Result<Location, String> {
    let (host, port, path) = authority(rest)?;
    if host.is_empty() {
        return Err("missing host; write howdah://HOST:PORT/path".to_owned());
    }
    Ok(Location::Remote {
        host: host.to_owned(),
        port: port.unwrap_or(DEFAULT_PORT),
        path: path.to_owned(),
    })
}

/// As git reads them: the path is absolute, `/~/` is the home directory.
fn ssh_url(rest: &str) -> Result<Location, String> {
    let slash = rest.find('/').unwrap_or(rest.len());
    let (user, rest) = match rest[..slash].rfind('@') {
        Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
        None => (None, rest),
    };
    let (host, port, path) = authority(rest)?;
    if host.is_empty() {
        return Err("missing host; write ssh://USER@HOST:PORT/path".to_owned());
    }
    let path = match path {
        "" if !rest.ends_with('/') => String::new(),
        "~" => String::new(),
        path if path.starts_with("~/") => path.to_owned(),
        path => format!("/{path}"),
    };
    Ok(Location::Ssh(SshLocation {
        target: SshTarget::new(user, host, port)?,
        path,
    }))
}

/// As scp reads them: the first colon that no slash precedes ends the host; an IPv6 address stands in
/// brackets; a colon at the beginning belongs to a local name.
fn scp_form(text: &str) -> Result<Option<SshLocation>, String> {
    let slash = text.find('/').unwrap_or(text.len());
    let head = &text[..slash];
    // The user's name ends at the last '@' before the host.
    let bracket = if head.starts_with('[') {
        Some(0)
    } else {
        head.find("@[").map(|at| at + 1)
    };
    let colon = match bracket {
        Some(open) => {
            let close = head[open..].find("]:").map(|at| open + at);
            match close {
                Some(close) => close + 1,
                None => return Ok(None),
            }
        }
        None => match head.find(':') {
            None | Some(0) => return Ok(None),
            Some(colon) => colon,
        },
    };
    let (who, path) = (&text[..colon], &text[colon + 1..]);
    let (user, host) = match who.rfind('@') {
        Some(at) => (Some(&who[..at]), &who[at + 1..]),
        None => (None, who),
    };
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let target = SshTarget::new(user, host, None)
        .map_err(|why| format!("{why}; a local name with a colon is written ./NAME"))?;
    Ok(Some(SshLocation {
        target,
        path: path.to_owned(),
    }))
}

impl fmt::Display for SshTarget {
    /// As ssh's user would write it, without the port.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)
        } else {
            f.write_str(&self.host)
        }
    }
}

impl fmt::Display for SshLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (target, path) = (&self.target, &self.path);
        match target.port {
            None => write!(f, "{target}:{path}"),
            Some(port) if path.starts_with('/') => write!(f, "ssh://{target}:{port}{path}"),
            Some(port) if path.is_empty() || path.starts_with("~/") => {
                write!(
                    f,
                    "ssh://{target}:{port}/{}",
                    if path.is_empty() { "~" } else { path }
                )
            }
            Some(port) => write!(f, "ssh://{target}:{port}/~/{path}"),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Stdio => f.write_str("-"),
            Self::Zero(size) => write!(f, "zero:{size}"),
            Self::Null => f.write_str("null:"),
            Self::Ssh(location) => location.fmt(f),
            Self::Remote { host, port, path } if host.contains(':') => {
                write!(f, "howdah://[{host}]:{port}/{path}")
            }
            Self::Remote { host, port, path } => write!(f, "howdah://{host}:{port}/{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_location_or_an_error(text in "\\PC{0,40}|[-a@:/\\[\\]~. ]{0,20}") {
            if let Ok(location) = text.parse::<Location>() {
                prop_assert_eq!(location.to_string().parse::<Location>(), Ok(location));
            }
        }
    }

    #[test]
    fn reads_every_form() {
        let remote = |host: &str, port, path: &str| Location::Remote {
            host: host.into(),
            port,
            path: path.into(),
        };
        for (text, want) in [
            ("-", Location::Stdio),
            ("null:", Location::Null),
            ("zero:4GiB", Location::Zero(4 << 30)),
            ("a/b", Location::File("a/b".into())),
            ("howdah://h:1/x/y", remote("h", 1, "x/y")),
            ("howdah://h/x", remote("h", DEFAULT_PORT, "x")),
            ("howdah://[::1]:9/null:", remote("::1", 9, "null:")),
            ("howdah://[::1]/", remote("::1", DEFAULT_PORT, "")),
        ] {
            let got: Location = text.parse().unwrap();
            assert_eq!(got, want, "{text}");
            assert_eq!(got.to_string().parse::<Location>().unwrap(), want, "{text}");
        }
    }

    #[test]
    fn reads_what_scp_reads() {
        let ssh = |user: Option<&str>, host: &str, port, path: &str| {
            Location::Ssh(SshLocation {
                target: SshTarget::new(user, host, port).unwrap(),
                path: path.into(),
            })
        };
        for (text, want) in [
            ("h:", ssh(None, "h", None, "")),
            ("h:a/b:c", ssh(None, "h", None, "a/b:c")),
            ("anna@h:/x", ssh(Some("anna"), "h", None, "/x")),
            ("a@b@h:~/x", ssh(Some("a@b"), "h", None, "~/x")),
            ("[::1]:x", ssh(None, "::1", None, "x")),
            (
                "anna@[fe80::1%eth0]:/x",
                ssh(Some("anna"), "fe80::1%eth0", None, "/x"),
            ),
            ("h:zero:1GiB", ssh(None, "h", None, "zero:1GiB")),
            ("ssh://h", ssh(None, "h", None, "")),
            ("ssh://h/", ssh(None, "h", None, "/")),
            ("ssh://h/x/y", ssh(None, "h", None, "/x/y")),
            (
                "ssh://anna@h:2222/x",
                ssh(Some("anna"), "h", Some(2222), "/x"),
            ),
            (
                "ssh://anna@[::1]:2222/~/x",
                ssh(Some("anna"), "::1", Some(2222), "~/x"),
            ),
            ("ssh://h:2222/~", ssh(None, "h", Some(2222), "")),
        ] {
            let got: Location = text.parse().unwrap();
            assert_eq!(got, want, "{text}");
            assert!(got.is_remote());
            assert_eq!(got.to_string().parse::<Location>().unwrap(), want, "{text}");
        }
        for local in ["./a:b", "/a:b", "a/b:c", ":a", "a", "[x", "[a]b"] {
            let got: Location = local.parse().unwrap();
            assert_eq!(got, Location::File(local.into()), "{local}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, part) in [
            ("howdah:///x", "missing host"),
            ("howdah://h:99999/x", "not a port"),
            ("ssh://h:0/x", "not a port"),
            ("ssh:///x", "missing host"),
            ("scp://h/x", "no other kind of URL"),
            ("ssh://u:secret@h/x", "ssh asks for it"),
            ("ssh://[::1]2/x", "only ':PORT'"),
            ("@h:x", "the user is missing"),
            ("u@:x", "the host is missing"),
            // A59: nothing of it is an option or a piece of shell for ssh.
            ("-oProxyCommand=reboot:x", "cannot begin with '-'"),
            ("ssh://-oProxyCommand=reboot/x", "cannot begin with '-'"),
            ("-l@h:x", "cannot begin with '-'"),
            ("$(reboot):x", "cannot be part of a host"),
            ("a b:c", "written ./NAME"),
            ("h\u{1b}[2J:x", "cannot be part of a host"),
            ("howdah://[::1/x", "missing ']'"),
            ("zero:much", "not a size"),
            ("", "empty"),
        ] {
            let error = text.parse::<Location>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
