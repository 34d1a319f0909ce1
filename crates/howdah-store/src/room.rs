//! A full disk is waited for.
//!
//! What has failed for lack of space has changed nothing, so it is tried again now and then. A failed sync
//! is not: pages may have been lost, and a second one would not say so.

use crate::{StoreError, Wake};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Somebody may have made room: tried that often. Costs a system call or two.
const TRY_EVERY: Duration = Duration::from_millis(500);
/// How soon it is noticed that nobody wants the copy any more.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The patience of one copy with full disks, shared by all that writes for it. The default has none.
#[derive(Clone, Default)]
pub struct RoomWait(Option<Arc<Shared>>);

struct Shared {
    limit: Duration,
    wake: Wake,
    stopped: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Threads that wait.
    waiting: usize,
    /// What the first of them lacks.
    why: Option<StoreError>,
    /// Nobody has heard of that yet.
    is_news: bool,
    /// Somebody has heard that it waits, and not that there is room again.
    is_told: bool,
}

impl std::fmt::Debug for RoomWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let limit = self.0.as_ref().map(|shared| shared.limit);
        f.debug_tuple("RoomWait").field(&limit).finish()
    }
}

impl RoomWait {
    /// Each wait ends after `limit`; none begins if that is zero. `wake` is called when there is something
    /// for [`take_news`](Self::take_news).
    pub fn new(limit: Duration, wake: Wake) -> Self {
        let shared = Shared {
            limit,
            wake,
            stopped: AtomicBool::new(false),
            state: Mutex::default(),
        };
        Self((!limit.is_zero()).then(|| Arc::new(shared)))
    }

    /// Whether there is any patience.
    pub(crate) fn is_patient(&self) -> bool {
        self.0.is_some()
    }

    /// Whether something waits for space now.
    pub fn is_waiting(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|shared| shared.lock().waiting > 0)
    }

    /// `Some(Some(_))`: a wait has begun, for that lack. `Some(None)`: there is room again.
    pub fn take_news(&self) -> Option<Option<StoreError>> {
        let mut state = self.0.as_ref()?.lock();
        let is_waiting = state.why.is_some();
        let before = std::mem::replace(&mut state.is_told, is_waiting);
        let is_news = std::mem::take(&mut state.is_news);
        // The end of a wait that nobody has heard of is none.
        (is_news && (before || is_waiting)).then(|| state.why.clone())
    }

    /// Nobody wants the copy any more: all waits end.
    pub fn stop(&self) {
        if let Some(shared) = &self.0 {
            shared.stopped.store(true, Ordering::SeqCst);
        }
    }

    /// Tries until it succeeds, fails for another reason than lack of space, or patience ends. `figures` adds
    /// to an error what is known of the disk and of what is still to come: as long as that does not fit, there is no room.
    pub fn until_room<T>(
        &self,
        is_aborted: impl Fn() -> bool,
        figures: impl Fn(StoreError) -> StoreError,
        mut attempt: impl FnMut() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut turn: Option<(Instant, Turn<'_>)> = None;
        loop {
            let (shared, error) = match (&self.0, attempt()) {
                (Some(shared), Err(error @ StoreError::NoSpace { .. })) => (shared, error),
                (_, result) => {
                    if let (Ok(_), Some((_, turn))) = (&result, &mut turn) {
                        turn.found_room = true;
                    }
                    return result;
                }
            };
            let (since, _) =
                turn.get_or_insert_with(|| (Instant::now(), shared.begin(figures(error.clone()))));
            let since = *since;
            loop {
                if since.elapsed() >= shared.limit {
                    return Err(error);
                }
                shared.pause(&is_aborted)?;
                // The last attempt is made in any case: some disks hold more than they say.
                if since.elapsed() >= shared.limit || !is_too_little(&figures(error.clone())) {
                    break;
                }
            }
        }
    }
}

