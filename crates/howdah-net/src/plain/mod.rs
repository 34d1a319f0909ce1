//! Drives any [`Carrier`] over a real UDP socket, in the clear, to measure it.
//!
//! Nothing is encrypted, nobody is authenticated, and a stranger who can send to the port can spoil
//! what arrives: this is for measurement on networks of one's own.
//!
//! One thread does everything. Datagrams go out in trains and come in coalesced where the host can
//! do that, and one by one for a transport that [reads gaps](Carrier::READS_GAPS). Pacing is by the monotonic clock; the last 60 us before a departure are waited for
//! without sleeping, since many of these transports never catch up with what they were late for.
//!
//! The side that [calls](Peer::Call) and whose transport waits to be called sends empty datagrams
//! until it hears something, so that either side may sit behind a known address. All else on the
//! wire is the transport's own, after the [tag](Carrier::TAGGED) that some need.

mod order;
mod outbox;

use crate::clock::Clock;
use crate::endpoint::{is_broken_socket, is_unreachable};
use crate::socket::{SocketReport, UdpPort};
use howdah_core::carrier::tag_of;
use howdah_core::{Arrival, Carrier, Datagram, Observe, Place, Snapshot, Span, Time};
use order::PacketOrder;
use outbox::Outbox;
use quinn_udp::RecvMeta;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

/// Waits shorter than this are spent looking at the clock.
const SPIN: Span = Span::from_micros(60);
/// Sleeps are no longer, so that a signal is noticed.
const LONGEST_SLEEP: Span = Span::from_millis(100);
/// Distance of the calls of a side that has nothing to say by itself.
const CALL_EVERY: Span = Span::from_millis(100);
/// How often it is looked at whether all is done.
const LOOK_EVERY: Span = Span::from_millis(1);
/// How long a finished side stays to say its last words again.
const LINGER: Span = Span::from_secs(2);
/// Datagrams that are asked for at a time.
const BATCH: usize = 64;
/// Buffers of one receive call, each of which holds what the host has coalesced.
const RECEIVE_BATCH: usize = 16;
/// Receive calls between two looks at the transport's timers.
const RECEIVE_CALLS: usize = 4;

/// Who speaks first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Peer {
    /// The other side is known.
    Call(SocketAddr),
    /// Whoever sends the first datagram is the other side. Waits for ever.
    Await,
}

/// Where the bytes of the object come from and go to.
pub trait Bytes {
    /// Fills `out` with the object's bytes from `offset` on.
    ///
    /// # Errors
    /// The source cannot be read; the transfer ends.
    fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Takes in the object's bytes from `offset` on; each byte comes once.
    ///
    /// # Errors
    /// They cannot be stored; the transfer ends.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// How long to be patient.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Patience {
    /// Until the first word of a side that was [called](Peer::Call).
    pub contact: Span,
    /// Until another byte of the object arrives, for a side that receives.
    pub progress: Option<Span>,
}

/// How a transfer went.
#[derive(Clone, Debug)]
pub struct PlainReport {
    /// The other side.
    pub peer: SocketAddr,
    /// From its first datagram to the end of the transfer, as this side knows it.
    pub took: Span,
    /// Bytes of the object that were written here.
    pub written_bytes: u64,
    /// The transport's own account.
    pub snapshot: Snapshot,
    /// What the host granted.
    pub socket: SocketReport,
}

/// Why a transfer did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum PlainError {
    /// The socket failed.
    #[error("the UDP socket: {0}")]
    Socket(#[source] io::Error),
    /// The other side has never answered.
    #[error("nobody answered at {0} within {1}")]
    NobodyAnswers(SocketAddr, Span),
    /// The transport gave up.
    #[error("{0}")]
    GivenUp(String),
    /// Bytes stopped arriving.
    #[error("no further byte arrived for {0}; both sides must be given the same settings")]
    Stuck(Span),
    /// A datagram does not fit the path.
    #[error("datagrams of {0} bytes do not fit this path; choose smaller packets")]
    TooLarge(usize),
    /// The bytes could not be read or written.
    #[error("{0}")]
    Bytes(#[source] io::Error),
    /// The transport says that all has arrived, and it has not.
    #[error("the transfer ended with {written} of {delivered} bytes in place")]
    Incomplete {
        /// Bytes that were written.
        written: u64,
        /// Bytes that the transport counted.
        delivered: u64,
    },
    /// The caller did not want to go on.
    #[error("stopped")]
    Stopped,
}

/// Moves one object with `carrier`, over a [bound](crate::bind) socket.
///
/// `keep_running` is asked several times a second at least.
///
/// # Errors
/// See [`PlainError`].
pub fn drive<C: Carrier + Observe, B: Bytes>(
    socket: UdpSocket,
    peer: Peer,
    carrier: &mut C,
    bytes: &mut B,
    patience: Patience,
    mut keep_running: impl FnMut() -> bool,
) -> Result<PlainReport, PlainError> {
    let port = UdpPort::new(socket).map_err(PlainError::Socket)?;
    if C::READS_GAPS {
        port.receive_one_by_one().map_err(PlainError::Socket)?;
    }
    let trains = if C::READS_GAPS {
        1
    } else {
        port.max_segments()
    };
    let receive_batch = if C::READS_GAPS { 1 } else { RECEIVE_BATCH };
    let mut driver = Driver {
        outbox: Outbox::new(trains),
        port,
        clock: Clock::new(),
        called: match peer {
            Peer::Call(address) => Some(address),
            Peer::Await => None,
        },
        peer: match peer {
            Peer::Call(address) => Some(UdpPort::canonical(address)),
            Peer::Await => None,
        },
        heard_at: None,
        next_call: Time::ZERO,
        order: PacketOrder::default(),
        written: 0,
        progress_at: Time::ZERO,
        buffers: vec![vec![0; crate::buffers::BUFFER_BYTES]; receive_batch],
        datagrams: Vec::with_capacity(BATCH),
        carrier,
        bytes,
    };
    driver.run(patience, &mut keep_running)
}

struct Driver<'a, C, B> {
    port: UdpPort,
    clock: Clock,
    called: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    heard_at: Option<Time>,
    next_call: Time,
    outbox: Outbox,
    order: PacketOrder,
    written: u64,
    progress_at: Time,
    buffers: Vec<Vec<u8>>,
    datagrams: Vec<Datagram>,
    carrier: &'a mut C,
    bytes: &'a mut B,
}

