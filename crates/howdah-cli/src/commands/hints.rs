//! What a failed copy could have meant, where the names that were typed suggest it.

use crate::exit::words;
use howdah::{Error, ErrorKind, Location};
use std::path::Path;

/// The error with what to write instead, if there is a guess.
pub(super) fn added(error: anyhow::Error, locations: &[Location]) -> anyhow::Error {
    let Some(known) = error.downcast_ref::<Error>() else {
        return error;
    };
    let kind = known.kind();
    match locations.iter().find_map(|location| hint(kind, location)) {
        Some(hint) => Error::new(kind, format!("{}; {hint}", words(&error))).into(),
        None => error,
    }
}

/// The same for one place of several that are looked at by themselves.
pub(super) fn to(error: &Error, location: &Location) -> Error {
    match hint(error.kind(), location) {
        Some(hint) => Error::new(error.kind(), format!("{error}; {hint}")),
        None => error.clone(),
    }
}

/// The error of places that make no sense together: one of them may be a file here.
pub(super) fn of_places<'a>(
    error: Error,
    locations: impl IntoIterator<Item = &'a Location>,
) -> Error {
    match locations.into_iter().find_map(with_colon) {
        Some(hint) => Error::new(error.kind(), format!("{error}; {hint}")),
        None => error,
    }
}

fn with_colon(location: &Location) -> Option<String> {
    if !matches!(location, Location::Ssh(_)) {
        return None;
    }
    let text = location.to_string();
    let is_here = Path::new(&text).symlink_metadata().is_ok();
    is_here.then(|| format!("a file here whose name has a colon is written ./{text}"))
}

fn hint(kind: ErrorKind, location: &Location) -> Option<String> {
    if matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::Network | ErrorKind::Auth
    ) && let Some(meant) = with_brackets(&location.to_string())
    {
        return Some(format!("if an IPv6 address was meant, write {meant}"));
    }
    match kind {
        ErrorKind::NotFound | ErrorKind::Network | ErrorKind::Auth => with_colon(location),
        _ => None,
    }
}

/// `anna@[fe80::1]:x` for `anna@fe80::1:x`, whose colons name a host `fe80` or none.
fn with_brackets(text: &str) -> Option<String> {
    let (user, rest) = match text.split_once('@') {
        Some((user, rest)) => (format!("{user}@"), rest),
        None => (String::new(), text),
    };
    let (host, path) = rest.rsplit_once(':')?;
    let address = host.split('%').next()?;
    address.parse::<std::net::Ipv6Addr>().ok()?;
    Some(format!("{user}[{host}]:{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_brackets_are_shown_with_them() {
        for (text, meant) in [
            ("::1:x", "[::1]:x"),
            ("fe80::1%eth0:/x", "[fe80::1%eth0]:/x"),
            ("anna@2001:db8::7:data/x", "anna@[2001:db8::7]:data/x"),
        ] {
            for kind in [ErrorKind::NotFound, ErrorKind::Network] {
                let found = hint(kind, &text.parse().unwrap()).unwrap();
                assert!(found.ends_with(&format!("write {meant}")), "{found}");
            }
        }
        for fine in ["site:x", "[::1]:x", "a:b:c", "./::1:x", "127.0.0.1:x"] {
            assert_eq!(with_brackets(fine), None);
        }
    }
}
