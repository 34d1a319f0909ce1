//! Connections that join a session of this server, on whichever loop they are.

use crate::session::lanes::{Hub, Ticket, WeakHub};
use crate::{Error, ErrorKind, PathBytes};
use howdah_store::Wake;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a client has to know to join.
pub(super) type Token = [u8; 32];

/// A session that others may join.
#[derive(Clone, Debug)]
struct Offer {
    /// Whose it is: nobody else's connections join.
    client: String,
    hub: WeakHub,
    most: u8,
    path: PathBytes,
}

/// All that there are.
#[derive(Debug, Default)]
pub(super) struct Offers(Mutex<BTreeMap<Token, Offer>>);

/// A connection that may join.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) hub: Hub,
    pub(super) ticket: Ticket,
    pub(super) path: PathBytes,
}

impl Offers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Token, Offer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets others join, with the token that is returned. `None`: this system gives nothing that nobody can guess.
    pub(super) fn offer(
        &self,
        client: &str,
        hub: &Hub,
        most: u8,
        path: PathBytes,
    ) -> Option<Token> {
        let mut token = Token::default();
        aws_lc_rs::rand::fill(&mut token).ok()?;
        let offer = Offer {
            client: client.to_owned(),
            hub: hub.downgrade(),
            most,
            path,
        };
        let mut all = self.all();
        // Each session has one at most: what is over goes with the next.
        all.retain(|_, offer| offer.hub.upgrade().is_some());
        all.insert(token, offer);
        Some(token)
    }

    /// Joins, as a connection of that client, which `wake` wakes. Whatever is wrong, it hears the same.
    pub(super) fn join(&self, client: &str, token: &Token, wake: Wake) -> Result<Joining, Error> {
        let offer = self.all().get(token).cloned();
        let joining = offer.and_then(|offer| {
            let is_his = !client.is_empty() && offer.client == client;
            let hub = offer.hub.upgrade().filter(|_| is_his)?;
            let ticket = hub.enter(offer.most, wake)?;
            Some(Joining {
                hub,
                ticket,
                path: offer.path,
            })
        });
        let nothing = || Error::new(ErrorKind::Refused, "there is nothing to join with that");
        joining.ok_or_else(nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::lanes::Landed;
    use howdah_core::RangeSet;
    use std::sync::Arc;

    fn wake() -> Wake {
        Arc::new(|| ())
    }

    fn moving() -> (Landed, Hub) {
        let landed = Landed::new(1 << 30, RangeSet::new(), None, wake());
        let hub = Hub::Receives(landed.inlet().clone());
        (landed, hub)
    }

    #[test]
    fn only_whoever_has_the_key_and_was_told_the_token_joins_and_only_while_something_moves() {
        let offers = Offers::default();
        let (landed, hub) = moving();
        let token = offers.offer("anna", &hub, 3, "a".into()).expect("numbers");
        let (other_landed, other_hub) = moving();
        let other = offers.offer("ben", &other_hub, 3, "b".into());
        let other = other.expect("numbers");
        let join = |client, token: &Token| offers.join(client, token, wake());
        let mut forged = token;
        forged[31] ^= 1;
        for (client, token) in [
            ("anna", forged),
            ("anna", [0; 32]),
            ("anna", other),
            ("ben", token),
            ("", token),
        ] {
            let error = join(client, &token).expect_err("it is not his");
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert_eq!(error.to_string(), "there is nothing to join with that");
        }
        assert_eq!(hub.count(), 1);
        let first = join("anna", &token).expect("one more");
        assert_eq!(first.path, *"a");
        let second = join("anna", &token).expect("and another one");
        assert_eq!(hub.count(), 3);
        join("anna", &token).expect_err("that is one too many");
        drop(second);
        let _third = join("anna", &token).expect("there is room again");
        drop(landed);
        drop(first);
        join("anna", &token).expect_err("it is over");
        // What is over is forgotten when somebody begins.
        drop(other_landed);
        let (_landed, hub) = moving();
        offers.offer("anna", &hub, 3, "a".into()).expect("numbers");
        assert_eq!(offers.all().len(), 1);
    }
}
