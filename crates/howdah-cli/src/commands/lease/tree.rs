//! `howdah plan -r`: a tree that is cut into leases.
//!
//! Its directories and links are made now, and of large files what will hold their bytes, all as `howdah cp` makes them: so what is kept
//! of them is what a copy keeps. Contents are left to movers.

use super::beneath::{self, Dir};
use super::room::{self, Room};
use super::shape::{self, Shapes};
use super::{below, failed, path_of, version, written};
use crate::args::PlanArgs;
use crate::exit::{self, Passed};
use crate::ui::{self, Signals};
use howdah::{
    CopyConfig, EntryKind, Error, ErrorKind, Listed, Listing, Location, PathBytes, PathList,
    SourceFile, Summary, TreeOptions, TreeReport,
};
use howdah_lease::{Cutter, Member, Name, Planned, Share, Sheet, TreeOrder, is_same_moment};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What a file takes on the disk is whole blocks.
const BLOCK: u64 = 4096;
/// Large files whose versions are asked for at a time.
const ASKED: usize = 512;

/// Plans a directory; `false`: it is a file.
pub(super) fn plan(
    args: &PlanArgs,
    source: &Location,
    config: &CopyConfig,
    signals: &Signals,
) -> anyhow::Result<bool> {
    if !source.is_remote() {
        let text = format!(
            "{source} is not on another machine: trees are planned from HOST:path or howdah://HOST:PORT/path"
        );
        return Err(Error::new(ErrorKind::Usage, text).into());
    }
    let (source, is_inside) = without_dot(source);
    let source = &source;
    let destination = written::destination(args, source, !is_inside)?;
    let order = TreeOrder {
        id: written::id(),
        source: written::text_of(source)?,
        destination: destination.clone(),
        lease_bytes: args.lease,
        archive: args.archive,
        permissions: args.preserve,
    };
    let id = order.id.clone();
    let cutter = Cutter::new(order).map_err(|e| written::usage(&e))?;
    let room = Room::create_for_tree(&destination, &id)?;
    let planner = Planner {
        args,
        source,
        config,
        signals,
        room: &room,
        destination: Path::new(&destination),
        report: TreeReport::default(),
    };
    let made = planner.run(cutter);
    if !matches!(made, Ok(Some(_))) {
        room.remove();
    }
    let Some((planned, report)) = made? else {
        return Ok(false);
    };
    let Planned::Tree(tree) = &planned else {
        return Ok(false);
    };
    written::tell(args, &planned, tree.bytes(), Some(tree.files()))?;
    for note in report.notes.iter().chain(&report.notices) {
        ui::say_marked("warning:", note);
    }
    let summary = Summary {
        tree: Some(report),
        ..Summary::default()
    };
    match summary.shortfall() {
        Some(error) => {
            ui::say_error(&format!("not all of it is planned: {error}"));
            Err(Passed(exit::code(error.kind())).into())
        }
        None => Ok(true),
    }
}

/// `DIR/.` is what is in `DIR`, and so is a plan of `DIR`: as that, since names below it are asked for one by one. Whether it was `DIR/.`.
fn without_dot(source: &Location) -> (Location, bool) {
    let mut source = source.clone();
    let path = match &mut source {
        Location::Remote { path, .. } => path,
        Location::Ssh(there) => &mut there.path,
        _ => return (source, false),
    };
    let shorter = match path.as_bytes() {
        // A server's root, or the home directory.
        b"." => Some(&b""[..]),
        // Of the root of a file system there would be nothing left.
        b"/." => None,
        path => path.strip_suffix(b"/."),
    };
    let shorter = shorter.map(PathBytes::from);
    let is_inside = shorter.is_some();
    if let Some(shorter) = shorter {
        *path = shorter;
    }
    (source, is_inside)
}

struct Planner<'a> {
    args: &'a PlanArgs,
    source: &'a Location,
    config: &'a CopyConfig,
    signals: &'a Signals,
    room: &'a Room,
    destination: &'a Path,
    /// What could not be planned.
    report: TreeReport,
}

/// A file that is longer than a lease.
struct Large {
    name: Name,
    size: u64,
    mtime: (i64, u32),
}

