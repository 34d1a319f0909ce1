//! `.gitignore` files: what they leave out of a copy, as git reads them (gitignore(5)).

use super::report::{Book, Trouble};
use super::source_dir::SourceDir;
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use howdah_session::classes;
use howdah_store::StoreError;
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const NAME: &str = ".gitignore";

/// A larger one is no list that somebody wrote.
const MAX_BYTES: u64 = 1 << 20;
/// The same at the destination, where a peer may have written it.
const THERE_BYTES: u64 = 64 << 10;

/// The rules of one file, and those of the directories above.
#[derive(Debug)]
pub(super) struct Ignores {
    above: Option<Arc<Self>>,
    /// The directory that it lies in, in the copy.
    at: PathBuf,
    globs: GlobSet,
    /// Of each glob.
    kinds: Vec<Kind>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Kind {
    negated: bool,
    only_dirs: bool,
}

impl Ignores {
    /// What holds in a directory: its own file, if it has one, before those above.
    pub(super) fn of(dir: &SourceDir, above: Option<Arc<Self>>, book: &Book) -> Option<Arc<Self>> {
        let shown = dir.shown(OsStr::new(NAME));
        let text = match read(dir, MAX_BYTES) {
            Ok(text) => text,
            Err(StoreError::NotFound { .. }) => return above,
            Err(error) => {
                book.trouble(Trouble::Failed, &shown, format!("not heeded: {error}"));
                return above;
            }
        };
        let refused = |line: &[u8], why: &str| {
            let line = String::from_utf8_lossy(line);
            book.trouble(Trouble::Failed, &shown, format!("line {line:?}: {why}"));
        };
        match Self::parse(&text, (&dir.below, above.clone()), refused) {
            Ok(ignores) => Some(Arc::new(ignores)),
            Err(e) => {
                book.trouble(Trouble::Failed, &shown, format!("not heeded: {e}"));
                above
            }
        }
    }

    /// The same at the destination, where the file has come: whoever sent it has told what of it makes no sense.
    pub(super) fn there(
        dir: &SourceDir,
        above: Option<Arc<Self>>,
    ) -> Result<Option<Arc<Self>>, StoreError> {
        let text = read(dir, THERE_BYTES)?;
        let parsed = Self::parse(&text, (&dir.below, above.clone()), |_, _| ());
        Ok(parsed.map_or(above, |ignores| Some(Arc::new(ignores))))
    }

    fn parse(
        text: &[u8],
        (at, above): (&Path, Option<Arc<Self>>),
        mut refused: impl FnMut(&[u8], &str),
    ) -> Result<Self, globset::Error> {
        let mut globs = GlobSetBuilder::new();
        let mut kinds = Vec::new();
        let text = howdah_core::text::without_byte_order_mark(text);
        for line in text.split(|&byte| byte == b'\n') {
            match std::str::from_utf8(line).map_err(|_| "is not UTF-8".to_owned()) {
                Ok(text) => match compile(text) {
                    Ok(Some((glob, kind))) => {
                        globs.add(glob);
                        kinds.push(kind);
                    }
                    Ok(None) => {}
                    Err(why) => refused(line, &why),
                },
                Err(why) => refused(line, &why),
            }
        }
        Ok(Self {
            above,
            at: at.to_path_buf(),
            globs: globs.build()?,
            kinds,
        })
    }

