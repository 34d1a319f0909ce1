//! Where bytes come from and where they go.

use crate::PathBytes;
use howdah_core::units;
use std::ffi::OsStr;
use std::fmt;
use std::net::Ipv6Addr;
use std::os::unix::ffi::OsStrExt;
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
        path: PathBytes,
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
    pub path: PathBytes,
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
            check_ssh_user(user)?;
        }
        check_ssh_word("host", host, HOST_REFUSES)?;
        if let Some(blank) = host.chars().find(|c| c.is_whitespace()) {
            return Err(format!("{blank:?} cannot be part of a host"));
        }
        Ok(Self {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
        })
    }
}

/// A word that ssh could take for an option, or a shell of its configuration for more than a word, is
/// none.
fn check_ssh_word(what: &str, word: &str, refused: &str) -> Result<(), String> {
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
        .find(|&c| c.is_control() || refused.contains(c))
    {
        Some(c) => Err(format!("{c:?} cannot be part of a {what}")),
        None => Ok(()),
    }
}

/// What ssh takes for a user (`valid_ruser` of OpenSSH), which is more than for a host: domains, blanks, `$`.
fn check_ssh_user(user: &str) -> Result<(), String> {
    check_ssh_word("user", user, "'`\";&<>|(){}")?;
    let mut blanks = user.match_indices(char::is_whitespace);
    if blanks.any(|(at, blank)| user[at + blank.len()..].starts_with('-')) {
        return Err("a '-' cannot follow a blank in a user".to_owned());
    }
    if user.ends_with('\\') {
        return Err("a user cannot end in '\\'".to_owned());
    }
    Ok(())
}

/// What means something to a shell, and blanks.
const HOST_REFUSES: &str = "'`\"$\\;&<>|(){}[]*?!#~ ";

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

    /// The same without slashes at the end of its path.
    pub(crate) fn without_end_slashes(&self) -> Self {
        fn trimmed(path: &[u8]) -> &[u8] {
            let end = path.iter().rposition(|&byte| byte != b'/');
            &path[..end.map_or(0, |last| last + 1)]
        }
        // The root directory is all slash.
        fn or_root(path: &[u8]) -> &[u8] {
            match trimmed(path) {
                b"" if !path.is_empty() => b"/",
                trimmed => trimmed,
            }
        }
        match self {
            Self::File(path) => {
                let path = or_root(path.as_os_str().as_bytes());
                Self::File(OsStr::from_bytes(path).into())
            }
            Self::Remote { host, port, path } => Self::Remote {
                host: host.clone(),
                port: *port,
                path: trimmed(path.as_bytes()).into(),
            },
            Self::Ssh(location) => Self::Ssh(SshLocation {
                path: or_root(location.path.as_bytes()).into(),
                ..location.clone()
            }),
            Self::Stdio | Self::Zero(_) | Self::Null => self.clone(),
        }
    }
}

impl std::str::FromStr for Location {
    type Err = ParseLocationError;

    fn from_str(text: &str) -> Result<Self, ParseLocationError> {
        OsStr::new(text).try_into()
    }
}

/// What a shell hands over: the path need not be UTF-8.
impl TryFrom<&OsStr> for Location {
    type Error = ParseLocationError;

    fn try_from(given: &OsStr) -> Result<Self, ParseLocationError> {
        let bytes = given.as_bytes();
        let error = |reason: String| ParseLocationError {
            text: given.display().to_string(),
            reason,
        };
        match bytes {
            b"" => return Err(error("an empty path names nothing".to_owned())),
            b"-" => return Ok(Self::Stdio),
            b"null:" => return Ok(Self::Null),
            b"zero:" => return Ok(Self::Zero(u64::MAX >> 2)),
            _ => {}
        }
        if let Some(size) = bytes.strip_prefix(b"zero:") {
            return units::parse_bytes(&String::from_utf8_lossy(size))
                .map(Self::Zero)
                .map_err(|e| error(e.to_string()));
        }
        if let Some(rest) = bytes.strip_prefix(b"howdah://") {
            return howdah_url(rest).map_err(error);
        }
        if let Some(rest) = bytes.strip_prefix(b"ssh://") {
            return ssh_url(rest).map_err(error);
        }
        if let Some(end) = find(bytes, b"://")
            && bytes[0].is_ascii_lowercase()
            && bytes[..end].iter().all(u8::is_ascii_alphanumeric)
        {
            return Err(error(
                "howdah knows howdah:// and ssh://, no other kind of URL; a local name is written ./NAME"
                    .to_owned(),
            ));
        }
        match scp_form(bytes).map_err(error)? {
            Some(location) => Ok(Self::Ssh(location)),
            None => Ok(Self::File(PathBuf::from(given))),
        }
    }
}

