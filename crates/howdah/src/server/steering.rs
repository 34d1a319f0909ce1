//! What somebody beside a server has ordered, carried out by its loop.

use super::control::SessionStatus;
use super::entry::GOING_AWAY;
use super::happening::content;
use super::service::Service;
use crate::{Error, ErrorKind};
use howdah_core::{Span, Time};
use howdah_net::ConnKey;
use howdah_proto::Connection;
use howdah_proto::error::CloseCode;

/// How often sessions are shown, and share a rate ...
const SHOW_EVERY: Span = Span::from_millis(500);
/// ... while they are no more than this; of more, so many in that time: who looks waits some seconds for news of ten thousand.
/// All of them each time were a quarter of the samples in a profile of a server in which nothing happened.
const SHOWN_AT_ONCE: usize = 1_000;
/// A client that has done nothing for that long has nothing left to hear when the server goes away.
const IDLE_MAX: Span = Span::from_secs(5);
/// A client that was refused goes by itself within that time, or is cut off.
const CUT_AFTER: Span = Span::from_secs(2);

impl Service {
    /// Shows the sessions, and sees to it that those are looked at which are to end.
    pub(super) fn look_after(&mut self, now: Time) {
        if self.control.is_draining() || self.control.has_to_end() {
            // Whoever does nothing is not looked at otherwise.
            self.active.extend(self.sessions.keys());
        }
        let is_due = now >= self.next_share;
        self.share_rate(now, is_due);
        if is_due {
            self.next_share = now + SHOW_EVERY;
        }
        if now < self.next_show {
            return;
        }
        let rounds = 1 + self.sessions.len() / SHOWN_AT_ONCE;
        self.next_show = now + SHOW_EVERY * rounds as u64;
        let sessions = self.sessions.iter().map(|(key, session)| SessionStatus {
            id: key.0,
            peer: session.peer.clone(),
            what: if session.is_busy() {
                session.deed.to_string()
            } else {
                String::new()
            },
            bytes: session.meter.bytes,
            rate: session.meter.rate(now),
            goodput: session.content.rate(now),
            elapsed: now.since(session.meter.since),
        });
        self.control.show(self.index, sessions.collect());
    }

    /// Ends the session if that was ordered; whether it has ended.
    pub(super) fn steer(&mut self, now: Time, key: ConnKey, connection: &mut Connection) -> bool {
        let Some(session) = self.sessions.get_mut(&key) else {
            return false;
        };
        if session.meter.is_due(now) {
            let stats = connection.stats();
            let bytes = stats.bytes_sent + stats.bytes_received;
            let time = session.meter.age(now);
            session.meter.note(now, bytes);
            let [sent, received] = content(&stats);
            session.content.note(now, sent + received);
            self.control.tell(session.moved(connection, time));
            session.note_progress(now, connection);
        }
        if session.cut_at.is_some_and(|at| now >= at) {
            connection.close(
                now,
                CloseCode::Application,
                "whoever runs the server has ended this session",
            );
            return true;
        }
        if self.control.take_end(key.0) && session.cut_at.is_none() {
            session.cut_at = Some(now + CUT_AFTER);
            let text = "whoever runs the server has ended this session";
            self.give_up(key, connection, &Error::new(ErrorKind::Refused, text));
            return false;
        }
        if session.fails_too_often() {
            let text = "this session has asked too often for what it does not get";
            connection.close(now, CloseCode::Application, text);
            return true;
        }
        let idle = session
            .idle_since
            .is_some_and(|since| now.since(since) >= IDLE_MAX);
        if idle && self.control.is_draining() && !session.is_busy() {
            connection.close(now, CloseCode::Application, GOING_AWAY);
            return true;
        }
        false
    }
}
