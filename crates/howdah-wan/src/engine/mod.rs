//! The emulator: one thread that moves packets between two devices.
//!
//! One thread rather than one per direction: both directions together need less than a core at
//! 10 Gbit/s, and on a small machine the cores belong to the programs under test.

mod lane;
mod wait;

use crate::tun::Tun;
use crate::{WanError, sys};
use howdah_core::{Span, Time};
use howdah_path::{DelayHistogram, PathConfig, PathCounters};
use lane::Lane;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;
use wait::{Wait, Waiter};

/// Which way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Direction {
    /// From near to far.
    Forward = 0,
    /// From far to near.
    Backward = 1,
}

/// How one direction fared.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneReport {
    pub path: PathCounters,
    pub lateness: DelayHistogram,
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
    pub lanes: [LaneReport; 2],
    /// Processor time of the emulator thread.
    pub cpu: Span,
    pub elapsed: Span,
    /// Whether the thread runs with real-time priority.
    pub realtime: bool,
}

enum Command {
    SetConfig(Direction, Box<PathConfig>),
    Report(SyncSender<EngineReport>),
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
    /// `tuns`: near and far. `configs`: forward and backward.
    pub(crate) fn start(
        tuns: [Tun; 2],
        configs: [&PathConfig; 2],
        seed: u64,
    ) -> Result<Self, WanError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = rustix::event::eventfd(0, flags)
            .map_err(std::io::Error::from)
            .map_err(WanError::system("create an eventfd"))?;
        let wake = Arc::new(wake);
        let (commands, inbox) = channel();
        // Different seeds, or both directions would lose packets in lock-step.
        let lanes = [
            Lane::new(configs[0], seed.wrapping_mul(2)),
            Lane::new(configs[1], seed.wrapping_mul(2).wrapping_add(1)),
        ];
        let worker_wake = Arc::clone(&wake);
        let thread = std::thread::Builder::new()
            .name("howdah-wan".to_owned())
            .spawn(move || Worker::new(tuns, lanes, inbox, worker_wake).run())
            .map_err(WanError::system("start the emulator thread"))?;
        Ok(Self {
            commands,
            wake,
            thread: Some(thread),
        })
    }

    pub(crate) fn set_config(&self, direction: Direction, config: &PathConfig) {
        self.send(Command::SetConfig(direction, Box::new(config.clone())));
    }

    /// `None` if the thread is gone.
    pub(crate) fn report(&self) -> Option<EngineReport> {
        let (reply, answer) = sync_channel(1);
        self.send(Command::Report(reply));
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
    tuns: [Tun; 2],
    lanes: [Lane; 2],
    inbox: Receiver<Command>,
    wake: Arc<OwnedFd>,
    started: Instant,
    realtime: bool,
}

impl Worker {
    fn new(tuns: [Tun; 2], lanes: [Lane; 2], inbox: Receiver<Command>, wake: Arc<OwnedFd>) -> Self {
        Self {
            tuns,
            lanes,
            inbox,
            wake,
            started: Instant::now(),
            realtime: false,
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
        let mut waiter = Waiter::new(self.shorter_delay());
        let mut ready = [true; 2];
        loop {
            let before = self.work_done();
            // One packet from here, one from there, and in between whatever is due.
            while ready[0] || ready[1] {
                for (side, ready) in ready.iter_mut().enumerate() {
                    if *ready {
                        *ready = self.take_in(side);
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
                    (ready, commanded) = self.poll(timeout);
                    waiter.woke(self.now(), ready[0] || ready[1] || commanded);
                }
                Wait::Sleep(span) => {
                    let _ = rustix::thread::nanosleep(&timespec(span));
                    ready = [true; 2];
                    waiter.woke(self.now(), false);
                }
            }
            // A busy thread does not hear the event: look for commands, which costs next to nothing.
            if commanded || waiter.is_busy() {
                match self.obey() {
                    Obeyed::Nothing => {}
                    Obeyed::NewPath => waiter = Waiter::new(self.shorter_delay()),
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
    fn take_in(&mut self, side: usize) -> bool {
        let (tun, lane) = (&self.tuns[side], &mut self.lanes[side]);
        let started = self.started;
        let clock = || Time::from_nanos(started.elapsed().as_nanos() as u64);
        lane.take_in(tun, clock)
    }

    /// Writes everything that is due, in both directions; returns the time it stopped.
    fn hand_over(&mut self) -> Time {
        let mut now = self.now();
        for side in 0..2 {
            while self.lanes[side].hand_over(now, &self.tuns[1 - side]) {
                now = self.now();
            }
        }
        now
    }

    /// Waits for packets, commands or the end of `timeout`.
    fn poll(&self, timeout: Option<Span>) -> ([bool; 2], bool) {
        let mut fds = [
            PollFd::from_borrowed_fd(self.tuns[0].as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.tuns[1].as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN),
        ];
        let timeout = timeout.map(timespec);
        // An interrupted poll is like one that found nothing.
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        let readable = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::IN);
        ([readable(&fds[0]), readable(&fds[1])], readable(&fds[2]))
    }

    fn shorter_delay(&self) -> Span {
        self.lanes[0].delay().min(self.lanes[1].delay())
    }

    /// Does what it was told.
    fn obey(&mut self) -> Obeyed {
        let mut obeyed = Obeyed::Nothing;
        // Emptied before the commands are fetched: one that comes later wakes the thread again.
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::SetConfig(direction, config) => {
                    self.lanes[direction as usize].set_config(&config);
                    obeyed = Obeyed::NewPath;
                }
                Command::Report(reply) => {
                    let _ = reply.send(self.report());
                }
                Command::Stop => return Obeyed::Stop,
            }
        }
        obeyed
    }

    fn report(&self) -> EngineReport {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        EngineReport {
            lanes: [self.lanes[0].report(), self.lanes[1].report()],
            cpu: Span::from_nanos(cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64),
            elapsed: self.now().since(Time::ZERO),
            realtime: self.realtime,
        }
    }
}

fn timespec(span: Span) -> Timespec {
    Timespec {
        tv_sec: (span.as_nanos() / 1_000_000_000) as i64,
        tv_nsec: (span.as_nanos() % 1_000_000_000) as i64,
    }
}
