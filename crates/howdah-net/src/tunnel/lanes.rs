//! Ways into an endpoint of this process that need no network: what tunnels carry comes and goes by them.
//!
//! Each tunnel has a lane with an address of its own, by which the endpoint knows its peer. The addresses are of the block that
//! leads nowhere (`100::/64`, RFC 6666), so that no packet of a network can be taken for one of a tunnel.

use super::frames;
use crate::clock::wall_now;
use crate::waker::Waker;
use quinn_udp::RecvMeta;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Datagrams that wait for the endpoint, in bytes; whoever brings more waits.
const ARRIVED_BYTES: usize = 4 << 20;
/// What each of them takes beside its content.
const ARRIVED_COST: usize = 128;
/// Datagrams that wait for a stream, in bytes: more would only make them late, and are lost as in any queue.
const WAITING_BYTES: usize = 2 << 20;
/// Bytes of one write.
const WRITE_BYTES: usize = 128 << 10;
/// How often those who wait look whether they shall end.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The endpoint's side of all its lanes; clones are of the same endpoint.
#[derive(Clone, Debug)]
pub struct Lanes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    waker: Waker,
    /// Something has arrived: looked at more often than the queue is free.
    waiting: AtomicBool,
    state: Mutex<State>,
    /// There is room for what arrives.
    room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: VecDeque<Arrived>,
    arrived_bytes: usize,
    lanes: BTreeMap<SocketAddr, Arc<Lane>>,
    made: u64,
}

#[derive(Debug)]
struct Arrived {
    from: SocketAddr,
    at: Duration,
    datagram: Vec<u8>,
}

/// One tunnel's way.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) address: SocketAddr,
    ended: AtomicBool,
    leaving: Mutex<Leaving>,
    /// Something is to leave, or nothing any more.
    ready: Condvar,
}

/// Frames for the stream, in pieces of one write each.
#[derive(Debug, Default)]
struct Leaving {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
    /// A piece that was written, to be filled again.
    spare: Vec<u8>,
}

/// Nothing in these can be half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lanes {
    pub(crate) fn new(waker: Waker) -> Self {
        Self(Arc::new(Inner {
            waker,
            waiting: AtomicBool::new(false),
            state: Mutex::default(),
            room: Condvar::new(),
        }))
    }

    /// Whether an address is one of a lane's, of whichever endpoint.
    pub(crate) fn is_one(address: SocketAddr) -> bool {
        matches!(address.ip(), IpAddr::V6(ip) if ip.segments()[..4] == [0x100, 0, 0, 0])
    }

    /// A new one.
    pub(super) fn open(&self) -> Arc<Lane> {
        let mut state = lock(&self.0.state);
        state.made += 1;
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| (state.made >> shift) as u16);
        let ip = Ipv6Addr::new(0x100, 0, 0, 0, a, b, c, d);
        let lane = Arc::new(Lane {
            address: (ip, 1).into(),
            ended: AtomicBool::new(false),
            leaving: Mutex::default(),
            ready: Condvar::new(),
        });
        state.lanes.insert(lane.address, Arc::clone(&lane));
        lane
    }

    /// Nothing goes there or comes from there any more.
    pub(super) fn close(&self, lane: &Lane) {
        lane.end();
        lock(&self.0.state).lanes.remove(&lane.address);
        self.0.room.notify_all();
    }

    /// Hands a datagram over that came by a lane, when there is room for it.
    pub(super) fn arrive(&self, lane: &Lane, datagram: &[u8]) {
        let mut state = lock(&self.0.state);
        let cost = datagram.len() + ARRIVED_COST;
        while state.arrived_bytes + cost > ARRIVED_BYTES {
            if lane.has_ended() {
                return;
            }
            let waited = self.0.room.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.arrived_bytes += cost;
        state.arrived.push_back(Arrived {
            from: lane.address,
            at: wall_now(),
            datagram: datagram.to_vec(),
        });
        self.0.waiting.store(true, Ordering::Release);
        drop(state);
        self.0.waker.wake();
    }

    /// Whether [`recv`](Self::recv) has something.
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.waiting.load(Ordering::Acquire)
    }

    /// What has arrived, as a socket gives it: datagrams of one length and one sender in a row share a buffer.
    pub(crate) fn recv(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        if !self.is_waiting() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut state = lock(&self.0.state);
        let mut count = 0;
        for (buffer, meta) in buffers.iter_mut().zip(metas) {
            let Some(first) = state.arrived.front() else {
                break;
            };
            let (from, stride) = (first.from, first.datagram.len());
            *meta = RecvMeta::default();
            (meta.addr, meta.stride, meta.len) = (from, stride, 0);
            meta.timestamp = Some(first.at);
            while let Some(next) = state.arrived.front() {
                let len = next.datagram.len();
                let fits = meta.len + len <= buffer.len();
                // One that is shorter is the last one of its buffer.
                let in_row = meta.len % stride == 0 && len <= stride && next.from == from;
                if !(fits && in_row) {
                    break;
                }
                let Some(next) = state.arrived.pop_front() else {
                    break;
                };
                state.arrived_bytes -= len + ARRIVED_COST;
                buffer[meta.len..meta.len + len].copy_from_slice(&next.datagram);
                meta.len += len;
            }
            if meta.len == 0 {
                // Longer than a buffer, which no tunnel lets through.
                state.arrived.pop_front();
                state.arrived_bytes -= stride + ARRIVED_COST;
                continue;
            }
            count += 1;
        }
        if state.arrived.is_empty() {
            self.0.waiting.store(false, Ordering::Release);
        }
        drop(state);
        self.0.room.notify_all();
        Ok(count)
    }

    /// Sends a train by a lane; what its queue has no room for is lost.
    pub(crate) fn send(
        &self,
        to: SocketAddr,
        contents: &[u8],
        segment_size: usize,
    ) -> io::Result<()> {
        let lane = lock(&self.0.state).lanes.get(&to).cloned();
        let lane = lane.ok_or(io::ErrorKind::ConnectionRefused)?;
        let mut leaving = lock(&lane.leaving);
        let was_empty = leaving.bytes == 0;
        for datagram in contents.chunks(segment_size.max(1)) {
            leaving.push(datagram);
        }
        drop(leaving);
        if was_empty {
            lane.ready.notify_one();
        }
        Ok(())
    }
}

