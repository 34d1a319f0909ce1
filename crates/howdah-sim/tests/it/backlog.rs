//! The input queue of a host.

use howdah_core::{Arrival, Datagram, HeaderBytes, Rate, Span, Time, Transport, WakeReason};
use howdah_path::PathConfig;
use howdah_sim::{Flow, FlowEnds, World};

/// Sends `left` datagrams at once, and notes when it gets some; the `slow`-th that it gets takes it 10 ms.
struct Toy {
    left: u32,
    slow: Option<usize>,
    got: Vec<Time>,
    /// Wants to be woken then, and notes when it is.
    alarm: Option<Time>,
    woken: Vec<Time>,
}

impl Toy {
    fn new(left: u32, slow: Option<usize>) -> Self {
        Self {
            left,
            slow,
            got: Vec::new(),
            alarm: Some(ms(5)),
            woken: Vec::new(),
        }
    }

    fn handling_time(&self, _: &Arrival<'_>) -> Span {
        if self.slow == Some(self.got.len()) {
            Span::from_millis(10)
        } else {
            Span::ZERO
        }
    }
}

impl Transport for Toy {
    fn handle_datagram(&mut self, now: Time, _: Arrival<'_>) {
        self.got.push(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.alarm.is_some_and(|at| at <= now) {
            self.alarm = None;
            self.woken.push(now);
        }
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

    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        self.alarm.map(|at| (at, WakeReason::RateUpdate))
    }
}

fn ms(count: u64) -> Time {
    Time::ZERO + Span::from_millis(count)
}

/// `left` datagrams, a millisecond apart, the first after one, to a host whose input queue takes in `limit` and one more.
fn world(left: u32, slow: Option<usize>, limit: Option<usize>) -> (World<Toy>, FlowEnds) {
    let mut world = World::new(1);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let path = PathConfig {
        rate: Some(Rate::from_mbit_per_sec(10)),
        link_overhead_bytes: 0,
        ..PathConfig::default()
    };
    let link = world.add_link(&path, &PathConfig::default());
    let flow = Flow::between((near, Toy::new(left, None)), (far, Toy::new(0, slow)));
    let ends = world.add_flow(flow.over(link));
    if let Some(limit) = limit {
        let backlog = world.add_backlog(far, limit, Toy::handling_time);
        world.receive_through(ends.b, backlog);
    }
    world.run_until(ms(1_000));
    (world, ends)
}

#[test]
fn those_behind_a_slow_one_wait_and_timers_run() {
    // The third comes after 3 ms and is done after 13; by then ten wait (that of 13 ms came before it was done).
    let (world, ends) = world(20, Some(2), Some(300));
    let far = world.endpoint(ends.b);
    let mut expected: Vec<Time> = vec![ms(1), ms(2)];
    expected.extend([ms(13); 11]);
    expected.extend((14..=20).map(ms));
    assert_eq!(far.got, expected);
    assert_eq!(far.woken, [ms(5)]);
    assert_eq!(world.counters(ends.b).socket_drops, 0);
}

#[test]
fn a_full_one_refuses_all_until_it_is_empty() {
    // Four wait (one more than the limit), and those of 8 to 13 ms are refused.
    let (world, ends) = world(20, Some(2), Some(3));
    let far = world.endpoint(ends.b);
    let mut expected: Vec<Time> = vec![ms(1), ms(2)];
    expected.extend([ms(13); 5]);
    expected.extend((14..=20).map(ms));
    assert_eq!(far.got, expected);
    let counters = world.counters(ends.b);
    assert_eq!(counters.socket_drops, 6);
    // The interface has seen them all.
    assert_eq!(world.interface(ends.b).received_packets, 20);
}

/// The one that waits longest is slow as well: what was full is not empty yet, and refuses although there is room.
#[test]
fn room_is_not_enough_once_it_was_full() {
    let mut world = World::new(1);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let path = PathConfig {
        rate: Some(Rate::from_mbit_per_sec(10)),
        link_overhead_bytes: 0,
        ..PathConfig::default()
    };
    let link = world.add_link(&path, &PathConfig::default());
    let flow = Flow::between((near, Toy::new(12, None)), (far, Toy::new(0, None)));
    let ends = world.add_flow(flow.over(link));
    // Each takes 2.5 ms, and one may wait beside the one that the queue has room for anyhow.
    let backlog = world.add_backlog(far, 1, |_, _| Span::from_micros(2_500));
    world.receive_through(ends.b, backlog);
    world.run_until(ms(1_000));
    // Begun at 1 (done 3.5), 2 and 3 wait, [3.5: 2 begins], 4 waits, 5 is refused; at 6 the one of 3 begins, that of 4 waits and all are
    // refused until 8.5, when it begins; 9 finds nobody waiting.
    let done: Vec<u64> = (world.endpoint(ends.b).got.iter())
        .map(|at| at.since(Time::ZERO).as_nanos() / 100_000)
        .collect();
    assert_eq!(done[..5], [35, 60, 85, 110, 135]);
    assert_eq!(done.len() as u64 + world.counters(ends.b).socket_drops, 12);
    assert!(world.counters(ends.b).socket_drops >= 4);
}

#[test]
fn one_that_takes_no_time_changes_nothing() {
    let (without, with) = (world(20, None, None), world(20, None, Some(0)));
    assert_eq!(without.0.fingerprint(), with.0.fingerprint());
}
