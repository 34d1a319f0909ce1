//! Who has a key and seals packets of his own with it once he is in.

use super::Stage;
use super::by_hand::{ByHand, Sealer, socket, sockets};
use howdah_core::ObjectId;
use howdah_proto::Config;
use howdah_proto::codec::{Frame, Report};
use howdah_proto::error::CloseCode;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// After so many packets he leaves and comes again, whether the server has sent him away or not.
const OF_ONE_SESSION: u64 = 250;
/// Where he sends from, if not always from the same place.
const ADDRESSES: usize = 16;
/// `Pace{fair, none, false}`, which may come at any time.
const PACE: &[u8] = &[2, 7, 0, 0, 0];

pub(crate) struct Forgery {
    pub(crate) what: &'static str,
    from_everywhere: bool,
    /// The n-th packet.
    packet: fn(&mut Sealer, u64) -> Vec<u8>,
}

pub(crate) const FORGERIES: [Forgery; 13] = [
    Forgery {
        what: "pings",
        from_everywhere: false,
        packet: |sealer, _| sealer.packet(&[Frame::Ping]),
    },
    Forgery {
        what: "packets full of pings",
        from_everywhere: false,
        packet: |sealer, _| sealer.packet(&vec![Frame::Ping; 1_000]),
    },
    Forgery {
        what: "pings from everywhere",
        from_everywhere: true,
        packet: |sealer, _| sealer.packet(&[Frame::Ping]),
    },
    Forgery {
        what: "packets full of challenges",
        from_everywhere: false,
        packet: |sealer, n| {
            let all: Vec<_> = (0..100).map(|k| Frame::PathChallenge(n * k)).collect();
            sealer.packet(&all)
        },
    },
    Forgery {
        what: "credit for what is not sent",
        from_everywhere: false,
        packet: |sealer, n| {
            let credit = |k| Frame::Credit {
                object: ObjectId::new(n * 100 + k),
                window_end: n,
            };
            sealer.packet(&(0..100).map(credit).collect::<Vec<_>>())
        },
    },
    Forgery {
        what: "control bytes behind a hole",
        from_everywhere: false,
        packet: |sealer, n| {
            let piece = |k| Frame::Control {
                offset: 1 + (n * 100 + k) * 2 % 200_000,
                bytes: b"x",
            };
            sealer.packet(&(0..100).map(piece).collect::<Vec<_>>())
        },
    },
    Forgery {
        what: "data of what is not sent",
        from_everywhere: false,
        packet: |sealer, n| {
            let data = Frame::Data {
                object: ObjectId::new(n),
                offset: n << 20,
            };
            sealer.packet(&[data])
        },
    },
    Forgery {
        what: "packets with holes between them",
        from_everywhere: false,
        packet: |sealer, n| {
            sealer.number += 1 + n % 1_000;
            sealer.packet(&[Frame::Ping])
        },
    },
    Forgery {
        what: "reports of nothing",
        from_everywhere: false,
        packet: |sealer, n| {
            let report = Report {
                number: n + 1,
                ..Report::default()
            };
            sealer.packet(&[Frame::Report(Box::new(report))])
        },
    },
    Forgery {
        what: "confirmations",
        from_everywhere: false,
        packet: |sealer, _| {
            let confirmation = Frame::ReportAck {
                newest: 1,
                earlier: u64::MAX,
                sparse: true,
            };
            sealer.packet(&[confirmation])
        },
    },
    Forgery {
        what: "the same packet again",
        from_everywhere: false,
        packet: |sealer, n| {
            sealer.number -= u64::from(n > 0);
            sealer.packet(&[Frame::Ping])
        },
    },
    Forgery {
        what: "packets that do not open",
        from_everywhere: false,
        packet: |sealer, n| {
            let mut packet = sealer.packet(&[Frame::Ping]);
            let at = packet.len() - 1 - n as usize % 16;
            packet[at] ^= 1;
            packet
        },
    },
    Forgery {
        what: "frames of a handshake that is over",
        from_everywhere: false,
        packet: |sealer, n| {
            let crypto = Frame::Crypto {
                offset: n,
                bytes: &[1; 1_000],
            };
            sealer.packet(&[crypto])
        },
    },
];

