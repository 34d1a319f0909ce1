//! How long a session takes to hear what the other side says: a message decoded, and what it means to the machine.
//!
//! `cargo bench -p howdah-session`. Each case runs nine times and the best counts.

use howdah_core::{ObjectId, RangeSet};
use howdah_session::SourceIdentity;
use howdah_session::client::{self, Client, Wants};
use howdah_session::message::{Message, SideReport};
use howdah_session::server::{self, Does, Parts, Server};
use howdah_session::transfer::{Incoming, Outgoing};
use std::hint::black_box;
use std::time::Instant;

const TIMES: u32 = 20_000;

/// A driver's part that is nothing but the half of an object.
#[derive(Debug)]
struct Half<T>(T);

impl<T> AsRef<T> for Half<T> {
    fn as_ref(&self) -> &T {
        &self.0
    }
}

impl<T> AsMut<T> for Half<T> {
    fn as_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[derive(Debug)]
struct Bench;

impl Parts for Bench {
    type Sending = Half<Outgoing>;
    type Receiving = Half<Incoming>;
    type Landing = ();
    type Question = ();
    type Tree = ();
    type Files = ();
    type Lane = ();
}

fn report(what: &str, mut run: impl FnMut()) {
    #[expect(clippy::disallowed_methods, reason = "it measures")]
    let time = |run: &mut dyn FnMut()| {
        let began = Instant::now();
        (0..TIMES).for_each(|_| run());
        began.elapsed()
    };
    let best = (0..9).map(|_| time(&mut run)).min().unwrap_or_default();
    println!(
        "{what:<34} {:>9.1} ns",
        best.as_secs_f64() * 1e9 / f64::from(TIMES)
    );
}

fn heard(bytes: &[u8]) -> Message {
    Message::decode(bytes).expect("it was written before")
}

fn main() {
    let source = SourceIdentity {
        size: 10_000_000_000,
        mtime: (1_700_000_000, 5),
        ctime: (1_700_000_001, 6),
        inode: 7,
    };
    let put = Message::Put {
        object: ObjectId::new(0),
        path: "data/run-00017/IMG_00000123.jpg".into(),
        name: None,
        size: Some(source.size),
        hash: true,
        source: Some(source),
        resume: true,
        reread: false,
        mode: Some(0o644),
    };
    let get = Message::Get {
        path: "data/run-00017/IMG_00000123.jpg".into(),
        window_end: None,
        hash: true,
        held: None,
        values: true,
    };
    let done = Message::Done {
        object: ObjectId::new(1),
        side: SideReport::default(),
    };
    let [put, get, done] = [put, get, done].map(|message| message.encode());
    report("a server hears of a file", || {
        let mut server = Server::<Bench>::new(None);
        let order = server.hear(heard(&put));
        assert!(matches!(order, Ok(server::Order::Put(..))));
        server.receives(Half(Incoming::new(ObjectId::new(0), RangeSet::new(), true)));
        black_box(server.end());
    });
    report("a server is asked for one", || {
        let mut server = Server::<Bench>::new(None);
        let order = server.hear(heard(&get));
        assert!(matches!(order, Ok(server::Order::Get(..))));
        black_box(server.end());
    });
    report("a server hears of its end", || {
        let mut server = Server::<Bench>::new(None);
        server.does(Does::Sends(Half(Outgoing::new(ObjectId::new(1), true))));
        black_box(server.hear(heard(&done)).is_ok());
    });
    let sending = Message::Sending {
        object: ObjectId::new(1),
        size: Some(source.size),
        hash: true,
        source: Some(source),
        resumed: false,
        mode: Some(0o644),
    };
    let sending = sending.encode();
    report("a client hears what comes", || {
        let mut client = Client::<Half<Outgoing>, Half<Incoming>>::new(Wants::Get);
        client.asked();
        let order = client.hear(heard(&sending), false);
        assert!(matches!(order, Ok(client::Order::Comes(_))));
        black_box(order.is_ok());
    });
}
