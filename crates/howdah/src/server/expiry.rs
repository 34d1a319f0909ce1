//! What interrupted copies have left goes when nobody has gone on with it for long: whoever may write must not fill a disk for
//! good with what he never ends.

use super::Log;
use crate::access::Authority;
use crate::lease::beneath::Dir;
use crate::{Error, ErrorKind};
use howdah_store::{Root, threads};
use howdah_tree::{Fate, Leftover, Leftovers};
use rustix::fd::OwnedFd;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often a server looks: it goes through all that it serves.
const EVERY: Duration = Duration::from_hours(24);

/// Looks now and each day, on a thread of its own, until what it returns is dropped.
pub(super) fn begin(
    authority: &Arc<dyn Authority>,
    keep: Option<Duration>,
    log: &Log,
) -> Result<Option<Sender<()>>, Error> {
    let Some(keep) = keep else { return Ok(None) };
    let (stop, stopped) = channel();
    let (authority, log) = (Arc::clone(authority), log.clone());
    let work = move || {
        loop {
            for root in apart(authority.roots()) {
                sweep(&root, keep, &log);
            }
            if stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    };
    threads::start("howdah-expiry", work)
        .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))?;
    Ok(Some(stop))
}

/// Without those that lie in others.
fn apart(mut roots: Vec<PathBuf>) -> Vec<PathBuf> {
    roots.sort();
    roots.dedup_by(|later, earlier| later.starts_with(earlier));
    roots
}

/// What cannot be read, or is in use, stays without a word: there is another day.
fn sweep(root: &Path, keep: Duration, log: &Log) {
    let Ok(open) = Root::open(root).map(Arc::new) else {
        return;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs() as i64);
    let what = Leftovers {
        dry_run: false,
        modified_until: Some(now.saturating_sub_unsigned(keep.as_secs())),
    };
    let (mut names, mut bytes, mut rooms) = (0u64, 0u64, 0u64);
    let mut on_room = |dir: &OwnedFd, name: &OsStr| {
        let is_gone = clear_room(dir, name, what.modified_until.unwrap_or(i64::MIN));
        rooms += u64::from(is_gone);
        is_gone
    };
    let mut each = |left: Leftover| {
        if left.fate == Fate::Removed {
            names += 1;
            bytes += left.bytes;
        }
        Ok(())
    };
    let _ = what.clean_with(&open, Path::new(""), &mut each, &mut on_room);
    if rooms > 0 {
        let days = keep.as_secs() / 86_400;
        log.line(&format!(
            "{}: forgot {rooms} plans that nobody has gone on with for {days} days",
            root.display()
        ));
    }
    if names > 0 {
        let days = keep.as_secs() / 86_400;
        log.line(&format!(
            "{}: removed {names} names of unfinished files that nobody has gone on with for {days} days, {} MiB",
            root.display(),
            bytes >> 20
        ));
    }
}

/// Removes the room of a plan in which nothing has been done since then, in seconds since 1970: no lease begun or moved. Whether it is gone.
fn clear_room(dir: &OwnedFd, name: &OsStr, until: i64) -> bool {
    let clear = || -> io::Result<bool> {
        let above = Dir::of(dir.try_clone()?, PathBuf::new());
        let room = above.dir(Path::new(name))?;
        let user = rustix::process::geteuid();
        let seen = room.look(Path::new(""))?;
        if seen.owner != user.as_raw() && !user.is_root() {
            return Ok(false);
        }
        let mut last = seen.mtime.0;
        for name in room.names()? {
            last = last.max(room.look(Path::new(&name))?.mtime.0);
        }
        if last > until {
            return Ok(false);
        }
        room.clear(Path::new(""))?;
        above.remove_dir(Path::new(name))?;
        Ok(true)
    };
    clear().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::sync::Mutex;

    #[test]
    fn h9_what_nobody_goes_on_with_goes_and_the_rest_stays() {
        let place = tempfile::tempdir().expect("a place");
        let dir = place.path().join("sub");
        fs::create_dir(&dir).expect("made");
        let old = SystemTime::now() - Duration::from_hours(24 * 40);
        let make = |name: &str, is_old: bool| {
            let path = dir.join(name);
            fs::write(&path, "x").expect("written");
            if is_old {
                let file = File::options().write(true).open(&path).expect("opened");
                file.set_modified(old).expect("dated back");
            }
            path
        };
        let part = |digit: &str| format!(".t.{}.howdah-part", digit.repeat(16));
        let gone = make(&part("0"), true);
        let stays = [make(&part("1"), false), make("old", true)];
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let log = Log::new(move |line| kept.lock().expect("no panic").push(line.to_owned()));
        for _ in 0..2 {
            sweep(place.path(), Duration::from_hours(24 * 30), &log);
        }
        assert!(!gone.exists());
        assert!(stays.iter().all(|path| path.exists()));
        let lines = lines.lock().expect("no panic");
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("30 days"), "{lines:?}");
    }

    #[test]
    fn h9_plans_that_nobody_goes_on_with_go_and_others_stay() {
        let place = tempfile::tempdir().expect("a place");
        let old = SystemTime::now() - Duration::from_hours(24 * 40);
        let room = |id: &str, is_part_old: bool| {
            let room = place.path().join(format!(".t.{id}.howdah-plan"));
            fs::create_dir_all(room.join("7")).expect("made");
            fs::write(room.join("7/claim-1"), "").expect("written");
            fs::write(room.join("part"), "x").expect("written");
            let date = |path: &Path| {
                let file = File::open(path).expect("opened");
                file.set_modified(old).expect("dated back");
            };
            if is_part_old {
                date(&room.join("part"));
            }
            date(&room.join("7"));
            date(&room);
            room
        };
        let (gone, stays) = (room("a", true), room("b", false));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let log = Log::new(move |line| kept.lock().expect("no panic").push(line.to_owned()));
        for _ in 0..2 {
            sweep(place.path(), Duration::from_hours(24 * 30), &log);
        }
        assert!(!gone.exists() && stays.join("part").exists());
        let lines = lines.lock().expect("no panic");
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("forgot 1 plans"), "{lines:?}");
    }

    #[test]
    fn roots_in_others_are_gone_through_once() {
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        let roots = paths(&["/data/anna", "/data", "/database", "/data", "/data/ben/x"]);
        assert_eq!(apart(roots), paths(&["/data", "/database"]));
    }
}
