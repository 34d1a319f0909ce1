//! Trees, options and faults of a seed.

use super::fs::{Data, Fs, Node};
use super::receiver::Terms;
use super::sender::{Gap, Origin};
use super::wrong::Wrong;
use crate::sessions::disk::{Content, File, HOLE};
use howdah_session::verdict::Rights;
use howdah_session::{Metadata, Rule, TreeOptions};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng as _;
use std::path::{Path, PathBuf};

/// What is named, where it is not the top itself.
pub(crate) const TOPS: [&str; 2] = ["notes", "photos"];

pub(crate) fn below(random: &mut ChaCha8Rng, n: u64) -> u64 {
    random.next_u64() % n.max(1)
}

fn one_in(random: &mut ChaCha8Rng, n: u64) -> bool {
    below(random, n) == 0
}

pub(crate) fn content(random: &mut ChaCha8Rng, is_large: bool) -> Content {
    if !is_large {
        return vec![1 + below(random, 900)];
    }
    let has_holes = one_in(random, 3);
    let groups = 5 + below(random, 3);
    (0..groups)
        .map(|_| {
            let number = 1 + below(random, 900);
            if has_holes && number.is_multiple_of(3) {
                HOLE
            } else {
                number
            }
        })
        .collect()
}

fn node(random: &mut ChaCha8Rng, data: Data, mtime: i64) -> Node {
    let is_dir = data == Data::Dir;
    let mode = match data {
        Data::Link(_) => 0o777,
        Data::Dir => [0o755, 0o700, 0o711][below(random, 3) as usize],
        Data::File(_) => [0o644, 0o600, 0o755][below(random, 3) as usize],
    };
    let has = one_in(random, 4) && (is_dir || matches!(data, Data::File(_)));
    let value = vec![below(random, 9) as u8];
    Node {
        data,
        mode,
        mtime,
        xattrs: has
            .then(|| (b"user.x".to_vec(), value))
            .into_iter()
            .collect(),
    }
}

pub(crate) fn terms(random: &mut ChaCha8Rng, wrong: Wrong) -> Terms {
    let rule = Rule {
        include: false,
        pattern: "*.key".into(),
        listed: false,
    };
    let contents = one_in(random, 2);
    let remove_source = one_in(random, 4);
    let add_only = one_in(random, 8);
    let delete = !add_only && one_in(random, 2);
    let options = TreeOptions {
        contents,
        recursive: true,
        archive: one_in(random, 2),
        permissions: !one_in(random, 4),
        checksum: one_in(random, 4),
        // Both together are refused.
        delete: delete && !remove_source,
        remove_source,
        mirror: !one_in(random, 4),
        max_delete: one_in(random, 4).then(|| below(random, 5)),
        delete_all: one_in(random, 4),
        ignore_existing: one_in(random, 10),
        update: one_in(random, 10),
        rules: vec![rule].into(),
        ..TreeOptions::default()
    };
    Terms {
        options,
        rights: Rights {
            add_only,
            blind: one_in(random, 8),
        },
        allowed: match below(random, 8) {
            0 => Metadata::None,
            1 => Metadata::Times,
            2 => Metadata::Modes,
            _ => Metadata::All,
        },
        wrong,
    }
}

/// A path of the source, below one of the tops or at the top itself.
fn path(random: &mut ChaCha8Rng) -> PathBuf {
    let mut path = PathBuf::from(TOPS[1]);
    if one_in(random, 5) {
        path = PathBuf::new();
    }
    for _ in 0..below(random, 3) {
        path.push(["a", "b", "x-rather-long-name"][below(random, 3) as usize]);
    }
    path.push(["f", "g", "h", "i.key", "j"][below(random, 5) as usize]);
    path
}

/// Makes what a path lies in. Whether it can lie there.
fn make_dirs(random: &mut ChaCha8Rng, fs: &mut Fs, path: &Path) -> bool {
    let above: Vec<&Path> = path.ancestors().skip(1).collect();
    for dir in above.into_iter().rev() {
        match fs.node(dir) {
            Some(node) if !node.is_dir() => return false,
            Some(_) => {}
            None => {
                let mtime = 10_000 + below(random, 1_000) as i64;
                let made = node(random, Data::Dir, mtime);
                fs.put(dir, made);
            }
        }
    }
    true
}

