//! The algorithms of `bpf/` compiled for user space (`bpf/test/drive.c`) and driven event by event:
//! against the published formulas, and against the simulator's version of the same algorithm.
//! Without a C compiler these tests say so and pass.

use howdah_core::{Span, Time};
use howdah_rivals::tcp::cc::{self, Ack, CcSettings, Congestion, CongestionControl, Phase};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that drives the algorithm `object`, or `None` with a printed reason.
fn driver(object: &str, user: &str) -> Option<PathBuf> {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    // Tests of one file run at once: each has its own copy.
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("drive-{object}-{user}"));
    let compiled = Command::new("cc")
        .args([
            "-O2",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-Werror",
        ])
        .arg("-I")
        .arg(&bpf)
        .arg(format!("-DALGORITHM=\"../{object}.c\""))
        .arg(bpf.join("test/drive.c"))
        .arg("-o")
        .arg(&program)
        .output();
    match compiled {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{object}: {said}");
            Some(program)
        }
        Err(error) => {
            println!("skipped: no C compiler ({error})");
            None
        }
    }
}

/// Window and threshold after each event of the script.
fn drive(program: &Path, script: &str) -> Vec<(u64, u64)> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let script = script.to_owned();
    let writing = std::thread::spawn(move || input.write_all(script.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| {
            let (cwnd, ssthresh) = line.split_once(' ').unwrap();
            (cwnd.parse().unwrap(), ssthresh.parse().unwrap())
        })
        .collect()
}

/// A window of acknowledgements at `cwnd` segments outside slow start, then a loss at it: what
/// the window gains, and what the loss leaves.
fn increase_and_threshold(program: &Path, windows: &[u64]) -> Vec<(u64, u64)> {
    let mut script = String::new();
    for window in windows {
        writeln!(script, "window {window} {window}").unwrap();
        writeln!(script, "ack 1000000 {window} 100000 {window}").unwrap();
        writeln!(script, "window {window} {window}").unwrap();
        writeln!(script, "loss 1000000\nrecovered 1000000").unwrap();
    }
    let lines = drive(program, &script);
    assert_eq!(lines.len(), windows.len() * 5);
    windows
        .iter()
        .zip(lines.chunks(5))
        .map(|(&window, lines)| (lines[1].0 - window, lines[3].1))
        .collect()
}

/// b(w) and a(w) of RFC 3649 section 5.
fn rfc_3649(w: f64) -> (f64, f64) {
    let b = (0.1 - 0.5) * (w.ln() - 38f64.ln()) / (83_000f64.ln() - 38f64.ln()) + 0.5;
    let p = 0.078 / w.powf(1.2);
    (b, w * w * p * 2.0 * b / (2.0 - b))
}

#[test]
fn hstcp_follows_rfc_3649() {
    let Some(program) = driver("hstcp", "formula") else {
        return;
    };
    let windows: Vec<u64> = (39..400)
        .chain((1..=420).map(|index| index * 200))
        .collect();
    for (&window, (gained, left)) in windows
        .iter()
        .zip(increase_and_threshold(&program, &windows))
    {
        let w = window as f64;
        let (b, a) = rfc_3649(w);
        // The table has whole steps: row k holds from where a(w) passes k - 1 to where it is k.
        assert!(
            (a - 0.2..=a + 1.2).contains(&(gained as f64)),
            "a({window}) = {gained}, not {a:.2}"
        );
        // b is that of the row's upper end, in 1/256. Between the ends of the first rows it moves by
        // up to a sixteenth.
        let removed = 1.0 - left as f64 / w;
        let allowed = if w < 400.0 { 0.07 } else { 0.02 };
        assert!(
            (removed - b).abs() < allowed,
            "b({window}) = {removed:.3}, not {b:.3}"
        );
    }
    // At 38 segments and below it is Reno.
    for window in [2, 10, 38] {
        let (gained, left) = increase_and_threshold(&program, &[window])[0];
        assert_eq!((gained, left), (1, (window / 2).max(2)), "{window}");
    }
}

#[test]
fn scalable_follows_its_paper() {
    let Some(program) = driver("scalable", "formula") else {
        return;
    };
    for window in [17, 100, 1000, 100_000] {
        let (gained, left) = increase_and_threshold(&program, &[window])[0];
        assert_eq!(gained, window / 100, "{window}");
        assert_eq!(left, window * 7 / 8, "{window}");
    }
    let (gained, left) = increase_and_threshold(&program, &[16])[0];
    assert_eq!((gained, left), (1, 8), "the legacy window is Reno's");
}