    /// Whether a path in the copy is left out: the last rule of the nearest file that has one for it.
    pub(super) fn ignore(&self, path: &Path, is_dir: bool) -> bool {
        let mut level = Some(self);
        while let Some(here) = level {
            let below = path.strip_prefix(&here.at).unwrap_or(path);
            let matching = here.globs.matches(below);
            let kinds = matching.iter().rev().filter_map(|&i| here.kinds.get(i));
            if let Some(kind) = kinds.into_iter().find(|kind| is_dir || !kind.only_dirs) {
                return !kind.negated;
            }
            level = here.above.as_deref();
        }
        false
    }
}

fn read(dir: &SourceDir, most_bytes: u64) -> Result<Vec<u8>, StoreError> {
    let path = dir.path.join(NAME);
    let failed = |e| StoreError::from_io(&path, "read", e);
    let mut text = Vec::new();
    let file = dir.root.open_plain(&path)?;
    file.take(most_bytes + 1)
        .read_to_end(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > most_bytes {
        let what = format!("it has more than {} KiB", most_bytes >> 10);
        return Err(failed(std::io::Error::other(what)));
    }
    Ok(text)
}

/// One line; `None` if it has no rule.
fn compile(line: &str) -> Result<Option<(Glob, Kind)>, String> {
    let mut line = line.strip_suffix('\r').unwrap_or(line);
    if line.starts_with('#') {
        return Ok(None);
    }
    while let Some(rest) = line.strip_suffix(' ') {
        let backslashes = rest.bytes().rev().take_while(|&b| b == b'\\').count();
        if backslashes % 2 == 1 {
            break;
        }
        line = rest;
    }
    let (negated, line) = line.strip_prefix('!').map_or((false, line), |r| (true, r));
    let (only_dirs, line) = line.strip_suffix('/').map_or((false, line), |r| (true, r));
    // No path ends with a slash.
    if line.is_empty() || line.ends_with('/') {
        return Ok(None);
    }
    let body = line.strip_prefix('/').unwrap_or(line);
    let plain = plain(body);
    let glob = classes::spelt_out(&plain)?;
    // Without a slash it is a name, wherever it lies.
    let glob = if line.contains('/') {
        glob
    } else {
        format!("**/{glob}").into()
    };
    let glob = GlobBuilder::new(&glob)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|e| e.kind().to_string())?;
    Ok(Some((glob, Kind { negated, only_dirs })))
}

/// Braces mean nothing to git, and any number of stars that is all between two slashes is two, elsewhere one.
fn plain(pattern: &str) -> String {
    let mut plain = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let begins_name = plain.is_empty() || plain.ends_with('/');
        let behind = match c {
            '*' => rest.trim_start_matches('*'),
            '\\' => {
                let mut behind = rest.chars();
                plain.extend(behind.by_ref().take(2));
                rest = behind.as_str();
                continue;
            }
            c => &rest[c.len_utf8()..],
        };
        let stars = rest.len() - behind.len();
        match c {
            '*' if stars > 1 && begins_name && (behind.is_empty() || behind.starts_with('/')) => {
                plain.push_str("**");
            }
            '{' | '}' => plain.extend(['\\', c]),
            c => plain.push(c),
        }
        rest = behind;
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignores(at: &str, text: &str, above: Option<Arc<Ignores>>) -> Arc<Ignores> {
        let mut globs = GlobSetBuilder::new();
        let mut kinds = Vec::new();
        for (glob, kind) in text.lines().filter_map(|line| compile(line).unwrap()) {
            globs.add(glob);
            kinds.push(kind);
        }
        Arc::new(Ignores {
            above,
            at: at.into(),
            globs: globs.build().unwrap(),
            kinds,
        })
    }

    #[test]
    fn rules_are_read_as_git_reads_them() {
        let text = "# no rule\n\n*.o\n!keep.o\n/top\nbuild/\nb/c\nx/**\n**/deep\na/**/z\n\\#odd\n\\!odd\nend \nsp\\ \n{q}\n[{]r\n\
            [[:digit:]].log\n[\\]x]s\na[!b]c\nd**e/f\ng/***/h\n**//\nx[]}]y\n";
        let top = ignores("", text, None);
        for (path, is_dir, ignored) in [
            ("m.o", false, true),
            ("s/m.o", false, true),
            ("s/keep.o", false, false),
            ("top", false, true),
            ("s/top", false, false),
            ("build", false, false),
            ("s/build", true, true),
            ("b/c", false, true),
            ("s/b/c", false, false),
            ("x", true, false),
            ("x/y", false, true),
            ("1/2/deep", false, true),
            ("a/z", false, true),
            ("a/1/2/z", false, true),
            ("#odd", false, true),
            ("!odd", false, true),
            ("end", false, true),
            ("sp ", false, true),
            ("{q}", false, true),
            ("q", false, false),
            ("{r", false, true),
            ("1.log", false, true),
            ("x.log", false, false),
            ("]s", false, true),
            ("a/c", false, false),
            ("a-c", false, true),
            ("d/e/f", false, false),
            ("d1e/f", false, true),
            ("g/1/2/h", false, true),
            ("never", true, false),
            ("x}y", false, true),
        ] {
            assert_eq!(top.ignore(Path::new(path), is_dir), ignored, "{path}");
        }
        let sub = ignores("s", "!*.o\n/own\n", Some(top));
        for (path, ignored) in [("s/m.o", false), ("s/own", true), ("s/end", true)] {
            assert_eq!(sub.ignore(Path::new(path), false), ignored, "{path}");
        }
    }
}
