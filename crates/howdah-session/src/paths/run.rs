//! Sorted paths in little memory.

use super::code::{Code, Counts, low};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A search reads one chunk from its start, where a path stands whole.
const CHUNK_BYTES: usize = 1 << 10;
/// Chunks lie in blocks of one size, so that what is given back fits what is wanted next.
const BLOCK_BYTES: usize = 64 << 10;

/// Paths that begin alike, and often end alike: of each is kept how much of both it shares with the one before, and, in a
/// [`Code`], what stands between.
#[derive(Debug)]
pub(super) struct Run {
    chunks: Vec<Chunk>,
    blocks: Vec<Box<[u8]>>,
    /// Of what stands between.
    counts: Counts,
    code: Code,
    pub(super) len: usize,
    /// Of all paths.
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Where its first path stands in the whole.
    first: usize,
    block: u32,
    /// In it.
    start: u32,
    end: u32,
}

/// Where a reader stands in a run, and the path that it has read.
#[derive(Debug, Default)]
pub(super) struct Place {
    chunk: usize,
    /// In the chunk.
    position: usize,
    pub(super) path: Vec<u8>,
    /// Of the next path.
    pub(super) index: usize,
}

impl Run {
    /// Of sorted paths, which are gone through twice.
    pub(super) fn of<'a>(paths: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let (mut counts, mut last) = (Counts::default(), &[][..]);
        for path in paths.clone() {
            let (start, end) = shared(last, path);
            counts.count(&path[start..path.len() - end]);
            last = path;
        }
        let mut writer = RunWriter::new(counts);
        paths.for_each(|path| writer.push(path));
        writer.finish()
    }

    /// Of several. Blocks go as they have been read: at no time are all paths here twice.
    pub(super) fn merged(runs: Vec<Self>) -> Self {
        let mut counts = Counts::default();
        for run in &runs {
            counts.add(&run.counts);
        }
        let mut sources: Vec<_> = runs.into_iter().map(Source::new).collect();
        let mut heads = BinaryHeap::new();
        for (number, source) in sources.iter_mut().enumerate() {
            heads.extend(source.next().map(|path| Reverse((path, number))));
        }
        let mut writer = RunWriter::new(counts);
        while let Some(Reverse((path, number))) = heads.pop() {
            writer.push(&path);
            heads.extend(sources[number].next().map(|path| Reverse((path, number))));
        }
        writer.finish()
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(|block| block.len()).sum();
        blocks + size_of_val(&*self.chunks) + self.code.memory_bytes()
    }

    /// In front of the first path, or of the last one before or at which `path` may stand.
    pub(super) fn place_before(&self, path: &[u8]) -> Place {
        let mut head = Vec::new();
        let behind = self.chunks.partition_point(|chunk| {
            head.clear();
            self.read(self.bytes_of(chunk), &mut 0, &mut head);
            *head <= *path
        });
        let chunk = behind.saturating_sub(1);
        Place {
            index: self.chunks.get(chunk).map_or(0, |chunk| chunk.first),
            chunk,
            ..Place::default()
        }
    }

    /// Reads the next path; false behind the last.
    pub(super) fn advance(&self, place: &mut Place) -> bool {
        loop {
            let Some(chunk) = self.chunks.get(place.chunk) else {
                return false;
            };
            let bytes = self.bytes_of(chunk);
            if self.read(bytes, &mut place.position, &mut place.path) {
                place.index += 1;
                return true;
            }
            (place.chunk, place.position) = (place.chunk + 1, 0);
        }
    }

    fn bytes_of(&self, chunk: &Chunk) -> &[u8] {
        let block = self.blocks.get(chunk.block as usize);
        let bytes = block.and_then(|block| block.get(chunk.start as usize..chunk.end as usize));
        bytes.unwrap_or_default()
    }

    /// Makes the path at that position of a chunk out of the one before; false behind the last.
    fn read(&self, chunk: &[u8], position: &mut usize, path: &mut Vec<u8>) -> bool {
        if *position >= chunk.len() {
            return false;
        }
        let ends = path.len();
        let (start, end, len) = Shares::read(chunk, position, ends);
        let tail = ends.saturating_sub(end).max(start);
        self.code.decode(chunk, position, len, path);
        // What stood before: the beginning, what is left out now, the end, and behind it what is new.
        path[tail..].rotate_left(ends - tail);
        path.drain(start..tail);
        true
    }
}

/// A number of blocks, or a place in one: never that many.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Seven bits a byte, the lowest first; of our own making.
fn number(bytes: &[u8], position: &mut usize) -> usize {
    let (mut value, mut shift) = (0, 0);
    while let Some(&byte) = bytes.get(*position) {
        *position += 1;
        value |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    value
}

fn put_number(bytes: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        bytes.push(low(value) | 0x80);
        value >>= 7;
    }
    bytes.push(low(value));
}

