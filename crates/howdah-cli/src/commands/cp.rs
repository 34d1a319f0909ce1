//! `howdah cp`.

use super::serve::is_sandbox_off;
use super::{hints, key_file, manifest};
use crate::args::{
    ArrivalArgs, Cli, Command, ConnectArgs, CpArgs, OutcomeArgs, PaceArgs, SelectArgs, TellingArgs,
    TreeArgs, Verify, Written, add_lines,
};
use crate::control::Control;
use crate::settings;
use crate::ui::{self, Reporter, Signals, Start, Wishes};
use anyhow::Context as _;
use howdah::keys::{self, Identity, KnownHosts, Trust};
use howdah::{
    CopyConfig, Error, ErrorKind, FileLog, Location, PathList, PathListBuilder, Progress,
    RatePolicy, RuleList, Summary, TreeOptions,
};
use howdah_core::Span;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn run(args: &CpArgs) -> anyhow::Result<()> {
    let data_on_stdout = *args.destination() == Location::Stdio;
    let reporter = reporter(&args.telling, data_on_stdout, args.tree.dry_run)?;
    let result = copy(args, &reporter).map_err(|error| hints::added(error, &args.paths));
    if let (Ok(summary), Location::File(path)) = (&result, args.destination())
        && summary.tree.is_none()
    {
        reporter.file(path, summary.bytes, &summary.verified);
    }
    finish(&reporter, result)
}

/// Who tells of a copy.
pub(super) fn reporter(
    args: &TellingArgs,
    data_on_stdout: bool,
    dry_run: bool,
) -> anyhow::Result<Reporter> {
    Reporter::new(Wishes {
        json: args.json,
        quiet: args.quiet,
        progress: args.progress,
        log_file: args.log_file.as_deref(),
        data_on_stdout,
        dry_run,
        data_on_terminal: data_on_stdout && io::stdout().is_terminal(),
    })
}

