//! Tickets: what brings a browser in without anybody's typing a token. A ticket is good once and for a minute, so it may stand where
//! a token must not: in an address, and in a browser's history.

use super::gate::Gate;
use super::jobs::is_json;
use super::shapes::{Problem, Ticket, TicketUse, Token};
use super::{Failure, Shared};
use crate::listen::Peer;
use crate::tokens::{self, Role};
use axum::body::Bytes;
use axum::extract::State as Given;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long one is good.
const GOOD: Duration = Duration::from_mins(1);
/// So many at a time; older ones are forgotten.
const MOST: usize = 8;
/// Bytes of one.
const LENGTH: usize = 32;

/// Those that are good, as hashes: they are compared in the same time whatever they are.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<VecDeque<(blake3::Hash, Instant)>>);

impl Tickets {
    fn make(&self, now: Instant) -> Result<String, getrandom::Error> {
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes)?;
        let ticket = blake3::Hash::from_bytes(bytes).to_hex().to_string();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back((blake3::hash(ticket.as_bytes()), now));
        while known.len() > MOST {
            known.pop_front();
        }
        Ok(ticket)
    }

    /// Whether it was good; it is not any more.
    fn take(&self, ticket: &str, now: Instant) -> bool {
        let hash = blake3::hash(ticket.as_bytes());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, made)| now.duration_since(*made) < GOOD);
        let before = known.len();
        known.retain(|(good, _)| *good != hash);
        known.len() < before
    }
}

/// Makes a ticket, for the daemon's own user: what 'howdah daemon --open' gives to a browser.
#[utoipa::path(
    post,
    path = "/v1/tickets",
    responses(
        (status = 201, description = "It is good once, and for a minute", body = Ticket),
        (status = 403, description = "Not over TCP", body = Problem),
        (status = 409, description = "The daemon does not listen where a browser comes in", body = Problem),
    )
)]
pub(super) async fn make(
    Given(shared): Given<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
) -> Result<Response, Failure> {
    if !peer.is_ours() {
        return Err(Failure::refused(
            "tickets are made over the daemon's socket",
        ));
    }
    let Some(address) = shared.address.clone() else {
        let text = "this daemon does not listen where a browser comes in: end it, and start it with --listen 127.0.0.1:8470 (or --open); its jobs go on";
        return Err(Failure::conflict(text));
    };
    let ticket = shared.tickets.make(Instant::now());
    let ticket = ticket.map_err(|error| Failure::internal(error.to_string()))?;
    Ok((StatusCode::CREATED, Json(Ticket { ticket, address })).into_response())
}

/// Gives the token of an administrator for a ticket, once.
#[utoipa::path(
    post,
    path = "/v1/tickets/use",
    request_body = TicketUse,
    responses(
        (status = 200, description = "A token", body = Token),
        (status = 400, description = "That is no ticket", body = Problem),
        (status = 401, description = "It is not good any more", body = Problem),
        (status = 415, description = "It is not application/json", body = Problem),
        (status = 429, description = "Too many wrong ones", body = Problem),
    )
)]
pub(super) async fn redeem(
    Given(shared): Given<Arc<Shared>>,
    Extension(gate): Extension<Arc<Gate>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    is_json(&headers)?;
    let asked: TicketUse = serde_json::from_slice(&body)
        .map_err(|e| Failure::usage(format!("no description of a ticket: {e}")))?;
    if !shared.tickets.take(&asked.ticket, Instant::now()) {
        let text = "this ticket is not good any more: 'howdah daemon --open' makes another one, or log in with a token";
        return Err(match peer {
            Peer::Tcp { from, .. } => gate.guessed(from, text),
            Peer::User(_) => Failure::new(StatusCode::UNAUTHORIZED, "auth", text),
        });
    }
    let path = shared.tokens.clone();
    let token = tokio::task::spawn_blocking(move || tokens::secret(&path, Role::Admin)).await;
    let token = token.map_err(|_| Failure::internal("reading the tokens failed"))?;
    let token = token.map_err(|error| Failure::internal(format!("the file of tokens: {error}")))?;
    Ok(Json(Token { token }).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once_and_not_for_long() {
        let tickets = Tickets::default();
        let now = Instant::now();
        let ticket = tickets.make(now).unwrap();
        assert!(!tickets.take(&ticket[1..], now) && !tickets.take("", now));
        assert!(tickets.take(&ticket, now) && !tickets.take(&ticket, now));
        let late = tickets.make(now).unwrap();
        assert!(!tickets.take(&late, now + GOOD));
        let many: Vec<_> = (0..=MOST).map(|_| tickets.make(now).unwrap()).collect();
        assert!(!tickets.take(&many[0], now) && tickets.take(&many[1], now));
    }
}
