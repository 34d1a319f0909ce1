//! Large files of a tree whose places are being opened: on a thread of their own, since that waits for a disk. What comes of
//! them meanwhile is kept, within bounds.

use super::kept::{KEPT_MAX, Kept};
use super::receiving::{Place, Receiving};
use crate::error::from_store;
use crate::{Error, ErrorKind};
use howdah_core::{ObjectId, RangeSet};
use howdah_net::Placement;
use howdah_proto::Connection;
use howdah_session::message::Message;
use howdah_session::resume::WireRanges;
use howdah_store::{Sink, StoreError, Wake, threads};
use howdah_tree::{LargeOpening, LargeTarget};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// Messages about one of them; an honest sender has two to say.
const LATER_MAX: usize = 16;

type Opened = (ObjectId, Result<Option<(LargeTarget, Sink)>, StoreError>);

/// A file that comes and whose place is not open.
#[derive(Debug)]
struct Coming {
    object: ObjectId,
    /// The sender wants to hear what is there.
    is_asked: bool,
    kept: Kept,
    later: Vec<Message>,
    is_complete: bool,
    is_missing: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LargeFiles {
    coming: Vec<Coming>,
    kept_bytes: usize,
    /// Of a receiver.
    opener: Option<Opener>,
}

#[derive(Debug)]
struct Opener {
    ask: Sender<(ObjectId, LargeOpening)>,
    opened: Receiver<Opened>,
}

impl Opener {
    /// The files of a tree are opened one after the other. Dropping it ends the thread.
    fn start(wake: Wake) -> Result<Self, Error> {
        let (ask, asked) = channel::<(ObjectId, LargeOpening)>();
        let (tell, opened) = channel();
        let work = move || {
            for (object, opening) in asked {
                if tell.send((object, opening.open())).is_err() {
                    return;
                }
                wake();
            }
        };
        threads::start("howdah-open", work).map_err(|e| Error::no_thread(&e))?;
        Ok(Self { ask, opened })
    }
}

/// What became of a file.
#[derive(Debug)]
pub(super) enum Ready {
    /// It is open; these messages about it came before.
    Open(Box<Receiving>, LargeTarget, Vec<Message>),
    /// The sender cannot send it.
    Missing(LargeTarget),
    /// It cannot be taken, which the tree knows.
    Refused(ObjectId),
}

impl LargeFiles {
    /// Those of a tree that comes here.
    pub(super) fn start(wake: Wake) -> Result<Self, Error> {
        Ok(Self {
            opener: Some(Opener::start(wake)?),
            ..Self::default()
        })
    }

    /// Files that come and are not open.
    pub(super) fn len(&self) -> usize {
        self.coming.len()
    }

    /// Takes what comes of `object`, and has its place opened.
    pub(super) fn admit(
        &mut self,
        connection: &mut Connection,
        (object, size, is_asked): (ObjectId, u64, bool),
        opening: LargeOpening,
        holes: Option<&RangeSet>,
    ) -> Result<(), Error> {
        Receiving::admit(connection, object, Some(size), None)?;
        if let Some(holes) = holes {
            connection.note_present(object, holes);
        }
        let opener = self.opener.as_ref().ok_or_else(ended)?;
        opener.ask.send((object, opening)).map_err(|_| ended())?;
        self.coming.push(Coming {
            object,
            is_asked,
            kept: Kept::default(),
            later: Vec::new(),
            is_complete: false,
            is_missing: false,
        });
        Ok(())
    }

    fn find(&mut self, object: ObjectId) -> Option<&mut Coming> {
        self.coming.iter_mut().find(|c| c.object == object)
    }

    /// Whether more of them can be kept.
    pub(super) fn accepts_data(&self) -> bool {
        self.kept_bytes < KEPT_MAX
    }

    /// Keeps received bytes of a file that is not open, if it is one of these.
    pub(super) fn place(&mut self, object: ObjectId, buffer: &[u8], parts: &[Placement]) {
        let Some(coming) = self.find(object) else {
            return;
        };
        let before = coming.kept.bytes();
        coming.kept.place(buffer, parts);
        let more = coming.kept.bytes() - before;
        self.kept_bytes += more;
    }

    /// All bytes of it are here, if it is one of these.
    pub(super) fn on_complete(&mut self, object: ObjectId) {
        if let Some(coming) = self.find(object) {
            coming.is_complete = true;
        }
    }

    /// The sender cannot send it, if it is one of these.
    pub(super) fn on_missing(&mut self, connection: &mut Connection, object: ObjectId) {
        let Some(coming) = self.find(object) else {
            return;
        };
        coming.is_missing = true;
        let kept = std::mem::take(&mut coming.kept).bytes();
        self.kept_bytes -= kept;
        connection.finish_receiving(object);
    }

    /// Keeps a message about it, if it is one of these.
    pub(super) fn keep(&mut self, object: ObjectId, message: &Message) -> Result<(), Error> {
        let Some(coming) = self.find(object) else {
            return Ok(());
        };
        if coming.later.len() >= LATER_MAX {
            let text = "the sender does not wait for what it sends to be opened";
            return Err(Error::new(ErrorKind::Protocol, text));
        }
        coming.later.push(message.clone());
        Ok(())
    }

    /// One that is open now.
    pub(super) fn poll(&mut self, connection: &mut Connection) -> Result<Option<Ready>, Error> {
        let Some(opener) = &self.opener else {
            return Ok(None);
        };
        let (object, opened) = match opener.opened.try_recv() {
            Ok(opened) => opened,
            Err(TryRecvError::Empty) => return Ok(None),
            Err(TryRecvError::Disconnected) => return Err(ended()),
        };
        let Some(at) = self.coming.iter().position(|c| c.object == object) else {
            return Ok(None);
        };
        let coming = self.coming.swap_remove(at);
        self.kept_bytes -= coming.kept.bytes();
        let Some((target, sink)) = opened.map_err(|e| from_store(&e))? else {
            if !coming.is_missing {
                connection.finish_receiving(object);
            }
            return Ok(Some(Ready::Refused(object)));
        };
        if coming.is_missing {
            return Ok(Some(Ready::Missing(target)));
        }
        let (held, values) = (WireRanges::from(&sink.held()), sink.wants_values());
        let mut receiving = Receiving::of_admitted(connection, object, Place::Store(sink), true);
        if coming.is_asked {
            let ready = Message::Ready {
                object,
                held,
                values,
                changed: None,
            };
            connection.send_control(&ready.encode());
        }
        coming.kept.give(&mut receiving);
        if coming.is_complete {
            receiving.on_complete();
        }
        Ok(Some(Ready::Open(Box::new(receiving), target, coming.later)))
    }

    /// Nothing more of them is wanted.
    pub(super) fn finish(&mut self, connection: &mut Connection) {
        for coming in self.coming.drain(..) {
            connection.finish_receiving(coming.object);
        }
        self.kept_bytes = 0;
    }
}

fn ended() -> Error {
    Error::new(
        ErrorKind::Io,
        "the thread that opens files ended without a word",
    )
}
