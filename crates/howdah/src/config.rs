//! The settings of a copy.

use crate::paths::PathMemory;
use crate::policy::{RatePolicy, Transport};
use crate::{
    ChangeLog, FileLog, FlightRecorder, Identity, KnownHosts, Log, Manifest, SshConfig, Throttle,
    Trust,
};
use howdah_core::Span;
use howdah_proto::Share;

/// Settings of a copy. What [`CopyConfig::new`] chooses fits every path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CopyConfig {
    /// The key that this side shows to the server.
    pub identity: Identity,
    /// The servers' keys that this side knows.
    pub known_hosts: KnownHosts,
    /// What to do with a server that is not among them.
    pub trust: Trust,
    /// How to share the path.
    pub policy: RatePolicy,
    /// With [`RatePolicy::Fair`]: the copy is one of so many, a stripe's, that count as one flow to others.
    pub share: Share,
    /// Loops that move one object (a file, `zero:`, `null:`; not a tree or a pipe), 1 to 8, each with a thread and a connection of its own, as
    /// far as the server has as many and is reached over UDP. Together they count as one flow to others.
    pub loops: u8,
    /// An upper bound to the rate, and a pause, that may change while the copy runs.
    pub throttle: Throttle,
    /// The peer counts as lost after this long without a sign of life.
    pub idle_timeout: Span,
    /// Stop sending and finish after this long (for measurements with `zero:`).
    pub duration_limit: Option<Span>,
    /// Hears what a person should know although the copy goes on: a line for each thing.
    pub warn: Log,
    /// Hears what goes well and is worth a line all the same: a copy is gone on with, a connection is back.
    pub note: Log,
    /// Hears what ssh and the other end of a copy over it say.
    pub heard: Log,
    /// What carries the data.
    pub transport: Transport,
    /// Hears what a dry run would do with each name, and why; not of copies between two other machines.
    pub changes: ChangeLog,
    /// Hears of each file of a tree that is in place; not of copies between two other machines.
    pub files: FileLog,
    /// The list that all files of a tree go into; not of copies between two other machines. Whoever asks for it writes it at the end.
    pub manifest: Option<Manifest>,
    /// The summary of a tree has [one hash](crate::TreeReport::blake3) of all files that were moved; not of copies between two other machines.
    pub sums: bool,
    /// How machines are reached over ssh.
    pub ssh: SshConfig,
    /// Go on with what an interrupted copy has left, if the source is still the same. Otherwise it
    /// is removed.
    pub resume: bool,
    /// When a file is complete, read it back from the device and compare once more.
    pub reread: bool,
    /// Space on a full destination is waited for that long, each time; zero: it is an error at once.
    pub wait_for_space: Span,
    /// A connection that is lost is made again until nothing has come for that long, and the copy goes on where it was; zero: it
    /// is an error at once. Not of pipes and of `zero:` and `null:`.
    pub reconnect: Span,
    /// The source may grow while it is read: what stood there when reading began is copied, and that is said. A tree has
    /// its own [option](howdah_session::TreeOptions::growing).
    pub growing: bool,
    /// What is remembered of paths, so that sending begins where the last transfer was, and where it is kept.
    pub paths: Option<PathMemory>,
    /// The threads that hear the network, and those that read and write files for it, are in a [sandbox](crate::sandbox) with
    /// nothing but the places that are copied from or to. The calling thread is not.
    pub confined: bool,
    /// Keeps what the path does; not of copies between two other machines.
    pub flight: Option<FlightRecorder>,
    /// Called there, by each connection's thread.
    pub ready: fn(),
}

impl CopyConfig {
    /// The defaults: fair sharing, 8 s of patience, and no server that is not known already.
    pub fn new(identity: Identity, known_hosts: KnownHosts) -> Self {
        Self {
            identity,
            known_hosts,
            trust: Trust::Strict,
            policy: RatePolicy::Fair,
            share: Share::WHOLE,
            loops: 1,
            throttle: Throttle::new(),
            idle_timeout: Span::from_secs(8),
            duration_limit: None,
            warn: Log::default(),
            note: Log::default(),
            heard: Log::default(),
            transport: Transport::Auto,
            changes: ChangeLog::default(),
            files: FileLog::default(),
            manifest: None,
            sums: false,
            ssh: SshConfig::default(),
            resume: true,
            reread: false,
            wait_for_space: Span::ZERO,
            reconnect: Span::ZERO,
            growing: false,
            paths: None,
            confined: false,
            flight: None,
            ready: || (),
        }
    }

    /// Says what is there of an interrupted lease.
    pub(crate) fn tell_of_lease(&self, there_bytes: u64) {
        if there_bytes > 0 {
            self.note.line(&format!(
                "going on with a lease that was interrupted: {} MiB are there already",
                there_bytes >> 20
            ));
        }
    }

    /// With one connection only.
    pub(crate) fn once(&self) -> Self {
        Self {
            reconnect: Span::ZERO,
            ..self.clone()
        }
    }
}
