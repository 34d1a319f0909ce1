//! The emulator: one thread that moves packets between devices.
//!
//! One thread rather than one per direction: both directions together need less than a core at
//! 10 Gbit/s, and on a small machine the cores belong to the programs under test.
//!
//! A *lane* is one direction of a path. A *way* leads from one device to another over one lane or
//! several; ways may share lanes, and then compete there.

mod lane;
mod wait;
mod way;

use crate::delay_line::Stage;
use crate::packet_memory::PacketMemory;
use crate::tun::Tun;
use crate::{WanError, sys};
use howdah_core::{Span, Time};
use howdah_path::{DelayHistogram, PathConfig, PathCounters, Switch};
use lane::Lane;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;
use wait::{Wait, Waiter};
pub use way::Traffic;
pub(crate) use way::Way;

/// How one direction fared.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneReport {
    pub path: PathCounters,
    pub lateness: DelayHistogram,
    /// Of what arrived within a second after the first packet, and what had been lost unplanned by then.
    pub first_lateness: DelayHistogram,
    pub first_unplanned: u64,
    /// Memory taken before the first packet.
    pub populated_bytes: u64,
    /// In the queue: median, 95th and 99th percentile.
    pub waits: [Span; 3],
    /// The longest wait that the queue allows, if it has a limit: the shortest of the run.
    pub queue_limit: Option<Span>,
    /// Super-packets taken in, pieces handed over.
    pub taken_in: u64,
    pub handed_over: u64,
    /// Wire segments that were lost because memory ran out.
    pub overflow: u64,
    /// Pieces that the receiving device refused.
    pub refused: u64,
    pub memory_bytes: u64,
}

/// How the emulator fared.
#[derive(Clone, Debug, Default)]
pub(crate) struct EngineReport {
    pub lanes: Vec<LaneReport>,
    /// Processor time of the emulator thread.
    pub cpu: Span,
    pub elapsed: Span,
    /// Whether the thread runs with real-time priority.
    pub realtime: bool,
    /// What the kernel's memory for packets was given before the first of them.
    pub packet_memory: PacketMemory,
}

/// Of the memory that is available, what all lanes may take before the first packet.
const POPULATED_SHARE: u64 = 4;
/// And what the kernel may be made to use for packets, ...
const PACKETS_SHARE: u64 = 8;
/// ... as time at the lanes' rates: at 10 Gbit/s senders, devices and receivers had 350 MB at most under way, seen from outside.
const PACKETS_SPAN: Span = Span::from_millis(250);

/// The lanes, with the memory that a full path needs, or with their shares of what may be taken at once.
fn populated(lanes: &[(&PathConfig, u64)]) -> Vec<Lane> {
    let wanted = |config: &PathConfig| Lane::full_bytes(config);
    let all: u128 = lanes.iter().map(|(c, _)| u128::from(wanted(c))).sum();
    let most = u128::from(sys::available_memory_bytes() / POPULATED_SHARE);
    lanes
        .iter()
        .map(|(config, seed)| {
            let mut lane = Lane::new(config, *seed);
            let share = u128::from(wanted(config)) * most.min(all) / all.max(1);
            lane.populate(share as u64);
            lane
        })
        .collect()
}

/// What the kernel is likely to hold of packets, used once.
fn touched(lanes: &[(&PathConfig, u64)]) -> PacketMemory {
    let rates = lanes.iter().filter_map(|(config, _)| config.peak_rate());
    let wanted = rates.fold(0_u64, |sum, rate| {
        sum.saturating_add(rate.bytes_in(PACKETS_SPAN))
    });
    PacketMemory::touch(wanted.min(sys::available_memory_bytes() / PACKETS_SHARE))
}

enum Command {
    SetConfig(usize, Box<PathConfig>, Option<Switch>),
    Report(SyncSender<EngineReport>),
    Traffic(SyncSender<Vec<(Traffic, Traffic)>>),
    Stop,
}

