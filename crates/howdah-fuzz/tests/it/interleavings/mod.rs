//! Every order in which threads can meet in what is written by hand for them, with loom (up to its bound of preemptions): the
//! files are those of the crates, with loom's atomics and locks in the place of the system's.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

#[path = "."]
mod waker {
    #[path = "../../../../howdah-net/src/waker/note.rs"]
    pub(crate) mod note;

    mod atomics {
        pub(super) use loom::sync::atomic::{AtomicBool, Ordering};
    }
}

#[path = "."]
mod trees {
    #[path = "../../../../howdah-tree/src/queue.rs"]
    #[expect(dead_code, reason = "not all of it is tried")]
    pub(crate) mod queue;

    mod locks {
        pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
        pub(super) use std::sync::PoisonError;
    }
}

use trees::queue::{Budget, Queue};
use waker::note::Note;

/// Tries all orders with at most so many preemptions: more find nothing new in so few steps, and take hours.
fn all_orders(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A pipe of which only matters whether it is empty. Whoever sleeps on it for good makes loom say so.
#[derive(Default)]
struct Bell {
    bytes: Mutex<usize>,
    rung: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.bytes.lock().unwrap() += 1;
        self.rung.notify_one();
    }

    fn silence(&self) {
        *self.bytes.lock().unwrap() = 0;
    }

    fn sleep(&self) {
        let mut bytes = self.bytes.lock().unwrap();
        while *bytes == 0 {
            bytes = self.rung.wait(bytes).unwrap();
        }
        *bytes = 0;
    }
}

/// Whoever calls is served, however calls and looks meet: the endpoint sleeps only while nothing is to be done.
#[test]
fn no_call_of_the_waker_is_lost() {
    const CALLS: usize = 2;
    all_orders(3, || {
        let shared = Arc::new((Note::new(), Bell::default(), AtomicUsize::new(0)));
        let callers: Vec<_> = [1, CALLS]
            .into_iter()
            .map(|calls| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (note, bell, work) = &*shared;
                    for _ in 0..calls {
                        work.fetch_add(1, Ordering::Relaxed);
                        note.call(|| bell.ring());
                    }
                })
            })
            .collect();
        let (note, bell, work) = &*shared;
        let mut done = 0;
        // As the endpoint does: look, work, sleep.
        loop {
            note.take(|| bell.silence());
            done += work.swap(0, Ordering::Relaxed);
            if done == CALLS + 1 {
                break;
            }
            bell.sleep();
        }
        for caller in callers {
            caller.join().unwrap();
        }
    });
}

/// Everything that went in comes out once, also through a queue of one place with two at its end, and both end.
#[test]
fn a_queue_loses_and_doubles_nothing() {
    all_orders(2, || {
        let queue = Arc::new(Queue::new(1));
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || std::iter::from_fn(|| queue.pop()).collect::<Vec<u8>>())
            })
            .collect();
        for item in [1, 2, 3] {
            assert_eq!(queue.push(item), Ok(()));
        }
        queue.close();
        let mut all: Vec<_> = takers
            .into_iter()
            .flat_map(|taker| taker.join().unwrap())
            .collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    });
}

/// Nobody waits for ever at a queue that is stopped.
#[test]
fn a_queue_that_is_stopped_lets_everybody_go() {
    all_orders(3, || {
        let queue = Arc::new(Queue::new(1));
        let other = Arc::clone(&queue);
        let pusher = thread::spawn(move || (other.push(1), other.push(2)));
        let other = Arc::clone(&queue);
        let taker = thread::spawn(move || other.pop());
        queue.stop();
        let (first, second) = pusher.join().unwrap();
        assert!(first.is_ok() || second.is_err());
        assert!(taker.join().unwrap().is_none_or(|item| item <= 2));
        assert!(queue.pop().is_none());
    });
}

/// No more is in use than the bound, but by one who needs more alone; and who waits for the end hears of it.
#[test]
fn a_budget_is_kept() {
    all_orders(2, || {
        let budget = Arc::new((Budget::new(2), AtomicUsize::new(0)));
        let users: Vec<_> = [1u64, 2]
            .into_iter()
            .map(|amount| {
                let shared = Arc::clone(&budget);
                thread::spawn(move || {
                    let (budget, in_use) = &*shared;
                    assert!(budget.acquire(amount));
                    let before = in_use.fetch_add(amount as usize, Ordering::AcqRel);
                    assert!(before + amount as usize <= 2);
                    in_use.fetch_sub(amount as usize, Ordering::AcqRel);
                    budget.release(amount);
                })
            })
            .collect();
        assert!(budget.0.acquire(3));
        assert_eq!(budget.1.load(Ordering::Acquire), 0, "not alone");
        budget.0.release(3);
        for user in users {
            user.join().unwrap();
        }
        assert!(budget.0.wait_until_unused());
    });
}
