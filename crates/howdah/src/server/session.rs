//! What a server knows of one client.

use super::company::Entered;
use super::control::Meter;
use super::happening::{ServerEvent, SessionMoved};
use super::service::{Deed, Landing, Opening, Request, Who};
use crate::access::Rights;
use crate::keys::PublicKey;
use crate::session::at_cap::AtCap;
use crate::session::chore::Chore;
use crate::session::files::serving::Serving;
use crate::session::kept::{Early, KEPT_MAX};
use crate::session::lanes::Lane;
use crate::session::pace;
use crate::session::places::Place;
use crate::session::putting::Put;
use crate::session::receiving::Receiving;
use crate::session::sending::Sending;
use crate::session::tree::Tree;
use howdah_core::{Rate, Span, Time};
use howdah_net::{Allowance, Usage};
use howdah_proto::{Connection, SendLimit, Stats};
use howdah_session::pace::Pace;
use howdah_session::plans::PlanPlace;
use howdah_session::server::{self, Does, Parts};
use howdah_session::{Wait, WaitClock};
use howdah_store::RoomWait;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What threads, disks and connections have for what a session does.
#[derive(Debug)]
pub(super) struct Driven;

impl Parts for Driven {
    type Sending = Sending;
    type Receiving = Receiving;
    type Landing = Landing;
    type Question = Chore;
    type Tree = Tree;
    type Files = Serving;
    type Lane = Lane;
}

/// Who shares a rate, and in which direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// The data comes from the client.
    pub(super) receives: bool,
    pub(super) since: Time,
}

/// One client.
#[derive(Debug)]
pub(super) struct Session {
    /// What it does, and what a message means to it.
    pub(super) machine: server::Server<Driven>,
    pub(super) start: Usage,
    pub(super) peer: String,
    pub(super) rights: Rights,
    /// Of the client; empty if it is of an unknown kind.
    pub(super) key: String,
    /// The same.
    pub(super) public: Option<PublicKey>,
    /// The same for all sessions of that key.
    pub(super) group: u64,
    /// What was asked for is being opened.
    pub(super) opening: Option<Opening>,
    /// The same, until it is open: it may have to wait yet.
    pub(super) request: Option<Request>,
    /// What was asked for waits until it may begin.
    pub(super) waiting: Option<Request>,
    /// The client knows that it waits.
    pub(super) is_told_to_wait: bool,
    /// Since when it finds no thread although nobody else has anything under way.
    pub(super) in_vain_since: Option<Time>,
    /// What it has under way takes that.
    pub(super) place: Option<Place>,
    /// What came of a file whose place is being opened.
    pub(super) early: Option<Early>,
    /// What its connection kept for it when that was looked at last.
    kept: u64,
    /// Its key holds as much without places as it may.
    is_crowded: bool,
    /// A place that was taken is not looked at again before, and what waits is not tried.
    pub(super) open_again_at: Time,
    /// Where the tree that comes goes in the room of a plan.
    pub(super) into_plan: Option<PlanPlace>,
    /// What it is that comes, or will come when its place is free.
    pub(super) put: Option<Put>,
    /// Its patience with full disks.
    pub(super) room: RoomWait,
    /// What it asks for may grow.
    pub(super) growing: bool,
    /// So many connections would move what it asks for, if it is one object.
    pub(super) lanes_wanted: u8,
    /// It has everything that was sent; what is to go then is being removed.
    pub(super) removing: bool,
    /// Another connection of the same client wants to go on with it.
    pub(super) superseded: Arc<AtomicBool>,
    /// What other loops of the server know of it.
    pub(super) entered: Entered,
    pub(super) who: Who,
    /// What it has asked for.
    pub(super) deed: Deed,
    pub(super) wait: WaitClock,
    pub(super) at_cap: AtCap,
    pub(super) meter: Meter,
    /// Of content alone.
    pub(super) content: Meter,
    /// As it was when it was told of.
    told: Stats,
    /// As the client wants it.
    pub(super) pace: Pace,
    /// Of what all may move together.
    pub(super) share: Option<Rate>,
    /// As it was when that was shared last; `None`: it moved nothing.
    pub(super) shares: Option<Sharing>,
    /// What it [wanted](Self::wants) when that was last asked.
    pub(super) wish: Option<Rate>,
    /// What is in force.
    pub(super) applied: Option<Rate>,
    /// It was held back at some time, or made way for others: what the path can do has not been seen.
    pub(super) was_held: bool,
    /// Nothing has been asked for since then.
    pub(super) idle_since: Option<Time>,
    /// It was told to go, and is cut off then.
    pub(super) cut_at: Option<Time>,
    /// Requests of it that came to nothing.
    pub(super) failures: u32,
    /// How often the log was told where it is now, and when last.
    moves_told: (u32, Time),
    /// Single names that it had made, renamed or removed, or not: what the log is told of them, and what it was spared since.
    changes_told: Allowance,
    changes_spared: u64,
    /// When that was asked last.
    changed_at: Time,
}

