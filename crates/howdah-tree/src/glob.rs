//! Names with wildcards, as a shell expands them: `*`, `?` and `[a-z]` within one name, never across a slash; a name that
//! begins with a dot only where the pattern does.

use howdah_store::descriptors::opened;
use howdah_store::plain::irregular;
use howdah_store::{Root, StoreError, may_be_reserved, may_be_room};
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// More matches are refused: they are held in memory, and sent one by one.
pub const MATCHES_MAX: usize = 100_000;
/// The same of what their paths take, in bytes: a part of a pattern that has no wildcard is put behind each of them.
const MATCHES_BYTES: usize = 16 << 20;
/// The kernel knows no longer path.
const PATH_MAX: usize = 4_096;
/// Names that one pattern may look at.
const LOOKS_MAX: usize = 20_000_000;

/// Whether there is a wildcard in it.
pub fn has_wildcards(path: &Path) -> bool {
    path.as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| b"*?[".contains(byte))
}

/// Where names are looked up.
pub enum Place<'a> {
    /// Below a root; no link in the way is followed.
    Below(&'a Root),
    /// Wherever a user can go, as the shell does.
    User,
}

/// What matched.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Matched {
    /// As the pattern has it, with a name in place of each wildcard.
    pub path: PathBuf,
    /// `None`: of a kind that is not copied.
    pub is_dir: bool,
    /// Bytes of a file.
    pub size: u64,
}

/// What a pattern means so far.
struct Matching<'a> {
    pattern: &'a Path,
    names: Vec<PathBuf>,
    bytes: usize,
}

impl<'a> Matching<'a> {
    fn of(pattern: &'a Path) -> Self {
        Self {
            pattern,
            names: Vec::new(),
            bytes: 0,
        }
    }

    /// One more, which may be there.
    fn push(&mut self, dir: &Path, name: &[u8]) -> Result<(), StoreError> {
        let bytes = dir.as_os_str().len() + 1 + name.len();
        if bytes >= PATH_MAX {
            return Ok(());
        }
        self.names.push(dir.join(OsStr::from_bytes(name)));
        self.bytes += bytes;
        let what = if self.names.len() > MATCHES_MAX {
            format!("{MATCHES_MAX} names")
        } else if self.bytes > MATCHES_BYTES {
            format!("{} MiB of names", MATCHES_BYTES >> 20)
        } else {
            return Ok(());
        };
        Err(StoreError::BadPattern {
            pattern: self.pattern.to_string_lossy().into_owned(),
            reason: format!(
                "it matches more than {what}; name the directory and take from it with --include"
            ),
        })
    }
}

/// A name that is there, or may be, and of which nothing else can be said: whoever opens it says why.
fn unknown(path: PathBuf) -> Matched {
    Matched {
        path,
        is_dir: false,
        size: 0,
    }
}

