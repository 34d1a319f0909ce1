//! Transports that are as simple as can be, to test and measure the engine and nothing else.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "shared by test binaries and the benchmark, which use different parts"
)]

use howdah_core::{Arrival, Datagram, Ecn, HeaderBytes, Rate, Span, Time, Transport, WakeReason};

/// Every toy's header: a number.
const HEADER_BYTES: u32 = 8;

/// A datagram with `number` in its header and `wire_len` bytes of UDP payload.
pub fn numbered(number: u64, wire_len: u32) -> Datagram {
    let bytes = HeaderBytes::from_slice(&number.to_be_bytes());
    Datagram {
        bytes,
        absent: wire_len - HEADER_BYTES,
    }
}

/// The number in a datagram's header.
pub fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

/// Sends numbered datagrams at a fixed rate of UDP payload.
#[derive(Debug)]
pub struct Blaster {
    rate: Rate,
    wire_len: u32,
    left: u64,
    pub next_number: u64,
    next_at: Time,
    /// What rounding to nanoseconds left over, in units of 1/rate ns: the mean rate is exact.
    remainder: u64,
    whole_ns: u64,
    part: u64,
    due: u32,
    pub ecn: Ecn,
}

impl Blaster {
    pub fn new(rate: Rate, wire_len: u32, datagrams: u64) -> Self {
        let bits = u64::from(wire_len) * 8_000_000_000;
        Self {
            rate,
            wire_len,
            left: datagrams,
            next_number: 0,
            next_at: Time::ZERO,
            remainder: 0,
            whole_ns: bits / rate.bits_per_sec(),
            part: bits % rate.bits_per_sec(),
            due: 0,
            ecn: Ecn::NotEct,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.next_number == 0 {
            self.next_at = now;
        }
        while self.left > 0 && self.next_at <= now {
            self.left -= 1;
            self.due += 1;
            self.next_at += Span::from_nanos(self.whole_ns);
            self.remainder += self.part;
            if self.remainder >= self.rate.bits_per_sec() {
                self.remainder -= self.rate.bits_per_sec();
                self.next_at += Span::from_nanos(1);
            }
        }
    }
}

/// Counts what arrives.
#[derive(Debug, Default)]
pub struct Sink {
    pub datagrams: u64,
    pub bytes: u64,
    pub corrupt: u64,
    pub flipped: u64,
    /// Arrivals with a smaller number than one before.
    pub late: u64,
    /// Arrivals with the same number as the one before.
    pub repeated: u64,
    /// Arrivals that a queue had marked.
    pub marked: u64,
    pub highest: Option<u64>,
    pub first_at: Option<Time>,
    pub last_at: Option<Time>,
}

impl Sink {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        self.datagrams += 1;
        self.bytes += arrival.bytes.len() as u64 + u64::from(arrival.absent);
        self.first_at.get_or_insert(now);
        self.last_at = Some(now);
        let number = number(arrival.bytes);
        if arrival.corrupt {
            self.corrupt += 1;
            self.flipped += u64::from(number > 1 << 40);
            return;
        }
        match self.highest {
            Some(highest) if number == highest => self.repeated += 1,
            Some(highest) if number < highest => self.late += 1,
            _ => self.highest = Some(number),
        }
    }
}

/// Sends a datagram, waits for its echo, sends the next; sends again after a timeout.
#[derive(Debug)]
pub struct StopAndWait {
    wire_len: u32,
    total: u64,
    pub done: u64,
    timeout: Span,
    deadline: Option<Time>,
    must_send: bool,
    pub retransmissions: u64,
    pub finished_at: Option<Time>,
}

impl StopAndWait {
    pub fn new(wire_len: u32, total: u64, timeout: Span) -> Self {
        Self {
            wire_len,
            total,
            done: 0,
            timeout,
            deadline: None,
            must_send: true,
            retransmissions: 0,
            finished_at: None,
        }
    }
}

