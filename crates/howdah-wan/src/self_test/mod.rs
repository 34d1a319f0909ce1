//! The emulator measures itself: rates, losses, latency, cost.
//!
//! All traffic stays in two namespaces of its own. With the default options it takes about half a
//! minute; nothing in it waits without a limit.

mod report;
mod statistics;
mod traffic;

use crate::certificate::LatenessSummary;
use crate::{WanConfig, WanError, World};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig, QueueLimit};
pub use report::{LatencyResult, LossResult, RateResult, SelfTestReport};
use statistics::{GAP_CHI_SQUARE_LIMIT, binomial_z, gap_chi_square, losses, mean_run};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use traffic::{PAYLOAD, Received, TCP_PAYLOAD, WIRE_BYTES};

/// One-way delay of the world that is tested.
const DELAY: Span = Span::from_millis(5);
const FLOW_PORT: u16 = 5001;
const ECHO_PORT: u16 = 5002;

/// How to test.
#[derive(Clone, Debug)]
pub struct SelfTestOptions {
    /// Length of each of the ten or so measurements; 0.2 to 4 s.
    pub seconds_each: f64,
    /// The higher of the two rates tested, also the one that losses are tested at.
    pub rate: Rate,
    /// Seed of the world.
    pub seed: u64,
}

impl Default for SelfTestOptions {
    fn default() -> Self {
        Self {
            seconds_each: 2.0,
            rate: Rate::from_gbit_per_sec(10),
            seed: 1,
        }
    }
}

/// Measures.
///
/// # Errors
///
/// As [`World::create`]; [`WanError::System`] if a socket does not do what it should.
pub fn run(options: &SelfTestOptions) -> Result<SelfTestReport, WanError> {
    let lane = PathConfig {
        rate: Some(options.rate),
        queue: QueueLimit::Time(Span::from_millis(20)),
        delay: DELAY,
        ..PathConfig::default()
    };
    let config = WanConfig {
        forward: lane.clone(),
        backward: lane.clone(),
        seed: options.seed,
        ..WanConfig::default()
    };
    let world = World::create(&config)?;
    let test = Test {
        world: &world,
        lane,
        each: Duration::from_secs_f64(options.seconds_each.clamp(0.2, 4.0)),
    };
    test.run()
        .map_err(WanError::system("run the self-test's traffic"))
}

struct Test<'a> {
    world: &'a World,
    lane: PathConfig,
    each: Duration,
}