/// Everything that `pattern` means there, sorted; nothing if nothing does. A name that is there as it is written is that one and no
/// pattern. `is_stopped` ends it early.
pub fn expand(
    place: &Place<'_>,
    pattern: &Path,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Vec<Matched>, StoreError> {
    if let Ok(Some(matched)) = place.look(pattern) {
        return Ok(vec![matched]);
    }
    let bytes = pattern.as_os_str().as_bytes();
    let as_directory = bytes.ends_with(b"/");
    let parts: Vec<&[u8]> = bytes
        .split(|&b| b == b'/')
        .filter(|part| !part.is_empty())
        .collect();
    let start = if bytes.starts_with(b"/") { "/" } else { "" };
    let mut found = vec![PathBuf::from(start)];
    let mut looks = 0;
    for (at, part) in parts.iter().enumerate() {
        let is_last = at + 1 == parts.len();
        let mut next = Matching::of(pattern);
        for dir in found {
            if !has_wildcards(Path::new(OsStr::from_bytes(part))) {
                next.push(&dir, part)?;
                continue;
            }
            place.names(&dir, &mut |name| {
                looks += 1;
                if looks % 1024 == 0 && is_stopped() || looks > LOOKS_MAX {
                    return Err(StoreError::Aborted);
                }
                if matches(part, name) {
                    next.push(&dir, name)?;
                }
                Ok(())
            })?;
        }
        found = next.names;
        if is_last {
            break;
        }
    }
    // What a directory lists is there, also where it may not be entered.
    let is_listed = parts
        .last()
        .is_some_and(|part| has_wildcards(Path::new(OsStr::from_bytes(part))));
    let mut all: Vec<Matched> = found
        .into_iter()
        .filter_map(|path| match place.look(&path) {
            Ok(there) => there,
            Err(error) => (is_listed || may_hide_names(&error)).then(|| unknown(path)),
        })
        .filter(|matched| matched.is_dir || !as_directory)
        .map(|mut matched| {
            if as_directory {
                let mut name = matched.path.into_os_string().into_vec();
                name.push(b'/');
                matched.path = PathBuf::from(OsString::from_vec(name));
            }
            matched
        })
        .collect();
    all.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    Ok(all)
}

/// Whether `found` is something that `pattern` may mean: what another machine says it has found is not believed otherwise.
pub fn could_mean(pattern: &Path, found: &Path) -> bool {
    let parts = |path: &Path| -> Vec<Vec<u8>> {
        let parts = path.as_os_str().as_bytes().split(|&b| b == b'/');
        let named = parts.filter(|part| !part.is_empty() && *part != b".");
        named.map(<[u8]>::to_vec).collect()
    };
    let (asked, got) = (parts(pattern), parts(found));
    let fits = |asked: &[u8], got: &[u8]| asked == got || got != b".." && matches(asked, got);
    pattern.is_absolute() == found.is_absolute()
        && asked.len() == got.len()
        && asked.iter().zip(&got).all(|(asked, got)| fits(asked, got))
}

fn is_kept(name: &OsStr) -> bool {
    may_be_reserved(name) || may_be_room(name)
}

impl Place<'_> {
    /// What has that name, if anything; an error where that cannot be said.
    fn look(&self, path: &Path) -> Result<Option<Matched>, StoreError> {
        let failed = |e| StoreError::from_io(path, "examine", e);
        let found = match self {
            Self::User => {
                // A link that leads nowhere is there all the same.
                let followed = rustix::fs::stat(path);
                followed
                    .or_else(|_| rustix::fs::lstat(path))
                    .map_err(failed)
            }
            Self::Below(root) => {
                let path = Path::new(trimmed(path));
                if path.iter().any(is_kept) {
                    return Ok(None);
                }
                if path.as_os_str().is_empty() {
                    let dir = root.open_dir(path);
                    dir.and_then(|dir| rustix::fs::fstat(dir).map_err(failed))
                } else {
                    root.open_parent(path).and_then(|(dir, name)| {
                        rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)
                    })
                }
            }
        };
        let stat = match found {
            Ok(stat) => stat,
            Err(error @ StoreError::PermissionDenied { .. }) => return Err(error),
            Err(error) if may_hide_names(&error) => return Err(error),
            Err(_) => return Ok(None),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        Ok(Some(Matched {
            path: path.to_path_buf(),
            is_dir: kind == FileType::Directory,
            size: if irregular(kind).is_none() {
                stat.st_size.cast_unsigned()
            } else {
                0
            },
        }))
    }

    /// The names in a directory; none if it is none, or may not be read.
    fn names(
        &self,
        dir: &Path,
        each: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let failed = |e| StoreError::from_io(dir, "list", e);
        let open = match self {
            Self::Below(root) => root.open_dir(Path::new(trimmed(dir))),
            Self::User => {
                let dir = if dir.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    dir
                };
                let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
                opened(|| rustix::fs::open(dir, flags, rustix::fs::Mode::empty())).map_err(failed)
            }
        };
        let open = match open {
            Ok(open) => open,
            Err(error) if may_hide_names(&error) => return Err(error),
            Err(_) => return Ok(()),
        };
        // (Not opened once more, for which it would have to be entered.)
        for entry in Dir::new(open).map_err(failed)? {
            let entry = match entry {
                Ok(entry) => entry,
                // It was removed meanwhile, or was that of a process.
                Err(Errno::NOENT | Errno::SRCH) => break,
                Err(e) => return Err(failed(e)),
            };
            let name = entry.file_name().to_bytes();
            // Other keys' affairs, which no list has either.
            let is_hidden = matches!(self, Self::Below(_)) && is_kept(OsStr::from_bytes(name));
            if name != b"." && name != b".." && !is_hidden {
                each(name)?;
            }
        }
        Ok(())
    }
}

/// Whether a directory that cannot be opened for that may have names in it that are meant: what is left out for it would be missing
/// without a word.
fn may_hide_names(error: &StoreError) -> bool {
    match error {
        StoreError::TooManyOpen { .. } => true,
        StoreError::Io { source, .. } => matches!(
            Errno::from_io_error(source),
            Some(Errno::IO | Errno::STALE | Errno::NOMEM)
        ),
        _ => false,
    }
}

