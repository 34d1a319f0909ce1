//! Where the compiled algorithms are.

use std::path::{Path, PathBuf};

/// Environment variable that names the directory of the objects.
pub const DIRECTORY_VARIABLE: &str = "HOWDAH_BPF_DIR";

/// The object `name`: in the directory that [`DIRECTORY_VARIABLE`] names; else in the `bpf` beside
/// one of the directories above the running program (`target/bpf` for `target/release/howdah`);
/// else where this crate was built.
///
/// # Errors
/// The last place that was looked at.
pub(crate) fn find(name: &str) -> Result<PathBuf, PathBuf> {
    let said = std::env::var_os(DIRECTORY_VARIABLE).map(PathBuf::from);
    let program = std::env::current_exe().ok();
    find_among(name, said.as_deref(), program.as_deref())
}

fn find_among(name: &str, said: Option<&Path>, program: Option<&Path>) -> Result<PathBuf, PathBuf> {
    let file = format!("{name}.o");
    if let Some(directory) = said {
        return existing(directory.join(file));
    }
    let above = program.into_iter().flat_map(Path::ancestors).skip(1);
    // target/release, target, and one more for tests in target/debug/deps.
    for directory in above.take(3) {
        if let Ok(path) = existing(directory.join("bpf").join(&file)) {
            return Ok(path);
        }
    }
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bpf");
    existing(built.join(file))
}

fn existing(path: PathBuf) -> Result<PathBuf, PathBuf> {
    if path.is_file() { Ok(path) } else { Err(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_the_only_place() {
        let said = Path::new("/no/such/directory");
        let found = find_among("hstcp", Some(said), None);
        assert_eq!(found, Err(said.join("hstcp.o")));
    }

    #[test]
    fn an_unknown_object_is_missed_where_the_crate_was_built() {
        let missed = find_among("no-such", None, Some(Path::new("/usr/bin/x"))).unwrap_err();
        assert!(missed.ends_with("target/bpf/no-such.o"), "{missed:?}");
    }
}
