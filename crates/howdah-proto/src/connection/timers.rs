//! What happens when nothing happens.

use super::{CLOSE_TOLD_WITHIN, Connection, State};
use crate::error::{CloseCode, ConnectionError, PeerMisbehaved};
use howdah_core::{Span, Time, WakeReason};

/// Unanswered probes before what was known about the path counts as stale.
const BLACKOUT_PROBES: u32 = 2;
/// The wait between probes doubles, but not beyond this.
const PROBE_WAIT_MAX: Span = Span::from_secs(1);

/// An honest peer repeats a report until it is confirmed, which takes a few round trips.
const WITHHELD_MIN: Span = Span::from_secs(60);

/// Whoever waits for the rest of an object and hears nothing speaks up after that long.
const NUDGE_MIN: Span = Span::from_millis(300);

/// While nothing is under way the peer is believed to be there for so many times longer.
const QUIET_TIMES: u64 = 6;

/// Idle connections speak up at the end of such a part of their wait, many at once: thousands of them would wake the host for each
/// one otherwise.
const KEEP_ALIVE_PARTS: u64 = 16;

impl Connection {
    fn idle_timeout(&self) -> Span {
        match self.alive.awake_since {
            Some(_) => self.config.idle_timeout,
            None => self.config.idle_timeout * QUIET_TIMES,
        }
    }

    fn idle_at(&self) -> Time {
        let heard = self
            .alive
            .last_received_at
            .max(self.alive.awake_since.unwrap_or(Time::ZERO));
        heard + self.idle_timeout()
    }

    /// The application says whether nothing is under way, and will not be before it has said so. Then this side waits six times
    /// as long before it asks whether the peer is there, and before it gives it up. The peer need not know: whoever wants to
    /// know earlier asks, and is answered.
    pub fn set_quiet(&mut self, now: Time, is_quiet: bool) {
        if is_quiet {
            self.alive.awake_since = None;
        } else {
            self.alive.awake_since.get_or_insert(now);
        }
    }

    fn keep_alive_at(&self) -> Time {
        let rest = self.idle_timeout() / 3;
        let last = self
            .alive
            .last_eliciting_sent_at
            .max(self.alive.last_received_at);
        if self.streams.incoming.is_receiving() {
            // Silence in the middle of an object: the peer may be sending to an address of ours that
            // is no longer one.
            let timeout = self.pace.rtt.probe_timeout(Self::max_report_delay());
            return last + (timeout * 2).max(NUDGE_MIN).min(rest);
        }
        let at = last + rest;
        if self.alive.awake_since.is_some() {
            return at;
        }
        let part = (rest / KEEP_ALIVE_PARTS).as_nanos().max(1);
        Time::from_nanos(at.as_nanos().div_ceil(part).saturating_mul(part))
    }