#[test]
fn the_cube_root_is_one() {
    let Some(program) = driver("cubic05", "root") else {
        return;
    };
    let mut values: Vec<u64> = (0..63).map(|bits| 1 << bits).collect();
    values.extend((1..2000u64).map(|root| root * root * root));
    values.extend((1..2000u64).map(|distance| distance * 2_500_000_000));
    let mut script = String::new();
    for value in &values {
        writeln!(script, "root {value}").unwrap();
    }
    for (&value, (root, _)) in values.iter().zip(drive(&program, &script)) {
        let exact = (value as f64).cbrt();
        assert!(
            (root as f64 - exact).abs() <= 1.0,
            "{value}: {root}, not {exact}"
        );
    }
}

#[test]
fn htcp_grows_by_the_time_since_the_loss() {
    let Some(program) = driver("htcp", "formula") else {
        return;
    };
    for (rtt_ms, seconds, alpha) in [
        (100u64, 0.5, 1.0),
        (100, 1.0, 1.0),
        (100, 2.0, 11.25),
        (100, 3.0, 22.0),
        (100, 11.0, 126.0),
        // RTT scaling, bounded on both sides.
        (1, 3.0, 2.2),
        (180, 3.0, 39.6),
        (400, 3.0, 44.0),
    ] {
        let (rtt, at) = (rtt_ms * 1000, 1_000_000 + (seconds * 1e6) as u64);
        // Beta is a half until an event has passed, so that 2 (1 - beta) is one.
        let script =
            format!("window 10000 10000\nack 1000000 0 {rtt} 10000\nack {at} 10000 {rtt} 10000\n");
        let gained = drive(&program, &script)[2].0 - 10_000;
        assert_eq!(gained, alpha as u64, "{rtt_ms} ms, {seconds} s");
    }
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// A path of the test: 1 Gbit/s.
const SEGMENTS_PER_MS: f64 = 81.0;

/// Writes what happens to the simulator's version, as it happens, for the other.
struct Recorder {
    cc: Box<dyn CongestionControl>,
    script: String,
    /// The simulator's window after each event.
    windows: Vec<f64>,
    now_us: u64,
    base_rtt_us: u64,
    phase: Phase,
    delivered: u64,
    random: Random,
}

impl Recorder {
    fn new(simulated_as: &str, base_rtt_us: u64, seed: u64) -> Self {
        let entry = cc::find(simulated_as).unwrap();
        Self {
            cc: (entry.make)(&CcSettings::default()),
            script: String::new(),
            windows: Vec::new(),
            now_us: 1_000_000,
            base_rtt_us,
            phase: Phase::Open,
            delivered: 0,
            random: Random(seed),
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from_micros(self.now_us)
    }

    fn note(&mut self, event: &str) {
        writeln!(self.script, "{event}").unwrap();
        self.windows.push(self.cc.cwnd());
    }

    /// Queueing makes the RTT longer: up to 40 ms of it.
    fn rtt_us(&self) -> u64 {
        let base_ms = self.base_rtt_us as f64 / 1e3;
        let queued_ms = self.cc.cwnd() / SEGMENTS_PER_MS - base_ms;
        self.base_rtt_us + (queued_ms.clamp(0.0, 40.0) * 1e3) as u64
    }

    /// One round trip of acknowledgements of two segments.
    fn round(&mut self) {
        let window = self.cc.cwnd() as u32;
        let rtt_us = self.rtt_us();
        let acks = u64::from(window / 2).max(1);
        for _ in 0..acks {
            self.now_us += (rtt_us / acks).max(1);
            self.delivered += 2;
            // No two are alike, so that no comparison of times is a tie.
            let rtt_us = rtt_us + self.random.below(50);
            let span = Span::from_micros(rtt_us);
            self.cc.on_ack(&Ack {
                now: self.now(),
                acked_segments: 2,
                delivered_segments: 2,
                total_delivered_segments: self.delivered,
                rtt: Some(span),
                srtt: span,
                min_rtt: Span::from_micros(self.base_rtt_us),
                in_flight_segments: window,
                prior_in_flight_segments: window,
                in_flight_when_sent_segments: window,
                cwnd_limited: true,
                phase: self.phase,
                ..Ack::default()
            });
            self.note(&format!("ack {} 2 {rtt_us} {window}", self.now_us));
        }
    }

    fn congestion(&self) -> Congestion {
        let rtt = Span::from_micros(self.rtt_us());
        Congestion {
            now: self.now(),
            in_flight_segments: self.cc.cwnd() as u32,
            srtt: rtt,
            min_rtt: Span::from_micros(self.base_rtt_us),
            total_delivered_segments: self.delivered,
        }
    }

    fn loss(&mut self) {
        self.cc.on_congestion(&self.congestion());
        self.note(&format!("loss {}", self.now_us));
        self.now_us += self.rtt_us();
        self.cc.on_recovered(self.now());
        self.note(&format!("recovered {}", self.now_us));
    }

    fn undone_loss(&mut self) {
        self.cc.on_congestion(&self.congestion());
        self.note(&format!("loss {}", self.now_us));
        self.cc.on_undo(self.now());
        self.note(&format!("undo {}", self.now_us));
    }

    fn timeout(&mut self) {
        self.cc.on_timeout(&self.congestion());
        self.note(&format!("timeout {}", self.now_us));
        self.phase = Phase::Loss;
        for _ in 0..3 {
            self.round();
        }
        self.phase = Phase::Open;
        self.cc.on_recovered(self.now());
        self.note(&format!("refilled {}", self.now_us));
    }
}

/// A life of losses, timeouts and growth; returns the largest relative deviation of
/// the windows, and the mean one.
fn deviation(
    object: &str,
    simulated_as: &str,
    base_rtt_us: u64,
    seed: u64,
    timeouts: bool,
) -> Option<(f64, f64)> {
    let program = driver(object, &format!("{base_rtt_us}-{seed}-{timeouts}"))?;
    let mut random = Random(seed);
    let mut recorder = Recorder::new(simulated_as, base_rtt_us, !seed);
    while recorder.cc.cwnd() < 1500.0 && recorder.windows.len() < 50_000 {
        recorder.round();
    }
    for _ in 0..8 {
        match random.below(8) {
            0 if timeouts => recorder.timeout(),
            1 => recorder.undone_loss(),
            _ => recorder.loss(),
        }
        for _ in 0..random.below(40) {
            // The largest queue overflows.
            if recorder.rtt_us() >= base_rtt_us + 40_000 {
                recorder.loss();
            }
            recorder.round();
        }
    }
    let driven = drive(&program, &recorder.script);
    assert_eq!(driven.len(), recorder.windows.len());
    let (mut worst, mut sum) = (0.0f64, 0.0);
    for (&simulated, &(driven, _)) in recorder.windows.iter().zip(&driven) {
        // Whole segments there, fractions here.
        let apart = ((driven as f64 - simulated).abs() - 1.5).max(0.0);
        let share = apart / simulated.max(20.0);
        worst = worst.max(share);
        sum += share;
    }
    let mean = sum / driven.len() as f64;
    println!(
        "{object}, {} ms, seed {seed}: {} events, windows up to {:.0}, at most {:.2} % apart, {:.3} % on the average",
        base_rtt_us / 1000,
        driven.len(),
        recorder.windows.iter().copied().fold(0.0, f64::max),
        worst * 100.0,
        mean * 100.0
    );
    Some((worst, mean))
}

/// Checks one algorithm on short and long paths.
fn agrees_with_the_simulator(object: &str, simulated_as: &str, allowed: f64, timeouts: bool) {
    for (base_rtt_us, seed) in [(12_000, 1), (40_000, 2), (100_000, 3)] {
        let Some((worst, mean)) = deviation(object, simulated_as, base_rtt_us, seed, timeouts)
        else {
            return;
        };
        assert!(
            worst <= allowed && mean <= 0.005,
            "{object} at {base_rtt_us} us, seed {seed}: {:.2} %, on the average {:.3} %",
            worst * 100.0,
            mean * 100.0
        );
    }
}

#[test]
fn hstcp_agrees_with_the_simulator() {
    agrees_with_the_simulator("hstcp", "hstcp", 0.01, true);
}

#[test]
fn scalable_agrees_with_the_simulator() {
    agrees_with_the_simulator("scalable", "scalable", 0.01, true);
}

#[test]
fn htcp_agrees_with_the_simulator() {
    agrees_with_the_simulator("htcp", "htcp", 0.02, true);
}

#[test]
fn bic_agrees_with_the_simulator() {
    agrees_with_the_simulator("bic", "bic", 0.02, true);
}

#[test]
fn cubic05_agrees_with_the_simulator() {
    agrees_with_the_simulator("cubic05", "cubic2005", 0.02, true);
}

#[test]
fn fast_agrees_with_the_simulator() {
    // A timeout leaves 2 there and what is in flight here. A round trip whose end falls on the other
    // side of an acknowledgement shifts the law by one, until the window is at its fixed point again.
    agrees_with_the_simulator("fast", "fast", 0.1, false);
}
