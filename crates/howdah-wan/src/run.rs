//! Running one program on an emulated WAN, or holding the WAN open for others.

use crate::{Certificate, WanConfig, WanError, World, sys};
use std::ffi::OsString;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What came of [`exec`].
#[derive(Debug)]
pub struct Outcome {
    /// The program's own exit status.
    pub status: ExitStatus,
    /// How good the emulation was.
    pub certificate: Certificate,
}

/// Makes a world, runs `argv` in its near namespace with this process's standard input, output
/// and error, waits for it, and removes the world.
///
/// The program gets the terminal's interrupts; this process ignores them meanwhile. If this
/// process is killed, the program and the world go with it.
///
/// # Errors
///
/// As [`World::create`]; [`WanError::Run`] if the program cannot be started;
/// [`WanError::BadConfig`] if `argv` is empty.
pub fn exec(config: &WanConfig, argv: &[OsString]) -> Result<Outcome, WanError> {
    let world = World::create(config)?;
    exec_in(&world, argv)
}

/// As [`exec`], in a world that exists already. `HOWDAH_WAN_NEAR` and `HOWDAH_WAN_FAR` name the
/// namespaces to the program, so that it can start its other half with `ip netns exec`.
pub fn exec_in(world: &World, argv: &[OsString]) -> Result<Outcome, WanError> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(WanError::BadConfig("no program to run".to_owned()));
    };
    let failed = |source| WanError::Run {
        program: program.to_string_lossy().into_owned(),
        source,
    };
    let ignore = sys::IgnoreTerminalSignals::new();
    let mut command = world.near().command(program);
    command
        .args(arguments)
        .env("HOWDAH_WAN_NEAR", world.near().name())
        .env("HOWDAH_WAN_FAR", world.far().name());
    sys::tie_before_exec(&mut command);
    let status = command.spawn().map_err(failed)?.wait().map_err(failed)?;
    drop(ignore);
    Ok(Outcome {
        status,
        certificate: world.certificate(),
    })
}

/// Makes a world, calls `ready` with it (to print the names of its namespaces, for example), and
/// keeps it until `stop` is set.
///
/// `stop` is looked at ten times a second, so a signal handler may set it.
///
/// # Errors
///
/// As [`World::create`].
pub fn hold(
    config: &WanConfig,
    stop: &AtomicBool,
    ready: impl FnOnce(&World),
) -> Result<Certificate, WanError> {
    let world = World::create(config)?;
    ready(&world);
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(world.certificate())
}