/// What a connection keeps is looked at in steps of so many bytes.
const KEPT_STEP: u64 = 64 << 10;
/// No client of ours goes on after one.
const FAILURES_MAX: u32 = 8;
/// Lines about where one session has moved to, and the time between two when there were so many.
const MOVES_TOLD: u32 = 8;
const MOVE_EVERY: Span = Span::from_secs(60);
/// Lines about single names that one session has changed, at once and per second. (The audit log has all of them.)
const CHANGES_TOLD: u64 = 50;

/// A number for a key; those of strangers are small ones.
pub(super) fn group(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() | 1 << 63
}

impl Session {
    /// What it has moved since the last time, which is that long ago.
    pub(super) fn moved(&mut self, connection: &Connection, time: Span) -> ServerEvent {
        let now = connection.stats();
        let sends = match self.machine.now() {
            Does::Sends(_) => true,
            Does::Tree(tree) => tree.is_sender(),
            Does::Lane(lane) => !lane.is_receiver(),
            _ => false,
        };
        let reads = sends && connection.send_limit() == SendLimit::Source;
        let moved = SessionMoved::between(&self.told, &now, time, reads);
        self.told = now;
        ServerEvent::Moved(moved)
    }

    /// Of a client that was let in.
    pub(super) fn new(
        now: Time,
        (peer, who): (String, Who),
        key: String,
        rights: Rights,
        entered: Entered,
    ) -> Self {
        Self {
            machine: server::Server::new(rights.selection_memory()),
            start: howdah_net::usage(),
            peer,
            rights,
            group: group(&key),
            key,
            public: None,
            opening: None,
            request: None,
            waiting: None,
            is_told_to_wait: false,
            in_vain_since: None,
            place: None,
            early: None,
            kept: 0,
            is_crowded: false,
            open_again_at: now,
            into_plan: None,
            put: None,
            room: RoomWait::default(),
            growing: false,
            lanes_wanted: 1,
            removing: false,
            superseded: Arc::default(),
            entered,
            who,
            deed: Deed::default(),
            wait: WaitClock::default(),
            at_cap: AtCap::default(),
            meter: Meter::new(now),
            content: Meter::new(now),
            told: Stats::default(),
            pace: Pace::default(),
            share: None,
            shares: None,
            wish: None,
            applied: None,
            was_held: false,
            idle_since: Some(now),
            cut_at: None,
            failures: 0,
            moves_told: (0, now),
            changes_told: Allowance::new(CHANGES_TOLD),
            changes_spared: 0,
            changed_at: now,
        }
    }

    /// Whether it asks again and again for what it does not get: each time costs a thread and a line of the log.
    pub(super) fn fails_too_often(&self) -> bool {
        self.failures >= FAILURES_MAX
    }

    /// A buffer that came with data and is needed no more.
    pub(super) fn take_spare(&mut self) -> Option<Vec<u8>> {
        match self.does() {
            Does::Receives(receiving) => receiving.take_spare(),
            Does::Tree(tree) => tree.take_spare(),
            Does::Lane(lane) => lane.take_spare(),
            _ => None,
        }
    }

