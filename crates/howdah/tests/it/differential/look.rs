//! All that can be seen of a tree.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// What is known about each path, in words.
pub(crate) type Seen = BTreeMap<PathBuf, String>;

/// Names of one file have the same first name. `changed`: when anything about it was last changed, too. These paths
/// and what is below them are left out.
pub(crate) fn look(top: &Path, changed: bool, left_out: &[PathBuf]) -> Seen {
    let (mut first, mut all) = (HashMap::new(), BTreeMap::new());
    let what = (changed, left_out);
    into(top, Path::new(""), what, &mut first, &mut all);
    all
}

fn into(
    top: &Path,
    below: &Path,
    (changed, left_out): (bool, &[PathBuf]),
    first: &mut HashMap<u64, PathBuf>,
    all: &mut Seen,
) {
    if left_out.iter().any(|path| path == below) {
        return;
    }
    let path = top.join(below);
    let meta = fs::symlink_metadata(&path).unwrap();
    let mut what = format!(
        "{:o} {}.{:09} {}:{}",
        meta.mode(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.uid(),
        meta.gid()
    );
    // A directory that is closed to its owner is opened for the time of a copy.
    if changed && (!meta.is_dir() || rustix::process::geteuid().is_root()) {
        write!(what, " {}.{:09}", meta.ctime(), meta.ctime_nsec()).unwrap();
    }
    if meta.is_symlink() {
        let target = fs::read_link(&path).unwrap();
        write!(what, " to {}", target.as_os_str().as_bytes().escape_ascii()).unwrap();
    } else {
        for (name, value) in xattrs(&path) {
            write!(what, " {}={}", name.escape_ascii(), value.escape_ascii()).unwrap();
        }
    }
    if meta.is_file() {
        let first = first.entry(meta.ino()).or_insert_with(|| below.to_owned());
        let mut hasher = DefaultHasher::new();
        fs::read(&path).unwrap().hash(&mut hasher);
        let (len, hash) = (meta.len(), hasher.finish());
        write!(
            what,
            " {len} {hash:x} as {}",
            first.as_os_str().as_bytes().escape_ascii()
        )
        .unwrap();
    }
    if meta.is_dir() {
        let names = fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        for name in names {
            into(top, &below.join(name), (changed, left_out), first, all);
        }
    }
    all.insert(below.to_owned(), what);
}

/// All, whatever they mean, but for what a security module gives every file.
fn xattrs(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut list = vec![0; 64 << 10];
    let len = rustix::fs::llistxattr(path, &mut *list).unwrap_or(0);
    let names = list[..len].split(|b| *b == 0);
    let names = names.filter(|name| !name.is_empty() && *name != b"security.selinux");
    let read = |name: &[u8]| {
        let mut value = vec![0; 64 << 10];
        let len = rustix::fs::lgetxattr(path, name, &mut *value).unwrap();
        value.truncate(len);
        (name.to_vec(), value)
    };
    let mut all: Vec<_> = names.map(read).collect();
    all.sort();
    all
}

/// What is never copied: fifos and the like.
pub(crate) fn special(top: &Path) -> Vec<PathBuf> {
    fn into(top: &Path, below: &Path, all: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(top.join(below)).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (below.join(entry.file_name()), entry.file_type().unwrap());
            if kind.is_dir() {
                into(top, &path, all);
            } else if kind.is_fifo() || kind.is_socket() {
                all.push(path);
            }
        }
    }
    let mut all = Vec::new();
    into(top, Path::new(""), &mut all);
    all
}

/// Where two trees differ; `None` if nowhere. The third tree is what both should be like: what is so in ours is right,
/// whatever others have made of it (rsync leaves files writable whose attributes it has set without being root).
pub(crate) fn difference(ours: &Seen, theirs: &Seen, source: &Seen) -> Option<String> {
    let mut paths: Vec<_> = ours.keys().chain(theirs.keys()).collect();
    paths.sort();
    paths.dedup();
    let mut all = String::new();
    for path in paths {
        let (our, their) = (ours.get(path), theirs.get(path));
        if our == their || our.is_some() && our == source.get(path) {
            continue;
        }
        let path_bytes = path.as_os_str().as_bytes().escape_ascii();
        let word = |seen: Option<&String>| seen.map_or("absent", String::as_str).to_owned();
        writeln!(
            all,
            "\"{path_bytes}\":\n  source {}\n  howdah {}\n  others {}",
            word(source.get(path)),
            word(our),
            word(their)
        )
        .unwrap();
    }
    (!all.is_empty()).then_some(all)
}
