//! What datagrams cost the machines at the ends.
//!
//! An endpoint is infinitely fast until it is given a process: costs, and the cores on which it
//! pays them. A core does one thing at a time, in the order in which things come up: it reads a
//! datagram from a socket, handles a timer, or asks the transport for datagrams and sends them.
//! While it is busy, arrivals wait in the socket's buffer, which overflows; timers fire late; and
//! sending stops. Several endpoints may share a core, and one endpoint may send on one core and
//! receive on another.

use super::{Source, World};
use crate::checks::Kind;
use crate::disturb::{Calendar, Disturbance};
use crate::lane::Flight;
use crate::{EndpointId, HostId};
use howdah_core::{Datagram, Span, Time, Transport};
use std::collections::VecDeque;
use std::fmt;

/// A datagram with at most this many bytes that are not carried in the simulation (room for a tag)
/// has no payload: it is a report.
const REPORT_ABSENT_BYTES: u32 = 64;

/// One core of a host, with its own queue of things to do.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CoreId(pub(crate) u32);

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "core{}", self.0)
    }
}

/// What one side of a flow costs its machine. [`Default`] costs nothing and never overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// For each datagram that is sent.
    pub sent: PacketCost,
    /// For each datagram that is read from the socket.
    pub received: PacketCost,
    /// For each timer that fires.
    pub per_wake: Span,
    /// Datagrams that one system call sends: they leave together when all have been paid for. 0 is
    /// taken as 1.
    pub datagrams_per_call: u32,
    /// The socket's receive buffer; `None` is without end.
    pub socket: Option<SocketBuffer>,
    /// What the host does beside costing time.
    pub disturbance: Disturbance,
}

/// Time that one datagram takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PacketCost {
    /// For a datagram with payload.
    pub per_packet: Span,
    /// For a datagram without: an acknowledgement, a report, a request.
    pub per_report: Span,
    /// For each byte of UDP payload, in picoseconds.
    pub per_byte_ps: u64,
}

impl PacketCost {
    fn picoseconds(&self, absent: u32, wire_len: u32) -> u64 {
        let fixed = if absent > REPORT_ABSENT_BYTES {
            self.per_packet
        } else {
            self.per_report
        };
        fixed.as_nanos() * 1_000 + self.per_byte_ps * u64::from(wire_len)
    }
}

/// A receive buffer. Linux charges a datagram with more than its size (its "truesize"), so a buffer
/// holds less payload than its name says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SocketBuffer {
    /// What may be charged.
    pub bytes: u64,
    /// What a byte of UDP payload is charged with, in per cent: 100 is fair, 160 to 200 are usual
    /// for jumbo frames.
    pub charge_percent: u32,
}

impl SocketBuffer {
    fn charge(&self, wire_len: u32) -> u64 {
        u64::from(wire_len) * u64::from(self.charge_percent) / 100
    }
}

/// What waits for a core.
#[derive(Clone, Copy, Debug)]
enum Job {
    Receive(Flight, u32),
    Wake(u32),
    Send(u32),
}

/// Does one job at a time.
#[derive(Debug)]
pub(crate) struct Core {
    host: HostId,
    slot: u32,
    jobs: VecDeque<Job>,
    current: Option<Job>,
    /// Datagrams of the current [`Job::Send`].
    outbox: Vec<Datagram>,
    busy_ps: u64,
    /// Picoseconds of work done that make no whole nanosecond yet.
    carry_ps: u64,
    stalls: Option<Calendar>,
    /// The current [`Job::Send`] was interrupted: what is left of the outbox leaves at its end.
    interrupted: bool,
}

/// An endpoint that is not infinitely fast.
#[derive(Debug)]
pub(crate) struct Process {
    costs: Costs,
    send_core: u32,
    receive_core: u32,
    socket_charge: u64,
    send_pending: bool,
    wake_pending: bool,
    woken: bool,
    sent_since_wake: bool,
    busy_ps: u64,
    /// Arrivals that are read together, and the slot of the moment when.
    gathered: Vec<Flight>,
    gather_slot: Option<u32>,
    has_payload: bool,
}

impl<T: Transport> World<T> {
    /// Adds a core to a host.
    ///
    /// # Panics
    /// If the host is of another world.
    pub fn add_core(&mut self, host: HostId) -> CoreId {
        assert!(
            host.index() < self.host_count(),
            "{host} is not of this world"
        );
        let id = u32::try_from(self.cores.len()).expect("fewer than 2^32 cores");
        self.cores.push(Core {
            host,
            slot: self.agenda.add(),
            jobs: VecDeque::new(),
            current: None,
            outbox: Vec::new(),
            busy_ps: 0,
            carry_ps: 0,
            stalls: None,
            interrupted: false,
        });
        self.sources.push(Source::Core(id));
        CoreId(id)
    }

