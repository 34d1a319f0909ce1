//! How many files this process may have open.

use howdah::{Error, ErrorKind};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// With fewer whatever moves files waits for descriptors that nobody gives back, and no sandbox can be made for it.
const LEAST: u64 = 32;

/// Sees to it that this process may open as many files as a copy takes at least.
pub(crate) fn let_open_enough() -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    let too_few = |limit: Option<u64>| limit.is_some_and(|most| most < LEAST);
    if !too_few(limit.current) {
        return Ok(());
    }
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if !too_few(limit.maximum) && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    let text = format!(
        "this process may have {} files open at a time, and a copy takes {LEAST} at least: let it have more ('ulimit -n 1024', or \
         LimitNOFILE= of a unit)",
        limit.maximum.or(limit.current).unwrap_or_default()
    );
    Err(Error::new(ErrorKind::Usage, text))
}
