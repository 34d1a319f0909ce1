//! What must hold after each attempt, and when it has been said that all is done.

use super::*;

impl World {
    pub(super) fn check_names(&mut self) -> Result<(), String> {
        if self.is_hostile(!self.is_put) {
            // The destination is his.
            return Ok(());
        }
        self.note_further_names();
        for (path, node) in self.to.fs.nodes() {
            let stays = self.before.get(path) == Some(node) || self.is_begun_dir(path, node);
            if stays || self.is_name_of_what_stays(path, node) {
                continue;
            }
            if self.sender_is_hostile() {
                self.check_asked(path)?;
            } else if !self.is_version(path, node) {
                return Err(format!(
                    "{} is {node:?}, of {:?}",
                    path.display(),
                    self.ever.get(path)
                ));
            }
        }
        for (path, node) in &self.before {
            let there = self.to.fs.node(path);
            let stays = self.terms.rights.add_only || is_left_out(path);
            if stays && !node.is_dir() && there != Some(node) {
                return Err(format!("{} had to stay", path.display()));
            }
            let had_to = |path: &Path| self.may_go.contains(path) || self.to.cleared.contains(path);
            if there.is_none() && !self.sender_is_hostile() && !path.ancestors().any(had_to) {
                return Err(format!("{} is gone", path.display()));
            }
        }
        for (path, node) in &self.removed {
            let there = self.to.fs.node(path);
            if there.map(|there| &there.data) != Some(&node.data) && !self.sender_is_hostile() {
                return Err(format!("{} is gone from both sides", path.display()));
            }
        }
        Ok(())
    }

