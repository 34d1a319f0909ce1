//! How a client reaches the other end: over UDP, and if that does not get through, through a tunnel.

use crate::client::Client;
use crate::inside::Outside;
use crate::sandbox::Sandbox;
use crate::ssh::{FarEnd, Watched};
use crate::{Cancel, CopyConfig, Error, ErrorKind, Transport};
use howdah_core::Span;
use howdah_net::{Clock, Endpoint, EndpointConfig, Tunnel};
use howdah_proto::error::ConnectionError;
use howdah_proto::{Config, Policy};
use rustix::io::Errno;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address that is not the last resort has that long to answer: four flights of the handshake.
const ATTEMPT: Span = Span::from_secs(3);

/// Where the other end is.
pub(crate) struct Line<'a> {
    pub(crate) port: u16,
    pub(crate) addresses: Vec<SocketAddr>,
    /// If this copy started it.
    pub(crate) far_end: Option<&'a FarEnd>,
}

/// One thing to try.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    Udp(SocketAddr),
    Tcp(SocketAddr),
    /// Through ssh itself.
    Channel,
}

impl Way {
    /// All that its threads need.
    fn sandbox(self) -> Sandbox {
        let connects = match self {
            Self::Tcp(address) => vec![address.port()],
            Self::Udp(_) | Self::Channel => Vec::new(),
        };
        Sandbox {
            connects,
            ..Sandbox::default()
        }
    }
}

fn ways(line: &Line<'_>, transport: Transport) -> Vec<Way> {
    let udp = line.addresses.iter().copied().map(Way::Udp);
    let tcp = line.addresses.iter().copied().map(Way::Tcp);
    let channel = line.far_end.map(|_| Way::Channel);
    match transport {
        Transport::Udp => udp.collect(),
        Transport::Tcp => tcp.chain(channel).collect(),
        Transport::Auto => udp.chain(tcp).chain(channel).collect(),
    }
}

