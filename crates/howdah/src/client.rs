//! The client's end of one copy.

use crate::keys::PublicKey;
use crate::session::message::{BOTTLENECKS, IP_UDP_BYTES, Message, SideReport};
use crate::session::pace::Pace;
use crate::session::receiving::{Place, Receiving};
use crate::session::resume::{WireHeld, WireIdentity};
use crate::session::sending::Sending;
use crate::session::tree::{Contents, Tree};
use crate::session::waits::{Wait, WaitClock};
use crate::session::{from_connection, from_store};
use crate::{Cancel, CopyConfig, Error, ErrorKind, Location, Progress, RatePolicy, Summary};
use howdah_core::{Rate, Span, Time};
use howdah_net::{Application, Attended, ConnKey, Placement, Usage, Waker};
use howdah_proto::error::{CloseCode, ConnectionError};
use howdah_proto::{Connection, Event, Stats};
use howdah_store::{
    NOTE_DELETE, Sink, SinkOptions, SinkSpec, Source, SourceIdentity, SourceSpec, StoreError,
    Target, TreeOptions, TreeReport, TreeSource, TreeTarget, Wake,
};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::JoinHandle;

/// How often progress is told and the cancel switch looked at.
const TICK: Span = Span::from_millis(100);
/// Ticks over which the goodput of now is measured.
const NOW_TICKS: usize = 10;

/// What the copy is to do.
#[derive(Debug)]
pub(crate) enum Task {
    /// Local bytes to the server.
    Put { source: Location, path: String },
    /// The server's bytes to here.
    Get { path: String, destination: Location },
    /// Local trees to the server. The source is taken when it begins.
    PutTree {
        source: Option<TreeSource>,
        path: String,
        options: TreeOptions,
    },
    /// The server's trees to here.
    GetTree {
        paths: Vec<String>,
        target: Option<TreeTarget>,
        options: TreeOptions,
    },
}

impl Task {
    /// Whether the data goes to the server.
    fn is_put(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::PutTree { .. })
    }
}

/// What has passed until a tick.
#[derive(Clone, Copy, Debug)]
struct Tick {
    bytes: u64,
    /// IP packets' bytes in the direction of the data.
    wire_bytes: u64,
    /// The far sender's packets: sent as far as is known, and arrived.
    numbered: u64,
    arrived: u64,
}

impl Tick {
    fn new(bytes: u64, stats: &Stats, is_sender: bool) -> Self {
        let (payload, datagrams) = if is_sender {
            (stats.bytes_sent, stats.datagrams_sent)
        } else {
            (stats.bytes_received, stats.packets_received)
        };
        Self {
            bytes,
            wire_bytes: payload + IP_UDP_BYTES * datagrams,
            numbered: stats.packets_numbered_by_peer,
            arrived: stats.packets_received,
        }
    }

    /// Share of the packets since `first` that has not arrived.
    fn missing_since(&self, first: &Self) -> f64 {
        let numbered = self.numbered.saturating_sub(first.numbered);
        let arrived = self.arrived.saturating_sub(first.arrived);
        numbered.saturating_sub(arrived) as f64 / numbered.max(1) as f64
    }
}

#[derive(Debug)]
enum Step {
    /// No connection yet.
    Connecting,
    /// Somebody looks at the server's key.
    Judging(Receiver<Result<(), Error>>),
    /// Asked for an object, no answer yet.
    Asked,
    /// Bytes move.
    Moving,
    /// All is here; the server's figures are on their way.
    Thanking(SideReport),
    /// Over.
    Ended(Result<Box<(SideReport, SideReport)>, Error>),
}

