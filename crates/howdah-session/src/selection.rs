//! Names and rules of a request, of which there may be millions: they go before it, in parts that fit into messages.

use crate::{
    PathBytes, PathList, PathListBuilder, PathWalk, Rule, RuleList, SessionError, TreeOptions,
};
use serde::{Deserialize, Serialize};

/// Of one message.
const PART_BYTES: usize = 32 << 10;
/// Bytes of all of it that a server takes.
const MAX_BYTES: usize = 128 << 20;
/// What each name or rule takes besides its bytes.
const EACH_BYTES: usize = 24;
/// What a path takes in memory besides its own bytes.
const PATH_MEMORY: usize = 48;

/// A request that cannot be made.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SelectionError {
    /// One pattern alone is too long.
    #[error(
        "the pattern {beginning}... has {bytes} bytes, more than the {PART_BYTES} that one may have"
    )]
    LongPattern {
        /// How it begins.
        beginning: String,
        /// Its length.
        bytes: usize,
    },
    /// One listed path alone is too long.
    #[error(
        "the list has a path of {bytes} bytes, which no path can have; is each in a line of its own (-0: behind a NUL)?"
    )]
    LongPath {
        /// Its length.
        bytes: usize,
    },
    /// All of it together is too long.
    #[error(
        "names, rules and lists take {} MiB, more than the {} that a request may have ({EACH_BYTES} bytes for each \
         besides its own); name directories, or copy in parts",
        .bytes.div_ceil(1 << 20),
        MAX_BYTES >> 20
    )]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Whoever is told it takes no more into memory.
    #[error(
        "names, rules and lists would take more than {} MiB of memory there; name directories, copy in parts, or have the \
         server started with more --memory",
        .most >> 20
    )]
    NoMemory {
        /// What may be taken, in bytes.
        most: usize,
    },
    /// One of the rules or options makes no sense.
    #[error(transparent)]
    Senseless(#[from] SessionError),
}

/// A part.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Selection {
    /// What is asked for.
    pub paths: Vec<PathBytes>,
    /// Which names take part.
    pub rules: Vec<Rule>,
    /// The listed paths below the top.
    pub files: Vec<Vec<u8>>,
}

impl Selection {
    fn bytes(&self) -> usize {
        let paths = self.paths.iter().map(path_bytes);
        let rules = self.rules.iter().map(|rule| rule.pattern.len());
        let files = self.files.iter().map(Vec::len);
        let each = paths.chain(rules).chain(files);
        each.map(|bytes| bytes + EACH_BYTES).sum()
    }
}

fn path_bytes(path: &PathBytes) -> usize {
    path.as_path().as_os_str().len()
}

/// A request that is told: first the parts, then what is left of it.
#[derive(Debug)]
pub struct Telling {
    paths: std::vec::IntoIter<PathBytes>,
    rules: RuleList,
    /// So many of them are told.
    rules_told: usize,
    files: Option<PathWalk>,
    /// A listed path that did not fit into the part before.
    next: Option<Vec<u8>>,
    rest: (Vec<PathBytes>, TreeOptions),
}

impl Telling {
    /// Takes names and rules out of the request if it would be too long with them. Pairs with [`Asked::restore`].
    pub fn new(mut paths: Vec<PathBytes>, mut options: TreeOptions) -> Self {
        let (mut first, mut rules, mut files) = (Vec::new(), RuleList::default(), None);
        let named: usize = paths.iter().map(|path| path_bytes(path) + 4).sum();
        if named + options.request_bytes() > PART_BYTES {
            first = std::mem::take(&mut paths);
            rules = std::mem::take(&mut options.rules);
            files = options.files.as_mut().map(std::mem::take);
        }
        Self {
            paths: first.into_iter(),
            rules,
            rules_told: 0,
            files: files.map(|files| files.walk()),
            next: None,
            rest: (paths, options),
        }
    }

