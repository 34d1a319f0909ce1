//! Which of many rules is the first that matches a path.
//!
//! Patterns without wildcards are what long lists have: they are sorted, and a path is looked up. The others are compiled, many
//! together.

use crate::rules::RuleList;
use crate::{SessionError, classes};
use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Of all patterns with wildcards, spelt out: compiled they take up to some 300 times as much.
const WILD_BYTES_MAX: usize = 256 << 10;
/// Globs that are compiled together. One by one each path would take a while for each.
const TOGETHER: usize = 512;
/// Bytes of those, unless a single one has more.
const TOGETHER_BYTES: usize = 16 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Matcher {
    /// Matched against the whole path.
    anchored: Sorted,
    /// Matched against its end.
    floating: Sorted,
    wild: Vec<Wild>,
}

/// Numbers of rules without wildcards, in the order of what they match: each matches once at the most.
#[derive(Debug, Default)]
struct Sorted {
    any: Vec<u32>,
    only_dirs: Vec<u32>,
    /// The most names that one of them has.
    names: usize,
}

/// Globs that are compiled together, and of each the number of its rule and whether it is for directories only.
#[derive(Debug)]
struct Wild {
    globs: GlobSet,
    owners: Vec<(u32, bool)>,
}

/// A pattern taken to pieces.
struct Parsed<'a> {
    body: Cow<'a, str>,
    anchored: bool,
    only_dirs: bool,
}

impl<'a> Parsed<'a> {
    fn new(pattern: &'a str) -> Self {
        let only_dirs = pattern.ends_with('/') || pattern.ends_with("/.");
        let has_dots = pattern.starts_with("./") || pattern.contains("/./");
        if has_dots || pattern.contains("//") || pattern.ends_with("/.") {
            let pattern = without_dots(pattern);
            return Self {
                body: Cow::Owned(pattern.trim_matches('/').to_owned()),
                anchored: pattern.starts_with('/'),
                only_dirs,
            };
        }
        Self {
            body: Cow::Borrowed(pattern.trim_matches('/')),
            anchored: pattern.starts_with('/'),
            only_dirs,
        }
    }

    /// `dir/***` is a directory and all that is in it, as in rsync; of any other pattern it is that.
    fn spelt_out(&self) -> Vec<Parsed<'_>> {
        let of = |body, only_dirs| Parsed {
            body: Cow::Borrowed(body),
            anchored: self.anchored,
            only_dirs,
        };
        match self.body.strip_suffix("/***") {
            Some(dir) if !dir.is_empty() => vec![
                of(dir, true),
                of(&self.body[..dir.len() + 3], self.only_dirs),
            ],
            _ => vec![of(&self.body, self.only_dirs)],
        }
    }

    fn is_wild(&self) -> bool {
        self.body.contains(['*', '?', '[', '{', '}', '\\'])
    }
}

impl Matcher {
    pub(super) fn new(rules: &RuleList) -> Result<Self, SessionError> {
        let (mut anchored, mut floating) = (Sorted::default(), Sorted::default());
        let mut compiler = Compiler::default();
        for (number, rule) in (0..).zip(rules.iter()) {
            let parsed = Parsed::new(rule.pattern);
            if parsed.is_wild() {
                compiler.add(rule.pattern, &parsed, number)?;
                continue;
            }
            if parsed.body.is_empty() {
                return Err(refused(rule.pattern, "it is empty"));
            }
            let sorted = if parsed.anchored {
                &mut anchored
            } else {
                &mut floating
            };
            sorted.names = sorted.names.max(parsed.body.split('/').count());
            sorted.of(parsed.only_dirs).push(number);
        }
        anchored.sort(rules);
        floating.sort(rules);
        Ok(Self {
            anchored,
            floating,
            wild: compiler.finish()?,
        })
    }

    /// An error if one of the rules is none, or they are too many; sorts and compiles nothing.
    pub(super) fn check(rules: &RuleList) -> Result<(), SessionError> {
        let mut compiler = Compiler::default();
        for rule in rules.iter() {
            let parsed = Parsed::new(rule.pattern);
            if parsed.body.is_empty() {
                return Err(refused(rule.pattern, "it is empty"));
            }
            if parsed.is_wild() {
                for parsed in parsed.spelt_out() {
                    compiler.parse(rule.pattern, &parsed)?;
                }
            }
        }
        Ok(())
    }

