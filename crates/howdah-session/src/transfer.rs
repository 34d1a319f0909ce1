//! One object of a session, from either end: what may be said of it in which state, and what follows. Whoever drives it moves the bytes,
//! asks disks, and says here how that went.
//!
//! ```text
//! Outgoing   Offered --Ready--> Moving --all read--> Ended --Done--> it is over
//! Incoming   Coming --all bytes--> Whole --End--> Finish asked for --stored--> Done is said
//!                   `----End----> Told --all bytes--^
//! ```

use crate::Misbehaved;
use crate::message::Message;
use crate::resume::{RESUMABLE_MIN, SourceIdentity, WireHeld, WireRanges};
use howdah_core::{ObjectId, RangeSet};

/// Where an object ends, and what it hashes to if that was told.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct End {
    /// All of it, in bytes.
    pub size: u64,
    /// BLAKE3 of the content.
    pub blake3: Option<[u8; 32]>,
}

/// The source of a copy that can be gone on with, if it is one: hashed, as long as it says, and large enough to be worth it.
pub fn resumable(
    source: Option<SourceIdentity>,
    size: Option<u64>,
    hash: bool,
) -> Option<SourceIdentity> {
    let fits = |source: &SourceIdentity| Some(source.size) == size && source.size >= RESUMABLE_MIN;
    source.filter(|source| hash && fits(source))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Out {
    /// It can be gone on with: what the receiver has of so many bytes must be heard first.
    Offered { size: u64 },
    /// Bytes leave.
    Moving,
    /// Its end has been told.
    Ended(End),
}

/// An object on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    object: ObjectId,
    hash: bool,
    state: Out,
    values: bool,
    held_bytes: u64,
}

/// What somebody asks for with [`Message::Get`], besides where it is.
#[derive(Clone, Debug)]
pub struct Get {
    /// The first byte that may not come yet; `None`: all may.
    pub window_end: Option<u64>,
    /// What is there of it already.
    pub held: Option<WireHeld>,
    /// Tell the values of its groups.
    pub values: bool,
}

/// What is known of a source when it is open.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// In bytes; `None`: it ends when it ends.
    pub size: Option<u64>,
    /// Which version of which file it is.
    pub identity: Option<SourceIdentity>,
    /// Permission bits, if they are shown.
    pub mode: Option<u32>,
}

/// The answer to a [`Get`].
#[derive(Clone, Debug)]
pub struct Answer {
    /// What is told.
    pub message: Message,
    /// What need not be sent.
    pub held: RangeSet,
}

impl Outgoing {
    /// One that leaves at once, with a BLAKE3 at its end or without.
    pub fn new(object: ObjectId, hash: bool) -> Self {
        Self {
            object,
            hash,
            state: Out::Moving,
            values: false,
            held_bytes: 0,
        }
    }

    /// Goes on as the one who asked wants it. What is said to him, before anything leaves.
    ///
    /// # Errors
    ///
    /// He claims to have what cannot be.
    pub fn answer(&mut self, get: &Get, opened: &Opened) -> Result<Answer, Misbehaved> {
        let source = opened.identity.filter(|_| get.values);
        let held = match (&get.held, &source) {
            (Some(held), Some(source)) => held.of(source)?,
            _ => RangeSet::new(),
        };
        let message = Message::Sending {
            object: self.object,
            size: opened.size,
            hash: self.hash,
            source,
            resumed: !held.is_empty(),
            mode: opened.mode,
        };
        self.go_on(&held, source.is_some());
        Ok(Answer { message, held })
    }

    /// Offers the copy as one that can be gone on with: not more than its [head](crate::resume::HEAD) is sent before the receiver has said what it has.
    /// `None`: it cannot.
    pub fn offer(&mut self, source: Option<SourceIdentity>) -> Option<SourceIdentity> {
        let size = source.map(|source| source.size);
        let source = resumable(source, size, self.hash)?;
        self.state = Out::Offered { size: source.size };
        Some(source)
    }

    /// Nothing of its `size` bytes leaves before the receiver has said what it has, even if none of it could be gone on with.
    pub fn wait_for_ready(&mut self, size: u64) {
        self.state = Out::Offered { size };
    }

    /// The receiver has `held` and wants the values of the rest or not.
    pub fn go_on(&mut self, held: &RangeSet, values: bool) {
        if let Out::Offered { .. } = self.state {
            self.state = Out::Moving;
        }
        self.values = values;
        self.held_bytes = held.byte_count();
    }

    /// [`go_on`](Self::go_on) as the receiver said it, with [`Message::Ready`]. Returns what need not be sent.
    ///
    /// # Errors
    ///
    /// Nothing was offered, or it cannot be there.
    pub fn on_ready(&mut self, held: &WireRanges, values: bool) -> Result<RangeSet, Misbehaved> {
        let Out::Offered { size } = self.state else {
            return Err(Misbehaved::new("is ready for what was not offered"));
        };
        let held = held.within(size)?;
        self.go_on(&held, values);
        Ok(held)
    }

    /// Ends it: everything was read. What the receiver is told; `None`: it must say what it has first, or has been told.
    pub fn end(&mut self, end: End) -> Option<Message> {
        if self.state != Out::Moving {
            return None;
        }
        self.state = Out::Ended(end);
        Some(Message::End {
            object: self.object,
            size: end.size,
            blake3: end.blake3,
        })
    }

