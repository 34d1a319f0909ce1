//! What an attempt says is kept within bounds, however much that is: the first part of a file and the last one stay. What was between
//! them becomes a hole, which takes no room on the disk; everything else keeps its place, also for whoever writes and reads meanwhile.

use super::record::{EVENTS, LOG};
use crate::time::{now_ms, printed};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

/// How much of a file stays, at its beginning and at its end; half of that more before it is looked at again.
#[derive(Clone, Copy, Debug)]
struct Kept(u64);

/// Some 100,000 events each.
const OF_EVENTS: Kept = Kept(16 << 20);
const OF_LOG: Kept = Kept(1 << 20);
/// Lines are not longer; of those that are a part stays.
const LINE: u64 = 256 << 10;

/// Keeps the files of an attempt within their bounds. Where the file system makes no holes they grow.
pub fn keep_within_bounds(attempt: &Path) {
    for (name, kept) in [(EVENTS, OF_EVENTS), (LOG, OF_LOG)] {
        // It is tried again soon.
        let _ = kept.keep(&attempt.join(name));
    }
}

impl Kept {
    fn keep(self, path: &Path) -> io::Result<()> {
        let found = path.metadata()?;
        let Self(part) = self;
        // (In blocks of 512 bytes: what holes do not take.)
        if found.blocks() * 512 <= part * 5 / 2 || found.len() <= part * 2 {
            return Ok(());
        }
        let file = File::options().read(true).write(true).open(path)?;
        let from = line_after(&file, part)?;
        let to = line_after(&file, found.len() - part)?;
        if from < to {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&file, how, from, to - from)?;
        }
        Ok(())
    }
}

/// Where the first line begins that does not begin before; there itself if that is far away.
fn line_after(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = vec![0; usize::try_from(LINE).unwrap_or(usize::MAX)];
    let before = at.saturating_sub(1);
    let read = file.read_at(&mut bytes, before)?;
    let end = bytes[..read].iter().position(|byte| *byte == b'\n');
    Ok(end.map_or(at, |end| before + end as u64 + 1))
}

/// Where what was left out ends, that begins there.
pub(crate) fn end_of_hole(file: &File, begin: u64) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let Ok(mut at) = seek(file, SeekFrom::Data(begin)) else {
        // There is nothing behind it yet.
        return Ok(length.max(begin));
    };
    // Of the blocks at its ends only a part is left out.
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = file.read_at(&mut bytes, at)?;
        if let Some(some) = bytes[..read].iter().position(|byte| *byte != 0) {
            return Ok(at + some as u64);
        }
        if read == 0 {
            return Ok(at);
        }
        at += read as u64;
    }
}

/// An event in the place of so many bytes.
pub(crate) fn left_out(bytes: u64) -> String {
    let message = format!(
        "{bytes} bytes of what this job has said are not kept: the first and the last part are"
    );
    let time_utc = printed(now_ms());
    serde_json::json!({"schema": 2, "event": "warning", "time_utc": time_utc, "message": message})
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::lines_from;
    use std::fs;
    use std::io::Write as _;

    const PART: u64 = 64 << 10;

    fn line(n: u64) -> String {
        format!("{{\"event\":\"file\",\"n\":{n}}}\n")
    }

    /// What a reader is told who begins at the beginning: numbers of events, and how often something was left out.
    fn read(path: &Path) -> (Vec<u64>, u32) {
        let (mut offset, mut told, mut gaps) = (0, Vec::new(), 0);
        loop {
            let (lines, next) = lines_from(path, offset).unwrap();
            if next == offset {
                return (told, gaps);
            }
            offset = next;
            for line in lines {
                let event: serde_json::Value = serde_json::from_str(&line).unwrap();
                told.extend(event["n"].as_u64());
                gaps += u32::from(event["event"] == "warning");
            }
        }
    }

    #[test]
    fn the_first_and_the_last_stay_and_what_was_between_them_takes_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(EVENTS);
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        let (mut reached, mut middle) = (0, None);
        for n in 0..100_000 {
            file.write_all(line(n).as_bytes()).unwrap();
            if n % 1_000 == 999 {
                if let Err(error) = Kept(PART).keep(&path) {
                    println!("skipped: no holes in {}: {error}", dir.path().display());
                    return;
                }
                let room = path.metadata().unwrap().blocks() * 512;
                assert!(room <= PART * 3, "{room}");
                // Somebody reads in the midst of it, and stays behind.
                let (lines, next) = lines_from(&path, reached).unwrap();
                let is_told = lines.iter().any(|l| l.contains("warning"));
                if middle.is_none() && is_told {
                    middle = Some(n);
                }
                reached = if n < 10_000 { next } else { reached };
            }
        }
        assert!(middle.is_some(), "he is told when it goes on");
        let (told, gaps) = read(&path);
        assert_eq!((told.first(), told.last()), (Some(&0), Some(&99_999)));
        assert!(told.is_sorted() && gaps == 1, "{gaps}");
        let bytes: u64 = told.iter().map(|n| line(*n).len() as u64).sum();
        assert!((PART * 2 - 100..=PART * 3).contains(&bytes), "{bytes}");
        let jumps = told
            .windows(2)
            .filter(|pair| pair[1] != pair[0] + 1)
            .count();
        assert_eq!(jumps, 1);
    }

    #[test]
    fn what_is_short_or_has_no_lines_is_harmed_no_more_than_it_must() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOG);
        fs::write(&path, vec![b'x'; 2 << 10]).unwrap();
        Kept(PART).keep(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), vec![b'x'; 2 << 10]);
        assert!(Kept(PART).keep(&dir.path().join("nothing")).is_err());
        fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        if Kept(PART).keep(&path).is_err() {
            println!("skipped: no holes in {}", dir.path().display());
            return;
        }
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 1 << 20);
        let part = usize::try_from(PART).unwrap();
        let [first, gone, last] = [
            0..part,
            part..bytes.len() - part,
            bytes.len() - part..bytes.len(),
        ];
        assert!(
            bytes[first]
                .iter()
                .chain(&bytes[last])
                .all(|byte| *byte == b'x')
        );
        assert!(bytes[gone].iter().all(|byte| *byte == 0));
    }
}
