//! What this user's transfers remember of paths.

use super::Finding;
use howdah::{PathMemory, default_path_memory};

const HOUR: u64 = 3_600;

pub(super) fn check() -> Option<Finding> {
    default_path_memory().map(|memory| tell(&memory))
}

fn tell(memory: &PathMemory) -> Finding {
    let all = memory.all();
    let dir = memory.dir().display();
    let Some(newest) = all.first() else {
        return Finding::ok("paths", format!("no path is remembered in {dir}"));
    };
    let known = &newest.knowledge;
    Finding::ok(
        "paths",
        format!(
            "{} remembered in {dir}, the newest {} h ago: {} from {}, {} at {}; --no-memory does without",
            match all.len() {
                1 => "1 path is".to_owned(),
                n => format!("{n} paths are"),
            },
            newest.age.as_secs() / HOUR,
            newest.peer,
            newest.from,
            known.capacity,
            known.rtt,
        ),
    )
}
