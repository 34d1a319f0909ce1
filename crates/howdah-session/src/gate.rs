//! Received is a subset of requested: whatever a manifest names passes here before anything is done with it.
//!
//! A server that is asked for `photos` and names `.ssh/authorized_keys`, a directory where one file was asked for, or what the user's own filters leave out
//! is refused, and the copy ends (the class of CVE-2019-6111, CVE-2018-20685 and CVE-2022-29154). The same holds on every side that writes.

use crate::entry::Entry;
use crate::error::refused;
use crate::filter::Filter;
use crate::naming::quoted;
use crate::options::TreeOptions;
use crate::{SessionError, reserved};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// What may stand at the top.
#[derive(Clone, Debug, Default)]
pub enum Asked {
    /// Whoever sends decides: he has the right to write here.
    #[default]
    Anything,
    /// The last components of what was asked for.
    Names(BTreeSet<OsString>),
}

/// See the module.
#[derive(Debug)]
pub struct Gate {
    asked: Asked,
    /// The directory that the manifest is in, below the top, and how many components that has.
    at: PathBuf,
    depth: usize,
}

impl Gate {
    /// Before the first entry.
    pub fn new(asked: Asked) -> Self {
        Self {
            asked,
            at: PathBuf::new(),
            depth: 0,
        }
    }

    /// Refuses what was not asked for. Every entry must pass, in order.
    ///
    /// # Errors
    ///
    /// Which name it was; the copy ends there.
    pub fn admit(
        &mut self,
        entry: &Entry,
        options: &TreeOptions,
        filter: &Filter,
    ) -> Result<(), SessionError> {
        match entry {
            Entry::Top { .. } if !options.contents => {
                Err(refused("it changes a directory that was not asked for"))
            }
            Entry::Top { .. } if self.depth > 0 => Err(refused("its top stands inside of it")),
            Entry::Dir { name, .. } => {
                if !options.recursive && !options.contents {
                    return Err(self.not_asked(name, "a directory"));
                }
                self.name(name, true, options, filter)?;
                self.at.push(OsStr::from_bytes(name));
                self.depth += 1;
                Ok(())
            }
            Entry::Up { .. } => {
                self.depth = self
                    .depth
                    .checked_sub(1)
                    .ok_or_else(|| refused("it leaves more directories than it enters"))?;
                self.at.pop();
                Ok(())
            }
            Entry::File { name, link, .. } if link.is_some() && !options.archive => {
                Err(self.not_asked(name, "a file with further names"))
            }
            Entry::File {
                name, size, meta, ..
            } => {
                self.name(name, false, options, filter)?;
                if options.admits(*size, meta.mtime.secs) {
                    Ok(())
                } else {
                    Err(self.not_asked(name, "a file of a size or an age"))
                }
            }
            Entry::Link { name, .. } if !options.archive => {
                Err(self.not_asked(name, "a further name of a file"))
            }
            // A file that has been asked for would be whatever the sender has it point to.
            Entry::Symlink { name, .. } if !options.keeps_links() => {
                Err(self.not_asked(name, "a symbolic link"))
            }
            Entry::Symlink { name, .. } | Entry::Link { name, .. } => {
                self.name(name, false, options, filter)
            }
            // It changes nothing, nor do the others.
            Entry::Kept { name } => self.at_top(name, options),
            _ => Ok(()),
        }
    }

    fn not_asked(&self, name: &[u8], what: &str) -> SessionError {
        let path = self.at.join(OsStr::from_bytes(name));
        refused(format!(
            "it has {}, {what} that was not asked for; nothing of it was written",
            quoted(&path)
        ))
    }

    fn at_top(&self, name: &[u8], options: &TreeOptions) -> Result<(), SessionError> {
        match &self.asked {
            Asked::Names(names) if self.depth == 0 && !options.contents => {
                if names.contains(OsStr::from_bytes(name)) {
                    Ok(())
                } else {
                    Err(self.not_asked(name, "a name"))
                }
            }
            _ => Ok(()),
        }
    }

