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
}

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
        matches!(self, Self::Remote { .. })
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
        let Some(rest) = text.strip_prefix("howdah://") else {
            return Ok(Self::File(PathBuf::from(text)));
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = if let Some(v6) = authority.strip_prefix('[') {
            let (host, tail) = v6
                .split_once(']')
                .ok_or_else(|| error("missing ']' after the address".into()))?;
            (host, tail.strip_prefix(':'))
        } else {
            match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            }
        };
        if host.is_empty() {
            return Err(error(
                "missing host; write howdah://HOST:PORT/path".to_owned(),
            ));
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => port
                .parse()
                .ok()
                .filter(|&p| p != 0)
                .ok_or_else(|| error(format!("'{port}' is not a UDP port (1 to 65535)")))?,
        };
        Ok(Self::Remote {
            host: host.to_owned(),
            port,
            path: path.to_owned(),
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Stdio => f.write_str("-"),
            Self::Zero(size) => write!(f, "zero:{size}"),
            Self::Null => f.write_str("null:"),
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
    fn says_what_is_wrong() {
        for (text, part) in [
            ("howdah:///x", "missing host"),
            ("howdah://h:99999/x", "not a UDP port"),
            ("howdah://[::1/x", "missing ']'"),
            ("zero:much", "not a size"),
            ("", "empty"),
        ] {
            let error = text.parse::<Location>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