    /// The number of the first rule that matches a path below the top.
    pub(super) fn first(&self, rules: &RuleList, path: &Path, is_dir: bool) -> Option<usize> {
        let bytes = path.as_os_str().as_bytes();
        let mut first = self.anchored.find(rules, bytes, is_dir);
        let slashes = bytes.iter().enumerate().rev();
        let ends = slashes
            .filter(|(_, byte)| **byte == b'/')
            .map(|(at, _)| at + 1);
        let ends = ends.chain([0]).take(self.floating.names);
        for end in ends.filter_map(|from| bytes.get(from..)) {
            first = earlier(first, self.floating.find(rules, end, is_dir));
        }
        if self.wild.is_empty() {
            return first.map(|number| number as usize);
        }
        let candidate = Candidate::new(path);
        let mut matching = Vec::new();
        for wild in &self.wild {
            // These are in the order of the rules.
            let from = wild.owners.first().map(|(number, _)| *number);
            if first.is_some_and(|first| from.is_none_or(|from| first < from)) {
                break;
            }
            wild.globs.matches_candidate_into(&candidate, &mut matching);
            let owners = matching.iter().filter_map(|&at| wild.owners.get(at));
            let fitting = owners.filter(|(_, only_dirs)| is_dir || !only_dirs);
            first = earlier(first, fitting.map(|(number, _)| *number).min());
        }
        first.map(|number| number as usize)
    }
}

fn earlier(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    one.into_iter().chain(other).min()
}

fn refused(pattern: &str, reason: impl Into<String>) -> SessionError {
    SessionError::BadPattern {
        pattern: pattern.to_owned(),
        reason: reason.into(),
    }
}

fn body(rules: &RuleList, number: u32) -> Cow<'_, str> {
    let rule = rules.get(number as usize);
    rule.map_or(Cow::Borrowed(""), |rule| Parsed::new(rule.pattern).body)
}

impl Sorted {
    fn of(&mut self, only_dirs: bool) -> &mut Vec<u32> {
        if only_dirs {
            &mut self.only_dirs
        } else {
            &mut self.any
        }
    }

    fn sort(&mut self, rules: &RuleList) {
        for numbers in [&mut self.any, &mut self.only_dirs] {
            // Of those that match the same the first one stays.
            numbers.sort_by(|&a, &b| body(rules, a).cmp(&body(rules, b)));
            numbers.dedup_by(|b, a| body(rules, *a) == body(rules, *b));
            numbers.shrink_to_fit();
        }
    }

    /// The first rule that matches exactly that.
    fn find(&self, rules: &RuleList, path: &[u8], is_dir: bool) -> Option<u32> {
        let find = |numbers: &[u32]| {
            let order = |number: &u32| (*body(rules, *number)).as_bytes().cmp(path);
            let at = numbers.binary_search_by(order).ok()?;
            numbers.get(at).copied()
        };
        let only_dirs = is_dir.then(|| find(&self.only_dirs)).flatten();
        earlier(find(&self.any), only_dirs)
    }
}

/// Compiles globs together.
#[derive(Default)]
struct Compiler {
    done: Vec<Wild>,
    open: Vec<Glob>,
    owners: Vec<(u32, bool)>,
    open_bytes: usize,
    all_bytes: usize,
}

impl Compiler {
    /// The globs that a pattern stands for; counts them.
    fn parse(&mut self, pattern: &str, parsed: &Parsed<'_>) -> Result<Vec<Glob>, SessionError> {
        let glob = if parsed.anchored {
            parsed.body.to_string()
        } else {
            format!("**/{}", parsed.body)
        };
        let glob = classes::spelt_out(&glob).map_err(|why| refused(pattern, why))?;
        let globs = spelt_out(&glob).map_err(|why| refused(pattern, why))?;
        self.all_bytes += globs.iter().map(String::len).sum::<usize>();
        if self.all_bytes > WILD_BYTES_MAX {
            let what = format!(
                "from {pattern:?} on the patterns with wildcards take more than {} KiB together; those without \
                 any take little, and there may be hundreds of thousands: write names where they will do, or copy in parts",
                WILD_BYTES_MAX >> 10
            );
            return Err(SessionError::BadOption { what });
        }
        let build = |glob: &String| {
            GlobBuilder::new(glob)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(|e| refused(pattern, e.kind().to_string()))
        };
        globs.iter().map(build).collect()
    }

    fn add(&mut self, pattern: &str, parsed: &Parsed<'_>, number: u32) -> Result<(), SessionError> {
        let before = self.all_bytes;
        for parsed in parsed.spelt_out() {
            let globs = self.parse(pattern, &parsed)?;
            let is_full =
                self.open.len() + globs.len() > TOGETHER || self.open_bytes > TOGETHER_BYTES;
            if is_full && !self.open.is_empty() {
                self.close()?;
            }
            self.owners
                .extend(globs.iter().map(|_| (number, parsed.only_dirs)));
            self.open.extend(globs);
        }
        self.open_bytes += self.all_bytes - before;
        Ok(())
    }