    fn name(
        &self,
        name: &[u8],
        is_dir: bool,
        options: &TreeOptions,
        filter: &Filter,
    ) -> Result<(), SessionError> {
        self.at_top(name, options)?;
        let is_unfinished = reserved::may_be_unfinished(name);
        let is_sign = !is_unfinished && reserved::may_be_reserved(OsStr::from_bytes(name));
        if !is_dir && is_unfinished || is_sign {
            return Err(self.not_asked(name, "a name kept for unfinished copies,"));
        }
        // What lies in there is believed.
        if reserved::may_be_room(OsStr::from_bytes(name)) {
            return Err(self.not_asked(name, "a name kept for plans,"));
        }
        // What is named at the top is asked for by its name, whatever the rules say.
        let is_top = self.depth == 0 && !options.contents;
        if !is_top && !filter.is_empty() {
            let path = self.at.join(OsStr::from_bytes(name));
            if !filter.admits(&path, is_dir) {
                return Err(self.not_asked(name, "a name that the filters leave out,"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Meta;
    use crate::rules::Rule;
    use proptest::prelude::*;

    fn file(name: &str) -> Entry {
        Entry::File {
            name: name.into(),
            size: 10,
            meta: Meta::default(),
            link: None,
            hash: None,
        }
    }

    fn dir(name: &str) -> Entry {
        Entry::Dir {
            name: name.into(),
            meta: Meta::default(),
        }
    }

    fn names(names: &[&str]) -> Asked {
        Asked::Names(names.iter().map(OsString::from).collect())
    }

    fn passes(asked: Asked, options: &TreeOptions, entries: &[Entry]) -> bool {
        let filter = Filter::new(options).expect("rules");
        let mut gate = Gate::new(asked);
        entries
            .iter()
            .all(|entry| gate.admit(entry, options, &filter).is_ok())
    }

    /// H1: `howdah cp -r evil:photos .` got `.ssh/authorized_keys`, and the mode of the destination was changed.
    #[test]
    fn what_was_not_asked_for_does_not_come() {
        let tree = TreeOptions {
            recursive: true,
            ..TreeOptions::default()
        };
        let top = || Entry::Top {
            meta: Meta::default(),
        };
        let up = || Entry::Up { complete: true };
        let asked = || names(&["photos", "notes"]);
        assert!(passes(
            asked(),
            &tree,
            &[dir("photos"), file("x"), up(), file("notes")]
        ));
        for evil in [
            vec![dir(".ssh")],
            vec![top()],
            vec![dir("photos"), up(), file("authorized_keys")],
            vec![dir("photos"), top()],
            vec![Entry::Symlink {
                name: "elsewhere".into(),
                target: "/".into(),
                meta: Meta::default(),
            }],
            vec![Entry::Kept {
                name: "elsewhere".into(),
            }],
            vec![dir("photos"), up(), up()],
            vec![dir("photos"), file(".howdah-unfinished")],
            vec![dir("photos"), dir(".x.0123456789abcdef.howdah-plan")],
            vec![dir("photos"), file(".x.0123456789abcdef.howdah-plan")],
            vec![dir("photos"), file(".x.0123456789abcdef.howdah-part")],
            vec![dir("photos"), file(".x.0123456789abcdef.howdah-journal")],
            vec![
                dir("photos"),
                Entry::Link {
                    name: "y".into(),
                    link: 1,
                    last: true,
                },
            ],
        ] {
            assert!(!passes(asked(), &tree, &evil), "{evil:?}");
        }
        let contents = TreeOptions {
            contents: true,
            ..TreeOptions::default()
        };
        assert!(passes(Asked::Anything, &contents, &[top(), dir("d"), up()]));
        let inside = [top(), dir("d"), top()];
        assert!(!passes(Asked::Anything, &contents, &inside));
        let one_file = TreeOptions::default();
        assert!(passes(names(&["f"]), &one_file, &[file("f")]));
        assert!(!passes(names(&["f"]), &one_file, &[dir("f")]));
    }

    /// `howdah cp evil:notes .` got a link to wherever the server liked, and so did `cp -rL`.
    #[test]
    fn h1_kinds_that_were_not_asked_for_do_not_come() {
        let link = || Entry::Symlink {
            name: "photos".into(),
            target: "/etc".into(),
            meta: Meta::default(),
        };
        let named_twice = || Entry::File {
            name: "photos".into(),
            size: 10,
            meta: Meta::default(),
            link: Some(1),
            hash: None,
        };
        let below = |entry| vec![dir("photos"), entry];
        let with = |recursive, contents, copy_links, archive| TreeOptions {
            contents,
            recursive,
            archive,
            copy_links,
            ..TreeOptions::default()
        };
        let asked = || names(&["photos"]);
        for (options, links, numbers) in [
            (with(false, false, false, false), false, false),
            (with(true, false, false, false), true, false),
            (with(false, true, false, false), true, false),
            (with(true, false, true, false), false, false),
            (with(false, true, true, false), false, false),
            (with(true, false, true, true), false, true),
            (with(true, false, false, true), true, true),
        ] {
            assert_eq!(passes(asked(), &options, &[link()]), links, "{options:?}");
            if options.recursive {
                let entries = below(link());
                assert_eq!(passes(asked(), &options, &entries), links, "{options:?}");
            }
            let passed = passes(asked(), &options, &[named_twice()]);
            assert_eq!(passed, numbers, "{options:?}");
        }
    }

    #[test]
    fn the_users_own_filters_hold_for_what_arrives() {
        let rule = |include, pattern: &str| Rule {
            include,
            pattern: pattern.into(),
            listed: false,
        };
        let options = TreeOptions {
            contents: true,
            rules: vec![rule(false, "*.key"), rule(false, "/private/")].into(),
            max_size: Some(100),
            ..TreeOptions::default()
        };
        let asked = || names(&["ignored"]);
        assert!(passes(asked(), &options, &[dir("a"), file("b")]));
        assert!(!passes(asked(), &options, &[dir("a"), file("b.key")]));
        assert!(!passes(asked(), &options, &[dir("private")]));
        let large = Entry::File {
            name: "l".into(),
            size: 101,
            meta: Meta::default(),
            link: None,
            hash: None,
        };
        assert!(!passes(asked(), &options, &[large]));
        // What is named at the top was asked for by its name.
        let named = TreeOptions {
            recursive: true,
            rules: vec![rule(false, "*.key")].into(),
            ..TreeOptions::default()
        };
        let own = || names(&["own.key", "d"]);
        assert!(passes(
            own(),
            &named,
            &[file("own.key"), dir("d"), file("x")]
        ));
        assert!(!passes(own(), &named, &[dir("d"), file("x.key")]));
        let listed = TreeOptions {
            contents: true,
            files: Some(["a/b"].iter().collect()),
            ..TreeOptions::default()
        };
        assert!(passes(asked(), &listed, &[dir("a"), file("b")]));
        assert!(!passes(asked(), &listed, &[dir("a"), file("c")]));
    }

    proptest! {
        /// Whatever order things come in: a name at the top is one that was asked for.
        #[test]
        fn the_top_never_has_another_name(moves in prop::collection::vec((0..4u8, "[a-d]"), 0..40)) {
            let options = TreeOptions { recursive: true, archive: true, ..TreeOptions::default() };
            let filter = Filter::new(&options).expect("rules");
            let mut gate = Gate::new(names(&["a", "b"]));
            let mut depth = 0usize;
            for (what, name) in moves {
                let entry = match what {
                    0 => dir(&name),
                    1 => Entry::Up { complete: true },
                    2 => file(&name),
                    _ => Entry::Link { name: name.clone().into_bytes(), link: 0, last: false },
                };
                let is_up = what == 1;
                let expected = if is_up { depth > 0 } else { depth > 0 || name == "a" || name == "b" };
                let admitted = gate.admit(&entry, &options, &filter).is_ok();
                prop_assert_eq!(admitted, expected);
                if !admitted { break; }
                depth = match what { 0 => depth + 1, 1 => depth - 1, _ => depth };
            }
        }
    }
}
