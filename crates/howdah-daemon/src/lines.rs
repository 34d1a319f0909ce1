//! What an attempt has written, line by line, while it may still be writing.

use crate::process::bounded;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Whole lines from there on, and where the next ones begin. Where something was left out an event says so.
pub(crate) fn lines_from(path: &Path, offset: u64) -> io::Result<(Vec<String>, u64)> {
    const AT_ONCE: u64 = 1 << 18;
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), offset)),
        Err(error) => return Err(error),
    };
    if offset > file.metadata()?.len() {
        // There is nothing yet; and so far away no file can be asked for anything.
        return Ok((Vec::new(), offset));
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    (&file).take(AT_ONCE).read_to_end(&mut bytes)?;
    let hole = bytes.iter().position(|byte| *byte == 0);
    if hole == Some(0) {
        let end = bounded::end_of_hole(&file, offset)?;
        return Ok((vec![bounded::left_out(end - offset)], end));
    }
    let is_cut = hole.is_some() || bytes.len() as u64 == AT_ONCE;
    bytes.truncate(hole.unwrap_or(bytes.len()));
    let end = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    if end == 0 && is_cut {
        // No event is so long, or its end is gone: it is passed over.
        return Ok((Vec::new(), offset + bytes.len() as u64));
    }
    let text = String::from_utf8_lossy(&bytes[..end]);
    let lines = text
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect();
    Ok((lines, offset + end as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_come_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        assert_eq!(lines_from(&path, 0).unwrap(), (Vec::new(), 0));
        std::fs::write(&path, "{\"a\":1}\n{\"b\"").unwrap();
        let (lines, next) = lines_from(&path, 0).unwrap();
        assert_eq!((lines, next), (vec!["{\"a\":1}".to_owned()], 8));
        assert_eq!(lines_from(&path, next).unwrap(), (Vec::new(), next));
        std::fs::write(&path, "{\"a\":1}\n{\"b\":2}\n").unwrap();
        let (lines, next) = lines_from(&path, next).unwrap();
        assert_eq!((lines, next), (vec!["{\"b\":2}".to_owned()], 16));
        for beyond in [17, i64::MAX.unsigned_abs(), u64::MAX] {
            assert_eq!(lines_from(&path, beyond).unwrap(), (Vec::new(), beyond));
        }
    }

    #[test]
    fn a_line_without_end_and_many_lines_take_bounded_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        std::fs::write(&path, [vec![b'x'; 1 << 20], b"\n{}\n".to_vec()].concat()).unwrap();
        let (mut offset, mut found) = (0, Vec::new());
        loop {
            let (lines, next) = lines_from(&path, offset).unwrap();
            if next == offset {
                break;
            }
            assert!(lines.iter().map(String::len).sum::<usize>() <= 1 << 18);
            found.extend(lines);
            offset = next;
        }
        assert_eq!(found.last().map(String::as_str), Some("{}"));
        assert_eq!(offset, (1 << 20) + 4);
    }
}
