//! An application that ends when the far end's process has.

use super::FarEnd;
use howdah_core::{ObjectId, Span, Time};
use howdah_net::{Application, Attended, ConnKey, Placement};
use howdah_proto::error::CloseCode;
use howdah_proto::{Connection, Event};

/// What is on its way when ssh ends may still arrive.
const GRACE: Span = Span::from_secs(2);

/// Passes everything on, and closes the connection after ssh has ended: nobody is there any more.
pub(crate) struct Watched<'a, A> {
    inner: &'a mut A,
    far_end: &'a FarEnd,
    ended_at: Option<Time>,
}

impl<'a, A: Application> Watched<'a, A> {
    pub(crate) fn new(inner: &'a mut A, far_end: &'a FarEnd) -> Self {
        Self {
            inner,
            far_end,
            ended_at: None,
        }
    }
}

impl<A: Application> Application for Watched<'_, A> {
    fn on_event(&mut self, now: Time, key: ConnKey, connection: &mut Connection, event: Event) {
        self.inner.on_event(now, key, connection, event);
    }

    fn read(&mut self, key: ConnKey, object: ObjectId, offset: u64, buffer: &mut [u8]) {
        self.inner.read(key, object, offset, buffer);
    }

    fn accepts_data(&mut self, key: ConnKey) -> bool {
        self.inner.accepts_data(key)
    }

    fn place(&mut self, key: ConnKey, object: ObjectId, buffer: &mut Vec<u8>, parts: &[Placement]) {
        self.inner.place(key, object, buffer, parts);
    }

    fn take_spare(&mut self) -> Option<Vec<u8>> {
        self.inner.take_spare()
    }

    fn poll(&mut self, now: Time, key: ConnKey, connection: &mut Connection) {
        if self.ended_at.is_none() && self.far_end.has_ended() {
            self.ended_at = Some(now);
        }
        if self.ended_at.is_some_and(|at| now.since(at) >= GRACE) {
            connection.close(now, CloseCode::Application, "the other end is gone");
            return;
        }
        self.inner.poll(now, key, connection);
    }

    fn attended(&self) -> Attended<'_> {
        self.inner.attended()
    }

    fn keep_running(&mut self, now: Time) -> bool {
        self.inner.keep_running(now)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.inner.next_deadline()
    }
}
