//! The loop: one socket, its connections, one thread.

mod receiving;
mod several;

use crate::application::Application;
use crate::buffers::Spares;
use crate::clock::Clock;
use crate::counts::{Counting, TurnCounts};
use crate::gather::Gather;
use crate::mail::Mail;
use crate::parcel::Parcel;
use crate::socket::{MAX_TRAIN_BYTES, SocketReport, UdpPort};
use crate::sys;
use crate::train::{TrainBuffer, TrainBuilder};
use crate::tunnel::Lanes;
use crate::waker::{self, WakeReceiver, Waker};
use howdah_core::{Ecn, Span, Time};
use howdah_proto::endpoint::{self, Arrivals, Attended, ConnKey, EndpointConfig};
use howdah_proto::{Connection, Event, TransmitInfo};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::AsFd;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};

/// Trains per connection and round of the loop.
const TRAINS_PER_ROUND: usize = 16;
/// How often the socket is asked for its drops.
const DROPS_EVERY: Span = Span::from_millis(5);
/// The loop is never without a turn for so long, unless the process was stopped, suspended or moved.
const STOOD_STILL: Span = Span::from_secs(1);

/// Datagrams of one train by a lane, which has no limit of its own.
const LANE_SEGMENTS: usize = 64;

/// One socket, or none, and the connections on it and by [`Lanes`].
pub struct Endpoint {
    port: Option<UdpPort>,
    lanes: Lanes,
    clock: Clock,
    waker: Waker,
    wakes: WakeReceiver,
    /// Which connections there are, and whose turn it is.
    machine: endpoint::Endpoint,
    /// Whose work is being done.
    pub(crate) at_work: Option<ConnKey>,
    /// Reused: the connections of one round.
    due: Vec<ConnKey>,
    counting: Option<Counting>,
    train: TrainBuffer,
    /// A train that the socket did not take.
    stalled: Option<(ConnKey, TransmitInfo)>,
    receive_buffers: Vec<Vec<u8>>,
    spares: Spares,
    /// Read and not looked at yet.
    arrivals: Arrivals<Parcel>,
    /// To whom its socket is connected.
    aimed: Option<SocketAddr>,
    drops_at: Time,
    gather: Gather,
    /// Of the loops of its port, if there are others.
    mail: Option<Mail>,
    handed: u64,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("local", &self.local_addr())
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Takes over a bound socket.
    pub fn new(socket: UdpSocket, config: EndpointConfig, clock: Clock) -> io::Result<Self> {
        Self::with(Some(UdpPort::new(socket)?), config, clock)
    }

    /// Without a socket: its connections go by lanes only.
    pub fn without_socket(config: EndpointConfig, clock: Clock) -> io::Result<Self> {
        Self::with(None, config, clock)
    }

