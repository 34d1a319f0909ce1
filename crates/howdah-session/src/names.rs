//! Lists of names.

use std::ops::Range;

/// Many names in little memory, sorted.
#[derive(Debug, Default)]
pub struct Names {
    bytes: Vec<u8>,
    /// Where each begins, in the 16 bits below its class, and in the lowest 16 its length: there may be millions.
    order: Vec<u64>,
}

impl Names {
    /// One more, of class 0.
    pub fn push(&mut self, name: &[u8]) {
        self.push_as(name, 0);
    }

    /// A name, and a number for whoever reads it.
    pub fn push_as(&mut self, name: &[u8], class: u8) {
        let name = &name[..name.len().min(usize::from(u16::MAX))];
        let at = (self.bytes.len() as u64) << 24;
        self.order
            .push(at | u64::from(class) << 16 | name.len() as u64);
        self.bytes.extend_from_slice(name);
    }

    /// By their bytes.
    pub fn sort(&mut self) {
        let bytes = &self.bytes;
        self.order
            .sort_unstable_by(|&a, &b| slice(bytes, a).cmp(slice(bytes, b)));
    }

    /// Of all names.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory that they take.
    pub fn weight(&self) -> usize {
        self.bytes.len() + size_of::<u64>() * self.order.len()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Where that name stands in a sorted list.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let by_name = |&at: &u64| slice(&self.bytes, at).cmp(name);
        self.order.binary_search_by(by_name).ok()
    }

    /// The one at that place.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.order.get(index).map(|&at| slice(&self.bytes, at))
    }

    /// The number that it was given.
    pub fn class(&self, index: usize) -> u8 {
        self.order
            .get(index)
            .map_or(0, |&at| (at >> 16).to_le_bytes()[0])
    }

    /// Keeps only those that stand in that range, and gives back what the others took.
    pub fn keep(&mut self, range: Range<usize>) {
        self.order.truncate(range.end);
        self.order.drain(..range.start.min(self.order.len()));
        self.compact();
        self.bytes.shrink_to_fit();
        self.order.shrink_to_fit();
        self.sort();
    }

    /// Keeps the first ones, until what they take is at most so much, but at least one. The last that stays.
    pub fn keep_first(&mut self, weight: usize) -> Option<&[u8]> {
        while self.weight() > weight && self.len() > 1 {
            let keep = (self.len() * 3 / 4).max(1);
            let bytes = &self.bytes;
            let by_name = |&a: &u64, &b: &u64| slice(bytes, a).cmp(slice(bytes, b));
            self.order.select_nth_unstable_by(keep - 1, by_name);
            self.order.truncate(keep);
            self.compact();
        }
        let names = self.order.iter().map(|&at| slice(&self.bytes, at));
        names.max()
    }

    /// Of a sorted list: each name once.
    pub fn dedup(&mut self) {
        let bytes = &self.bytes;
        self.order
            .dedup_by(|a, b| slice(bytes, *a) == slice(bytes, *b));
    }

    /// Moves the names that are left together, without further memory.
    fn compact(&mut self) {
        // By where they begin.
        self.order.sort_unstable();
        let mut end = 0;
        for at in &mut self.order {
            let (start, len) = ((*at >> 24) as usize, (*at & 0xffff) as usize);
            self.bytes.copy_within(start..start + len, end);
            *at = (end as u64) << 24 | *at & 0xff_ffff;
            end += len;
        }
        self.bytes.truncate(end);
    }
}

fn slice(bytes: &[u8], at: u64) -> &[u8] {
    let (start, len) = ((at >> 24) as usize, (at & 0xffff) as usize);
    bytes.get(start..start + len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        let mut names = Names::default();
        let longest = [b'n'; 255];
        for name in [&b"b"[..], b"", &longest, b"a"] {
            names.push(name);
        }
        names.sort();
        let all: Vec<_> = (0..names.len()).filter_map(|i| names.get(i)).collect();
        assert_eq!(all, [&b""[..], b"a", b"b", &longest]);
        assert_eq!((names.find(b"b"), names.find(b"c")), (Some(2), None));
    }

    #[test]
    fn what_is_kept_of_names_is_in_order_and_moved_together() {
        let mut names = Names::default();
        for name in [&b"d"[..], b"bb", b"a", b"ccc", b"e"] {
            names.push_as(name, name.len().to_le_bytes()[0]);
        }
        names.sort();
        names.keep(1..4);
        let all: Vec<_> = (0..3).filter_map(|i| names.get(i)).collect();
        assert_eq!(all, [&b"bb"[..], b"ccc", b"d"]);
        assert_eq!([0, 1, 2].map(|i| names.class(i)), [2, 3, 1]);
        assert_eq!((names.len(), names.bytes()), (3, 6));
        names.keep(0..0);
        assert_eq!((names.len(), names.weight()), (0, 0));
    }
}
