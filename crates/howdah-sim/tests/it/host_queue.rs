//! The queue of a host's own port.

use howdah_core::{Arrival, Datagram, HeaderBytes, Rate, Span, Time, Transport, WakeReason};
use howdah_path::PathConfig;
use howdah_sim::{Flow, FlowEnds, World};

/// Wants to send everything at once, and again every millisecond.
struct Eager {
    left: u32,
    got: u32,
    /// Keeps what is refused.
    keeps: bool,
    due: Option<Time>,
}

impl Transport for Eager {
    fn handle_datagram(&mut self, _: Time, _: Arrival<'_>) {
        self.got += 1;
    }

    fn handle_timeout(&mut self, now: Time) {
        self.due = (self.left > 0).then_some(now + Span::from_millis(1));
    }

    fn poll_transmit(&mut self, _: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
        let count = (self.left as usize).min(max);
        self.left -= count as u32;
        out.extend((0..count).map(|_| Datagram {
            bytes: HeaderBytes::new(),
            absent: 1_222,
        }));
        count
    }

    fn handle_refused(&mut self, _: Time, datagram: Datagram) -> Option<Datagram> {
        if self.keeps {
            self.left += 1;
            None
        } else {
            Some(datagram)
        }
    }

    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        self.due.map(|at| (at, WakeReason::Pacing))
    }
}

/// A port of 10 Mbit/s, so a packet takes a millisecond, with room for `queue`.
fn world(left: u32, keeps: bool, queue: usize) -> (World<Eager>, FlowEnds) {
    let eager = |left| Eager {
        left,
        got: 0,
        keeps,
        due: None,
    };
    let mut world = World::new(1);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let port = PathConfig {
        rate: Some(Rate::from_mbit_per_sec(10)),
        link_overhead_bytes: 0,
        ..PathConfig::default()
    };
    let link = world.add_link(&port, &PathConfig::default());
    world.set_host_queue(link.forward, queue);
    let flow = Flow::between((near, eager(left)), (far, eager(0))).over(link);
    let ends = world.add_flow(flow);
    (world, ends)
}

#[test]
fn a_full_port_refuses_one_and_asks_no_more_until_the_next_event() {
    let (mut world, ends) = world(100, true, 70);
    world.run_until(Time::from_nanos(1));
    let counters = world.counters(ends.a);
    assert_eq!(
        (counters.sent_datagrams, counters.refused_datagrams),
        (70, 1)
    );
    assert_eq!(world.endpoint(ends.a).left, 30);
    world.run_until(Time::ZERO + Span::from_secs(1));
    assert_eq!(world.endpoint(ends.b).got, 100);
    // One place is free at each of the next wake-ups, and one more is refused until all are gone.
    let counters = world.counters(ends.a);
    assert_eq!(counters.sent_datagrams, 100);
    assert!(
        (29..=31).contains(&counters.refused_datagrams),
        "{counters:?}"
    );
}

#[test]
fn what_comes_back_waits_in_the_sending_call() {
    let (mut world, ends) = world(100, false, 70);
    world.run_until(Time::ZERO + Span::from_secs(1));
    let counters = world.counters(ends.a);
    assert_eq!(
        (counters.sent_datagrams, counters.refused_datagrams),
        (100, 0)
    );
    assert_eq!(world.endpoint(ends.b).got, 100);
}

#[test]
#[should_panic(expected = "a host that cannot send")]
fn a_port_has_room_for_one() {
    let _ = world(1, true, 0);
}