/// The application of a copying client.
pub(crate) struct Client<'a> {
    task: Task,
    config: &'a CopyConfig,
    cancel: &'a Cancel,
    on_progress: &'a mut dyn FnMut(&Progress),
    host: String,
    port: u16,
    /// Of the endpoint in use.
    waker: Option<Waker>,
    step: Step,
    wait: WaitClock,
    /// Why no connection came about: the address is to blame, another one may do.
    unanswered: Option<ConnectionError>,
    sending: Option<Sending>,
    receiving: Option<Receiving>,
    tree: Option<Tree>,
    /// Where a tree's streams go, until the server says which they are.
    contents: Option<Contents>,
    /// The receiver of a tree is done and says that.
    tree_done: Option<(SideReport, TreeReport)>,
    /// The result of a tree.
    tree_report: Option<TreeReport>,
    /// Threads that give what came its names.
    ending: Vec<JoinHandle<()>>,
    /// Of a file that was asked for, until it comes.
    target: Option<Target>,
    /// Bytes that were there before.
    held_bytes: u64,
    /// The same command goes on where this one ended.
    can_go_on: bool,
    start: Usage,
    started_at: Time,
    moving_since: Option<Time>,
    pub(crate) ended_at: Time,
    next_tick: Time,
    ticks: VecDeque<Tick>,
    tick_count: u64,
    per_second: Vec<f64>,
    second_bytes: u64,
    total: Option<u64>,
    progress: Progress,
    /// What this host does not grant has been told.
    advised: bool,
    /// The pace that is in force.
    pace: Pace,
}

impl<'a> Client<'a> {
    pub(crate) fn new(
        task: Task,
        config: &'a CopyConfig,
        cancel: &'a Cancel,
        on_progress: &'a mut dyn FnMut(&Progress),
        (host, port): (String, u16),
        now: Time,
    ) -> Self {
        Self {
            task,
            config,
            cancel,
            on_progress,
            host,
            port,
            waker: None,
            step: Step::Connecting,
            wait: WaitClock::default(),
            unanswered: None,
            sending: None,
            receiving: None,
            tree: None,
            contents: None,
            tree_done: None,
            tree_report: None,
            ending: Vec::new(),
            target: None,
            held_bytes: 0,
            can_go_on: false,
            start: howdah_net::usage(),
            started_at: now,
            moving_since: None,
            ended_at: now,
            next_tick: now + TICK,
            ticks: VecDeque::new(),
            tick_count: 0,
            per_second: Vec::new(),
            second_bytes: 0,
            total: None,
            progress: Progress::default(),
            advised: false,
            pace: Pace::default(),
        }
    }

    /// Begins anew with another address of the host, on the endpoint of `waker`.
    pub(crate) fn begin_attempt(&mut self, waker: Waker) {
        self.waker = Some(waker);
        self.unanswered = None;
        self.step = Step::Connecting;
    }

    /// Tells once what this host does not grant, if this copy needs it.
    pub(crate) fn advise(&mut self, advice: &str) {
        if !self.task.is_put() && !std::mem::replace(&mut self.advised, true) {
            self.config.warn.line(advice);
        }
    }

    /// Why the address that was tried last does not answer, if that is how the attempt ended.
    pub(crate) fn unanswered(&self) -> Option<&ConnectionError> {
        self.unanswered.as_ref()
    }

