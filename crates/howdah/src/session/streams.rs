//! The objects of a tree: streams within their bounds, and large files.

use super::receiving::{Place, Receiving};
use super::sending::Sending;
use crate::Error;
use crate::error::from_store;
use howdah_core::ObjectId;
use howdah_proto::Connection;
use howdah_session::Memory;
use howdah_store::{Limits, Sink, SinkSpec, Source, SourceSpec, Wake};
use howdah_tree::{LargeFile, LargeTarget, PipeReader, PipeWriter};

/// How far a manifest and its answers may run ahead of their readers, in bytes. Both sides know it.
const TALK_WINDOW: u64 = 8 << 20;
/// The same of packs at first; the receiver lengthens it as far as it writes as much in a round trip.
const PACKS_WINDOW: u64 = 16 << 20;
/// The same of answers about files, and to how much it grows: what four threads of a server may take each. A path that loses has
/// both round trips in it, that of a byte and that of one sent again, so this is some 2 Gbit/s at 100 ms.
const ANSWERS_WINDOW: u64 = 16 << 20;
const ANSWERS_MOST: u64 = 48 << 20;
/// What the receiver lengthens it to at once: whoever asks for much has room for it.
const ANSWERS_SOON: u64 = 32 << 20;
/// How much is known of names beyond what was sent.
const TALK_AHEAD: u64 = 1 << 20;

/// An object on its way out.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) sending: Sending,
    /// `None`: a stream.
    pub(super) file: Option<LargeFile>,
}

/// An object on its way in.
#[derive(Debug)]
pub(super) struct In {
    pub(super) receiving: Receiving,
    /// `None`: a stream.
    pub(super) file: Option<LargeTarget>,
}

/// Bounds of a stream that may run `ahead` of what was sent, whose window is so long at first and at the most.
fn limits(ahead: u64, window: u64, most: u64) -> Limits {
    Limits {
        pipe_ahead_bytes: ahead,
        pipe_bytes: (most.max(window) + ahead) as usize,
        reorder_start_bytes: window,
        reorder_bytes: most.max(window),
        queue_bytes: 4 << 20,
        ..Limits::default()
    }
}

pub(super) fn talk_limits() -> Limits {
    limits(TALK_AHEAD, TALK_WINDOW, TALK_WINDOW)
}

pub(super) fn packs_limits(memory: Memory) -> Limits {
    limits(memory.ahead_bytes(), PACKS_WINDOW, memory.window_bytes())
}

fn answers_limits() -> Limits {
    limits(TALK_AHEAD, ANSWERS_WINDOW, ANSWERS_MOST)
}

pub(super) fn send_stream(
    connection: &mut Connection,
    object: ObjectId,
    spout: PipeReader,
    limits: &Limits,
    wake: &Wake,
) -> Result<Out, Error> {
    let spec = SourceSpec::Reader(Box::new(spout));
    let source = Source::open_with(spec, false, wake.clone(), limits);
    let source = source.map_err(|e| from_store(&e))?;
    let window = Some(limits.reorder_start_bytes);
    let sending = Sending::new(connection, object, source, false, window);
    Ok(Out {
        sending,
        file: None,
    })
}

pub(super) fn receive_stream(
    connection: &mut Connection,
    object: ObjectId,
    tap: PipeWriter,
    limits: &Limits,
    wake: &Wake,
) -> Result<In, Error> {
    let spec = SinkSpec::Writer(Box::new(tap));
    let sink = Sink::create_with(spec, false, None, wake.clone(), limits);
    let place = Place::Store(sink.map_err(|e| from_store(&e))?);
    let receiving = Receiving::new(connection, object, place, None, false, None)?;
    let receiving = receiving.with_window_of(limits.reorder_bytes);
    Ok(In {
        receiving,
        file: None,
    })
}

/// Answers about files on their way out.
pub(super) fn send_answers(
    connection: &mut Connection,
    object: ObjectId,
    spout: PipeReader,
    wake: &Wake,
) -> Result<Sending, Error> {
    Ok(send_stream(connection, object, spout, &answers_limits(), wake)?.sending)
}

/// Answers about files on their way in.
pub(crate) fn receive_answers(
    connection: &mut Connection,
    object: ObjectId,
    tap: PipeWriter,
    wake: &Wake,
) -> Result<Receiving, Error> {
    let mut receiving = receive_stream(connection, object, tap, &answers_limits(), wake)?.receiving;
    receiving.lengthen_window(ANSWERS_SOON);
    Ok(receiving)
}
