//! A copy that lost its connection connects again and goes on where it was.
//!
//! Only after a connection that was there: a name that is wrong or a server that does not run is told at once.

use crate::{
    Cancel, CopyConfig, Error, ErrorKind, KnownHosts, Progress, Summary, Transport, Trust,
};
use howdah_core::{Rate, Span};
use std::time::{Duration, Instant};

/// Pause before the first attempt; each one after it that nothing came of is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// Large files of a tree that the other side has not let go of are begun anew.
const PAUSE_OF_TREES: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// How often a pause looks whether the user has had enough, and tells that nothing moves.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Of so much that came over one connection something was put on record before it was lost (docs/resume.md), if the place
/// can be gone on with at all: who cannot be sure of that does not try for ever.
const SURELY_KEPT_BYTES: u64 = 64 << 20;
const UNSURE_MAX: u32 = 10;

/// After an error that passes.
pub(crate) const REMEDY: &str = "; the same command goes on where this one ended";

const BACK: &str = "connected again; the copy goes on";

/// What is copied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CopyKind {
    /// One file: each connection counts what is there of it.
    File,
    /// A tree: each connection counts only what it moves itself.
    Tree,
}

/// What one connection is told and asked for.
type Attempt<'a> = dyn FnMut(&CopyConfig, &mut dyn FnMut(&Progress)) -> Result<Summary, Error> + 'a;

/// Calls `attempt` until it succeeds, fails for another reason than a lost connection, or nothing has come for
/// [`CopyConfig::reconnect`].
pub(crate) fn lasting(
    what: CopyKind,
    (config, cancel): (&CopyConfig, &Cancel),
    on_progress: &mut dyn FnMut(&Progress),
    attempt: &mut Attempt<'_>,
) -> Result<Summary, Error> {
    if config.reconnect.is_zero() || config.duration_limit.is_some() {
        return attempt(&config.once(), on_progress);
    }
    let mut whole = Whole::new(what, (config, cancel), on_progress);
    let mut now = config.clone();
    loop {
        match attempt(&now, &mut |progress| whole.on_progress(progress)) {
            Ok(summary) => return Ok(whole.finish(summary)),
            Err(error) if !error.is_lost_connection() => return Err(whole.explain(error)),
            Err(error) => whole.pause_after(error)?,
        }
        now = whole.again()?;
    }
}

/// Another one that does the same over there is waited for so long, however soon a lost connection is given up.
const OTHERS_LAST: Duration = Duration::from_mins(2);