    pub(crate) fn peer(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    fn wake(&self) -> Wake {
        let waker = self.waker.clone();
        Arc::new(move || {
            if let Some(waker) = &waker {
                waker.wake();
            }
        })
    }

    /// The result, once [`Application::keep_running`] has said no.
    pub(crate) fn into_result(mut self) -> Result<Summary, Error> {
        self.stop_tree();
        for thread in self.ending.drain(..) {
            let _ = thread.join();
        }
        let peer = self.peer();
        let (local, remote) = match self.step {
            Step::Ended(result) => *result?,
            _ => {
                return Err(Error::new(
                    ErrorKind::Network,
                    format!("{peer}: not finished"),
                ));
            }
        };
        let (sender, receiver) = if self.task.is_put() {
            (local, remote)
        } else {
            (remote, local)
        };
        let seconds = self.ended_at.since(self.started_at).as_secs_f64();
        let bytes = self.progress.bytes;
        let moved = bytes.saturating_sub(self.held_bytes);
        Ok(Summary {
            bytes,
            resumed_bytes: self.held_bytes,
            seconds,
            goodput_bps: moved as f64 * 8.0 / seconds.max(1e-9),
            wire_bytes: sender.wire_bytes,
            retransmitted_bytes: sender.repeated_bytes,
            feedback_bytes: receiver.wire_bytes,
            rtt_min_us: sender.rtt_min_us,
            loss_rate: sender.loss_rate(),
            mtu: sender.mtu,
            sender: sender.usage(),
            receiver: receiver.usage(),
            verified: match (receiver.hashed, receiver.reread) {
                (true, true) => "reread",
                (true, false) => "blake3",
                (false, _) => "aead",
            }
            .to_owned(),
            bottleneck: BOTTLENECKS
                .get(usize::from(sender.bottleneck))
                .copied()
                .unwrap_or("network")
                .to_owned(),
            goodput_per_second_bps: self.per_second,
            tree: self.tree_report,
        })
    }

    fn end(&mut self, now: Time, result: Result<(SideReport, SideReport), Error>) {
        if !matches!(self.step, Step::Ended(_)) {
            self.ended_at = now;
            self.step = Step::Ended(result.map(Box::new));
        }
    }

    fn stop_tree(&mut self) {
        self.contents = None;
        if let Some(tree) = self.tree.take() {
            self.ending.extend(tree.stop());
        }
    }

    /// Whether the same command goes on where this one ended.
    fn can_go_on(&self) -> bool {
        self.can_go_on && self.receiving.as_ref().is_none_or(|r| r.kept_bytes() > 0)
    }

    /// An error of a kind that passes, with what to do.
    fn with_remedy(&self, error: Error) -> Error {
        let passes = matches!(error.kind(), ErrorKind::Network | ErrorKind::NoSpace);
        if !passes || !self.can_go_on() {
            return error;
        }
        let text = format!("{error}; the same command goes on where this one ended");
        Error::new(error.kind(), text)
    }

    /// Ends with an error and lets the server know.
    fn fail(&mut self, now: Time, connection: &mut Connection, error: Error) {
        let error = self.with_remedy(error);
        let code = if error.kind() == ErrorKind::Protocol {
            CloseCode::Protocol
        } else {
            CloseCode::Application
        };
        connection.close(now, code, &error.to_string());
        // Drop the sink before the process ends: it removes its temporary file.
        self.receiving = None;
        self.sending = None;
        self.stop_tree();
        self.end(now, Err(error));
    }

    // ---- Steps -------------------------------------------------------------------------------

    fn judge(&mut self, peer_key: &[u8]) -> Result<(), Error> {
        let key = PublicKey::from_spki_der(peer_key)
            .ok_or_else(|| Error::new(ErrorKind::Auth, "the server's key is no Ed25519 key"))?;
        // Asking somebody takes long, and the connection must be kept alive meanwhile.
        let (tell, judgement) = channel();
        let (host, port, trust) = (self.host.clone(), self.port, self.config.trust.clone());
        let mut known = self.config.known_hosts.clone();
        let wake = self.wake();
        std::thread::Builder::new()
            .name("howdah-trust".into())
            .spawn(move || {
                let result = known.verify(&host, port, &key, &trust);
                let _ = tell.send(result.map_err(Error::from));
                wake();
            })
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))?;
        self.step = Step::Judging(judgement);
        Ok(())
    }

    /// Makes the side that sends keep the pace that the user wants now.
    fn keep_pace(&mut self, now: Time, connection: &mut Connection) {
        let pace = Pace::new(self.config.policy, &self.config.throttle);
        if pace == self.pace {
            return;
        }
        self.pace = pace;
        if self.task.is_put() {
            pace.apply(now, connection, None);
        } else {
            connection.send_control(&Message::Pace(pace).encode());
        }
    }

    fn begin(&mut self, connection: &mut Connection) -> Result<(), Error> {
        match &self.task {
            Task::Put { source, path } => {
                let hash = path != "null:" && self.config.duration_limit.is_none();
                let spec = match source {
                    Location::File(path) => SourceSpec::LocalFile(path),
                    Location::Stdio => SourceSpec::Reader(Box::new(stdin()?)),
                    Location::Zero(size) => SourceSpec::Zero(*size),
                    Location::Null | Location::Remote { .. } | Location::Ssh(_) => {
                        return Err(Error::new(ErrorKind::Usage, "nothing can be read there"));
                    }
                };
                let name = match source {
                    Location::File(path) => path.file_name(),
                    _ => None,
                };
                let name = name.map(|name| name.to_string_lossy().into_owned());
                self.progress.current = name.iter().cloned().collect();
                let source = Source::open(spec, hash, self.wake()).map_err(|e| from_store(&e))?;
                let object = connection.allocate_object();
                // A copy that will be cut does not know its size yet.
                let cuttable = self.config.duration_limit.is_some();
                let size = source.size().filter(|_| !cuttable);
                let path = path.clone();
                self.total = size;
                let mut sending = Sending::new(connection, object, source, hash, None);
                sending.cuttable = cuttable;
                let source = sending.offer();
                self.can_go_on = source.is_some();
                connection.send_control(
                    &Message::Put {
                        object,
                        path,
                        name,
                        size,
                        hash,
                        source: source.as_ref().map(WireIdentity::from),
                        resume: self.config.resume,
                        reread: self.config.reread,
                    }
                    .encode(),
                );
                self.sending = Some(sending);
                self.step = Step::Moving;
            }
            Task::Get { path, destination } => {
                let hash = !matches!(destination, Location::Null);
                // The window of a pipe is opened once the sink exists.
                let window_end = matches!(destination, Location::Stdio).then_some(0);
                let path = path.clone();
                self.progress.current = vec![path.clone()];
                let target = self.open_target().map_err(|e| from_store(&e))?;
                let held = target.as_ref().and_then(Target::held);
                let held = held.filter(|_| self.config.resume).map(WireHeld::from);
                let values = target.is_some();
                self.target = target;
                connection.send_control(
                    &Message::Get {
                        path,
                        window_end,
                        hash,
                        held,
                        values,
                    }
                    .encode(),
                );
                self.step = Step::Asked;
            }
            Task::PutTree { .. } | Task::GetTree { .. } => self.begin_tree(connection)?,
        }
        Ok(())
    }

    fn begin_tree(&mut self, connection: &mut Connection) -> Result<(), Error> {
        let wake = self.wake();
        let again = || Error::new(ErrorKind::Network, "the connection began twice");
        match &mut self.task {
            Task::PutTree {
                source,
                path,
                options,
            } => {
                let source = source.take().ok_or_else(again)?;
                let several = source.len() > 1;
                let announce = |manifest, packs| Message::TreePut {
                    manifest,
                    packs,
                    path: path.clone(),
                    several,
                    // The list is for the one who walks.
                    options: TreeOptions {
                        files: None,
                        ..options.clone()
                    },
                };
                self.tree = Some(Tree::send(connection, source, options, &wake, announce)?);
                self.step = Step::Moving;
            }
            Task::GetTree {
                paths,
                target,
                options,
            } => {
                let target = target.take().ok_or_else(again)?;
                let several = paths.len() > 1;
                let announce = |answers| Message::TreeGet {
                    answers,
                    paths: paths.clone(),
                    options: options.clone(),
                };
                let (tree, contents) =
                    Tree::receive(connection, target, several, options, true, &wake, announce)?;
                self.tree = Some(tree);
                self.contents = Some(contents);
                self.step = Step::Asked;
            }
            Task::Put { .. } | Task::Get { .. } => {}
        }
        Ok(())
    }

    /// What the server says about a tree.
    fn on_tree_message(
        &mut self,
        now: Time,
        connection: &mut Connection,
        message: &Message,
    ) -> Result<(), Error> {
        let wake = self.wake();
        let out_of_turn = || Error::new(ErrorKind::Protocol, "the server answers out of turn");
        if let (Message::TreeThanks { side, report }, Step::Thanking(local)) = (message, &self.step)
        {
            let local = *local;
            let ours = self.tree_report.take();
            self.tree_report = ours.map(|ours| TreeReport::merged(report, &ours));
            self.step = Step::Ended(Ok(Box::new((local, *side))));
            connection.close(now, CloseCode::Done, "");
            return Ok(());
        }
        let tree = self.tree.as_mut().ok_or_else(out_of_turn)?;
        match message {
            Message::TreeAccepted { answers } => tree.open_answers(connection, *answers, &wake),
            Message::TreeComes { manifest, packs } => {
                let contents = self.contents.take().ok_or_else(out_of_turn)?;
                self.step = Step::Moving;
                tree.open_contents(connection, contents, (*manifest, *packs), &wake)
            }
            Message::TreeDone { side, report } => {
                if !self.task.is_put() {
                    return Err(out_of_turn());
                }
                // Its last words about what it wants may still be on their way.
                self.tree_done = Some((*side, report.clone()));
                self.move_tree(now, connection)
            }
            message => tree.on_message(connection, message),
        }
    }

    /// The file that is to be received, and what is there of it.
    fn open_target(&self) -> Result<Option<Target>, StoreError> {
        let Task::Get {
            path,
            destination: Location::File(target),
        } = &self.task
        else {
            return Ok(None);
        };
        if target.as_os_str().as_encoded_bytes().ends_with(b"/") || target.is_dir() {
            let below = target.join(Path::new(path).file_name().unwrap_or_default());
            return Target::open_local(&below).map(Some);
        }
        Target::open_local(target).map(Some)
    }

    fn place_for(
        &mut self,
        size: Option<u64>,
        hash: bool,
        source: Option<SourceIdentity>,
    ) -> Result<Place, StoreError> {
        let wake = self.wake();
        if let Some(target) = self.target.take() {
            let held = target.held().cloned();
            let options = SinkOptions {
                hash,
                size,
                source,
                reread: self.config.reread,
                ..SinkOptions::default()
            };
            let target = if self.config.resume {
                target
            } else {
                target.anew()
            };
            let sink = Sink::resume(target, &options, wake)?;
            self.held_bytes = sink.held().byte_count();
            self.can_go_on = sink.wants_values();
            match (held, source) {
                (Some(held), Some(source)) if self.config.resume => {
                    let changed = held.source.difference(&source);
                    self.tell_resumed(changed.as_deref());
                }
                _ => {}
            }
            return Ok(Place::Store(sink));
        }
        match &self.task {
            Task::Get {
                destination: Location::Stdio,
                ..
            } => {
                let writer = SinkSpec::Writer(Box::new(stdout()?));
                Sink::create(writer, hash, size, wake).map(Place::Store)
            }
            _ => Ok(Place::Null { bytes: 0 }),
        }
    }

    /// Says what becomes of an interrupted copy that was found.
    fn tell_resumed(&self, changed: Option<&str>) {
        if let Some(changed) = changed {
            self.config.warn.line(&format!(
                "the source has changed since the copy that was interrupted ({changed}); \
                 it begins anew"
            ));
        } else if self.held_bytes > 0 {
            let mib = self.held_bytes >> 20;
            self.config.warn.line(&format!(
                "going on with a copy that was interrupted: {mib} MiB are there already"
            ));
        }
    }

    fn on_message(
        &mut self,
        now: Time,
        connection: &mut Connection,
        message: Message,
    ) -> Result<(), Error> {
        match message {
            Message::Fail { .. } => {}
            _ if self.tree.is_some() => return self.on_tree_message(now, connection, &message),
            _ => {}
        }
        match message {
            Message::Sending {
                object,
                size,
                hash,
                source,
                resumed,
            } if matches!(self.step, Step::Asked) => {
                let source = source.map(SourceIdentity::from);
                let place = self
                    .place_for(size, hash, source)
                    .map_err(|e| from_store(&e))?;
                if resumed != (self.held_bytes > 0) {
                    return Err(Error::new(
                        ErrorKind::Protocol,
                        "the server goes on with another copy than this one",
                    ));
                }
                let window = match &place {
                    Place::Store(sink) => sink.window_end(),
                    Place::Null { .. } => None,
                };
                self.receiving = Some(Receiving::new(connection, object, place, size, hash)?);
                if let Some(window) = window {
                    connection.grant_window(object, window);
                }
                self.total = size;
                self.step = Step::Moving;
            }
            Message::Ready {
                object,
                held,
                values,
                changed,
            } => {
                let sending = self.sending.as_mut().filter(|s| s.object == object);
                if let Some(sending) = sending {
                    sending.on_ready(connection, &held, values)?;
                    self.held_bytes = sending.held_bytes;
                    self.can_go_on = values;
                    let changed: Option<String> =
                        changed.map(|text| text.chars().filter(|c| !c.is_control()).collect());
                    self.tell_resumed(changed.as_deref());
                }
            }
            Message::Values {
                object,
                first,
                values,
            } => {
                if let Some(receiving) = self.receiving.as_mut().filter(|r| r.object == object) {
                    receiving.on_values(first, &values)?;
                }
            }
            Message::End {
                object,
                size,
                blake3,
            } => {
                if let Some(receiving) = self.receiving.as_mut().filter(|r| r.object == object) {
                    self.total = Some(size);
                    receiving.on_end(connection, size, blake3)?;
                }
            }
            Message::Done { object, side } => {
                if let Some(sending) = self.sending.take_if(|s| s.object == object) {
                    self.progress.bytes = sending.ended.unwrap_or(self.progress.bytes);
                    connection.finish_sending(object);
                    let mut local = SideReport::new(self.start, &connection.stats());
                    let fixed = matches!(self.config.policy, RatePolicy::Fixed(_));
                    local.bottleneck = sending.waits.verdict(fixed);
                    self.end(now, Ok((local, side)));
                    connection.close(now, CloseCode::Done, "");
                }
            }
            Message::Thanks { side } => {
                if let Step::Thanking(local) = self.step {
                    self.step = Step::Ended(Ok(Box::new((local, side))));
                    connection.close(now, CloseCode::Done, "");
                }
            }
            Message::Fail { kind, message } => {
                return Err(Message::failure(kind, &message, &self.peer()));
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::Protocol,
                    "the server answers out of turn",
                ));
            }
        }
        Ok(())
    }

    /// What of the other side (or of somebody who is asked) is missing now.
    fn waits_for(&self, connection: &Connection) -> Option<Wait> {
        match self.step {
            // The connection has clocks of its own for these.
            Step::Connecting | Step::Ended(_) => None,
            Step::Judging(_) => Some(Wait::Judgement),
            Step::Asked => Some(Wait::Answer),
            Step::Thanking(_) => Some(Wait::Thanks),
            Step::Moving if self.tree.is_some() => None,
            Step::Moving => match (&self.sending, &self.receiving) {
                (Some(sending), _) if sending.waits_for_ready() => Some(Wait::Answer),
                (Some(sending), _) => {
                    let arrived = connection.acked_bytes(sending.object);
                    (sending.ended == Some(arrived)).then_some(Wait::Verdict)
                }
                (None, Some(receiving)) => receiving.waits_for_end().then_some(Wait::End),
                (None, None) => None,
            },
        }
    }

    /// Nothing came within the time that it may take.
    fn on_wait_over(&mut self, now: Time, connection: &mut Connection, wait: Wait) {
        if let Step::Thanking(local) = self.step {
            // The bytes are here and right; only the server's figures are missing.
            self.step = Step::Ended(Ok(Box::new((local, SideReport::default()))));
            connection.close(now, CloseCode::Done, "");
            return;
        }
        let (peer, seconds) = (self.peer(), wait.limit().as_millis() / 1000);
        let (kind, what) = match wait {
            Wait::Judgement => (
                ErrorKind::Auth,
                format!("nobody has judged the key of {peer}"),
            ),
            Wait::Verdict => (
                ErrorKind::Network,
                format!("{peer} has all bytes but does not say that they are stored"),
            ),
            Wait::End => (
                ErrorKind::Network,
                format!("{peer} has sent all bytes but not their end"),
            ),
            _ => (
                ErrorKind::Network,
                format!("{peer} is there but does not answer the request"),
            ),
        };
        let error = Error::new(kind, format!("{what} within {seconds} s; try again later"));
        self.fail(now, connection, error);
    }

    fn move_on(&mut self, now: Time, connection: &mut Connection) -> Result<(), Error> {
        if let Step::Judging(judgement) = &self.step {
            match judgement.try_recv() {
                Ok(result) => {
                    result?;
                    self.keep_pace(now, connection);
                    self.begin(connection)?;
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    return Err(Error::new(
                        ErrorKind::Auth,
                        "nobody judged the server's key",
                    ));
                }
            }
        }
        if let Some(sending) = &mut self.sending {
            sending.poll(now, connection)?;
            let object = sending.object;
            if connection.sent_end(object) > 0 {
                self.moving_since.get_or_insert(now);
            }
            if let (Some(limit), Some(since)) = (self.config.duration_limit, self.moving_since)
                && now.since(since) >= limit
            {
                sending.cut(connection);
            }
            self.progress.bytes = connection.acked_bytes(object);
        }
        self.move_tree(now, connection)?;
        if let Some(receiving) = &mut self.receiving {
            self.progress.bytes = connection.received_bytes(receiving.object);
            if let Some(arrived) = receiving.poll(connection)? {
                let object = receiving.object;
                self.receiving = None;
                connection.finish_receiving(object);
                let mut side = SideReport::new(self.start, &connection.stats());
                side.hashed = arrived.hashed;
                side.reread = arrived.reread;
                connection.send_control(&Message::Done { object, side }.encode());
                self.ended_at = now;
                self.step = Step::Thanking(side);
            }
        }
        Ok(())
    }

    fn move_tree(&mut self, now: Time, connection: &mut Connection) -> Result<(), Error> {
        let Some(tree) = self.tree.as_mut() else {
            return Ok(());
        };
        let received = tree.poll(now, connection)?;
        for (kind, path) in tree.take_notes() {
            let word = if kind == NOTE_DELETE {
                "delete"
            } else {
                "copy"
            };
            let path = String::from_utf8_lossy(&path);
            self.config.listing.line(&format!("{word} {path}"));
        }
        let progress = tree.progress(connection);
        self.progress.bytes = progress.bytes;
        self.progress.files_done = progress.files + progress.unchanged;
        self.total = None;
        self.progress.files_total = None;
        if progress.wanted_files > 0 {
            self.total = Some(progress.wanted_bytes);
            self.progress.files_total = Some(progress.wanted_files + progress.unchanged);
        }
        self.progress.current.clear();
        self.progress.current.push(progress.current);
        if tree.is_answered()
            && let Some((side, report)) = self.tree_done.take()
        {
            let ours = tree.report();
            tree.finish(connection);
            let mut local = SideReport::new(self.start, &connection.stats());
            let fixed = matches!(self.config.policy, RatePolicy::Fixed(_));
            local.bottleneck = tree.waits().verdict(fixed);
            let thanks = Message::TreeThanks {
                side: local,
                report: ours.clone(),
            };
            connection.send_control(&thanks.encode());
            self.progress.bytes = report.bytes;
            self.tree_report = Some(TreeReport::merged(&ours, &report));
            self.end(now, Ok((local, side)));
            connection.close(now, CloseCode::Done, "");
            return Ok(());
        }
        if let Some(report) = received {
            tree.finish(connection);
            let mut side = SideReport::new(self.start, &connection.stats());
            side.hashed = true;
            let done = Message::TreeDone {
                side,
                report: report.clone(),
            };
            connection.send_control(&done.encode());
            self.progress.bytes = report.bytes;
            self.tree_report = Some(report);
            self.ended_at = now;
            self.step = Step::Thanking(side);
        }
        Ok(())
    }

    // ---- Progress ----------------------------------------------------------------------------

    fn tick(&mut self, now: Time, connection: &mut Connection) {
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK;
        let bytes = self.progress.bytes.saturating_sub(self.held_bytes);
        let stats = connection.stats();
        let is_sender = self.task.is_put();
        self.ticks.push_back(Tick::new(bytes, &stats, is_sender));
        while self.ticks.len() > NOW_TICKS + 1 {
            self.ticks.pop_front();
        }
        let span = TICK * (self.ticks.len() as u64 - 1);
        let last = Tick::new(bytes, &stats, is_sender);
        let first = self.ticks.front().copied().unwrap_or(last);
        self.progress.total_bytes = self.total;
        self.progress.resumed_bytes = self.held_bytes;
        self.progress.elapsed = now.since(self.started_at);
        self.progress.goodput_now = if span.is_zero() {
            Rate::ZERO
        } else {
            Rate::from_bytes_over(bytes.saturating_sub(first.bytes), span)
        };
        self.progress.wire_rate_now = if span.is_zero() {
            Rate::ZERO
        } else {
            Rate::from_bytes_over(last.wire_bytes.saturating_sub(first.wire_bytes), span)
        };
        self.progress.rtt = stats.rtt;
        self.progress.loss = if is_sender {
            stats.recent_loss
        } else {
            last.missing_since(&first)
        };
        self.progress.pacing_rate = stats.pacing_rate;
        self.progress.queue_delay = stats.queue_delay;
        self.progress.limit = self.config.throttle.limit();
        self.progress.paused = self.config.throttle.is_paused();
        if self.tree.is_none() {
            self.progress.files_total = Some(1);
        }
        (self.on_progress)(&self.progress);
        let seconds = now.since(self.started_at).as_nanos() / 1_000_000_000;
        if seconds > self.tick_count {
            self.tick_count = seconds;
            self.per_second
                .push(bytes.saturating_sub(self.second_bytes) as f64 * 8.0);
            self.second_bytes = bytes;
        }
    }
}

