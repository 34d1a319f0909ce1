//! How the allocator keeps what was given back.
//!
//! glibc gives each thread an arena of its own as far as it can, and what was given back to one of them is of no use to a thread with another.
//! So the most that each part of a copy ever held adds up, although they are never at their most together: 3 to 8 MiB of the 48 that are
//! promised. With one arena they use the same memory; what threads wait for each other there is not to be seen in processor time.
#![allow(unsafe_code, reason = "mallopt has no wrapper")]

/// One arena for all threads. Before the first of them starts.
pub(crate) fn share_one() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes two numbers and changes a setting of the allocator, under the allocator's own lock.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}