/// Asks again for what may be asked for any number of times, until it is answered: for [`CopyConfig::reconnect`] where connections are lost,
/// and while somebody else is at it.
pub(crate) fn repeated<T>(
    (config, cancel): (&CopyConfig, &Cancel),
    mut ask: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let (begun, mut pause) = (Instant::now(), PAUSE);
    loop {
        let error = match ask() {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let reconnect = Duration::from(config.reconnect);
        let patience = if error.is_busy() {
            reconnect.max(OTHERS_LAST)
        } else {
            reconnect
        };
        let now = Instant::now();
        if !error.is_lost_connection() || now >= begun + patience {
            return Err(error);
        }
        rest(cancel, (now + pause).min(begun + patience), &mut || {})?;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Asks what comes before a copy and may be asked for any number of times: once, and if somebody was there and the connection was lost, again
/// for [`CopyConfig::reconnect`], as the copy itself would. `ask` is told where to tell of its progress.
pub(crate) fn preceding<T>(
    (config, cancel): (&CopyConfig, &Cancel),
    on_progress: &mut dyn FnMut(&Progress),
    mut ask: impl FnMut(&CopyConfig, &mut dyn FnMut(&Progress)) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut was_there = false;
    let first = ask(config, &mut |progress| {
        was_there |= progress.answered;
        on_progress(progress);
    });
    match first {
        Err(error) if error.is_lost_connection() && was_there && !config.reconnect.is_zero() => {
            config.warn.line(&format!(
                "{error}; connecting again for up to {} s (Ctrl-C ends it)",
                config.reconnect.as_millis() / 1000
            ));
            let mut config = config.clone();
            trust_who_was_there(&mut config)?;
            let again = repeated((&config, cancel), || ask(&config, on_progress))?;
            config.note.line(BACK);
            Ok(again)
        }
        first => first,
    }
}

/// Whoever answers now is the one who answered before, and nobody is asked again.
fn trust_who_was_there(config: &mut CopyConfig) -> Result<(), Error> {
    let on_record = !config.known_hosts.path().as_os_str().is_empty();
    if on_record && matches!(config.trust, Trust::Ask(_) | Trust::AcceptNew) {
        config.known_hosts = KnownHosts::load(config.known_hosts.path())?;
        config.trust = Trust::Strict;
    }
    Ok(())
}

/// Until then, unless the user has had enough.
fn rest(cancel: &Cancel, until: Instant, each: &mut dyn FnMut()) -> Result<(), Error> {
    while Instant::now() < until {
        if cancel.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        std::thread::sleep(LOOK_EVERY);
        each();
    }
    Ok(())
}

/// So many attempts after a loss try UDP only, before TCP and the ssh channel are tried as well.
const UDP_ATTEMPTS: u32 = 2;
/// When patience ends that soon, everything is tried at once.
const LAST_ATTEMPTS: Duration = Duration::from_secs(15);

/// All connections of a copy together.
struct Whole<'a> {
    what: CopyKind,
    config: &'a CopyConfig,
    cancel: &'a Cancel,
    on_progress: &'a mut dyn FnMut(&Progress),
    started: Instant,
    /// Not to be counted.
    judged: Span,
    /// Of the present connection.
    attempted: Instant,
    /// What was there before the first one.
    resumed_bytes: u64,
    /// When somebody was there.
    last: Progress,
    /// What there ever was.
    most_bytes: u64,
    most_files: u64,
    /// With what the connection before this one began.
    resumed_before_bytes: u64,
    /// Something came since the last loss; before the first one: somebody answered.
    moved: bool,
    /// Much came, and whether it was kept is not known.
    moved_perhaps: bool,
    unsure: u32,
    lost: Option<Loss>,
    reconnects: u32,
    /// Since the last loss.
    attempts: u32,
}

/// Since a connection was lost and nothing has come.
struct Loss {
    until: Instant,
    pause: Duration,
    /// Nobody has answered since.
    silent: bool,
}

impl<'a> Whole<'a> {
    fn new(
        what: CopyKind,
        (config, cancel): (&'a CopyConfig, &'a Cancel),
        on_progress: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        Self {
            what,
            config,
            cancel,
            on_progress,
            started: Instant::now(),
            judged: Span::ZERO,
            attempted: Instant::now(),
            resumed_bytes: 0,
            last: Progress::default(),
            most_bytes: 0,
            most_files: 0,
            resumed_before_bytes: 0,
            moved: false,
            moved_perhaps: false,
            unsure: 0,
            lost: None,
            reconnects: 0,
            attempts: 0,
        }
    }

    fn on_progress(&mut self, progress: &Progress) {
        let mut progress = progress.clone();
        if self.what == CopyKind::File {
            let before = span(self.attempted - self.started);
            self.judged = self.judged.max(progress.judged);
            // That was within the first one.
            if !before.is_zero() {
                progress.elapsed += before.saturating_sub(self.judged);
            }
        }
        if progress.answered {
            self.on_answered(&mut progress);
        }
        let nothing_yet = !progress.answered || progress.bytes == 0;
        if self.lost.is_some() && nothing_yet {
            // What there is stays in sight.
            self.last.elapsed = self.last.elapsed.max(progress.elapsed);
            (self.on_progress)(&self.last);
            return;
        }
        (self.on_progress)(&progress);
        if progress.answered {
            self.last = progress;
        }
    }

    fn on_answered(&mut self, progress: &mut Progress) {
        self.moved |= self.lost.is_none();
        if let Some(loss) = self.lost.as_mut().filter(|loss| loss.silent) {
            loss.silent = false;
            self.reconnects += 1;
            self.config.note.line(BACK);
        }
        match self.what {
            CopyKind::File => {
                // What a connection begins anew is no progress.
                self.moved |= progress.bytes > self.most_bytes;
                if self.lost.is_none() || self.most_bytes == 0 {
                    self.resumed_bytes = progress.resumed_bytes;
                }
                progress.resumed_bytes = self.resumed_bytes.min(progress.resumed_bytes);
            }
            CopyKind::Tree => {
                let new_bytes = progress.bytes.saturating_sub(progress.resumed_bytes);
                let much = new_bytes > SURELY_KEPT_BYTES;
                let kept = progress.resumed_bytes > self.resumed_before_bytes;
                self.moved |= progress.files_done > self.most_files || much && kept;
                self.moved_perhaps |= much;
            }
        }
        self.most_bytes = self.most_bytes.max(progress.bytes);
        self.most_files = self.most_files.max(progress.files_done);
    }

    /// What cannot be repeated may be complete.
    fn explain(&self, error: Error) -> Error {
        let all_came = self.last.total_bytes == Some(self.most_bytes);
        if self.lost.is_none() || error.kind() != ErrorKind::Refused || !all_came {
            return error;
        }
        let text = format!(
            "{error}; the connection was lost when all bytes had arrived, so the copy may be complete there"
        );
        Error::new(ErrorKind::Network, text)
    }

    /// Whether the last connection was worth another one.
    fn take_moved(&mut self) -> bool {
        let (moved, perhaps) = (
            std::mem::take(&mut self.moved),
            std::mem::take(&mut self.moved_perhaps),
        );
        self.unsure = if moved { 0 } else { self.unsure + 1 };
        moved || (perhaps && self.unsure <= UNSURE_MAX)
    }

    /// Waits before the next attempt, unless there is none.
    fn pause_after(&mut self, error: Error) -> Result<(), Error> {
        let now = Instant::now();
        let patience = Duration::from(self.config.reconnect);
        self.resumed_before_bytes = self.last.resumed_bytes;
        if self.take_moved() {
            let text = error.to_string();
            let text = text.strip_suffix(REMEDY).unwrap_or(&text);
            let seconds = patience.as_secs_f64().ceil();
            self.config.warn.line(&format!(
                "{text}; connecting again for up to {seconds} s, and the copy goes on where it was (Ctrl-C ends it)"
            ));
            self.attempts = 0;
            self.lost = Some(Loss {
                until: now + patience,
                pause: match self.what {
                    CopyKind::File => PAUSE,
                    CopyKind::Tree => PAUSE_OF_TREES,
                },
                silent: true,
            });
        }
        let Some(loss) = &mut self.lost else {
            // Nobody was ever there.
            return Err(error);
        };
        loss.silent = true;
        if now >= loss.until {
            let text = format!("{error} (for {} s nothing has come)", patience.as_secs());
            return Err(error.in_words(text));
        }
        let end = (now + loss.pause).min(loss.until);
        loss.pause = (loss.pause * 2).min(PAUSE_MAX);
        (self.last.goodput_now, self.last.wire_rate_now) = (Rate::ZERO, Rate::ZERO);
        rest(self.cancel, end, &mut || {
            self.last.elapsed += span(LOOK_EVERY);
            (self.on_progress)(&self.last);
        })?;
        self.attempted = Instant::now();
        self.attempts += 1;
        Ok(())
    }

    /// What the next connection is told.
    fn again(&self) -> Result<CopyConfig, Error> {
        let mut config = self.config.clone();
        // What the first one has brought is to be gone on with; what lay there before is removed by then.
        config.resume |= self.most_bytes > 0;
        // A path that is away for a moment must not make it a TCP connection for the rest; one that takes no UDP any
        // more must not end it.
        let last = self.lost.as_ref().is_some_and(|loss| {
            loss.until.saturating_duration_since(Instant::now()) < LAST_ATTEMPTS
        });
        let is_short = self.attempts <= UDP_ATTEMPTS && !last;
        if config.transport == Transport::Auto && !self.last.tunnelled && is_short {
            config.transport = Transport::Udp;
        }
        trust_who_was_there(&mut config)?;
        Ok(config)
    }

    /// The last connection's summary; of a file, as if it had been the only one.
    fn finish(mut self, mut summary: Summary) -> Summary {
        // The last one may have ended before it told of itself.
        if self.lost.is_some_and(|loss| loss.silent) {
            self.reconnects += 1;
            self.config.note.line(BACK);
        }
        summary.reconnects = self.reconnects;
        if summary.reconnects > 0 && self.what == CopyKind::File {
            summary.seconds = self.started.elapsed().as_secs_f64() - self.judged.as_secs_f64();
            summary.resumed_bytes = self.resumed_bytes.min(summary.resumed_bytes);
            let bytes = summary.bytes.saturating_sub(summary.resumed_bytes);
            summary.goodput_bps = bytes as f64 * 8.0 / summary.seconds;
        }
        summary
    }
}

fn span(duration: Duration) -> Span {
    Span::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, Log};
    use std::sync::{Arc, Mutex};

    fn config(said: &Arc<Mutex<Vec<String>>>) -> CopyConfig {
        let identity = Identity::generate().expect("random numbers");
        let mut config = CopyConfig::new(identity, KnownHosts::default());
        config.trust = Trust::Exactly(*config.identity.public_key());
        config.reconnect = Span::from_secs(60);
        let said = Arc::clone(said);
        config.warn = Log::new(move |line| said.lock().expect("no panic").push(line.to_owned()));
        config.note = config.warn.clone();
        config
    }

    fn lost() -> Error {
        Error::new(ErrorKind::Network, "site says nothing any more")
    }

    #[test]
    fn what_another_one_does_is_waited_for_however_soon_a_lost_connection_is_given_up() {
        let mut config = config(&Arc::default());
        config.reconnect = Span::ZERO;
        let (cancel, mut asked) = (Cancel::new(), 0);
        let mut ask = |error: fn() -> Error, most: u32| {
            asked = 0;
            let answer = repeated((&config, &cancel), || {
                asked += 1;
                if asked < most { Err(error()) } else { Ok(()) }
            });
            (answer.map_err(|e| e.kind()), asked)
        };
        assert_eq!(ask(|| lost().busy(), 3), (Ok(()), 3));
        assert_eq!(ask(lost, 3), (Err(ErrorKind::Network), 1));
        let refused = || Error::new(ErrorKind::Refused, "no");
        assert_eq!(ask(refused, 3), (Err(ErrorKind::Refused), 1));
        // Whoever has had enough need not wait for the end of it.
        cancel.cancel();
        assert_eq!(ask(|| lost().busy(), 3), (Err(ErrorKind::Cancelled), 1));
    }

    #[test]
    fn what_comes_before_a_copy_is_asked_again_of_whoever_was_there() {
        let said = Arc::default();
        let config = config(&said);
        let (cancel, mut asked) = (Cancel::new(), 0);
        let mut ask = |config: &CopyConfig, answers: bool, most: u32| {
            asked = 0;
            let answer = preceding((config, &cancel), &mut |_| {}, |_, on_progress| {
                asked += 1;
                if answers {
                    on_progress(&at(0, 0));
                }
                if asked < most { Err(lost()) } else { Ok(()) }
            });
            (answer.map_err(|e| e.kind()), asked)
        };
        assert_eq!(ask(&config, true, 1), (Ok(()), 1));
        assert!(said.lock().expect("no panic").is_empty());
        assert_eq!(ask(&config, false, 2), (Err(ErrorKind::Network), 1));
        assert_eq!(ask(&config.once(), true, 2), (Err(ErrorKind::Network), 1));
        assert_eq!(ask(&config, true, 2), (Ok(()), 2));
        let said = said.lock().expect("no panic");
        assert!(
            said[0].contains("connecting again") && said[1] == BACK,
            "{said:?}"
        );
    }

    fn at(bytes: u64, resumed_bytes: u64) -> Progress {
        Progress {
            bytes,
            resumed_bytes,
            answered: true,
            ..Progress::default()
        }
    }

    #[test]
    fn what_was_never_there_is_told_at_once_and_other_failures_too() {
        let config = config(&Arc::default());
        for kind in [ErrorKind::Network, ErrorKind::Auth, ErrorKind::NoSpace] {
            let mut calls = 0;
            let result = lasting(
                CopyKind::File,
                (&config, &Cancel::new()),
                &mut |_| (),
                &mut |_, show| {
                    calls += 1;
                    if kind != ErrorKind::Network {
                        show(&at(5, 0));
                    }
                    Err(Error::new(kind, "no"))
                },
            );
            assert_eq!((result.expect_err("it fails").kind(), calls), (kind, 1));
        }
    }

    #[test]
    fn a_lost_connection_is_made_again_and_the_sum_is_of_the_whole() {
        let said = Arc::default();
        let mut config = config(&said);
        config.resume = false;
        let mut calls = 0;
        let mut shown = Vec::new();
        let mut on_progress = |p: &Progress| shown.push((p.bytes, p.resumed_bytes));
        let summary = lasting(
            CopyKind::File,
            (&config, &Cancel::new()),
            &mut on_progress,
            &mut |now, show| {
                calls += 1;
                assert_eq!(
                    now.resume,
                    calls > 1,
                    "the first begins anew as it was told"
                );
                match calls {
                    1 => show(&at(100, 20)),
                    // Nobody there yet.
                    2 => {}
                    _ => {
                        assert_eq!(now.transport, Transport::Udp);
                        show(&at(150, 90));
                        return Ok(Summary {
                            bytes: 200,
                            resumed_bytes: 90,
                            seconds: 0.1,
                            ..Summary::default()
                        });
                    }
                }
                Err(lost())
            },
        );
        let summary = summary.expect("it ends well");
        assert_eq!(
            (summary.bytes, summary.resumed_bytes, summary.reconnects),
            (200, 20, 1)
        );
        assert!(summary.seconds >= (PAUSE * 3).as_secs_f64());
        assert_eq!(shown.first(), Some(&(100, 20)));
        assert_eq!(shown.last(), Some(&(150, 20)));
        let said = said.lock().expect("no panic").clone();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0].contains("connecting again for up to 60 s"),
            "{said:?}"
        );
    }

    /// What the connections tell of a tree, each until it is lost; returns how many there were.
    fn tree(tells: &dyn Fn(u32) -> Progress) -> u32 {
        let mut config = config(&Arc::default());
        config.reconnect = Span::from_millis(700);
        let mut calls = 0;
        let result = lasting(
            CopyKind::Tree,
            (&config, &Cancel::new()),
            &mut |_| (),
            &mut |_, show| {
                calls += 1;
                if calls == 4 {
                    return Ok(Summary::default());
                }
                show(&tells(calls));
                Err(lost())
            },
        );
        assert_eq!(result.is_ok(), calls == 4);
        calls
    }

    #[test]
    fn a_tree_moves_when_more_of_it_is_in_place() {
        let files = |files_done| Progress {
            files_done,
            ..at(1_000, 0)
        };
        assert_eq!(tree(&|call| files(u64::from(call))), 4);
        // What is found to be there is no news.
        assert!(tree(&|_| files(3)) < 4);
        // Of a large file so much was kept.
        let much = SURELY_KEPT_BYTES + 1;
        let large = |call| at(u64::from(call) * much, u64::from(call - 1) * much);
        assert_eq!(tree(&large), 4);
    }

    #[test]
    fn t28_a_path_that_takes_no_udp_any_more_is_gone_on_with_over_whatever_gets_through() {
        let config = config(&Arc::default());
        let (mut calls, mut tried) = (0, Vec::new());
        let result = lasting(
            CopyKind::File,
            (&config, &Cancel::new()),
            &mut |_| (),
            &mut |now, show| {
                calls += 1;
                tried.push(now.transport);
                match calls {
                    1 => show(&at(100, 0)),
                    4 => {
                        show(&at(150, 100));
                        return Ok(Summary::default());
                    }
                    _ => {}
                }
                Err(lost())
            },
        );
        assert_eq!(result.expect("it ends well").reconnects, 1);
        let expected = [
            Transport::Auto,
            Transport::Udp,
            Transport::Udp,
            Transport::Auto,
        ];
        assert_eq!(tried, expected);
    }

    #[test]
    fn a_tunnel_stays_a_choice_and_what_is_shown_does_not_go_back() {
        let config = config(&Arc::default());
        let tunnelled = |answered| Progress {
            answered,
            tunnelled: answered,
            bytes: if answered { 70 } else { 0 },
            ..Progress::default()
        };
        let (mut calls, mut shown) = (0, Vec::new());
        let mut on_progress = |p: &Progress| shown.push(p.bytes);
        let result = lasting(
            CopyKind::File,
            (&config, &Cancel::new()),
            &mut on_progress,
            &mut |now, show| {
                calls += 1;
                assert_eq!(now.transport, Transport::Auto);
                // The second one finds nobody, and tries UDP before TCP.
                show(&tunnelled(calls != 2));
                if calls == 3 {
                    return Ok(Summary::default());
                }
                Err(lost())
            },
        );
        assert_eq!(result.expect("it ends well").reconnects, 1);
        assert!(shown.iter().all(|bytes| *bytes == 70), "{shown:?}");
    }

    #[test]
    fn patience_ends_and_so_does_the_user() {
        let mut config = config(&Arc::default());
        config.reconnect = Span::from_millis(1_200);
        let run = |config: &CopyConfig, cancel: &Cancel| {
            let mut first = true;
            let result = lasting(
                CopyKind::File,
                (config, cancel),
                &mut |_| (),
                &mut |_, show| {
                    if std::mem::take(&mut first) {
                        show(&at(1, 0));
                    }
                    Err(lost())
                },
            );
            result.expect_err("nobody comes")
        };
        let error = run(&config, &Cancel::new());
        assert_eq!(error.kind(), ErrorKind::Network);
        assert!(error.to_string().contains("nothing has come"), "{error}");
        let cancel = Cancel::new();
        cancel.cancel();
        assert_eq!(run(&config, &cancel).kind(), ErrorKind::Cancelled);
    }
}