impl Leaving {
    fn push(&mut self, datagram: &[u8]) {
        let len = frames::LENGTH_BYTES + datagram.len();
        if self.bytes + len > WAITING_BYTES {
            return;
        }
        let is_full = |piece: &Vec<u8>| piece.len() + len > WRITE_BYTES;
        if self.pieces.back().is_none_or(is_full) {
            let mut piece = std::mem::take(&mut self.spare);
            piece.clear();
            self.pieces.push_back(piece);
        }
        if let Some(piece) = self.pieces.back_mut() {
            let before = piece.len();
            frames::push(piece, datagram);
            self.bytes += piece.len() - before;
        }
    }
}

impl Lane {
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.ready.notify_all();
    }

    /// The next piece for the stream, in exchange for the last one; `None` when the lane has ended.
    pub(super) fn next_piece(&self, written: Vec<u8>) -> Option<Vec<u8>> {
        let mut leaving = lock(&self.leaving);
        leaving.spare = written;
        loop {
            if self.has_ended() {
                return None;
            }
            if let Some(piece) = leaving.pieces.pop_front() {
                leaving.bytes -= piece.len();
                return Some(piece);
            }
            let waited = self.ready.wait_timeout(leaving, LOOK_EVERY);
            leaving = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::BUFFER_BYTES;

    fn received(lanes: &Lanes) -> Vec<(SocketAddr, usize, usize)> {
        let mut buffers = vec![vec![0; BUFFER_BYTES]; 4];
        let mut slices: Vec<IoSliceMut<'_>> =
            buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
        let mut metas = [RecvMeta::default(); 4];
        let count = lanes.recv(&mut slices, &mut metas).unwrap_or(0);
        metas[..count]
            .iter()
            .map(|meta| (meta.addr, meta.len, meta.stride))
            .collect()
    }

    #[test]
    fn t28_datagrams_of_one_length_and_sender_share_a_buffer() {
        let (waker, _wakes) = crate::waker::pair().expect("a pipe");
        let lanes = Lanes::new(waker);
        let (one, two) = (lanes.open(), lanes.open());
        assert!(Lanes::is_one(one.address) && one.address != two.address);
        assert!(!Lanes::is_one(([127, 0, 0, 1], 1).into()));
        for (lane, len) in [(&one, 100), (&one, 100), (&one, 60), (&one, 60), (&two, 60)] {
            lanes.arrive(lane, &vec![7; len]);
        }
        assert!(lanes.is_waiting());
        let want = [
            (one.address, 260, 100),
            (one.address, 60, 60),
            (two.address, 60, 60),
        ];
        assert_eq!(received(&lanes), want);
        assert!(!lanes.is_waiting() && received(&lanes).is_empty());
        for _ in 0..10 {
            lanes.arrive(&one, &vec![7; 30_000]);
        }
        let full = (one.address, 60_000, 30_000);
        assert_eq!(received(&lanes), [full; 4]);
        assert_eq!(received(&lanes), [full]);
    }

    #[test]
    fn t28_a_queue_that_is_full_loses_and_a_lane_that_has_ended_refuses() {
        let (waker, _wakes) = crate::waker::pair().expect("a pipe");
        let lanes = Lanes::new(waker);
        let lane = lanes.open();
        for _ in 0..100 {
            lanes
                .send(lane.address, &vec![1; 60_000], 1_200)
                .expect("a lane");
        }
        let (mut piece, mut bytes) = (Vec::new(), 0);
        while !lock(&lane.leaving).pieces.is_empty() {
            piece = lane.next_piece(piece).expect("it has not ended");
            assert!(piece.len() <= WRITE_BYTES);
            bytes += piece.len();
        }
        assert!(
            bytes <= WAITING_BYTES && bytes > WAITING_BYTES - 1_300,
            "{bytes}"
        );
        lanes.close(&lane);
        assert_eq!(lane.next_piece(piece), None);
        let refused = lanes.send(lane.address, b"x", 1).expect_err("it is gone");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