    /// What was given a further name of what stays.
    fn note_further_names(&mut self) {
        let all = self.to.fs.nodes();
        let further: Vec<(PathBuf, Node)> = all
            .filter(|(path, node)| self.is_name_of_what_stays(path, node))
            .map(|(path, node)| (path.clone(), node.clone()))
            .collect();
        for (path, node) in further {
            let nodes = self.further.entry(path).or_default();
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
    }

    /// A further name of a file that was to stay as it was.
    pub(super) fn is_name_of_what_stays(&self, path: &Path, node: &Node) -> bool {
        let id = self.to.fs.id(path);
        let mut twins = self.to.fs.paths().filter(|twin| self.to.fs.id(twin) == id);
        let options = &self.terms.options;
        let stays = |name: &Path| {
            let further = self.further.get(name);
            self.before.get(name) == Some(node) || further.is_some_and(|all| all.contains(node))
        };
        (options.ignore_existing || options.update || self.terms.rights.add_only)
            && twins.any(|twin| stays(twin))
    }

    /// A directory, of which only the end tells what it is to be.
    pub(super) fn is_begun_dir(&self, path: &Path, node: &Node) -> bool {
        let was = self.before.get(path).is_some_and(Node::is_dir);
        let is = self
            .ever
            .get(path)
            .is_some_and(|all| all.iter().any(Node::is_dir));
        node.is_dir() && (was || is)
    }

    /// What a hostile sender has made it write.
    pub(super) fn check_asked(&self, path: &Path) -> Result<(), String> {
        let mut names = path.components().map(|part| part.as_os_str().as_bytes());
        let first = names.clone().next().unwrap_or_default();
        let is_free = self.is_put || self.terms.options.contents;
        let is_asked = is_free || TOPS.iter().any(|top| top.as_bytes() == first);
        let is_bad = |name: &[u8]| name == b".." || reserved::is_unfinished(name);
        let skip = usize::from(!self.terms.options.contents);
        let is_excluded = names.clone().skip(skip).any(|name| name.ends_with(b".key"));
        if !is_asked || names.any(is_bad) || is_excluded {
            return Err(format!("{} has a name", path.display()));
        }
        Ok(())
    }

    /// Whether that is one whole version of what the source has there, as far as it may be set here.
    pub(super) fn is_version(&self, path: &Path, node: &Node) -> bool {
        let versions = self.ever.get(path).map(Vec::as_slice).unwrap_or_default();
        let has_times = self.terms.allowed >= Metadata::Times;
        let is_content = |v: &Node| v.data == node.data && (!has_times || v.mtime == node.mtime);
        let is_link = matches!(node.data, Data::Link(_));
        let has_mode = self.terms.is_exact() && !is_link;
        let has_xattrs =
            self.terms.options.archive && self.terms.allowed == Metadata::All && !is_link;
        versions.iter().any(is_content)
            && versions.iter().any(|v| !has_mode || v.mode == node.mode)
            && versions
                .iter()
                .any(|v| !has_xattrs || v.xattrs == node.xattrs)
    }

    /// Whether what is there may be another one than that of the source: it stays.
    pub(super) fn may_differ(&self, path: &Path) -> bool {
        let options = &self.terms.options;
        let was = self.before.get(path);
        let is_newer = was.is_some_and(|was| was.mtime > 40_000);
        options.ignore_existing || options.update && is_newer || self.terms.rights.add_only
    }

    pub(super) fn is_named(&self, path: &Path) -> bool {
        !is_left_out(path)
            && (self.terms.options.contents || path != Path::new(""))
            && (self.terms.options.contents || TOPS.iter().any(|top| path.starts_with(top)))
    }

    /// It has been said that all is done.
    pub(super) fn check_success(&mut self, report: &TreeReport) -> Result<(), String> {
        self.check_equal(report)?;
        if self.one_in(2) {
            self.crash();
            self.check_names()?;
            self.check_equal(report)
                .map_err(|what| format!("after a power cut {what}"))?;
        }
        self.tally.deleted += report.deleted;
        self.tally.resumed += self.to.resumed;
        self.tally.removed += self.removed.len() as u64;
        Ok(())
    }

    pub(super) fn check_equal(&self, report: &TreeReport) -> Result<(), String> {
        let options = &self.terms.options;
        let mut ids: BTreeMap<u64, u64> = BTreeMap::new();
        for (path, node) in self
            .origin
            .fs
            .nodes()
            .filter(|(path, _)| self.is_named(path))
        {
            let under_gap = |above: &Path| self.origin.gaps.contains_key(above) && above != path;
            if path.ancestors().any(under_gap) {
                continue;
            }
            let there = self.to.fs.node(path);
            if self.may_differ(path) && there.is_some() {
                continue;
            }
            let there = there.ok_or_else(|| format!("{} is not there", path.display()))?;
            if self.is_name_of_what_stays(path, there) {
                continue;
            }
            let wanted = self
                .terms
                .wanted(&node.meta(options.archive), node.is_dir());
            let is_link = matches!(node.data, Data::Link(_));
            // What is moved changes the times of what it lay in.
            let has_time =
                self.terms.allowed >= Metadata::Times && !(options.remove_source && node.is_dir());
            let is_same = there.data == node.data
                && (!has_time || there.mtime == wanted.mtime)
                && (!self.terms.is_exact() || is_link || there.mode == wanted.mode)
                && (!options.archive
                    || is_link
                    || self.terms.allowed < Metadata::All
                    || there.xattrs == wanted.xattrs);
            if !is_same {
                return Err(format!("{} is {there:?} and not {node:?}", path.display()));
            }
            if options.remove_source && !node.is_dir() {
                return Err(format!("{} was not moved", path.display()));
            }
            if options.archive
                && node.content().is_some()
                && let (Some(ours), Some(theirs)) = (self.origin.fs.id(path), self.to.fs.id(path))
                && *ids.entry(ours).or_insert(theirs) != theirs
            {
                return Err(format!("{} is not the same file any more", path.display()));
            }
        }
        if options.delete && report.refused_deletes == 0 && self.origin.gaps.is_empty() {
            self.check_extras()?;
        }
        Ok(())
    }

    /// What the source does not have is gone.
    pub(super) fn check_extras(&self) -> Result<(), String> {
        let top = Path::new("");
        let is_empty = !self.origin.fs.paths().any(|path| path != top);
        for path in self.to.fs.paths().filter(|path| *path != top) {
            let dir = path.parent().unwrap_or(top);
            let is_ours = self.terms.options.contents || dir != top;
            let dir_is_there = self.origin.fs.node(dir).is_some_and(Node::is_dir);
            let holds = self.to.fs.below(path).iter().any(|path| is_left_out(path));
            let is_extra = self.origin.fs.node(path).is_none();
            if is_extra && is_ours && dir_is_there && self.is_named(path) && !holds && !is_empty {
                return Err(format!("{} is still there", path.display()));
            }
        }
        Ok(())
    }

    /// Something could not be done: for a reason that stays.
    pub(super) fn check_partly(&self, report: &TreeReport) -> Result<(), String> {
        let is_dir = |node: &Node| node.is_dir();
        let is_other = |(path, node): (&PathBuf, &Node)| {
            let all = self.ever.get(path).into_iter().flatten();
            all.map(is_dir).any(|dir| dir != node.is_dir())
        };
        let conflicts = self.before.iter().any(is_other);
        // A name of what stays, which is no file.
        let options = &self.terms.options;
        let is_link = options.ignore_existing && options.archive;
        if conflicts || is_link || self.terms.rights.add_only {
            return Ok(());
        }
        Err(format!("without a reason: {report:?}"))
    }

    /// What a source that is named in whole does not have: from now on it may go.
    pub(super) fn note_what_may_go(&mut self) {
        let options = &self.terms.options;
        let top = Path::new("");
        let is_whole = !self.origin.gaps.values().any(|gap| *gap == Gap::Unread);
        let is_any = self.origin.fs.paths().any(|path| path != top);
        if !options.delete || !is_whole || !(is_any || options.delete_all) {
            return;
        }
        for path in self.to.fs.paths().filter(|path| *path != top) {
            let dir = path.parent().unwrap_or(top);
            let is_ours = options.contents || dir != top && self.is_named(path);
            let is_told = self.origin.fs.node(dir).is_some_and(Node::is_dir)
                && !dir
                    .ancestors()
                    .any(|dir| self.origin.gaps.contains_key(dir));
            if is_ours && is_told && self.origin.fs.node(path).is_none() {
                self.may_go.insert(path.clone());
            }
        }
    }
}
