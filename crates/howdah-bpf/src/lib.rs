//! The papers' TCPs in the running kernel.
//!
//! `bpf/` at the repository's root holds congestion controls that no current kernel has as the
//! papers ran them, written as BPF programs (`make bpf` compiles them to `target/bpf`). A
//! [`Registered`] puts one of them into the unmodified kernel for as long as the value lives; while
//! it does, any program can choose it by name with the socket option `TCP_CONGESTION`, in every
//! network namespace. It is not pinned: when the value is dropped, or the process ends in whatever
//! way, the name is gone. (Connections that use it then keep it until they close.)
//!
//! ```no_run
//! use howdah_bpf::Registered;
//!
//! let hstcp = Registered::load("bpf_hstcp")?;
//! let status = std::process::Command::new("iperf3")
//!     .args(["-c", "10.88.0.2", "-C", hstcp.congestion_control_name()])
//!     .status();
//! # Ok::<(), howdah_bpf::BpfError>(())
//! ```
//!
//! Loading is behind the feature `bpf`. Without it everything builds and [`Registered::load`] says
//! [`BpfError::BuiltWithout`].

mod algorithms;
mod error;
#[cfg(all(target_os = "linux", feature = "bpf"))]
mod load;
#[cfg(not(all(target_os = "linux", feature = "bpf")))]
#[path = "load_nothing.rs"]
mod load;
mod name;
mod objects;

pub(crate) use algorithms::names;
pub use algorithms::{Algorithm, list};
pub use error::BpfError;
pub use objects::DIRECTORY_VARIABLE;
use std::path::Path;

/// Where the kernel describes its types.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Which kernel this is.
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// How often a private name is tried before another run's is reported.
const PRIVATE_NAMES_TRIED: u32 = 64;

/// Names of the congestion controls that the kernel has now, registered ones and its own. Empty
/// where that cannot be read.
pub fn available() -> Vec<String> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let line = std::fs::read_to_string(path).unwrap_or_default();
    line.split_whitespace().map(str::to_owned).collect()
}

/// Whether a kernel of that release lacks links to `struct_ops` maps (Linux 6.4). What cannot be read is
/// left to the kernel to refuse.
fn is_too_old(release: &str) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    match (next(), next()) {
        (Some(major), Some(minor)) => (major, minor) < (6, 4),
        _ => false,
    }
}

/// A congestion control in the kernel. Dropping it takes it out; so does the end of the process.
#[derive(Debug)]
pub struct Registered {
    name: String,
    algorithm: &'static Algorithm,
    _in_kernel: load::InKernel,
}

impl Registered {
    /// Registers the congestion control `name` of [`list`] under that name.
    ///
    /// # Errors
    /// [`BpfError::Unknown`] if it is not in the list, [`BpfError::BuiltWithout`] without the feature
    /// `bpf`, [`BpfError::NoBtf`], [`BpfError::KernelTooOld`], [`BpfError::ObjectMissing`], [`BpfError::NotPermitted`] and
    /// [`BpfError::AlreadyRegistered`] as their texts say; [`BpfError::Kernel`] for whatever else the
    /// kernel or libbpf refuses, with their words.
    pub fn load(name: &str) -> Result<Self, BpfError> {
        let algorithm = algorithms::find(name).ok_or_else(|| BpfError::Unknown(name.to_owned()))?;
        Self::load_as(algorithm, name.to_owned())
    }

    /// Registers `name` under a name of its own: three more characters, made from the process id, so
    /// that runs do not collide. Ask [`congestion_control_name`](Self::congestion_control_name).
    ///
    /// # Errors
    /// As [`load`](Self::load); [`BpfError::AlreadyRegistered`] only after many names.
    pub fn load_private(name: &str) -> Result<Self, BpfError> {
        let algorithm = algorithms::find(name).ok_or_else(|| BpfError::Unknown(name.to_owned()))?;
        let mut attempt = 0;
        loop {
            let number = std::process::id().wrapping_add(attempt);
            match Self::load_as(algorithm, name::private(name, number)) {
                Err(BpfError::AlreadyRegistered(_)) if attempt < PRIVATE_NAMES_TRIED => {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    fn load_as(algorithm: &'static Algorithm, name: String) -> Result<Self, BpfError> {
        if !load::BUILT_IN {
            return Err(BpfError::BuiltWithout);
        }
        if !Path::new(BTF).exists() {
            return Err(BpfError::NoBtf { path: BTF });
        }
        let release = std::fs::read_to_string(RELEASE).unwrap_or_default();
        if is_too_old(&release) {
            return Err(BpfError::KernelTooOld {
                release: release.trim_end().to_owned(),
            });
        }
        if available().contains(&name) {
            return Err(BpfError::AlreadyRegistered(name));
        }
        let object =
            objects::find(algorithm.object).map_err(|path| BpfError::ObjectMissing { path })?;
        let in_kernel = load::InKernel::register(
            &object,
            &name::field(algorithm.name),
            &name::field(&name),
            &name,
        )?;
        Ok(Self {
            name,
            algorithm,
            _in_kernel: in_kernel,
        })
    }

    /// The name to choose it by: what `TCP_CONGESTION` takes and gives back.
    pub fn congestion_control_name(&self) -> &str {
        &self.name
    }

    /// Which algorithm it is.
    pub fn algorithm(&self) -> &'static Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = Registered::load("bpf_nonesuch").unwrap_err().to_string();
        assert!(error.contains("bpf_nonesuch"), "{error}");
        for algorithm in list() {
            assert!(error.contains(algorithm.name), "{error}");
        }
    }

    #[test]
    fn kernels_before_6_4_are_too_old() {
        for release in ["6.1.0-18-amd64\n", "5.15.0", "6.3.13"] {
            assert!(is_too_old(release), "{release}");
        }
        for release in ["6.4.0", "6.18.44-fc-v669\n", "7.0-rc1", "", "unknown"] {
            assert!(!is_too_old(release), "{release}");
        }
    }

    #[test]
    fn the_words_about_a_missing_object_say_what_to_do() {
        let error = BpfError::ObjectMissing {
            path: "target/bpf/hstcp.o".into(),
        };
        let words = error.to_string();
        assert!(
            words.contains("make bpf") && words.contains("HOWDAH_BPF_DIR"),
            "{words}"
        );
    }
}
