//! How a command reaches the other side: keys, known hosts, ssh, and what names with wildcards mean there.

use super::key_file;
use super::serve::is_sandbox_off;
use crate::args::ConnectArgs;
use crate::ui::{self, Signals};
use howdah::keys::{self, Identity, KnownHosts, Trust};
use howdah::{CopyConfig, Error, ErrorKind, Location};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, IsTerminal as _};
use std::sync::Arc;

/// With fewer each side of a copy waits for descriptors that nobody gives back, and no sandbox can be made for it.
const DESCRIPTORS: u64 = 32;

/// Sees to it that this process may open as many files as a copy takes at least.
fn let_open_enough() -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    let too_few = |limit: Option<u64>| limit.is_some_and(|most| most < DESCRIPTORS);
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
        "this process may have {} files open at a time, and a copy takes {DESCRIPTORS} at least: 'ulimit -n' says how many",
        limit.maximum.or(limit.current).unwrap_or_default()
    );
    Err(Error::new(ErrorKind::Usage, text))
}

/// What a command does with these places, as the flags of its connections say.
pub(super) fn config<'a>(
    args: &ConnectArgs,
    mut locations: impl Iterator<Item = &'a Location>,
) -> anyhow::Result<CopyConfig> {
    let_open_enough()?;
    let mut config = if locations.any(|location| matches!(location, Location::Remote { .. })) {
        CopyConfig::new(own_key(args)?, known_hosts(args)?)
    } else {
        // Over ssh both ends make keys for the one session.
        CopyConfig::new(Identity::generate()?, KnownHosts::default())
    };
    config.ssh = args.ssh.config()?;
    if !args.no_memory {
        config.paths = howdah::default_path_memory();
    }
    config.transport = args.ssh.transport.into();
    config.trust = if args.keys.accept_new {
        Trust::AcceptNew
    } else if io::stderr().is_terminal() {
        Trust::Ask(Arc::new(|new| ui::with_a_question(|| ui::ask_about(new))))
    } else {
        Trust::Strict
    };
    config.policy = args.pace.policy()?;
    config.share = args.pace.share.unwrap_or_default();
    config.idle_timeout = args.idle_timeout;
    config.confined = !is_sandbox_off();
    config.ready = super::far_end::ready;
    Ok(config)
}

/// The key of this machine, which must be there.
pub(super) fn own_key(args: &ConnectArgs) -> anyhow::Result<Identity> {
    let path = key_file(args.keys.identity.as_ref(), keys::default_identity_path())?;
    let identity = Identity::load(&path).map_err(|error| {
        if error.is_not_found() {
            let path = path.display();
            Error::new(
                ErrorKind::Auth,
                format!(
                    "this machine has no key in {path}; make one with 'howdah key new' and have \
                     the server list the line that it prints"
                ),
            )
        } else {
            error.into()
        }
    })?;
    Ok(identity)
}

fn known_hosts(args: &ConnectArgs) -> anyhow::Result<KnownHosts> {
    let path = key_file(
        args.keys.known_hosts.as_ref(),
        keys::default_known_hosts_path(),
    )?;
    let known = KnownHosts::load(&path)?;
    for error in known.passed_over() {
        ui::say_marked("warning:", &format!("{error}; the line is passed over"));
    }
    Ok(known)
}

/// The sources, with what is there for each name with wildcards.
pub(super) fn expanded(
    sources: &[Location],
    config: &mut CopyConfig,
    signals: &Signals,
) -> Result<Vec<Location>, Error> {
    let found = howdah::expand(sources, config, signals.cancel(), &mut |_| ())?;
    Ok(found.into_iter().map(|place| place.location).collect())
}

/// The one place that a name with wildcards means, where only one will do.
pub(super) fn expanded_one(
    place: &Location,
    config: &mut CopyConfig,
    signals: &Signals,
) -> Result<Location, Error> {
    let mut found = expanded(std::slice::from_ref(place), config, signals)?;
    if found.len() > 1 {
        let text = format!(
            "{place} matches {} names there, and only one can be meant: the first two are {} and {}",
            found.len(),
            found[0],
            found[1]
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(found.pop().unwrap_or_else(|| place.clone()))
}
