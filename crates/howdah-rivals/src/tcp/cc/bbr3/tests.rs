use super::super::bbr::harness::{Pipe, settings};
use super::*;

/// 120 Mbit/s of 1500-byte packets; 500 segments of BDP at 50 ms.
const RATE: f64 = 10_000.0;
const RTT: Span = Span::from_millis(50);

fn pipe() -> Pipe<Bbr3> {
    Pipe::new(Bbr3::new(&settings()), RATE, RTT)
}

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds)
}

fn share(pipe: &mut Pipe<Bbr3>, seconds: u64) -> f64 {
    let before = pipe.tally.delivered;
    pipe.run_for(Span::from_secs(seconds));
    (pipe.tally.delivered - before) as f64 / (pipe.segments_per_sec * seconds as f64)
}

#[test]
fn startup_doubles_and_ends_after_three_flat_rounds() {
    let mut pipe = pipe();
    let mut rates: Vec<(u64, f64)> = Vec::new();
    let (mut full_at, mut left_at) = (None, None);
    pipe.run_until(at(3.0), |pipe| {
        let round = pipe.cc.rounds.count;
        if pipe.cc.state == State::Startup && rates.last().is_none_or(|r| r.0 != round) {
            rates.push((round, pipe.cc.max_bw.get()));
        }
        if pipe.cc.max_bw.get() > 0.95 * RATE && full_at.is_none() {
            full_at = Some(round);
        }
        if pipe.cc.state != State::Startup && left_at.is_none() {
            left_at = Some(round);
        }
    });
    let growing: Vec<f64> = rates
        .windows(2)
        // From the first whole window on, and until the link is full.
        .filter(|pair| pair[0].1 > 500.0 && pair[1].1 < 0.9 * RATE)
        .map(|pair| pair[1].1 / pair[0].1)
        .collect();
    assert!(growing.len() >= 3, "{rates:?}");
    for ratio in &growing {
        assert!((1.7..2.3).contains(ratio), "{rates:?}");
    }
    let rounds = left_at.unwrap() - full_at.unwrap();
    assert!((3..=4).contains(&rounds), "{rounds} rounds");
}

#[test]
fn startup_ends_at_losses_where_the_buffer_is_short() {
    let mut pipe = pipe();
    pipe.queue_segments = 5.0;
    let mut left = None;
    pipe.run_until(at(3.0), |pipe| {
        if pipe.cc.state != State::Startup && left.is_none() {
            left = Some((pipe.cc.bounds.inflight_hi, pipe.cc.full_pipe.now));
        }
    });
    let (hi, by_plateau) = left.unwrap();
    assert!(!by_plateau, "three flat rounds ended it");
    assert!(hi.is_finite() && hi > 0.7 * pipe.bdp(), "{hi}");
}

#[test]
fn six_losses_in_a_round_are_needed() {
    let sample = RateSample {
        delivered_segments: 100,
        interval: RTT,
        prior_delivered_segments: 1000,
        in_flight_when_sent_segments: 100,
        lost_segments: 10,
        ..RateSample::default()
    };
    let ack = Ack {
        phase: Phase::Recovery,
        ..Ack::default()
    };
    let mut cc = Bbr3::new(&settings());
    cc.loss_events = 5;
    cc.check_startup_losses(&ack, &sample);
    assert!(!cc.full_pipe.reached);
    cc.loss_events = 6;
    let few = RateSample {
        lost_segments: 2,
        ..sample
    };
    cc.check_startup_losses(&ack, &few);
    assert!(!cc.full_pipe.reached, "2 % is not more than 2 %");
    cc.check_startup_losses(&ack, &sample);
    assert!(cc.full_pipe.reached);
}

#[test]
fn the_cycle_goes_down_cruise_refill_up() {
    let mut pipe = pipe();
    let mut states: Vec<(State, Time)> = Vec::new();
    pipe.run_until(at(40.0), |pipe| {
        if states.last().is_none_or(|s| s.0 != pipe.cc.state) {
            states.push((pipe.cc.state, pipe.now));
        }
    });
    assert_eq!(states[0].0, State::Startup);
    assert_eq!(states[1].0, State::Drain);
    assert_eq!(states[2].0, State::Down);
    let mut refills = 0;
    for pair in states[2..].windows(2) {
        let lasted = pair[1].1.since(pair[0].1).as_secs_f64();
        let next = pair[1].0;
        match pair[0].0 {
            State::Down => assert!(matches!(
                next,
                State::Cruise | State::Refill | State::ProbeRtt
            )),
            State::Cruise => {
                assert!(matches!(next, State::Refill | State::ProbeRtt));
                assert!(lasted < 3.0, "{lasted}");
            }
            State::Refill => {
                refills += 1;
                assert!(matches!(next, State::Up | State::ProbeRtt));
                assert!(lasted < 1.5 * RTT.as_secs_f64(), "{lasted}");
            }
            State::Up => assert!(matches!(next, State::Down | State::ProbeRtt)),
            State::ProbeRtt => assert_eq!(next, State::Cruise),
            State::Startup | State::Drain => panic!("{states:?}"),
        }
    }
    // Every 2 to 3 s, or 63 rounds of 50 ms; each PROBE_RTT starts the wait anew.
    assert!((6..=20).contains(&refills), "{refills}");
}

