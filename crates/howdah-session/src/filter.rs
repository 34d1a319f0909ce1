//! Which names take part.

use crate::SessionError;
use crate::entry::bounds;
use crate::matcher::Matcher;
use crate::options::TreeOptions;
use crate::paths::PathList;
use crate::rules::RuleList;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The rules of a copy, compiled.
#[derive(Debug)]
pub struct Filter {
    rules: RuleList,
    matcher: Matcher,
    /// Which of them have decided about a name.
    used: Vec<AtomicBool>,
    /// `None`: no list.
    listed: Option<Listed>,
}

#[derive(Debug)]
struct Listed {
    paths: PathList,
    /// Which of them were found, a bit each. Whoever drives this may ask from several threads.
    found: Vec<AtomicU64>,
}

/// Which word of them, and which bit of it.
fn bit(index: usize) -> (usize, u64) {
    (index / 64, 1 << (index % 64))
}

impl Listed {
    fn new(paths: &PathList) -> Self {
        let words = paths.len().div_ceil(64);
        let listed = Self {
            paths: paths.clone(),
            found: (0..words).map(|_| AtomicU64::new(0)).collect(),
        };
        // The top itself is always there; it is the first.
        if paths
            .at_or_after(b"")
            .is_some_and(|(_, top)| top.is_empty())
        {
            listed.mark(0);
        }
        listed
    }

    fn mark(&self, index: usize) {
        let (word, bit) = bit(index);
        if let Some(found) = self.found.get(word) {
            found.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn is_marked(&self, index: usize) -> bool {
        let (word, bit) = bit(index);
        let found = self.found.get(word);
        found.is_some_and(|found| found.load(Ordering::Relaxed) & bit != 0)
    }

    /// Whether a path is one of them, lies in one, or, of a directory, on the way to one.
    fn admits(&self, path: &Path, is_dir: bool) -> bool {
        let bytes = path.as_os_str().as_bytes();
        let next = self.paths.at_or_after(bytes);
        if let Some((index, _)) = next.filter(|(_, next)| next == bytes) {
            self.mark(index);
            return true;
        }
        if is_dir {
            let within = [bytes, b"/"].concat();
            let next = self.paths.at_or_after(&within);
            if next.is_some_and(|(_, next)| next.starts_with(&within)) {
                return true;
            }
        }
        let above = path.ancestors().skip(1);
        above
            .map(|above| above.as_os_str().as_bytes())
            .any(|above| self.paths.contains(above))
    }

    /// What is there of that path and below it is left out for another reason, or told of already.
    fn pass_over(&self, path: &Path) {
        let bytes = path.as_os_str().as_bytes();
        if let Some((index, _)) = self.paths.at_or_after(bytes).filter(|(_, at)| at == bytes) {
            self.mark(index);
        }
        let within = [bytes, b"/"].concat();
        let mut next = self.paths.at_or_after(&within);
        while let Some((index, mut at)) = next.filter(|(_, at)| at.starts_with(&within)) {
            self.mark(index);
            at.push(0);
            next = self.paths.at_or_after(&at);
        }
    }
}

impl Filter {
    /// What those options say.
    ///
    /// # Errors
    ///
    /// A rule that makes no sense, or too many of a kind that takes much.
    pub fn new(options: &TreeOptions) -> Result<Self, SessionError> {
        Ok(Self {
            matcher: Matcher::new(&options.rules)?,
            used: options
                .rules
                .iter()
                .map(|_| AtomicBool::new(false))
                .collect(),
            rules: options.rules.clone(),
            listed: options.files.as_ref().map(Listed::new),
        })
    }

    /// Whether everything takes part.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.listed.is_none()
    }

    /// Whether a path below the top takes part.
    pub fn admits(&self, path: &Path, is_dir: bool) -> bool {
        let matching = self.matcher.first(&self.rules, path, is_dir);
        if let Some(used) = matching.and_then(|number| self.used.get(number))
            && !used.load(Ordering::Relaxed)
        {
            used.store(true, Ordering::Relaxed);
        }
        let rule = matching.and_then(|number| self.rules.get(number));
        if rule.is_some_and(|rule| !rule.include) {
            self.pass_over(path);
            return false;
        }
        let is_listed = |listed: &Listed| listed.admits(path, is_dir);
        self.listed.as_ref().is_none_or(is_listed)
    }

    /// Something is there, and is left out with all that is in it: what of it is listed is not missing.
    pub fn pass_over(&self, path: &Path) {
        if let Some(listed) = &self.listed {
            listed.pass_over(path);
        }
    }

    /// Rules and a list that may not be what was meant, each with why. `all`: also rules that have decided about nothing here.
    pub fn doubts(&self, all: bool) -> Vec<String> {
        let mut doubts = Vec::new();
        for (rule, used) in self.rules.iter().zip(&self.used) {
            let flag = if rule.include {
                "--include"
            } else {
                "--exclude"
            };
            let named = format!("{flag} {:?}", rule.pattern);
            if let Some(why) = cannot_match(rule.pattern) {
                doubts.push(format!("{named} can match nothing: {why}"));
            } else if all
                && !rule.listed
                && is_of_one(rule.pattern)
                && !used.load(Ordering::Relaxed)
            {
                doubts.push(format!(
                    "{named} matched nothing; patterns are matched below the top of the copy"
                ));
            }
        }
        if self
            .listed
            .as_ref()
            .is_some_and(|listed| listed.paths.is_empty())
        {
            doubts.push("the list of files is empty, so there is nothing to copy".to_owned());
        }
        doubts
    }

    /// Tells what was listed and is not there.
    pub fn tell_missing(&self, mut tell: impl FnMut(&Path)) {
        let Some(listed) = &self.listed else {
            return;
        };
        let mut walk = listed.paths.walk();
        let mut index = 0;
        while let Some(path) = walk.next_path() {
            if !listed.is_marked(index) {
                tell(Path::new(OsStr::from_bytes(path)));
            }
            index += 1;
        }
    }
}

/// Why no path can ever match that pattern.
fn cannot_match(pattern: &str) -> Option<&'static str> {
    let mut parts = pattern.split('/');
    if parts.clone().any(|part| part == "..") {
        return Some("no path in a copy has '..' in it");
    }
    let is_long = |part: &str| part.len() > bounds::NAME && !part.contains(['*', '[', '{', '\\']);
    if parts.any(is_long) {
        return Some("no name is that long");
    }
    None
}

