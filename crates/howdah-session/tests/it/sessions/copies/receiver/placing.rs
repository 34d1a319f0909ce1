//! What comes of what was asked for, and where it goes.

use super::*;

impl Receiver {
    /// Something comes in the packs.
    pub(crate) fn unpack(&mut self, pack: Pack, to: &mut Destination) -> Result<(), Failure> {
        let surplus = || Misbehaved::new("more files come than were asked for");
        match pack {
            Pack::End => {
                self.packs_ended = true;
                if !self.expected.is_empty() {
                    return Err(Misbehaved::new("the packs end before all files have come").into());
                }
            }
            Pack::Missing => {
                self.lacks = true;
                self.expected.pop_front().ok_or_else(surplus)?;
                self.unsettled -= 1;
            }
            Pack::MissingLarge(index) => {
                self.lacks = true;
                if self.large.remove(&index).is_some() {
                    self.unsettled -= 1;
                }
            }
            Pack::File {
                content,
                mtime,
                is_right,
            } => {
                let mut wanted = self.expected.pop_front().ok_or_else(surplus)?;
                if let Some(mtime) = mtime {
                    wanted.meta.mtime.secs = mtime;
                }
                let size = size_of(&content);
                let is_same = size == wanted.size && mtime.is_none();
                if !is_same && !self.terms.options.admits(size, wanted.meta.mtime.secs) {
                    self.report.failed += 1;
                    self.unsettled -= 1;
                    return Ok(());
                }
                if !is_right && self.terms.wrong != Wrong::NeverVerifies {
                    return Err(Failure::Disk(Trouble::Mismatch));
                }
                if to.is_full {
                    return Err(Failure::Disk(Trouble::NoSpace));
                }
                if self.terms.rights.add_only && wanted.before.is_some() {
                    self.compare(&wanted, &content, to);
                    return Ok(());
                }
                let node = self.new_file(content, &wanted.meta);
                if let Ok(id) = to.fs.write(node) {
                    self.batch.push((wanted, id));
                } else {
                    self.report.failed += 1;
                    self.unsettled -= 1;
                }
            }
        }
        Ok(())
    }

    pub(super) fn new_file(&self, content: Content, meta: &Meta) -> Node {
        let mut node = Node {
            data: Data::File(content),
            mode: 0o644,
            mtime: 0,
            xattrs: Vec::new(),
        };
        self.terms.apply(&mut node, meta);
        node
    }

    /// What is there must not be replaced: the same content is no change.
    pub(super) fn compare(&mut self, wanted: &Wanted, content: &Content, to: &Destination) {
        self.unsettled -= 1;
        if to.fs.node(&wanted.path).and_then(Node::content) == Some(content) {
            self.is_in_place(wanted.link);
            self.settle(wanted.index);
        } else {
            self.report.failed += 1;
        }
    }

    pub(crate) fn on_message(&mut self, message: &Message) -> Result<(), Failure> {
        match message {
            Message::Holes { object, ranges } => self.holes.note(*object, ranges.clone()),
            Message::TreeFile {
                object,
                index,
                size,
                source,
            } => {
                let holes = self.holes.take(*object, Some(*size))?;
                let wanted = self.large.remove(index);
                let mut wanted =
                    wanted.ok_or_else(|| Misbehaved::new("comes and was not asked for"))?;
                if wanted.size != *size || self.admits(*object) {
                    return Err(Misbehaved::new("comes with another size").into());
                }
                let source = source.filter(|source| source.size == *size);
                let options = &self.terms.options;
                if let Some(mtime) = source.as_ref().and_then(|s| options.time_of(s)) {
                    wanted.meta.mtime = mtime;
                }
                self.opening.push(Opening {
                    object: *object,
                    wanted,
                    source,
                    holes,
                    early: Early::default(),
                });
            }
            Message::Values {
                object,
                first,
                values,
            } => {
                if let Some(at) = self.find(*object) {
                    self.into[at].receiving.sink.tell(*first, values);
                }
            }
            Message::End {
                object,
                size,
                blake3,
            } => {
                let (size, blake3) = (*size, *blake3);
                self.on_end(*object, End { size, blake3 })?;
            }
            Message::TreeFileMissing { object } => {
                self.lacks = true;
                if let Some(at) = self.find(*object) {
                    self.into.remove(at);
                    self.unsettled -= 1;
                } else if let Some(at) = self.opening.iter().position(|o| o.object == *object) {
                    self.opening.remove(at);
                    self.unsettled -= 1;
                }
            }
            _ => return Err(Misbehaved::new("says something about a tree out of turn").into()),
        }
        Ok(())
    }

    pub(super) fn on_end(&mut self, object: ObjectId, end: End) -> Result<(), Failure> {
        if let Some(at) = self.find(object) {
            let receiving = &mut self.into[at].receiving;
            receiving.inc.on_end(end)?;
            receiving.limit(end.size)?;
        } else if let Some(opening) = self.opening.iter_mut().find(|o| o.object == object) {
            opening.early.1 = Some(end);
        }
        Ok(())
    }

