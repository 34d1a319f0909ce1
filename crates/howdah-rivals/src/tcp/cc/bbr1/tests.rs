use super::super::bbr::harness::{Pipe, TokenBucket, settings};
use super::*;

/// 120 Mbit/s of 1500-byte packets; 500 segments of BDP at 50 ms.
const RATE: f64 = 10_000.0;
const RTT: Span = Span::from_millis(50);

fn pipe() -> Pipe<Bbr1> {
    Pipe::new(Bbr1::new(&settings()), RATE, RTT)
}

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds)
}

/// Share of the bottleneck that a span of time delivered.
fn share(pipe: &mut Pipe<Bbr1>, seconds: u64) -> f64 {
    let before = pipe.tally.delivered;
    pipe.run_for(Span::from_secs(seconds));
    (pipe.tally.delivered - before) as f64 / (pipe.segments_per_sec * seconds as f64)
}

#[test]
fn startup_doubles_the_rate_each_round() {
    let mut pipe = pipe();
    let mut rates: Vec<(u64, f64)> = Vec::new();
    pipe.run_until(at(1.0), |pipe| {
        if pipe.cc.mode == Mode::Startup && rates.last().is_none_or(|r| r.0 != pipe.tally.rounds) {
            rates.push((pipe.tally.rounds, pipe.cc.max_bw.get()));
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
    // From 10 segments to a BDP of 500 there are 5.6 doublings.
    assert!(rates.len() >= 6 && rates.len() <= 13, "{rates:?}");
}

#[test]
fn startup_ends_after_three_rounds_without_growth() {
    let mut pipe = pipe();
    let (mut full_at, mut left_at) = (None, None);
    pipe.run_until(at(3.0), |pipe| {
        if pipe.cc.max_bw.get() > 0.95 * RATE && full_at.is_none() {
            full_at = Some(pipe.cc.rounds.count);
        }
        if pipe.cc.mode != Mode::Startup && left_at.is_none() {
            left_at = Some(pipe.cc.rounds.count);
        }
    });
    let rounds = left_at.unwrap() - full_at.unwrap();
    assert!((3..=4).contains(&rounds), "{rounds} rounds");
}

#[test]
fn drain_empties_the_queue_of_startup() {
    let mut pipe = pipe();
    let mut worst: f64 = 0.0;
    let mut drained = None;
    pipe.run_until(at(3.0), |pipe| {
        if pipe.cc.mode == Mode::Startup {
            worst = worst.max(pipe.queue());
        }
        if pipe.cc.mode == Mode::ProbeBw && drained.is_none() {
            drained = Some((pipe.queue(), pipe.in_flight()));
        }
    });
    // A window of 2.885 BDP leaves 1.885 BDP in the queue.
    let bdp = pipe.bdp();
    assert!(worst > 1.5 * bdp && worst < 2.2 * bdp, "{worst} of {bdp}");
    let (queue, in_flight) = drained.unwrap();
    assert!(queue < 0.1 * bdp, "{queue}");
    assert!(f64::from(in_flight) < 1.1 * bdp, "{in_flight}");
}

#[test]
fn the_phases_follow_each_other_and_last_one_round_trip() {
    let mut pipe = pipe();
    pipe.run_for(Span::from_secs(3));
    let mut changes: Vec<(usize, Time)> = Vec::new();
    pipe.run_until(at(9.0), |pipe| {
        if changes.last().is_none_or(|c| c.0 != pipe.cc.phase) {
            changes.push((pipe.cc.phase, pipe.now));
        }
    });
    for pair in changes.windows(2) {
        assert_eq!((pair[0].0 + 1) % 8, pair[1].0);
    }
    let mut unit_phases = 0;
    for pair in changes[1..].windows(2) {
        let lasted = pair[1].1.since(pair[0].1).as_secs_f64() / RTT.as_secs_f64();
        match pair[0].0 {
            // Until 1.25 BDP are in flight, and that is seen a round trip later at most.
            0 => assert!((1.0..2.6).contains(&lasted), "{lasted}"),
            // Until the queue is gone.
            1 => assert!(lasted < 1.3, "{lasted}"),
            _ => {
                assert!((1.0..1.1).contains(&lasted), "{lasted}");
                unit_phases += 1;
            }
        }
    }
    assert!(unit_phases > 50, "{unit_phases}");
}

#[test]
fn the_first_phase_is_drawn_and_never_the_draining_one() {
    let mut seen = [0; 8];
    for seed in 0..200 {
        let mut cc = Bbr1::new(&CcSettings { seed, ..settings() });
        cc.enter_probe_bw(Time::ZERO);
        seen[cc.phase] += 1;
    }
    assert_eq!(seen[1], 0);
    for (phase, times) in seen.iter().enumerate() {
        assert!(phase == 1 || *times > 10, "{seen:?}");
    }
}

#[test]
fn it_fills_the_path_and_holds_a_small_queue() {
    let mut pipe = pipe();
    pipe.run_for(Span::from_secs(2));
    assert!(share(&mut pipe, 7) > 0.97);
    let mut sum = 0.0;
    let mut seen = 0u32;
    let mut worst: f64 = 0.0;
    pipe.run_until(at(15.0), |pipe| {
        sum += pipe.queue();
        seen += 1;
        worst = worst.max(pipe.queue());
    });
    let mean = sum / f64::from(seen) / pipe.bdp();
    assert!(mean < 0.2, "{mean}");
    assert!(worst < pipe.bdp(), "{worst}");
}

#[test]
fn the_least_rtt_is_probed_for_every_ten_seconds() {
    let mut pipe = pipe();
    let mut episodes: Vec<(Time, Time)> = Vec::new();
    let mut inside = false;
    pipe.run_until(at(40.0), |pipe| {
        let probing = pipe.cc.mode == Mode::ProbeRtt;
        match (probing, inside) {
            (true, false) => episodes.push((pipe.now, pipe.now)),
            (true, true) => episodes.last_mut().unwrap().1 = pipe.now,
            _ => {}
        }
        inside = probing;
        if probing && pipe.cc.probe_rtt_until.is_some() {
            assert!(pipe.in_flight() <= 4);
        }
    });
    assert!(episodes.len() >= 2, "{episodes:?}");
    for pair in episodes.windows(2) {
        let gap = pair[1].0.since(pair[0].1).as_secs_f64();
        assert!((10.0..10.3).contains(&gap), "{gap}");
    }
    for (from, to) in &episodes {
        let lasted = to.since(*from).as_secs_f64();
        // Draining the pipe takes a round trip, then 200 ms and a round.
        assert!((0.2..0.4).contains(&lasted), "{lasted}");
    }
    // It returns to the window and the rate from before.
    assert!(pipe.cc.max_bw.get() > 0.97 * RATE);
    assert!(pipe.cc.cwnd() > 1.9 * pipe.bdp(), "{}", pipe.cc.cwnd());
}

#[test]
fn random_loss_does_not_slow_it_down() {
    for loss in [0.001, 0.01, 0.02] {
        let mut pipe = pipe();
        pipe.loss = loss;
        pipe.run_for(Span::from_secs(3));
        let got = share(&mut pipe, 7) / (1.0 - loss);
        assert!(got > 0.94, "{got} at {loss}");
    }
}

#[test]
fn the_first_round_of_a_recovery_sends_what_arrives() {
    let mut pipe = pipe();
    pipe.queue_segments = 50.0;
    let mut conserved = 0;
    let mut before = None;
    pipe.run_until(at(2.0), |pipe| {
        if pipe.cc.conserving {
            conserved += 1;
            // In flight after this one, plus this one.
            if let Some(was) = before
                && pipe.cc.mode == Mode::Startup
            {
                assert!(pipe.in_flight() <= was, "{} of {was}", pipe.in_flight());
            }
            before = Some(pipe.in_flight() + 1);
        } else {
            before = None;
        }
    });
    assert!(conserved > 100, "{conserved}");
}

#[test]
fn the_window_returns_after_a_recovery() {
    let mut cc = Bbr1::new(&settings());
    cc.cwnd = 500.0;
    let mut ack = Ack {
        delivered_segments: 1,
        total_delivered_segments: 1000,
        in_flight_segments: 300,
        phase: Phase::Recovery,
        lost_segments: 1,
        ..Ack::default()
    };
    cc.on_congestion(&Congestion::default());
    cc.on_ack(&ack);
    assert!((cc.cwnd() - 301.0).abs() < 1e-9, "{}", cc.cwnd());
    ack.phase = Phase::Open;
    ack.lost_segments = 0;
    cc.on_ack(&ack);
    assert!(cc.cwnd() >= 500.0, "{}", cc.cwnd());
}

#[test]
fn a_timeout_leaves_one_segment_and_then_the_old_window() {
    let mut pipe = pipe();
    pipe.run_for(Span::from_secs(5));
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
    assert!(pipe.cc.cwnd() >= before, "{} of {before}", pipe.cc.cwnd());
}

#[test]
fn a_policer_is_found_and_obeyed() {
    // A tenth of the link, and a second's worth at once.
    let policed = RATE / 10.0;
    let mut pipe = pipe();
    pipe.policer = Some(TokenBucket::new(policed, policed));
    let (mut first, mut found) = (None, 0.0);
    pipe.run_until(at(10.0), |pipe| {
        if let Some(rate) = pipe.cc.policer.rate() {
            first.get_or_insert(pipe.now);
            found = rate;
        }
    });
    assert!(first.unwrap() < at(5.0), "{first:?}");
    assert!((found / policed - 1.0).abs() < 0.15, "{found}");
    // Held for 48 rounds, in which little is lost.
    let mut used = 0;
    let mut losses = 0;
    let mut last = 0;
    pipe.run_until(at(25.0), |pipe| {
        if pipe.cc.policer.rate().is_some() {
            used += 1;
            losses += pipe.tally.lost - last;
        }
        last = pipe.tally.lost;
    });
    assert!(used > 1_000, "{used}");
    assert!(losses < used / 10, "{losses} of {used}");
}

#[test]
fn loss_below_a_fifth_is_no_policer() {
    let mut pipe = pipe();
    pipe.loss = 0.1;
    let mut seen = false;
    pipe.run_until(at(10.0), |pipe| seen |= pipe.cc.policer.rate().is_some());
    assert!(!seen);
}

#[test]
fn a_faster_path_is_found_within_cycles() {
    let mut pipe = pipe();
    pipe.run_for(Span::from_secs(5));
    pipe.segments_per_sec = 2.0 * RATE;
    pipe.run_for(Span::from_secs(3));
    assert!(share(&mut pipe, 1) > 0.9);
    // And a slower one, once the old maximum is ten rounds old.
    pipe.segments_per_sec = RATE / 2.0;
    pipe.run_for(Span::from_secs(5));
    assert!(
        pipe.cc.max_bw.get() < 0.55 * RATE,
        "{}",
        pipe.cc.max_bw.get()
    );
}
