//! Writes the list of what a copy has brought.

use super::hashing::{for_each, hash};
use super::{ManifestHash, line};
use crate::error::from_store;
use crate::{Cancel, Error, ErrorKind, Location, Summary, whole};
use howdah_session::TreeOptions;
use howdah_session::naming;
use howdah_store::open_file;
use howdah_tree::PlacedFile;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The list of the files of one copy, on the side that is here. Clones are the same list.
#[derive(Clone, Debug)]
pub struct Manifest(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// What it is for.
    flag: Flag,
    /// The directory that it goes into, without links, and its name there.
    dir: PathBuf,
    name: OsString,
    /// As the user calls it.
    shown: PathBuf,
    hash: ManifestHash,
    /// What is copied lies here.
    is_put: bool,
    sources: Vec<PathBuf>,
    destination: PathBuf,
    contents: bool,
    began: SystemTime,
    list: Mutex<List>,
}

/// The option that asked for it, and what it calls the file.
#[derive(Clone, Copy, Debug)]
struct Flag {
    option: &'static str,
    file: &'static str,
}

const MANIFEST: Flag = Flag {
    option: "--manifest",
    file: "manifest",
};
const RECEIPT: Flag = Flag {
    option: "--receipt",
    file: "receipt",
};

#[derive(Debug, Default)]
struct List {
    /// Which connection it is: each goes through the whole tree.
    round: u32,
    /// By the path's bytes.
    entries: BTreeMap<Box<[u8]>, Entry>,
}

#[derive(Debug)]
struct Entry {
    hash: Option<[u8; 32]>,
    bytes: u64,
    round: u32,
    /// No connection has brought it.
    kept: bool,
}

/// A file of the list.
pub(crate) struct Listed {
    /// As it is called at the destination.
    pub(crate) path: PathBuf,
    /// As the copy told of it: below what was named, with the last component of that.
    pub(crate) told: PathBuf,
    here: PathBuf,
    pub(crate) hash: Option<[u8; 32]>,
    pub(crate) bytes: u64,
    kept: bool,
}

impl Manifest {
    /// For a copy with these options, before it begins: what keeps the list from being written is said now.
    ///
    /// The hashes are those of `hash`, or of what the name says.
    pub fn new(
        path: &Path,
        hash: Option<ManifestHash>,
        sources: &[Location],
        destination: &Location,
        options: &TreeOptions,
    ) -> Result<Self, Error> {
        let hash = hash.unwrap_or_else(|| ManifestHash::of_name(path));
        Self::made(MANIFEST, path, hash, (sources, destination), options)
    }

    /// The list for a receipt, which is written by whoever asks for it.
    pub(crate) fn for_receipt(
        path: &Path,
        places: (&[Location], &Location),
        options: &TreeOptions,
    ) -> Result<Self, Error> {
        Self::made(RECEIPT, path, ManifestHash::Blake3, places, options)
    }

    fn made(
        flag: Flag,
        path: &Path,
        hash: ManifestHash,
        (sources, destination): (&[Location], &Location),
        options: &TreeOptions,
    ) -> Result<Self, Error> {
        let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
        let local: Vec<PathBuf> = sources.iter().filter_map(local_path).collect();
        let is_put = local.len() == sources.len();
        let there = match destination {
            Location::File(path) => path.clone(),
            Location::Remote { path, .. } => path.as_path().to_path_buf(),
            Location::Ssh(place) => place.path.as_path().to_path_buf(),
            _ => PathBuf::new(),
        };
        if !is_put && destination.is_remote() {
            return usage(format!(
                "{} lists what comes to this machine or goes from it, and neither {} nor {destination} is here; start \
                 the copy on one of the two",
                flag.option,
                sources
                    .first()
                    .map_or_else(String::new, ToString::to_string)
            ));
        }
        let stays = [
            (options.update, "--update"),
            (options.ignore_existing, "--ignore-existing"),
            (options.remove_source, "--remove-source-files"),
        ];
        if is_put && let Some((_, other)) = stays.iter().find(|(is_set, _)| *is_set) {
            return usage(format!(
                "{} and {other} clash in a copy to another machine: what is there in the end is not what is here, and only \
                 that could be listed; start the copy there",
                flag.option
            ));
        }
        let (dir, name) = place_of(flag, path)?;
        let contents = options.contents || sources.iter().any(is_contents);
        if is_put {
            check_outside(flag, path, &dir.join(&name), &local)?;
        }
        Ok(Self(Arc::new(Inner {
            flag,
            hash,
            dir,
            name,
            shown: path.to_path_buf(),
            is_put,
            sources: local,
            destination: there,
            contents,
            began: SystemTime::now(),
            list: Mutex::default(),
        })))
    }

