//! A copy between two other machines: both far ends are started from here, the data flows from one to
//! the other, and the one that sends tells through its channel how it goes.

use super::FarEnd;
use super::handover::{self, Errand, OneCopy, Told};
use super::link_local;
use super::process::Lines;
use super::within::Within;
use crate::access::expand;
use crate::client::Task;
use crate::copy::Session;
use crate::reach::{Line, Transport};
use crate::session::pace;
use crate::session::selection::digest;
use crate::trees::put;
use crate::{
    Cancel, ChangeLog, CopyConfig, Error, ErrorKind, Identity, KnownHosts, Location, Log,
    PathBytes, Progress, SshLocation, SshTarget, Summary, Throttle, Trust,
};
use howdah_core::{Rate, Span};
use howdah_net::Clock;
use howdah_session::{Change, RuleList, TreeOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How often it is looked whether the user has had enough.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often the sender tells how it goes.
const TELL_EVERY: Span = Span::from_millis(500);
/// A sender that has not told anything for that long hangs.
const SILENCE_MAX: Duration = Duration::from_mins(15);

/// Any time that is longer is as good as this; a receiver waits for a day at most.
const WAIT_MAX_S: u64 = 30 * 86_400;

/// Whoever says nothing for that long is lost.
const IDLE_MAX_MS: u64 = 86_400_000;

/// What is to go where.
pub(crate) struct Order<'a> {
    pub(crate) from: &'a SshTarget,
    pub(crate) sources: Vec<PathBytes>,
    pub(crate) to: &'a SshLocation,
    /// If they are trees, and not one file.
    pub(crate) tree: Option<TreeOptions>,
}

/// Lets one machine send to another one.
pub(crate) fn copy_between(
    order: Order<'_>,
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    if config.duration_limit.is_some() {
        let text = "--time works for copies from or to this machine";
        return Err(Error::new(ErrorKind::Usage, text));
    }
    let sender = FarEnd::start_sender(config, order.from, cancel)?;
    let target = &order.to.target;
    let only = one_copy(&order);
    let hears_changes = order.tree.as_ref().is_some_and(|options| options.dry_run);
    let within = Within::of_put(order.to.path.clone(), order.tree.as_ref());
    let key = (&sender.key(), within);
    let receiver = FarEnd::start_for(config, target, key, Some(Box::new(only)), cancel)?;
    let pace = pace::wanted(config.policy, config.share, &config.throttle);
    let errand = Errand {
        sources: order.sources,
        destination: order.to.path.clone(),
        tree: order.tree,
        host: target.host().to_owned(),
        port: receiver.port(),
        addresses: receiver.addresses(),
        key: receiver.key().to_string(),
        pace,
        transport: match config.transport {
            Transport::Auto => 0,
            Transport::Udp => 1,
            Transport::Tcp => 2,
        },
        resume: config.resume,
        reread: config.reread,
        wait_for_space_s: config.wait_for_space.as_millis().div_ceil(1000),
        hears_notes: true,
        idle_timeout_ms: Some(config.idle_timeout.as_millis()),
        growing: config.growing,
        wordy: config.ssh.wordy,
        hears_changes,
    };
    let told = sender.send_on(errand)?;
    let summary = watch(&told, (&sender, &receiver), config, cancel, on_progress)?;
    sender.leave();
    receiver.leave();
    Ok(summary)
}

/// What the receiver must let the sender do.
fn one_copy(order: &Order<'_>) -> OneCopy {
    // Rules may be long, so only what tells them from others goes there; the list is for the one who walks.
    let tree = order.tree.as_ref().map(|options| TreeOptions {
        files: None,
        rules: RuleList::default(),
        ..options.clone()
    });
    let names = order.sources.iter().filter_map(|source| {
        let name = source.as_path().file_name()?;
        Some(PathBytes::from(name))
    });
    OneCopy {
        destination: order.to.path.clone(),
        names: names.collect(),
        tree,
        selection: order.tree.as_ref().map(digest),
    }
}

