//! Where tunnels over TCP come in.

use super::{Lanes, PREFACE, Shared};
use howdah_proto::endpoint::Prefix;
use rustix::event::{PollFd, PollFlags, poll};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Tunnels at the same time; each has two threads.
const TUNNELS_MAX: usize = 256;
/// Of these, so many may belong to somebody who has not proved who he is.
const UNPROVED_MAX: usize = 32;
/// Of those who have, so many may be of one key, and so many are for keys that have none.
const OF_KEY_MAX: usize = 128;
const OF_OTHERS: usize = 64;
/// That long may it take to prove it.
const PROOF_TIME: Duration = Duration::from_secs(15);
/// An endpoint's peer says something more often than that.
const SILENCE_MAX: Duration = Duration::from_mins(12);

/// Accepts TCP connections and carries datagrams between them and an endpoint of this process, which sees a
/// peer at an address of a [lane](Lanes) for each. Dropping it ends all of them.
#[derive(Debug)]
pub struct TunnelListener(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    lanes: Lanes,
    guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
struct Guests {
    by_address: BTreeMap<SocketAddr, Guest>,
    closed: bool,
}

#[derive(Debug)]
struct Guest {
    remote: SocketAddr,
    stream: TcpStream,
    shared: Arc<Shared>,
    /// Whose it is, once that is proved.
    whose: Option<u64>,
}

/// A connection of somebody who has proved who he is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Proved {
    /// Whence it comes.
    pub origin: SocketAddr,
    /// There is a place for it. If not, his others have as many as he may, or others need them.
    pub stays: bool,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.shared.end();
        // The other side may have gone before.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl TunnelListener {
    /// Begins to accept, for the endpoint of `lanes`.
    pub fn open(listener: TcpListener, lanes: &Lanes) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let inner = Arc::new(Inner {
            lanes: lanes.clone(),
            guests: Mutex::default(),
        });
        let doorman = Arc::clone(&inner);
        std::thread::Builder::new()
            .name("howdah-tcp-door".into())
            .spawn(move || doorman.accept(&listener))?;
        Ok(Self(inner))
    }

    /// Whence the connection from that address really comes, if through here.
    pub fn origin(&self, address: SocketAddr) -> Option<SocketAddr> {
        Some(self.0.lock().by_address.get(&address)?.remote)
    }

    /// The connection from that address has proved who it is, which is a number for each. Whence it really comes, if through here.
    pub fn prove(&self, address: SocketAddr, whose: u64) -> Option<Proved> {
        let mut guests = self.0.lock();
        let stays = guests.has_room_for(whose);
        let guest = guests.by_address.get_mut(&address)?;
        if stays {
            guest.whose = Some(whose);
        }
        let origin = guest.remote;
        Some(Proved { origin, stays })
    }

    /// The connection from that address is over.
    pub fn close(&self, address: SocketAddr) {
        self.0.lock().by_address.remove(&address);
    }

    #[cfg(test)]
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.lock().by_address.keys().copied().collect()
    }
}

