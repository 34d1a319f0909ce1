//! Which keys of a flow mean something to which protocol.

use super::{Core, Manner, Protocol, find, names};

/// Keys of TCP, and of what is modelled on its engine.
const TCP: &[&str] = &[
    "mss",
    "socket_buffer",
    "send_buffer",
    "receive_buffer",
    "receiver",
    "era",
    "pacing",
    "burst_segments",
    "initial_window",
    "max_ssthresh",
    "ssthresh",
    "metrics_cache",
    "sack_walk",
    "ack_every",
    "sack",
    "timestamps",
    "streams",
    "read",
    "write",
];
const UDT: &[&str] = &[
    "mss",
    "socket_buffer",
    "send_buffer",
    "receive_buffer",
    "packet",
    "flight",
    "app_write",
];
const SABUL: &[&str] = &["mss", "packet", "flight", "rate"];
const MODEL: &[&str] = &[
    "mss",
    "socket_buffer",
    "send_buffer",
    "receive_buffer",
    "rate",
    "read",
    "write",
    "expect_loss",
];
const BLAST: &[&str] = &[
    "mss",
    "socket_buffer",
    "send_buffer",
    "rate",
    "write",
    "block",
    "chunk",
    "memory",
    "budget",
    "held",
];

/// Whether the protocol of that name makes anything of a key. What real programs take depends on the program: nothing is said against it.
pub(crate) fn takes(name: &str, key: &str) -> bool {
    let keys = match find(name) {
        Some(Protocol::Howdah(manner)) => {
            return ["mss", "share"].contains(&key) || (key == "rate" && manner == Manner::Fixed);
        }
        Some(Protocol::Tcp(_) | Protocol::Quic) => TCP,
        Some(Protocol::Udt(_)) => UDT,
        Some(Protocol::Sabul) => SABUL,
        Some(Protocol::Model(_)) => MODEL,
        Some(Protocol::Blast(_)) => BLAST,
        Some(Protocol::Mover(mover)) => match mover.core {
            Core::Tcp { .. } => TCP,
            Core::Model(_) => MODEL,
        },
        Some(Protocol::Foreign(_)) | None => return true,
    };
    keys.contains(&key)
}

/// Some of those that take it, for people.
pub(crate) fn takers(key: &str) -> String {
    const MOST: usize = 6;
    let known = |name: &&str| !matches!(find(name), Some(Protocol::Foreign(_)) | None);
    let all = names().into_iter().filter(known);
    let mut takers: Vec<&str> = all.filter(|name| takes(name, key)).collect();
    if takers.len() > MOST {
        takers.truncate(MOST);
        takers.push("...");
    }
    takers.join(", ")
}
