//! Which files of a tree a command is about, and what becomes of them.

use crate::args::{OutcomeArgs, SelectArgs, TreeArgs, Written, add_lines};
use crate::clashes::is_stream;
use crate::ui;
use howdah::{Error, ErrorKind, Location, PathList, PathListBuilder, RuleList, TreeOptions};
use howdah_core::Span;
use howdah_core::text::remove_byte_order_mark;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is wanted of a tree.
pub(super) fn tree_options(
    args: &TreeArgs,
    outcome: &OutcomeArgs,
    select: &SelectArgs,
) -> anyhow::Result<TreeOptions> {
    Ok(TreeOptions {
        growing: outcome.growing,
        remove_source: outcome.remove_source_files,
        archive: args.archive,
        numeric_ids: args.numeric_ids,
        one_file_system: args.one_file_system,
        checksum: args.checksum,
        dry_run: args.dry_run,
        copy_links: args.copy_links,
        keep_dirlinks: args.keep_dirlinks,
        update: args.update,
        ignore_existing: args.ignore_existing,
        size_only: args.size_only,
        chmod: args.chmod.clone(),
        chown: args.chown.clone(),
        no_permissions: args.no_perms,
        make_path: args.mkpath,
        link_dest: args.link_dest.clone(),
        memory: Some(args.memory),
        ..select_options(select)?
    })
}

/// Before anybody is asked.
pub(super) fn check_tree(args: &TreeArgs) -> Result<(), Error> {
    match args.clash() {
        Some(text) => Err(Error::new(ErrorKind::Usage, text)),
        None => Ok(()),
    }
}

/// The same of where it is to go.
pub(super) fn check_tree_goes_to(destination: &Location) -> Result<(), Error> {
    if is_stream(destination) {
        let text = format!(
            "a tree cannot go to {destination}, which takes the bytes of one file and nothing else"
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(())
}

/// Which of its files.
pub(super) fn select_options(select: &SelectArgs) -> anyhow::Result<TreeOptions> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs() as i64);
    let ago = |span: Option<Span>| span.map(|span| now - (span.as_millis() / 1000) as i64);
    Ok(TreeOptions {
        rules: rules(select)?,
        gitignore: select.gitignore,
        files: select
            .files_from
            .as_deref()
            .map(|path| listed_files(path, select.from0))
            .transpose()?,
        min_size: select.min_size,
        max_size: select.max_size,
        modified_since: ago(select.max_age),
        modified_until: ago(select.min_age),
        ..TreeOptions::default()
    })
}

/// Bounds that leave nothing between them are no choice of files.
pub(super) fn check_ranges(select: &SelectArgs) -> Result<(), Error> {
    let clash = |what: &str, min: String, max: String| {
        let text = format!(
            "--min-{what} {min} is more than --max-{what} {max}, so no file would take part"
        );
        Err(Error::new(ErrorKind::Usage, text))
    };
    match (select.min_size, select.max_size) {
        (Some(min), Some(max)) if min > max => {
            return clash("size", format!("{min}B"), format!("{max}B"));
        }
        _ => {}
    }
    match (select.min_age, select.max_age) {
        (Some(min), Some(max)) if min > max => clash(
            "age",
            format!("{}s", min.as_millis() / 1000),
            format!("{}s", max.as_millis() / 1000),
        ),
        _ => Ok(()),
    }
}

/// The rules, those in files among them.
fn rules(select: &SelectArgs) -> anyhow::Result<RuleList> {
    let inputs = select
        .rules
        .0
        .iter()
        .filter(|w| matches!(w, Written::File { path, .. } if path == Path::new("-")));
    let listed = select.files_from.as_deref() == Some(Path::new("-"));
    if inputs.count() + usize::from(listed) > 1 {
        let text =
            "standard input can be only one of --files-from, --exclude-from and --include-from";
        return Err(Error::new(ErrorKind::Usage, text).into());
    }
    let mut rules = RuleList::default();
    for written in &select.rules.0 {
        match written {
            Written::One(rule) => rules.extend([rule.clone()]),
            Written::File { include, path } => {
                let mut list = open_list(path)?;
                let (mut line, mut is_first) = (Vec::new(), true);
                while next_line(&mut list, b'\n', &mut line).map_err(cannot_read(path))? {
                    if std::mem::take(&mut is_first) {
                        remove_byte_order_mark(&mut line);
                    }
                    let text = str::from_utf8(&line).map_err(|_| {
                        let text = format!("the rules in {} are not UTF-8", path.display());
                        Error::new(ErrorKind::Usage, text)
                    })?;
                    add_lines(&mut rules, *include, text);
                }
            }
        }
    }
    Ok(rules)
}

fn cannot_read(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    move |e| {
        let text = format!("cannot read the list {}: {e}", path.display());
        Error::new(ErrorKind::Usage, text)
    }
}

fn open_list(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        ui::check_input()?;
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).map_err(cannot_read(path))?;
    Ok(Box::new(BufReader::new(file)))
}

/// A line that is longer is none: what never ends is not read until memory ends.
const LINE_MAX: u64 = 1 << 20;

/// The next line of a list, with its end. Whether there is one.
fn next_line(list: impl BufRead, end: u8, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = list.take(LINE_MAX + 1).read_until(end, line)?;
    if read as u64 > LINE_MAX {
        return Err(io::Error::other("a line in it is longer than 1 MiB"));
    }
    Ok(read > 0)
}

/// Whether a path has more `..` than names before them.
fn leads_out(path: &[u8]) -> bool {
    let mut depth = 0_usize;
    path.split(|&byte| byte == b'/').any(|part| {
        match part {
            b"" | b"." => {}
            b".." if depth == 0 => return true,
            b".." => depth -= 1,
            _ => depth += 1,
        }
        false
    })
}

/// The paths in a list, of which there may be millions.
fn listed_files(path: &Path, ends_with_nul: bool) -> anyhow::Result<PathList> {
    let cannot = cannot_read(path);
    let mut list = open_list(path)?;
    let end = if ends_with_nul { 0 } else { b'\n' };
    let (mut files, mut line) = (PathListBuilder::default(), Vec::new());
    let mut is_first = true;
    while next_line(&mut list, end, &mut line).map_err(&cannot)? {
        let usage = |text: String| Err(Error::new(ErrorKind::Usage, text).into());
        if !ends_with_nul && line.contains(&0) {
            return usage(format!(
                "the list {} has NUL bytes in it; -0 takes lists whose paths end with them",
                path.display()
            ));
        }
        if std::mem::take(&mut is_first) && !ends_with_nul {
            remove_byte_order_mark(&mut line);
        }
        // As with rsync a line also ends with CR, or both.
        for line in line.split(|&byte| byte == end || byte == b'\r' && !ends_with_nul) {
            if line.starts_with(b"/") {
                return usage(format!(
                    "the list has the absolute path {:?}; write paths below SRC",
                    String::from_utf8_lossy(line)
                ));
            }
            if leads_out(line) {
                return usage(format!(
                    "the list has {:?}, which leads out of SRC; write paths below it",
                    String::from_utf8_lossy(line)
                ));
            }
            if !line.is_empty() {
                files.push(line);
            }
        }
    }
    Ok(files.finish())
}