/// Sends back what it gets; damaged datagrams it ignores.
#[derive(Debug, Default)]
pub struct Echo {
    pending: Vec<u64>,
    pub got: u64,
    wire_len: u32,
}

impl Echo {
    pub fn new(wire_len: u32) -> Self {
        Self {
            wire_len,
            ..Self::default()
        }
    }
}

/// Wants to be woken at once, for ever.
#[derive(Debug)]
pub struct Restless;

/// Any of them.
#[derive(Debug)]
pub enum Toy {
    Blaster(Blaster),
    Sink(Sink),
    StopAndWait(StopAndWait),
    Echo(Echo),
    Restless(Restless),
}

impl Toy {
    pub fn blaster(rate: Rate, wire_len: u32, datagrams: u64) -> Self {
        Self::Blaster(Blaster::new(rate, wire_len, datagrams))
    }

    /// A blaster whose datagrams can be marked.
    pub fn capable(rate: Rate, wire_len: u32, datagrams: u64, ecn: Ecn) -> Self {
        let blaster = Blaster::new(rate, wire_len, datagrams);
        Self::Blaster(Blaster { ecn, ..blaster })
    }

    pub fn sink() -> Self {
        Self::Sink(Sink::default())
    }

    pub fn as_sink(&self) -> &Sink {
        let Self::Sink(sink) = self else {
            panic!("not a sink: {self:?}")
        };
        sink
    }

    pub fn as_stop_and_wait(&self) -> &StopAndWait {
        let Self::StopAndWait(sender) = self else {
            panic!("not a sender: {self:?}")
        };
        sender
    }
}

impl Transport for Toy {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        match self {
            Self::Sink(sink) => sink.handle_datagram(now, arrival),
            Self::Echo(echo) if !arrival.corrupt => {
                echo.got += 1;
                echo.pending.push(number(arrival.bytes));
            }
            Self::StopAndWait(sender)
                if !arrival.corrupt && number(arrival.bytes) == sender.done =>
            {
                sender.done += 1;
                sender.deadline = None;
                sender.must_send = sender.done < sender.total;
                if !sender.must_send {
                    sender.finished_at.get_or_insert(now);
                }
            }
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Blaster(blaster) => blaster.handle_timeout(now),
            Self::StopAndWait(sender) if sender.deadline.is_some_and(|at| at <= now) => {
                sender.deadline = None;
                sender.must_send = true;
                sender.retransmissions += 1;
            }
            _ => {}
        }
    }

    fn poll_transmit(&mut self, now: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
        match self {
            Self::Blaster(blaster) => {
                let count = (blaster.due as usize).min(max);
                for _ in 0..count {
                    out.push(numbered(blaster.next_number, blaster.wire_len));
                    blaster.next_number += 1;
                }
                blaster.due -= count as u32;
                count
            }
            Self::StopAndWait(sender) if sender.must_send => {
                sender.must_send = false;
                sender.deadline = Some(now + sender.timeout);
                out.push(numbered(sender.done, sender.wire_len));
                1
            }
            Self::Echo(echo) => {
                let count = echo.pending.len().min(max);
                let wire_len = echo.wire_len;
                out.extend(echo.pending.drain(..count).map(|n| numbered(n, wire_len)));
                count
            }
            _ => 0,
        }
    }

    fn ecn(&self, _: &Datagram) -> Ecn {
        match self {
            Self::Blaster(blaster) => blaster.ecn,
            _ => Ecn::NotEct,
        }
    }

    fn handle_ecn(&mut self, _: Time, ecn: Ecn) {
        if let Self::Sink(sink) = self {
            sink.marked += u64::from(ecn == Ecn::Ce);
        }
    }

    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        match self {
            Self::Blaster(blaster) => {
                (blaster.left > 0).then_some((blaster.next_at, WakeReason::Pacing))
            }
            Self::StopAndWait(sender) => sender.deadline.map(|at| (at, WakeReason::Retransmission)),
            Self::Restless(_) => Some((Time::ZERO, WakeReason::Pacing)),
            _ => None,
        }
    }
}
