//! `howdah internal far-end`: the other end of a copy, started by ssh.

use super::serve::is_sandbox_off;
use crate::ui::{self, Signals};
use howdah::{FarEndHost, Log};
use std::net::IpAddr;
use std::path::PathBuf;

pub(super) fn run(signals: &Signals) -> anyhow::Result<()> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.map_or_else(std::env::current_dir, |home| Ok(PathBuf::from(home)))?;
    let reached = std::env::var("SSH_CONNECTION").ok();
    let reached = reached.as_deref().and_then(server_address);
    let place = FarEndHost {
        home,
        reached,
        confined: !is_sandbox_off(),
        log: Log::new(ui::say),
        ready,
    };
    howdah::serve_over_ssh(&place, signals.cancel())?;
    Ok(())
}

/// Called where a process or a thread has been kept from the rest of its machine.
pub(super) fn ready() {
    #[cfg(debug_assertions)]
    super::serve::try_all();
}

/// The third of client address, client port, server address, server port.
fn server_address(connection: &str) -> Option<IpAddr> {
    connection.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_that_ssh_reached() {
        let got = server_address("192.0.2.1 50000 2001:db8::2 22");
        assert_eq!(got, Some("2001:db8::2".parse().expect("an address")));
        // A link-local address means something on this machine only.
        assert_eq!(server_address("fe80::1%eth0 50000 fe80::2%eth0 22"), None);
        assert_eq!(server_address("UNKNOWN"), None);
    }
}