    /// What is left of the request, once all parts are told.
    pub fn take_rest(&mut self) -> (Vec<PathBytes>, TreeOptions) {
        std::mem::take(&mut self.rest)
    }

    /// The next part; `None`: that was all.
    pub fn part(&mut self) -> Option<Selection> {
        let mut part = Selection::default();
        let mut room = Room(PART_BYTES);
        while let Some(path) = self.paths.as_slice().first() {
            if !room.takes(path_bytes(path)) {
                return Some(part);
            }
            part.paths.extend(self.paths.next());
        }
        while let Some(rule) = self.rules.get(self.rules_told) {
            if !room.takes(rule.pattern.len()) {
                return Some(part);
            }
            part.rules.push(rule.to_rule());
            self.rules_told += 1;
        }
        if !self.rules.is_empty() {
            self.rules = RuleList::default();
            self.rules_told = 0;
        }
        while let Some(walk) = &mut self.files {
            let next = self.next.take();
            let Some(next) = next.or_else(|| walk.next_path().map(<[u8]>::to_vec)) else {
                self.files = None;
                break;
            };
            if !room.takes(next.len()) {
                self.next = Some(next);
                return Some(part);
            }
            part.files.push(next);
        }
        (part != Selection::default()).then_some(part)
    }
}

/// What still fits into a part; one thing always does.
struct Room(usize);

impl Room {
    fn takes(&mut self, bytes: usize) -> bool {
        let (bytes, is_first) = (bytes + 4, self.0 == PART_BYTES);
        let fits = bytes <= self.0 || is_first;
        self.0 = self.0.saturating_sub(bytes);
        fits
    }
}

/// Before anything is sent, and not by whoever is asked.
///
/// # Errors
///
/// A request with these names would be too much, or one of them.
pub fn check<'a>(
    paths: impl IntoIterator<Item = &'a PathBytes>,
    options: &TreeOptions,
) -> Result<(), SelectionError> {
    let mut rules = options.rules.iter();
    if let Some(rule) = rules.find(|rule| rule.pattern.len() > PART_BYTES) {
        return Err(SelectionError::LongPattern {
            beginning: format!("{:.40}", rule.pattern),
            bytes: rule.pattern.len(),
        });
    }
    let files = options.files.as_ref();
    if let Some(bytes) = files.map(PathList::longest).filter(|&l| l > PART_BYTES) {
        return Err(SelectionError::LongPath { bytes });
    }
    let paths = paths.into_iter().map(path_bytes);
    let rules = options.rules.bytes() + options.rules.len() * EACH_BYTES;
    let named: usize = paths.map(|bytes| bytes + EACH_BYTES).sum();
    let listed = files.map_or(0, |files| {
        usize::try_from(files.bytes())
            .unwrap_or(usize::MAX)
            .saturating_add(files.len() * EACH_BYTES)
    });
    within(named.saturating_add(rules).saturating_add(listed))?;
    Ok(options.check()?)
}

fn within(bytes: usize) -> Result<(), SelectionError> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(SelectionError::TooLong { bytes })
}

/// Gathers what comes before a request.
#[derive(Debug, Default)]
pub struct Asked {
    paths: Vec<PathBytes>,
    /// What these take in memory.
    paths_bytes: usize,
    rules: RuleList,
    files: PathListBuilder,
    bytes: usize,
    /// Memory that it may take, in bytes; `None`: as much as so many bytes need.
    most: Option<usize>,
    /// Something of it was too much: the request is another one without that.
    refused: Option<SelectionError>,
}

impl Asked {
    /// Takes no more memory than that, whatever a peer tells before it asks for anything.
    pub fn at_most(most: Option<usize>) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// What it takes by now, in bytes.
    fn memory_bytes(&self) -> usize {
        let rules = self.rules.bytes() + self.rules.len() * size_of::<u64>();
        self.paths_bytes + rules + self.files.memory_bytes()
    }

