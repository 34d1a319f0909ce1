//! What the far end that sends does in a copy between two other machines: it goes on its errand and tells how it goes.

use crate::access::expand;
use crate::connect::Session;
use crate::policy::Transport;
use crate::reach::Line;
use crate::session::pace;
use crate::ssh::handover::{self, CopyEvent, ThirdPartyCopy};
use crate::ssh::{Within, kinds, link_local};
use crate::task::Task;
use crate::trees::put;
use crate::{
    Cancel, ChangeLog, CopyConfig, Error, ErrorKind, Identity, KnownHosts, Location, Log,
    PathBytes, Progress, Summary, Throttle, Trust,
};
use howdah_core::Span;
use howdah_net::Clock;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

/// How often the sender tells how it goes.
const TELL_EVERY: Span = Span::from_millis(500);

/// Any time that is longer is as good as this; a receiver waits for a day at most.
const WAIT_MAX_S: u64 = 30 * 86_400;

/// Whoever says nothing for that long is lost.
const IDLE_MAX_MS: u64 = 86_400_000;

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
pub(super) fn run(errand: ThirdPartyCopy, sender: Sender<'_>, out: &(dyn Fn(&CopyEvent) + Sync)) {
    out(&match send(errand, sender, out) {
        Ok(summary) => CopyEvent::Done(Box::new(summary)),
        Err(error) => CopyEvent::Failed {
            kind: kinds::kind_number(error.kind()),
            message: error.to_string(),
            stuck: !error.is_lost_connection(),
        },
    });
}

fn send(
    errand: ThirdPartyCopy,
    sender: Sender<'_>,
    out: &(dyn Fn(&CopyEvent) + Sync),
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
    let log = |make: fn(String) -> CopyEvent| {
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
                let _ = tell.send(CopyEvent::Change { word, path });
            }
        });
    }
    config.warn = log(CopyEvent::Warning);
    config.note = if errand.hears_notes {
        log(CopyEvent::Note)
    } else {
        log(CopyEvent::Warning)
    };
    let mut next = Span::ZERO;
    let mut on_progress = |progress: &Progress| {
        for told in said.try_iter() {
            out(&told);
        }
        if progress.elapsed >= next {
            next = progress.elapsed + TELL_EVERY;
            out(&CopyEvent::Progress {
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
pub(super) fn teller(stdout: impl Write + Send) -> impl Fn(&CopyEvent) + Sync {
    let stdout = std::sync::Mutex::new(stdout);
    move |told| {
        let mut out = stdout
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // If nobody listens any more, this end is told so by the end of its input.
        let _ = handover::write_told(&mut *out, told);
    }
}
