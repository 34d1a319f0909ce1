//! Why a congestion control could not be registered.

use std::io;
use std::path::PathBuf;

/// Why there is no such congestion control now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The crate was built without its feature `bpf`.
    #[error(
        "this program was built without BPF; build it with --features bpf (`make bpf` installs \
         what that needs)"
    )]
    BuiltWithout,
    /// Not one of [`list`](crate::list).
    #[error("there is no congestion control '{0}' here; there are: {names}", names = crate::names())]
    Unknown(String),
    /// The process may not load BPF programs.
    #[error(
        "loading a congestion control into the kernel needs root (or CAP_BPF and CAP_NET_ADMIN in \
         the first user namespace); try again with sudo"
    )]
    NotPermitted,
    /// The kernel does not describe its types.
    #[error(
        "the running kernel has no BTF ({path} is missing), which BPF congestion controls need: \
         use a kernel with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf {
        /// Where it would be.
        path: &'static str,
    },
    /// The kernel cannot tie a registration to a process.
    #[error(
        "the running kernel is {release}; congestion controls that go with the process that registered \
         them need Linux 6.4 or later"
    )]
    KernelTooOld {
        /// What it says it is.
        release: String,
    },
    /// The compiled algorithm was not found.
    #[error("{} is missing: run `make bpf`, or say where the objects are with {variable}",
        path.display(), variable = crate::DIRECTORY_VARIABLE)]
    ObjectMissing {
        /// Where it was looked for in the end.
        path: PathBuf,
    },
    /// Somebody has registered that name.
    #[error(
        "the kernel already has a congestion control named '{0}': another run registered it, and it \
         goes when that run ends; take a private name to run beside it"
    )]
    AlreadyRegistered(String),
    /// The kernel refused it.
    #[error("cannot {what} '{name}': {source}{}{log}", if log.is_empty() { "" } else { "\n" })]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// With which congestion control.
        name: String,
        /// Why it failed.
        source: io::Error,
        /// What libbpf and the kernel's verifier said about it.
        log: String,
    },
}