impl Test<'_> {
    fn run(&self) -> io::Result<SelfTestReport> {
        let full = self.lane.rate.unwrap_or(Rate::MAX);
        let latency = vec![
            self.latency("light load", None)?,
            self.latency("50 % load", Some(full.mul_f64(0.5)))?,
        ];
        let before = self.world.certificate();
        let fast = self.udp_rate(full)?;
        let after = self.world.certificate();
        let delivered =
            after.forward().path.bytes_delivered - before.forward().path.bytes_delivered;
        let cpu = after.emulator_cpu_s - before.emulator_cpu_s;
        let gbit = delivered as f64 * 8.0 / 1e9;
        let mut rates = vec![fast, self.udp_rate(Rate::from_gbit_per_sec(1))?];
        rates.push(self.tcp_rate(full)?);
        let mut losses = Vec::new();
        for p in [0.001, 0.01, 0.02] {
            losses.push(self.loss(&LossModel::Bernoulli(p))?);
        }
        losses.push(self.loss(&LossModel::GilbertElliott {
            p_enter_bad: 0.0025,
            p_leave_bad: 0.25,
            loss_good: 0.0,
            loss_bad: 1.0,
        })?);
        Ok(SelfTestReport {
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .map(|text| text.trim().to_owned())
                .unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            udp_offload: self.world.has_udp_offload(),
            configured_round_trip_ms: (DELAY + DELAY).as_secs_f64() * 1e3,
            latency,
            rates,
            losses,
            emulator_core_percent_per_gbit: 100.0 * cpu / gbit.max(1e-9),
            certificate: self.world.certificate(),
        })
    }

    fn set_rate(&self, rate: Rate) {
        self.world.set_forward(&PathConfig {
            rate: Some(rate),
            ..self.lane.clone()
        });
    }

    /// A numbered UDP flow from near to far: how many segments were sent, and what came.
    fn flow(&self, rate: Rate, duration: Duration) -> io::Result<(u64, Received)> {
        let from = traffic::udp_in(self.world.near(), 0)?;
        let to = traffic::udp_in(self.world.far(), FLOW_PORT)?;
        let finished = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| traffic::receive(&to, &finished));
            let sent = traffic::blast(&from, FLOW_PORT, rate, duration);
            finished.store(true, Ordering::Relaxed);
            let received = receiving
                .join()
                .map_err(|_| io::Error::other("the receiver died"))?;
            Ok((sent?, received?))
        })
    }

    fn udp_rate(&self, rate: Rate) -> io::Result<RateResult> {
        self.set_rate(rate);
        // Above the rate, so that the queue is never empty.
        let (_, received) = self.flow(rate.mul_f64(1.1), self.each)?;
        let measured = Rate::from_bytes_over(received.bytes, Span::from(received.elapsed));
        Ok(RateResult::new(
            "UDP",
            rate,
            rate.mul_f64(PAYLOAD as f64 / WIRE_BYTES),
            measured,
        ))
    }

    fn tcp_rate(&self, rate: Rate) -> io::Result<RateResult> {
        self.set_rate(rate);
        let (near, far) = (self.world.near(), self.world.far());
        let warm_up = self.each.mul_f64(0.75);
        let (measured, algorithm) = traffic::tcp(near, far, "bbr", warm_up, self.each)
            .or_else(|_| traffic::tcp(near, far, "cubic", warm_up, self.each))?;
        let expected = rate.mul_f64(TCP_PAYLOAD / WIRE_BYTES);
        Ok(RateResult::new(
            &format!("TCP {algorithm}"),
            rate,
            expected,
            measured,
        ))
    }

    fn loss(&self, model: &LossModel) -> io::Result<LossResult> {
        let rate = self.lane.rate.unwrap_or(Rate::MAX);
        // Whatever the sender's irregularities, nothing but the loss stage may drop.
        let config = PathConfig {
            rate: Some(rate),
            queue: QueueLimit::Unlimited,
            loss: model.clone(),
            ..self.lane.clone()
        };
        self.world.set_forward(&config);
        let before = self.world.certificate().forward();
        let (sent, received) = self.flow(rate.mul_f64(0.6), self.each)?;
        let after = self.world.certificate().forward();
        let mut seen = received.seen;
        seen.resize(sent as usize, false);
        let lost = losses(&seen);
        let p = model.stationary_loss();
        let planned = after.path.dropped_loss - before.path.dropped_loss + after.path.dropped_queue
            - before.path.dropped_queue;
        let count = lost.len() as u64;
        let mut result = LossResult {
            model: String::new(),
            configured: p,
            measured: count as f64 / sent.max(1) as f64,
            packets: sent,
            deviations: None,
            gap_chi_square: None,
            mean_run: mean_run(&lost),
            expected_run: 1.0 / (1.0 - p),
            not_by_the_path: count.saturating_sub(planned),
            passed: false,
        };
        if let LossModel::GilbertElliott { p_leave_bad, .. } = *model {
            "Gilbert-Elliott".clone_into(&mut result.model);
            result.expected_run = 1.0 / p_leave_bad;
            // Bursts make the count vary by more than a binomial one: by about the root of the
            // number of bursts, each of geometric length.
            let bursts = (count as f64 / result.expected_run).max(1.0);
            let tolerance = 5.0 * 2f64.sqrt() / bursts.sqrt();
            result.passed = (result.measured / p - 1.0).abs() < tolerance
                && (result.mean_run / result.expected_run - 1.0).abs() < tolerance;
        } else {
            "Bernoulli".clone_into(&mut result.model);
            let deviations = binomial_z(count, sent, p);
            let chi_square = gap_chi_square(&lost, p);
            result.passed = deviations.abs() < 4.0 && chi_square < GAP_CHI_SQUARE_LIMIT;
            result.deviations = Some(deviations);
            result.gap_chi_square = Some(chi_square);
        }
        Ok(result)
    }

    fn latency(&self, name: &str, load: Option<Rate>) -> io::Result<LatencyResult> {
        let rate = self.lane.rate.unwrap_or(Rate::MAX);
        self.set_rate(rate);
        let near = traffic::udp_in(self.world.near(), 0)?;
        let far = traffic::udp_in(self.world.far(), ECHO_PORT)?;
        let finished = AtomicBool::new(false);
        let added = std::thread::scope(|scope| {
            let echoing = scope.spawn(|| traffic::echo(&far, &finished));
            let loading = load.map(|load| {
                scope.spawn(move || self.flow(load, self.each + Duration::from_millis(200)))
            });
            let added = traffic::probe(&near, ECHO_PORT, DELAY + DELAY, self.each);
            finished.store(true, Ordering::Relaxed);
            let _ = echoing.join();
            if let Some(loading) = loading {
                let _ = loading.join();
            }
            added
        })?;
        Ok(LatencyResult {
            load: name.to_owned(),
            added: LatenessSummary::of(&added),
        })
    }
}
