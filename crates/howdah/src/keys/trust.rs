//! What to do with a server that was never met.

use super::PublicKey;
use std::fmt;
use std::sync::Arc;

/// A server that was never met, for a person to judge.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewHost {
    /// `host:port`.
    pub host: String,
    /// The key that it holds.
    pub key: PublicKey,
}

/// Whether to trust the key of a server that was never met. A *changed* key is never trusted.
#[derive(Clone, Default)]
pub enum Trust {
    /// Refuse it.
    #[default]
    Strict,
    /// Accept it and put it on record.
    AcceptNew,
    /// Only this key, which was learnt another way, and no record.
    Exactly(PublicKey),
    /// Ask somebody: `true` accepts it and puts it on record.
    Ask(Arc<dyn Fn(&NewHost) -> bool + Send + Sync>),
}

impl Trust {
    pub(super) fn accepts(&self, new: &NewHost) -> bool {
        match self {
            Self::Strict => false,
            Self::AcceptNew => true,
            Self::Exactly(key) => *key == new.key,
            Self::Ask(ask) => ask(new),
        }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Strict => "Strict",
            Self::AcceptNew => "AcceptNew",
            Self::Exactly(_) => "Exactly",
            Self::Ask(_) => "Ask",
        })
    }
}