    /// The same where little was told, which does not fill what lists are sorted in.
    pub(crate) fn held_bytes(&self) -> usize {
        self.memory_bytes().min(2 * self.bytes)
    }

    /// Why the request that comes next is not what was asked for, if it is not. Once.
    pub(crate) fn take_refused(&mut self) -> Option<SelectionError> {
        self.refused.take()
    }

    /// Takes in a part. After one that was too much nothing is taken in before the request that they are of.
    ///
    /// # Errors
    ///
    /// It is too much: nothing of all that was told is kept.
    pub fn note(&mut self, part: Selection) -> Result<(), SelectionError> {
        if self.refused.is_some() {
            return Ok(());
        }
        let taken = self.take(part);
        if let Err(error) = &taken {
            *self = Self {
                refused: Some(error.clone()),
                ..Self::at_most(self.most)
            };
        }
        taken
    }

    fn take(&mut self, part: Selection) -> Result<(), SelectionError> {
        self.bytes = self.bytes.saturating_add(part.bytes());
        within(self.bytes)?;
        let paths = part.paths.iter().map(|path| path_bytes(path) + PATH_MEMORY);
        self.paths_bytes += paths.sum::<usize>();
        self.paths.extend(part.paths);
        self.rules.extend(part.rules);
        for path in part.files {
            self.files.push(&path);
        }
        match self.most {
            Some(most) if self.memory_bytes() > most => Err(SelectionError::NoMemory { most }),
            _ => Ok(()),
        }
    }

    /// Puts what came before a request back into it.
    pub fn restore(&mut self, paths: &mut Vec<PathBytes>, options: &mut TreeOptions) {
        let before = std::mem::replace(self, Self::at_most(self.most));
        paths.splice(0..0, before.paths);
        let mut rules = before.rules;
        for rule in options.rules.iter() {
            rules.push(rule);
        }
        options.rules = rules;
        if let Some(files) = &mut options.files {
            let mut all = before.files;
            let mut walk = files.walk();
            while let Some(path) = walk.next_path() {
                all.push(path);
            }
            *files = all.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a part is made of.
    type Fill = fn(&mut Selection, String);

    /// Names and rules may come before a request, of which nobody knows yet what it may take.
    #[test]
    fn h5_what_is_told_before_a_request_takes_no_more_memory_than_it_may() {
        const MOST: usize = 4 << 20;
        let kinds: [Fill; 3] = [
            |part, text| part.paths.push(PathBytes::from(text.as_bytes())),
            |part, pattern| {
                part.rules.push(Rule {
                    include: false,
                    pattern,
                    listed: true,
                });
            },
            |part, text| part.files.push(text.into_bytes()),
        ];
        for (kind, fill) in kinds.into_iter().enumerate() {
            for width in [7, 200] {
                let mut asked = Asked::at_most(Some(MOST));
                let (mut number, mut took) = (0u64, 0);
                let refused = loop {
                    took = took.max(asked.held_bytes());
                    let mut part = Selection::default();
                    for _ in 0..100 {
                        // Nothing of one is in the next.
                        number += 1;
                        let text = blake3::hash(&number.to_be_bytes()).to_hex().repeat(4);
                        fill(&mut part, text[..width].to_owned());
                    }
                    if let Err(error) = asked.note(part) {
                        break error;
                    }
                };
                assert_eq!(refused, SelectionError::NoMemory { most: MOST });
                assert!(refused.to_string().contains("4 MiB"), "{refused}");
                // A portion of a list is sorted at a time.
                assert!((MOST - (3 << 20)..=MOST).contains(&took), "{kind}: {took}");
                // Nothing of it stays, and another request has the same room.
                assert!(asked.held_bytes() == 0 && asked.most == Some(MOST));
                assert_eq!(asked.take_refused(), Some(refused));
                assert_eq!(asked.take_refused(), None);
            }
        }
    }
}