/// A handle on the running emulator; stops it when dropped.
#[derive(Debug)]
pub(crate) struct Engine {
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// `lanes`: with their seeds. `ways`: one for each device, which is its beginning.
    pub(crate) fn start(
        tuns: Vec<Tun>,
        lanes: &[(&PathConfig, u64)],
        ways: Vec<Way>,
    ) -> Result<Self, WanError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = rustix::event::eventfd(0, flags)
            .map_err(std::io::Error::from)
            .map_err(WanError::system("create an eventfd"))?;
        let wake = Arc::new(wake);
        let (commands, inbox) = channel();
        // The kernel's last: the sooner it is used after that, the more of it is still there.
        let (lanes, packet_memory) = (populated(lanes), touched(lanes));
        let worker_wake = Arc::clone(&wake);
        let thread = std::thread::Builder::new()
            .name("howdah-wan".to_owned())
            .spawn(move || Worker::new(tuns, lanes, packet_memory, ways, inbox, worker_wake).run())
            .map_err(WanError::system("start the emulator thread"))?;
        Ok(Self {
            commands,
            wake,
            thread: Some(thread),
        })
    }

    /// Gives a lane other properties; see [`Lane::set_config`].
    pub(crate) fn set_config(&self, lane: usize, config: &PathConfig, switch: Option<Switch>) {
        self.send(Command::SetConfig(lane, Box::new(config.clone()), switch));
    }

    /// `None` if the thread is gone.
    pub(crate) fn report(&self) -> Option<EngineReport> {
        let (reply, answer) = sync_channel(1);
        self.send(Command::Report(reply));
        answer.recv().ok()
    }

    /// Sent and delivered on each way, by its device; `None` if the thread is gone.
    pub(crate) fn traffic(&self) -> Option<Vec<(Traffic, Traffic)>> {
        let (reply, answer) = sync_channel(1);
        self.send(Command::Traffic(reply));
        answer.recv().ok()
    }

    fn send(&self, command: Command) {
        // Fails only if the thread is gone, which `report` shows.
        let _ = self.commands.send(command);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What changed with the commands.
enum Obeyed {
    Nothing,
    NewPath,
    Stop,
}

struct Worker {
    tuns: Vec<Tun>,
    lanes: Vec<Lane>,
    /// By the device at the beginning.
    ways: Vec<Way>,
    inbox: Receiver<Command>,
    wake: Arc<OwnedFd>,
    started: Instant,
    realtime: bool,
    packet_memory: PacketMemory,
}

impl Worker {
    fn new(
        tuns: Vec<Tun>,
        lanes: Vec<Lane>,
        packet_memory: PacketMemory,
        ways: Vec<Way>,
        inbox: Receiver<Command>,
        wake: Arc<OwnedFd>,
    ) -> Self {
        Self {
            tuns,
            lanes,
            ways,
            inbox,
            wake,
            started: Instant::now(),
            realtime: false,
            packet_memory,
        }
    }

    #[inline]
    fn now(&self) -> Time {
        Time::from_nanos(self.started.elapsed().as_nanos() as u64)
    }

    fn run(mut self) {
        // Timers on time instead of up to 50 us late.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        self.realtime = sys::make_thread_realtime().is_ok();
        let mut waiter = Waiter::new(self.shortest_delay());
        let mut ready = vec![true; self.tuns.len()];
        loop {
            let before = self.work_done();
            // One packet from each device in turn, and in between whatever is due.
            while ready.contains(&true) {
                for (device, ready) in ready.iter_mut().enumerate() {
                    if *ready {
                        *ready = self.take_in(device);
                    }
                    self.hand_over();
                }
            }
            let now = self.hand_over();
            let next = self.lanes.iter().filter_map(Lane::next_at).min();
            let found_work = self.work_done() != before;
            let mut commanded = false;
            match waiter.plan(now, next, found_work) {
                Wait::Event(timeout) => {
                    commanded = self.poll(timeout, &mut ready);
                    waiter.woke(self.now(), commanded || ready.contains(&true));
                }
                Wait::Sleep(span) => {
                    let _ = rustix::thread::nanosleep(&timespec(span));
                    ready.fill(true);
                    waiter.woke(self.now(), false);
                }
            }
            // A busy thread does not hear the event: look for commands, which costs next to nothing.
            if commanded || waiter.is_busy() {
                match self.obey() {
                    Obeyed::Nothing => {}
                    Obeyed::NewPath => waiter = Waiter::new(self.shortest_delay()),
                    Obeyed::Stop => return,
                }
            }
        }
    }

    /// Counts up whenever a packet comes in or goes out.
    fn work_done(&self) -> u64 {
        self.lanes.iter().map(Lane::work_done).sum()
    }

    /// Reads one packet from a device; false if there is none.
    fn take_in(&mut self, device: usize) -> bool {
        let started = self.started;
        let clock = || Time::from_nanos(started.elapsed().as_nanos() as u64);
        let way = &mut self.ways[device];
        let stage = Stage {
            way: device as u16,
            hop: 0,
        };
        self.lanes[way.lanes[0]].take_in(&self.tuns[device], stage, &mut way.sent, clock)
    }

    /// Passes on everything that is due, in the order of its times; returns the time it stopped.
    fn hand_over(&mut self) -> Time {
        let mut now = self.now();
        loop {
            let next = self
                .lanes
                .iter()
                .enumerate()
                .filter_map(|(index, lane)| Some((lane.next_at()?, index)))
                .min();
            let Some((_, index)) = next.filter(|&(at, _)| at <= now) else {
                return now;
            };
            let Some(arrival) = self.lanes[index].pop(now) else {
                return now;
            };
            let stage = arrival.stage;
            let way = &mut self.ways[usize::from(stage.way)];
            let passed = match way.lanes.get(usize::from(stage.hop) + 1) {
                // No way crosses a lane twice.
                Some(&onward) => self
                    .lanes
                    .get_disjoint_mut([index, onward])
                    .is_ok_and(|pair| {
                        let [lane, onward] = pair;
                        let stage = Stage {
                            hop: stage.hop + 1,
                            ..stage
                        };
                        lane.with_bytes(&arrival, |head, rest| {
                            onward.relay(arrival.at, head, rest, stage);
                        });
                        true
                    }),
                None => self.lanes[index].with_bytes(&arrival, |head, rest| {
                    lane::count(&mut way.delivered, head, rest);
                    self.tuns[way.exit].write(head, rest).is_ok()
                }),
            };
            self.lanes[index].release(&arrival, passed);
            now = self.now();
        }
    }

    /// Waits for packets, commands or the end of `timeout`; says which devices have packets, and
    /// returns whether there are commands.
    fn poll(&self, timeout: Option<Span>, ready: &mut [bool]) -> bool {
        let mut fds: smallvec::SmallVec<[PollFd<'_>; 16]> = self
            .tuns
            .iter()
            .map(|tun| PollFd::from_borrowed_fd(tun.as_fd(), PollFlags::IN))
            .collect();
        fds.push(PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN));
        let timeout = timeout.map(timespec);
        // An interrupted poll is like one that found nothing.
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        let readable = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::IN);
        for (ready, fd) in ready.iter_mut().zip(&fds) {
            *ready = readable(fd);
        }
        fds.last().is_some_and(readable)
    }

    fn shortest_delay(&self) -> Span {
        let delay = |way: &Way| {
            let lanes = way.lanes.iter().map(|&lane| self.lanes[lane].delay());
            lanes.fold(Span::ZERO, |sum, delay| sum + delay)
        };
        self.ways.iter().map(delay).min().unwrap_or(Span::ZERO)
    }

    /// Does what it was told.
    fn obey(&mut self) -> Obeyed {
        let mut obeyed = Obeyed::Nothing;
        // Emptied before the commands are fetched: one that comes later wakes the thread again.
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::SetConfig(lane, config, switch) => {
                    let now = self.now();
                    self.lanes[lane].set_config(now, &config, switch);
                    obeyed = Obeyed::NewPath;
                }
                Command::Report(reply) => {
                    let _ = reply.send(self.report());
                }
                Command::Traffic(reply) => {
                    let ways = self.ways.iter().map(|way| (way.sent, way.delivered));
                    let _ = reply.send(ways.collect());
                }
                Command::Stop => return Obeyed::Stop,
            }
        }
        obeyed
    }

    fn report(&self) -> EngineReport {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        EngineReport {
            lanes: self.lanes.iter().map(Lane::report).collect(),
            cpu: Span::from_nanos(cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64),
            elapsed: self.now().since(Time::ZERO),
            realtime: self.realtime,
            packet_memory: self.packet_memory,
        }
    }
}

fn timespec(span: Span) -> Timespec {
    Timespec {
        tv_sec: (span.as_nanos() / 1_000_000_000) as i64,
        tv_nsec: (span.as_nanos() % 1_000_000_000) as i64,
    }
}