    /// It has moved: whether the log is told. Who goes to and fro without end would fill it.
    pub(super) fn tells_of_move(&mut self, now: Time) -> bool {
        let (told, at) = self.moves_told;
        let tells = told < MOVES_TOLD || now.since(at) >= MOVE_EVERY;
        if tells {
            self.moves_told = (told.saturating_add(1), now);
        }
        tells
    }

    /// It has changed a single name: whether the log is told, and what stands behind that line. `now`: if that is known.
    pub(super) fn tells_of_change(&mut self, now: Option<Time>) -> Option<String> {
        self.changed_at = now.unwrap_or(self.changed_at);
        if !self.changes_told.take(self.changed_at) {
            self.changes_spared += 1;
            return None;
        }
        Some(match std::mem::take(&mut self.changes_spared) {
            0 => String::new(),
            spared => format!(" (and {spared} more before, of which there are no lines)"),
        })
    }

    /// What it may move at most, in each direction.
    pub(super) fn cap(&self) -> Option<Rate> {
        // What its key may have, all connections have together that move the same.
        let of_key = self.rights.max_rate.map(|most| match self.hub() {
            Some(hub) => Rate::from_bits_per_sec(most.bits_per_sec() / u64::from(hub.count())),
            None => most,
        });
        [of_key, self.share].into_iter().flatten().min()
    }

    /// Puts the limits, and what the client wants, in force.
    pub(super) fn keep_pace(&mut self, now: Time, connection: &mut Connection) {
        let cap = self.cap();
        self.applied = cap;
        self.was_held |= cap.is_some() || !self.pace.is_free();
        connection.set_receive_cap(now, cap);
        pace::apply(self.pace, now, connection, cap, self.rights.fixed_rate);
    }

    /// What it would move if it could, seen from what it moved lately; `None`: all that it gets.
    pub(super) fn wants(&self, now: Time) -> Option<Rate> {
        /// Of its share; below that something else holds it up.
        const USES: f64 = 0.8;
        let (rate, share) = (self.meter.rate(now), self.share?);
        let little = rate.bits_per_sec() as f64 / USES;
        let of_key = self.rights.max_rate;
        // Who has just begun has not shown yet what it wants.
        let begins = self
            .shares
            .is_none_or(|shares| now.since(shares.since) < Meter::EVERY * 2);
        if begins || little >= share.bits_per_sec() as f64 {
            return of_key;
        }
        let little = Rate::from_bits_per_sec(little as u64);
        Some(of_key.map_or(little, |most| most.min(little)))
    }

    /// Looks whether its tree has moved, or waits for room on a disk, for which it has a clock of its own.
    pub(super) fn note_progress(&mut self, now: Time, connection: &Connection) {
        let has_moved = match self.does() {
            Does::Tree(tree) => tree.has_moved(connection),
            Does::Files(files) => files.has_moved(),
            _ => false,
        };
        if has_moved || self.room.is_waiting() {
            self.wait.restart(now);
        }
    }

    /// Looks what its connection keeps for it. False: there is no room for so much, and others of its key have room again without it.
    pub(super) fn keeps_within_bounds(&mut self, connection: usize) -> bool {
        // As honest ones have it, it is not counted, and more not with each packet.
        let waits = self.put.as_ref().filter(|_| self.place.is_none());
        let kept = connection + self.machine.later_bytes() + waits.map_or(0, Put::held_bytes);
        let kept = kept as u64;
        self.kept = kept / KEPT_STEP * KEPT_STEP;
        self.counts_luggage() || self.kept == 0
    }

    /// Counts what it holds in memory without a place. Whether there is room for that.
    pub(super) fn counts_luggage(&mut self) -> bool {
        let (comes, waits) = self.machine.held_bytes();
        let asked = self.does().files().map_or(0, |files| files.held_bytes());
        let early = self.early.as_ref().map_or(0, |early| early.kept.bytes());
        let without_place = if self.place.is_some() {
            0
        } else {
            waits + early
        };
        let held = (comes + without_place) as u64 + asked + self.kept;
        self.is_crowded = !self.entered.hold(held);
        !self.is_crowded
    }