/// Comes in; again, if that is refused.
fn enter(target: SocketAddr, sockets: &[UdpSocket], protocol: &Config) -> Sealer {
    loop {
        if let Some(sealer) = ByHand::new(sockets, target, protocol).enter() {
            return sealer;
        }
    }
}

/// Sends it to the server again and again; how often he came in.
pub(crate) fn forge(
    target: SocketAddr,
    stage: &Stage,
    protocol: &Config,
    forgery: &Forgery,
) -> u64 {
    let sockets = sockets(ADDRESSES);
    let (mut entered, mut sealer) = (0, None);
    stage.in_time(|n| {
        let is_anew = n % OF_ONE_SESSION == 0;
        if let Some(before) = sealer.as_mut().filter(|_| is_anew) {
            let end = Frame::Close {
                code: CloseCode::Application.to_wire(),
                reason: "enough",
            };
            let _ = sockets[0].send_to(&Sealer::packet(before, &[end]), target);
            sealer = None;
        }
        let sealer = sealer.get_or_insert_with(|| {
            entered += 1;
            enter(target, &sockets, protocol)
        });
        let packet = (forgery.packet)(sealer, n % OF_ONE_SESSION);
        let from = if forgery.from_everywhere {
            n as usize % ADDRESSES
        } else {
            0
        };
        let _ = sockets[from].send_to(&packet, target);
    });
    entered
}

/// Somebody with a key comes in from one address, and goes on from another one until his session ends or it has been long enough.
#[allow(dead_code, reason = "not all of these tests have somebody who moves")]
pub(crate) fn move_to(
    target: SocketAddr,
    addresses: [Ipv4Addr; 2],
    protocol: &Config,
    is_enough: impl Fn() -> bool,
) {
    let sockets = addresses.map(socket);
    let mut mover = ByHand::new(&sockets, target, protocol);
    mover.enter().expect("it is let in");
    let mut said = 0;
    while mover.step(1) && !is_enough() {
        said += 1;
        if said % 16 == 0 {
            mover.client.send_control(PACE);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Somebody with a key whose control bytes come as scattered as can be, with the first one missing.
pub(crate) struct Scatterer<'a> {
    socket: &'a UdpSocket,
    target: SocketAddr,
    sealer: Sealer,
    pieces: u64,
}

impl<'a> Scatterer<'a> {
    /// Comes in.
    pub(crate) fn new(socket: &'a [UdpSocket; 1], target: SocketAddr, protocol: &Config) -> Self {
        let sealer = ByHand::new(socket, target, protocol).enter();
        Self {
            socket: &socket[0],
            target,
            sealer: sealer.expect("it is let in"),
            pieces: 0,
        }
    }

    /// Sends some hundreds of pieces.
    pub(crate) fn scatter(&mut self) {
        const IN_A_PACKET: u64 = 100;
        const MOST: u64 = 120_000;
        for _ in 0..8 {
            let piece = |k| Frame::Control {
                offset: 1 + (self.pieces + k) % MOST * 2,
                bytes: b"x",
            };
            let frames: Vec<_> = (0..IN_A_PACKET).map(piece).collect();
            let packet = self.sealer.packet(&frames);
            let _ = self.socket.send_to(&packet, self.target);
            self.pieces += IN_A_PACKET;
        }
        // Not more than the server's socket has room for.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Somebody with a key who says nothing wrong, from another place each time; how often he came in.
pub(crate) fn wander(target: SocketAddr, stage: &Stage, protocol: &Config) -> u64 {
    let sockets = sockets(ADDRESSES);
    let new = || ByHand::new(&sockets, target, protocol);
    let (mut entered, mut wanderer) = (1, new());
    stage.in_time(|n| {
        if wanderer.client.is_established() {
            wanderer.client.send_control(PACE);
        }
        if !wanderer.step(n as usize % ADDRESSES) {
            entered += 1;
            wanderer = new();
        }
    });
    entered
}
