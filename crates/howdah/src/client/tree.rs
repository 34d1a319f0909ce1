//! The client's part in a copy of a tree.

use super::{Client, Step, Task};
use crate::error::from_store;
use crate::session::dialogue::side_report;
use crate::session::selection;
use crate::session::tree::Tree;
use crate::{Error, ErrorKind, PathBytes, RatePolicy};
use howdah_core::Time;
use howdah_proto::Connection;
use howdah_proto::error::CloseCode;
use howdah_session::client::Stage;
use howdah_session::message::Message;
use howdah_session::selection::Telling;
use howdah_session::{TreeOptions, TreeReport};
use howdah_tree::{TreeReceiver, TreeSender};

impl Client<'_> {
    pub(super) fn stop_tree(&mut self) {
        self.contents = None;
        if let Some(tree) = self.tree.take() {
            self.ending.extend(tree.stop());
        }
    }

    /// Tells what is asked for; the request follows its names and rules.
    pub(super) fn tell(
        &mut self,
        connection: &mut Connection,
        paths: Vec<PathBytes>,
        options: TreeOptions,
    ) -> Result<(), Error> {
        self.step = Step::Telling(Box::new(Telling::new(paths, options)));
        self.tell_more(connection)
    }

    pub(super) fn tell_more(&mut self, connection: &mut Connection) -> Result<(), Error> {
        let Step::Telling(telling) = &mut self.step else {
            return Ok(());
        };
        match selection::tell(telling, connection) {
            Some((paths, options)) => self.begin_tree(connection, paths, options),
            None => Ok(()),
        }
    }

    fn begin_tree(
        &mut self,
        connection: &mut Connection,
        named: Vec<PathBytes>,
        asked: TreeOptions,
    ) -> Result<(), Error> {
        self.step = Step::Talking;
        let wake = self.wake();
        let again = || Error::new(ErrorKind::Network, "the connection began twice");
        match &mut self.task {
            Task::PutTree {
                source,
                path,
                options,
                into,
            } => {
                if let Some(into) = into.clone() {
                    connection.send_control(&Message::IntoPlan(into).encode());
                }
                let source = source.take().ok_or_else(again)?;
                let several = source.len() > 1;
                let announce = |manifest, packs| Message::TreePut {
                    manifest,
                    packs,
                    path: path.clone(),
                    several,
                    options: asked,
                };
                let started = TreeSender::start(source, options, wake.clone());
                let started = started.map_err(|e| from_store(&e))?;
                let patience = self.config.wait_for_space;
                let announce = |manifest, packs| announce(manifest, packs).encode_patient(patience);
                self.tree = Some(Tree::send(connection, started, options, &wake, announce)?);
                self.machine.moves();
            }
            Task::GetTree {
                paths,
                target,
                options,
            } => {
                let target = target.take().ok_or_else(again)?.waiting(self.room.clone());
                let several = paths.len() > 1;
                let started = TreeReceiver::start(target, several, options, true, wake.clone());
                let started = started.map_err(|e| from_store(&e))?;
                let announce = |answers| Message::TreeGet {
                    answers,
                    paths: named,
                    options: asked,
                };
                let (tree, contents) =
                    Tree::receive(connection, started, options, true, &wake, announce)?;
                self.tree = Some(tree);
                self.contents = Some(contents);
                self.machine.asked();
            }
            Task::Describe {
                path, ends, state, ..
            } => {
                let (ends, state) = (ends.take().ok_or_else(again)?, state.clone());
                let announce = |answers| Message::TreeVerify {
                    answers,
                    path: path.clone(),
                    options: asked,
                };
                let (tree, contents) = Tree::compare(connection, ends, state, &wake, announce)?;
                self.tree = Some(tree);
                self.contents = Some(contents);
                self.machine.asked();
            }
            Task::Put { .. }
            | Task::PutLease(_)
            | Task::Get { .. }
            | Task::Look(..)
            | Task::Range(..)
            | Task::Ask { .. }
            | Task::Files { .. } => {}
        }
        Ok(())
    }

    /// What the server says about a tree.
    pub(super) fn on_tree_message(
        &mut self,
        now: Time,
        connection: &mut Connection,
        message: &Message,
    ) -> Result<(), Error> {
        let wake = self.wake();
        let out_of_turn = || Error::new(ErrorKind::Protocol, "the server answers out of turn");
        if let (Message::TreeThanks { side, report }, Stage::Thanking) =
            (message, self.machine.stage())
        {
            let ours = self.tree_report.take();
            let mismatched = self.tree.as_ref().map_or(0, Tree::mismatched);
            self.tree_report = ours.map(|ours| both(report, &ours, mismatched));
            self.end(now, Ok((self.local, *side)));
            connection.close(now, CloseCode::Done, "");
            return Ok(());
        }
        let tree = self.tree.as_mut().ok_or_else(out_of_turn)?;
        match message {
            Message::TreeAccepted { answers } => tree.open_answers(connection, *answers, &wake),
            Message::TreeComes { manifest, packs } => {
                let contents = self.contents.take().ok_or_else(out_of_turn)?;
                self.machine.moves();
                tree.open_contents(connection, contents, (*manifest, *packs), &wake)
            }
            Message::TreeDone {
                side,
                report,
                renamed,
            } => {
                if !self.task.is_put() {
                    return Err(out_of_turn());
                }
                tree.all_placed();
                let report = TreeReport {
                    renamed: *renamed,
                    ..report.clone()
                };
                // Its last words about what it wants may still be on their way.
                self.tree_done = Some((*side, report));
                self.move_tree(now, connection)
            }
            message => tree.on_message(connection, message),
        }
    }

    pub(super) fn move_tree(
        &mut self,
        now: Time,
        connection: &mut Connection,
    ) -> Result<(), Error> {
        let Some(tree) = self.tree.as_mut() else {
            return Ok(());
        };
        let received = tree.poll(now, connection)?;
        // What is said before the last answer is there when that is.
        let is_answered = tree.is_answered();
        let changes = tree.take_changes();
        if !changes.is_empty() {
            self.config.changes.hear(&changes);
        }
        let mut placed = tree.take_placed();
        if let Some(manifest) = &self.config.manifest {
            manifest.hear(&placed);
        }
        placed.retain(|file| !file.kept);
        if !placed.is_empty() {
            self.config.files.hear(&placed);
        }
        let progress = tree.progress(connection);
        // The report has the last word: a dry run moves nothing.
        if self.tree_report.is_none() {
            self.held_bytes = tree.resumed_bytes();
            self.progress.bytes = progress.bytes;
        }
        self.progress.files_done = progress.files + progress.unchanged;
        self.total = None;
        self.progress.files_total = None;
        if progress.wanted_files > 0 {
            self.total = Some(progress.wanted_bytes);
            self.progress.files_total = Some(progress.wanted_files + progress.unchanged);
        }
        if is_answered
            && tree.has_removed()
            && let Some((side, report)) = self.tree_done.take()
        {
            let ours = tree.report();
            tree.finish(connection);
            let mut local = side_report(self.start, &connection.stats());
            let fixed = matches!(self.config.policy, RatePolicy::Fixed(_));
            local.bottleneck = self.at_cap.verdict(connection, tree.waits().verdict(fixed));
            let thanks = Message::TreeThanks {
                side: local,
                report: in_numbers(&ours),
            };
            connection.send_control(&thanks.encode());
            self.progress.bytes = report.bytes;
            self.held_bytes = report.resumed_bytes;
            self.tree_report = Some(both(&ours, &report, tree.mismatched()));
            self.end(now, Ok((local, side)));
            connection.close(now, CloseCode::Done, "");
            return Ok(());
        }
        if let Some(report) = received {
            if tree.lacks() {
                self.machine.lacks();
            }
            tree.finish(connection);
            let mut side = side_report(self.start, &connection.stats());
            side.hashed = true;
            side.reread = tree.is_reread();
            let done = Message::TreeDone {
                side,
                report: in_numbers(&report),
                renamed: report.renamed,
            };
            connection.send_control(&done.encode());
            self.progress.bytes = report.bytes;
            self.held_bytes = report.resumed_bytes;
            self.tree_report = Some(report);
            self.thanks(now, side);
        }
        Ok(())
    }
}