/// Runs the client over the first way on which somebody answers.
pub(crate) fn reach(
    line: &Line<'_>,
    protocol: &Config,
    clock: Clock,
    (config, cancel): (&CopyConfig, &Cancel),
    client: &mut Client<'_>,
    (outside, sandbox): (&mut Outside<'_>, Option<&Sandbox>),
) -> Result<(), Error> {
    let ways = ways(line, config.transport);
    let mut failures = Vec::new();
    for (index, &way) in ways.iter().enumerate() {
        if cancel.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        let mut protocol = protocol.clone();
        if index + 1 < ways.len() {
            protocol.handshake_timeout = protocol.handshake_timeout.min(ATTEMPT);
        }
        // Over TCP it is the kernel that paces.
        let remembered = match (way, &config.paths) {
            (Way::Udp(address), Some(paths)) if client.sends() => Some((address, paths)),
            _ => None,
        };
        protocol.path = remembered.and_then(|(address, paths)| paths.recall(address));
        // Others would have to make room for a train.
        let is_fair = protocol.policy == Policy::Fair;
        protocol.train = matches!(way, Way::Udp(_)) && is_fair && client.sends_much();
        let of_lanes = Config {
            path: None,
            train: false,
            ..protocol.clone()
        };
        let patience = protocol.handshake_timeout.as_millis() / 1000;
        let open = || open(way, protocol, clock, line.far_end);
        // The threads of a tunnel hear the network, too.
        let opened = match (way, sandbox) {
            (Way::Udp(_), _) | (_, None) => open(),
            (way, Some(_)) => outside.run(Some(&way.sandbox()), open)?,
        };
        let (mut endpoint, tunnel) = match opened {
            Ok(opened) => opened,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        if config.transport == Transport::Auto && tunnel.is_some() {
            config.warn.line(&notice(way, line, &failures));
        }
        if let Some(advice) = endpoint.socket_report().and_then(|report| report.advice()) {
            client.advise(&advice);
        }
        client.begin_attempt(endpoint.waker(), tunnel.is_some());
        if let Way::Udp(address) = way {
            let spares =
                (0..client.lanes_wanted()).filter_map(|_| spare(address, &of_lanes, clock));
            client.lend(spares.collect(), address);
        }
        let run = || {
            (config.ready)();
            match line.far_end {
                None => endpoint.run(client),
                Some(far_end) => endpoint.run(&mut Watched::new(client, far_end)),
            }
        };
        let run = outside.run(sandbox, run)?;
        run.map_err(|e| Error::new(ErrorKind::Io, format!("the UDP socket failed: {e}")))?;
        if let (Some((address, paths)), Some(learnt)) = (remembered, client.learnt()) {
            paths.remember(address, &learnt);
        }
        let name = match way {
            Way::Udp(address) => format!("{address} (UDP)"),
            Way::Tcp(address) => format!("{address} (TCP)"),
            Way::Channel => "the ssh channel".to_owned(),
        };
        match client.unanswered() {
            None => return Ok(()),
            Some(ConnectionError::PeerKeyRefused | ConnectionError::Handshake(_)) => {
                failures.push(format!(
                    "{name} is answered by another howdah than the one that ssh started"
                ));
            }
            Some(ConnectionError::Unreachable) => {
                failures.push(format!("nobody listens on {name}"));
            }
            Some(_) => failures.push(format!("no answer from {name} in {patience} s")),
        }
    }
    let (peer, port, failures) = (client.peer(), line.port, failures.join("; "));
    let ask = match (line.far_end.is_none(), config.transport) {
        (true, _) => "is 'howdah serve' running there, and does every firewall on the way let",
        (false, _) => "does every firewall on the way let",
    };
    let kind = match config.transport {
        Transport::Auto => "UDP, or at least TCP,",
        Transport::Udp => "UDP",
        Transport::Tcp => "TCP",
    };
    let hint = match (config.transport, line.far_end) {
        (Transport::Udp, _) => "; --transport auto would try TCP as well",
        _ => "",
    };
    Err(Error::new(
        ErrorKind::Network,
        format!("cannot reach {peer}: {failures}; {ask} {kind} port {port} through?{hint}"),
    ))
}

/// An endpoint with a connection on that way, and the tunnel of a way that needs one.
fn open(
    way: Way,
    protocol: Config,
    clock: Clock,
    far_end: Option<&FarEnd>,
) -> Result<(Endpoint, Option<Tunnel>), String> {
    let config = EndpointConfig {
        protocol,
        accept: false,
    };
    let opened = match way {
        Way::Udp(address) => {
            // Each address has a socket of its own: a connected one hears that nobody listens.
            howdah_net::bind(any(address))
                .and_then(|socket| Endpoint::new(socket, config, clock))
                .and_then(|mut endpoint| endpoint.connect(address).map(|_| (endpoint, None)))
        }
        Way::Tcp(_) | Way::Channel => {
            Endpoint::without_socket(config, clock).and_then(|mut endpoint| {
                let tunnel = match (way, far_end) {
                    (Way::Tcp(address), _) => Tunnel::connect(address, endpoint.lanes())?,
                    (_, Some(far_end)) => far_end.tunnel(endpoint.lanes())?,
                    (_, None) => return Err(std::io::Error::other("there is none")),
                };
                endpoint.connect(tunnel.address())?;
                Ok((endpoint, Some(tunnel)))
            })
        }
    };
    let why = |address: SocketAddr, error: std::io::Error| {
        if error.raw_os_error() != Some(Errno::AFNOSUPPORT.raw_os_error()) {
            return error.to_string();
        }
        let kind = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        format!("this machine has no {kind}")
    };
    opened.map_err(|error| match way {
        Way::Udp(address) => format!("{address} (UDP) cannot be used: {}", why(address, error)),
        Way::Tcp(address) => format!("{address} (TCP): {}", why(address, error)),
        Way::Channel => format!("the ssh channel: {error}"),
    })
}

/// A loop for one more connection to that address: whoever is in a sandbox makes no socket, nor connects one. `None`: the copy goes on without.
fn spare(address: SocketAddr, protocol: &Config, clock: Clock) -> Option<Endpoint> {
    let config = EndpointConfig {
        protocol: protocol.clone(),
        accept: false,
    };
    let socket = howdah_net::bind(any(address)).ok()?;
    let mut endpoint = Endpoint::new(socket, config, clock).ok()?;
    endpoint.aim(address).ok()?;
    Some(endpoint)
}

/// Any address of that one's family.
fn any(address: SocketAddr) -> SocketAddr {
    if address.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    }
}

/// What a user must know who expects the speed of UDP.
fn notice(way: Way, line: &Line<'_>, failures: &[String]) -> String {
    let instead = match way {
        Way::Channel => "neither UDP nor TCP gets through, so the data goes through ssh itself",
        _ => "UDP does not get through, so the data goes over TCP",
    };
    format!(
        "{instead}: much slower on a long path that loses packets; open UDP port {} in the firewalls on \
         the way ({})",
        line.port,
        failures.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn udp_comes_first_and_only_auto_goes_on() {
        let addresses: Vec<SocketAddr> =
            vec![([192, 0, 2, 1], 7).into(), ([192, 0, 2, 2], 7).into()];
        let line = Line {
            port: 7,
            addresses: addresses.clone(),
            far_end: None,
        };
        let [a, b] = [addresses[0], addresses[1]];
        let (udp, tcp) = ([Way::Udp(a), Way::Udp(b)], [Way::Tcp(a), Way::Tcp(b)]);
        assert_eq!(ways(&line, Transport::Udp), udp);
        assert_eq!(ways(&line, Transport::Tcp), tcp);
        assert_eq!(ways(&line, Transport::Auto), [udp, tcp].concat());
        let text = notice(Way::Tcp(a), &line, &["no answer".to_owned()]);
        assert!(text.starts_with("UDP does not get through") && text.contains("UDP port 7"));
    }
}
