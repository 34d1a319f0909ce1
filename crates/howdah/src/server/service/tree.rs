//! The server's part in a copy of a tree.

use super::deeds::{Deed, Happened, Outcome, may_act};
use super::under_way::{Opening, Prepared, Request};
use super::{Service, wake};
use crate::access::Rights;
use crate::error::from_store;
use crate::server::ServerEvent;
use crate::server::session::Driven;
use crate::session::dialogue::{self, side_report};
use crate::session::places::Place;
use crate::session::tree::Tree;
use crate::{Error, ErrorKind, PathBytes};
use howdah_audit::Level;
use howdah_core::Time;
use howdah_net::ConnKey;
use howdah_proto::Connection;
use howdah_session::TreeOptions;
use howdah_session::message::Message;
use howdah_session::plans::PlanPlace;
use howdah_session::server::Does;
use howdah_store::{RoomWait, StoreError, Wake, threads};
use howdah_tree::{
    TreeDescriber, TreeReceiver, TreeSender, TreeSource, TreeSubject, TreeTarget, is_directory,
};

/// Where a tree goes that a client puts to a path.
fn target_of(
    rights: &Rights,
    path: &PathBytes,
    options: &TreeOptions,
) -> Result<TreeTarget, Error> {
    let target = if options.make_path {
        let (root, at) = rights.target_to_make(path.as_path())?;
        let is_directory = is_directory(path.as_path());
        TreeTarget::below_to_make(&root, &at, is_directory)
    } else {
        let (root, at) = rights.tree_target(path.as_path())?;
        let target = TreeTarget::below(&root, &at);
        target.map(|target| target.written_as_directory(is_directory(path.as_path())))
    };
    let target = target.map_err(|e| from_store(&e))?;
    let target = target
        .add_only(rights.is_adding_only())
        .blind(rights.is_blind())
        .at_most(rights.quota.clone())
        .setting(rights.sets());
    Ok(match rights.names() {
        Some(names) => target.expecting(names.iter().cloned()),
        None => target,
    })
}

/// Opens and starts it, with what the session may do. `into`: the place in the room of a plan of that key, which a tree that comes gets.
fn prepare(
    message: Message,
    (rights, into): (&Rights, Option<(String, PlanPlace)>),
    room: RoomWait,
    wake: &Wake,
) -> Result<Prepared, Error> {
    Ok(match message {
        Message::TreePut {
            manifest,
            packs,
            path,
            several,
            options,
        } => {
            let target = match into {
                Some((key, into)) => rights.place_in_plan(&key, &into, &options)?,
                None => target_of(rights, &path, &options)?,
            };
            let target = target.waiting(room);
            let started = TreeReceiver::start(target, several, &options, false, wake.clone());
            Prepared::Put {
                started: started.map_err(|e| from_store(&e))?,
                options,
                contents: (manifest, packs),
            }
        }
        Message::TreeGet {
            answers,
            paths,
            mut options,
        } => {
            let mut source = TreeSource::new();
            for path in &paths {
                let name = path.as_path().file_name();
                let (root, at) = match rights.source(path.as_path()) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        let path = path.as_path().to_owned();
                        source.note_missing(StoreError::NotFound { path });
                        continue;
                    }
                    place => place?,
                };
                let added = source.add_below(&root, &at, name, options.contents);
                source
                    .or_missing(added, paths.len())
                    .map_err(|e| from_store(&e))?;
            }
            if !options.recursive || options.copy_links {
                source.refuse_dangling();
            }
            source.check().map_err(|e| from_store(&e))?;
            if source.has_directory() {
                rights.check_list()?;
            }
            let source = source.showing(rights.shows());
            // The client knows by itself what is in place.
            options.tells_files = false;
            let started = TreeSender::start(source, &options, wake.clone());
            Prepared::Get {
                started: started.map_err(|e| from_store(&e))?,
                options,
                answers,
            }
        }
        Message::TreeVerify {
            answers,
            path,
            options,
        } => {
            // Who compares learns what is in a file, so this takes the right to read.
            let (root, at) = rights.source(path.as_path())?;
            let subject = TreeSubject::below(&root, &at).map_err(|e| from_store(&e))?;
            if subject.is_directory() {
                rights.check_list()?;
            }
            let subject = subject.showing(rights.shows());
            let started = TreeDescriber::start(subject, &options, wake.clone());
            Prepared::Verify {
                started: started.map_err(|e| from_store(&e))?,
                answers,
            }
        }
        _ => return Err(Error::new(ErrorKind::Protocol, "no tree is asked for")),
    })
}

