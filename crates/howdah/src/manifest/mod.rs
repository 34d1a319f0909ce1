//! Lists of files and the hashes of their contents, as `b3sum` and `sha256sum` write and check them.

mod check;
mod hashing;
mod line;
mod list;

pub use check::{Sums, check_manifest};
pub(crate) use list::Listed;
pub use list::Manifest;

use std::path::Path;

/// What a list of files has of each.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ManifestHash {
    /// As of `b3sum`.
    #[default]
    Blake3,
    /// As of `sha256sum`.
    Sha256,
}

impl ManifestHash {
    /// What the list's name says: `SHA256SUMS` and `data.sha256` have SHA-256, all others BLAKE3.
    pub fn of_name(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default();
        let name = name.to_string_lossy().to_ascii_lowercase();
        if name.contains("sha256") || name.contains("sha-256") {
            Self::Sha256
        } else {
            Self::Blake3
        }
    }

    /// Its name in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_hash_is_meant() {
        for name in ["SHA256SUMS", "a/data.sha256", "sha-256.txt"] {
            assert_eq!(ManifestHash::of_name(Path::new(name)).name(), "sha256");
        }
        for name in ["MANIFEST", "B3SUMS", "sha256/data.b3", "-", ""] {
            assert_eq!(ManifestHash::of_name(Path::new(name)).name(), "blake3");
        }
    }
}
