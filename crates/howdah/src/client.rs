//! The client's end of one copy.

use crate::error::from_store;
use crate::inside::Teller;
use crate::reconnect::REMEDY;
use crate::session::at_cap::AtCap;
use crate::session::dialogue::{self, side_report};
use crate::session::from_connection;
use crate::session::lanes::all_counted;
use crate::session::receiving::{Place, Receiving};
use crate::session::sending::Sending;
use crate::session::tree::{Contents, Tree};
use crate::task::Task;
use crate::{Cancel, CopyConfig, Error, ErrorKind, Progress, RatePolicy, Summary, Trust};
use howdah_core::{ObjectId, Span, Time};
use howdah_net::{Application, Attended, ConnKey, Placement, Usage, Waker};
use howdah_proto::error::{CloseCode, ConnectionError};
use howdah_proto::{Connection, Event, PathKnowledge};
use howdah_session::TreeReport;
use howdah_session::client::{self, Coming, Order, Stage};
use howdah_session::message::{BOTTLENECKS, Message, RATE_CAP, SideReport, shown};
use howdah_session::pace::Pace;
use howdah_session::selection::Telling;
use howdah_session::transfer::{End, check_resumed};
use howdah_session::{Wait, WaitClock};
use howdah_store::{RoomWait, Target, Wake};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

mod begin;
mod files;
mod flight;
mod lanes;
mod progress;
mod range;
mod tree;
mod waits;

use progress::Tick;

/// How often progress is told and the cancel switch looked at.
const TICK: Span = Span::from_millis(100);
/// Ticks over which the goodput of now is measured.
const NOW_TICKS: usize = 10;

/// A disk that takes longer to write what it was given is not waited for.
const LET_GO_MAX: Duration = Duration::from_secs(30);

#[derive(Debug)]
enum Step {
    /// No connection yet.
    Connecting,
    /// Somebody looks at the server's key.
    Judging(Receiver<Result<(), Error>>),
    /// What is asked for is being told.
    Telling(Box<Telling>),
    /// The machine of the session knows how far it has got.
    Talking,
    /// Over.
    Ended(Result<Box<(SideReport, SideReport)>, Error>),
}