impl Drop for TunnelListener {
    fn drop(&mut self) {
        let mut guests = self.0.lock();
        guests.closed = true;
        guests.by_address.clear();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Guests> {
        // Nothing in there can be half done.
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(&self, listener: &TcpListener) {
        loop {
            let mut fds = [PollFd::new(listener, PollFlags::IN)];
            let ready = poll(&mut fds, Some(&super::LOOK_EVERY));
            if self.lock().sweep() {
                return;
            }
            if !matches!(ready, Ok(1..)) {
                continue;
            }
            match listener.accept() {
                Ok((stream, remote)) => {
                    // Who cannot be let in is turned away by the end of his connection.
                    let _ = self.let_in(stream, remote);
                }
                // Out of descriptors: those who are inside go on, and some will leave.
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(_) => {}
            }
        }
    }

    fn let_in(&self, stream: TcpStream, remote: SocketAddr) -> io::Result<()> {
        let mut guests = self.lock();
        guests.make_room(remote.ip());
        if guests.by_address.len() >= TUNNELS_MAX {
            return Ok(());
        }
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let (reader, writer) = (stream.try_clone()?, stream.try_clone()?);
        let shared = Arc::new(Shared::new(&self.lanes));
        let address = shared.lane.address;
        if let Err(e) = Shared::spawn(&shared, Announced::new(reader), writer) {
            shared.end();
            return Err(e);
        }
        let guest = Guest {
            remote,
            stream,
            shared,
            whose: None,
        };
        guests.by_address.insert(address, guest);
        Ok(())
    }
}

impl Guests {
    /// Somebody who has not proved who he is gives way to a newcomer, if he must.
    fn make_room(&mut self, newcomer: IpAddr) {
        let unproved = self.by_address.iter();
        let unproved = unproved.filter(|(_, guest)| guest.whose.is_none());
        let waiting = unproved.map(|(&key, guest)| (key, guest.remote.ip(), guest.shared.began));
        if let Some(key) = gives_way(&waiting.collect::<Vec<_>>(), newcomer) {
            self.by_address.remove(&key);
        }
    }

    /// Whether one more of that key may stay.
    fn has_room_for(&self, whose: u64) -> bool {
        let all = self.by_address.values().filter_map(|guest| guest.whose);
        let own = all.clone().filter(|other| *other == whose).count();
        may_stay(own, all.count())
    }

    /// Ends what has no right or no reason to stay. Whether the door is closed.
    fn sweep(&mut self) -> bool {
        self.by_address.retain(|_, guest| {
            !guest.shared.has_ended()
                && guest.shared.silence() < SILENCE_MAX
                && (guest.whose.is_some() || guest.shared.began.elapsed() < PROOF_TIME)
        });
        self.closed
    }
}

/// Whether one more may stay of a key that has `own` of `all`. Whoever has not proved anything yet finds a place beside them.
fn may_stay(own: usize, all: usize) -> bool {
    let kept = if own == 0 { 0 } else { OF_OTHERS };
    own < OF_KEY_MAX && all + kept < TUNNELS_MAX - UNPROVED_MAX
}

/// Whose place a newcomer gets: of the network that has most of them, his own included, the one who has waited for longest. So
/// whoever opens one connection after the other shuts nobody out but his neighbours.
fn gives_way(waiting: &[(SocketAddr, IpAddr, Instant)], newcomer: IpAddr) -> Option<SocketAddr> {
    if waiting.len() < UNPROVED_MAX {
        return None;
    }
    let network = |ip: IpAddr| Prefix::network(ip.to_canonical());
    let mut of_networks = BTreeMap::from([(network(newcomer), 1)]);
    for (_, ip, _) in waiting {
        *of_networks.entry(network(*ip)).or_insert(0) += 1;
    }
    let rank = |(_, ip, since): &(_, IpAddr, Instant)| {
        (of_networks.get(&network(*ip)).copied(), Reverse(*since))
    };
    let (key, ..) = waiting.iter().max_by_key(|guest| rank(guest))?;
    Some(*key)
}

/// A stream whose first bytes must be [`PREFACE`].
struct Announced {
    stream: TcpStream,
    announced: bool,
}

impl Announced {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            announced: false,
        }
    }
}

impl Read for Announced {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.announced {
            let mut first = [0; PREFACE.len()];
            self.stream.read_exact(&mut first)?;
            if first != *PREFACE {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a stranger"));
            }
            self.announced = true;
        }
        self.stream.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever has a key, or several, and opens one connection after the other.
    #[test]
    fn h18_a_key_that_has_many_tunnels_leaves_others_theirs() {
        let open = |own: &mut usize, all: &mut usize| {
            while may_stay(*own, *all) {
                (*own, *all) = (*own + 1, *all + 1);
            }
        };
        let (mut anna, mut ben, mut all) = (0, 0, 0);
        open(&mut anna, &mut all);
        open(&mut ben, &mut all);
        assert_eq!((anna, ben), (OF_KEY_MAX, 32));
        let newcomers = std::iter::from_fn(|| {
            let stays = may_stay(0, all);
            all += usize::from(stays);
            stays.then_some(())
        });
        assert_eq!(newcomers.count(), OF_OTHERS);
        assert_eq!(all + UNPROVED_MAX, TUNNELS_MAX);
    }

    /// H10, for those who come over TCP.
    #[test]
    fn h10_who_opens_one_tunnel_after_the_other_shuts_his_neighbours_out_only() {
        let began = Instant::now();
        let at = |n: u64| began + Duration::from_millis(n);
        let key = |n: u64| SocketAddr::from(([127, 0, 0, 1], n as u16));
        let loud = |n: u64| IpAddr::from([198, 51, 100, (n % 250) as u8]);
        let quiet = [[192, 0, 2, 1], [203, 0, 113, 1]].map(IpAddr::from);
        // One of them is there before the flood, the other one comes in its midst.
        let mut waiting = vec![(key(1), quiet[0], at(0))];
        for n in 2..1_000 {
            let who = if n == 500 { quiet[1] } else { loud(n) };
            if let Some(gone) = gives_way(&waiting, who) {
                let oldest = waiting.iter().find(|(_, ip, _)| !quiet.contains(ip));
                assert_eq!(Some(gone), oldest.map(|(key, ..)| *key), "{n}");
                waiting.retain(|(key, ..)| *key != gone);
            }
            waiting.push((key(n), who, at(n)));
            assert!(waiting.len() <= UNPROVED_MAX);
        }
        let left = waiting.iter().filter(|(_, ip, _)| quiet.contains(ip));
        assert_eq!(left.count(), 2);
        // Where each comes from a network of its own, the oldest one goes.
        let each = |n: u64| IpAddr::from([10, 0, n as u8, 1]);
        let waiting: Vec<_> = (0..UNPROVED_MAX as u64)
            .map(|n| (key(n), each(n), at(n)))
            .collect();
        assert_eq!(gives_way(&waiting, quiet[0]), Some(key(0)));
        assert_eq!(gives_way(&waiting[1..], quiet[0]), None, "there is room");
    }
}
