//! Landlock: the directories that are left.

use super::Sandbox;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
    PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope,
};
use std::path::Path;

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

/// Why it is not in force, or not all of it.
pub(super) fn enter(sandbox: &Sandbox) -> Option<String> {
    match restrict(sandbox) {
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

fn restrict(sandbox: &Sandbox) -> Result<RulesetStatus, RulesetError> {
    // Before Linux 5.19 nothing could get another directory or a further name in one: backups and hard links would fail.
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?;
    // No signals and no abstract sockets beyond its own.
    let mut created = ruleset.scope(Scope::from_all(KNOWN))?.create()?;
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let all = AccessFs::from_all(KNOWN) & !(devices | AccessFs::Execute);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let sockets = read | AccessFs::MakeSock | AccessFs::RemoveFile;
    for port in &sandbox.connects {
        created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    let mut rules: Vec<(&Path, BitFlags<AccessFs>)> = Vec::new();
    rules.extend(sandbox.writable.iter().map(|path| (&**path, all)));
    rules.extend(sandbox.sockets.iter().map(|path| (&**path, sockets)));
    let readable = sandbox.readable.iter().map(|path| &**path);
    let always = ALWAYS.iter().map(Path::new);
    rules.extend(readable.chain(always).map(|path| (path, read)));
    let listable = sandbox.listable.iter().map(|path| &**path);
    rules.extend(listable.map(|path| (path, AccessFs::ReadDir.into())));
    for (path, access) in rules {
        // What is not there is not needed, and cannot be reached later.
        if let Ok(opened) = PathFd::new(path) {
            let access = if path.is_dir() {
                access
            } else {
                access & AccessFs::from_file(KNOWN)
            };
            created = created.add_rule(PathBeneath::new(opened, access))?;
        }
    }
    Ok(created.restrict_self()?.ruleset)
}