/// Without slashes around it: what is below a root has none.
fn trimmed(path: &Path) -> &OsStr {
    let mut bytes = path.as_os_str().as_bytes();
    while let Some(rest) = bytes.strip_suffix(b"/") {
        bytes = rest;
    }
    while let Some(rest) = bytes.strip_prefix(b"/") {
        bytes = rest;
    }
    OsStr::from_bytes(bytes)
}

/// Whether a name is what the pattern of one name means.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let hidden = name.first() == Some(&b'.') && pattern.first() != Some(&b'.');
    !hidden && fits(pattern, name)
}

fn fits(mut pattern: &[u8], mut name: &[u8]) -> bool {
    // Where the last star stands, and what it has not taken yet: one is enough to go back to.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        let step = match pattern {
            [] if name.is_empty() => return true,
            [b'*', rest @ ..] => {
                star = Some((rest, name));
                pattern = rest;
                continue;
            }
            [b'?', rest @ ..] if !name.is_empty() => Some((rest, &name[char_len(name)..])),
            [b'[', ..] if !name.is_empty() => match class(pattern, name) {
                Some((true, rest)) => Some((rest, &name[char_len(name)..])),
                Some((false, _)) => None,
                // No class at all: the bracket itself.
                None => name.strip_prefix(b"[").map(|left| (&pattern[1..], left)),
            },
            [b'\\', byte, rest @ ..] => name.strip_prefix(&[*byte]).map(|left| (rest, left)),
            [byte, rest @ ..] => name.strip_prefix(&[*byte]).map(|left| (rest, left)),
            [] => None,
        };
        match (step, star) {
            (Some(next), _) => (pattern, name) = next,
            (None, Some((rest, taken))) if !taken.is_empty() => {
                let left = &taken[char_len(taken)..];
                star = Some((rest, left));
                (pattern, name) = (rest, left);
            }
            (None, _) => return false,
        }
    }
}

/// Bytes of the first character; one that is none is a byte.
fn char_len(text: &[u8]) -> usize {
    first_char(text).1
}

fn first_char(text: &[u8]) -> (u32, usize) {
    let head = &text[..text.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(c) => (u32::from(c), c.len_utf8()),
        // Beyond every character.
        None => (
            0x0011_0000 + u32::from(text.first().copied().unwrap_or_default()),
            1,
        ),
    }
}