    fn with(port: Option<UdpPort>, config: EndpointConfig, clock: Clock) -> io::Result<Self> {
        let (waker, wakes) = waker::pair()?;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|e| io::Error::other(format!("no randomness from the system: {e}")))?;
        Ok(Self {
            port,
            lanes: Lanes::new(waker.clone()),
            clock,
            waker,
            wakes,
            machine: endpoint::Endpoint::new(config, seed),
            at_work: None,
            due: Vec::new(),
            counting: None,
            train: TrainBuffer::new(),
            stalled: None,
            receive_buffers: Vec::new(),
            spares: Spares::default(),
            arrivals: Arrivals::default(),
            aimed: None,
            drops_at: Time::ZERO,
            gather: Gather::default(),
            mail: None,
            handed: 0,
        })
    }

    /// Wakes this endpoint from other threads.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// By which tunnels reach it.
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// The address that it is bound to; without a socket one that nobody has.
    pub fn local_addr(&self) -> SocketAddr {
        let nobody = (Ipv6Addr::UNSPECIFIED, 0).into();
        self.port.as_ref().map_or(nobody, UdpPort::local_addr)
    }

    /// What the host granted; nothing without a socket.
    pub fn socket_report(&self) -> Option<SocketReport> {
        self.port.as_ref().map(UdpPort::report)
    }

    /// Has its socket hear only that address from now on, to which its one [connection](Self::connect) will be: for whoever may connect no socket
    /// then.
    ///
    /// # Errors
    ///
    /// There is no way there.
    pub fn aim(&mut self, remote: SocketAddr) -> io::Result<()> {
        let remote = UdpPort::canonical(remote);
        // A connected socket hears that nobody listens. (BSD refuses addresses on such sockets.)
        #[cfg(target_os = "linux")]
        if let Some(port) = &self.port
            && self.aimed != Some(remote)
        {
            port.socket().connect(remote)?;
        }
        self.aimed = Some(remote);
        Ok(())
    }

    /// Opens a connection.
    pub fn connect(&mut self, remote: SocketAddr) -> io::Result<ConnKey> {
        let remote = UdpPort::canonical(remote);
        if !self.machine.accepts() && !Lanes::is_one(remote) {
            self.aim(remote)?;
        }
        let now = self.clock.now();
        self.machine.connect(now, remote).map_err(io::Error::other)
    }

    /// Keeps no more connections than that. For tests: there are more than 16,000 by default.
    #[doc(hidden)]
    pub fn keep_at_most(&mut self, connections: usize) {
        self.machine.keep_at_most(connections);
    }

    /// How often a connection was looked at so far. For measuring: idle connections are not.
    pub fn visits(&self) -> u64 {
        self.machine.visits()
    }

    /// Counts from now on who had their turns when they wanted them. For measuring.
    pub fn count_turns(&mut self) -> TurnCounts {
        let counting = self.counting.get_or_insert_default();
        counting.shared.clone()
    }

    /// A connection that is open.
    pub fn connection_mut(&mut self, key: ConnKey) -> Option<&mut Connection> {
        self.machine.touch(key);
        self.machine.connection_mut(key)
    }

    /// Runs until the application has enough.
    pub fn run<A: Application>(&mut self, application: &mut A) -> io::Result<()> {
        // Timers that fire late by the default 50 us would make trains late, too.
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        let mut last = self.clock.now();
        loop {
            let now = self.clock.now();
            if now.since(last) > STOOD_STILL {
                // What is long over must not live on what lies in the socket since then: the peer has given it up, and others
                // may have gone on with it.
                self.turn(now, application, false)?;
            }
            last = now;
            let more = self.receive(application)?;
            let now = self.clock.now();
            self.answer_calls(application);
            if let Some(full) = self.machine.take_turned_away() {
                application.on_full(now, full);
            }
            if !application.keep_running(now) {
                return self.flush(application);
            }
            self.watch_drops(now);
            let busy = self.turn(now, application, false)?;
            self.post_orders();
            if let Some(counting) = &mut self.counting {
                counting.end_turn(|key| application.group(key));
            }
            if !more && !busy {
                self.wait(application)?;
            }
        }
    }

    /// Whoever other threads called for is due.
    fn answer_calls<A: Application>(&mut self, application: &A) {
        let Some(calls) = self.wakes.take() else {
            return;
        };
        for key in calls.keys {
            self.machine.touch(key);
        }
        if calls.all {
            self.machine.touch_attended(application.attended());
        }
    }

    /// Sends what is ready, without waiting: the last word.
    fn flush<A: Application>(&mut self, application: &mut A) -> io::Result<()> {
        let now = self.clock.now();
        self.turn(now, application, true)?;
        self.post_orders();
        Ok(())
    }

    /// Whether strangers are answered.
    pub(crate) fn accepts(&self) -> bool {
        self.machine.accepts()
    }

    pub(crate) fn remote(&self, key: ConnKey) -> Option<SocketAddr> {
        self.machine.remote(key)
    }

    pub(crate) fn remove(&mut self, key: ConnKey) {
        self.machine.remove(key);
    }

    fn watch_drops(&mut self, now: Time) {
        if now.since(self.drops_at) < DROPS_EVERY {
            return;
        }
        self.drops_at = now;
        let port = self.port.as_ref();
        if let Some(drops) = port.and_then(|port| sys::socket_drops(port.socket().as_fd())) {
            self.machine.set_socket_drops(drops + self.lost_in_mail());
        }
    }

    // ---- Sending -----------------------------------------------------------------------------

    /// Lets every connection that is due do what it wants to do now, or just every one. Returns
    /// whether some wants to go on.
    fn turn<A: Application>(
        &mut self,
        now: Time,
        application: &mut A,
        everybody: bool,
    ) -> io::Result<bool> {
        let mut due = std::mem::take(&mut self.due);
        let attended = if everybody {
            Attended::All
        } else {
            application.attended()
        };
        self.machine.take_due(now, attended, &mut due);
        // A train that waits for the socket waits for nobody in particular.
        self.retry_stalled(now)?;
        if let Some(counting) = &mut self.counting {
            counting.want(&due);
        }
        let others = !everybody && self.machine.choose(&mut due, |key| application.group(key));
        let mut busy = false;
        for &key in &due {
            if let Some(counting) = &mut self.counting {
                counting.look(key);
            }
            busy |= self
                .isolated(application, |endpoint, application| {
                    endpoint.at_work = Some(key);
                    Some(endpoint.visit(now, key, application))
                })
                .transpose()?
                .unwrap_or_default();
        }
        self.at_work = None;
        self.due = due;
        Ok(busy || others && self.stalled.is_none())
    }

    /// Lets one connection do what it wants to do now. Returns whether it wants to go on.
    fn visit<A: Application>(
        &mut self,
        now: Time,
        key: ConnKey,
        application: &mut A,
    ) -> io::Result<bool> {
        let Some(connection) = self.machine.visit(now, key) else {
            return Ok(false);
        };
        self.gather.on_turn(connection.rtt());
        application.poll(now, key, connection);
        let wants_more = self.transmit(now, key, application)?;
        let busy = wants_more | self.events(now, key, application);
        self.machine.settle(key, busy || self.stalled.is_some());
        Ok(busy)
    }

    /// Tells the application what happened. Returns whether anything did.
    fn events<A: Application>(&mut self, now: Time, key: ConnKey, application: &mut A) -> bool {
        let mut any = false;
        while let Some(connection) = self.machine.connection_mut(key) {
            let Some(event) = connection.poll_event() else {
                // What came before the message that announced it, if one did.
                if !receiving::place_early(now, key, connection, application) {
                    break;
                }
                continue;
            };
            any = true;
            let is_proved = matches!(event, Event::Connected { .. });
            application.on_event(now, key, connection, event);
            let is_over = connection.is_closed();
            if is_over {
                // The events before the end are told before it.
                while let Some(event) = connection.poll_event() {
                    application.on_event(now, key, connection, event);
                }
            }
            if is_proved {
                self.machine.on_established(key, application.group(key));
            }
            if is_over {
                self.remove(key);
            } else if is_proved {
                self.move_on(key, application);
            }
        }
        any
    }

    /// Sends trains of one connection. Returns whether it stopped for fairness, not for want.
    fn transmit<A: Application>(
        &mut self,
        now: Time,
        key: ConnKey,
        application: &mut A,
    ) -> io::Result<bool> {
        if !self.retry_stalled(now)? {
            return Ok(false);
        }
        for _ in 0..TRAINS_PER_ROUND {
            // To seal a train takes as long as a fast path takes to carry it: with one time for all of a burst, what spreads it here would be taken for the path.
            let now = self.clock.now();
            let Some(connection) = self.machine.connection_mut(key) else {
                return Ok(false);
            };
            self.train.clear();
            let mut builder = TrainBuilder {
                buffer: &mut self.train,
                application: &mut *application,
                key,
            };
            let max_segments = match &self.port {
                Some(port) if !Lanes::is_one(connection.remote()) => port.max_segments(),
                _ => LANE_SEGMENTS,
            };
            let Some(info) =
                connection.poll_transmit(now, max_segments, MAX_TRAIN_BYTES, &mut builder)
            else {
                return Ok(false);
            };
            if !self.send(now, key, info)? {
                return Ok(false);
            }
            if info.is_paced {
                let now = self.clock.now();
                let connection = self.machine.connection_mut(key);
                if connection.is_none_or(|connection| connection.waits_for_more(now)) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Sends the train in the buffer. Returns false if the socket is full.
    fn send(&mut self, now: Time, key: ConnKey, info: TransmitInfo) -> io::Result<bool> {
        let contents = self.train.contents();
        let src_ip = self.machine.local_ip(key);
        match self.send_to(
            info.destination,
            src_ip,
            contents,
            info.segment_size,
            info.ecn,
        ) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.stalled = Some((key, info));
                Ok(false)
            }
            Err(e) if quinn_udp::is_msg_size_err(&e) => {
                if let Some(connection) = self.machine.connection_mut(key) {
                    connection.on_datagram_too_big(now, &info);
                }
                Ok(true)
            }
            Err(e) if is_unreachable(&e) => {
                if let Some(connection) = self.machine.connection_mut(key) {
                    connection.on_unreachable();
                }
                Ok(true)
            }
            // The host has segmentation but not on this route: one by one from now on.
            Err(_) if info.segments > 1 && self.sends_one_by_one() => {
                for packet in contents.chunks(info.segment_size) {
                    let _ = self.send_to(info.destination, src_ip, packet, packet.len(), info.ecn);
                }
                Ok(true)
            }
            // A full queue, a route that flaps or is forbidden: the packets are lost, which is
            // provided for. One peer's route must not end the connections of the others.
            Err(e) if is_broken_socket(&e) => Err(e),
            Ok(()) | Err(_) => Ok(true),
        }
    }

    /// By the socket, or by a lane if it is one's address.
    fn send_to(
        &self,
        to: SocketAddr,
        src_ip: Option<IpAddr>,
        contents: &[u8],
        segment_size: usize,
        ecn: Ecn,
    ) -> io::Result<()> {
        match &self.port {
            Some(port) if !Lanes::is_one(to) => port.send(to, src_ip, contents, segment_size, ecn),
            _ => self.tunnels().send(to, contents, segment_size),
        }
    }

    fn sends_one_by_one(&self) -> bool {
        let port = self.port.as_ref();
        port.is_some_and(|port| port.max_segments() == 1)
    }

    fn retry_stalled(&mut self, now: Time) -> io::Result<bool> {
        match self.stalled.take() {
            Some((key, info)) => self.send(now, key, info),
            None => Ok(true),
        }
    }

    // ---- Waiting -----------------------------------------------------------------------------

    /// Sleeps until something can happen.
    fn wait<A: Application>(&mut self, application: &A) -> io::Result<()> {
        let now = self.clock.now();
        let next = self.machine.next_at(application.attended());
        let next = next.into_iter().chain(application.next_deadline()).min();
        let due = self.machine.has_touched() || next.is_some_and(|at| at <= now);
        if due && self.stalled.is_none() {
            return Ok(());
        }
        if self.stalled.is_none()
            && let Some(pause) = self.gather.pause(now)
        {
            let pause = next.map_or(pause, |at| at.since(now).min(pause));
            std::thread::sleep(pause.into());
            return Ok(());
        }
        if self.lanes.is_waiting() || self.has_mail() {
            return Ok(());
        }
        let limit = Span::from_millis(500);
        let mut timeout = next.map_or(limit, |at| at.since(now).min(limit));
        let reads = self.port.as_ref().is_some_and(UdpPort::reads);
        let mut interest = if reads {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        if self.stalled.is_some() {
            interest |= PollFlags::OUT;
            // Timers cannot do anything before the socket takes packets again.
            timeout = timeout.max(Span::from_millis(1));
        }
        let wakes = PollFd::from_borrowed_fd(self.wakes.as_fd(), PollFlags::IN);
        let socket = self.port.as_ref().map(UdpPort::socket);
        let socket = socket.map(|socket| PollFd::new(socket, interest));
        let mut fds: Vec<PollFd<'_>> = std::iter::once(wakes).chain(socket).collect();
        let timeout = rustix::event::Timespec {
            tv_sec: (timeout.as_nanos() / 1_000_000_000) as i64,
            tv_nsec: (timeout.as_nanos() % 1_000_000_000) as _,
        };
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(_) => {
                if fds[0].revents().contains(PollFlags::IN) {
                    self.wakes.drain();
                }
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
    )
}

/// The descriptor is no socket any more; everything else passes.
pub(crate) fn is_broken_socket(error: &io::Error) -> bool {
    const EBADF: i32 = rustix::io::Errno::BADF.raw_os_error();
    const ENOTSOCK: i32 = rustix::io::Errno::NOTSOCK.raw_os_error();
    matches!(error.raw_os_error(), Some(EBADF | ENOTSOCK))
}
