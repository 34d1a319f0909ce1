//! What a session has asked for, until it is open, and what is on its way to its place.

use crate::session::blocking::BlockingJob;
use crate::session::receiving::Place;
use crate::{Error, PathBytes};
use howdah_core::ObjectId;
use howdah_session::TreeOptions;
use howdah_session::message::Message;
use howdah_session::questions::Question;
use howdah_session::transfer;
use howdah_store::Source;
use howdah_tree::{ReceiverEnds, SenderEnds, TreeDescriber, TreeReceiver, TreeSender};

/// What is being opened.
pub(in crate::server) enum Opening {
    Get(BlockingJob<Result<(Source, bool), Error>>, Get),
    Put(BlockingJob<Result<Option<(Place, Message)>, Error>>),
    Tree(BlockingJob<Result<Prepared, Error>>),
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opening")
    }
}

/// What a client asked for with [`Message::Get`].
#[derive(Clone, Debug)]
pub(in crate::server) struct Get {
    pub(super) path: PathBytes,
    pub(super) hash: bool,
    pub(super) wanted: transfer::Get,
}

/// What a copy of a tree is about, opened.
pub(in crate::server) enum Prepared {
    Put {
        started: (TreeReceiver, ReceiverEnds),
        options: TreeOptions,
        contents: (ObjectId, ObjectId),
    },
    Get {
        started: (TreeSender, SenderEnds),
        options: TreeOptions,
        answers: ObjectId,
    },
    Verify {
        started: (TreeDescriber, SenderEnds),
        answers: ObjectId,
    },
}

/// What may have to wait. What is put waits in its session ([`Put`](crate::session::putting::Put)), since its bytes come at once.
#[derive(Clone, Debug)]
pub(in crate::server) enum Request {
    /// With the names and rules that came before it.
    Tree(Box<Message>),
    Get(Get),
    Ask(Question),
}

/// A lease that has come and goes to its place.
#[derive(Debug)]
pub(in crate::server) struct Landing {
    /// As which it came.
    pub(super) object: ObjectId,
    pub(super) bytes: u64,
    pub(super) errand: BlockingJob<Result<(), Error>>,
}
