//! `--tcp`: the congestion control that programs in an emulated world get without asking.

use crate::ui;
use anyhow::Context as _;
use howdah::{Error, ErrorKind};
use howdah_bpf::{BpfError, Registered};
use howdah_wan::World;
use std::{fs, io};

/// What a network namespace gives to sockets that do not choose.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// A congestion control that is in the kernel while this lives.
pub(super) struct Congestion {
    name: String,
    // Only kept: dropping it takes the algorithm out of the kernel.
    _registered: Option<Registered>,
}

impl Congestion {
    /// Finds `name` among the kernel's own, or registers it if it is one of `bpf/`; under a name of its
    /// own if another run has it.
    pub(super) fn find(name: &str) -> anyhow::Result<Self> {
        if howdah_bpf::list().iter().all(|known| known.name != name) {
            return Ok(Self {
                name: name.to_owned(),
                _registered: None,
            });
        }
        let registered = match Registered::load(name) {
            Err(BpfError::AlreadyRegistered(_)) => Registered::load_private(name),
            result => result,
        };
        let registered = registered.map_err(|error| bpf_error(&error))?;
        let name = registered.congestion_control_name().to_owned();
        ui::say(&format!("the kernel knows '{name}' while this runs"));
        Ok(Self {
            name,
            _registered: Some(registered),
        })
    }

    /// Makes it what both hosts of `world` use.
    pub(super) fn set(&self, world: &World) -> anyhow::Result<()> {
        for host in [world.near(), world.far()] {
            let set = host.run_in(|| {
                fs::write(DEFAULT, &self.name)?;
                fs::read_to_string(DEFAULT)
            });
            let now = set
                .context("cannot enter a namespace")?
                .map_err(|error| self.refused(&error))?;
            // An unset socket may be anything: believe what is read back.
            anyhow::ensure!(
                now.trim_end() == self.name,
                "the congestion control is '{}' and not '{}'",
                now.trim_end(),
                self.name
            );
        }
        Ok(())
    }
}

impl Congestion {
    /// Why a namespace does not take it.
    fn refused(&self, error: &io::Error) -> Error {
        let name = &self.name;
        let why = if error.kind() == io::ErrorKind::PermissionDenied {
            format!(
                "the kernel gives '{name}' to namespaces only if it is in net.ipv4.\
                 tcp_allowed_congestion_control; let the program choose it with TCP_CONGESTION"
            )
        } else {
            let known = howdah_bpf::available().join(", ");
            format!("cannot use the congestion control '{name}' ({error}); the kernel has: {known}")
        };
        Error::new(ErrorKind::Usage, why)
    }
}

/// A refusal, sorted as the exit codes want it.
fn bpf_error(error: &BpfError) -> Error {
    let kind = match error {
        BpfError::NotPermitted => ErrorKind::Refused,
        BpfError::Unknown(_) | BpfError::BuiltWithout => ErrorKind::Usage,
        BpfError::ObjectMissing { .. } => ErrorKind::NotFound,
        _ => ErrorKind::Io,
    };
    Error::new(kind, error.to_string())
}