    fn probe_at(&self) -> Option<Time> {
        if self.sent.outstanding() == 0 {
            return None;
        }
        let timeout = self.pace.rtt.probe_timeout(Self::max_report_delay());
        let wait = timeout * (1 << self.alive.probe_count.min(6));
        let wait = if self.alive.probe_count > 0 {
            wait.min(PROBE_WAIT_MAX.max(timeout))
        } else {
            wait
        };
        Some(
            self.alive
                .last_feedback_at
                .max(self.alive.last_eliciting_sent_at)
                + wait,
        )
    }

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now: Time) {
        match self.state {
            State::Closed => return,
            State::Closing { copies, until, .. } => {
                // Until then whoever still sends is told once more that this is the end. A host that is busy may
                // not have told it at all by then: three round trips on one machine are less than a time slice.
                if now >= until && (copies == 0 || now >= until + CLOSE_TOLD_WITHIN) {
                    let error = self
                        .closed_by
                        .take()
                        .unwrap_or(ConnectionError::ClosedLocally);
                    self.die(error);
                }
                return;
            }
            State::Handshaking if self.opening.busy_until.is_some_and(|until| now < until) => {
                return;
            }
            State::Handshaking if self.opening.busy_until.is_some() => {
                self.after_busy(now);
                return;
            }
            State::Handshaking => {
                if now.since(self.opening.started_at) >= self.config.handshake_timeout {
                    self.die(ConnectionError::NoAnswer);
                    return;
                }
            }
            State::Established => {
                if now >= self.idle_at() {
                    self.die(ConnectionError::TimedOut);
                    return;
                }
                self.established_timeouts(now);
            }
        }
        if self.flight_timeout().is_some_and(|at| now >= at) {
            self.opening.flight_sent_at = Some(now);
            self.opening.flight_retries += 1;
            self.repeat_flight();
        }
    }

    fn established_timeouts(&mut self, now: Time) {
        if self.probe_at().is_some_and(|at| now >= at) {
            self.alive.probe_count += 1;
            self.alive.pings_due = 1;
            // The wait starts anew even if the window does not let the ping out.
            self.alive.last_eliciting_sent_at = now;
            if self.alive.probe_count == BLACKOUT_PROBES && !self.alive.blackout_told {
                self.alive.blackout_told = true;
                self.pace.rate.on_blackout();
                self.apply_rate(now);
            }
        } else if now >= self.keep_alive_at() {
            self.alive.pings_due = 1;
            self.alive.ping_pays = true;
        }
        if self.forget_at().is_some_and(|at| now >= at) {
            self.sent.trim(now - self.late_memory());
        }
        let newest = self.heard.largest_reported.unwrap_or(0);
        let patience = WITHHELD_MIN.max(self.config.idle_timeout * 4);
        if let Some(sent_at) = self.sent.oldest_unreported(newest)
            && now.since(sent_at) >= patience
        {
            self.on_misbehaved(now, PeerMisbehaved::ReportsWithheld);
            return;
        }
        if self
            .keys
            .as_ref()
            .is_some_and(crate::keys::KeyRing::is_exhausted)
        {
            self.close_with(
                now,
                CloseCode::Protocol,
                "no key update was confirmed",
                ConnectionError::IntegrityLimit,
            );
        }
    }

    /// [`poll_transmit`](Self::poll_transmit) has just had nothing to send. What [`poll_timeout`](Self::poll_timeout) says then, if that
    /// stays so until then, however many [quiet](Self::was_quiet) datagrams come: this side only receives.
    #[cfg(feature = "sim")]
    pub(crate) fn quiet_until(&self) -> Option<(Time, WakeReason)> {
        let receives = matches!(self.state, State::Established)
            && self.streams.outgoing.is_empty()
            && !self.streams.control_tx.has_pending();
        receives.then(|| self.poll_timeout()).flatten()
    }

    /// Whether the latest datagram brought bytes of an object and nothing else that this side would do something about.
    #[cfg(feature = "sim")]
    pub(crate) fn was_quiet(&self) -> bool {
        self.reporting.is_quiet
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) (or
    /// [`poll_transmit`](Self::poll_transmit), if the reason is pacing) next, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        let mut next: Option<(Time, WakeReason)> = None;
        let mut offer = |at: Option<Time>, reason: WakeReason| {
            if let Some(at) = at
                && next.is_none_or(|(t, _)| at < t)
            {
                next = Some((at, reason));
            }
        };
        match self.state {
            State::Closed => return None,
            State::Closing { copies, until, .. } => {
                return Some((
                    if copies > 0 { Time::ZERO } else { until },
                    WakeReason::Close,
                ));
            }
            State::Handshaking if self.opening.busy_until.is_some() => {
                return self
                    .opening
                    .busy_until
                    .map(|at| (at, WakeReason::BusyServer));
            }
            State::Handshaking => {
                offer(
                    Some(self.opening.started_at + self.config.handshake_timeout),
                    WakeReason::HandshakeTimeout,
                );
            }
            State::Established => {
                offer(Some(self.idle_at()), WakeReason::IdleTimeout);
                offer(Some(self.keep_alive_at()), WakeReason::KeepAlive);
                offer(self.probe_at(), WakeReason::Retransmission);
                offer(self.report_due_at(), WakeReason::Acknowledgement);
                offer(self.mtu.next_timeout(), WakeReason::PathMtu);
                offer(self.forget_at(), WakeReason::LatePackets);
                offer(self.pacing_at(), WakeReason::Pacing);
            }
        }
        offer(self.flight_timeout(), WakeReason::HandshakeRetry);
        next
    }
}
