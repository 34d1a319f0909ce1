//! `howdah ls`.

use super::places::Visit;
use crate::args::LsArgs;
use crate::ui;
use howdah::{EntryKind, Expanded, Listed, Listing, Location, TreeOptions};
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Names of one directory that are sorted together; in a larger one its directories come last.
const SORTED: usize = 50_000;

pub(super) fn run(args: &LsArgs) -> anyhow::Result<()> {
    let mut visit = Visit::begin(&args.connect, &args.places, args.json)?;
    let places = visit.expand(&args.places)?;
    let mut out = Printer::new(args);
    let several = places.len() > 1;
    // As with ls: files first, then directories under their names.
    let (files, others): (Vec<_>, Vec<_>) = places
        .iter()
        .partition(|place| matches!(place.found, Some((false, _))) && !args.long);
    for place in files {
        out.found(place)?;
    }
    for place in others {
        let options = TreeOptions {
            archive: args.long || args.json,
            levels: (!args.recursive).then_some(1),
            ..TreeOptions::default()
        };
        out.begin(place, several);
        let result = visit.list(&place.location, &options, |next| out.take(next))?;
        out.flush()?;
        match result {
            Ok(report) => visit.notes(&place.location, report.failed, &report.notes),
            Err(error) => visit.trouble(&place.location, &error)?,
        }
    }
    let summary = json!({ "names": out.names, "bytes": out.bytes });
    visit.end(places.len(), &summary)
}

/// Prints names as they come, those of one directory sorted.
struct Printer<'a> {
    args: &'a LsArgs,
    place: Option<&'a Location>,
    /// A line above the first name.
    title: Option<String>,
    waiting: Vec<(OsString, String)>,
    sorts: bool,
    names: u64,
    bytes: u64,
}

impl<'a> Printer<'a> {
    fn new(args: &'a LsArgs) -> Self {
        Self {
            args,
            place: None,
            title: None,
            waiting: Vec::new(),
            sorts: true,
            names: 0,
            bytes: 0,
        }
    }

    /// A file that a name with wildcards means.
    fn found(&mut self, place: &Expanded) -> anyhow::Result<()> {
        let bytes = place.found.map_or(0, |(_, bytes)| bytes);
        self.names += 1;
        self.bytes += bytes;
        let path = path_of(&place.location);
        let line = if self.args.json {
            let mut fields = ui::name_fields("path", path.as_bytes());
            fields.insert("place".into(), json!(place.location.to_string()));
            fields.insert("kind".into(), json!("file"));
            fields.insert("bytes".into(), json!(bytes));
            ui::object("entry", &fields.into())?
        } else {
            ui::printable(&path.to_string_lossy()).into_owned()
        };
        ui::print(&line)?;
        Ok(())
    }

    fn begin(&mut self, place: &'a Expanded, several: bool) {
        self.place = Some(&place.location);
        let title = format!("{}:", place.location);
        self.title = (several && !self.args.json).then_some(title);
        self.sorts = !self.args.recursive;
    }

    fn take(&mut self, next: &Listing) -> anyhow::Result<()> {
        let Listing::Name(listed) = next else {
            return Ok(());
        };
        let depth = listed.path.iter().count();
        // A far side that is too old to stop below the names tells more than was asked for.
        if depth == 0 || depth > 1 && !self.args.recursive {
            return Ok(());
        }
        self.names += 1;
        self.bytes += listed.size;
        let line = self.line(listed)?;
        if !self.sorts {
            return self.print(&line);
        }
        self.waiting
            .push((listed.path.clone().into_os_string(), line));
        if self.waiting.len() >= SORTED {
            self.flush()?;
            self.sorts = false;
        }
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort();
        waiting.iter().try_for_each(|(_, line)| self.print(line))
    }

    fn print(&mut self, line: &str) -> anyhow::Result<()> {
        if let Some(title) = self.title.take() {
            ui::print(&ui::printable(&title))?;
        }
        Ok(ui::print(line)?)
    }