    /// The receiver says that all of it is in place.
    ///
    /// # Errors
    ///
    /// It has not been told where it ends.
    pub fn on_done(&self) -> Result<End, Misbehaved> {
        let what = "the other side says that all of it is there, and has not got all of it";
        self.ended().ok_or_else(|| Misbehaved::new(what))
    }

    /// The receiver has settled it, as an object of a tree: all of it is in place, or will not be (`None`).
    ///
    /// # Errors
    ///
    /// It has not been told where it ends, and yet has all of it.
    pub fn on_settled(&self, stored: bool) -> Result<Option<End>, Misbehaved> {
        stored.then(|| self.on_done()).transpose()
    }

    /// Which object it is.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// Whether a BLAKE3 is told at its end.
    pub fn is_hashed(&self) -> bool {
        self.hash
    }

    /// Whether the receiver owes the word about what it has.
    pub fn waits_for_ready(&self) -> bool {
        matches!(self.state, Out::Offered { .. })
    }

    /// Whether its end may be told as soon as it is known.
    pub fn may_end(&self) -> bool {
        self.state == Out::Moving
    }

    /// What was told of its end, once it was.
    pub fn ended(&self) -> Option<End> {
        match self.state {
            Out::Ended(end) => Some(end),
            Out::Offered { .. } | Out::Moving => None,
        }
    }

    /// Whether the receiver wants the values of groups.
    pub fn tells_values(&self) -> bool {
        self.values
    }

    /// Bytes that the receiver had before.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum In {
    /// Bytes come.
    Coming,
    /// All of them are here; where that is has not been said.
    Whole,
    /// It has been said where it ends; bytes are missing.
    Told(End),
    /// Both.
    Complete(End),
    /// Whoever stores it has been told so.
    Finishing(End),
}

/// An object on its way in.
#[derive(Clone, Debug)]
pub struct Incoming {
    object: ObjectId,
    /// What was here before.
    held: RangeSet,
    hash: bool,
    state: In,
}

/// How an object was checked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Arrived {
    /// Against the sender's hash.
    pub hashed: bool,
    /// Once more as the device gives it back.
    pub reread: bool,
    /// BLAKE3 of what was written.
    pub hash: Option<[u8; 32]>,
}

impl Incoming {
    /// One of which `held` is here already, and whose sender has promised a hash or not.
    pub fn new(object: ObjectId, held: RangeSet, hash: bool) -> Self {
        Self {
            object,
            held,
            hash,
            state: In::Coming,
        }
    }

    /// The sender says where it ends.
    ///
    /// # Errors
    ///
    /// It has said so before, owes a hash, or tells one that nobody compares as it has not been promised.
    pub fn on_end(&mut self, end: End) -> Result<(), Misbehaved> {
        // Who did not send everything does not know the whole; its groups were told one by one.
        if self.hash && end.blake3.is_none() && self.held.is_empty() {
            return Err(Misbehaved::new("the sender owes a hash of the content"));
        }
        if !self.hash && end.blake3.is_some() {
            let text = "the sender tells a hash of the content that it has not promised";
            return Err(Misbehaved::new(text));
        }
        self.state = match self.state {
            In::Coming => In::Told(end),
            In::Whole => In::Complete(end),
            In::Told(_) | In::Complete(_) | In::Finishing(_) => {
                return Err(contradiction());
            }
        };
        Ok(())
    }

    /// All bytes have arrived.
    pub fn on_complete(&mut self) {
        self.state = match self.state {
            In::Coming => In::Whole,
            In::Told(end) => In::Complete(end),
            state => state,
        };
    }

    /// Once, when all of it is here: it is to be verified, made durable, and given its name.
    pub fn take_finish(&mut self) -> Option<End> {
        let In::Complete(end) = self.state else {
            return None;
        };
        self.state = In::Finishing(end);
        Some(end)
    }

    /// It is in its place, `reread` from the device or not.
    pub fn stored(&self, reread: bool, hash: Option<[u8; 32]>) -> Arrived {
        let told = self.told().is_some_and(|end| end.blake3.is_some());
        Arrived {
            hashed: told || !self.held.is_empty(),
            reread,
            hash,
        }
    }

    /// Which object it is.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// What was here before.
    pub fn held(&self) -> &RangeSet {
        &self.held
    }

    /// Size and hash, once the sender has told them.
    pub fn told(&self) -> Option<End> {
        match self.state {
            In::Told(end) | In::Complete(end) | In::Finishing(end) => Some(end),
            In::Coming | In::Whole => None,
        }
    }

    /// Whether all bytes are here.
    pub fn is_whole(&self) -> bool {
        !matches!(self.state, In::Coming | In::Told(_))
    }

    /// Whether only the word about its end is missing.
    pub fn waits_for_end(&self) -> bool {
        self.state == In::Whole
    }
}

/// The end that a sender has told is not that of its bytes, or not the one it told before.
pub fn contradiction() -> Misbehaved {
    Misbehaved::new("the sender contradicts itself about the size of the object")
}

/// What a sender says of an object that goes on, beside how many bytes are really here of it.
///
/// # Errors
///
/// It leaves out what is not here, or sends what is.
pub fn check_resumed(resumed: bool, held_bytes: u64) -> Result<(), Misbehaved> {
    if resumed != (held_bytes > 0) {
        return Err(Misbehaved::new(
            "the server goes on with another copy than this one",
        ));
    }
    Ok(())
}
