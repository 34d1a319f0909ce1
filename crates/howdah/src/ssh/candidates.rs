//! At which addresses the far end may be reached.

use super::command;
use super::settings::Settings;
use crate::SshConfig;
use crate::SshTarget;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, ToSocketAddrs as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Most that are tried.
const CANDIDATES_MAX: usize = 4;
/// Longest output of `ssh -G` that is read, in bytes.
const SETTINGS_MAX: u64 = 1 << 20;
/// How long a name server may take after ssh itself is through.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same if there is an address already.
const SHORT_PATIENCE: Duration = Duration::from_secs(1);

/// The same for what ssh makes of a name, which takes no network.
const SETTINGS_PATIENCE: Duration = Duration::from_secs(1);

/// A question about a host that is being looked into.
#[derive(Debug)]
pub(super) struct Resolving {
    settings: Receiver<Settings>,
    /// With their scopes, as far as they have one, and without a port.
    addresses: Receiver<Vec<SocketAddr>>,
}

impl Resolving {
    /// Asks ssh for the host's real name, and the system for the addresses of that.
    pub(super) fn start(config: &SshConfig, target: &SshTarget) -> Self {
        let (tell_settings, settings) = channel();
        let (tell, addresses) = channel();
        let mut ask = command::ask(config, target);
        let typed = target.host().to_owned();
        let look = move || {
            let (text, is_whole) = printed(&mut ask).unwrap_or_default();
            let settings = Settings::of(text);
            let name = settings.host_name().unwrap_or(&typed).to_owned();
            // A part of them might be those of another connection. (Whoever asked may have gone.)
            let whole = if is_whole {
                settings
            } else {
                Settings::default()
            };
            let _ = tell_settings.send(whole);
            let found = (&*name, 0).to_socket_addrs();
            let _ = tell.send(found.map(Iterator::collect).unwrap_or_default());
        };
        // Without the thread nothing is told, which means no address.
        let _ = std::thread::Builder::new()
            .name("howdah-resolve".into())
            .spawn(look);
        Self {
            settings,
            addresses,
        }
    }

    /// What `ssh -G` prints, once; nothing if it cannot tell, or not all.
    pub(super) fn settings(&self) -> Settings {
        let settings = self.settings.recv_timeout(SETTINGS_PATIENCE);
        settings.unwrap_or_default()
    }

    /// `have_one`: the addresses found here would only come beside another one.
    pub(super) fn finish(self, have_one: bool) -> Vec<SocketAddr> {
        let patience = if have_one { SHORT_PATIENCE } else { PATIENCE };
        self.addresses.recv_timeout(patience).unwrap_or_default()
    }
}

/// What `ask` prints, and whether that is all.
fn printed(ask: &mut Command) -> Option<(String, bool)> {
    let ask = ask.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = ask.stderr(Stdio::null()).spawn().ok()?;
    let mut text = Vec::new();
    let read = child
        .stdout
        .take()?
        .take(SETTINGS_MAX + 1)
        .read_to_end(&mut text);
    let ended = child.wait();
    let is_whole = read.is_ok()
        && text.len() as u64 <= SETTINGS_MAX
        && ended.is_ok_and(|status| status.success());
    Some((String::from_utf8_lossy(&text).into_owned(), is_whole))
}

/// The addresses to try, in order. `named`: of the host's name here. `reached`: where the far end says that
/// ssh reached it.
///
/// An address that is both is the one. If there is none, a translator stands in between, and the name is
/// what leads through it; or a jump host does, and the name may mean nothing here. A link-local address leads nowhere without
/// its scope, which is this machine's name for the link.
pub(super) fn candidates(
    named: &[SocketAddr],
    reached: Option<IpAddr>,
    port: u16,
) -> Vec<SocketAddr> {
    let named = named.iter().map(|&address| at_port(address, port));
    let reached = reached.map(|ip| at_port((ip, 0).into(), port));
    let both = reached.and_then(|reached| named.clone().find(|n| n.ip() == reached.ip()));
    let mut order: Vec<SocketAddr> = Vec::new();
    for address in both.into_iter().chain(named).chain(reached) {
        let ip = address.ip();
        if !order.contains(&address)
            && !ip.is_unspecified()
            && !ip.is_multicast()
            && !lacks_scope(address)
        {
            order.push(address);
        }
    }
    order.truncate(CANDIDATES_MAX);
    order
}

fn at_port(address: SocketAddr, port: u16) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_none() => {
            SocketAddrV6::new(*v6.ip(), port, 0, v6.scope_id()).into()
        }
        address => (address.ip().to_canonical(), port).into(),
    }
}

fn lacks_scope(address: SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16, text: &str) -> Vec<SocketAddr> {
        text.split_whitespace()
            .map(|ip| match ip.split_once('%') {
                Some((ip, scope)) => {
                    let (ip, scope) = (ip.parse().expect("IPv6"), scope.parse().expect("number"));
                    SocketAddrV6::new(ip, port, 0, scope).into()
                }
                None => (ip.parse::<IpAddr>().expect("an address"), port).into(),
            })
            .collect()
    }

    #[test]
    fn the_address_that_ssh_reached_comes_first_if_the_name_has_it() {
        for (named, reached, want) in [
            (
                "192.0.2.1 192.0.2.2",
                Some("192.0.2.2"),
                "192.0.2.2 192.0.2.1",
            ),
            // Behind a translator.
            ("192.0.2.1", Some("10.0.0.1"), "192.0.2.1 10.0.0.1"),
            // Behind a jump host, whose names mean nothing here.
            ("", Some("10.0.0.1"), "10.0.0.1"),
            ("192.0.2.1", None, "192.0.2.1"),
            ("::ffff:192.0.2.1", Some("192.0.2.1"), "192.0.2.1"),
            ("0.0.0.0", Some("224.0.0.1"), ""),
            // T15: the far side calls the link by another name.
            ("fe80::1%3", Some("fe80::1"), "fe80::1%3"),
            ("fe80::1%3 192.0.2.1", None, "fe80::1%3 192.0.2.1"),
            ("fe80::1%3 fe80::1%4", None, "fe80::1%3 fe80::1%4"),
            ("", Some("fe80::1"), ""),
        ] {
            let reached = reached.map(|ip| ip.parse().expect("an address"));
            let got = candidates(&at(0, named), reached, 7);
            assert_eq!(got, at(7, want), "{named} {reached:?}");
        }
        assert_eq!(
            candidates(&at(0, "::1 ::2 ::3 ::4 ::5"), None, 1).len(),
            CANDIDATES_MAX
        );
    }

    #[test]
    fn t14_settings_that_are_cut_off_or_end_in_an_error_are_none() {
        let said = |script: String| {
            let mut shell = Command::new("sh");
            printed(shell.args(["-c", &script])).expect("a shell")
        };
        assert_eq!(
            said("echo hostname x".to_owned()),
            ("hostname x\n".to_owned(), true)
        );
        assert!(!said("echo hostname x; exit 1".to_owned()).1);
        let (text, is_whole) = said(format!("echo hostname x; head -c {SETTINGS_MAX} /dev/zero"));
        assert!(text.starts_with("hostname x") && !is_whole);
    }
}
