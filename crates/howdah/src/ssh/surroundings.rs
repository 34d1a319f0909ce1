//! What of this process's environment changes whom an ssh logs in as, or where.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// Keys in agents and on devices, and tickets.
const CREDENTIALS: [&str; 7] = [
    "SSH_AUTH_SOCK",
    "SSH_SK_PROVIDER",
    "SSH_SK_HELPER",
    "SSH_PKCS11_HELPER",
    "KRB5CCNAME",
    "KRB5_CONFIG",
    "KRB5_CLIENT_KTNAME",
];

/// What differs from one terminal or command to the next and means nothing to a program on the way.
const PASSING: [&str; 12] = [
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "COLUMNS",
    "LINES",
    "TERM",
    "COLORTERM",
    "DISPLAY",
    "SSH_ASKPASS",
    "SSH_TTY",
    "WINDOWID",
];

/// The variables that count, in order. A program of the user's that makes the connection may look at any of them.
pub(super) fn that_count(
    settings: &str,
    all: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<Vec<u8>> {
    let has_program = settings.lines().map(str::trim).any(|line| {
        ["proxycommand ", "knownhostscommand ", "proxyjump "]
            .iter()
            .any(|key| line.strip_prefix(key).is_some_and(|value| value != "none"))
    });
    let counts = |name: &OsStr| {
        let is = |list: &[&str]| list.iter().any(|word| OsStr::new(word) == name);
        is(&CREDENTIALS) || has_program && !is(&PASSING) && !name.as_bytes().starts_with(b"HOWDAH_")
    };
    let mut found: Vec<Vec<u8>> = all
        .into_iter()
        .filter(|(name, _)| counts(name))
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t14_agents_and_tickets_count_and_all_that_a_program_on_the_way_may_read() {
        let all = [
            "AWS_PROFILE",
            "DISPLAY",
            "HOWDAH_LIMIT",
            "PWD",
            "SSH_AUTH_SOCK",
            "SSH_ASKPASS",
        ];
        let counts = |settings: &str| {
            let all = all.map(|name| (name.into(), "x".into()));
            that_count(settings, all)
        };
        let agent = b"SSH_AUTH_SOCK=x".to_vec();
        for plain in ["hostname h\n", "proxycommand none\nhostname h\n"] {
            assert_eq!(counts(plain), std::slice::from_ref(&agent), "{plain}");
        }
        let program = counts("hostname h\nproxycommand aws ssm start-session\n");
        assert_eq!(program, [b"AWS_PROFILE=x".to_vec(), agent]);
    }
}