impl<C: Carrier + Observe, B: Bytes> Driver<'_, C, B> {
    fn run(
        &mut self,
        patience: Patience,
        keep_running: &mut impl FnMut() -> bool,
    ) -> Result<PlainReport, PlainError> {
        let mut looked_at = Time::ZERO;
        let mut finished_at = None;
        loop {
            let mut busy = self.receive()?;
            let now = self.clock.now();
            if self.peer.is_some() {
                busy |= self.turn(now)?;
            }
            // A snapshot costs more than a packet, and so does asking about signals.
            if now >= looked_at + LOOK_EVERY {
                looked_at = now;
                if !keep_running() {
                    return Err(PlainError::Stopped);
                }
                let snapshot = self.carrier.snapshot();
                if finished_at.is_none() {
                    finished_at = snapshot.finished_at;
                    if finished_at.is_none() {
                        self.check(now, &snapshot, patience)?;
                    }
                }
                if let Some(end) = finished_at
                    && (self.is_quiet() || now >= end + LINGER)
                {
                    return self.report(end, snapshot);
                }
            }
            if !busy {
                self.rest()?;
            }
        }
    }

    /// Whether everything has left, and nothing will be said again.
    fn is_quiet(&self) -> bool {
        self.outbox.is_empty() && self.carrier.poll_timeout().is_none()
    }

    fn check(&self, now: Time, snapshot: &Snapshot, patience: Patience) -> Result<(), PlainError> {
        if let (None, Some(address)) = (self.heard_at, self.called)
            && (now >= Time::ZERO + patience.contact || snapshot.failed.is_some())
        {
            return Err(PlainError::NobodyAnswers(
                address,
                now.since(Time::ZERO).min(patience.contact),
            ));
        }
        if let Some(why) = &snapshot.failed {
            return Err(PlainError::GivenUp(why.clone()));
        }
        if let (Some(heard), Some(limit)) = (self.heard_at, patience.progress)
            && now.since(self.progress_at.max(heard)) >= limit
        {
            return Err(PlainError::Stuck(limit));
        }
        Ok(())
    }

    fn report(&self, end: Time, snapshot: Snapshot) -> Result<PlainReport, PlainError> {
        if self.written != snapshot.delivered_bytes {
            return Err(PlainError::Incomplete {
                written: self.written,
                delivered: snapshot.delivered_bytes,
            });
        }
        let (Some(peer), Some(heard)) = (self.peer, self.heard_at) else {
            return Err(PlainError::GivenUp("it ended before it began".to_owned()));
        };
        Ok(PlainReport {
            peer,
            took: end.since(heard),
            written_bytes: self.written,
            snapshot,
            socket: self.port.report(),
        })
    }

    /// Timers, and what may leave. True if something left.
    fn turn(&mut self, now: Time) -> Result<bool, PlainError> {
        if let Some((due, _)) = self.carrier.poll_timeout()
            && due <= now
        {
            self.carrier.handle_timeout(now);
        } else if self.heard_at.is_none() {
            // Some begin with the first call.
            self.carrier.handle_timeout(now);
        }
        let mut sent = false;
        while self.outbox.is_empty() {
            let count = self.carrier.poll_transmit(now, BATCH, &mut self.datagrams);
            if count == 0 {
                break;
            }
            sent = true;
            self.next_call = Time::MAX;
            self.fill_outbox()?;
            self.flush()?;
        }
        if !self.outbox.is_empty() {
            self.flush()?;
        } else if self.heard_at.is_none() && now >= self.next_call {
            self.next_call = now + CALL_EVERY;
            self.outbox.begin().end();
            self.flush()?;
        }
        Ok(sent && self.outbox.is_empty())
    }

    fn fill_outbox(&mut self) -> Result<(), PlainError> {
        for datagram in self.datagrams.drain(..) {
            let mut wire = self.outbox.begin();
            if C::TAGGED
                && let Some(tag) = tag_of(&datagram)
            {
                wire.push(&[tag]);
            }
            wire.push(&datagram.bytes);
            let absent = datagram.absent as usize;
            if absent > 0 {
                let payload = wire.zeros(absent);
                if let Some(range) = self.carrier.payload_of(&datagram) {
                    let real = (range.len() as usize).min(absent);
                    self.bytes
                        .read(range.start, &mut payload[..real])
                        .map_err(PlainError::Bytes)?;
                }
            }
            wire.end();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PlainError> {
        match self.peer {
            Some(peer) => self.outbox.flush(&self.port, peer),
            None => Ok(()),
        }
    }

    /// Reads what has arrived, within bounds. Returns whether there may be more.
    fn receive(&mut self) -> Result<bool, PlainError> {
        let mut buffers = std::mem::take(&mut self.buffers);
        let result = self.receive_into(&mut buffers);
        self.buffers = buffers;
        result
    }

    fn receive_into(&mut self, buffers: &mut [Vec<u8>]) -> Result<bool, PlainError> {
        for _ in 0..RECEIVE_CALLS * RECEIVE_BATCH / buffers.len() {
            let mut meta = [RecvMeta::default(); RECEIVE_BATCH];
            let wanted = buffers.len();
            let received = {
                let mut slices: [IoSliceMut<'_>; RECEIVE_BATCH] = {
                    let mut buffers = buffers.iter_mut();
                    std::array::from_fn(|_| {
                        IoSliceMut::new(buffers.next().map_or(&mut [], Vec::as_mut_slice))
                    })
                };
                self.port.recv(&mut slices[..wanted], &mut meta)
            };
            let count = match received {
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if is_broken_socket(&e) => return Err(PlainError::Socket(e)),
                // A listener that is not there yet, or a signal.
                Err(_) => return Ok(false),
            };
            let now = self.clock.now();
            for (buffer, meta) in buffers.iter().zip(&meta).take(count) {
                let from = UdpPort::canonical(meta.addr);
                if *self.peer.get_or_insert(from) != from {
                    continue;
                }
                if self.heard_at.is_none() {
                    self.heard_at = Some(now);
                    self.next_call = Time::MAX;
                    // A transport that was only called has heard nothing itself.
                    self.carrier.handle_timeout(now);
                }
                let Some(stride) = std::num::NonZeroUsize::new(meta.stride) else {
                    continue;
                };
                for wire in buffer[..meta.len.min(buffer.len())].chunks(stride.get()) {
                    self.take(now, wire)?;
                }
            }
            if count < wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take(&mut self, now: Time, wire: &[u8]) -> Result<(), PlainError> {
        let Some((header, payload)) = self.carrier.split(wire) else {
            return Ok(());
        };
        let arrival = Arrival {
            bytes: header,
            absent: payload.len() as u32,
            corrupt: false,
        };
        self.carrier.handle_datagram(now, arrival);
        let Some(place) = self.carrier.take_accepted() else {
            return Ok(());
        };
        self.progress_at = now;
        let (bytes, written) = (&mut *self.bytes, &mut self.written);
        let mut write = |offset: u64, part: &[u8]| {
            *written += part.len() as u64;
            bytes.write(offset, part)
        };
        match place {
            Place::Bytes(range) => {
                let real = (range.len() as usize).min(payload.len());
                write(range.start, &payload[..real])
            }
            Place::Packet(at) => self.order.place(at, payload, &mut write),
        }
        .map_err(PlainError::Bytes)
    }

    /// Waits for the next thing to do.
    fn rest(&self) -> Result<(), PlainError> {
        let now = self.clock.now();
        let mut interest = PollFlags::IN;
        let mut wait = LONGEST_SLEEP;
        if self.peer.is_some() {
            let due = self.carrier.poll_timeout().map(|(due, _)| due);
            if due.is_none() {
                // It may be done.
                wait = LOOK_EVERY;
            }
            let call = self.heard_at.is_none().then_some(self.next_call);
            let next = due.into_iter().chain(call).min().unwrap_or(Time::MAX);
            wait = wait.min(next.since(now));
        }
        if !self.outbox.is_empty() {
            // Nothing can be done before the socket takes packets again.
            interest |= PollFlags::OUT;
            wait = wait.max(Span::from_millis(1));
        } else if wait <= SPIN {
            std::thread::yield_now();
            return Ok(());
        } else {
            wait = wait.saturating_sub(SPIN);
        }
        let timeout = rustix::event::Timespec {
            tv_sec: (wait.as_nanos() / 1_000_000_000) as i64,
            tv_nsec: (wait.as_nanos() % 1_000_000_000) as _,
        };
        let mut fds = [PollFd::new(self.port.socket(), interest)];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(PlainError::Socket(e.into())),
        }
    }
}

/// What sending may report without the transfer being over: such packets are lost.
fn is_passing(error: &io::Error) -> bool {
    is_unreachable(error) || !is_broken_socket(error)
}