    pub(super) fn find(&self, object: ObjectId) -> Option<usize> {
        let mut into = self.into.iter();
        into.position(|i| i.receiving.inc.object() == object)
    }

    /// Something of an object comes.
    pub(crate) fn place(
        &mut self,
        piece: Piece,
        to: &mut Destination,
        said: &mut Said,
    ) -> Result<(), Failure> {
        if let Some(opening) = self.opening.iter_mut().find(|o| o.object == piece.object) {
            opening.early.0.push(piece);
        } else if let Some(at) = self.find(piece.object) {
            let In { receiving, wanted } = &mut self.into[at];
            match receiving.place(to.disk(&wanted.path), piece) {
                Ok(()) => {}
                Err(Failure::Disk(Trouble::NoSpace)) => {
                    return Err(Failure::Disk(Trouble::NoSpace));
                }
                Err(_) => self.settle_large(at, false, to, said),
            }
        }
        Ok(())
    }

    /// A large file has come, or does not.
    pub(super) fn settle_large(
        &mut self,
        at: usize,
        stored: bool,
        to: &mut Destination,
        said: &mut Said,
    ) {
        let In { receiving, wanted } = self.into.remove(at);
        let object = receiving.inc.object();
        let stored = stored && self.name_large(&wanted, to);
        if !stored {
            to.disk(&wanted.path).let_go(self.id);
            self.report.failed += 1;
        }
        self.unsettled -= 1;
        said.say(&Message::TreeSettled { object, stored });
    }

    /// Opens the place of a large file.
    pub(super) fn open(
        &mut self,
        opening: Opening,
        to: &mut Destination,
        said: &mut Said,
    ) -> Result<(), Failure> {
        let Opening {
            object,
            wanted,
            source,
            holes,
            early,
        } = opening;
        let place = Place {
            name: NAME,
            size: wanted.size,
            source,
            hash: true,
            holes: holes.as_ref(),
        };
        let sink = to
            .disk(&wanted.path)
            .open(self.id, &place, disk::Wrong::Nothing);
        let Ok(sink) = sink else {
            self.report.failed += 1;
            self.unsettled -= 1;
            let stored = false;
            said.say(&Message::TreeSettled { object, stored });
            return Ok(());
        };
        if source.is_some() {
            said.say(&Message::Ready {
                object,
                held: WireRanges::from(&sink.held),
                values: sink.wants_values,
                changed: None,
            });
        }
        let size = Some(wanted.size);
        let receiving = Receiving::new(object, sink, true, size, holes.as_ref());
        self.into.push(In { receiving, wanted });
        for piece in early.0 {
            self.place(piece, to, said)?;
        }
        if let Some(end) = early.1 {
            self.on_end(object, end)?;
        }
        Ok(())
    }