/// What a server hears of it: what stands in notes are paths of this machine.
fn in_numbers(report: &TreeReport) -> TreeReport {
    TreeReport {
        notes: Vec::new(),
        notices: Vec::new(),
        ..report.clone()
    }
}

/// What both sides did. Files whose source changed after it was hashed are no failures of the receiver's as well.
fn both(sender: &TreeReport, receiver: &TreeReport, mismatched: u64) -> TreeReport {
    let all = TreeReport::merged(sender, receiver);
    let twice = mismatched.min(sender.changed).min(receiver.failed);
    TreeReport {
        failed: all.failed - twice,
        ..all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;

    #[test]
    fn a_source_that_changed_on_its_way_is_that_and_no_failure() {
        let report = |failed, changed| TreeReport {
            failed,
            changed,
            ..TreeReport::default()
        };
        let kind = |sender, receiver, mismatched| {
            let summary = Summary {
                tree: Some(both(&sender, &receiver, mismatched)),
                ..Summary::default()
            };
            summary.shortfall().map(|error| error.kind())
        };
        let changed = Some(ErrorKind::SourceChanged);
        assert_eq!(kind(report(0, 1), report(1, 0), 1), changed);
        // Something else has failed as well, or the receiver's disk is to blame.
        let partial = Some(ErrorKind::Partial);
        assert_eq!(kind(report(0, 1), report(2, 0), 1), partial);
        assert_eq!(kind(report(0, 0), report(1, 0), 1), partial);
        assert_eq!(kind(report(0, 1), report(1, 0), 0), partial);
    }
}
