//! A plan of a tree that goes to another machine.
//!
//! What the pulling planner does beside the destination is done there: directories and links are put as `howdah cp` puts them, then the places
//! of large files are made and get their attributes in the same way. Leases of small files are put as a tree of their own.

use super::run::{a_run, finish_summary, run_options, tell_of};
use super::tree_finish::{self, Finished};
use super::written::{known_again, text_of, with_path};
use super::{path_of, tree_options, version, written};
use crate::args::{FinishArgs, PlanArgs};
use crate::exit::{self, Passed};
use crate::ui::{self, Signals};
use howdah::lease::beneath::{self, Dir};
use howdah::lease::{FarPlan, LeaseRun, failed, land_tree, push_range, push_tree, version_of};
use howdah::{
    Cancel, CopyConfig, EntryKind, Error, ErrorKind, Listed, Listing, Location, PathBytes,
    PathList, Progress, SourceFile, Summary, TreeOptions, TreeReport,
};
use howdah_lease::{
    Cutter, Member, Name, Planned, Share, Sheet, TreeOrder, TreePlan, is_same_moment,
};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Plans a directory of this machine.
pub(super) fn plan(
    args: &PlanArgs,
    path: &Path,
    destination: &Location,
    (config, signals): (&CopyConfig, &Signals),
) -> anyhow::Result<()> {
    // What is in it becomes DST itself.
    let is_inside = path.as_os_str() == "." || path.as_os_str().as_bytes().ends_with(b"/.");
    let path: PathBuf = std::path::absolute(path)?.components().collect();
    let becomes = if is_inside {
        without_end_slashes(destination)
    } else {
        destination.clone()
    };
    let cancel = signals.cancel();
    // A session for each step: the walk, and what is put, take their time.
    let open = |becomes: &Location| -> Result<FarPlan, Error> {
        let mut config = config.clone();
        // Who was asked about a key is not asked again.
        known_again(&mut config)?;
        FarPlan::open(becomes, &config, cancel)
    };
    let becomes = if is_inside {
        becomes
    } else {
        let Some(name) = path.file_name() else {
            let text = format!("{} has no name; name what is in it, as /.", path.display());
            return Err(Error::new(ErrorKind::Usage, text).into());
        };
        let place = FarPlan::open(&becomes, config, cancel)?.place(PathBytes::from(name))?;
        with_path(destination, place)
    };
    let source = Location::File(path.clone());
    let order = TreeOrder {
        id: written::id(),
        source: text_of(&source)?,
        destination: text_of(&becomes)?,
        lease_bytes: args.lease,
        archive: args.archive,
        permissions: args.preserve,
    };
    let cutter = Cutter::new(order).map_err(|e| written::usage(&e))?;
    let mut cut = Cut::new(path, cancel)?;
    let tree = cut.all(cutter, &source, config)?;
    let planned = Planned::Tree(tree.clone());
    let text = planned.encode();
    let mut report = cut.report;
    let mut put = |options: &TreeOptions| -> Result<(), Error> {
        let (places, what) = ((&source, &becomes), (text.clone(), None));
        let done = push_tree(places, what, options, config, cancel, &mut |_| ())?;
        note(&mut report, done);
        Ok(())
    };
    let mut make = || -> Result<(), Error> {
        // All but files.
        put(&TreeOptions {
            min_size: Some(u64::MAX),
            ..tree_options(&tree)
        })?;
        open(&becomes)?.lay(&text)?;
        if !cut.large.is_empty() {
            let names = cut.large.iter().map(Name::as_bytes);
            put(&TreeOptions {
                files: Some(names.collect::<PathList>()),
                ..tree_options(&tree)
            })?;
        }
        open(&becomes)?.begin(&text)?;
        written::write(&planned, &args.out)
    };
    let sheets = cut.sheets.read()?;
    // What has the name already is left alone.
    let made = open(&becomes)?.make_tree(&text, sheets);
    if let Err(error) = made.and_then(|()| make()) {
        // What stays is removed there when nobody has gone on with it for long.
        let mut config = config.clone();
        let _ = known_again(&mut config)
            .and_then(|()| FarPlan::open(&becomes, &config, &Cancel::new()))
            .and_then(|far| far.forget(&text));
        return Err(error.into());
    }
    written::tell(args, &planned, tree.bytes(), Some(tree.files()))?;
    planned_with(report)
}

/// `DST/` is DST.
fn without_end_slashes(place: &Location) -> Location {
    let path = match place {
        Location::Remote { path, .. } => path,
        Location::Ssh(there) => &there.path,
        _ => return place.clone(),
    };
    let mut path = path.as_bytes();
    while let Some(shorter) = path.strip_suffix(b"/").filter(|path| !path.is_empty()) {
        path = shorter;
    }
    with_path(place, PathBytes::from(path))
}

/// What could not be planned.
fn planned_with(report: TreeReport) -> anyhow::Result<()> {
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
        None => Ok(()),
    }
}

