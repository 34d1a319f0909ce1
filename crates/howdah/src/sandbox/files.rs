//! Landlock: the directories that are left.

use super::{Bounds, Sandbox};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
    PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope,
};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What this was written for; an older kernel gives what it has, a newer one no more than that.
const KNOWN: ABI = ABI::V6;

/// What a process of ours reads of itself and the machine.
const ALWAYS: [&str; 5] = [
    "/proc/self",
    "/proc/stat",
    "/proc/meminfo",
    "/proc/sys/kernel/random/boot_id",
    "/sys/fs/cgroup",
];

/// Where the threads of this process stay that are in a [`Sandbox`], whatever that says.
static OF_THREADS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Why it is not in force, or not all of it.
pub(super) fn enter(sandbox: &Sandbox) -> Option<String> {
    let bounded = OF_THREADS.get().map_or(Ok(()), |within| {
        restrict(&[rules(within, all()), always()].concat(), None).map(|_| ())
    });
    let entered = bounded.and_then(|()| {
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let sockets = read | AccessFs::MakeSock | AccessFs::RemoveFile;
        let rules = [
            rules(&sandbox.writable, all()),
            rules(&sandbox.sockets, sockets),
            rules(&sandbox.readable, read),
            always(),
            rules(&sandbox.listable, AccessFs::ReadDir.into()),
        ];
        restrict(&rules.concat(), Some(&sandbox.connects))
    });
    match entered {
        Ok(RulesetStatus::FullyEnforced) => None,
        Ok(RulesetStatus::PartiallyEnforced) => Some(
            "this kernel's Landlock is an old one: some kinds of access are kept from this process, others are not".to_owned(),
        ),
        Ok(RulesetStatus::NotEnforced) => Some(
            "this kernel has no Landlock: the rest of the file system is not kept from this process".to_owned(),
        ),
        Err(error) => Some(format!(
            "Landlock is not in force: the rest of the file system is not kept from this process ({error})"
        )),
    }
}

/// See [`Bounds::enter`].
pub(super) fn bound(bounds: &Bounds) -> Result<(), String> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let devices = read | AccessFs::WriteFile | AccessFs::IoctlDev;
    let rules = [
        rules(&bounds.within, all()),
        rules(&bounds.own, all()),
        rules(&bounds.readable, read),
        rules(&bounds.listable, AccessFs::ReadDir.into()),
        rules(&bounds.runnable, read | AccessFs::Execute),
        rules(&bounds.devices, devices),
        always(),
    ];
    match restrict(&rules.concat(), None) {
        Ok(RulesetStatus::NotEnforced) => Err("this kernel has none".to_owned()),
        Ok(_) => {
            let _ = OF_THREADS.set(bounds.within.clone());
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// See [`Bounds::are_known`].
pub(super) fn are_bounds_known() -> bool {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)
        .and_then(Ruleset::create)
        .is_ok()
}

/// Everything but to make devices and to run programs.
fn all() -> BitFlags<AccessFs> {
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    AccessFs::from_all(KNOWN) & !(devices | AccessFs::Execute)
}

type Rule<'a> = (&'a Path, BitFlags<AccessFs>);

fn rules(paths: &[PathBuf], access: BitFlags<AccessFs>) -> Vec<Rule<'_>> {
    let each = paths.iter().map(|path| (path.as_path(), access));
    each.collect()
}

fn always() -> Vec<Rule<'static>> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    ALWAYS.map(|path| (Path::new(path), read)).to_vec()
}

/// Leaves the calling thread these files; with `connects` also these ports of TCP alone, no signals and no abstract sockets
/// beyond its own.
fn restrict(rules: &[Rule<'_>], connects: Option<&[u16]>) -> Result<RulesetStatus, RulesetError> {
    // Before Linux 5.19 nothing could get another directory or a further name in one: backups and hard links would fail.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?;
    if connects.is_some() {
        ruleset = ruleset
            .handle_access(AccessNet::from_all(KNOWN))?
            .scope(Scope::from_all(KNOWN))?;
    }
    let mut created = ruleset.create()?;
    for port in connects.unwrap_or_default() {
        created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    for (path, access) in rules {
        // What is not there is not needed, and cannot be reached later.
        if let Ok(opened) = PathFd::new(path) {
            let access = if path.is_dir() {
                *access
            } else {
                *access & AccessFs::from_file(KNOWN)
            };
            created = created.add_rule(PathBeneath::new(opened, access))?;
        }
    }
    Ok(created.restrict_self()?.ruleset)
}