impl Planner<'_> {
    fn run(mut self, mut cutter: Cutter) -> anyhow::Result<Option<(Planned, TreeReport)>> {
        let Some(large) = self.list(&mut cutter)? else {
            return Ok(None);
        };
        if self.room.above().has(self.room.target()) {
            return Err(room::is_there_already(self.destination).into());
        }
        // All but files.
        let options = TreeOptions {
            min_size: Some(u64::MAX),
            ..self.options()
        };
        self.copy(&options)?;
        let mut shapes =
            Shapes::of_directories(self.room, &|| self.signals.cancel().is_cancelled())?;
        self.make_large(&large, &mut cutter, &mut shapes)?;
        shapes.end()?;
        let planned = Planned::Tree(cutter.end());
        room::sync_all(self.room.at())?;
        self.room.begin(&planned)?;
        written::write(&planned, &self.args.out)?;
        Ok(Some((planned, self.report)))
    }

    fn options(&self) -> TreeOptions {
        TreeOptions {
            contents: true,
            recursive: true,
            archive: self.args.archive,
            permissions: self.args.preserve,
            ..TreeOptions::default()
        }
    }

    /// Has every small file in a lease; the large ones.
    fn list(&self, cutter: &mut Cutter) -> anyhow::Result<Option<Vec<Large>>> {
        let (mut failure, mut large) = (None, Vec::new());
        let mut is_file = None;
        let cancel = self.signals.cancel();
        let mut on_name = |next: &Listing| {
            let Listing::Name(listed) = next else { return };
            // A directory is told first, as nothing below itself.
            let is_file = *is_file.get_or_insert(!listed.path.as_os_str().is_empty());
            if is_file || failure.is_some() {
                return;
            }
            failure = self.take(listed, cutter, &mut large).err();
            if failure.is_some() {
                cancel.cancel();
            }
        };
        let options = TreeOptions::default();
        let listed = howdah::list(
            self.source,
            &options,
            self.config,
            cancel,
            &mut on_name,
            &mut |_| (),
        );
        if let Some(error) = failure {
            return Err(error.into());
        }
        listed?;
        if is_file == Some(true) {
            return Ok(None);
        }
        if let Some(sheet) = cutter.close().map_err(|e| written::usage(&e))? {
            self.put(&sheet)?;
        }
        Ok(Some(large))
    }

    fn take(
        &self,
        listed: &Listed,
        cutter: &mut Cutter,
        large: &mut Vec<Large>,
    ) -> Result<(), Error> {
        if listed.kind != Some(EntryKind::File) {
            return Ok(());
        }
        let Some(name) = Name::new(listed.path.as_os_str().as_bytes()) else {
            return Ok(());
        };
        let (size, mtime) = (
            listed.size,
            (listed.modified.unwrap_or(0), listed.modified_ns),
        );
        if !cutter.is_small(size) {
            cutter.announce(size).map_err(|e| written::usage(&e))?;
            large.push(Large { name, size, mtime });
            return Ok(());
        }
        let full = cutter.small(Member { name, size, mtime });
        match full.map_err(|e| written::usage(&e))? {
            Some(sheet) => self.put(&sheet),
            None => Ok(()),
        }
    }

    fn put(&self, sheet: &Sheet) -> Result<(), Error> {
        let bytes = match &sheet.share {
            Share::Run(members) => members
                .iter()
                .map(|member| member.size.next_multiple_of(BLOCK))
                .sum(),
            Share::Part { .. } => 0,
        };
        self.room.put_sheet(sheet, bytes)
    }

    fn copy(&mut self, options: &TreeOptions) -> Result<(), Error> {
        let at = self.room.at();
        let to = (at.as_fd(), at.path(), self.room.work_in());
        let from = std::slice::from_ref(self.source);
        let cancel = self.signals.cancel();
        let summary = howdah::copy_tree_into(from, to, options, self.config, cancel, &mut |_| ())?;
        let found = summary.tree.unwrap_or_default();
        self.report.failed += found.failed;
        self.report.changed += found.changed;
        for note in found.notes {
            if !self.report.notes.contains(&note) {
                self.report.notes.push(note);
            }
        }
        Ok(())
    }

    /// Makes what will hold the bytes of large files: of their lengths and times, so that a copy takes them for what they will be, and
    /// gives them what else it keeps.
    fn make_large(
        &mut self,
        large: &[Large],
        cutter: &mut Cutter,
        shapes: &mut Shapes<'_>,
    ) -> anyhow::Result<()> {
        let top = self.room.tree()?;
        let mut made: Vec<(&Large, SourceFile)> = Vec::new();
        for some in large.chunks(ASKED) {
            let places: Vec<_> = some
                .iter()
                .map(|file| below(self.source, &file.name))
                .collect();
            let versions = howdah::file_versions(&places, self.config)?;
            for (file, found) in some.iter().zip(versions) {
                match found {
                    Ok(found)
                        if found.identity.size == file.size
                            && found.identity.mtime == file.mtime =>
                    {
                        match make(&top, file, &found) {
                            Ok(()) => made.push((file, found)),
                            // Where the list had a directory there came a link, or nothing.
                            Err(e) if beneath::is_absent(&e) => {
                                self.changed(&file.name, "it changed while the plan was made");
                            }
                            Err(e) => {
                                let path = top.path().join(path_of(&file.name));
                                return Err(failed("reserve space for", &path, &e).into());
                            }
                        }
                    }
                    Ok(_) => self.changed(&file.name, "it changed while the plan was made"),
                    Err(error) => self.changed(&file.name, &error.to_string()),
                }
            }
        }
        if made.is_empty() {
            return Ok(());
        }
        let names = made.iter().map(|(file, _)| file.name.as_bytes());
        let options = TreeOptions {
            files: Some(names.collect::<PathList>()),
            ..self.options()
        };
        self.copy(&options)?;
        for (file, found) in made {
            let name = path_of(&file.name);
            let path = || top.path().join(name);
            shape::open_way(&top, name)?;
            let seen = top.look(name).map_err(|e| failed("look at", &path(), &e))?;
            if !seen.is_file() || seen.size != file.size || !is_same_moment(seen.mtime, file.mtime)
            {
                let removed = top.remove_file(name);
                removed.map_err(|e| failed("remove", &path(), &e))?;
                self.changed(&file.name, "it changed while the plan was made");
                continue;
            }
            shapes.file(&top, &file.name)?;
            let sheets = cutter.large(&file.name, version(&found.identity), None);
            for sheet in sheets.map_err(|e| written::usage(&e))? {
                self.put(&sheet)?;
            }
        }
        Ok(())
    }

    fn changed(&mut self, name: &Name, why: &str) {
        let name = path_of(name).display();
        self.report.changed += 1;
        self.report.notes.push(format!("{name}: {why}"));
    }
}

/// Makes what will hold the bytes of a large file.
fn make(top: &Dir, file: &Large, found: &SourceFile) -> io::Result<()> {
    let name = path_of(&file.name);
    let part = top.create(name, found.mode.unwrap_or(0o666) & 0o777)?;
    part.set_len(file.size)?;
    room::reserve(&part, file.size)?;
    drop(part);
    top.set_mtime(name, file.mtime)
}
