//! `howdah daemon`.

mod browser;
mod outside;

use super::job::grammar::CommandLine;
use crate::args::DaemonArgs;
use crate::settings;
use crate::{ui, zone};
use howdah::{Error, ErrorKind};
use howdah_daemon::notices;
use howdah_daemon::queue::Limits;
use howdah_daemon::tls::Tls;
use howdah_daemon::{Config, serve};
use outside::Program;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where it listens for a browser if nothing is said.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8470);

pub(super) fn run(args: &DaemonArgs) -> anyhow::Result<()> {
    if args.notify_test {
        return notify_test(args);
    }
    // Schedules have times of day.
    zone::check().map_err(|why| Error::new(ErrorKind::Usage, why))?;
    let config = Config {
        directory: directory(args.state.as_deref())?,
        program: std::env::current_exe()?,
        limits: Limits {
            running: args.max_running.get(),
            per_host: args.max_per_host.get(),
        },
        listen: args.listen.or_else(|| args.open.then_some(USUAL)),
        tls: tls(args),
        audit: args.audit.open()?,
        notify: args.notify.clone(),
        log: ui::log,
        allow: allowed(&args.allow)?,
        kept: own().collect(),
        home: std::env::home_dir().unwrap_or_else(|| "/".into()),
        limit: args.limit.as_ref().map(ToString::to_string),
        grammar: Arc::new(CommandLine::new()),
        outside: Arc::new(Program {
            paths: howdah::default_path_memory(),
            known_hosts: howdah::keys::default_known_hosts_path(),
        }),
    };
    let (place, open) = (config.directory.clone(), args.open);
    let mut log = None;
    let served = serve(config, |socket, door| {
        if let Some(fingerprint) = door.and_then(|door| door.fingerprint) {
            ui::say(&format!(
                "the SHA-256 fingerprint of the certificate is {fingerprint}"
            ));
        }
        let address = door.map(|door| {
            let scheme = if door.fingerprint.is_some() {
                "https"
            } else {
                "http"
            };
            format!(" and {scheme}://{}", door.address)
        });
        ui::say(&format!(
            "taking jobs on {}{}; 'howdah job submit' gives some",
            socket.display(),
            address.unwrap_or_default()
        ));
        if open {
            // It asks the daemon, which answers from now on.
            std::thread::spawn(move || browser::open(&place).unwrap_or_else(|why| ui::say(&why)));
        }
        // Nobody waits for whoever reads from here on.
        log = Some(ui::log_aside());
    });
    drop(log);
    if let (Err(howdah_daemon::Error::Taken(place)), true) = (&served, args.open) {
        return browser::open(place).map_err(|why| Error::new(ErrorKind::Refused, why).into());
    }
    served.map_err(|error| in_words(&error))
}

fn in_words(error: &howdah_daemon::Error) -> anyhow::Error {
    let kind = match error {
        howdah_daemon::Error::NotLoopback(_) => ErrorKind::Usage,
        howdah_daemon::Error::Directory { .. } | howdah_daemon::Error::Taken(_) => {
            ErrorKind::Refused
        }
        _ => ErrorKind::Io,
    };
    Error::new(kind, error.to_string()).into()
}

fn notify_test(args: &DaemonArgs) -> anyhow::Result<()> {
    let directory = directory(args.state.as_deref())?;
    let told =
        notices::test(&directory, args.notify.as_deref()).map_err(|error| in_words(&error))?;
    let mut missed = 0;
    for (who, arrived) in told {
        match arrived {
            Ok(()) => ui::say(&format!("{who} was told")),
            Err(why) => {
                missed += 1;
                ui::say(&format!("{who} was not told: {why}"));
            }
        }
    }
    if missed > 0 {
        let text = format!("{missed} of those in the file could not be told");
        return Err(Error::new(ErrorKind::Network, text).into());
    }
    Ok(())
}

fn tls(args: &DaemonArgs) -> Option<Tls> {
    match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::Files {
            certificate: certificate.clone(),
            key: key.clone(),
        }),
        _ => args.tls.then_some(Tls::Own),
    }
}

/// What jobs do not touch: keys, and the configuration, wherever that is.
fn own() -> impl Iterator<Item = PathBuf> {
    let config = settings::path(|name| std::env::var_os(name));
    howdah::keys::config_dir().into_iter().chain(config)
}

/// Directories that are there. What bounds jobs to them has to be there, too.
fn allowed(given: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    if !given.is_empty() && !howdah::sandbox::Bounds::are_known() {
        let text = "--allow takes Landlock (Linux 5.19 or later, with 'landlock' in /sys/kernel/security/lsm), and this kernel has none: links \
             could lead jobs out of these directories; leave --allow out, and give tokens of 'submit' only to whom you would give this user's shell";
        return Err(Error::new(ErrorKind::Refused, text).into());
    }
    let each = given.iter().map(|dir| {
        let found = std::fs::canonicalize(dir).ok().filter(|dir| dir.is_dir());
        found.ok_or_else(|| {
            let text = format!("--allow {}: there is no such directory", dir.display());
            Error::new(ErrorKind::Usage, text).into()
        })
    });
    each.collect()
}

/// Where the daemon that is meant has its things.
pub(super) fn directory(state: Option<&Path>) -> anyhow::Result<PathBuf> {
    let found = match state {
        Some(dir) => std::path::absolute(dir)?,
        None => howdah::default_path_memory()
            .map(|memory| memory.dir().with_file_name("daemon"))
            .ok_or_else(|| {
                let text = "there is no place for a daemon: none of HOWDAH_CONFIG_DIR, XDG_STATE_HOME and HOME is set; name one with --state";
                Error::new(ErrorKind::Usage, text)
            })?,
    };
    Ok(found)
}
