//! How a command reaches the other side: keys, known hosts, ssh, and what names with wildcards mean there.

use super::key_file;
use super::serve::is_sandbox_off;
use crate::args::ConnectArgs;
use crate::ui::{self, Signals};
use howdah::keys::{self, Identity, KnownHosts, Trust};
use howdah::{CopyConfig, Error, ErrorKind, Location};
use std::io::{self, IsTerminal as _};
use std::sync::Arc;

/// What a command does with these places, as the flags of its connections say.
pub(super) fn config<'a>(
    args: &ConnectArgs,
    mut locations: impl Iterator<Item = &'a Location>,
) -> anyhow::Result<CopyConfig> {
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