    /// Makes an endpoint pay `costs`, sending on one core and receiving on another (or the same).
    /// Timers belong to the sending one.
    ///
    /// # Panics
    /// If a core is not of the endpoint's host, or the endpoint has a process already.
    pub fn run_on(
        &mut self,
        endpoint: EndpointId,
        send_core: CoreId,
        receive_core: CoreId,
        costs: Costs,
    ) {
        let host = self.host_of(endpoint);
        for core in [send_core, receive_core] {
            assert_eq!(
                self.cores[core.0 as usize].host, host,
                "{endpoint} cannot run on {core}"
            );
        }
        let gather_slot = (!costs.disturbance.gather.is_zero()).then(|| {
            let slot = self.agenda.add();
            self.sources.push(Source::Gather(endpoint.index() as u32));
            slot
        });
        if let Some(stalls) = costs.disturbance.stalls {
            for core in [send_core, receive_core] {
                let core = &mut self.cores[core.0 as usize];
                let chance = &mut self.disturbances;
                core.stalls
                    .get_or_insert_with(|| Calendar::new(stalls, self.now, chance));
            }
        }
        let process = &mut self.endpoints[endpoint.index()].process;
        assert!(process.is_none(), "{endpoint} runs already");
        *process = Some(Box::new(Process {
            costs,
            send_core: send_core.0,
            receive_core: receive_core.0,
            socket_charge: 0,
            send_pending: false,
            wake_pending: false,
            woken: false,
            sent_since_wake: false,
            busy_ps: 0,
            gathered: Vec::new(),
            gather_slot,
            has_payload: false,
        }));
    }

    /// How long a core has worked, the job that it is at included as a whole.
    pub fn core_busy(&self, core: CoreId) -> Span {
        Span::from_nanos(self.cores[core.0 as usize].busy_ps / 1_000)
    }

    /// How long cores have worked for an endpoint; zero for one that is infinitely fast.
    pub fn endpoint_busy(&self, endpoint: EndpointId) -> Span {
        let process = &self.endpoints[endpoint.index()].process;
        Span::from_nanos(
            process
                .as_ref()
                .map_or(0, |process| process.busy_ps / 1_000),
        )
    }

    /// A datagram has come to the socket of an endpoint with a process.
    pub(crate) fn reach_socket(&mut self, flight: Flight, index: usize) {
        let endpoint = &mut self.endpoints[index];
        let Some(process) = &mut endpoint.process else {
            return;
        };
        if let Some(socket) = process.costs.socket {
            let charge = socket.charge(flight.wire_len);
            if process.socket_charge + charge > socket.bytes {
                endpoint.counters.socket_drops += 1;
                endpoint.counters.socket_dropped_bytes += u64::from(flight.wire_len);
                self.fingerprint
                    .mix(self.now, Kind::SocketFull, index as u32, flight.wire_len);
                self.pool.release(flight.parcel);
                return;
            }
            process.socket_charge += charge;
            let peak = &mut endpoint.counters.socket_peak_charge;
            *peak = (*peak).max(process.socket_charge);
        }
        self.in_sockets += 1;
        if let Some(slot) = process.gather_slot {
            process.gathered.push(flight);
            if process.gathered.len() == 1 {
                let step = process.costs.disturbance.gather.as_nanos();
                let next = self.now.as_nanos().div_ceil(step) * step;
                let key = self.key_at(Time::from_nanos(next));
                self.agenda.set(slot, Some(key));
            }
            return;
        }
        let core = process.receive_core;
        self.enqueue(core, Job::Receive(flight, index as u32));
    }

    /// What has gathered in front of a socket is read.
    pub(crate) fn read_gathered(&mut self, index: usize) {
        let Some(process) = &mut self.endpoints[index].process else {
            return;
        };
        let core = process.receive_core;
        let flights = std::mem::take(&mut process.gathered);
        if let Some(slot) = process.gather_slot {
            self.agenda.set(slot, None);
        }
        for flight in flights {
            self.enqueue(core, Job::Receive(flight, index as u32));
        }
    }

    /// The timer of an endpoint with a process is due.
    pub(crate) fn wake_process(&mut self, index: usize) {
        let endpoint = &mut self.endpoints[index];
        let slot = endpoint.slot;
        if let Some(process) = &mut endpoint.process
            && !process.wake_pending
        {
            process.wake_pending = true;
            let core = process.send_core;
            self.agenda.set(slot, None);
            self.enqueue(core, Job::Wake(index as u32));
        } else {
            self.agenda.set(slot, None);
        }
    }

    fn want_to_send(&mut self, index: u32) {
        if let Some(process) = &mut self.endpoints[index as usize].process
            && !process.send_pending
        {
            process.send_pending = true;
            let core = process.send_core;
            self.enqueue(core, Job::Send(index));
        }
    }

    fn enqueue(&mut self, core: u32, job: Job) {
        self.cores[core as usize].jobs.push_back(job);
        self.begin(core);
    }

