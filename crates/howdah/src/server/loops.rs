//! The loops of one server: a thread each, and what they share.
//!
//! The first one has the door, the lists of keys and the last word; when it ends, all do. The others have the sessions that the
//! endpoint gives them. What may be under way, and what is counted of a key, is counted for all together ([`Company`]).

use super::company::Company;
use super::service::{MOMENTS, Service, Stay};
use super::strangers::Crowd;
use super::{Log, Server, expiry};
use crate::sandbox;
use crate::session::blocking::BlockingJobs;
use crate::session::places::Places;
use crate::{Cancel, Error, ErrorKind};
use howdah_core::{NoWaiting, Time};
use howdah_net::{Allowance, Endpoint};
use howdah_session::server::Does;
use howdah_store::threads::{self, Ordering, Orders};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

type Work = Box<dyn FnOnce() -> Result<(), Error> + Send>;

/// A thread that waits for its loop.
pub(super) struct LoopThread {
    begin: Sender<Work>,
    thread: JoinHandle<Result<(), Error>>,
}

impl LoopThread {
    fn start() -> std::io::Result<Self> {
        let (begin, work) = channel::<Work>();
        let refused = threads::refused_by();
        let wait = move || {
            if let Some(refused) = refused {
                threads::refuse_while(refused);
            }
            work.recv().map_or(Ok(()), |work| work())
        };
        let thread = std::thread::Builder::new().name("howdah-net".to_owned());
        let thread = thread.spawn(wait)?;
        Ok(Self { begin, thread })
    }
}

/// What a thread that hears the network leaves itself before.
#[derive(Clone, Default)]
pub(super) struct Hearing(Option<Nothing>);

#[derive(Clone)]
struct Nothing {
    orders: Orders,
    begun: fn(),
    log: Log,
}

/// What it needs until it ends.
type Heard = Option<Ordering>;

impl Hearing {
    /// It opens nothing any more, and others start the threads that work for it.
    pub(super) fn opening_nothing(orders: Orders, begun: fn(), log: Log) -> Self {
        Self(Some(Nothing { orders, begun, log }))
    }

    /// Holds for this thread from now on.
    pub(super) fn begin(&self) -> Heard {
        let nothing = self.0.clone()?;
        let ordering = nothing.orders.here();
        if let Some(lacking) = sandbox::open_nothing() {
            nothing.log.line(&lacking);
        }
        (nothing.begun)();
        Some(ordering)
    }
}

/// Ends all loops with one that ends, however it does.
struct EndsAll(Company, super::ServerControl);

impl Drop for EndsAll {
    fn drop(&mut self) {
        self.0.end();
        self.1.wake();
    }
}

impl Server {
    /// It has one loop only.
    pub(super) fn be_alone(&mut self) {
        self.others.clear();
        self.endpoint.alone();
    }

    /// A thread for each further loop. There are all of them, or none.
    pub(super) fn threads(&mut self) -> Vec<LoopThread> {
        let threads: Result<Vec<_>, _> = self.others.iter().map(|_| LoopThread::start()).collect();
        threads.unwrap_or_else(|error| {
            let text = format!(
                "one thread moves all data instead of {}: this system gives no more threads ({error})",
                self.loops()
            );
            self.log.line(&text);
            self.be_alone();
            Vec::new()
        })
    }

    /// The first loop on this thread, the others on theirs.
    pub(super) fn hear(
        self,
        cancel: &Cancel,
        stay: Stay,
        threads: Vec<LoopThread>,
        hearing: &Hearing,
    ) -> Result<(), Error> {
        let endpoints = std::iter::once(&self.endpoint).chain(&self.others);
        let wakers: Vec<_> = endpoints.map(Endpoint::waker).collect();
        let company = Company::with_lobby(wakers.len(), wakers.clone(), self.lobby);
        self.control.begin(wakers);
        let door = self.door.map(Arc::new);
        let (places, errands) = (Places::new(self.bounds), BlockingJobs::default());
        let service = |index: usize, endpoint: &Endpoint| Service {
            authority: Arc::clone(&self.authority),
            door: door.clone(),
            index,
            company: company.clone(),
            stay,
            since: None,
            met: false,
            waker: endpoint.waker(),
            moments: Allowance::new(MOMENTS),
            errands: errands.clone(),
            places: places.clone(),
            sessions: BTreeMap::new(),
            active: BTreeSet::new(),
            spares: Vec::new(),
            cancel: cancel.clone(),
            log: self.log.clone(),
            audit: self.audit.clone(),
            strangers: self.strangers.clone(),
            signing: self.signing.clone(),
            crowd: Crowd::default(),
            control: self.control.clone(),
            max_rate: self.max_rate,
            sharing: 0,
            told: 0,
            next_show: Time::ZERO,
            next_share: Time::ZERO,
            next_look: Time::ZERO,
            ending: Vec::new(),
            lists: None,
        };
        let first = service(0, &self.endpoint);
        let mut running = Vec::new();
        for ((endpoint, thread), index) in self.others.into_iter().zip(threads).zip(1..) {
            let (service, hearing) = (service(index, &endpoint), hearing.clone());
            let work = move || {
                let _ordering = hearing.begin();
                run(endpoint, service)
            };
            // It waits for nothing else.
            let _ = thread.begin.send(Box::new(work));
            running.push(thread.thread);
        }
        let _expiry = expiry::begin(&first.authority, self.keep_unfinished, &first.log)
            .inspect_err(|e| first.log(&format!("unfinished files do not expire: {e}")));
        let result = run(self.endpoint, first);
        running.into_iter().fold(result, |result, thread| {
            let other = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            result.and(other)
        })
    }
}

/// One loop, on this thread, until it ends.
fn run(mut endpoint: Endpoint, mut service: Service) -> Result<(), Error> {
    let ends_all = EndsAll(service.company.clone(), service.control.clone());
    let on_loop = NoWaiting::here();
    let result = endpoint
        .run(&mut service)
        .map_err(|e| Error::new(ErrorKind::Io, format!("the socket failed: {e}")));
    drop(on_loop);
    drop(ends_all);
    let Service {
        mut sessions,
        mut ending,
        ..
    } = service;
    // Unfinished files go by their names, which this thread may not be able to name.
    let put_away = move || {
        for session in sessions.values_mut() {
            if let Does::Tree(tree) = session.machine.end() {
                ending.extend(tree.stop());
            }
        }
        for thread in ending {
            let _ = thread.join();
        }
        drop(sessions);
        howdah_store::wait_for_leftovers();
    };
    if let Ok(thread) = threads::start("howdah-away", put_away) {
        let _ = thread.join();
    }
    result
}
