//! The attempt of a job keeps to what the daemon lets jobs touch: docs/daemon.md, "What a job may touch".
//!
//! Before it does anything with the names in its command line it keeps out of what is the daemon's own, and, with `--allow`,
//! enters Landlock with the directories that are allowed, and with what the program itself needs. That is more than what is
//! allowed, so the threads that read and write what is copied are kept from it again (`howdah::sandbox`).

use crate::args::{Command, ConnectArgs, LabCommand};
use crate::control;
use howdah::keys;
use howdah::sandbox;
use howdah::{Error, ErrorKind, Location};
use howdah_daemon::bounds::{Bounds, VARIABLE};
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// What programs are made of, and what they need to know the machine and to find others by their names.
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];
const READ: [&str; 40] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/gnutls",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/machine-id",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/tls",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssh/ssh_config",
    "/etc/ssh/ssh_config.d",
    "/etc/ssh/ssh_known_hosts",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/net",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/run/nscd",
    "/run/resolvconf",
    "/run/systemd/resolve",
    "/sys",
    "/var/lib/sss",
    "/var/run/nscd",
];
const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// Keeps this process, the attempt that has that directory, to what the daemon has told it.
pub(crate) fn enter(attempt: &Path, command: &Command) -> Result<(), Error> {
    let refused = |why: String| {
        let text = format!("this job cannot be kept to what it may touch: {why}");
        Error::new(ErrorKind::Refused, text)
    };
    let Some(told) = std::env::var_os(VARIABLE) else {
        return Ok(());
    };
    let told = told.into_encoded_bytes();
    let told: Bounds =
        serde_json::from_slice(&told).map_err(|error| refused(format!("{VARIABLE}: {error}")))?;
    if !told.allow.is_empty() {
        bounds(attempt, command, &told).enter().map_err(|why| {
            refused(format!(
                "Landlock is not in force ({why}); it takes Linux 5.19 or later, and a daemon without --allow does without"
            ))
        })?;
    }
    howdah::keep_out_of(told.kept);
    Ok(())
}

fn bounds(attempt: &Path, command: &Command, told: &Bounds) -> sandbox::Bounds {
    let all = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let mut bounds = sandbox::Bounds {
        within: told.allow.clone(),
        own: vec![attempt.to_owned()],
        readable: [all(&READ), vec![told.lists.clone()]].concat(),
        runnable: all(&SYSTEM),
        devices: all(&DEVICES),
        ..sandbox::Bounds::default()
    };
    // Names of users are asked of another process of this program.
    bounds.runnable.extend(std::env::current_exe().ok());
    let control = control::directory();
    if control::prepare(&control).is_ok() {
        bounds.own.push(control);
    }
    bounds
        .readable
        .extend(crate::settings::path(|name| std::env::var_os(name)));
    match command {
        Command::Cp(args) => connections(&mut bounds, &args.connect, &args.paths),
        Command::Sync(args) => {
            let places = [&args.source, &args.destination].map(Clone::clone);
            connections(&mut bounds, &args.connect, &places);
        }
        Command::Verify(args) => {
            let places = [&args.a, &args.b].into_iter().flatten();
            let places: Vec<_> = places.cloned().collect();
            connections(&mut bounds, &args.connect, &places);
        }
        _ => debug_assert!(matches!(command, Command::Lab(LabCommand::Run(_)))),
    }
    bounds
}

/// What it takes to speak to other machines.
fn connections(bounds: &mut sandbox::Bounds, args: &ConnectArgs, places: &[Location]) {
    // What a job names itself was held against what is allowed; the configuration may name others.
    let identity = args.keys.identity.clone();
    bounds
        .readable
        .extend(identity.or_else(keys::default_identity_path));
    let known = args.keys.known_hosts.clone();
    if let Some(known) = known.or_else(keys::default_known_hosts_path) {
        if args.keys.accept_new {
            // It cannot be made later.
            let mut options = fs::OpenOptions::new();
            let _ = options.create(true).append(true).mode(0o600).open(&known);
        }
        // What is added is made durable, name and all.
        bounds.listable.extend(known.parent().map(Path::to_owned));
        bounds.own.push(known);
    }
    let memory = howdah::default_path_memory().filter(|_| !args.no_memory);
    let memory = memory.map(|memory| memory.dir().to_owned());
    let recordings = howdah::default_recordings().map(|kept| kept.dir().to_owned());
    for dir in memory.into_iter().chain(recordings) {
        // Without it nothing is remembered, and that is no fault of a copy.
        let mut made = fs::DirBuilder::new();
        let _ = made.recursive(true).mode(0o700).create(&dir);
        bounds.own.push(dir);
    }
    if places.iter().any(|place| matches!(place, Location::Ssh(_))) {
        ssh(bounds, args);
    }
}

/// What ssh needs where its user has not arranged it in an unusual way.
fn ssh(bounds: &mut sandbox::Bounds, args: &ConnectArgs) {
    // ssh asks who its user is, and not the environment.
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid());
    let home = user.ok().flatten().map(|user| user.dir);
    if let Some(home) = home.or_else(std::env::home_dir) {
        bounds.readable.push(home.join(".ssh"));
        bounds.own.push(home.join(".ssh/known_hosts"));
    }
    let program = args.ssh.config().ok();
    let program = program.and_then(|config| config.program().first().map(PathBuf::from));
    bounds
        .runnable
        .extend(program.filter(|program| program.is_absolute()));
}