    /// Begins the next job of a core that is idle.
    fn begin(&mut self, id: u32) {
        let core = &mut self.cores[id as usize];
        if core.current.is_some() {
            return;
        }
        let Some(job) = core.jobs.pop_front() else {
            self.agenda.set(core.slot, None);
            return;
        };
        core.current = Some(job);
        assert!(core.outbox.is_empty(), "a core forgot to send");
        let (Job::Receive(_, index) | Job::Wake(index) | Job::Send(index)) = job;
        let endpoint = &mut self.endpoints[index as usize];
        let mut picoseconds = 0;
        if let Some(process) = &mut endpoint.process {
            let costs = &process.costs;
            picoseconds = match job {
                Job::Receive(flight, _) => {
                    if let Some(socket) = costs.socket {
                        process.socket_charge -= socket.charge(flight.wire_len);
                    }
                    let (_, absent) = self.pool.get(flight.parcel);
                    let first = absent > REPORT_ABSENT_BYTES
                        && !std::mem::replace(&mut process.has_payload, true);
                    let more = if first {
                        costs.disturbance.first.as_nanos() * 1_000
                    } else {
                        0
                    };
                    costs.received.picoseconds(absent, flight.wire_len) + more
                }
                Job::Wake(_) => costs.per_wake.as_nanos() * 1_000,
                Job::Send(_) => {
                    process.send_pending = false;
                    let most = costs.datagrams_per_call.max(1) as usize;
                    let count = endpoint
                        .transport
                        .poll_transmit(self.now, most, &mut core.outbox);
                    assert_eq!(
                        count,
                        core.outbox.len(),
                        "poll_transmit returns how many datagrams it appended"
                    );
                    let sent = core.outbox.iter();
                    sent.map(|datagram| {
                        costs.sent.picoseconds(datagram.absent, datagram.wire_len())
                    })
                    .sum()
                }
            };
            process.busy_ps += picoseconds;
        }
        core.busy_ps += picoseconds;
        let total = picoseconds + core.carry_ps;
        core.carry_ps = total % 1_000;
        let slot = core.slot;
        let work = Span::from_nanos(total / 1_000);
        let done = match &mut core.stalls {
            Some(stalls) => stalls.done(self.now, work, &mut self.disturbances),
            None => self.now + work,
        };
        let key = self.key_at(done);
        self.agenda.set(slot, Some(key));
    }

    /// The current job of a core is done: what it was for happens now.
    pub(crate) fn finish_job(&mut self, id: u32) {
        let job = self.cores[id as usize].current.take();
        match job {
            None => {}
            Some(Job::Receive(flight, index)) => {
                self.in_sockets -= 1;
                self.deliver(flight, index as usize);
                self.want_to_send(index);
            }
            Some(Job::Wake(index)) => {
                self.wake_transport(index as usize);
                if let Some(process) = &mut self.endpoints[index as usize].process {
                    process.wake_pending = false;
                    process.woken = true;
                    process.sent_since_wake = false;
                }
                self.want_to_send(index);
            }
            Some(Job::Send(index)) => {
                let core = &mut self.cores[id as usize];
                let mut outbox = std::mem::take(&mut core.outbox);
                let sent = !outbox.is_empty();
                let mut now = outbox.len();
                let late = if std::mem::take(&mut core.interrupted) || now < 2 {
                    None
                } else {
                    let process = &self.endpoints[index as usize].process;
                    let tail = process.as_ref().and_then(|p| p.costs.disturbance.tail);
                    tail.and_then(|tail| tail.draw(&mut self.disturbances))
                };
                if late.is_some() {
                    now = now.div_ceil(2);
                }
                for mut datagram in outbox.drain(..now) {
                    self.send(index as usize, &mut datagram);
                }
                if let Some(late) = late {
                    let core = &mut self.cores[id as usize];
                    core.outbox = outbox;
                    core.interrupted = true;
                    core.current = Some(Job::Send(index));
                    let slot = core.slot;
                    let key = self.key_at(self.now + late);
                    self.agenda.set(slot, Some(key));
                    return;
                }
                // Before anything else can begin on this core.
                self.cores[id as usize].outbox = outbox;
                if sent {
                    if let Some(process) = &mut self.endpoints[index as usize].process {
                        process.sent_since_wake = true;
                    }
                    self.want_to_send(index);
                } else {
                    self.arm_process(index as usize);
                }
            }
        }
        self.begin(id);
    }

    /// A transport has nothing to send: when does it want to be woken?
    fn arm_process(&mut self, index: usize) {
        let (idle_wake, wake_pending) = match &mut self.endpoints[index].process {
            Some(process) => {
                let idle = process.woken && !process.sent_since_wake;
                process.woken = false;
                (idle, process.wake_pending)
            }
            None => (false, false),
        };
        if wake_pending {
            return;
        }
        self.arm(index, false, idle_wake);
    }

    /// When a core will have done what it is at; `None` if it is idle.
    pub fn core_free_at(&self, core: CoreId) -> Option<Time> {
        let core = &self.cores[core.0 as usize];
        self.agenda.get(core.slot).map(|key| key.time)
    }
}