/// Tells how it ended. Files of a tree that could not be copied make it a failure after all.
pub(super) fn finish(reporter: &Reporter, result: anyhow::Result<Summary>) -> anyhow::Result<()> {
    if let Ok(summary) = &result {
        let trees = summary.tree.iter();
        for note in trees.flat_map(|tree| tree.notes.iter().chain(&tree.notices)) {
            reporter.warn(note);
        }
    }
    reporter.finish(&result);
    match result?.shortfall() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Moves the bytes; what came of it is for the caller to tell.
pub(super) fn copy(args: &CpArgs, reporter: &Reporter) -> anyhow::Result<Summary> {
    if args.sources().is_empty() {
        let text = format!(
            "{} is the only place that is named; write what to copy, and behind it where to, as in \
             'howdah cp big.tar anna@site:incoming/'",
            args.destination()
        );
        return Err(Error::new(ErrorKind::Usage, text).into());
    }
    howdah::check_sources(args.sources())?;
    for source in args.sources() {
        check_roles(source, args.destination())?;
        if matches!(source, Location::Stdio) {
            ui::check_input()?;
        }
    }
    if matches!(args.destination(), Location::Stdio) {
        ui::check_output()?;
    }
    check_names(args)?;
    super::outcome::check(&args.outcome, args.sources(), args.destination(), false)?;
    if args.time.is_some() && args.outcome.remove_source_files {
        let text = "--remove-source-files and --time clash: what is cut off is not moved";
        return Err(Error::new(ErrorKind::Usage, text).into());
    }
    let signals = Signals::install()?;
    let mut config = config(&args.connect, args.paths.iter(), &signals)?;
    config.duration_limit = args.time;
    config.growing = args.outcome.growing;
    arrival(&mut config, &args.arrival, reporter);
    let options = TreeOptions {
        recursive: args.recursive || args.tree.archive,
        permissions: args.preserve,
        ..tree_options(&args.tree, &args.outcome, &args.select)?
    };
    config.manifest = manifest::begin(
        &args.tree.listing,
        args.sources(),
        args.destination(),
        &options,
    )?;
    let sources = expanded(args.sources(), &mut config, &signals)?;
    if args.tree.dry_run {
        config.changes = super::sync::changes(reporter);
    }
    let (destination, cancel) = (args.destination(), signals.cancel());
    let run = Run {
        config: &config,
        signals: &signals,
        reporter,
        pace: &args.connect.pace,
        pace_of,
        trace: args.trace.as_deref(),
    };
    let start = start(args, config.policy);
    match &sources[..] {
        [source] if !args.is_tree() => run.copy(&start, |show| {
            howdah::copy(source, destination, &config, cancel, show)
        }),
        sources => run.copy(&start, |show| {
            let done = howdah::copy_tree(sources, destination, &options, &config, cancel, show);
            manifest::end(&config, done, reporter, cancel)
        }),
    }
}

/// The sources, with what is there for each name with wildcards.
pub(super) fn expanded(
    sources: &[Location],
    config: &mut CopyConfig,
    signals: &Signals,
) -> Result<Vec<Location>, Error> {
    let found = howdah::expand(sources, config, signals.cancel(), &mut |_| ())?;
    Ok(found.into_iter().map(|place| place.location).collect())
}

/// The one place that a name with wildcards means, where only one will do.
pub(super) fn expanded_one(
    place: &Location,
    config: &mut CopyConfig,
    signals: &Signals,
) -> Result<Location, Error> {
    let mut found = expanded(std::slice::from_ref(place), config, signals)?;
    if found.len() > 1 {
        let text = format!(
            "{place} matches {} names there, and only one can be meant: the first two are {} and {}",
            found.len(),
            found[0],
            found[1]
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(found.pop().unwrap_or_else(|| place.clone()))
}

/// What files go through before they appear, and who hears of it.
pub(super) fn arrival(config: &mut CopyConfig, args: &ArrivalArgs, reporter: &Reporter) {
    config.resume = !args.no_resume;
    config.reread = args.verify == Verify::Reread;
    (config.wait_for_space, config.reconnect) = (args.wait_for_space, args.reconnect);
    (config.warn, config.note) = (reporter.as_log(), reporter.as_note());
    config.heard = reporter.as_ear();
    config.ssh.wordy = args.each_file;
    if args.each_file {
        let verified = if config.reread { "reread" } else { "blake3" };
        let reporter = reporter.clone();
        config.files = FileLog::new(move |files| reporter.files(files, verified));
    }
}

/// What surrounds a copy.
pub(super) struct Run<'a> {
    pub(super) config: &'a CopyConfig,
    pub(super) signals: &'a Signals,
    pub(super) reporter: &'a Reporter,
    pub(super) pace: &'a PaceArgs,
    /// Of the same command line, read again.
    pub(super) pace_of: fn(&Cli) -> Option<PaceArgs>,
    pub(super) trace: Option<&'a Path>,
}

impl Run<'_> {
    /// Tells of a copy, or whatever else takes its time, while it runs, and lets others change its pace.
    pub(super) fn copy<T>(
        &self,
        start: &Start,
        copy: impl FnOnce(&mut dyn FnMut(&Progress)) -> Result<T, Error>,
    ) -> anyhow::Result<T> {
        let mut trace = self.trace.map(Trace::create).transpose()?;
        let control = Control::begin(&self.config.throttle, self.pace, self.reporter, start);
        self.reporter.start(start);
        let mut show = |progress: &Progress| {
            control.attend(self.signals, || {
                settings::reread().map(|cli| (self.pace_of)(&cli))
            });
            if let Some(trace) = &mut trace {
                trace.write(progress);
            }
            self.reporter.progress(progress);
        };
        let result = copy(&mut show);
        if let Some(trace) = trace {
            trace.finish()?;
        }
        Ok(result?)
    }
}

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

/// Which of its files.
pub(super) fn select_options(select: &SelectArgs) -> anyhow::Result<TreeOptions> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs() as i64);
    check_ranges(select)?;
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
fn check_ranges(select: &SelectArgs) -> anyhow::Result<()> {
    let clash = |what: &str, min: String, max: String| {
        let text = format!(
            "--min-{what} {min} is more than --max-{what} {max}, so no file would take part"
        );
        Err(Error::new(ErrorKind::Usage, text).into())
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
                let mut line = Vec::new();
                while next_line(&mut list, b'\n', &mut line).map_err(cannot_read(path))? {
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

/// The paths in a list, of which there may be millions.
fn listed_files(path: &Path, ends_with_nul: bool) -> anyhow::Result<PathList> {
    let cannot = cannot_read(path);
    let mut list = open_list(path)?;
    let end = if ends_with_nul { 0 } else { b'\n' };
    let (mut files, mut line) = (PathListBuilder::default(), Vec::new());
    while next_line(&mut list, end, &mut line).map_err(&cannot)? {
        // As with rsync a line also ends with CR, or both.
        for line in line.split(|&byte| byte == end || byte == b'\r' && !ends_with_nul) {
            if line.starts_with(b"/") {
                let text = format!(
                    "the list has the absolute path {:?}; write paths below SRC",
                    String::from_utf8_lossy(line)
                );
                return Err(Error::new(ErrorKind::Usage, text).into());
            }
            if !line.is_empty() {
                files.push(line);
            }
        }
    }
    Ok(files.finish())
}

fn start(args: &CpArgs, policy: RatePolicy) -> Start {
    let mut start = Start::new("cp", args.sources(), args.destination());
    start.set_pace(policy, &args.connect.pace);
    start
}

/// What the same command line asks for now.
fn pace_of(cli: &Cli) -> Option<PaceArgs> {
    match &cli.command {
        Command::Cp(args) => Some(args.connect.pace.clone()),
        _ => None,
    }
}

pub(super) fn config<'a>(
    args: &ConnectArgs,
    mut locations: impl Iterator<Item = &'a Location>,
    signals: &Signals,
) -> anyhow::Result<CopyConfig> {
    let mut config = if locations.any(|location| matches!(location, Location::Remote { .. })) {
        CopyConfig::new(identity(args)?, known_hosts(args)?)
    } else {
        // Over ssh both ends make keys for the one session.
        CopyConfig::new(Identity::generate()?, KnownHosts::default())
    };
    config.ssh = args.ssh.config()?;
    if !args.no_memory {
        config.paths = howdah::default_path_memory();
    }
    config.transport = args.ssh.transport.into();
    config.trust = if args.accept_new {
        Trust::AcceptNew
    } else if io::stderr().is_terminal() {
        let signals = signals.clone();
        Trust::Ask(Arc::new(move |new| {
            ui::with_a_question(|| signals.ending_at_once(|| ui::ask_about(new)))
        }))
    } else {
        Trust::Strict
    };
    config.policy = args.pace.policy()?;
    config.idle_timeout = args.idle_timeout;
    config.confined = !is_sandbox_off();
    config.ready = super::far_end::ready;
    Ok(config)
}

fn identity(args: &ConnectArgs) -> anyhow::Result<Identity> {
    let path = key_file(args.identity.as_ref(), keys::default_identity_path())?;
    let identity = Identity::load(&path).map_err(|error| {
        if error.is_not_found() {
            let path = path.display();
            Error::new(
                ErrorKind::Auth,
                format!(
                    "this machine has no key in {path}; make one with 'howdah key new' and have \
                     the server list the line that it prints"
                ),
            )
        } else {
            error.into()
        }
    })?;
    Ok(identity)
}

fn known_hosts(args: &ConnectArgs) -> anyhow::Result<KnownHosts> {
    let path = key_file(args.known_hosts.as_ref(), keys::default_known_hosts_path())?;
    let known = KnownHosts::load(&path)?;
    for error in known.passed_over() {
        ui::say_marked("warning", &format!("{error}; the line is passed over"));
    }
    Ok(known)
}

/// What the library would refuse as well, said in the words of the command line.
fn check_roles(source: &Location, destination: &Location) -> Result<(), Error> {
    let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
    match (source, destination) {
        (Location::Null, _) => usage("null: can only be the destination".to_owned()),
        (_, Location::Zero(_)) => usage("zero: can only be the source".to_owned()),
        (Location::Ssh(_), Location::Ssh(_)) => Ok(()),
        (a, b) if a.is_remote() && b.is_remote() => usage(format!(
            "{a} and {b} are both remote, which works only if ssh reaches both (HOST:path); run \
             'howdah cp' on one of the two machines"
        )),
        (a, b) if !a.is_remote() && !b.is_remote() => usage(format!(
            "{a} and {b} are both local; write the remote one as HOST:path or \
             howdah://HOST:PORT/path, or use cp"
        )),
        _ => Ok(()),
    }
}

/// What is about files with names is not for streams.
fn check_names(args: &CpArgs) -> Result<(), Error> {
    if args.preserve && args.tree.no_perms {
        let text = "-p and --no-perms clash: one makes permissions equal, the other does not";
        return Err(Error::new(ErrorKind::Usage, text));
    }
    check_tree(&args.tree)?;
    let stream = args.paths.iter().find(|place| is_stream(place));
    match (args.tree.about_names(), stream) {
        (Some(flag), Some(stream)) => {
            let text = format!("{flag} is about files and directories, and {stream} is none");
            Err(Error::new(ErrorKind::Usage, text))
        }
        _ => Ok(()),
    }
}

/// Before anybody is asked.
pub(super) fn check_tree(args: &TreeArgs) -> Result<(), Error> {
    match args.clash() {
        Some(text) => Err(Error::new(ErrorKind::Usage, text)),
        None => Ok(()),
    }
}

fn is_stream(place: &Location) -> bool {
    let path = match place {
        Location::Stdio | Location::Zero(_) | Location::Null => return true,
        Location::File(_) => return false,
        Location::Remote { path, .. } => path,
        Location::Ssh(there) => &there.path,
    };
    let there = Location::try_from(path.as_path().as_os_str());
    matches!(there, Ok(Location::Zero(_) | Location::Null))
}

/// Progress as JSON lines.
struct Trace {
    out: BufWriter<File>,
    error: Option<io::Error>,
}

impl Trace {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path)
            .with_context(|| format!("cannot create the trace {}", path.display()))?;
        Ok(Self {
            out: BufWriter::new(file),
            error: None,
        })
    }

    fn write(&mut self, progress: &Progress) {
        let line = serde_json::json!({
            "seconds": progress.elapsed.as_secs_f64(),
            "bytes": progress.bytes,
            "goodput_bps": progress.goodput_now.bits_per_sec(),
            "rtt_us": progress.rtt.as_micros(),
            "loss": progress.loss,
            "pacing_bps": progress.pacing_rate.bits_per_sec(),
            "queue_us": progress.queue_delay.as_micros(),
        });
        if self.error.is_none() {
            // A full disk under the trace must not end the copy.
            self.error = writeln!(self.out, "{line}").err();
        }
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.error
            .map_or_else(|| self.out.flush(), Err)
            .context("the copy is done, but its trace could not be written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_side_is_remote_and_each_can_play_its_role() {
        let check = |source: &str, destination: &str| {
            check_roles(&source.parse().unwrap(), &destination.parse().unwrap())
                .map_err(|error| error.to_string())
        };
        assert_eq!(check("a", "howdah://h/b"), Ok(()));
        assert_eq!(check("howdah://h/b", "-"), Ok(()));
        assert_eq!(check("zero:1GiB", "howdah://h/null:"), Ok(()));
        assert_eq!(check("h:a", "g:b"), Ok(()));
        for (source, destination, part) in [
            ("a", "b", "both local"),
            ("howdah://h/a", "howdah://g/b", "both remote"),
            ("h:a", "howdah://g/b", "both remote"),
            ("null:", "howdah://h/b", "null: can only be the destination"),
            ("howdah://h/b", "zero:1", "zero: can only be the source"),
        ] {
            let error = check(source, destination).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
