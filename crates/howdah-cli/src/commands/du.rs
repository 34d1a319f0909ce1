//! `howdah du`.

use super::ls::path_of;
use super::places::Visit;
use crate::args::DuArgs;
use crate::ui;
use howdah::{EntryKind, Listing, Location, TreeOptions};
use howdah_core::units;
use serde_json::json;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &DuArgs) -> anyhow::Result<()> {
    let mut visit = Visit::begin(&args.connect, &args.places, args.json)?;
    let places = visit.expand(&args.places)?;
    let mut all = Sum::default();
    for place in &places {
        if let Some((false, bytes)) = place.found {
            let sum = Sum { bytes, names: 1 };
            tell(args, &place.location, Path::new(""), sum)?;
            all.add(sum);
            continue;
        }
        let mut counter = Counter {
            args,
            place: &place.location,
            open: Vec::new(),
            total: Sum::default(),
        };
        let options = TreeOptions::default();
        let result = visit.list(&place.location, &options, |next| counter.take(next))?;
        match result {
            Ok(report) => {
                let total = counter.total;
                tell(args, &place.location, Path::new(""), total)?;
                all.add(total);
                visit.notes(&place.location, report.failed, &report.notes);
            }
            Err(error) => visit.trouble(&place.location, &error)?,
        }
    }
    let summary = json!({ "names": all.names, "bytes": all.bytes });
    visit.end(places.len(), &summary)
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bytes: u64,
    names: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.names += other.names;
    }
}

/// Adds up as names come: what is held is a sum for each directory on the way down.
struct Counter<'a> {
    args: &'a DuArgs,
    place: &'a Location,
    open: Vec<(PathBuf, Sum)>,
    total: Sum,
}

impl Counter<'_> {
    fn take(&mut self, next: &Listing) -> anyhow::Result<()> {
        match next {
            Listing::Name(listed) => {
                let sum = Sum {
                    bytes: listed.size,
                    names: u64::from(!listed.path.as_os_str().is_empty()),
                };
                self.add(sum);
                let is_dir = listed.kind == Some(EntryKind::Directory);
                if is_dir && !listed.path.as_os_str().is_empty() {
                    self.open.push((listed.path.clone(), Sum::default()));
                }
            }
            Listing::Left => {
                if let Some((path, sum)) = self.open.pop() {
                    if !self.args.summarize {
                        tell(self.args, self.place, &path, sum)?;
                    }
                    // Its names have been counted in the whole.
                    if let Some((_, above)) = self.open.last_mut() {
                        above.add(sum);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add(&mut self, sum: Sum) {
        self.total.add(sum);
        if let Some((_, open)) = self.open.last_mut() {
            open.add(sum);
        }
    }
}

fn tell(args: &DuArgs, place: &Location, below: &Path, sum: Sum) -> anyhow::Result<()> {
    let mut path = Path::new(&path_of(place)).to_path_buf();
    if !below.as_os_str().is_empty() {
        path.push(below);
    }
    let line = if args.json {
        let mut fields = ui::name_fields("path", below.as_os_str().as_bytes());
        fields.insert("place".into(), json!(ui::printable(&place.to_string())));
        fields.insert("bytes".into(), json!(sum.bytes));
        fields.insert("names".into(), json!(sum.names));
        ui::object("usage", &fields.into())?
    } else {
        let bytes = if args.bytes {
            sum.bytes.to_string()
        } else {
            units::format_bytes(sum.bytes)
        };
        let shown = path.to_string_lossy();
        let shown = if shown.is_empty() { "." } else { &*shown };
        format!("{bytes:>12} {:>10}  {}", sum.names, ui::printable(shown))
    };
    Ok(ui::print(&line)?)
}