/// Whether what is known of a full disk says that what comes does not fit.
fn is_too_little(error: &StoreError) -> bool {
    match error {
        StoreError::NoSpace { lack, .. } if !lack.is_quota => {
            let known = lack.needed.zip(lack.free);
            lack.is_inodes || known.is_some_and(|(needed, free)| free < needed)
        }
        _ => false,
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, why: StoreError) -> Turn<'_> {
        let mut state = self.lock();
        state.waiting += 1;
        if state.why.is_none() {
            state.why = Some(why);
            state.is_news = true;
        }
        drop(state);
        (self.wake)();
        Turn {
            shared: self,
            found_room: false,
        }
    }

    /// Until it is time to look again.
    fn pause(&self, is_aborted: impl Fn() -> bool) -> Result<(), StoreError> {
        let pause = TRY_EVERY.min(self.limit);
        let begun = Instant::now();
        while begun.elapsed() < pause {
            if is_aborted() || self.stopped.load(Ordering::SeqCst) {
                return Err(StoreError::Aborted);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

/// One thread waits.
struct Turn<'a> {
    shared: &'a Shared,
    /// Whoever gives up has not.
    found_room: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.waiting -= 1;
        if state.waiting == 0 {
            state.why = None;
            state.is_news = self.found_room;
        }
        drop(state);
        (self.shared.wake)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lack;
    use std::path::PathBuf;

    fn full() -> StoreError {
        let path = PathBuf::from("x");
        let lack = Lack::default();
        StoreError::NoSpace { path, lack }
    }

    fn patience(limit: Duration) -> RoomWait {
        RoomWait::new(limit, Arc::new(|| ()))
    }

    #[test]
    fn f13_what_did_not_fit_is_tried_again_and_told_once() {
        let room = patience(Duration::from_mins(5));
        let mut left = 2;
        let result = room.until_room(
            || false,
            |error| error,
            || {
                if left == 0 {
                    return Ok(7);
                }
                if left == 1 {
                    assert!(room.is_waiting());
                    assert!(matches!(room.take_news(), Some(Some(_))));
                    assert!(room.take_news().is_none());
                }
                left -= 1;
                Err(full())
            },
        );
        assert_eq!(result.unwrap(), 7);
        assert!(matches!(room.take_news(), Some(None)));
        assert!(room.take_news().is_none() && !room.is_waiting());
        // Over before anybody asked.
        let mut is_full = true;
        let once = || {
            if std::mem::take(&mut is_full) {
                Err(full())
            } else {
                Ok(())
            }
        };
        room.until_room(|| false, |error| error, once).unwrap();
        assert!(room.take_news().is_none());
    }

    #[test]
    fn o5_room_is_room_for_what_comes() {
        let room = patience(Duration::from_mins(5));
        let free = std::cell::Cell::new(1);
        let looks = std::cell::Cell::new(0);
        let figures = |_| {
            // Somebody makes a little room, and then enough.
            looks.set(looks.get() + 1);
            if looks.get() == 4 {
                free.set(10);
            }
            let lack = Lack {
                needed: Some(10),
                free: Some(free.get()),
                ..Lack::default()
            };
            StoreError::NoSpace {
                path: PathBuf::from("x"),
                lack,
            }
        };
        let mut tries = 0;
        let attempt = || {
            tries += 1;
            if tries == 1 {
                Err(full())
            } else {
                Ok(free.get())
            }
        };
        let found = room.until_room(|| false, figures, attempt).unwrap();
        assert_eq!((found, tries), (10, 2), "nothing was begun with too little");
    }

    #[test]
    fn o5_who_gives_up_has_found_no_room() {
        let room = patience(Duration::from_millis(1));
        let never = || Err::<(), _>(full());
        let told = std::cell::Cell::new(false);
        let figures = |error| {
            // The wait has been told of when it ends.
            told.set(told.get() || room.take_news().is_some());
            error
        };
        assert!(room.until_room(|| false, figures, never).is_err());
        assert!(room.take_news().is_none_or(|news| news.is_some()));
        assert!(room.take_news().is_none());
    }

    #[test]
    fn f13_a_wait_ends_with_its_limit_with_the_copy_and_with_other_errors() {
        let tried = |room: &RoomWait, is_aborted: bool, error: fn() -> StoreError| {
            let mut tries = 0;
            let result: Result<(), _> = room.until_room(
                || is_aborted,
                |error| error,
                || {
                    tries += 1;
                    Err(error())
                },
            );
            (tries, result.unwrap_err())
        };
        let none = RoomWait::default();
        assert!(matches!(
            tried(&none, false, full),
            (1, StoreError::NoSpace { .. })
        ));
        let short = patience(Duration::from_millis(1));
        assert!(matches!(
            tried(&short, false, full),
            (2, StoreError::NoSpace { .. })
        ));
        let long = patience(Duration::from_hours(1));
        assert!(matches!(tried(&long, true, full), (1, StoreError::Aborted)));
        let other = || StoreError::Aborted;
        assert!(matches!(
            tried(&long, false, other),
            (1, StoreError::Aborted)
        ));
        long.stop();
        assert!(matches!(
            tried(&long, false, full),
            (1, StoreError::Aborted)
        ));
    }
}
