//! Lines of the log about what a key comes for and does not get: in all of its sessions together, for a session more costs it nothing.
//!
//! What is done for it has a line each: that is work. (The audit log has all of it.)

use howdah_core::{Span, Time};
use howdah_net::Allowance;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Lines at once, and per second.
const LINES: u64 = 50;
/// Keys that are remembered; of more, those that have said nothing lately are forgotten.
const KEYS_MAX: usize = 1_000;
const KEPT: Span = Span::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(super) struct Talk {
    since: Instant,
    keys: Mutex<BTreeMap<String, Told>>,
}

impl Default for Talk {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            keys: Mutex::default(),
        }
    }
}

#[derive(Debug)]
struct Told {
    allowance: Allowance,
    spared: u64,
    at: Time,
}

impl Talk {
    /// What is said about that key now: the line, and how many were left out before it. `None`: there were too many.
    pub(super) fn line(&self, client: &str, text: &str) -> Option<String> {
        let now = Time::ZERO + Span::from(self.since.elapsed());
        self.line_at(now, client, text)
    }

    fn line_at(&self, now: Time, client: &str, text: &str) -> Option<String> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= KEYS_MAX && !keys.contains_key(client) {
            keys.retain(|_, told| now.since(told.at) < KEPT);
        }
        let told = keys.entry(client.to_owned()).or_insert_with(|| Told {
            allowance: Allowance::new(LINES),
            spared: 0,
            at: now,
        });
        told.at = now;
        if !told.allowance.take(now) {
            told.spared += 1;
            return None;
        }
        Some(match std::mem::take(&mut told.spared) {
            0 => text.to_owned(),
            spared => {
                format!(
                    "{text} (and {spared} more of this key before, of which there are no lines)"
                )
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h19_a_key_whose_requests_fail_in_one_session_after_the_other_does_not_fill_the_log() {
        let talk = Talk::default();
        let mut lines = Vec::new();
        for ms in 0..10_000 {
            let now = Time::ZERO + Span::from_millis(ms);
            for what in ["connected", "failed", "gone"] {
                lines.extend(talk.line_at(now, "anna", what));
            }
        }
        let most = 11 * LINES as usize;
        assert!((most / 2..=most).contains(&lines.len()), "{}", lines.len());
        let last = lines.last().expect("some");
        assert!(last.contains("more of this key before"), "{last}");
        // Others have their lines.
        let now = Time::ZERO + Span::from_secs(10);
        let other = talk.line_at(now, "ben", "connected");
        assert_eq!(other.as_deref(), Some("connected"));
    }

    /// Keys come and go for years.
    #[test]
    fn h19_keys_that_say_nothing_are_forgotten() {
        let talk = Talk::default();
        for n in 0..10_000 {
            let now = Time::ZERO + Span::from_secs(n);
            assert!(talk.line_at(now, &n.to_string(), "connected").is_some());
        }
        assert!(talk.keys.lock().expect("no panic").len() <= KEYS_MAX);
    }
}
