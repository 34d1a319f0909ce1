//! Two connections of one client that bring the same bytes, and not the same ones.

use super::{Hub, Inlet};
use crate::session::alone::connection;
use crate::session::receiving::{Place, Receiving};
use crate::{Error, ErrorKind};
use howdah_core::{ByteRange, ObjectId, Time};
use howdah_net::Placement;
use howdah_proto::Connection;
use howdah_session::transfer::{Arrived, End};
use howdah_store::{Batch, Sink, SinkSide, SinkSpec, Wake};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

const SIZE: u64 = 16 << 20;
/// As much as a buffer has.
const PIECE: u64 = 64 << 10;

/// An object that comes to a file, and of which others may bring a part.
struct Put {
    connection: Connection,
    receiving: Receiving,
    woken: Receiver<()>,
}

impl Put {
    fn begin(path: &Path, hash: bool) -> Self {
        let (wakes, woken) = channel();
        let wake: Wake = Arc::new(move || wakes.send(()).unwrap_or_default());
        let sink = Sink::create(
            SinkSpec::LocalFile(path),
            hash,
            Some(SIZE),
            Arc::clone(&wake),
        );
        let place = Place::Store(sink.expect("a file"));
        let mut connection = connection();
        let receiving = Receiving::new(
            &mut connection,
            ObjectId::new(1),
            place,
            Some(SIZE),
            hash,
            None,
        );
        let mut receiving = receiving.expect("an object");
        receiving.share_in(Some(SIZE), None, wake);
        Self {
            connection,
            receiving,
            woken,
        }
    }

    fn inlet(&self) -> Arc<Inlet> {
        match self.receiving.hub() {
            Some(Hub::Receives(inlet)) => inlet,
            _ => unreachable!("others may bring some"),
        }
    }

    /// The connection of the session brings that, as soon as there is room.
    fn bring(&mut self, range: ByteRange, byte: u8) {
        while !self.receiving.accepts_data() {
            std::thread::yield_now();
        }
        self.receiving
            .place(&mut vec![byte; range.len() as usize], &[whole(range)]);
    }

    /// The peer says where it ends, and has sent all of it by the connection of the session.
    fn end(&mut self, blake3: Option<[u8; 32]>) {
        let end = End { size: SIZE, blake3 };
        let told = self.receiving.on_end(&mut self.connection, end);
        told.expect("it is its size");
        self.receiving.on_complete();
    }

    fn poll(&mut self) -> Result<Option<Arrived>, Error> {
        self.receiving.poll(Time::ZERO, &mut self.connection)
    }

    fn result(&mut self) -> Result<Arrived, Error> {
        loop {
            if let Some(arrived) = self.poll()? {
                return Ok(arrived);
            }
            self.woken.recv().expect("it says how it ends");
        }
    }
}

fn whole(range: ByteRange) -> Placement {
    Placement { at: 0, range }
}

fn pieces() -> impl Iterator<Item = ByteRange> {
    (0..SIZE / PIECE).map(|n| ByteRange::with_len(n * PIECE, PIECE))
}

/// Whose bytes they are: every third piece comes by both, first by the one or by the other.
fn bytes(n: usize) -> (u8, Option<u8>) {
    [(1, None), (2, Some(1)), (1, Some(2))][n % 3]
}

/// What comes first is what is there; nothing is written over, nothing is mixed, and nothing is in its place that was not compared.
#[test]
fn h18_of_two_lanes_that_bring_other_bytes_for_the_same_place_the_first_counts() {
    let first: Vec<u8> = pieces()
        .enumerate()
        .flat_map(|(n, _)| vec![bytes(n).0; PIECE as usize])
        .collect();
    let second: Vec<u8> = pieces()
        .enumerate()
        .flat_map(|(n, _)| vec![bytes(n).1.unwrap_or_else(|| bytes(n).0); PIECE as usize])
        .collect();
    for (told, good) in [(&first, true), (&second, false)] {
        let dir = tempfile::tempdir().expect("a place");
        let path = dir.path().join("file");
        let mut put = Put::begin(&path, true);
        let inlet = put.inlet();
        let mut side = inlet.side();
        let mut lane = |range: ByteRange, byte: u8| {
            while !inlet.has_room(side.as_ref().map(SinkSide::backlog)) {
                std::thread::yield_now();
            }
            let buffer = &mut vec![byte; range.len() as usize];
            inlet.place(side.as_mut(), buffer, &[whole(range)]);
        };
        for (n, range) in pieces().enumerate() {
            let (early, late) = bytes(n);
            for byte in [Some(early), late].into_iter().flatten() {
                match byte {
                    1 => put.bring(range, byte),
                    _ => lane(range, byte),
                }
            }
        }
        put.end(Some(*blake3::hash(told).as_bytes()));
        match put.result() {
            Ok(arrived) => {
                assert!(good && arrived.hashed);
                let there = std::fs::read(&path).expect("it is there");
                assert!(there == first, "bytes of the second one");
            }
            Err(error) => {
                assert!(!good, "{error}");
                assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
                assert!(!path.exists());
            }
        }
    }
}

/// A lane has claimed some bytes, and its thread has no time to hand them on; the connection of the session brings all of them once more, which
/// are nothing new, and so has everything: the object must not end before the lane's bytes are in the sink.
#[test]
fn h18_an_object_does_not_end_before_what_another_lane_has_claimed() {
    let dir = tempfile::tempdir().expect("a place");
    let path = dir.path().join("file");
    let mut put = Put::begin(&path, false);
    let inlet = put.inlet();
    let mut side = inlet.side().expect("a way in");
    let slow = ByteRange::with_len(5 * PIECE, PIECE);
    let (parts, landing) = inlet.begin(&[whole(slow)]);
    assert_eq!(parts.len(), 1);
    for range in pieces() {
        put.bring(range, 2);
    }
    put.end(None);
    for _ in 0..3 {
        assert!(put.poll().expect("it goes on").is_none());
    }
    let mut batch = Batch {
        buf: vec![1; PIECE as usize],
        parts,
    };
    while let Err(refused) = side.submit(batch) {
        batch = refused;
        std::thread::yield_now();
    }
    drop(landing);
    put.result().expect("all of it is there");
    let there = std::fs::read(&path).expect("it is there");
    let is_right =
        |(n, piece): (usize, &[u8])| piece.iter().all(|&b| b == if n == 5 { 1 } else { 2 });
    assert!(there.chunks(PIECE as usize).enumerate().all(is_right));
}

/// A lane that brings nothing new when all is there does not leave the session waiting for it.
#[test]
fn h18_who_waited_for_a_lane_hears_that_it_had_nothing() {
    let dir = tempfile::tempdir().expect("a place");
    let mut put = Put::begin(&dir.path().join("file"), false);
    let inlet = put.inlet();
    for range in pieces() {
        put.bring(range, 2);
    }
    put.end(None);
    let (parts, landing) = inlet.begin(&[whole(ByteRange::new(0, PIECE))]);
    assert!(parts.is_empty() && put.poll().expect("it goes on").is_none());
    while put.woken.try_recv().is_ok() {}
    // As it goes outside of tests, where the same thread does all of it.
    drop(landing);
    let again = &mut vec![1; PIECE as usize];
    inlet.place(None, again, &[whole(ByteRange::new(0, PIECE))]);
    assert!(put.woken.try_recv().is_ok(), "nobody hears of it");
    put.result().expect("all of it is there");
}
