//! The transports that a scenario can name.

use crate::scenario::Options;
use howdah_rivals::tcp::cc;

/// Our protocol, sharing fairly: the default.
pub const HOWDAH: &str = "howdah";
/// Our protocol at a fixed rate, for a dedicated circuit.
pub const HOWDAH_FIXED: &str = "howdah-fixed";

/// What stands behind a name.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    /// Our protocol, exactly as it ships.
    Howdah {
        /// At the flow's `rate`.
        fixed: bool,
    },
    /// TCP with that congestion control.
    Tcp(&'static cc::Entry),
}

/// The protocol of that name.
pub fn find(name: &str) -> Option<Protocol> {
    match name {
        HOWDAH => Some(Protocol::Howdah { fixed: false }),
        HOWDAH_FIXED => Some(Protocol::Howdah { fixed: true }),
        _ => cc::find(name).map(Protocol::Tcp),
    }
}

/// All names, and "none", which leaves a flow out.
pub fn names() -> Vec<&'static str> {
    let ours = [HOWDAH, HOWDAH_FIXED];
    let tcp = cc::ALL.iter().map(|entry| entry.name);
    ours.into_iter().chain(tcp).chain(["none"]).collect()
}

/// Name and one line about each protocol.
pub fn describe() -> Vec<(&'static str, &'static str)> {
    let mut all = vec![
        (HOWDAH, "our protocol, sharing fairly"),
        (HOWDAH_FIXED, "our protocol at a fixed rate (option 'rate')"),
    ];
    all.extend(cc::ALL.iter().map(|entry| (entry.name, entry.about)));
    all
}

/// Checks the options of a flow of that protocol; the error names the key. Options of TCP are
/// allowed for our protocol too, which has no use for them: a list of protocols shares them.
pub(crate) fn check(name: &str, options: &Options) -> Result<(), (&'static str, String)> {
    match find(name) {
        Some(Protocol::Howdah { fixed: true }) if options.rate_bps.is_none() => {
            Err(("rate", format!("'{name}' must be told its rate")))
        }
        _ => Ok(()),
    }
}