/// What a path shares with the one before at its beginning and at its end, and how much stands between: mostly in one byte.
struct Shares;

impl Shares {
    /// What fits into the first byte; this much means that more follows.
    const START: usize = 15;
    const END: usize = 7;
    /// Both paths are of one length, which says how much stands between.
    const AS_LONG: u8 = 0x80;

    fn put(bytes: &mut Vec<u8>, (start, end, between): (usize, usize, usize), as_long: bool) {
        let both = start.min(Self::START) | end.min(Self::END) << 4;
        bytes.push(low(both) | if as_long { Self::AS_LONG } else { 0 });
        for (count, most) in [(start, Self::START), (end, Self::END)] {
            if count >= most {
                put_number(bytes, count - most);
            }
        }
        if !as_long {
            put_number(bytes, between);
        }
    }

    /// Of a path behind one of `before` bytes.
    fn read(bytes: &[u8], position: &mut usize, before: usize) -> (usize, usize, usize) {
        let first = bytes.get(*position).copied().unwrap_or_default();
        *position += 1;
        let both = [usize::from(first & 15), usize::from(first >> 4 & 7)];
        let mut more = |count, most| {
            let rest = count == most;
            count + if rest { number(bytes, position) } else { 0 }
        };
        let start = more(both[0], Self::START).min(before);
        let end = more(both[1], Self::END);
        let between = if first & Self::AS_LONG == 0 {
            number(bytes, position)
        } else {
            before.saturating_sub(start + end)
        };
        (start, end, between)
    }
}

/// How many bytes at the beginning, and how many others at the end, are those of the path before.
fn shared(last: &[u8], path: &[u8]) -> (usize, usize) {
    fn common<'a>(pairs: impl Iterator<Item = (&'a u8, &'a u8)>) -> usize {
        pairs.take_while(|(one, other)| one == other).count()
    }
    let start = common(path.iter().zip(last));
    let ends = path[start..].iter().rev().zip(last[start..].iter().rev());
    (start, common(ends))
}

/// Takes sorted paths.
struct RunWriter {
    run: Run,
    /// The block that is not full.
    block: Vec<u8>,
    /// The chunk that is not full.
    open: Vec<u8>,
    first: usize,
    last: Vec<u8>,
}

impl RunWriter {
    fn new(counts: Counts) -> Self {
        Self {
            run: Run {
                chunks: Vec::new(),
                blocks: Vec::new(),
                code: counts.code(),
                counts,
                len: 0,
                bytes: 0,
            },
            block: Vec::new(),
            open: Vec::new(),
            first: 0,
            last: Vec::new(),
        }
    }

    fn push(&mut self, path: &[u8]) {
        if self.run.len > 0 && self.last == path {
            return;
        }
        if self.open.len() >= CHUNK_BYTES {
            self.close();
        }
        let last = if self.open.is_empty() {
            &[][..]
        } else {
            &self.last
        };
        let (start, end) = shared(last, path);
        let between = &path[start..path.len() - end];
        let as_long = !self.open.is_empty() && path.len() == last.len();
        Shares::put(&mut self.open, (start, end, between.len()), as_long);
        self.run.code.encode(between, &mut self.open);
        self.last.clear();
        self.last.extend_from_slice(path);
        self.run.len += 1;
        self.run.bytes += path.len() as u64;
    }

    fn close(&mut self) {
        if self.block.len() + self.open.len() > BLOCK_BYTES {
            self.close_block();
        }
        let start = self.block.len();
        self.block.reserve_exact(BLOCK_BYTES.saturating_sub(start));
        self.block.append(&mut self.open);
        self.run.chunks.push(Chunk {
            first: std::mem::replace(&mut self.first, self.run.len),
            block: small(self.run.blocks.len()),
            start: small(start),
            end: small(self.block.len()),
        });
    }

    fn close_block(&mut self) {
        if !self.block.is_empty() {
            // As it is: a smaller one would leave a hole that nothing fits into.
            let mut block = std::mem::take(&mut self.block);
            block.resize(block.capacity(), 0);
            self.run.blocks.push(block.into_boxed_slice());
        }
    }

    fn finish(mut self) -> Run {
        if !self.open.is_empty() {
            self.close();
        }
        self.block.shrink_to_fit();
        self.close_block();
        self.run
    }
}

/// A run that is read once.
struct Source {
    run: Run,
    place: Place,
}

impl Source {
    fn new(run: Run) -> Self {
        let place = Place::default();
        Self { run, place }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        if !self.run.advance(&mut self.place) {
            self.run.blocks.clear();
            return None;
        }
        let block = self.run.chunks[self.place.chunk].block as usize;
        if let Some(read) = block.checked_sub(1) {
            self.run.blocks[read] = Box::default();
        }
        Some(self.place.path.clone())
    }
}