#[test]
fn the_wait_between_probes_is_two_to_three_seconds() {
    let mut cc = Bbr3::new(&settings());
    let mut waits = Vec::new();
    for _ in 0..100 {
        cc.begin_cycle(Time::ZERO, 0);
        waits.push(cc.cycle.probe_wait().as_secs_f64());
        assert!(cc.cycle.rounds_since_probe <= 1);
    }
    let (least, most) = waits
        .iter()
        .fold((f64::MAX, 0f64), |(a, b), w| (a.min(*w), b.max(*w)));
    assert!((2.0..2.1).contains(&least), "{least}");
    assert!((2.9..3.0).contains(&most), "{most}");
}

#[test]
fn the_least_rtt_is_probed_for_every_five_seconds() {
    let mut pipe = pipe();
    let mut episodes: Vec<(Time, Time)> = Vec::new();
    let mut inside = false;
    pipe.run_until(at(30.0), |pipe| {
        let probing = pipe.cc.state == State::ProbeRtt;
        match (probing, inside) {
            (true, false) => episodes.push((pipe.now, pipe.now)),
            (true, true) => episodes.last_mut().unwrap().1 = pipe.now,
            _ => {}
        }
        inside = probing;
        if probing && pipe.cc.probe_rtt_until.is_some() {
            assert!(f64::from(pipe.in_flight()) <= 0.55 * pipe.bdp());
        }
    });
    assert!(episodes.len() >= 4, "{episodes:?}");
    for pair in episodes.windows(2) {
        let gap = pair[1].0.since(pair[0].1).as_secs_f64();
        assert!((5.0..5.3).contains(&gap), "{gap}");
    }
    for (from, to) in &episodes {
        let lasted = to.since(*from).as_secs_f64();
        assert!((0.2..0.35).contains(&lasted), "{lasted}");
    }
}

#[test]
fn it_fills_the_path_and_holds_a_small_queue() {
    let mut pipe = pipe();
    pipe.run_for(Span::from_secs(2));
    assert!(share(&mut pipe, 10) > 0.94);
    let mut sum = 0.0;
    let mut seen = 0u32;
    pipe.run_until(at(22.0), |pipe| {
        sum += pipe.queue();
        seen += 1;
    });
    let mean = sum / f64::from(seen) / pipe.bdp();
    assert!(mean < 0.2, "{mean}");
}

#[test]
fn one_per_cent_of_loss_sets_no_limit_and_five_per_cent_does() {
    // A BDP of 5000: losses of a round are then close to their mean.
    let run = |loss: f64| {
        let mut pipe = Pipe::new(Bbr3::new(&settings()), 10.0 * RATE, RTT);
        pipe.loss = loss;
        pipe.run_for(Span::from_secs(5));
        let got = share(&mut pipe, 10);
        (pipe.cc.bounds.inflight_hi, got, pipe.bdp())
    };
    let (hi_1, share_1, _) = run(0.01);
    let (hi_5, share_5, bdp) = run(0.05);
    assert!(hi_1.is_infinite(), "{hi_1}");
    assert!(hi_5 < 1.5 * bdp, "{hi_5} of {bdp}");
    assert!(share_1 > 2.0 * share_5, "{share_1} and {share_5}");
}

/// An acknowledgement in UP of a packet that left when 1000 were in flight.
fn probe_ack(lost: u32) -> (Ack, RateSample) {
    let sample = RateSample {
        delivered_segments: 1000,
        interval: RTT,
        prior_delivered_segments: 1,
        in_flight_when_sent_segments: 1000,
        lost_segments: lost,
        ..RateSample::default()
    };
    let ack = Ack {
        delivered_segments: 1,
        lost_segments: 1,
        total_delivered_segments: 5000,
        in_flight_segments: 1000,
        prior_in_flight_segments: 1001,
        phase: Phase::Recovery,
        rate: Some(sample),
        ..Ack::default()
    };
    (ack, sample)
}

fn in_up() -> Bbr3 {
    let mut cc = Bbr3::new(&settings());
    cc.full_pipe.reached = true;
    cc.max_bw.update(0, 16_000.0);
    cc.min_rtt.value = Some(RTT);
    cc.cwnd = 2_000.0;
    cc.state = State::Up;
    cc.cycle.probe_samples = true;
    cc.rounds.restart(4_000);
    cc
}