fn watch(
    told: &Receiver<Told>,
    (sender, receiver): (&FarEnd, &FarEnd),
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let mut silent = Duration::ZERO;
    let mut lines = Lines::default();
    let mut pace = pace::wanted(config.policy, config.share, &config.throttle);
    loop {
        let wanted = pace::wanted(config.policy, config.share, &config.throttle);
        if wanted != pace {
            pace = wanted;
            sender.set_pace(pace);
        }
        let next = told.recv_timeout(LOOK_EVERY);
        // Ctrl-C is for every process of a terminal, ssh too: what the others say of it is no news.
        if cancel.is_cancelled() && !matches!(next, Ok(Told::Done(_))) {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        match next {
            Ok(Told::Progress {
                bytes,
                total_bytes,
                files_done,
                files_total,
                elapsed_us,
                goodput_bps,
                wire_bps,
                rtt_us,
                loss,
                current,
                answered,
                resumed_bytes,
            }) => on_progress(&Progress {
                answered,
                resumed_bytes,
                current,
                bytes,
                total_bytes,
                files_done,
                files_total,
                wire_rate_now: Rate::from_bits_per_sec(wire_bps),
                elapsed: Span::from_micros(elapsed_us),
                goodput_now: Rate::from_bits_per_sec(goodput_bps),
                rtt: Span::from_micros(rtt_us),
                loss: loss.clamp(0.0, 1.0),
                ..Progress::default()
            }),
            Ok(Told::Warning(text)) => {
                lines.show(&config.warn, &format!("{}: {text}", sender.name()));
            }
            Ok(Told::Note(text)) => {
                lines.show(&config.note, &format!("{}: {text}", sender.name()));
            }
            Ok(Told::Change { word, path }) => {
                if let Some(change) = Change::from_word(word, path.as_path().to_owned()) {
                    config.changes.hear(&[change]);
                }
            }
            Ok(Told::Done(summary)) => return Ok(*summary),
            Ok(Told::Failed {
                kind,
                message,
                stuck,
            }) => {
                let kind = super::kinds::kind(kind);
                let hint = if kind == ErrorKind::Network {
                    format!(
                        "; the data goes from {} to {} directly, not by way of this machine",
                        sender.name(),
                        receiver.name()
                    )
                } else {
                    String::new()
                };
                let text = format!("{}: {message}{hint}", sender.name());
                let error = Error::new(kind, text);
                return Err(if stuck { error.stuck() } else { error });
            }
            Err(RecvTimeoutError::Timeout) if silent < SILENCE_MAX => {
                silent += LOOK_EVERY;
                continue;
            }
            Err(_) => {
                let lost = Error::new(
                    ErrorKind::Network,
                    format!("{} says nothing any more; try again", sender.name()),
                );
                return Err(sender.explain(lost));
            }
        }
        silent = Duration::ZERO;
    }
}

/// What bounds the process once it is known what it is for.
type Confine<'a> = dyn FnMut(&Within, Vec<u16>, bool) -> Result<(), Error> + 'a;

/// The sending far end.
pub(super) struct Sender<'a> {
    pub(super) identity: Identity,
    pub(super) home: &'a Path,
    /// Whoever started it may change the pace.
    pub(super) throttle: Throttle,
    pub(super) cancel: &'a Cancel,
    /// Leaves this process what is below these paths, and TCP to these ports, perhaps with words; then starts what listens to whoever started it.
    pub(super) confine: &'a mut Confine<'a>,
}

/// Goes on an errand, and tells a line for each thing that happens.
pub(super) fn run(errand: Errand, sender: Sender<'_>, out: &(dyn Fn(&Told) + Sync)) {
    out(&match send(errand, sender, out) {
        Ok(summary) => Told::Done(Box::new(summary)),
        Err(error) => Told::Failed {
            kind: super::kinds::kind_number(error.kind()),
            message: error.to_string(),
            stuck: !error.is_lost_connection(),
        },
    });
}

