//! Holes: parts of a file that read as zeros and take no space.
//!
//! A sender looks for whole [groups](GROUP) that are holes and does not send them. What is left of zeros
//! comes like other bytes, and a receiver that knows that the source has holes leaves whole blocks of zeros
//! unwritten. A file without holes stays one: somebody may have reserved its space on purpose.

use crate::{GROUP, MAX_HOLE_BYTES};
use howdah_core::{ByteRange, RangeSet};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

/// Zeros are left out by blocks of that size, which is that of most file systems.
const BLOCK: u64 = 4_096;
/// To compare with, and to write where there can be no hole.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// Separate holes of a file that are told: they must fit into one message. The others are sent as zeros.
const MAX_HOLES: usize = 4_096;
/// Looks at a file for its holes, each of two system calls: some 50 ms at most.
const MAX_LOOKS: usize = 32_768;

/// The groups of a file that are holes; `None` if it has all the space that its size asks for.
pub(crate) fn holes_of(file: &File) -> Option<RangeSet> {
    let meta = file.metadata().ok()?;
    let size = meta.len();
    if meta.blocks().saturating_mul(512) >= size {
        return None;
    }
    let mut holes = RangeSet::new();
    let (mut at, mut left) = (0, MAX_HOLE_BYTES);
    for _ in 0..MAX_LOOKS {
        if at + GROUP > size || holes.range_count() >= MAX_HOLES || left == 0 {
            break;
        }
        let Some(data) = next_data(file, at, size) else {
            break;
        };
        // A last group that is not whole is sent.
        let end = data / GROUP * GROUP;
        let end = end.clamp(at, at.saturating_add(left));
        left -= end - at;
        holes.insert(ByteRange::new(at, end));
        let hole = next_hole(file, data).unwrap_or(size);
        at = hole.max(data + 1).div_ceil(GROUP).saturating_mul(GROUP);
    }
    Some(holes)
}

/// Copies all that a file holds to an empty one, holes as holes, as long as it `goes_on`.
pub fn copy(from: &File, to: &File, goes_on: impl Fn() -> bool) -> io::Result<()> {
    const BLOCK: usize = 256 << 10;
    let size = from.metadata()?.len();
    let mut buffer = vec![0; BLOCK];
    let mut at = 0;
    while let Some(data) = Some(next_data(from, at, size).unwrap_or(at)).filter(|at| *at < size) {
        let end = next_hole(from, data).map_or(size, |hole| hole.max(data + 1).min(size));
        at = data;
        while at < end {
            if !goes_on() {
                return Err(io::Error::other("stopped"));
            }
            let len = (end - at).min(BLOCK as u64) as usize;
            from.read_exact_at(&mut buffer[..len], at)?;
            to.write_all_at(&buffer[..len], at)?;
            at += len as u64;
        }
    }
    to.set_len(size)
}

/// Whether nothing is stored of these bytes. `false` also where that cannot be known.
pub(crate) fn is_hole(file: &File, range: ByteRange) -> bool {
    next_data(file, range.start, range.end).is_some_and(|data| data >= range.end)
}

/// Where the data at or behind `at` begins; `end` if there is none. `None`: the file system does not say.
#[cfg(target_os = "linux")]
fn next_data(file: &File, at: u64, end: u64) -> Option<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(data) => Some(data.min(end)),
        Err(Errno::NXIO) => Some(end),
        Err(_) => None,
    }
}

#[cfg(target_os = "linux")]
fn next_hole(file: &File, at: u64) -> Option<u64> {
    rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(at)).ok()
}

#[cfg(not(target_os = "linux"))]
fn next_data(_: &File, _: u64, _: u64) -> Option<u64> {
    None
}

#[cfg(not(target_os = "linux"))]
fn next_hole(_: &File, _: u64) -> Option<u64> {
    None
}