impl Prepared {
    /// Begins the copy.
    pub(super) fn begin(self, connection: &mut Connection, wake: &Wake) -> Result<Tree, Error> {
        match self {
            Self::Put {
                started,
                options,
                contents,
            } => {
                let announce = |answers| Message::TreeAccepted { answers };
                let (mut tree, readers) =
                    Tree::receive(connection, started, &options, false, wake, announce)?;
                tree.open_contents(connection, readers, contents, wake)?;
                Ok(tree)
            }
            Self::Get {
                started,
                options,
                answers,
            } => {
                let announce = |manifest, packs| Message::TreeComes { manifest, packs }.encode();
                let mut tree = Tree::send(connection, started, &options, wake, announce)?;
                tree.open_answers(connection, answers, wake)?;
                Ok(tree)
            }
            Self::Verify { started, answers } => {
                let announce = |manifest, packs| Message::TreeComes { manifest, packs };
                let mut tree = Tree::describe(connection, started, wake, announce)?;
                tree.open_answers(connection, answers, wake)?;
                Ok(tree)
            }
        }
    }
}

impl Service {
    pub(super) fn begin_tree(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
        mut message: Message,
    ) -> Result<(), Error> {
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        session.deed = match &mut message {
            Message::TreePut { path, options, .. } => {
                session.rights.check_tree(options)?;
                options.sums = self.audit.is_some();
                options.memory = session.rights.memory(options.memory);
                match &session.into_plan {
                    // Whatever else the client calls it.
                    Some(into) => Deed::new("put a lease of", std::slice::from_ref(&into.path)),
                    None => Deed::new("put tree", std::slice::from_ref(path)),
                }
            }
            Message::TreeGet { paths, options, .. } => {
                options.sums = self.audit.is_some();
                options.memory = session.rights.memory(options.memory);
                if options.remove_source {
                    session.rights.check_remove()?;
                }
                Deed::new("get tree", paths)
            }
            Message::TreeVerify { path, options, .. } => {
                options.sums = self.audit.is_some();
                Deed::new("verify", std::slice::from_ref(path))
            }
            _ => return Ok(()),
        };
        may_act(self.audit.as_deref())?;
        self.begin(now, key, connection, Request::Tree(Box::new(message)))
    }

    /// Opens what is needed for a tree, and starts its threads.
    pub(super) fn open_tree(&mut self, key: ConnKey, message: Message) -> Result<(), Error> {
        let wake = wake(&self.waker, key);
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        let (rights, room) = (session.rights.clone(), session.room.clone());
        let (ours, place) = (wake.clone(), session.place.clone());
        // It may have to be opened once more.
        let into = session
            .into_plan
            .clone()
            .map(|into| (session.key.clone(), into));
        let errand = self.errands.start(&session.key, wake, move || {
            let prepared = prepare(message, (&rights, into), room, &ours);
            drop(place);
            prepared
        })?;
        session.opening = Some(Opening::Tree(errand));
        Ok(())
    }

    pub(super) fn on_tree_message(
        &mut self,
        key: ConnKey,
        connection: &mut Connection,
        message: Message,
    ) -> Result<(), Error> {
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        let Some(tree) = session.machine.now_mut().tree() else {
            return Ok(());
        };
        match message {
            Message::Fail { kind, message } => Err(dialogue::failure(kind, &message, "the client")),
            Message::TreeDone { .. } => {
                tree.all_placed();
                session.removing = true;
                if tree.has_removed() && tree.is_answered() {
                    self.thank(key, connection);
                }
                Ok(())
            }
            message => tree.on_message(connection, &message),
        }
    }

    /// The client has everything, and what was to go here is gone.
    pub(super) fn thank(&mut self, key: ConnKey, connection: &mut Connection) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        session.removing = false;
        let mut outcome = Outcome::default();
        if let Some(tree) = session.machine.now_mut().tree() {
            tree.finish(connection);
            let mut side = side_report(session.start, &connection.stats());
            side.hashed = true;
            side.reread = tree.is_reread();
            let waits = tree.waits().verdict(false);
            side.bottleneck = session.at_cap.verdict(connection, waits);
            let report = tree.report();
            outcome = Outcome::tree(&report);
            connection.send_control(&Message::TreeThanks { side, report }.encode());
        }
        self.end_tree(key, outcome);
    }

    /// Ends what was done; a tree on a thread of its own: what it leaves may wait for its disk.
    pub(super) fn put_away(&mut self, what: Does<Driven>, place: Option<Place>) {
        self.ending.retain(|thread| !thread.is_finished());
        let Does::Tree(mut tree) = what else { return };
        tree.let_go();
        let work = move || {
            for thread in tree.stop() {
                let _ = thread.join();
            }
            drop(place);
        };
        // Where there is no thread to be had it is dropped here.
        self.ending.extend(threads::start("howdah-away", work).ok());
    }

    /// Takes the tree of a session away and logs what it was.
    pub(super) fn end_tree(&mut self, key: ConnKey, outcome: Outcome) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        session.into_plan = None;
        let (level, but) = match outcome.failed {
            None | Some(0) => (Level::Info, String::new()),
            Some(failed) => (Level::Warning, format!(", but for {failed} names")),
        };
        let line = format!("{}: {} done{but}", session.peer, session.deed);
        self.control.tell(ServerEvent::Done);
        let (tree, place) = (session.machine.end(), session.place.take());
        self.put_away(tree, place);
        self.log.at(level, &line);
        self.note_end(Happened::Done, key, outcome);
    }
}