    /// Whether more of what comes before its place is open may be kept.
    pub(super) fn keeps_early(&self) -> bool {
        let has_room = |early: &Early| early.kept.bytes() < KEPT_MAX && !self.is_crowded;
        // What comes before there is a place is kept, or comes again.
        let opens = self.opening.is_some() || self.waiting.is_some();
        self.early.as_ref().map_or(!opens, has_room)
    }

    /// What it does.
    pub(super) fn does(&mut self) -> &mut Does<Driven> {
        self.machine.now_mut()
    }

    /// Whether it has a transfer under way.
    pub(super) fn is_busy(&self) -> bool {
        match self.machine.now() {
            Does::Nothing => false,
            Does::Files(files) => files.is_busy(),
            _ => true,
        }
    }

    /// Whether nothing of it would be lost but that it is there: it is idle, or what it asked for has not begun.
    pub(super) fn gives_way(&self) -> bool {
        match self.machine.now() {
            Does::Nothing => true,
            Does::Begins { .. } => self.opening.is_none(),
            Does::Files(files) => !files.is_at_work(),
            _ => false,
        }
    }

    /// Whether the data comes from the client.
    pub(super) fn receives(&self) -> bool {
        match self.machine.now() {
            Does::Tree(tree) => tree.is_receiver(),
            Does::Lane(lane) => lane.is_receiver(),
            _ => self.put.is_some(),
        }
    }

    /// What it puts, once it has a place.
    pub(super) fn putting(&self) -> Option<&Put> {
        let has_place = matches!(self.machine.now(), Does::Receives(_));
        self.put.as_ref().filter(|_| has_place)
    }