#[test]
fn a_probe_that_loses_more_than_two_per_cent_is_cut_once() {
    let mut cc = in_up();
    let (ack, _) = probe_ack(20);
    cc.on_ack(&ack);
    assert!(cc.bounds.inflight_hi.is_infinite());
    assert_eq!(cc.state, State::Up);
    let (ack, _) = probe_ack(21);
    cc.on_ack(&ack);
    // What was in flight, which is more than 0.7 of the BDP of 800.
    assert!((cc.bounds.inflight_hi - 1000.0).abs() < 1e-9);
    assert_eq!(cc.state, State::Down);
    assert!(cc.cwnd() <= 1000.0);
    // Only one answer for each probe.
    let (mut ack, mut sample) = probe_ack(100);
    sample.in_flight_when_sent_segments = 600;
    ack.rate = Some(sample);
    cc.on_ack(&ack);
    assert!((cc.bounds.inflight_hi - 1000.0).abs() < 1e-9);
}

#[test]
fn the_cut_is_never_below_seven_tenths_of_the_target() {
    let mut cc = in_up();
    let (mut ack, mut sample) = probe_ack(100);
    sample.in_flight_when_sent_segments = 10;
    ack.rate = Some(sample);
    cc.on_ack(&ack);
    // The target is the BDP of 16000/s and 50 ms, or what this sample made of it.
    let target = cc.max_bw.get() * 0.05;
    assert!(cc.bounds.inflight_hi >= 0.7 * 800.0 && cc.bounds.inflight_hi <= 0.71 * target);
}

#[test]
fn a_lossy_round_of_cruising_lowers_the_short_term_bounds() {
    let mut bounds = Bounds::default();
    let sample = RateSample {
        delivered_segments: 500,
        interval: RTT,
        prior_delivered_segments: 10,
        ..RateSample::default()
    };
    let ack = Ack {
        total_delivered_segments: 20,
        ..Ack::default()
    };
    bounds.note_loss(10);
    assert!(bounds.on_sample(&sample, 9_000.0, &ack));
    bounds.adapt(10_000.0, 1_000.0);
    assert!((bounds.bw_lo - 9_000.0).abs() < 1e-9);
    // The window fell by 30 % at most, although only half of it was delivered.
    assert!((bounds.inflight_lo - 700.0).abs() < 1e-9);
    bounds.forget_short_term();
    assert!(bounds.bw_lo.is_infinite() && bounds.inflight_lo.is_infinite());
}

#[test]
fn headroom_is_fifteen_per_cent() {
    let mut bounds = Bounds::default();
    assert!(bounds.inflight_with_headroom().is_infinite());
    bounds.inflight_hi = 1000.0;
    assert!((bounds.inflight_with_headroom() - 850.0).abs() < 1e-9);
    bounds.inflight_hi = 4.0;
    assert!((bounds.inflight_with_headroom() - 4.0).abs() < 1e-9);
}

#[test]
fn the_limit_rises_by_one_two_four_segments_a_round() {
    let mut cc = in_up();
    cc.bounds.inflight_hi = 2_000.0;
    cc.start_up_for_tests();
    let mut his = vec![cc.bounds.inflight_hi];
    for _ in 0..4 {
        for segment in 0..2_000 {
            let ack = Ack {
                delivered_segments: 1,
                cwnd_limited: true,
                ..Ack::default()
            };
            cc.rounds.started = segment == 1_999;
            cc.cwnd = cc.bounds.inflight_hi;
            cc.probe_upward(&ack);
        }
        his.push(cc.bounds.inflight_hi);
    }
    let steps: Vec<f64> = his.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (step, expected) in steps.iter().zip([1.0, 2.0, 4.0, 8.0]) {
        assert!((step - expected).abs() <= 1.0, "{steps:?}");
    }
}

#[test]
fn a_timeout_leaves_one_segment_and_then_the_old_window() {
    let mut pipe = pipe();
    pipe.run_for(Span::from_secs(4));
    let before = pipe.cc.cwnd();
    pipe.cc.on_timeout(&Congestion::default());
    assert!((pipe.cc.cwnd() - 1.0).abs() < f64::EPSILON);
    let ack = Ack {
        now: pipe.now,
        delivered_segments: 1,
        total_delivered_segments: pipe.tally.delivered + 1,
        phase: Phase::Open,
        ..Ack::default()
    };
    pipe.cc.on_ack(&ack);
    assert!(
        pipe.cc.cwnd() >= before - 1.0,
        "{} of {before}",
        pipe.cc.cwnd()
    );
}

#[test]
fn a_faster_path_is_found() {
    let mut pipe = pipe();
    pipe.run_for(Span::from_secs(5));
    pipe.segments_per_sec = 4.0 * RATE;
    pipe.run_for(Span::from_secs(12));
    assert!(share(&mut pipe, 4) > 0.8);
}