/// The application of a copying client.
pub(crate) struct Client<'a> {
    task: Task,
    config: &'a CopyConfig,
    cancel: &'a Cancel,
    /// Hears how it goes, and judges servers.
    outside: Teller,
    host: String,
    port: u16,
    /// Of the endpoint in use.
    waker: Option<Waker>,
    step: Step,
    wait: WaitClock,
    /// Why no connection came about: the address is to blame, another one may do.
    unanswered: Option<ConnectionError>,
    /// How far the session has got, and what its messages mean.
    machine: client::Client<Sending, Receiving>,
    /// What this side has taken, once it has all and waits for the server's figures.
    local: SideReport,
    tree: Option<Tree>,
    /// Where a tree's streams go, until the server says which they are.
    contents: Option<Contents>,
    /// The receiver of a tree is done and says that.
    tree_done: Option<(SideReport, TreeReport)>,
    /// The result of a tree.
    tree_report: Option<TreeReport>,
    /// Of the content of the one file that was moved.
    hash: Option<[u8; 32]>,
    /// Connections beside this one.
    lanes: lanes::Lanes,
    /// All threads of this copy have a clone.
    threads: Arc<()>,
    /// Threads that give what came its names.
    ending: Vec<JoinHandle<()>>,
    /// Of a file that was asked for, until it comes.
    target: Option<Target>,
    /// The patience with full disks here.
    room: RoomWait,
    /// The server waits for space.
    peer_waits: bool,
    /// It has no place for what was asked for, or no thread, and tries again by itself.
    peer_is_busy: bool,
    /// Bytes that were there before.
    held_bytes: u64,
    /// The same command goes on where this one ended.
    can_go_on: bool,
    start: Usage,
    started_at: Time,
    /// Somebody looks at the server's key since then, which is not the copy's time.
    judged_since: Option<Time>,
    /// That it took.
    judged: Span,
    moving_since: Option<Time>,
    pub(crate) ended_at: Time,
    next_tick: Time,
    /// When the flight recorder looks again.
    next_look: Option<Time>,
    looked: flight::Looked,
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
    /// Of what this side sends.
    at_cap: AtCap,
    /// Of the path, in the direction of the data from here.
    learnt: Option<PathKnowledge>,
    /// What came is not what was hashed, and the server has been asked why.
    doubt: Option<Error>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(
        task: Task,
        config: &'a CopyConfig,
        cancel: &'a Cancel,
        outside: Teller,
        (host, port): (String, u16),
        now: Time,
    ) -> Self {
        Self {
            machine: client::Client::new(task.wants()),
            local: SideReport::default(),
            task,
            config,
            cancel,
            outside,
            host,
            port,
            waker: None,
            step: Step::Connecting,
            wait: WaitClock::default(),
            unanswered: None,
            tree: None,
            contents: None,
            tree_done: None,
            tree_report: None,
            hash: None,
            lanes: lanes::Lanes::default(),
            threads: Arc::new(()),
            ending: Vec::new(),
            target: None,
            room: RoomWait::default(),
            peer_waits: false,
            peer_is_busy: false,
            held_bytes: 0,
            can_go_on: false,
            start: howdah_net::usage(),
            started_at: now,
            judged_since: None,
            judged: Span::ZERO,
            moving_since: None,
            ended_at: now,
            next_tick: now + TICK,
            next_look: None,
            looked: flight::Looked::default(),
            ticks: VecDeque::new(),
            tick_count: 0,
            per_second: Vec::new(),
            second_bytes: 0,
            total: None,
            progress: Progress::default(),
            advised: false,
            pace: Pace::default(),
            at_cap: AtCap::default(),
            learnt: None,
            doubt: None,
        }
    }

    /// Begins anew with another address of the host, on the endpoint of `waker`.
    pub(crate) fn begin_attempt(&mut self, waker: Waker, tunnelled: bool) {
        self.waker = Some(waker);
        self.progress.tunnelled = tunnelled;
        (self.unanswered, self.doubt) = (None, None);
        self.lanes = lanes::Lanes::default();
        self.step = Step::Connecting;
        self.machine = client::Client::new(self.task.wants());
        self.begin_flight(tunnelled);
    }

    /// Tells once what this host does not grant, if this copy needs it.
    pub(crate) fn advise(&mut self, advice: &str) {
        let takes = matches!(self.task, Task::Get { .. } | Task::GetTree { .. });
        if takes && !std::mem::replace(&mut self.advised, true) {
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
        let (waker, thread) = (self.waker.clone(), Arc::clone(&self.threads));
        Arc::new(move || {
            let _ = &thread;
            if let Some(waker) = &waker {
                waker.wake();
            }
        })
    }

    /// The result, once [`Application::keep_running`] has said no.
    pub(crate) fn into_result(mut self) -> Result<Summary, Error> {
        self.stop_tree();
        self.machine.end();
        self.lanes.end();
        for thread in self.ending.drain(..) {
            let _ = thread.join();
        }
        let peer = self.peer();
        let seconds = self.elapsed(self.ended_at).as_secs_f64();
        let (local, remote) = match self.step {
            Step::Ended(Err(error)) => {
                let goes_on = !self.config.reconnect.is_zero() && self.progress.answered;
                if goes_on && error.is_lost_connection() {
                    // It may have been too short for a tick.
                    self.outside.progress(&self.progress);
                    (self.contents, self.target) = (None, None);
                    self.room = RoomWait::default();
                    if !let_go(&self.threads, self.cancel) {
                        self.config
                            .warn
                            .line("the disk here still writes what came");
                    }
                }
                return Err(error);
            }
            Step::Ended(Ok(sides)) => *sides,
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
        // Who compares reads nothing.
        let judge = match self.task {
            Task::Describe { .. } => remote,
            _ => receiver,
        };
        let tree = self.tree_report.as_ref().filter(|tree| tree.files > 0);
        let hash = tree.map_or(self.hash, |tree| tree.blake3);
        let bytes = self.progress.bytes;
        // What would be moved is neither moved nor verified.
        let moved = if self.task.is_dry_run() {
            0
        } else {
            bytes.saturating_sub(self.held_bytes)
        };
        Ok(Summary {
            bytes,
            resumed_bytes: self.held_bytes,
            seconds,
            goodput_bps: moved as f64 * 8.0 / seconds.max(1e-9),
            wire_bytes: sender.wire_bytes,
            retransmitted_bytes: sender.repeated_bytes,
            repeated_tail_bytes: sender.repeats.tail_bytes.min(sender.repeated_bytes),
            repeated_refused_bytes: sender.repeats.refused_bytes.min(sender.repeated_bytes),
            feedback_bytes: receiver.wire_bytes,
            rtt_min_us: sender.rtt_min_us,
            loss_rate: sender.loss_rate(),
            mtu: sender.mtu,
            sender: sender.into(),
            receiver: receiver.into(),
            verified: match (judge.hashed && !self.task.is_dry_run(), judge.reread) {
                (true, true) => "reread",
                (true, false) => "blake3",
                (false, _) => "aead",
            }
            .to_owned(),
            // A limit on what it takes in is known to the receiver only.
            bottleneck: BOTTLENECKS
                .get(usize::from(match receiver.bottleneck {
                    RATE_CAP => RATE_CAP,
                    _ => sender.bottleneck,
                }))
                .copied()
                .unwrap_or("network")
                .to_owned(),
            reconnects: 0,
            goodput_per_second_bps: self.per_second,
            blake3: hash.map(|hash| blake3::Hash::from_bytes(hash).to_hex().to_string()),
            tree: self.tree_report,
        })
    }

    /// The copy's time, without what a person took to judge the server's key.
    fn elapsed(&self, now: Time) -> Span {
        let now = self.judged_since.map_or(now, |since| since.min(now));
        now.since(self.started_at).saturating_sub(self.judged)
    }

    fn end(&mut self, now: Time, result: Result<(SideReport, SideReport), Error>) {
        if !matches!(self.step, Step::Ended(_)) {
            if self.machine.stage() != Stage::Thanking {
                self.ended_at = now;
            }
            // The sink goes before the process ends: it removes its temporary file.
            self.machine.end();
            self.step = Step::Ended(result.map(Box::new));
        }
    }

    /// Whether the same command goes on where this one ended.
    fn can_go_on(&self) -> bool {
        self.can_go_on && self.machine.receiving().is_none_or(|r| r.kept_bytes() > 0)
    }

    /// An error that passes or that another version does not have, with what to do.
    fn with_remedy(&self, error: Error) -> Error {
        let question = match (&self.task, self.machine.stage()) {
            (Task::Describe { .. }, Stage::Asked) => Some("'howdah verify'"),
            (Task::PutLease(_) | Task::PutTree { into: Some(_), .. }, Stage::Moving) => {
                Some("plans of what comes to it")
            }
            (Task::Ask { .. }, Stage::Asked) => Some("this question"),
            (Task::Files { .. }, Stage::Asked) => Some("sessions that stay open for single files"),
            _ => None,
        };
        if let (Some(question), ErrorKind::Protocol) = (question, error.kind()) {
            // What is too old for the question closes the connection or says that it makes no sense.
            let text = format!(
                "{error}; if its howdah is too old for {question}, install the same version there"
            );
            return Error::new(ErrorKind::Protocol, text);
        }
        let passes = matches!(error.kind(), ErrorKind::Network | ErrorKind::NoSpace);
        if !passes || !self.can_go_on() {
            return error;
        }
        let text = format!("{error}{REMEDY}");
        error.in_words(text)
    }

    /// Ends with an error and lets the server know.
    fn fail(&mut self, now: Time, connection: &mut Connection, error: Error) {
        let error = self.with_remedy(error);
        let code = if error.kind() == ErrorKind::Protocol {
            CloseCode::Protocol
        } else {
            CloseCode::Application
        };
        connection.close(now, code, dialogue::last_words(&error));
        self.stop_tree();
        self.end(now, Err(error));
    }

    fn on_message(
        &mut self,
        now: Time,
        connection: &mut Connection,
        message: Message,
    ) -> Result<(), Error> {
        match self.machine.hear(message, self.tree.is_some())? {
            Order::Nothing => {}
            Order::OfTree(message) => return self.on_tree_message(now, connection, &message),
            Order::Room(lack) => {
                self.peer_waits = lack.is_some();
                if lack.is_none() && std::mem::take(&mut self.peer_is_busy) {
                    let text = format!("{} has time now", self.peer());
                    self.config.note.line(&text);
                    return Ok(());
                }
                let lack = lack.map(|lack| format!("{}: {}", self.peer(), shown(&lack)));
                self.tell_room(lack.as_deref());
            }
            Order::Comes(coming) => self.receive(now, connection, &coming)?,
            Order::Skip(held, values, changed) => {
                if let Some(sending) = self.machine.sending_mut() {
                    sending.leave_out(connection, held);
                    self.held_bytes = sending.held_bytes();
                }
                if let Task::PutLease(lease) = &self.task {
                    // It has the rest another way.
                    let there = self.held_bytes.saturating_sub(lease.elsewhere);
                    self.config.tell_of_lease(there);
                    return Ok(());
                }
                self.can_go_on = values;
                let changed = changed.map(|text| shown(&text));
                self.tell_resumed(changed.as_deref());
            }
            Order::Values(first, values) => {
                if let Some(receiving) = self.machine.receiving_mut() {
                    receiving.on_values(first, &values)?;
                }
            }
            Order::Size(end) => {
                self.total = Some(end.size);
                if let Some(receiving) = self.machine.receiving() {
                    receiving.limit(connection, end)?;
                }
            }
            Order::Placed(sending, End { size, blake3 }, side) => {
                self.hash = blake3;
                if sending.has_grown() {
                    self.tell_grown(size);
                }
                self.progress.bytes = size;
                connection.finish_sending(sending.object);
                let mut local = side_report(self.start, &all_counted(sending.hub(), connection));
                let fixed = matches!(self.config.policy, RatePolicy::Fixed(_));
                local.bottleneck = self
                    .at_cap
                    .verdict(connection, sending.waits.verdict(fixed));
                self.end(now, Ok((local, side)));
                connection.close(now, CloseCode::Done, "");
            }
            Order::Found(part) => return self.on_findings(part),
            Order::Answered(sum) => {
                if let Task::Ask { answers, .. } = &self.task {
                    answers.end(sum);
                }
                let local = side_report(self.start, &connection.stats());
                self.end(now, Ok((local, SideReport::default())));
                connection.close(now, CloseCode::Done, "");
            }
            Order::FilesOpen(answers) => return self.on_files_open(connection, answers),
            Order::Thanks(side) => {
                self.end(now, Ok((self.local, side)));
                connection.close(now, CloseCode::Done, "");
            }
            Order::Lanes(token, most) => self.begin_lanes(token, most),
            Order::Failed(kind, message) => {
                let error = dialogue::failure(kind, &message, &self.peer());
                return Err(self.why_other(error));
            }
        }
        Ok(())
    }

    /// What was asked for comes: opens its place.
    fn receive(
        &mut self,
        now: Time,
        connection: &mut Connection,
        coming: &Coming,
    ) -> Result<(), Error> {
        if self.on_looked(now, connection, (coming.source, coming.mode)) {
            return Ok(());
        }
        let place = if let Task::Range(_, target) = &self.task {
            self.place_of_range(&Arc::clone(target), coming.source, coming.holes.clone())?
        } else {
            self.place_for(coming).map_err(|e| from_store(&e))?
        };
        check_resumed(coming.resumed, self.held_bytes)?;
        let window = match &place {
            Place::Store(sink) => sink.window_end(),
            Place::Null { .. } => None,
        };
        let (object, size, holes) = (coming.object, coming.size, coming.holes.as_ref());
        let mut receiving = Receiving::new(connection, object, place, size, coming.hash, holes)?;
        if window.is_none() && self.lanes_asked() > 1 {
            receiving.share_in(size, holes, self.wake());
        }
        self.machine.receives(receiving);
        if let Some(window) = window {
            connection.grant_window(object, window);
        }
        self.total = size;
        Ok(())
    }

    /// All is here, and the server knows; its figures are on their way.
    fn thanks(&mut self, now: Time, local: SideReport) {
        self.ended_at = now;
        self.local = local;
        self.machine.thanks();
    }

    /// Whether something moves.
    fn moves(&self) -> bool {
        self.machine.stage() == Stage::Moving
    }

    fn move_on(&mut self, now: Time, connection: &mut Connection) -> Result<(), Error> {
        self.tell_more(connection)?;
        self.move_files(now, connection)?;
        if let Step::Judging(judgement) = &self.step {
            match judgement.try_recv() {
                Ok(result) => {
                    result?;
                    if let Some(since) = self.judged_since.take() {
                        self.judged += now.since(since);
                    }
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
        if let Some(sending) = self.machine.sending_mut() {
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
            self.progress.bytes = sending.arrived_bytes(connection);
        }
        if let Some(news) = self.room.take_news() {
            let lack = news.map(|error| error.lack_of_space().unwrap_or_default());
            self.tell_room(lack.as_deref());
        }
        self.move_tree(now, connection)?;
        let doubts = self.doubt.is_some();
        if let Some(receiving) = self.machine.receiving_mut().filter(|_| !doubts) {
            self.progress.bytes = connection.received_bytes(receiving.object);
            let arrived = receiving.poll(now, connection);
            if let Err(error) = &arrived
                && error.kind() == ErrorKind::Integrity
            {
                self.ask_why(connection, error.clone());
                return Ok(());
            }
            if let Some(arrived) = arrived? {
                let (object, hub) = (receiving.object, receiving.hub());
                self.hash = receiving.told().and_then(|end| end.blake3);
                connection.finish_receiving(object);
                let mut side = side_report(self.start, &all_counted(hub, connection));
                side.hashed = arrived.hashed;
                side.reread = arrived.reread;
                connection.send_control(&Message::Done { object, side }.encode());
                self.thanks(now, side);
            }
        }
        Ok(())
    }
}

/// Waits until the threads have let go of the files, so that the next connection can go on with them.
fn let_go(threads: &Arc<()>, cancel: &Cancel) -> bool {
    let end = Instant::now() + LET_GO_MAX;
    while Arc::strong_count(threads) > 1 {
        if Instant::now() >= end || cancel.is_cancelled() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

impl Application for Client<'_> {
    fn on_event(&mut self, now: Time, _key: ConnKey, connection: &mut Connection, event: Event) {
        let result = match event {
            Event::Connected { peer_key } => {
                self.judged_since = Some(now);
                self.judge(&peer_key)
            }
            Event::Busy(wait) => {
                self.config.warn.line(&format!(
                    "{} is busy; trying again in {} s",
                    self.peer(),
                    wait.as_millis() / 1_000
                ));
                Ok(())
            }
            Event::Control(bytes) => dialogue::decode(&bytes)
                .map_err(|e| Error::new(e.kind(), format!("{} {e}", self.peer())))
                .and_then(|message| {
                    if let (Message::End { size, .. }, None) = (&message, &self.tree)
                        && Message::more(&bytes) == Some(true)
                    {
                        self.tell_grown(*size);
                    }
                    if let Message::Room { lack: Some(why) } = &message
                        && let Some(seconds) = Message::more(&bytes)
                    {
                        self.tell_busy(why, seconds);
                        return Ok(());
                    }
                    self.on_message(now, connection, message)
                }),
            Event::ObjectComplete(object) => {
                self.machine.on_complete(object);
                if let Some(tree) = &mut self.tree {
                    tree.on_complete(object);
                }
                Ok(())
            }
            Event::Closed(error) => {
                let why = self.doubt.take();
                let why =
                    why.unwrap_or_else(|| self.with_remedy(from_connection(&error, &self.peer())));
                self.stop_tree();
                let is_elsewhere = match error {
                    ConnectionError::NoAnswer | ConnectionError::Unreachable => true,
                    // Only one key will do, and a port that is forwarded may lead to somebody else.
                    ConnectionError::PeerKeyRefused | ConnectionError::Handshake(_) => {
                        matches!(self.config.trust, Trust::Exactly(_))
                    }
                    _ => false,
                };
                if matches!(self.step, Step::Connecting) && is_elsewhere {
                    self.unanswered = Some(error.clone());
                }
                let result = if self.machine.has_all() {
                    Ok((self.local, SideReport::default()))
                } else {
                    Err(why)
                };
                self.end(now, result);
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = result {
            self.fail(now, connection, error);
        }
    }

    fn read(&mut self, _key: ConnKey, object: ObjectId, offset: u64, buffer: &mut [u8]) {
        if let Some(tree) = &mut self.tree {
            return tree.read(object, offset, buffer);
        }
        let sending = self.machine.sending_mut();
        match sending.filter(|s| s.object == object) {
            Some(sending) => sending.read(offset, buffer),
            None => buffer.fill(0),
        }
    }

    fn accepts_data(&mut self, _key: ConnKey) -> bool {
        let receiving = self.machine.receiving();
        receiving.is_none_or(Receiving::accepts_data)
            && self.tree.as_ref().is_none_or(Tree::accepts_data)
    }

    fn place(
        &mut self,
        _key: ConnKey,
        object: ObjectId,
        buffer: &mut Vec<u8>,
        parts: &[Placement],
    ) {
        let receiving = self.machine.receiving_mut();
        if let Some(receiving) = receiving.filter(|r| r.object == object) {
            receiving.place(buffer, parts);
        } else if let Some(tree) = &mut self.tree {
            tree.place(object, buffer, parts);
        }
    }

    fn take_spare(&mut self) -> Option<Vec<u8>> {
        if let Some(tree) = &mut self.tree {
            return tree.take_spare();
        }
        self.machine.receiving_mut().and_then(Receiving::take_spare)
    }

    fn poll(&mut self, now: Time, _key: ConnKey, connection: &mut Connection) {
        self.look(now, connection);
        if matches!(self.step, Step::Ended(_)) {
            return;
        }
        let goes = matches!(&self.task, Task::Files { desk } if desk.is_closed());
        if self.cancel.is_cancelled() && !(goes && self.moves()) {
            let begun = match &self.task {
                Task::PutTree { options, .. } | Task::GetTree { options, .. } => {
                    self.tree.is_some() && !options.dry_run
                }
                _ => self.can_go_on(),
            };
            let text = if begun {
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
        if matches!(self.machine.stage(), Stage::Asked | Stage::Moving) {
            self.keep_pace(now, connection);
        }
        if self.moves() && self.task.is_put() {
            self.at_cap.watch_sent(now, connection);
        }
        let mut wait = self.waits_for(connection);
        if let (Stage::Moving, Some(tree)) = (self.machine.stage(), &mut self.tree)
            && !tree.has_moved(connection)
            // Whoever rests for an hour does not hang.
            && !self.config.throttle.is_paused()
        {
            wait = Some(Wait::Verdict);
        }
        if self.peer_waits || self.room.is_waiting() {
            // It has a bound of its own.
            wait = None;
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
        let look = self.next_look.unwrap_or(self.next_tick);
        Some(self.next_tick.min(look))
    }
}

#[cfg(test)]
mod tests;
