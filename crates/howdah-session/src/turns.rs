//! Whose turn it is: which message may come while a session does what.

use crate::Misbehaved;
use crate::message::Message;

/// What a server does for one client: one thing at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Doing {
    /// Nothing has been asked for, or it is over.
    Nothing,
    /// What was asked for waits, or is being opened.
    Beginning,
    /// A file comes or leaves, or a question that is no copy is answered.
    One,
    /// A tree comes, leaves or is described.
    Tree,
    /// It has said that it answers questions about files.
    Files,
}

/// What becomes of a message that a server hears.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heard {
    /// Something is asked for: it begins.
    Begin,
    /// It belongs to a request that comes: it is kept until then.
    Before,
    /// It is kept until what was asked for is open.
    Later,
    /// It is about the one object, as far as that is still under way.
    OfObject,
    /// It is about the tree.
    OfTree,
    /// Questions about files.
    OfFiles,
    /// The client says that it failed.
    Failed,
    /// It is about what is over: a last word that has been overtaken.
    Late,
    /// How fast it is to be: at any time.
    Pace,
}

impl Doing {
    /// What becomes of a message that comes now.
    ///
    /// # Errors
    ///
    /// It may not come now.
    pub fn hears(self, message: &Message) -> Result<Heard, Misbehaved> {
        let out_of_turn = || Err(Misbehaved::new("the client asks out of turn"));
        if matches!(message, Message::Pace(_)) {
            return Ok(Heard::Pace);
        }
        match self {
            Self::Beginning => return Ok(Heard::Later),
            Self::Tree => return Ok(Heard::OfTree),
            Self::Files => {
                return match message {
                    Message::AskFiles(_) => Ok(Heard::OfFiles),
                    Message::Fail { .. } => Ok(Heard::Failed),
                    _ => out_of_turn(),
                };
            }
            Self::Nothing | Self::One => {}
        }
        let is_free = self == Self::Nothing;
        Ok(match message {
            Message::Put { .. }
            | Message::PutLease(_)
            | Message::Get { .. }
            | Message::TreePut { .. }
            | Message::TreeGet { .. }
            | Message::TreeVerify { .. }
            | Message::Ask(_)
            | Message::OpenFiles
                if is_free =>
            {
                Heard::Begin
            }
            Message::Selection(_) | Message::IntoPlan(_) if is_free => Heard::Before,
            Message::Holes { .. } => Heard::Before,
            Message::Values { .. } | Message::End { .. } | Message::Done { .. } => Heard::OfObject,
            Message::Fail { .. } => Heard::Failed,
            // The last words about a tree that is done or has failed may come late.
            Message::TreeThanks { .. }
            | Message::TreeDone { .. }
            | Message::TreeSettled { .. }
            | Message::TreeFile { .. }
            | Message::TreeFileMissing { .. } => Heard::Late,
            Message::Put { .. }
            | Message::PutLease(_)
            | Message::Get { .. }
            | Message::TreePut { .. }
            | Message::TreeGet { .. }
            | Message::TreeVerify { .. }
            | Message::TreeAccepted { .. }
            | Message::TreeComes { .. }
            | Message::TreePlaced { .. }
            | Message::Sending { .. }
            | Message::Ready { .. }
            | Message::Room { .. }
            | Message::Selection(_)
            | Message::IntoPlan(_)
            | Message::Ask(_)
            | Message::Findings(_)
            | Message::Answered(_)
            | Message::OpenFiles
            | Message::FilesOpen { .. }
            | Message::AskFiles(_)
            | Message::Pace(_)
            | Message::Thanks { .. } => return out_of_turn(),
        })
    }
}

/// How far a client has got with the one thing that it wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// It has not asked yet.
    Before,
    /// It has asked for something, and hears no answer yet.
    Asked,
    /// Something moves.
    Moving,
    /// All is here; the server's figures are on their way.
    Thanking,
    /// It is over.
    Over,
}

/// What becomes of a message that a client hears.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answered {
    /// The server says that it failed.
    Failed,
    /// It waits for space, or has some again.
    Room,
    /// It is about the tree.
    OfTree,
    /// What was asked for comes as an object.
    Comes,
    /// It belongs to what comes: it is kept until then.
    Before,
    /// It is about the one object, as far as that is still under way.
    OfObject,
    /// What was asked is answered.
    OfQuestion,
    /// It answers questions about files.
    OfFiles,
    /// The server's figures.
    Thanks,
    /// The same, of what is over.
    Late,
}

impl Stage {
    /// What becomes of a message that comes now; `of_tree`: a tree is under way.
    ///
    /// # Errors
    ///
    /// It may not come now.
    pub fn hears(self, message: &Message, of_tree: bool) -> Result<Answered, Misbehaved> {
        let out_of_turn = || Err(Misbehaved::new("the server answers out of turn"));
        Ok(match message {
            Message::Room { .. } => Answered::Room,
            Message::Fail { .. } => Answered::Failed,
            _ if of_tree => Answered::OfTree,
            Message::Sending { .. } if self == Self::Asked => Answered::Comes,
            Message::Holes { .. } => Answered::Before,
            Message::Ready { .. }
            | Message::Values { .. }
            | Message::End { .. }
            | Message::Done { .. } => Answered::OfObject,
            Message::Findings(_) | Message::Answered(_) => Answered::OfQuestion,
            Message::FilesOpen { .. } => Answered::OfFiles,
            Message::Thanks { .. } if self == Self::Thanking => Answered::Thanks,
            Message::Thanks { .. } => Answered::Late,
            Message::Put { .. }
            | Message::PutLease(_)
            | Message::IntoPlan(_)
            | Message::Get { .. }
            | Message::Sending { .. }
            | Message::Pace(_)
            | Message::TreePut { .. }
            | Message::TreeAccepted { .. }
            | Message::TreeGet { .. }
            | Message::TreeComes { .. }
            | Message::TreeFile { .. }
            | Message::TreeFileMissing { .. }
            | Message::TreeSettled { .. }
            | Message::TreeDone { .. }
            | Message::TreeThanks { .. }
            | Message::TreeVerify { .. }
            | Message::TreePlaced { .. }
            | Message::Selection(_)
            | Message::Ask(_)
            | Message::OpenFiles
            | Message::AskFiles(_) => return out_of_turn(),
        })
    }
}
