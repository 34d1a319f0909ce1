//! Threads that another one starts than the one that wants them.
//!
//! What is kept from a thread is kept from all that it starts (seccomp(2)). Whoever hears the network may do less than those who
//! work for him, so theirs are started by a thread that may do what they may.

use rustix::io::Errno;
use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

type Order = Box<dyn FnOnce() + Send>;

thread_local! {
    static STARTER: RefCell<Option<Sender<Order>>> = const { RefCell::new(None) };
    static REFUSED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// As if this system gave this thread no more threads while `refused` is true. For tests.
#[doc(hidden)]
pub fn refuse_while(refused: Arc<AtomicBool>) {
    REFUSED.set(Some(refused));
}

/// What this thread [is refused by](refuse_while), for others that are to be refused the same.
#[doc(hidden)]
pub fn refused_by() -> Option<Arc<AtomicBool>> {
    REFUSED.with_borrow(Clone::clone)
}

/// Starts the threads of others.
#[derive(Debug)]
pub struct Starter(Receiver<Order>);

/// By which it is told what to start. Clones tell the same one.
#[derive(Clone, Debug)]
pub struct Orders(Sender<Order>);

/// While it lives, another thread starts those that its thread wants.
#[derive(Debug)]
pub struct Ordering(PhantomData<*const ()>);

/// A starter, and its orders.
pub fn starter() -> (Orders, Starter) {
    let (orders, taken) = channel();
    (Orders(orders), Starter(taken))
}

impl Starter {
    /// Starts what is ordered, on this thread, until nobody can order any more.
    pub fn run(self) {
        for order in self.0 {
            order();
        }
    }
}

impl Orders {
    /// All threads that this one wants are ordered.
    #[must_use]
    pub fn here(self) -> Ordering {
        STARTER.set(Some(self.0));
        Ordering(PhantomData)
    }
}

impl Drop for Ordering {
    fn drop(&mut self) {
        STARTER.set(None);
    }
}

/// Starts a thread of that name, or has it started where that is [another one's](Orders::here).
///
/// # Errors
/// If this system gives no more threads.
pub fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let is_refused = |refused: &Option<Arc<AtomicBool>>| {
        let refused = refused.as_ref();
        refused.is_some_and(|refused| refused.load(atomic::Ordering::Relaxed))
    };
    if REFUSED.with_borrow(is_refused) {
        return Err(Errno::AGAIN.into());
    }
    let builder = Builder::new().name(name.to_owned());
    let Some(starter) = STARTER.with_borrow(Clone::clone) else {
        return builder.spawn(work);
    };
    let (tell, started) = channel();
    let order = move || {
        // Whoever ordered it waits.
        let _ = tell.send(builder.spawn(work));
    };
    let gone = || io::Error::other("whoever starts threads has ended");
    starter.send(Box::new(order)).map_err(|_| gone())?;
    started.recv().map_err(|_| gone())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::current;

    #[test]
    fn who_orders_threads_gets_them_from_the_starter_and_their_own_start_theirs() {
        let (orders, starter) = starter();
        let starting = std::thread::spawn(move || starter.run());
        let ordering = orders.here();
        let who = start("theirs", || {
            let named = current().name().map(str::to_owned);
            (named, STARTER.with_borrow(Option::is_some))
        });
        let who = who.expect("a thread").join().expect("no panic");
        assert_eq!(who, (Some("theirs".to_owned()), false));
        drop(ordering);
        // Nobody can order any more.
        starting.join().expect("it ends");
        assert!(start("ours", || ()).expect("a thread").join().is_ok());
    }

    #[test]
    fn a_starter_that_has_ended_is_an_error() {
        let (orders, starter) = starter();
        drop(starter);
        let _ordering = orders.here();
        assert!(start("nobody's", || ()).is_err());
    }
}