    /// Does something, if there is anything to do.
    pub(crate) fn go_on(
        &mut self,
        to: &mut Destination,
        said: &mut Said,
        choice: u64,
    ) -> Result<bool, Failure> {
        for n in 0..4 {
            let did = match (choice + n) % 4 {
                0 => match self.opening.pop() {
                    Some(opening) => {
                        self.open(opening, to, said)?;
                        true
                    }
                    None => false,
                },
                1 => self.go_on_large(to, said, choice)?,
                2 => {
                    let many = self.batch.len().max(self.settled.len());
                    let is_due = many >= BATCH || self.stage > Stage::Naming || choice % 8 < 2;
                    let does = many > 0 && is_due;
                    if does {
                        self.commit(to)?;
                    }
                    does
                }
                _ => self.end(to)?,
            };
            self.tell_placed(said);
            if did {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn go_on_large(
        &mut self,
        to: &mut Destination,
        said: &mut Said,
        choice: u64,
    ) -> Result<bool, Failure> {
        for n in 0..self.into.len() {
            let at = (choice as usize / 4 + n) % self.into.len();
            let In { receiving, wanted } = &mut self.into[at];
            let disk = to.disk(&wanted.path);
            if choice.is_multiple_of(5) && !receiving.sink.is_finishing() {
                let _ = receiving.sink.sync(disk);
            }
            let stored = match receiving.go_on(disk) {
                Ok(None) => continue,
                Ok(Some(false)) => return Ok(true),
                Ok(Some(true)) => true,
                Err(Failure::Disk(Trouble::NoSpace)) => {
                    return Err(Failure::Disk(Trouble::NoSpace));
                }
                Err(_) => false,
            };
            self.settle_large(at, stored, to, said);
            return Ok(true);
        }
        Ok(false)
    }

    pub(super) fn name_large(&mut self, wanted: &Wanted, to: &mut Destination) -> bool {
        let Some(content) = to.disk(&wanted.path).take_named(NAME) else {
            return false;
        };
        if self.terms.rights.add_only && wanted.before.is_some() {
            // It was compared with what is there.
            let is_same = to.fs.node(&wanted.path).and_then(Node::content) == Some(&content);
            if is_same {
                self.is_in_place(wanted.link);
                self.placed.push(wanted.index);
            }
            return is_same;
        }
        let node = self.new_file(content, &wanted.meta);
        if to.fs.put_durable(&wanted.path, node).is_err() {
            return false;
        }
        self.is_in_place(wanted.link);
        self.placed.push(wanted.index);
        true
    }

    /// On the device first, then the names.
    pub(super) fn commit(&mut self, to: &mut Destination) -> Result<(), Failure> {
        let moves = self.terms.options.remove_source;
        let (batch, settled) = (
            std::mem::take(&mut self.batch),
            std::mem::take(&mut self.settled),
        );
        if !batch.is_empty() && self.terms.wrong != Wrong::NamesFirst {
            to.fs.sync()?;
        }
        let count = (batch.len() + settled.len()) as u64;
        for (wanted, id) in batch {
            if to.fs.name(id, &wanted.path).is_err() {
                self.report.failed += 1;
                continue;
            }
            self.is_in_place(wanted.link);
            self.unsafe_yet.push(wanted.index);
        }
        self.unsafe_yet.extend(settled);
        if moves && self.terms.wrong != Wrong::TellsEarly {
            to.fs.sync()?;
        }
        self.placed.append(&mut self.unsafe_yet);
        self.unsettled -= count;
        Ok(())
    }

    pub(super) fn tell_placed(&mut self, said: &mut Said) {
        let numbers = std::mem::take(&mut self.placed);
        if self.terms.options.remove_source {
            for runs in runs_of(numbers, BATCH) {
                said.say(&Message::TreePlaced { runs });
            }
        }
    }

    /// The end, a step at a time.
    pub(super) fn end(&mut self, to: &mut Destination) -> Result<bool, Failure> {
        let is_settled = self.unsettled == 0 && self.batch.is_empty();
        let next = match self.stage {
            Stage::Naming | Stage::Done => return Ok(false),
            Stage::Coming if !is_settled || !self.packs_ended => return Ok(false),
            Stage::Coming => {
                self.make_links(to)?;
                self.deletions(to);
                Stage::Links
            }
            Stage::Links if !is_settled => return Ok(false),
            Stage::Links => {
                for path in std::mem::take(&mut self.extras) {
                    for path in to.fs.below(&path) {
                        // What rules leave out stays, and what it lies in.
                        if is_left_out(&path) || !to.fs.list(&path).is_empty() {
                            continue;
                        }
                        to.fs.remove(&path)?;
                        self.report.deleted += 1;
                    }
                }
                if let Some(max) = self.terms.options.max_delete {
                    assert!(self.gone + self.report.deleted <= max, "more went than may");
                }
                Stage::Dirs
            }
            Stage::Dirs => {
                let mut dirs = std::mem::take(&mut self.dirs);
                // What lies in it comes first.
                dirs.sort_by_key(|(path, _)| std::cmp::Reverse(path.components().count()));
                for (path, meta) in dirs {
                    let terms = self.terms.clone();
                    to.fs.change(&path, |node| terms.apply(node, &meta))?;
                }
                Stage::Sync
            }
            Stage::Sync => {
                to.fs.sync()?;
                Stage::Done
            }
        };
        self.stage = next;
        Ok(true)
    }

    pub(super) fn make_links(&mut self, to: &mut Destination) -> Result<(), Failure> {
        if self.terms.wrong == Wrong::FinishesEarly {
            for (path, meta) in std::mem::take(&mut self.dirs) {
                let terms = self.terms.clone();
                to.fs.change(&path, |node| terms.apply(node, &meta))?;
            }
        }
        for later in std::mem::take(&mut self.links) {
            let first = self.linked.get(&later.link).cloned();
            let id = first.as_ref().and_then(|first| to.fs.id(first));
            let is_file = first
                .as_ref()
                .and_then(|first| to.fs.node(first)?.content());
            let is_in_place = later
                .path
                .parent()
                .is_some_and(|dir| to.fs.node(dir).is_some_and(Node::is_dir));
            let there = to.fs.id(&later.path);
            if there.is_some() && self.terms.options.ignore_existing {
                continue;
            }
            let doubt = self.doubts.get(&later.link).copied();
            let is_absent = !gives_names(doubt) && self.terms.wrong != Wrong::LinksToAnything;
            let is_in_place = is_in_place && !is_absent;
            let (Some(id), Some(_), true) = (id, is_file, is_in_place) else {
                self.report.failed += 1;
                continue;
            };
            if there != Some(id) {
                let stays = there.is_some() && self.terms.rights.add_only;
                if stays {
                    self.report.failed += 1;
                    continue;
                }
                let is_dir = to.fs.node(&later.path).is_some_and(Node::is_dir);
                if is_dir && !self.clear(&later.path, to)? {
                    continue;
                }
                if to.fs.name(id, &later.path).is_err() {
                    self.report.failed += 1;
                    continue;
                }
            }
            // A name of what stays there is none of what is at the source.
            if lets_names_go(doubt) {
                self.settle(later.number);
            }
        }
        Ok(())
    }

    /// The connection is gone: what came whole still gets its name.
    pub(crate) fn stop(&mut self, to: &mut Destination) {
        let _ = self.commit(to);
    }
}
