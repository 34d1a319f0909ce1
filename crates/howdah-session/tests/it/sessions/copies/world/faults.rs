//! What happens to both ends, to what is between them, and to the source.

use super::*;

impl World {
    /// Whether the connection is gone with it.
    pub(super) fn fault(&mut self) -> bool {
        match self.below(10) {
            // What sends gives up, as when it is told to, and says so.
            9 => {
                self.sender_gives_up = true;
                false
            }
            // It breaks, or the host of the sender dies.
            0 => true,
            // That of the receiver does.
            1 => {
                self.crash();
                true
            }
            2 => {
                self.to.is_full = true;
                false
            }
            3 => {
                self.to.fs.fails += 1;
                false
            }
            4 => {
                self.origin.fails += 1;
                false
            }
            5 => {
                self.change_source();
                false
            }
            6 => {
                if let Some(piece) = self.pieces.first_mut() {
                    piece.number ^= 1 << 40;
                }
                false
            }
            7 => {
                if let Some(Pack::File {
                    content, is_right, ..
                }) = self.streams.packs.front_mut()
                {
                    content[0] ^= 3 << 40;
                    *is_right = false;
                }
                false
            }
            // A call of a file on its way fails.
            _ => {
                let many = self.to.disks.len();
                let at = self.below(many);
                if let Some(disk) = self.to.disks.values_mut().nth(at) {
                    disk.let_go(self.attempts);
                }
                false
            }
        }
    }

    /// Somebody works on the source.
    pub(super) fn change_source(&mut self) {
        self.is_changed = true;
        self.now += 1;
        let files = self.origin.fs.nodes().filter(|(_, node)| !node.is_dir());
        let files: Vec<PathBuf> = files.map(|(path, _)| path.clone()).collect();
        if files.is_empty() {
            return;
        }
        let path = files[self.below(files.len())].clone();
        match self.below(4) {
            // It goes.
            0 => {
                let _ = self.origin.fs.remove(&path);
                if let Some(file) = self.origin.larges.get_mut(&path) {
                    file.versions.push(vec![1]);
                }
                return;
            }
            1 => {
                let _ = self.origin.fs.change(&path, |node| node.mode = 0o604);
                if let Some(file) = self.origin.larges.get_mut(&path) {
                    let same = file.versions.last().cloned().unwrap_or_default();
                    file.versions.push(same);
                }
            }
            // It is written to.
            _ => self.write_source(&path),
        }
        let id = self.origin.fs.id(&path);
        let names: Vec<(PathBuf, Node)> = self
            .origin
            .fs
            .nodes()
            .filter(|(name, _)| self.origin.fs.id(name) == id)
            .map(|(name, node)| (name.clone(), node.clone()))
            .collect();
        for (name, node) in names {
            let source = self.origin.larges.get(&path).cloned();
            if let Some(file) = source {
                self.origin.larges.insert(name.clone(), file);
            }
            self.ever.entry(name).or_default().push(node);
        }
    }

    pub(super) fn write_source(&mut self, path: &Path) {
        let now = self.now;
        let Some(content) = self.origin.fs.node(path).and_then(Node::content) else {
            return;
        };
        let mut content = content.clone();
        let at = self.below(content.len());
        content[at] = 1_000 + self.random.next_u64() % 1_000;
        let new = content.clone();
        let _ = self.origin.fs.change(path, |node| {
            node.data = Data::File(new);
            node.mtime = now;
        });
        if let Some(file) = self.origin.larges.get_mut(path) {
            file.versions.push(content);
            file.mtime = now;
        }
    }
}