/// Whether the first character of `name` is in the class at the beginning of `pattern`, and what follows that; `None`: it has no end.
fn class<'p>(pattern: &'p [u8], name: &[u8]) -> Option<(bool, &'p [u8])> {
    let (wanted, _) = first_char(name);
    let mut rest = pattern.strip_prefix(b"[")?;
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    if negated {
        rest = &rest[1..];
    }
    let (mut found, mut is_first) = (false, true);
    loop {
        match rest {
            [] => return None,
            [b']', after @ ..] if !is_first => return Some((found != negated, after)),
            _ => {}
        }
        is_first = false;
        if let [b'\\', _, ..] = rest {
            rest = &rest[1..];
        }
        let (low, len) = first_char(rest);
        rest = &rest[len..];
        let mut high = low;
        if let [b'-', after @ ..] = rest
            && !matches!(after, [] | [b']', ..])
        {
            let (end, len) = first_char(after);
            (high, rest) = (end, &after[len..]);
        }
        found |= (low..=high).contains(&wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that is asked for `dir/*.tar` and finds `dir/.ssh` is not believed.
    #[test]
    fn h1_only_what_a_pattern_may_mean_is_believed() {
        for (pattern, found, may) in [
            ("dir/*.tar", "dir/a.tar", true),
            ("dir/*.tar", "./dir/a.tar", true),
            ("dir/*.tar", "dir/*.tar", true),
            ("*/x/", "a/x/", true),
            ("~/[ab]", "~/b", true),
            ("/a/*", "/a/b", true),
            ("dir/*.tar", "dir/.ssh", false),
            ("dir/*.tar", "dir/.a.tar", false),
            ("dir/*.tar", "other/a.tar", false),
            ("dir/*", "dir/a/b", false),
            ("dir/*", "dir/..", false),
            ("*", "..", false),
            ("*/*", "a/..", false),
            ("*", "/etc", false),
            ("dir/*", "dir", false),
        ] {
            assert_eq!(
                could_mean(Path::new(pattern), Path::new(found)),
                may,
                "{pattern} {found}"
            );
        }
    }
    use std::fs;

    #[test]
    fn one_name_matches_as_in_a_shell() {
        for (pattern, yes, no) in [
            ("*", &["a", "ab", "ü"][..], &[".a"][..]),
            (".*", &[".a"], &["a"]),
            ("*.tar", &["a.tar", "a.b.tar"], &["a.tar.gz", ".tar", "tar"]),
            ("a?c", &["abc", "aüc"], &["ac", "abbc"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "x", "-x"]),
            ("[!a-c]x", &["dx", "üx"], &["ax"]),
            ("[^a]", &["b"], &["a"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[a", &["[a"], &["a"]),
            ("a[1]", &["a1"], &["a[1]"]),
            (r"a\[1]", &["a[1]"], &["a1"]),
            (r"\*", &["*"], &["a"]),
            ("a*b*c", &["abc", "aXbXbYc"], &["ab", "acb"]),
            ("**", &["a"], &[".a"]),
            ("{a,b}", &["{a,b}"], &["a"]),
        ] {
            for name in yes {
                assert!(
                    matches(pattern.as_bytes(), name.as_bytes()),
                    "{pattern} {name}"
                );
            }
            for name in no {
                assert!(
                    !matches(pattern.as_bytes(), name.as_bytes()),
                    "{pattern} {name}"
                );
            }
        }
        assert!(matches(b"a?b", b"a\xffb"));
        // Many stars cost no more than one.
        assert!(!matches(&b"*a".repeat(60), &b"a".repeat(59)));
    }

    /// A message of a peer holds a long part of a pattern once, and memory would hold it behind each name before it.
    #[test]
    fn h18_what_a_pattern_means_takes_no_more_memory_than_it_may() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..4_300 {
            fs::write(dir.path().join(n.to_string()), "").unwrap();
        }
        let root = Root::open(dir.path()).unwrap();
        let below = |part: usize| {
            let pattern = format!("*/{}/y", "x".repeat(part));
            expand(&Place::Below(&root), Path::new(&pattern), &|| false)
        };
        let error = below(4_000).unwrap_err().to_string();
        assert!(error.contains("16 MiB of names"), "{error}");
        assert_eq!(below(60_000).unwrap(), [], "no path is so long");
        assert_eq!(below(200).unwrap(), []);
        let mut matching = Matching::of(Path::new("*"));
        for _ in 0..10 {
            matching.push(Path::new("a"), &[b'x'; 4_094]).unwrap();
        }
        assert_eq!((matching.names.len(), matching.bytes), (0, 0));
        matching.push(Path::new("a"), &[b'x'; 4_093]).unwrap();
        assert_eq!((matching.names.len(), matching.bytes), (1, 4_095));
    }

    #[test]
    fn paths_are_expanded_below_a_root_and_for_a_user() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["d1", "d2", ".hidden"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("a.tar"), "123").unwrap();
        }
        fs::write(dir.path().join("d1/b.tar"), "").unwrap();
        fs::write(dir.path().join("x*"), "").unwrap();
        fs::write(dir.path().join("xy"), "").unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("d3")).unwrap();
        let root = Root::open(dir.path()).unwrap();
        let below = |pattern: &str| -> Vec<String> {
            let found = expand(&Place::Below(&root), Path::new(pattern), &|| false).unwrap();
            let names = found.into_iter().map(|m| m.path.into_os_string());
            names.map(|name| name.into_string().unwrap()).collect()
        };
        assert_eq!(below("d*/*.tar"), ["d1/a.tar", "d1/b.tar", "d2/a.tar"]);
        assert_eq!(below("d?/b.tar"), ["d1/b.tar"]);
        assert_eq!(below("d*/"), ["d1/", "d2/"]);
        assert_eq!(below("x*"), ["x*"], "the name itself wins");
        assert_eq!(below("x?"), ["x*", "xy"]);
        assert!(below("d3/*").is_empty() && below("../*").is_empty() && below("none*").is_empty());
        let pattern = dir.path().join("d*/*.tar");
        let found = expand(&Place::User, &pattern, &|| false).unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!(
            (found[0].path.clone(), found[0].size),
            (dir.path().join("d1/a.tar"), 3)
        );
        assert!(
            expand(&Place::User, &pattern, &|| true).is_ok(),
            "few names are not worth a look"
        );
    }
}