/// Standard input without a lock held by this process' printing.
fn stdin() -> Result<std::fs::File, Error> {
    std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map(std::fs::File::from)
        .map_err(|e| Error::new(ErrorKind::Io, format!("cannot read standard input: {e}")))
}

fn stdout() -> Result<std::fs::File, StoreError> {
    let owned = std::io::stdout().as_fd().try_clone_to_owned();
    owned.map(std::fs::File::from).map_err(|e| StoreError::Io {
        path: PathBuf::from("-"),
        operation: "write to",
        source: Arc::new(e),
    })
}

impl Application for Client<'_> {
    fn on_event(&mut self, now: Time, _key: ConnKey, connection: &mut Connection, event: Event) {
        let result = match event {
            Event::Connected { peer_key } => self.judge(&peer_key),
            Event::Control(bytes) => Message::decode(&bytes)
                .map_err(|e| Error::new(e.kind(), format!("{} {e}", self.peer())))
                .and_then(|message| self.on_message(now, connection, message)),
            Event::ObjectComplete(object) => {
                if let Some(receiving) = self.receiving.as_mut().filter(|r| r.object == object) {
                    receiving.on_complete();
                }
                if let Some(tree) = &mut self.tree {
                    tree.on_complete(object);
                }
                Ok(())
            }
            Event::Closed(error) => {
                let why = self.with_remedy(from_connection(&error, &self.peer()));
                self.receiving = None;
                self.sending = None;
                self.stop_tree();
                if matches!(self.step, Step::Connecting)
                    && matches!(
                        error,
                        ConnectionError::NoAnswer | ConnectionError::Unreachable
                    )
                {
                    self.unanswered = Some(error.clone());
                }
                match self.step {
                    // The bytes are here and right; only the server's figures are missing.
                    Step::Thanking(local) => {
                        let nothing = SideReport::default();
                        self.step = Step::Ended(Ok(Box::new((local, nothing))));
                    }
                    _ => self.end(now, Err(why)),
                }
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = result {
            self.fail(now, connection, error);
        }
    }

    fn read(&mut self, _key: ConnKey, object: u64, offset: u64, buffer: &mut [u8]) {
        if let Some(tree) = &mut self.tree {
            return tree.read(object, offset, buffer);
        }
        match self.sending.as_mut().filter(|s| s.object == object) {
            Some(sending) => sending.read(offset, buffer),
            None => buffer.fill(0),
        }
    }

    fn accepts_data(&mut self, _key: ConnKey) -> bool {
        self.receiving.as_ref().is_none_or(Receiving::accepts_data)
            && self.tree.as_ref().is_none_or(Tree::accepts_data)
    }

    fn place(&mut self, _key: ConnKey, object: u64, buffer: &mut Vec<u8>, parts: &[Placement]) {
        if let Some(receiving) = self.receiving.as_mut().filter(|r| r.object == object) {
            receiving.place(buffer, parts);
        } else if let Some(tree) = &mut self.tree {
            tree.place(object, buffer, parts);
        }
    }

    fn take_spare(&mut self) -> Option<Vec<u8>> {
        if let Some(tree) = &mut self.tree {
            return tree.take_spare();
        }
        self.receiving.as_mut().and_then(Receiving::take_spare)
    }

    fn poll(&mut self, now: Time, _key: ConnKey, connection: &mut Connection) {
        if matches!(self.step, Step::Ended(_)) {
            return;
        }
        if self.cancel.is_cancelled() {
            let text = if self.can_go_on() {
                "interrupted; the same command goes on where this one ended"
            } else {
                "interrupted; nothing was left behind"
            };
            let error = Error::new(ErrorKind::Cancelled, text);
            self.fail(now, connection, error);
            return;
        }
        if let Err(error) = self.move_on(now, connection) {
            self.fail(now, connection, error);
            return;
        }
        if matches!(self.step, Step::Asked | Step::Moving) {
            self.keep_pace(now, connection);
        }
        let mut wait = self.waits_for(connection);
        if let (Step::Moving, Some(tree)) = (&self.step, &mut self.tree)
            && !tree.has_moved(connection)
            // Whoever rests for an hour does not hang.
            && !self.config.throttle.is_paused()
        {
            wait = Some(Wait::Verdict);
        }
        if let Some(wait) = self.wait.check(now, wait) {
            self.on_wait_over(now, connection, wait);
            return;
        }
        self.tick(now, connection);
    }

    fn attended(&self) -> Attended<'_> {
        Attended::All
    }

    fn keep_running(&mut self, _now: Time) -> bool {
        !matches!(self.step, Step::Ended(_))
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.next_tick)
    }
}

#[cfg(test)]
mod tests;
