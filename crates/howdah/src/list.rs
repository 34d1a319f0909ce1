//! Tells what is at a place.

use crate::error::from_store;
use crate::inside::with_threads_in;
use crate::sandbox::Sandbox;
use crate::verify::{Plan, TICK, begin};
use crate::{Cancel, CopyConfig, Error, ErrorKind, Location, Progress};
use howdah_session::{TreeOptions, TreeReport};
use howdah_store::StoreError;
use howdah_tree::{Listing, TreeListing};
use std::time::{Duration, Instant};

/// How long the session that a failure came from may take to say why.
const EXPLAINS_WITHIN: Duration = Duration::from_secs(15);

/// Tells what is at a place, here or on another machine, in an order that depends on the names only. The place must be a file or a
/// directory; links in it are told and not followed.
///
/// With [`TreeOptions::archive`] owners are told, with [`TreeOptions::levels`] not all of it. The report says what could
/// not be read. `on_name` is called on the calling thread.
pub fn list(
    place: &Location,
    options: &TreeOptions,
    config: &CopyConfig,
    cancel: &Cancel,
    on_name: &mut dyn FnMut(&Listing),
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<TreeReport, Error> {
    let (plan, ends) = Plan::new(place, options, false)?;
    // It hears the other machine.
    let nothing = (config.confined && place.is_remote()).then(Sandbox::default);
    let start = || TreeListing::start(ends);
    let listing = with_threads_in(nothing.as_ref(), start)?.map_err(|e| from_store(&e))?;
    let (state, stop) = (listing.state(), Cancel::new());
    let mut side = begin(plan, &state, config, &stop)?;
    let mut over = None;
    let mut attend = || -> Result<(), Error> {
        loop {
            if over.is_none() {
                match listing.next(TICK) {
                    Listing::End => over = Some(Instant::now()),
                    Listing::Nothing => {}
                    next => on_name(&next),
                }
            }
            if cancel.is_cancelled() {
                return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
            }
            on_progress(&Progress::default());
            let wait = if over.is_some() { TICK } else { Duration::ZERO };
            let failure = side.failure(wait);
            if state.is_done() {
                if over.is_some() && side.is_reported() {
                    return Ok(());
                }
                continue;
            }
            let Some(since) = over else {
                // One that cannot go on because nobody reads what it brings is not to blame.
                match failure {
                    Some(error) if error.kind() != ErrorKind::Io => return Err(error),
                    _ => continue,
                }
            };
            let known = listing.error();
            if let Some(error) = known.filter(|e| !matches!(e, StoreError::Aborted)) {
                return Err(from_store(&error));
            }
            if let Some(error) = failure {
                return Err(error);
            }
            if side.is_reported() || since.elapsed() >= EXPLAINS_WITHIN {
                return Err(from_store(&StoreError::Aborted));
            }
        }
    };
    let result = attend();
    // A session that still runs has nobody to talk to any more.
    stop.cancel();
    drop(listing);
    let told = side.end();
    result?;
    Ok(told.report)
}