    fn close(&mut self) -> Result<(), SessionError> {
        let first = self.open.first().map(|glob| glob.glob().to_owned());
        let mut set = GlobSetBuilder::new();
        for glob in self.open.drain(..) {
            set.add(glob);
        }
        let globs = set
            .build()
            .map_err(|e| refused(&first.unwrap_or_default(), e.kind().to_string()))?;
        self.done.push(Wild {
            globs,
            owners: std::mem::take(&mut self.owners),
        });
        self.open_bytes = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Wild>, SessionError> {
        if !self.open.is_empty() {
            self.close()?;
        }
        Ok(self.done)
    }
}

/// A pattern as it matches paths, in which no `.` stands for a directory.
fn without_dots(pattern: &str) -> String {
    let mut body = pattern;
    let mut anchored = body.starts_with('/');
    while let Some(rest) = body.strip_prefix("./") {
        // What is named from the top is meant there.
        (body, anchored) = (rest.trim_start_matches('/'), true);
    }
    let mut plain = body.to_owned();
    while plain.contains("/./") {
        plain = plain.replace("/./", "/");
    }
    while plain.contains("//") {
        plain = plain.replace("//", "/");
    }
    let plain = plain.strip_suffix("/.").map_or(&*plain, |rest| rest);
    match (anchored, plain.starts_with('/')) {
        (true, false) => format!("/{plain}"),
        _ => plain.to_owned(),
    }
}

/// The globs that a pattern stands for: `**` crosses slashes only where it stands alone between two of them, so `a**b`
/// is `a*b` or `a*/**/*b`.
fn spelt_out(pattern: &str) -> Result<Vec<String>, &'static str> {
    const MAX: usize = 64;
    let (mut done, mut todo) = (Vec::new(), vec![(pattern.to_owned(), 0)]);
    while let Some((glob, from)) = todo.pop() {
        let bytes = glob.as_bytes();
        let found = (from..bytes.len().saturating_sub(1)).find(|&at| {
            // What stands before it is looked at only then: it may be long.
            if bytes[at] != b'*' || bytes[at + 1] != b'*' {
                return false;
            }
            let alone = (at == 0 || bytes[at - 1] == b'/')
                && bytes.get(at + 2).is_none_or(|&next| next == b'/');
            let before = bytes[..at].iter().rev();
            let escapes = before.take_while(|&&b| b == b'\\').count();
            count_steps(escapes);
            !alone && escapes % 2 == 0
        });
        let Some(at) = found else {
            done.push(glob);
            continue;
        };
        let before = &glob[..at];
        let after = glob[at..].trim_start_matches('*');
        todo.push((format!("{before}*{after}"), at + 1));
        todo.push((format!("{before}*/**/*{after}"), at + 6));
        if done.len() + todo.len() > MAX {
            return Err("it has more than five '**' that stand within names");
        }
    }
    Ok(done)
}

/// Tests count, for a peer writes patterns.
#[cfg(test)]
fn count_steps(steps: usize) {
    tests::STEPS.set(tests::STEPS.get() + steps);
}

