//! Who talks to whom: Ed25519 raw public keys (RFC 7250) in files that people can read.
//!
//! * [`Identity`]: a private key, PKCS#8 in PEM (RFC 5958, RFC 7468), readable by its owner only.
//! * [`PublicKey`]: its public half; one line of text, `howdah-ed25519 BASE64 comment`.
//! * [`AuthorizedKeys`]: the keys that a server lets in. Nobody else gets in.
//! * [`KnownHosts`] and [`Trust`]: the server keys that a client has met, and what to do with a
//!   new one.
//!
//! The files live in one directory, see [`config_dir`].

mod authorized;
mod error;
mod files;
mod identity;
mod known_hosts;
mod networks;
mod options;
mod public;
mod trust;

pub use authorized::{AuthorizedKey, AuthorizedKeys, read_public_lines};
pub use error::KeyError;
pub use files::check_ours;
pub use identity::Identity;
pub use known_hosts::{KnownHosts, Lookup};
pub use networks::Networks;
pub use options::KeyOptions;
pub use public::{KEY_WORD, KeyLine, ParseKeyError, PublicKey};
pub use trust::{NewHost, Trust};

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The directory of keys: `$HOWDAH_CONFIG_DIR`, else `$XDG_CONFIG_HOME/howdah`, else
/// `$HOME/.config/howdah`; `None` if none of the three is set.
pub fn config_dir() -> Option<PathBuf> {
    config_dir_from(|name| std::env::var_os(name))
}

/// The same of somebody else, whose home directory that is: `$HOWDAH_CONFIG_DIR` is whoever sets it means, the others are
/// of the user who runs this.
pub fn config_dir_of(home: &Path) -> PathBuf {
    config_dir_from(|name| match name {
        "HOME" => Some(home.into()),
        "HOWDAH_CONFIG_DIR" => std::env::var_os(name),
        _ => None,
    })
    .unwrap_or_else(|| home.join(".config/howdah"))
}

/// `id_ed25519.pem` in [`config_dir`].
pub fn default_identity_path() -> Option<PathBuf> {
    config_dir().map(|dir| dir.join("id_ed25519.pem"))
}

/// `known_hosts` in [`config_dir`].
pub fn default_known_hosts_path() -> Option<PathBuf> {
    config_dir().map(|dir| dir.join("known_hosts"))
}

/// `authorized_keys` in [`config_dir`].
pub fn default_authorized_keys_path() -> Option<PathBuf> {
    config_dir().map(|dir| dir.join("authorized_keys"))
}

/// `$HOWDAH_CONFIG_DIR`: one that is relative is so to where this process is, for keys and for state.
pub(crate) fn own_dir(var: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = var("HOWDAH_CONFIG_DIR").filter(|value| !value.is_empty())?;
    std::path::absolute(named).ok()
}

fn config_dir_from(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| {
        var(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    own_dir(&var)
        // The XDG base directory specification says to ignore relative paths.
        .or_else(|| {
            path("XDG_CONFIG_HOME")
                .filter(|p| p.is_absolute())
                .map(|p| p.join("howdah"))
        })
        .or_else(|| path("HOME").map(|home| home.join(".config/howdah")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_special_variable_wins() {
        let with = |set: &[(&str, &str)]| {
            config_dir_from(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
        };
        let home = ("HOME", "/home/a");
        let xdg = ("XDG_CONFIG_HOME", "/x");
        let here = std::env::current_dir().unwrap().join("k");
        for (set, want) in [
            (&[home][..], Some("/home/a/.config/howdah")),
            (&[home, xdg], Some("/x/howdah")),
            (&[home, xdg, ("HOWDAH_CONFIG_DIR", "/k")], Some("/k")),
            (
                &[home, ("XDG_CONFIG_HOME", "relative")],
                Some("/home/a/.config/howdah"),
            ),
            (&[("HOME", "")], None),
            (&[home, ("HOWDAH_CONFIG_DIR", "k")], here.to_str()),
        ] {
            assert_eq!(with(set), want.map(PathBuf::from), "{set:?}");
        }
    }
}