    fn line(&self, listed: &Listed) -> anyhow::Result<String> {
        if self.args.json {
            return self.object(listed);
        }
        let mut text = ui::printable(&listed.path.to_string_lossy()).into_owned();
        if listed.kind == Some(EntryKind::Directory) {
            text.push('/');
        }
        if !self.args.long {
            return Ok(text);
        }
        if let Some(target) = &listed.target {
            let target = String::from_utf8_lossy(target);
            text = format!("{text} -> {}", ui::printable(&target));
        }
        let [user, group] = people(listed);
        Ok(format!(
            "{}{} {:8} {:8} {:>14} {} {text}",
            letter(listed.kind),
            listed.mode.map_or_else(|| "?????????".to_owned(), mode),
            ui::printable(&user),
            ui::printable(&group),
            listed.size,
            time(listed.modified),
        ))
    }

    fn object(&self, listed: &Listed) -> anyhow::Result<String> {
        let mut fields = ui::name_fields("path", listed.path.as_os_str().as_bytes());
        let place = self.place.map(ToString::to_string).unwrap_or_default();
        let [user, group] = people(listed);
        let kind = listed.kind.map(|kind| match kind {
            EntryKind::File => "file",
            EntryKind::Directory => "directory",
            EntryKind::Symlink => "symlink",
            EntryKind::Fifo => "fifo",
            EntryKind::Socket => "socket",
            EntryKind::CharacterDevice => "character_device",
            EntryKind::BlockDevice => "block_device",
        });
        for (name, value) in [
            ("place", json!(ui::printable(&place))),
            ("kind", json!(kind)),
            ("bytes", json!(listed.size)),
            ("mode", json!(listed.mode.map(|mode| format!("{mode:04o}")))),
            (
                "modified_utc",
                json!(listed.modified.map(|at| time(Some(at)))),
            ),
            ("user", json!(ui::printable(&user))),
            ("group", json!(ui::printable(&group))),
        ] {
            fields.insert(name.to_owned(), value);
        }
        if let Some(target) = &listed.target {
            fields.append(&mut ui::name_fields("target", target));
        }
        Ok(ui::object("entry", &fields.into())?)
    }
}

/// The path of a place, as it was given.
pub(super) fn path_of(place: &Location) -> OsString {
    match place {
        Location::Remote { path, .. } => path.as_path().as_os_str().to_owned(),
        Location::Ssh(there) => there.path.as_path().as_os_str().to_owned(),
        Location::File(path) => path.clone().into_os_string(),
        other => Path::new(&other.to_string()).as_os_str().to_owned(),
    }
}

fn people(listed: &Listed) -> [String; 2] {
    let called = |(id, name): &(u32, Option<Vec<u8>>)| match name {
        Some(name) => String::from_utf8_lossy(name).into_owned(),
        None => id.to_string(),
    };
    match &listed.owner {
        Some(owner) => [called(&owner.user), called(&owner.group)],
        None => ["?".to_owned(), "?".to_owned()],
    }
}

fn letter(kind: Option<EntryKind>) -> char {
    match kind {
        Some(EntryKind::File) => '-',
        Some(EntryKind::Directory) => 'd',
        Some(EntryKind::Symlink) => 'l',
        Some(EntryKind::Fifo) => 'p',
        Some(EntryKind::Socket) => 's',
        Some(EntryKind::CharacterDevice) => 'c',
        Some(EntryKind::BlockDevice) => 'b',
        None => '?',
    }
}

/// `rwxr-x--x`, with the special bits as ls shows them.
fn mode(mode: u32) -> String {
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    let mut text = String::new();
    for (at, (bit, with, without)) in special.into_iter().enumerate() {
        let bits = mode >> (6 - 3 * at) & 7;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & bit != 0, bits & 1 != 0) {
            (true, true) => with,
            (true, false) => without,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

fn time(seconds: Option<i64>) -> String {
    let Some(seconds) = seconds else {
        return "?".to_owned();
    };
    let stamp = jiff::Timestamp::from_second(seconds);
    stamp.map_or_else(
        |_| format!("@{seconds}"),
        |stamp| stamp.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_times_are_shown_as_ls_shows_them() {
        assert_eq!(mode(0o755), "rwxr-xr-x");
        assert_eq!(mode(0o4755), "rwsr-xr-x");
        assert_eq!(mode(0o2640), "rw-r-S---");
        assert_eq!(mode(0o1777), "rwxrwxrwt");
        assert_eq!(mode(0), "---------");
        assert_eq!(time(Some(0)), "1970-01-01T00:00:00Z");
        assert_eq!(time(Some(i64::MAX)), format!("@{}", i64::MAX));
        assert_eq!(time(None), "?");
    }
}
