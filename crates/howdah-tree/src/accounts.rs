//! Which number a user or a group has here, and what it is called: asked of the system, or of somebody who may still ask it.

use nix::unistd::{Group, User};
use std::sync::OnceLock;

/// Somebody who knows.
pub trait Accounts: Send + Sync {
    /// The number of a user or a group.
    fn id_of(&self, group: bool, name: &str) -> Option<u32>;
    /// What a number is called.
    fn name_of(&self, group: bool, id: u32) -> Option<Vec<u8>>;
}

static ELSEWHERE: OnceLock<Box<dyn Accounts>> = OnceLock::new();

/// From now on that one is asked, and nobody else.
pub fn ask(accounts: Box<dyn Accounts>) {
    let _ = ELSEWHERE.set(accounts);
}

#[cfg(test)]
thread_local! {
    /// How often this thread has asked for a number.
    pub(crate) static ASKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The number of a user or a group.
pub fn id_of(group: bool, name: &str) -> Option<u32> {
    howdah_core::may_wait();
    #[cfg(test)]
    ASKED.set(ASKED.get() + 1);
    match ELSEWHERE.get() {
        Some(elsewhere) => elsewhere.id_of(group, name),
        None => id_by_system(group, name),
    }
}

/// The same, asked of the system by this thread.
pub fn id_by_system(group: bool, name: &str) -> Option<u32> {
    if group {
        let found = Group::from_name(name).ok().flatten();
        found.map(|group| group.gid.as_raw())
    } else {
        let found = User::from_name(name).ok().flatten();
        found.map(|user| user.uid.as_raw())
    }
}

/// What a number is called.
pub fn name_of(group: bool, id: u32) -> Option<Vec<u8>> {
    howdah_core::may_wait();
    match ELSEWHERE.get() {
        Some(elsewhere) => elsewhere.name_of(group, id),
        None => name_by_system(group, id),
    }
}

/// The same, asked of the system by this thread.
pub fn name_by_system(group: bool, id: u32) -> Option<Vec<u8>> {
    let name = if group {
        Group::from_gid(id.into()).ok()??.name
    } else {
        User::from_uid(id.into()).ok()??.name
    };
    Some(name.into_bytes())
}
