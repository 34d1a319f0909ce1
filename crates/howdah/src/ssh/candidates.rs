//! At which addresses the far end may be reached.

use super::{SshConfig, command};
use crate::SshTarget;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::process::Stdio;
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
    settings: Receiver<String>,
    addresses: Receiver<Vec<IpAddr>>,
}

impl Resolving {
    /// Asks ssh for the host's real name, and the system for the addresses of that.
    pub(super) fn start(config: &SshConfig, target: &SshTarget) -> Self {
        let (tell_settings, settings) = channel();
        let (tell, addresses) = channel();
        let mut ask = command::ask(config, target);
        let typed = target.host().to_owned();
        let look = move || {
            let text = ask
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .map(|mut child| {
                    let mut text = Vec::new();
                    if let Some(out) = child.stdout.take() {
                        let _ = out.take(SETTINGS_MAX).read_to_end(&mut text);
                    }
                    let _ = child.wait();
                    String::from_utf8_lossy(&text).into_owned()
                })
                .unwrap_or_default();
            let name = host_name(&text).unwrap_or(&typed).to_owned();
            // Whoever asked may have gone.
            let _ = tell_settings.send(text);
            let found = (&*name, 0).to_socket_addrs();
            let found = found.map(|all| all.map(|a| a.ip()).collect());
            let _ = tell.send(found.unwrap_or_default());
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

    /// What `ssh -G` prints, once; nothing if it cannot tell.
    pub(super) fn settings(&self) -> String {
        let settings = self.settings.recv_timeout(SETTINGS_PATIENCE);
        settings.unwrap_or_default()
    }

    /// `have_one`: the addresses found here would only come beside another one.
    pub(super) fn finish(self, have_one: bool) -> Vec<IpAddr> {
        let patience = if have_one { SHORT_PATIENCE } else { PATIENCE };
        self.addresses.recv_timeout(patience).unwrap_or_default()
    }
}

/// The real name in what `ssh -G` prints.
fn host_name(settings: &str) -> Option<&str> {
    let mut values = settings
        .lines()
        .filter_map(|line| line.strip_prefix("hostname "));
    values.next().map(str::trim).filter(|name| !name.is_empty())
}

/// The addresses to try, in order. `named`: of the host's name here. `reached`: where the far end says that
/// ssh reached it.
///
/// An address that is both is the one. If there is none, a translator stands in between, and the name is
/// what leads through it; or a jump host does, and the name may mean nothing here.
pub(super) fn candidates(named: &[IpAddr], reached: Option<IpAddr>, port: u16) -> Vec<SocketAddr> {
    let reached = reached.map(|ip| ip.to_canonical());
    let mut order: Vec<IpAddr> = Vec::new();
    let both = reached.filter(|ip| named.iter().any(|n| n.to_canonical() == *ip));
    for ip in both
        .into_iter()
        .chain(named.iter().map(IpAddr::to_canonical))
        .chain(reached)
    {
        if !order.contains(&ip) && !ip.is_unspecified() && !ip.is_multicast() {
            order.push(ip);
        }
    }
    order.truncate(CANDIDATES_MAX);
    order.into_iter().map(|ip| (ip, port).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(text: &str) -> Vec<IpAddr> {
        text.split_whitespace()
            .map(|ip| ip.parse().expect("an address"))
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
        ] {
            let reached = reached.map(|ip| ip.parse().expect("an address"));
            let got = candidates(&ips(named), reached, 7);
            let want: Vec<SocketAddr> = ips(want).into_iter().map(|ip| (ip, 7).into()).collect();
            assert_eq!(got, want, "{named} {reached:?}");
        }
        assert_eq!(
            candidates(&ips("::1 ::2 ::3 ::4 ::5"), None, 1).len(),
            CANDIDATES_MAX
        );
    }

    #[test]
    fn the_real_name_is_what_ssh_says() {
        let settings = "host site\nuser anna\nhostname site.example.org\nport 22\n";
        assert_eq!(host_name(settings), Some("site.example.org"));
        assert_eq!(host_name("usage: ssh"), None);
    }
}