    /// What of the client is missing now.
    pub(super) fn waits_for(&self) -> Option<Wait> {
        if self.is_told_to_wait {
            // For its turn, whatever it has asked for, as long as that takes.
            return None;
        }
        self.machine.now().waits_for(self.is_busy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathBytes;
    use crate::server::company::Company;
    use crate::session::alone;
    use crate::session::files::attest::Witness;
    use crate::session::kept::Kept;
    use crate::session::places::{Bounds, ONE, Places};
    use howdah_core::{ByteRange, ObjectId};
    use howdah_net::{ConnKey, Placement};
    use howdah_session::TreeOptions;
    use howdah_session::files::FilesRequest;
    use howdah_session::message::Message;
    use howdah_session::selection::Selection;
    use howdah_store::{Root, Wake};

    fn session() -> Session {
        let rights = Rights::below(|| Ok(Arc::new(Root::open(".").expect("it is there"))));
        let from = "192.0.2.1:7".parse().expect("an address");
        let who = Who::new(1, from, false, String::new(), String::new());
        let entered = Company::new(1, Vec::new()).enter(ConnKey(1), "anna");
        let peer = (from.to_string(), who);
        Session::new(Time::ZERO, peer, "anna".to_owned(), rights, entered)
    }

    /// Each is a question of some bytes.
    #[test]
    fn h18_a_session_that_changes_names_without_end_does_not_fill_the_log() {
        let mut session = session();
        let mut lines = Vec::new();
        for ms in 0..10_000 {
            let now = Time::ZERO + Span::from_millis(ms);
            for _ in 0..10 {
                lines.extend(session.tells_of_change(Some(now)));
            }
        }
        let most = 11 * CHANGES_TOLD as usize;
        assert!((most / 2..=most).contains(&lines.len()), "{}", lines.len());
        assert_eq!(lines[0], "");
        assert!(lines[lines.len() - 1].contains("more before"), "{lines:?}");
        // Who changes little is told of.
        let later = Time::ZERO + Span::from_secs(20);
        assert!(session.tells_of_change(Some(later)).is_some());
        assert_eq!(session.tells_of_change(None).as_deref(), Some(""));
    }

    /// Names, also those that wait with their request, and what came of a file, until there is a place for it.
    #[test]
    fn h18_what_a_session_holds_without_a_place_is_counted() {
        let mut session = session();
        let counted = |session: &mut Session| {
            assert!(session.counts_luggage());
            session.entered.held()
        };
        assert_eq!(counted(&mut session), 0);
        let names = Selection {
            paths: vec![PathBytes::from("x".repeat(60_000)); 20],
            ..Selection::default()
        };
        session
            .machine
            .hear(Message::Selection(names))
            .expect("names");
        let named = counted(&mut session);
        assert!(named > 1_200_000, "{named}");
        let get = Message::TreeGet {
            answers: ObjectId::new(0),
            paths: Vec::new(),
            options: TreeOptions::default(),
        };
        session.machine.hear(get).expect("a request");
        assert_eq!(counted(&mut session), named, "it waits");
        let mut early = Early {
            object: ObjectId::new(2),
            kept: Kept::default(),
        };
        let range = ByteRange::with_len(0, 200_000);
        early
            .kept
            .place(&vec![7; 200_000], &[Placement { at: 0, range }]);
        session.early = Some(early);
        assert!(counted(&mut session) >= named + 200_000);
        let places = Places::new(Bounds::of_system());
        session.place = Some(places.take("anna", ONE).expect("a place"));
        assert_eq!(counted(&mut session), 0, "it is on another account");
    }

    /// An account of each session alone is none: a key may have as many as there are connections.
    #[test]
    fn h19_what_connections_keep_for_the_sessions_of_a_key_is_bounded() {
        const MIB: usize = 1 << 20;
        let company = Company::new(1, Vec::new());
        let new = |n: u64, client: &str| {
            let mut session = session();
            session.entered = company.enter(ConnKey(n), client);
            session
        };
        let mut of_anna: Vec<_> = (0..100).map(|n| new(n, "anna")).collect();
        // As honest ones have it.
        assert!(
            of_anna
                .iter_mut()
                .all(|one| one.keeps_within_bounds(60_000))
        );
        let kept = of_anna
            .iter_mut()
            .map(|one| one.keeps_within_bounds(8 * MIB));
        assert_eq!(kept.filter(|within| *within).count(), 32, "256 MiB");
        assert!(new(100, "ben").keeps_within_bounds(8 * MIB));
        of_anna.truncate(30);
        assert!(new(101, "anna").keeps_within_bounds(8 * MIB));
    }

    #[test]
    fn h19_what_a_session_of_files_was_asked_and_remembers_is_counted() {
        let mut session = session();
        let places = Places::new(Bounds { all: 1, of_key: 1 });
        // Nothing is answered.
        let _all = places.take("anna", ONE).expect("one");
        let rights = (session.rights.clone(), Witness::default());
        let mut connection = alone::connection();
        let wake: Wake = Arc::new(|| ());
        let account = (places, "anna".to_owned());
        let serving = Serving::start(&mut connection, rights, account, &wake, |_, _| ());
        let serving = serving.expect("it starts");
        session.machine.does(Does::Files(serving));
        assert!(session.counts_luggage());
        assert_eq!(session.entered.held(), 0);
        for n in 0..30 {
            let path = format!("{n:060000}").as_str().into();
            let question = vec![(n, FilesRequest::Stat { path })];
            let files = session.does().files().expect("that is what it does");
            files.ask(question).expect("it may be open");
        }
        assert!(session.counts_luggage());
        // The questions, and a few of their names.
        let held = session.entered.held();
        assert!((1_800_000..3_000_000).contains(&held), "{held}");
    }

    /// The far end would be told that it had not asked for anything.
    #[test]
    fn who_waits_for_his_turn_is_not_given_up_as_one_who_asks_for_nothing() {
        let (mut session, now) = (session(), Time::ZERO);
        let later = now + Wait::Request.limit() * 3;
        for (told, given_up) in [(true, None), (false, Some(Wait::Request))] {
            session.is_told_to_wait = told;
            session.wait = WaitClock::default();
            let wait = session.waits_for();
            assert_eq!(session.wait.check(now, wait), None);
            let wait = session.waits_for();
            assert_eq!(session.wait.check(later, wait), given_up);
        }
    }
}
