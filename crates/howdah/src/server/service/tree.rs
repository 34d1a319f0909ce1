//! The server's part in a copy of a tree.

use super::{Service, wake};
use crate::session::from_store;
use crate::session::message::{Message, SideReport};
use crate::session::tree::Tree;
use crate::{Error, ErrorKind, PathBytes};
use howdah_net::ConnKey;
use howdah_proto::Connection;
use howdah_store::{StoreError, TreeSource, TreeSubject, TreeTarget, is_directory};

impl Service {
    pub(super) fn begin_tree(
        &mut self,
        key: ConnKey,
        connection: &mut Connection,
        message: Message,
    ) -> Result<(), Error> {
        let wake = wake(&self.waker);
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        let (tree, what) = match message {
            Message::TreePut {
                manifest,
                packs,
                path,
                several,
                mut options,
            } => {
                session.asked.restore(&mut Vec::new(), &mut options);
                session.rights.check_tree(&options)?;
                options.memory = session.rights.memory(options.memory);
                let target = if options.make_path {
                    let (root, at) = session.rights.target_to_make(path.as_path())?;
                    let is_directory = is_directory(path.as_path());
                    TreeTarget::below_to_make(&root, &at, is_directory)
                } else {
                    let (root, at) = session.rights.target(path.as_path())?;
                    TreeTarget::below(&root, &at)
                };
                let target = target.map_err(|e| from_store(&e))?;
                let target = target
                    .add_only(session.rights.is_adding_only())
                    .blind(session.rights.is_blind())
                    .at_most(session.rights.quota)
                    .setting(session.rights.sets());
                let target = match session.rights.names() {
                    Some(names) => target.expecting(names.iter().cloned()),
                    None => target,
                };
                let target = target.waiting(session.room.clone());
                let announce = |answers| Message::TreeAccepted { answers };
                let (mut tree, contents) = Tree::receive(
                    connection, target, several, &options, false, &wake, announce,
                )?;
                tree.open_contents(connection, contents, (manifest, packs), &wake)?;
                (tree, format!("put tree {path:?}"))
            }
            Message::TreeGet {
                answers,
                mut paths,
                mut options,
            } => {
                session.asked.restore(&mut paths, &mut options);
                options.memory = session.rights.memory(options.memory);
                if options.remove_source {
                    session.rights.check_remove()?;
                }
                let mut source = TreeSource::new();
                for path in &paths {
                    let name = path.as_path().file_name();
                    let place = session.rights.source(path.as_path());
                    let added = place.and_then(|(root, at)| {
                        let added = source.add_below(&root, &at, name, options.contents);
                        added.map_err(|e| from_store(&e))
                    });
                    match added {
                        // The rest comes all the same.
                        Err(error) if error.kind() == ErrorKind::NotFound => {
                            let path = path.as_path().to_owned();
                            source.note_missing(StoreError::NotFound { path });
                        }
                        result => result?,
                    }
                }
                if !options.recursive || options.copy_links {
                    source.refuse_dangling();
                }
                source.check().map_err(|e| from_store(&e))?;
                if source.has_directory() {
                    session.rights.check_list()?;
                }
                let source = source.showing(session.rights.shows());
                let announce = |manifest, packs| Message::TreeComes { manifest, packs }.encode();
                // The client knows by itself what is in place.
                options.tells_files = false;
                let mut tree = Tree::send(connection, source, &options, &wake, announce)?;
                tree.open_answers(connection, answers, &wake)?;
                let paths: Vec<String> = paths.iter().map(PathBytes::to_string).collect();
                let shown: Vec<_> = paths.iter().take(8).map(|path| &**path).collect();
                let more = paths.len() - shown.len();
                let more = if more > 0 {
                    format!(" and {more} more")
                } else {
                    String::new()
                };
                (tree, format!("get tree {:?}{more}", shown.join(" ")))
            }
            Message::TreeVerify {
                answers,
                path,
                mut options,
            } => {
                session.asked.restore(&mut Vec::new(), &mut options);
                // Who compares learns what is in a file, so this takes the right to read.
                let (root, at) = session.rights.source(path.as_path())?;
                let subject = TreeSubject::below(&root, &at).map_err(|e| from_store(&e))?;
                if subject.is_directory() {
                    session.rights.check_list()?;
                }
                let subject = subject.showing(session.rights.shows());
                let announce = |manifest, packs| Message::TreeComes { manifest, packs };
                let mut tree = Tree::describe(connection, subject, &options, &wake, announce)?;
                tree.open_answers(connection, answers, &wake)?;
                (tree, format!("verify {path:?}"))
            }
            _ => return Ok(()),
        };
        session.tree = Some(tree);
        session.what = what;
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
        let Some(tree) = &mut session.tree else {
            return Ok(());
        };
        match message {
            Message::Fail { kind, message } => Err(Message::failure(kind, &message, "the client")),
            Message::TreeDone { .. } => {
                tree.all_placed();
                session.removing = true;
                if tree.has_removed() {
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
        if let Some(tree) = &mut session.tree {
            tree.finish(connection);
            let mut side = SideReport::new(session.start, &connection.stats());
            side.hashed = true;
            side.reread = tree.is_reread();
            let waits = tree.waits().verdict(false);
            side.bottleneck = session.at_cap.verdict(connection, waits);
            let report = tree.report();
            connection.send_control(&Message::TreeThanks { side, report }.encode());
        }
        self.end_tree(key);
    }

    /// Takes the tree of a session away and logs what it was.
    pub(super) fn end_tree(&mut self, key: ConnKey) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let line = format!("{}: {} done", session.peer, session.what);
        let tree = session.tree.take();
        self.ending.retain(|thread| !thread.is_finished());
        self.ending.extend(tree.into_iter().flat_map(Tree::stop));
        self.log(&line);
    }
}