    /// Where it goes.
    pub fn path(&self) -> &Path {
        &self.0.shown
    }

    /// What it has of each file.
    pub fn hash(&self) -> ManifestHash {
        self.0.hash
    }

    /// Another connection goes through all that takes part.
    pub(crate) fn begin_round(&self) {
        self.lock().round += 1;
    }

    /// These are in place.
    pub(crate) fn hear(&self, files: &[PlacedFile]) {
        let mut list = self.lock();
        let round = list.round;
        for file in files {
            let key = file.path.as_os_str().as_bytes().into();
            let entry = list.entries.entry(key).or_insert(Entry {
                hash: None,
                bytes: file.bytes,
                round,
                kept: true,
            });
            entry.round = round;
            if !file.kept {
                (entry.hash, entry.bytes, entry.kept) = (file.hash, file.bytes, false);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the list of a copy that is complete, and gives the number of files in it. What was there already is hashed here;
    /// so is everything for SHA-256, and must have the BLAKE3 that the copy verified.
    pub fn write(&self, summary: &Summary, cancel: &Cancel) -> Result<u64, Error> {
        let inner = &*self.0;
        let (files, _) = self.listed(summary, cancel)?;
        let mut text = Vec::new();
        self.write_with(|out| {
            for file in &files {
                text.clear();
                let hash = file.hash.unwrap_or_default();
                line::put(
                    &mut text,
                    inner.hash,
                    &hash,
                    file.path.as_os_str().as_bytes(),
                );
                out.write_all(&text)?;
            }
            Ok(())
        })?;
        Ok(files.len() as u64)
    }

    /// All files of a copy that is complete, each with its hash, sorted by the bytes of their paths at the destination; whether the one thing that was copied
    /// became the destination itself.
    pub(crate) fn listed(
        &self,
        summary: &Summary,
        cancel: &Cancel,
    ) -> Result<(Vec<Listed>, bool), Error> {
        let inner = &*self.0;
        let tree = summary.tree.clone().unwrap_or_default();
        let renamed = match (tree.renamed, inner.contents) {
            (_, true) => false,
            (Some(renamed), _) => renamed,
            (None, _) => return Err(inner.older("does not say what became of the destination")),
        };
        let mut files = self.files(renamed)?;
        let told = files.len() as u64;
        if inner.is_put && told < tree.files.saturating_add(tree.unchanged) {
            let all = tree.files.saturating_add(tree.unchanged);
            return Err(inner.older(&format!("told of {told} files of {all} only")));
        }
        self.add_hashes(&mut files, cancel)?;
        Ok((files, renamed))
    }

    /// Writes the file whole or not at all: under another name first, synced.
    pub(crate) fn write_with(
        &self,
        content: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        let inner = &*self.0;
        let failed = |what: &str, e: &std::io::Error| {
            let (file, path) = (inner.flag.file, inner.shown.display());
            let kind = match e.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                    ErrorKind::NoSpace
                }
                std::io::ErrorKind::PermissionDenied => ErrorKind::Refused,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot {what} the {file} {path}: {e}"))
        };
        let dir = File::open(&inner.dir).map_err(|e| failed("open the directory of", &e))?;
        let path = inner.dir.join(&inner.name);
        whole::write(&dir, &path, 0o666, content).map_err(|e| failed("write", &e))
    }

    /// What the last connection found, as it is called at the destination.
    fn files(&self, renamed: bool) -> Result<Vec<Listed>, Error> {
        let inner = &*self.0;
        let list = self.lock();
        let mut files = Vec::with_capacity(list.entries.len());
        let of_now = list.entries.iter();
        for (told, entry) in of_now.filter(|(_, entry)| entry.round == list.round) {
            let told = Path::new(OsStr::from_bytes(told));
            let mut parts = told.components();
            let top = parts.next();
            let rest = parts.as_path();
            let path = match (renamed, rest.as_os_str().is_empty()) {
                (false, _) => told.to_path_buf(),
                (true, false) => rest.to_path_buf(),
                (true, true) => PathBuf::from(inner.destination.file_name().unwrap_or_default()),
            };
            let here = match (inner.is_put, renamed) {
                (true, _) => inner.source_of(told, top, rest),
                (false, true) if rest.as_os_str().is_empty() => inner.destination.clone(),
                (false, true) => inner.destination.join(rest),
                (false, false) => inner.destination.join(told),
            };
            if inner.is_itself(&here) {
                let text = format!(
                    "{} is one of the files that were copied, and stays as it is; name another file for the {}",
                    inner.shown.display(),
                    inner.flag.file
                );
                return Err(Error::new(ErrorKind::Usage, text));
            }
            files.push(Listed {
                path,
                told: told.to_path_buf(),
                here,
                hash: entry.hash,
                bytes: entry.bytes,
                kept: entry.kept,
            });
        }
        Ok(files)
    }

    fn add_hashes(&self, files: &mut [Listed], cancel: &Cancel) -> Result<(), Error> {
        let inner = &*self.0;
        let all = inner.hash == ManifestHash::Sha256;
        let lacking = files.iter().enumerate();
        let lacking = lacking.filter(|(_, file)| all || file.hash.is_none());
        let lacking: Vec<usize> = lacking.map(|(at, _)| at).collect();
        let mut found = Vec::with_capacity(lacking.len());
        for_each(
            &lacking,
            cancel,
            |at| files.get(*at).map(|file| inner.hash_of(file, cancel)),
            |result| {
                if let Some((at, Some(hash))) = result {
                    found.push((at, hash?));
                }
                Ok(())
            },
        )?;
        for (at, (hash, bytes)) in found {
            if let Some(file) = lacking.get(at).and_then(|at| files.get_mut(*at)) {
                (file.hash, file.bytes) = (Some(hash), bytes);
            }
        }
        Ok(())
    }
}

impl Inner {
    fn older(&self, what: &str) -> Error {
        let option = self.flag.option;
        let text =
            format!("the other side {what}; install this version of howdah there for {option}");
        Error::new(ErrorKind::Protocol, text)
    }

    /// Where a file lies that goes from here.
    fn source_of(&self, told: &Path, top: Option<Component<'_>>, rest: &Path) -> PathBuf {
        if let (true, [only]) = (self.contents, &*self.sources) {
            return only.join(told);
        }
        let top = top.map(Component::as_os_str);
        let source = self.sources.iter().find(|source| source.file_name() == top);
        match source {
            Some(source) if rest.as_os_str().is_empty() => source.components().collect(),
            Some(source) => source.join(rest),
            None => told.to_path_buf(),
        }
    }

    fn is_itself(&self, file: &Path) -> bool {
        file.file_name() == Some(&self.name)
            && file
                .parent()
                .and_then(|dir| fs::canonicalize(here(dir)).ok())
                .is_some_and(|dir| dir == self.dir)
    }

    /// The hash for the list, of what is here, and its size.
    fn hash_of(&self, file: &Listed, cancel: &Cancel) -> Result<([u8; 32], u64), Error> {
        let changed = || {
            let path = file.here.display().to_string();
            let text = format!(
                "{path:?} changed while it was copied; copy it again when nothing writes to it"
            );
            Error::new(ErrorKind::SourceChanged, text)
        };
        let opened = open_file(&file.here).map_err(|e| from_store(&e))?;
        let failed = |e: std::io::Error| {
            let path = file.here.display().to_string();
            Error::new(ErrorKind::Io, format!("cannot read {path:?}: {e}"))
        };
        let before = opened.metadata().map_err(failed)?;
        let kinds = match file.hash {
            Some(_) => &[ManifestHash::Blake3, self.hash][..],
            None => &[self.hash],
        };
        let hashes = hash(&opened, kinds, cancel, &AtomicU64::new(0)).map_err(failed)?;
        let after = opened.metadata().map_err(failed)?;
        let state = |of: &fs::Metadata| (of.len(), of.mtime(), of.mtime_nsec());
        // What goes from here and was there already is what it was when the copy began.
        let is_new = self.is_put && file.kept && self.is_of_now(&after);
        if state(&before) != state(&after) || is_new {
            return Err(changed());
        }
        if file.hash.is_some() && hashes.blake3 != file.hash {
            return Err(changed());
        }
        let hash = hashes.get(self.hash).ok_or_else(changed)?;
        Ok((hash, after.len()))
    }

    /// Whether somebody has written to it since the copy began.
    fn is_of_now(&self, file: &fs::Metadata) -> bool {
        let nanos = |time: SystemTime| {
            let time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            i128::from(time.as_secs()) * 1_000_000_000 + i128::from(time.subsec_nanos())
        };
        let written = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
        (nanos(self.began)..=nanos(SystemTime::now())).contains(&written)
    }
}

fn local_path(location: &Location) -> Option<PathBuf> {
    match location {
        Location::File(path) => Some(path.clone()),
        _ => None,
    }
}

/// Whether a source means what is in it.
fn is_contents(location: &Location) -> bool {
    matches!(location, Location::File(path) if naming::is_contents(path))
}

/// A directory as it can be opened.
fn here(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    }
}

/// The directory that the list is to lie in, without links, and its name: both must be fit for it.
fn place_of(flag: Flag, path: &Path) -> Result<(PathBuf, OsString), Error> {
    let (Flag { option, file }, shown) = (flag, path.display());
    let refused = |kind, text: String| Err(Error::new(kind, text));
    if path == Path::new("-") {
        return refused(
            ErrorKind::Usage,
            format!("{option} writes to a file; name one"),
        );
    }
    // Who made a link of that name wants what it points to replaced.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if let Ok(there) = fs::metadata(&real)
        && !there.is_file()
    {
        let text = format!("{option} writes to a file, and {shown} is none");
        return refused(ErrorKind::Usage, text);
    }
    let Some(name) = real.file_name() else {
        let text = format!("{option} writes to a file, and {shown} names none");
        return refused(ErrorKind::Usage, text);
    };
    let parent = here(real.parent().unwrap_or_else(|| Path::new("")));
    let dir = fs::canonicalize(parent).and_then(|dir| {
        let may = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        let flags = rustix::fs::AtFlags::EACCESS;
        rustix::fs::accessat(rustix::fs::CWD, &dir, may, flags)?;
        Ok(dir)
    });
    match dir {
        Ok(dir) => Ok((dir, name.to_owned())),
        Err(e) => refused(
            ErrorKind::Refused,
            format!(
                "the {file} {shown} cannot be written: {}: {e}",
                parent.display()
            ),
        ),
    }
}

/// What lies in a source would go with it the next time, and then be another.
fn check_outside(flag: Flag, shown: &Path, file: &Path, sources: &[PathBuf]) -> Result<(), Error> {
    let inside = sources.iter().find(|source| {
        let real = fs::canonicalize(source);
        real.is_ok_and(|real| file.starts_with(real))
    });
    let Some(source) = inside else {
        return Ok(());
    };
    let text = format!(
        "the {} {} would lie in {}, which is copied, and list itself as it was; name a file elsewhere",
        flag.file,
        shown.display(),
        source.display()
    );
    Err(Error::new(ErrorKind::Usage, text))
}
