//! What must hold for every congestion control of the list, whatever happens to it.

use howdah_core::{Span, Time};
use howdah_rivals::tcp::cc::{ALL, Ack, CcSettings, Congestion, CongestionControl, Phase};
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn names_are_unique_and_the_objects_own() {
    let names: BTreeSet<_> = ALL.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), ALL.len());
    for entry in ALL {
        let object = (entry.make)(&CcSettings::default());
        assert_eq!(object.name(), entry.name);
    }
}

#[test]
fn everyone_starts_with_the_initial_window_or_less() {
    for entry in ALL {
        let object = (entry.make)(&CcSettings::default());
        assert!(
            (1.0..=10.0).contains(&object.cwnd()),
            "{} starts with {}",
            entry.name,
            object.cwnd()
        );
        assert!(object.ssthresh() >= 2.0, "{}", entry.name);
    }
}

/// Something that an engine may tell a congestion control, some time after the last.
#[derive(Clone, Copy, Debug)]
enum Event {
    Ack {
        acked: u32,
        rtt_ms: u64,
        limited: bool,
    },
    Loss,
    Timeout,
    Undo,
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let ack =
        (0..50u32, 1..800u64, any::<bool>()).prop_map(|(acked, rtt_ms, limited)| Event::Ack {
            acked,
            rtt_ms,
            limited,
        });
    prop_oneof![
        40 => ack,
        2 => Just(Event::Loss),
        1 => Just(Event::Timeout),
        1 => Just(Event::Undo),
        1 => Just(Event::Restart),
    ]
}

/// Keeps the order that the trait promises, and makes up the rest.
struct Engine<'a> {
    cc: &'a mut dyn CongestionControl,
    now: Time,
    phase: Phase,
    delivered: u64,
    min_rtt: Span,
}

impl Engine<'_> {
    fn in_flight(&self) -> u32 {
        self.cc.cwnd().min(1e6) as u32
    }

    fn congestion(&self) -> Congestion {
        Congestion {
            now: self.now,
            in_flight_segments: self.in_flight(),
            srtt: self.min_rtt,
            min_rtt: self.min_rtt,
            total_delivered_segments: self.delivered,
        }
    }

    fn handle(&mut self, event: Event, pause_us: u64) {
        self.now += Span::from_micros(pause_us);
        match event {
            Event::Ack {
                acked,
                rtt_ms,
                limited,
            } => self.acknowledge(acked, Span::from_millis(rtt_ms), limited),
            Event::Loss if self.phase != Phase::Recovery => {
                self.phase = Phase::Recovery;
                let event = self.congestion();
                self.cc.on_congestion(&event);
            }
            Event::Loss => {
                self.phase = Phase::Open;
                self.cc.on_recovered(self.now);
            }
            Event::Timeout => {
                self.phase = Phase::Loss;
                let event = self.congestion();
                self.cc.on_timeout(&event);
            }
            Event::Undo => {
                self.phase = Phase::Open;
                self.cc.on_undo(self.now);
            }
            Event::Restart => self.cc.on_restart(self.now, Span::from_secs(1)),
        }
    }

    fn acknowledge(&mut self, acked: u32, rtt: Span, limited: bool) {
        if self.phase == Phase::Loss && acked > 25 {
            self.phase = Phase::Open;
        }
        self.delivered += u64::from(acked);
        self.min_rtt = self.min_rtt.min(rtt);
        let in_flight = self.in_flight();
        self.cc.on_ack(&Ack {
            now: self.now,
            acked_segments: acked,
            delivered_segments: acked,
            total_delivered_segments: self.delivered,
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: self.min_rtt,
            in_flight_segments: in_flight,
            prior_in_flight_segments: in_flight + acked,
            in_flight_when_sent_segments: in_flight,
            cwnd_limited: limited,
            phase: self.phase,
            ..Ack::default()
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The window is a number, of one segment at least, and an algorithm that does not pace never
    /// adds more to it for an acknowledgement than that has acknowledged, and a segment.
    #[test]
    fn windows_stay_sane(events in prop::collection::vec((event(), 1..50_000u64), 1..400)) {
        for entry in ALL {
            let mut cc = (entry.make)(&CcSettings::default());
            let mut engine = Engine {
                cc: cc.as_mut(),
                now: Time::ZERO + Span::from_secs(1),
                phase: Phase::Open,
                delivered: 0,
                min_rtt: Span::from_secs(1),
            };
            for &(event, pause_us) in &events {
                let before = engine.cc.cwnd();
                engine.handle(event, pause_us);
                let (cwnd, ssthresh) = (engine.cc.cwnd(), engine.cc.ssthresh());
                prop_assert!(cwnd.is_finite() && cwnd >= 1.0, "{}: {cwnd}", entry.name);
                prop_assert!(ssthresh >= 2.0, "{}: threshold {ssthresh}", entry.name);
                if let Event::Ack { acked, .. } = event
                    && engine.cc.pacing_rate().is_none()
                {
                    let mut most = f64::from(acked.max(1)) + 1.0;
                    if entry.name == "fast" {
                        // Its law steps, up to double, on paths below 4 ms.
                        most = most.max(before);
                    }
                    prop_assert!(
                        cwnd <= before + most,
                        "{}: from {before} to {cwnd} for {acked}",
                        entry.name
                    );
                }
            }
        }
    }
}