#[cfg(not(test))]
fn count_steps(_: usize) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rule;
    use proptest::prelude::*;
    use std::cell::Cell;

    thread_local! {
        pub(super) static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn h18_a_pattern_of_backslashes_is_little_work() {
        const BYTES: usize = 60_000;
        STEPS.set(0);
        for pattern in [
            "\\".repeat(BYTES),
            "\\".repeat(BYTES) + "**b",
            "\\*".repeat(BYTES / 2),
        ] {
            assert!(spelt_out(&pattern).is_ok(), "{pattern:.10}");
        }
        let steps = STEPS.get();
        assert!(steps <= 6 * BYTES, "{steps} steps");
    }

    /// As simple as can be: each rule by itself, one after the other.
    fn naive(rules: &RuleList, path: &Path, is_dir: bool) -> Result<Option<usize>, ()> {
        let mut found = None;
        for (number, rule) in rules.iter().enumerate() {
            let only_dirs = rule.pattern.ends_with('/') || rule.pattern.ends_with("/.");
            let plain = without_dots(rule.pattern);
            let body = plain.trim_matches('/');
            if body.is_empty() {
                return Err(());
            }
            let glob = if plain.starts_with('/') {
                body.to_owned()
            } else {
                format!("**/{body}")
            };
            let glob = classes::spelt_out(&glob).map_err(|_| ())?;
            for glob in spelt_out(&glob).map_err(|_| ())? {
                let glob = GlobBuilder::new(&glob)
                    .literal_separator(true)
                    .backslash_escape(true)
                    .build()
                    .map_err(|_| ())?;
                let fits = (is_dir || !only_dirs) && glob.compile_matcher().is_match(path);
                if fits && found.is_none() {
                    found = Some(number);
                }
            }
        }
        Ok(found)
    }

    fn list(patterns: &[String]) -> RuleList {
        let rules = patterns.iter().map(|pattern| Rule {
            include: false,
            pattern: pattern.clone(),
            listed: false,
        });
        rules.collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn the_first_rule_of_many_is_that_of_one_after_the_other(
            patterns in prop::collection::vec("(/|\\./)?([ab]{1,2}|[ab.*?/{},\\[\\]!\\\\-]{1,3})(/{1,2}(\\./)?[ab*]{1,2}){0,3}(/|/\\.)?", 0..12),
            paths in prop::collection::vec(("\\.?[ab]{1,2}(/\\.?[ab][ab.]?){0,3}", any::<bool>()), 1..20),
        ) {
            let rules = list(&patterns);
            match Matcher::new(&rules) {
                Err(_) => prop_assert_eq!(naive(&rules, Path::new("a"), true), Err(())),
                Ok(matcher) => for (path, is_dir) in paths {
                    let path = Path::new(&path);
                    let found = matcher.first(&rules, path, is_dir);
                    prop_assert_eq!(Ok(found), naive(&rules, path, is_dir), "{:?}", path);
                }
            }
        }
    }

    /// Sets of globs are closed and opened between the rules.
    #[test]
    fn rules_beyond_one_set_keep_their_order() {
        let mut patterns: Vec<_> = (0..2000).map(|n| format!("w{n}-*")).collect();
        patterns.insert(700, "plain".into());
        patterns.push("*".into());
        patterns.push("w5-x".into());
        let rules = list(&patterns);
        let matcher = Matcher::new(&rules).unwrap();
        for (path, expected) in [
            ("w5-x", 5),
            ("a/w699-y", 699),
            ("plain", 700),
            ("w700-y", 701),
            ("w1999-y", 2000),
            ("other", 2001),
        ] {
            assert_eq!(
                matcher.first(&rules, Path::new(path), false),
                Some(expected)
            );
        }
    }

    /// T22: people who come from rsync write it.
    #[test]
    fn t22_three_stars_behind_a_slash_are_the_directory_and_what_is_in_it() {
        let first = |pattern: &str, path: &str, is_dir| {
            let rules = list(&[pattern.to_owned()]);
            let matcher = Matcher::new(&rules).expect("a pattern");
            matcher.first(&rules, Path::new(path), is_dir).is_some()
        };
        for (pattern, path, is_dir, matches) in [
            ("foo/***", "foo", true, true),
            ("foo/***", "foo", false, false),
            ("foo/***", "x/foo", true, true),
            ("foo/***", "foo/a/b", false, true),
            ("foo/***", "food", true, false),
            ("/foo/***", "x/foo", true, false),
            ("/foo/***", "foo/a", false, true),
            ("/f*/***", "food", true, true),
            ("/f*/***", "food/a", false, true),
            ("foo/***/", "foo", true, true),
            ("foo/***/", "foo/a", false, false),
            ("foo/***/", "foo/a", true, true),
            ("foo/**", "foo", true, false),
            ("/***", "a", false, true),
            ("***", "a/b", true, true),
        ] {
            let found = first(pattern, path, is_dir);
            assert_eq!(found, matches, "{pattern} {path} {is_dir}");
        }
        let rules = list(&["foo/***".to_owned()]);
        assert!(Matcher::check(&rules).is_ok());
    }

    #[test]
    fn t01_wildcards_without_end_are_refused_and_names_are_not() {
        let names: Vec<_> = (0..300_000).map(|n| format!("./dir/name-{n}")).collect();
        let rules = list(&names);
        let matcher = Matcher::new(&rules).unwrap();
        let first = |path: &str| matcher.first(&rules, Path::new(path), false);
        assert_eq!(first("dir/name-299999"), Some(299_999));
        assert_eq!(first("x/dir/name-1"), None);
        let many: Vec<_> = (0..30_000).map(|n| format!("wild-{n}*")).collect();
        let error = Matcher::new(&list(&many)).unwrap_err().to_string();
        assert!(
            error.contains("256 KiB") && error.contains("wild-"),
            "{error}"
        );
        // What one pattern stands for counts.
        let long: Vec<_> = (0..800).map(|n| format!("{n}a**b**c**d**e")).collect();
        assert!(Matcher::new(&list(&long)).is_err());
    }
}