fn send(
    errand: Errand,
    sender: Sender<'_>,
    out: &(dyn Fn(&Told) + Sync),
) -> Result<Summary, Error> {
    let clock = Clock::new();
    let mut sources = Vec::new();
    for source in &errand.sources {
        sources.push(match Location::try_from(source.as_os_str()) {
            Ok(zero @ Location::Zero(_)) => zero,
            _ => Location::File(expand(sender.home, source.as_path())?),
        });
    }
    let within = Within::of_get(&errand.sources, errand.tree.as_ref());
    let addresses = link_local::as_here(errand.addresses);
    let path = errand.destination;
    let task = match (errand.tree, sources.pop()) {
        (Some(options), Some(last)) => {
            sources.push(last);
            put(&sources, path, options)?
        }
        (None, Some(source)) if sources.is_empty() => Task::Put { source, path },
        _ => return Err(Error::new(ErrorKind::Usage, "one source makes no tree")),
    };
    let ports = addresses.iter().map(SocketAddr::port).collect();
    (sender.confine)(&within, ports, errand.wordy)?;
    let mut config = CopyConfig::new(sender.identity, KnownHosts::default());
    config.trust = Trust::Exactly(handover::key(&errand.key).map_err(|e| e.at("the other side"))?);
    config.policy = pace::keep(errand.pace, &sender.throttle);
    config.share = pace::share(errand.pace);
    config.throttle = sender.throttle;
    (config.resume, config.reread) = (errand.resume, errand.reread);
    config.growing = errand.growing;
    config.wait_for_space = Span::from_secs(errand.wait_for_space_s.min(WAIT_MAX_S));
    if let Some(idle) = errand.idle_timeout_ms {
        config.idle_timeout = Span::from_millis(idle.clamp(1, IDLE_MAX_MS));
    }
    config.transport = match errand.transport {
        0 => Transport::Auto,
        1 => Transport::Udp,
        _ => Transport::Tcp,
    };
    // Not through the log, which outlives this call: what is noteworthy comes before the first progress.
    let (tell, said) = std::sync::mpsc::channel();
    let log = |make: fn(String) -> Told| {
        let tell = tell.clone();
        Log::new(move |line| {
            let _ = tell.send(make(line.to_owned()));
        })
    };
    if errand.hears_changes {
        let tell = tell.clone();
        config.changes = ChangeLog::new(move |changes| {
            for change in changes {
                let (word, path) = (change.word(), PathBytes::from(change.path.as_os_str()));
                let _ = tell.send(Told::Change { word, path });
            }
        });
    }
    config.warn = log(Told::Warning);
    config.note = if errand.hears_notes {
        log(Told::Note)
    } else {
        log(Told::Warning)
    };
    let mut next = Span::ZERO;
    let mut on_progress = |progress: &Progress| {
        for told in said.try_iter() {
            out(&told);
        }
        if progress.elapsed >= next {
            next = progress.elapsed + TELL_EVERY;
            out(&Told::Progress {
                bytes: progress.bytes,
                total_bytes: progress.total_bytes,
                files_done: progress.files_done,
                files_total: progress.files_total,
                elapsed_us: progress.elapsed.as_micros(),
                goodput_bps: progress.goodput_now.bits_per_sec(),
                wire_bps: progress.wire_rate_now.bits_per_sec(),
                rtt_us: progress.rtt.as_micros(),
                loss: progress.loss,
                current: progress.current.clone(),
                answered: progress.answered,
                resumed_bytes: progress.resumed_bytes,
            });
        }
    };
    let line = Line {
        port: errand.port,
        addresses,
        far_end: None,
    };
    let session = Session {
        // This process is in one.
        sandbox: None,
        host: &errand.host,
        line: &line,
        config: &config,
        cancel: sender.cancel,
        clock,
        started: clock.now(),
    };
    let result = session.run(task, &mut on_progress);
    for told in said.try_iter() {
        out(&told);
    }
    result
}

/// Writes a line to whoever started this end.
pub(super) fn teller(stdout: impl Write + Send) -> impl Fn(&Told) + Sync {
    let stdout = std::sync::Mutex::new(stdout);
    move |told| {
        let mut out = stdout
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // If nobody listens any more, this end is told so by the end of its input.
        let _ = handover::write_told(&mut *out, told);
    }
}
