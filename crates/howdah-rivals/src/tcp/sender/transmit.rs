//! What leaves, and when.

use super::scoreboard::{EVER_RETRANSMITTED, LOST, RETRANSMITTED, SACKED};
use super::{ACK, FIN, SYN, Segment, Sender, State};
use crate::tcp::cc::Phase;
use crate::tcp::segment::PSH;
use crate::tcp::sender::recovery::Probe;
use howdah_core::{Datagram, Time};

/// What holds the sender back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Hold {
    /// The congestion window is full.
    Window,
    /// The receiver's window is.
    Receiver,
    /// The application, or the send buffer, has nothing more.
    Supply,
    /// The next packet's time has not come.
    Pace,
}

impl Sender {
    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        max: usize,
        out: &mut Vec<Datagram>,
    ) -> usize {
        let before = out.len();
        self.leaving = None;
        match self.state {
            State::SynSent if self.syn_due && max > 0 => self.send_syn(now, out),
            State::Established => self.send_data(now, max, out),
            State::Fresh | State::SynSent | State::Failed(_) => {}
        }
        out.len() - before
    }

    fn send_syn(&mut self, now: Time, out: &mut Vec<Datagram>) {
        self.syn_due = false;
        self.syn_tries += 1;
        self.syn_sent_at = now;
        self.rto_at = Some(now + self.rtt.rto());
        self.arm();
        let mut segment = self.header(now, 0, SYN);
        segment.seq = self.config.initial_sequence;
        segment.ack = 0;
        segment.mss = Some(self.config.announced_mss());
        segment.window_scale = self.config.window_scaling.then_some(0);
        segment.sack_permitted = self.config.sack;
        out.push(bare(&segment));
    }

    fn send_data(&mut self, now: Time, max: usize, out: &mut Vec<Datagram>) {
        let mut left = max;
        self.paced_at = None;
        while left > 0 {
            match self.choose(now) {
                Ok((index, again)) => {
                    out.push(self.send(now, index, again));
                    left -= 1;
                }
                Err(hold) => {
                    self.settle(now, hold);
                    break;
                }
            }
        }
        if self.owes_ack && left > 0 {
            self.owes_ack = false;
            self.leaving = None;
            let offset = self.offset_of(self.board.nxt).min(self.total_bytes)
                + u64::from(self.board.nxt == self.total_segments);
            let segment = self.header(now, offset, ACK);
            out.push(bare(&segment));
        }
    }

    /// The segment that may leave now, and whether it left before.
    fn choose(&mut self, now: Time) -> Result<(u64, bool), Hold> {
        let urgent = self.probe_due || self.persist_due || self.timeout_due;
        if self.board.in_flight() >= self.window && !urgent {
            return Err(Hold::Window);
        }
        let chosen = self.candidate(now)?;
        let (_, again) = chosen;
        if !urgent
            && !again
            && let Some(hold) = self.defers(now)
        {
            return Err(hold);
        }
        if !urgent && !self.pacer.allows(now) {
            self.paced_at = self.pacer.next_at(now);
            return Err(Hold::Pace);
        }
        Ok(chosen)
    }

    /// RFC 6675's `NextSeg`: what is lost, what is new, and the last one once more.
    fn candidate(&mut self, now: Time) -> Result<(u64, bool), Hold> {
        if let Some(index) = self.finder.next_lost(&self.board) {
            return Ok((index, true));
        }
        let hold = match self.may_send_new(now) {
            Ok(index) => return Ok((index, false)),
            Err(hold) => hold,
        };
        if self.board.outstanding() == 0 {
            self.probe_due = false;
            return Err(hold);
        }
        if self.probe_due {
            let last = self.board.nxt - 1;
            if self.board.get(last).flags & (SACKED | RETRANSMITTED) == 0 {
                return Ok((last, true));
            }
            self.probe_due = false;
        }
        if let Some(index) = self.rescue()
            && self.board.in_flight() < self.window
        {
            self.repair.rescued = true;
            return Ok((index, true));
        }
        Err(hold)
    }

    fn may_send_new(&mut self, now: Time) -> Result<u64, Hold> {
        let index = self.board.nxt;
        if index >= self.supplied && !self.look_for_supply(now) {
            return Err(Hold::Supply);
        }
        let unacknowledged = u64::from(self.board.outstanding() + 1) * u64::from(self.mss);
        if unacknowledged > self.config.send_buffer_bytes && self.board.outstanding() > 0 {
            return Err(Hold::Supply);
        }
        let end = self.offset_of(index) + u64::from(self.payload_of(index));
        if end > self.window_edge && !self.persist_due {
            return Err(Hold::Receiver);
        }
        Ok(index)
    }

    /// Asks the application again; notes when it will have more.
    #[cold]
    fn look_for_supply(&mut self, now: Time) -> bool {
        if self.board.nxt >= self.total_segments {
            return false;
        }
        let (bytes, more) = self.supply.available_bytes(self.started_at, now);
        self.supplied = if bytes >= self.total_bytes {
            self.total_segments
        } else {
            bytes.div_ceil(u64::from(self.mss))
        };
        let any = self.board.nxt < self.supplied;
        self.supply_at = if any { None } else { more };
        any
    }

    fn send(&mut self, now: Time, index: u64, again: bool) -> Datagram {
        let idle = self.board.outstanding() == 0;
        if idle && index > 0 {
            let silence = now.since(self.last_sent_at);
            if silence > self.rtt.rto() {
                self.cc.on_restart(now, silence);
                self.refresh_window();
            }
        }
        let in_flight = self.board.in_flight() + 1;
        let mut sent = self.delivery.on_sent(now, idle, in_flight);
        let payload = self.payload_of(index);
        if self.config.local_congestion {
            self.note_leaving(index, again);
        }
        if again {
            self.finder.retransmitted(index, self.board.nxt);
            let old = self.board.get_mut(index);
            sent.flags |= old.flags & LOST | RETRANSMITTED | EVER_RETRANSMITTED;
            *old = sent;
            self.board.retransmitted += 1;
            self.board.retransmitted_below = self.board.retransmitted_below.max(index + 1);
            self.repair.on_retransmission(self.clock.at(now));
            self.retransmitted_bytes += u64::from(payload);
        } else {
            self.board.push(sent);
        }
        self.sent_bytes += u64::from(payload);
        self.repair.sent += u64::from(self.phase == Phase::Recovery);
        if self.rto_at.is_none() || (again && index == self.board.una) || self.probe_due {
            self.rto_at = Some(now + self.rtt.rto());
            self.arm();
        }
        if self.probe_due {
            self.probe_due = false;
            self.repair.probe = Some(Probe {
                end: self.board.nxt,
                retransmission: again,
            });
        }
        self.persist_due = false;
        self.timeout_due = false;
        self.probe_fresh |= !again;
        self.last_sent_at = now;
        self.burst_left = self.burst_left.saturating_sub(u32::from(!again));
        self.pacer.sent(now);
        self.cc.on_sent(now, in_flight, again);

        self.owes_ack = false;
        let flags = if index + 1 == self.total_segments {
            ACK | PSH | FIN
        } else {
            ACK
        };
        let offset = self.offset_of(index);
        let segment = self.header(now, offset, flags);
        Datagram {
            bytes: segment.encode(),
            absent: payload,
        }
    }

    /// Nothing more leaves now: notes what held it back.
    fn settle(&mut self, now: Time, hold: Hold) {
        let full = hold == Hold::Window;
        match hold {
            Hold::Window | Hold::Pace => {}
            Hold::Supply => self.delivery.run_dry(self.board.in_flight()),
            Hold::Receiver => {
                if self.board.outstanding() == 0 && self.rto_at.is_none() {
                    self.rto_at = Some(now + self.rtt.rto());
                    self.arm();
                }
            }
        }
        if hold != Hold::Pace {
            self.pacer.rest();
        }
        self.burst_left = 0;
        // As Linux's tcp_cwnd_validate: once the window was full, that holds for a round trip.
        let outstanding = self.board.outstanding();
        if full
            || self.board.una >= self.usage_end
            || (!self.cwnd_limited && outstanding > self.most_outstanding)
        {
            self.cwnd_limited = full;
            self.most_outstanding = outstanding;
            self.usage_end = self.board.nxt;
        }
        if self.probe_fresh {
            self.probe_fresh = false;
            self.arm_probe(now);
        }
    }
}

fn bare(segment: &Segment) -> Datagram {
    Datagram {
        bytes: segment.encode(),
        absent: 0,
    }
}