pub(crate) fn origin(random: &mut ChaCha8Rng) -> Origin {
    let mut origin = Origin::default();
    let fs = &mut origin.fs;
    let top = node(random, Data::Dir, 9);
    fs.put(Path::new(""), top);
    let many = if one_in(random, 12) {
        0
    } else {
        1 + below(random, 7)
    };
    for n in 0..many {
        let path = path(random);
        if !make_dirs(random, fs, &path) || fs.node(&path).is_some() {
            continue;
        }
        let mtime = 20_000 + 10 * n as i64;
        if one_in(random, 6) {
            let target = ["f", "../g", "/etc"][below(random, 3) as usize];
            let made = node(random, Data::Link(target.to_owned()), mtime);
            fs.put(&path, made);
            continue;
        }
        let is_large = one_in(random, 3);
        let content = content(random, is_large);
        let made = node(random, Data::File(content.clone()), mtime);
        fs.put(&path, made);
        if is_large {
            let versions = vec![content];
            origin.larges.insert(path.clone(), File { versions, mtime });
        }
        if one_in(random, 4) {
            let mut other = path.clone();
            other.set_file_name(["k", "l"][below(random, 2) as usize]);
            if fs.node(&other).is_none() {
                fs.put_link(&path, &other);
                if let Some(file) = origin.larges.get(&path).cloned() {
                    origin.larges.insert(other, file);
                }
            }
        }
    }
    if one_in(random, 3) {
        let notes = node(random, Data::File(vec![7]), 30_000);
        fs.put(Path::new(TOPS[0]), notes);
    }
    origin
}

/// What is there before: some of the same, some of another kind, and what the source does not have.
pub(crate) fn before(random: &mut ChaCha8Rng, origin: &Origin) -> Fs {
    let mut fs = Fs::default();
    let top = node(random, Data::Dir, 8);
    fs.put(Path::new(""), top);
    if one_in(random, 3) {
        return fs;
    }
    let theirs: Vec<(PathBuf, Node)> = origin
        .fs
        .nodes()
        .map(|(path, node)| (path.clone(), node.clone()))
        .collect();
    for (n, (path, theirs)) in (0i64..).zip(theirs) {
        if path == Path::new("") || !one_in(random, 2) || !make_dirs(random, &mut fs, &path) {
            continue;
        }
        // No time of the source.
        let old = -100 * (1 + n);
        let mut made = theirs.clone();
        match below(random, 9) {
            0 | 1 => {}
            2 => made.mode = 0o640,
            3 => made.mtime = old,
            4 | 5 if !made.is_dir() => {
                let is_large = made.content().is_some_and(|content| content.len() > 1);
                made = node(random, Data::File(Content::new()), old);
                made.data = Data::File(content(random, is_large));
                if one_in(random, 3) {
                    // Newer than anything.
                    made.mtime = 90_000 + n;
                }
            }
            6 if !made.is_dir() => made = node(random, Data::Link("old".to_owned()), old),
            7 => made = node(random, Data::Dir, old),
            8 if made.is_dir() => made = node(random, Data::File(vec![5]), old),
            _ => continue,
        }
        if fs.node(&path).is_none() {
            fs.put(&path, made);
        }
    }
    for n in 0..below(random, 4) {
        let mut path = path(random);
        path.set_file_name(["old", "older", "kept.key"][below(random, 3) as usize]);
        if !make_dirs(random, &mut fs, &path) || fs.node(&path).is_some() {
            continue;
        }
        let made = node(random, Data::File(vec![3_000 + n]), -5_000 - n as i64);
        fs.put(&path, made);
    }
    // Names that share their inode with one that is not of the copy.
    let paths: Vec<PathBuf> = fs.paths().cloned().collect();
    for path in paths {
        let is_file = fs.node(&path).is_some_and(|node| node.content().is_some());
        let mut other = path.clone();
        other.set_file_name("shared");
        if is_file && one_in(random, 8) && fs.node(&other).is_none() {
            fs.put_link(&path, &other);
        }
    }
    fs
}

/// A part of the source that is not named.
pub(crate) fn gap(random: &mut ChaCha8Rng, origin: &mut Origin) {
    let dirs = origin.fs.nodes().filter(|(_, node)| node.is_dir());
    let dirs: Vec<PathBuf> = dirs.map(|(path, _)| path.clone()).collect();
    let dir = &dirs[below(random, dirs.len() as u64) as usize];
    let gap = if one_in(random, 2) || dir == Path::new("") {
        Gap::Unread
    } else {
        Gap::Mounted
    };
    origin.gaps.insert(dir.clone(), gap);
}
