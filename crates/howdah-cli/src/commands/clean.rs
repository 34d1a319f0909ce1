//! `howdah clean`.

use super::places::Visit;
use crate::args::CleanArgs;
use crate::ui;
use howdah::{Cleaned, Fate, Leftovers, Location};
use howdah_core::units;
use serde_json::json;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn run(args: &CleanArgs) -> anyhow::Result<()> {
    let mut visit = Visit::begin(&args.connect, &args.places, args.json)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs() as i64);
    let what = Leftovers {
        dry_run: args.dry_run,
        modified_until: args
            .older_than
            .map(|span| now - (span.as_millis() / 1000) as i64),
    };
    let (mut names, mut bytes, mut in_use) = (0, 0, 0);
    for place in &args.places {
        let cancel = visit.cancel().clone();
        match howdah::clean(place, what, &visit.config, &cancel, &mut |_| ()) {
            Ok(cleaned) => {
                tell(args, place, &cleaned)?;
                names += cleaned.names;
                bytes += cleaned.bytes;
                in_use += cleaned.in_use;
                visit.notes(place, cleaned.failed, &cleaned.notes);
            }
            Err(error) => visit.trouble(place, &error)?,
        }
    }
    if !args.json {
        let left = match in_use {
            0 => String::new(),
            n => format!("; {n} may be in use and stay"),
        };
        let would = if args.dry_run {
            "would be removed"
        } else {
            "removed"
        };
        let names = match names {
            1 => "1 name".to_owned(),
            n => format!("{n} names"),
        };
        ui::say(&format!(
            "{names} {would}, {}{left}",
            units::format_bytes(bytes)
        ));
    }
    let summary =
        json!({ "names": names, "bytes": bytes, "in_use": in_use, "dry_run": args.dry_run });
    visit.end(args.places.len(), &summary)
}

fn tell(args: &CleanArgs, place: &Location, cleaned: &Cleaned) -> anyhow::Result<()> {
    for (path, bytes, fate) in &cleaned.found {
        let word = match (fate, args.dry_run) {
            (Fate::Removed, false) => "removed",
            (Fate::Removed, true) => "would remove",
            (Fate::InUse, _) => "in use",
            (Fate::Failed, _) => "cannot remove",
        };
        let line = if args.json {
            let mut fields = ui::name_fields("path", path.as_os_str().as_bytes());
            fields.insert("place".into(), json!(ui::printable(&place.to_string())));
            fields.insert("bytes".into(), json!(bytes));
            fields.insert("what".into(), json!(word.replace(' ', "_")));
            ui::object("leftover", &fields.into())?
        } else {
            let path = path.to_string_lossy();
            let size = units::format_bytes(*bytes);
            let text = format!("{word}  {place}: {path} ({size})");
            ui::printable(&text).into_owned()
        };
        ui::print(&line)?;
    }
    let told = cleaned.found.len() as u64;
    let all = cleaned.names + cleaned.in_use;
    if told < all && !args.json {
        ui::say(&format!("{place}: {} more are not named", all - told));
    }
    Ok(())
}