/// Where `part` begins in `bytes` for the first time.
fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// What names a machine, which is text.
fn machine(bytes: &[u8]) -> Result<&str, String> {
    str::from_utf8(bytes).map_err(|_| "a host is written in UTF-8".to_owned())
}

/// The authority of a URL, and what follows the first slash if there is one.
fn split_url(rest: &[u8]) -> Result<(&str, Option<&[u8]>), String> {
    let slash = find(rest, b"/").unwrap_or(rest.len());
    Ok((machine(&rest[..slash])?, rest.get(slash + 1..)))
}

/// Host and port of a URL. The link of a link-local address stands behind `%`, or behind `%25` as URLs have it (RFC 6874).
fn host_and_port(authority: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = split_port(authority)?;
    let host = match host.split_once("%25") {
        Some((ip, link)) if !link.is_empty() && ip.parse::<Ipv6Addr>().is_ok() => {
            format!("{ip}%{link}")
        }
        _ => host.to_owned(),
    };
    Ok((host, port))
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), String> {
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
    Ok((host, port))
}

fn howdah_url(rest: &[u8]) -> Result<Location, String> {
    let (authority, path) = split_url(rest)?;
    let (host, port) = host_and_port(authority)?;
    if host.is_empty() {
        return Err("missing host; write howdah://HOST:PORT/path".to_owned());
    }
    let path = without_empty_names(path.unwrap_or_default());
    Ok(Location::Remote {
        host,
        port: port.unwrap_or(DEFAULT_PORT),
        path: path.as_slice().into(),
    })
}

/// A path below a root as a system reads it: what stands between two slashes in a row, or is a dot, is no name. At its ends both
/// mean something.
fn without_empty_names(path: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    let last = parts.len() - 1;
    let mut kept = Vec::with_capacity(parts.len());
    for (at, part) in parts.into_iter().enumerate() {
        let is_inner = at > 0 && at < last;
        if !(is_inner && [&b""[..], b"."].contains(&part)) {
            kept.push(part);
        }
    }
    kept.join(&b'/')
}

/// As git reads them: the path is absolute, `/~/` is the home directory.
fn ssh_url(rest: &[u8]) -> Result<Location, String> {
    let (authority, path) = split_url(rest)?;
    let (user, authority) = match authority.rsplit_once('@') {
        Some((user, authority)) => (Some(user), authority),
        None => (None, authority),
    };
    let (host, port) = host_and_port(authority)?;
    if host.is_empty() {
        return Err("missing host; write ssh://USER@HOST:PORT/path".to_owned());
    }
    let path = match path {
        None | Some(b"~") => PathBytes::default(),
        Some(path) if path.starts_with(b"~/") => path.into(),
        Some(path) => [b"/", path].concat().as_slice().into(),
    };
    Ok(Location::Ssh(SshLocation {
        target: SshTarget::new(user, &host, port)?,
        path,
    }))
}