/// Whether a pattern is about one thing that should be there, and not about whatever is like it.
fn is_of_one(pattern: &str) -> bool {
    pattern.trim_end_matches('/').contains('/') || !pattern.contains(['*', '?', '[', '{'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rule;

    fn filter(rules: &[&str]) -> Filter {
        let rules = rules.iter().map(|rule| Rule {
            include: rule.starts_with('+'),
            pattern: rule[2..].to_owned(),
            listed: false,
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
    fn t22_t23_two_stars_cross_slashes_anywhere_and_dots_mean_nothing() {
        for (rule, excluded, admitted) in [
            (
                "- /foo**.bak",
                &["foo.bak", "foox.bak", "foo/x.bak", "foo1/2/3.bak"][..],
                &["bar/foo.bak", "foo.bakx"][..],
            ),
            (
                "- foo**.bak",
                &["foo.bak", "bar/foo1/x.bak"],
                &["bar/x.bak"],
            ),
            ("- **.o", &["x.o", "a/b/x.o"], &["o", "x.oo"]),
            (
                "- /a**b**c",
                &["abc", "a/b/c", "ab/c", "a/xbx/c"],
                &["ab", "acb"],
            ),
            (
                "- /build/**",
                &["build/x", "build/x/y"],
                &["build", "sub/build/x"],
            ),
            ("- ./build", &["build"], &["sub/build"]),
            ("- a/./b", &["a/b", "x/a/b"], &["a/x/b"]),
            ("- .//a//b/", &["a/b"], &["x/a/b"]),
            ("- lit\\**x", &["lit*x", "lit*yx"], &["lit/x"]),
            ("- a[!b]c", &["axc", "x/a]c"], &["a/c", "abc"]),
            (
                "- [[:digit:]][\\]x]",
                &["1]", "d/2x"],
                &["d]", "[:]", "1\\", "1\\]"],
            ),
        ] {
            let filter = filter(&[rule]);
            for path in excluded {
                assert!(!filter.admits(Path::new(path), true), "{rule} {path}");
            }
            for path in admitted {
                assert!(filter.admits(Path::new(path), true), "{rule} {path}");
            }
        }
    }

    #[test]
    fn n4_a_dot_in_a_list_is_the_top() {
        for dot in [".", "./", "././"] {
            let options = TreeOptions {
                files: Some([dot, "a/b"].iter().collect()),
                ..TreeOptions::default()
            };
            let filter = Filter::new(&options).unwrap();
            assert!(filter.admits(Path::new("x/y"), false), "{dot}");
            assert!(filter.admits(Path::new("a/b"), false));
            filter.tell_missing(|path| panic!("{dot}: {path:?} is missing"));
        }
    }

    #[test]
    fn a_list_leads_to_its_files_and_no_others() {
        let options = TreeOptions {
            files: Some(["a/b/c", "./d/", "e"].iter().collect()),
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
        let mut missing = Vec::new();
        filter.tell_missing(|path| missing.push(path.to_owned()));
        assert_eq!(missing, [Path::new("e")]);
    }

    #[test]
    fn what_is_listed_and_left_out_is_not_missing() {
        let paths = ["a", "b/c", "b/c/d", "b/e", "ba", "f"];
        let options = TreeOptions {
            files: Some(paths.iter().collect()),
            rules: ["/a", "/b/"]
                .map(|pattern| Rule {
                    include: false,
                    pattern: pattern.to_owned(),
                    listed: false,
                })
                .into_iter()
                .collect(),
            ..TreeOptions::default()
        };
        let filter = Filter::new(&options).unwrap();
        assert!(!filter.admits(Path::new("a"), false));
        assert!(!filter.admits(Path::new("b"), true));
        let missing = || {
            let mut missing = Vec::new();
            filter.tell_missing(|path| missing.push(path.to_owned()));
            missing
        };
        assert_eq!(missing(), [Path::new("ba"), Path::new("f")]);
        // A mount point, or what cannot be read.
        filter.pass_over(Path::new("f"));
        assert_eq!(missing(), [Path::new("ba")]);
    }

    #[test]
    fn patterns_that_are_none_are_refused() {
        for pattern in ["", "/", "a[", "{a"] {
            let rules = vec![Rule {
                include: false,
                pattern: pattern.into(),
                listed: false,
            }];
            let error = Filter::new(&TreeOptions {
                rules: rules.into(),
                ..TreeOptions::default()
            });
            let text = error.unwrap_err().to_string();
            assert!(text.contains("pattern"), "{text}");
        }
    }
}