/// Makes zeros of what may hold something, as a hole where that can be.
pub(crate) fn clear(file: &File, range: ByteRange) -> io::Result<()> {
    if is_hole(file, range) {
        return Ok(());
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::FallocateFlags;
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched =
            crate::calls::retry(|| rustix::fs::fallocate(file, punch, range.start, range.len()));
        match punched {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let mut at = range.start;
    while at < range.end {
        let len = (range.end - at).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

/// Gives `len` zeros, in pieces.
pub(crate) fn zeros(len: u64, mut each: impl FnMut(&[u8])) {
    let mut left = len;
    while left > 0 {
        let piece = left.min(ZEROS.len() as u64);
        each(&ZEROS[..piece as usize]);
        left -= piece;
    }
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes
        .chunks(ZEROS.len())
        .all(|piece| piece == &ZEROS[..piece.len()])
}

/// A part of what is to be written.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Stretch {
    pub(crate) range: ByteRange,
    /// Only zeros.
    pub(crate) is_zero: bool,
}

/// Divides neighbouring pieces, each with its place in the file, by blocks that are zero and others. Of a
/// block at either end only what is there counts.
pub(crate) fn stretches(pieces: &[(u64, &[u8])]) -> Vec<Stretch> {
    let mut blocks: Vec<Stretch> = Vec::new();
    for &(offset, bytes) in pieces {
        let mut done = 0;
        while done < bytes.len() {
            let start = offset + done as u64;
            let room = (BLOCK - start % BLOCK) as usize;
            let piece = &bytes[done..bytes.len().min(done + room)];
            done += piece.len();
            let (end, is_zero) = (offset + done as u64, is_zero(piece));
            match blocks.last_mut() {
                // More of the same block.
                Some(last) if last.range.start / BLOCK == start / BLOCK => {
                    last.range.end = end;
                    last.is_zero &= is_zero;
                }
                _ => blocks.push(Stretch {
                    range: ByteRange::new(start, end),
                    is_zero,
                }),
            }
        }
    }
    blocks.dedup_by(|next, before| {
        let joins = next.is_zero == before.is_zero;
        if joins {
            before.range.end = next.range.end;
        }
        joins
    });
    blocks
}

/// What of a piece lies in a range, as a slice.
pub(crate) fn within<'a>(
    &(offset, bytes): &(u64, &'a [u8]),
    range: ByteRange,
) -> Option<IoSlice<'a>> {
    let end = offset + bytes.len() as u64;
    let (from, to) = (offset.max(range.start), end.min(range.end));
    let slice: Range<usize> = from.checked_sub(offset)? as usize..to.checked_sub(offset)? as usize;
    let bytes = bytes.get(slice).filter(|bytes| !bytes.is_empty())?;
    Some(IoSlice::new(bytes))
}

/// Writes a whole small file, without its blocks of zeros, to a file that is empty.
pub fn write_new(file: &File, bytes: &[u8]) -> io::Result<()> {
    let all = (0, bytes);
    let stretches = stretches(&[all]);
    if let Some(Stretch {
        range,
        is_zero: true,
    }) = stretches.last()
    {
        file.set_len(range.end)?;
    }
    for stretch in stretches.iter().filter(|stretch| !stretch.is_zero) {
        if let Some(slice) = within(&all, stretch.range) {
            file.write_all_at(&slice, stretch.range.start)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file of that size in which only these ranges were written.
    fn file(size: u64, data: &[(u64, u64)]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        for &(at, len) in data {
            file.write_all_at(&vec![1; len as usize], at).unwrap();
        }
        file
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a41_so_much_of_holes_is_left_out_and_no_more() {
        let file = tempfile::tempfile().unwrap();
        // Not every file system can hold that.
        let size = MAX_HOLE_BYTES + 3 * GROUP;
        if file.set_len(size).is_err() || next_data(&file, 0, size) != Some(size) {
            println!("skipped: no file of {size} bytes can be made here");
            return;
        }
        let holes = holes_of(&file).unwrap();
        assert_eq!(holes.byte_count(), MAX_HOLE_BYTES);
    }

    #[test]
    fn f33_whole_groups_that_are_holes_are_found() {
        let found = |size, data: &[(u64, u64)]| {
            let holes = holes_of(&file(size, data))?;
            Some(holes.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>())
        };
        let g = GROUP;
        if found(10 * g, &[]) != Some(vec![(0, 10 * g)]) {
            println!("skipped: the file system of temporary files tells no holes");
            return;
        }
        // At the start, in the middle, at the end; what is not a whole group is sent.
        assert_eq!(
            found(10 * g + 5, &[(3 * g + 7, 1)]),
            Some(vec![(0, 3 * g), (4 * g, 10 * g)])
        );
        let ends = [(0, 1), (5 * g - 1, g), (10 * g - 1, 1)];
        assert_eq!(found(10 * g, &ends), Some(vec![(g, 4 * g), (6 * g, 9 * g)]));
        assert_eq!(found(g - 1, &[]), Some(vec![]));
        assert_eq!(found(0, &[]), None);
        assert_eq!(found(2 * g, &[(0, 2 * g)]), None, "it has all its space");
        // Too small to be left out, but known to be there.
        let alternating: Vec<_> = (0..512).map(|i| (i * 8_192, 4_096)).collect();
        assert_eq!(found(4 * g, &alternating), Some(vec![]));
    }

    #[test]
    fn zeros_are_told_from_data_by_blocks() {
        let mut bytes = vec![0; 5 * 4_096];
        bytes[4_096] = 1;
        bytes[3 * 4_096 - 1] = 1;
        let range = |start, end| ByteRange::new(start, end);
        let stretch = |range, is_zero| Stretch { range, is_zero };
        let (head, tail) = bytes.split_at(5_000);
        assert_eq!(
            stretches(&[(0, head), (5_000, tail)]),
            [
                stretch(range(0, 4_096), true),
                stretch(range(4_096, 12_288), false),
                stretch(range(12_288, 20_480), true),
            ]
        );
        assert_eq!(stretches(&[]), []);
    }

    proptest! {
        #[test]
        fn what_is_written_without_zeros_reads_as_it_was(
            runs in prop::collection::vec((any::<bool>(), 1..20_000usize), 0..12),
        ) {
            let mut bytes = Vec::new();
            for (zero, len) in runs {
                bytes.resize(bytes.len() + len, u8::from(!zero));
            }
            let file = tempfile::tempfile().unwrap();
            write_new(&file, &bytes).unwrap();
            let mut back = vec![7; bytes.len()];
            file.read_exact_at(&mut back, 0).unwrap();
            prop_assert_eq!(file.metadata().unwrap().len(), bytes.len() as u64);
            prop_assert!(back == bytes);
            // Data becomes zeros again, wherever it is.
            let middle = ByteRange::new(bytes.len() as u64 / 3, bytes.len() as u64 / 2);
            clear(&file, middle).unwrap();
            bytes[middle.start as usize..middle.end as usize].fill(0);
            file.read_exact_at(&mut back, 0).unwrap();
            prop_assert!(back == bytes);
        }
    }
}