fn note(report: &mut TreeReport, done: Summary) {
    let found = done.tree.unwrap_or_default();
    report.failed += found.failed;
    report.changed += found.changed;
    for note in found.notes {
        if !report.notes.contains(&note) {
            report.notes.push(note);
        }
    }
}

/// Sheets on their way to the other machine: a tree may have more names than belong into memory.
struct Spool(BufWriter<File>);

fn of_spool(error: &io::Error) -> Error {
    failed("keep the plan in", &std::env::temp_dir(), error)
}

impl Spool {
    fn new() -> Result<Self, Error> {
        let file = tempfile::tempfile().map_err(|e| of_spool(&e))?;
        Ok(Self(BufWriter::new(file)))
    }

    fn put(&mut self, sheet: &Sheet) -> Result<(), Error> {
        let written = self.0.write_all(sheet.encode().as_bytes());
        written.map_err(|e| of_spool(&e))
    }

    /// All of them, in their order.
    fn read(self) -> Result<impl Iterator<Item = Result<Sheet, Error>>, Error> {
        let file = self.0.into_inner().map_err(io::IntoInnerError::into_error);
        let mut file = file.map_err(|e| of_spool(&e))?;
        file.rewind().map_err(|e| of_spool(&e))?;
        let mut lines = BufReader::new(file);
        let mut next = move || -> io::Result<Option<Sheet>> {
            let mut text = Vec::new();
            // A line, and its check.
            if lines.read_until(b'\n', &mut text)? == 0 {
                return Ok(None);
            }
            lines.read_until(b'\n', &mut text)?;
            let sheet = Sheet::decode(&text);
            sheet.map(Some).map_err(|e| io::Error::other(e.to_string()))
        };
        Ok(std::iter::from_fn(move || {
            next().map_err(|e| of_spool(&e)).transpose()
        }))
    }
}

/// Cuts a tree of this machine.
struct Cut<'a> {
    top: PathBuf,
    cancel: &'a Cancel,
    sheets: Spool,
    large: Vec<Name>,
    report: TreeReport,
}

impl<'a> Cut<'a> {
    fn new(top: PathBuf, cancel: &'a Cancel) -> Result<Self, Error> {
        Ok(Self {
            top,
            cancel,
            sheets: Spool::new()?,
            large: Vec::new(),
            report: TreeReport::default(),
        })
    }

    fn all(
        &mut self,
        mut cutter: Cutter,
        source: &Location,
        config: &CopyConfig,
    ) -> Result<TreePlan, Error> {
        let usage = |e| written::usage(&e);
        let mut failure = None;
        let mut large = Vec::new();
        let cancel = self.cancel;
        let mut on_name = |next: &Listing| {
            let Listing::Name(listed) = next else { return };
            if failure.is_some() || listed.kind != Some(EntryKind::File) {
                return;
            }
            failure = self.take(listed, &mut cutter, &mut large).err();
            if failure.is_some() {
                cancel.cancel();
            }
        };
        let options = TreeOptions::default();
        let nothing = &mut |_: &Progress| ();
        let listed = howdah::list(source, &options, config, cancel, &mut on_name, nothing);
        if let Some(error) = failure {
            return Err(error);
        }
        listed?;
        if let Some(sheet) = cutter.close().map_err(usage)? {
            self.sheets.put(&sheet)?;
        }
        for (member, found) in large {
            let (version, mode) = (version(&found.identity), found.mode);
            for sheet in cutter.large(&member.name, version, mode).map_err(usage)? {
                self.sheets.put(&sheet)?;
            }
            self.large.push(member.name);
        }
        Ok(cutter.end())
    }

    fn take(
        &mut self,
        listed: &Listed,
        cutter: &mut Cutter,
        large: &mut Vec<(Member, SourceFile)>,
    ) -> Result<(), Error> {
        let Some(name) = Name::new(listed.path.as_os_str().as_bytes()) else {
            return Ok(());
        };
        let mtime = (listed.modified.unwrap_or(0), listed.modified_ns);
        let size = listed.size;
        let member = Member { name, size, mtime };
        if cutter.is_small(size) {
            let full = cutter.small(member).map_err(|e| written::usage(&e))?;
            return full.map_or(Ok(()), |sheet| self.sheets.put(&sheet));
        }
        cutter.announce(size).map_err(|e| written::usage(&e))?;
        match version_of(&self.top.join(path_of(&member.name))) {
            Ok(found)
                if found.identity.size == size && is_same_moment(found.identity.mtime, mtime) =>
            {
                large.push((member, found));
            }
            Ok(_) => self.changed(&member.name, "it changed while the plan was made"),
            Err(error) => self.changed(&member.name, &error.to_string()),
        }
        Ok(())
    }

    fn changed(&mut self, name: &Name, why: &str) {
        let name = path_of(name).display();
        self.report.changed += 1;
        self.report.notes.push(format!("{name}: {why}"));
    }
}

