//! Which names take part.

use super::options::TreeOptions;
use crate::StoreError;
use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Bytes of all rules and listed paths together that may travel in one request.
pub const RULES_MAX_BYTES: usize = 48 << 10;

/// One pattern. The first rule that matches a name counts; what no rule matches takes part.
///
/// * `*` and `?` match within a name, `**` also slashes, `[a-z]` and `{a,b}` as usual.
/// * With a slash at its beginning it is matched against the whole path below the top of the copy, else
///   against the end of the path: `*.o` everywhere, `build/*.o` in every `build`.
/// * With a slash at its end it matches directories only. What lies in an excluded directory is not
///   looked at.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Rule {
    /// Takes part, or not.
    pub include: bool,
    /// As above.
    pub pattern: String,
}

#[derive(Debug)]
struct Compiled {
    include: bool,
    only_dirs: bool,
    matcher: GlobMatcher,
}

/// The rules of a copy, compiled.
#[derive(Debug)]
pub(crate) struct Filter {
    rules: Vec<Compiled>,
    /// Paths that were listed, and whether they were found; `None`: no list.
    listed: Option<Mutex<HashMap<PathBuf, bool>>>,
    /// The directories on the way to them.
    leading: HashSet<PathBuf>,
}

impl Filter {
    pub(crate) fn new(options: &TreeOptions) -> Result<Self, StoreError> {
        let compile = |rule: &Rule| {
            let refuse = |reason: String| StoreError::BadPattern {
                pattern: rule.pattern.clone(),
                reason,
            };
            let only_dirs = rule.pattern.ends_with('/');
            let body = rule.pattern.trim_end_matches('/');
            let anchored = body.starts_with('/');
            let body = body.trim_start_matches('/');
            if body.is_empty() {
                return Err(refuse("it is empty".to_owned()));
            }
            let glob = if anchored {
                body.to_owned()
            } else {
                format!("**/{body}")
            };
            let glob = GlobBuilder::new(&glob)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(|e| refuse(e.kind().to_string()))?;
            Ok(Compiled {
                include: rule.include,
                only_dirs,
                matcher: glob.compile_matcher(),
            })
        };
        let mut leading = HashSet::new();
        let listed = options.files.as_ref().map(|files| {
            let mut listed = HashMap::new();
            for file in files {
                let path = super::send::plain(Path::new(OsStr::from_bytes(file)));
                let mut above = path.parent();
                while let Some(dir) = above {
                    leading.insert(dir.to_path_buf());
                    above = dir.parent();
                }
                listed.insert(path, false);
            }
            Mutex::new(listed)
        });
        Ok(Self {
            rules: options
                .rules
                .iter()
                .map(compile)
                .collect::<Result<_, _>>()?,
            listed,
            leading,
        })
    }

    /// Whether everything takes part.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.listed.is_none()
    }

    /// Whether a path below the top takes part.
    pub(crate) fn admits(&self, path: &Path, is_dir: bool) -> bool {
        let matching = self
            .rules
            .iter()
            .find(|rule| (is_dir || !rule.only_dirs) && rule.matcher.is_match(path));
        matching.is_none_or(|rule| rule.include) && self.is_listed(path, is_dir)
    }

    fn is_listed(&self, path: &Path, is_dir: bool) -> bool {
        let Some(listed) = &self.listed else {
            return true;
        };
        let mut listed = super::queue::lock(listed);
        if let Some(found) = listed.get_mut(path) {
            *found = true;
            return true;
        }
        // On the way to something that is listed, or in a directory that is.
        is_dir && self.leading.contains(path)
            || path.ancestors().any(|above| listed.contains_key(above))
    }

    /// What was listed and is not there.
    pub(crate) fn not_found(&self) -> Vec<PathBuf> {
        let Some(listed) = &self.listed else {
            return Vec::new();
        };
        let listed = super::queue::lock(listed);
        let missing = listed.iter().filter(|(_, found)| !**found);
        let mut missing: Vec<_> = missing.map(|(path, _)| path.clone()).collect();
        missing.sort();
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(rules: &[&str]) -> Filter {
        let rules = rules.iter().map(|rule| Rule {
            include: rule.starts_with('+'),
            pattern: rule[2..].to_owned(),
        });
        let options = TreeOptions {
            rules: rules.collect(),
            ..TreeOptions::default()
        };
        Filter::new(&options).unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let filter = filter(&[
            "+ keep.o",
            "- *.o",
            "- /top",
            "- build/",
            "- doc/*.tmp",
            "- a/**/z",
        ]);
        for (path, is_dir, admitted) in [
            ("x.c", false, true),
            ("x.o", false, false),
            ("deep/down/x.o", false, false),
            ("deep/keep.o", false, true),
            ("top", false, false),
            ("sub/top", false, true),
            ("build", true, false),
            ("sub/build", true, false),
            ("build", false, true),
            ("doc/x.tmp", false, false),
            ("sub/doc/x.tmp", false, false),
            ("doc/sub/x.tmp", false, true),
            ("a/b/c/z", false, false),
            ("a/z", false, false),
        ] {
            assert_eq!(filter.admits(Path::new(path), is_dir), admitted, "{path}");
        }
    }

    #[test]
    fn a_list_leads_to_its_files_and_no_others() {
        let files = ["a/b/c", "./d/", "e"].map(|path| path.as_bytes().to_vec());
        let options = TreeOptions {
            files: Some(files.to_vec()),
            ..TreeOptions::default()
        };
        let filter = Filter::new(&options).unwrap();
        for (path, is_dir, admitted) in [
            ("a", true, true),
            ("a/b", true, true),
            ("a/b/c", false, true),
            ("a/b/d", false, false),
            ("a/x", true, false),
            ("d", true, true),
            ("d/any/thing", false, true),
            ("f", false, false),
        ] {
            assert_eq!(filter.admits(Path::new(path), is_dir), admitted, "{path}");
        }
        assert_eq!(filter.not_found(), [PathBuf::from("e")]);
    }

    #[test]
    fn patterns_that_are_none_are_refused() {
        for pattern in ["", "/", "a[", "{a"] {
            let rules = vec![Rule {
                include: false,
                pattern: pattern.into(),
            }];
            let error = Filter::new(&TreeOptions {
                rules,
                ..TreeOptions::default()
            });
            let text = error.unwrap_err().to_string();
            assert!(text.contains("pattern"), "{text}");
        }
    }
}