/// As scp reads them: the first colon that no slash precedes ends the host; an IPv6 address stands in
/// brackets; a colon at the beginning belongs to a local name.
fn scp_form(given: &[u8]) -> Result<Option<SshLocation>, String> {
    let slash = find(given, b"/").unwrap_or(given.len());
    let head = &given[..slash];
    // The user's name ends at the last '@' before the host.
    let bracket = if head.starts_with(b"[") {
        Some(0)
    } else {
        find(head, b"@[").map(|at| at + 1)
    };
    let colon = match bracket {
        Some(open) => match find(&head[open..], b"]:") {
            Some(close) => open + close + 1,
            None => return Ok(None),
        },
        None => match find(head, b":") {
            None | Some(0) => return Ok(None),
            Some(colon) => colon,
        },
    };
    let local = |why| format!("{why}; a local name with a colon is written ./NAME");
    let who = machine(&given[..colon]).map_err(local)?;
    let (user, host) = match who.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, who),
    };
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let target = SshTarget::new(user, host, None).map_err(local)?;
    let path = given[colon + 1..].into();
    Ok(Some(SshLocation { target, path }))
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
        let port = match target.port {
            // Two slashes behind a colon would look like a URL of some kind.
            None if !path.as_bytes().starts_with(b"//") => return write!(f, "{target}:{path}"),
            None => String::new(),
            Some(port) => format!(":{port}"),
        };
        match path.as_bytes() {
            [b'/', ..] => write!(f, "ssh://{target}{port}{path}"),
            b"" => write!(f, "ssh://{target}{port}/~"),
            [b'~', b'/', ..] => write!(f, "ssh://{target}{port}/{path}"),
            _ => write!(f, "ssh://{target}{port}/~/{path}"),
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
    fn a_path_with_two_slashes_is_written_so_that_it_is_read() {
        for text in ["ssh://da//z+x", "ssh://anna@da:22//z", "ssh://[::1]//"] {
            let location: Location = text.parse().unwrap();
            assert_eq!(location.to_string(), text);
        }
        let scp: Location = "anna@host:/a//b".parse().unwrap();
        assert_eq!(scp.to_string(), "anna@host:/a//b");
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
            ("howdah://h/a//b/./c", remote("h", DEFAULT_PORT, "a/b/c")),
            ("howdah://h/a///.", remote("h", DEFAULT_PORT, "a/.")),
            ("howdah://h/a/", remote("h", DEFAULT_PORT, "a/")),
            ("howdah://h//a", remote("h", DEFAULT_PORT, "/a")),
            ("howdah://[::1]:9/null:", remote("::1", 9, "null:")),
            ("howdah://[::1]/", remote("::1", DEFAULT_PORT, "")),
            (
                "howdah://[fe80::1%eth0]:9/x",
                remote("fe80::1%eth0", 9, "x"),
            ),
        ] {
            let got: Location = text.parse().unwrap();
            assert_eq!(got, want, "{text}");
            assert_eq!(got.to_string().parse::<Location>().unwrap(), want, "{text}");
        }
    }

    #[test]
    fn t15_a_link_may_be_written_as_urls_have_it() {
        for (url, plain) in [
            (
                "howdah://[fe80::1%25eth0]:9/x",
                "howdah://[fe80::1%eth0]:9/x",
            ),
            (
                "ssh://u@[fe80::1%25eth0]:22/x",
                "ssh://u@[fe80::1%eth0]:22/x",
            ),
        ] {
            let [url, plain] = [url, plain].map(|text| text.parse::<Location>().unwrap());
            assert_eq!(url, plain);
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

    /// F36: what follows the host is the file's own bytes.
    #[test]
    fn f36_paths_need_not_be_utf_8() {
        let odd = OsStr::from_bytes;
        let path_of = |given: &[u8]| match Location::try_from(odd(given)) {
            Ok(Location::Remote { path, .. }) => path.as_bytes().to_owned(),
            Ok(Location::Ssh(there)) => there.path.as_bytes().to_owned(),
            Ok(Location::File(path)) => path.as_os_str().as_bytes().to_owned(),
            other => panic!("{given:?}: {other:?}"),
        };
        for (given, path) in [
            (&b"\xff"[..], &b"\xff"[..]),
            (b"a/\xff:b", b"a/\xff:b"),
            (b"howdah://h/d/\xff\xfe", b"d/\xff\xfe"),
            (b"h:\xff", b"\xff"),
            (b"u@[::1]:~/\xff", b"~/\xff"),
            (b"ssh://h/~\xff", b"/~\xff"),
            (b"ssh://h:22/~/\xff", b"~/\xff"),
        ] {
            assert_eq!(path_of(given), path, "{given:?}");
        }
        for host in [&b"\xff:x"[..], b"howdah://\xff/x", b"ssh://\xff"] {
            let error = Location::try_from(odd(host)).unwrap_err().to_string();
            assert!(error.contains("a host is written in UTF-8"), "{error}");
        }
    }

    #[test]
    fn slashes_at_the_end_go_but_not_the_root() {
        for (text, want) in [
            ("a//", "a"),
            ("/", "/"),
            ("//", "/"),
            ("a/b", "a/b"),
            ("h:a/", "h:a"),
            ("h:/", "h:/"),
            ("h:", "h:"),
            ("h:~/", "h:~"),
            ("howdah://h:1/a/", "howdah://h:1/a"),
            ("howdah://h:1/", "howdah://h:1/"),
        ] {
            let location: Location = text.parse().unwrap();
            let want: Location = want.parse().unwrap();
            assert_eq!(location.without_end_slashes(), want, "{text}");
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