/// One run of a lease of a tree.
pub(super) struct Pusher<'a> {
    pub(super) plan: &'a TreePlan,
    pub(super) text: &'a str,
    pub(super) top: &'a Path,
    pub(super) destination: &'a Location,
    pub(super) config: &'a CopyConfig,
    pub(super) cancel: &'a Cancel,
}

impl Pusher<'_> {
    pub(super) fn run(
        &self,
        sheet: &Sheet,
        epoch: u64,
        show: &mut dyn FnMut(&Progress),
    ) -> Result<Summary, Error> {
        let run = a_run(sheet.lease, epoch);
        let top = Dir::open(self.top).map_err(|e| failed("open", self.top, &e))?;
        match &sheet.share {
            Share::Run(members) => {
                members
                    .iter()
                    .try_for_each(|member| below(&top, &member.name))?;
                self.small(members, run, show)
            }
            Share::Part {
                name,
                version,
                first,
                ..
            } => {
                below(&top, name)?;
                let part = self.plan.part(sheet.lease, *version, *first);
                let (file, lease) = part.map_err(|e| written::usage(&e))?;
                let path = self.top.join(path_of(name));
                let done = push_range(
                    (&path, self.destination),
                    (&file, self.text.to_owned()),
                    (lease, epoch),
                    self.config,
                    self.cancel,
                    show,
                );
                done.inspect_err(|error| self.lacks(run, error))
            }
        }
    }

    fn far(&self) -> Result<FarPlan, Error> {
        let mut config = self.config.clone();
        // Who was asked about a key is not asked again.
        known_again(&mut config)?;
        FarPlan::open(self.destination, &config, self.cancel)
    }

    fn small(
        &self,
        members: &[Member],
        run: LeaseRun,
        show: &mut dyn FnMut(&Progress),
    ) -> Result<Summary, Error> {
        let begun = Instant::now();
        let source = Location::File(self.top.to_path_buf());
        let mut summary = push_tree(
            (&source, self.destination),
            (self.text.to_owned(), Some(run)),
            &run_options(self.plan, members),
            self.config,
            self.cancel,
            show,
        )?;
        let took = begun.elapsed();
        let mut config = self.config.clone();
        known_again(&mut config)?;
        let there = (self.destination, self.text);
        let landed = land_tree(there, (run, took), &config, self.cancel)?;
        finish_summary(&mut summary, landed.bytes, begun);
        let report = summary.tree.get_or_insert_default();
        tell_of(landed.lacking, landed.notes, report);
        Ok(summary)
    }

    /// What a tree can do without is known there then.
    fn lacks(&self, run: LeaseRun, error: &Error) {
        if matches!(error.kind(), ErrorKind::SourceChanged | ErrorKind::NotFound) {
            // Where it cannot be said the lease is missing.
            let _ = self
                .far()
                .and_then(|far| far.lacks(self.text, run, &error.to_string()));
        }
    }
}

/// The other machine keeps what a lease has: it gets what lies below the source, and nothing behind a link.
fn below(top: &Dir, name: &Name) -> Result<(), Error> {
    let name = path_of(name);
    match top.look(name) {
        Ok(seen) if !seen.is_link() => Ok(()),
        // Gone, or of another kind by now.
        Err(e) if !beneath::is_no_way(&e) => Ok(()),
        _ => {
            let path = top.path().join(name);
            let text = format!(
                "{} lies behind a link, or is one, and is not what was planned; plan anew",
                path.display()
            );
            Err(Error::new(ErrorKind::SourceChanged, text))
        }
    }
}

pub(super) fn finish(args: &FinishArgs, plan: &TreePlan, far: FarPlan) -> anyhow::Result<()> {
    let text = Planned::Tree(plan.clone()).encode();
    if args.check {
        let looked = far.look(&text, None)?;
        far.close();
        return tree_finish::check(args, plan, &looked.records, looked.has_plan);
    }
    let sums = tree_finish::sums(args, None)?;
    let how = (args.partial, sums.is_some());
    let known = far.finish_tree(&text, how, &mut |note| ui::say_marked("warning:", note))?;
    // One that had its name before has no list any more.
    if let Some(mut sums) = sums.filter(|_| !known.sums.is_empty() || known.files == 0) {
        if blake3::hash(&known.sums).to_hex().as_str() != known.blake3 {
            let text = "the server's list of hashes is not the one whose hash it tells";
            return Err(Error::new(ErrorKind::Integrity, text).into());
        }
        sums.put(&known.sums)?;
        sums.end()?;
    }
    let known = Finished {
        blake3: known.blake3,
        files: known.files,
        bytes: known.bytes,
        lacking: known.lacking,
    };
    // Who does not get to know it can ask again.
    tree_finish::tell(args, plan, &known)?;
    if !args.keep {
        // It has its name: what stays beside it goes some day.
        let _ = far.forget(&text);
    }
    far.close();
    tree_finish::lacks(plan, &known)
}
