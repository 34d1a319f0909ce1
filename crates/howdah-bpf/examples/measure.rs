//! `measure NAME RATE RTT QUEUE LOSS SECONDS [paced]`: one flow through an emulated path under a congestion
//! control, of `bpf/` or of the kernel's own. Prints goodput, what was lost where, and the windows.
//!
//! `paced` gives the sender the bottleneck's rate as `SO_MAX_PACING_RATE`. A namespace's device has no rate
//! of its own, so that without it a window leaves as bursts.

#[cfg(target_os = "linux")]
#[path = "../tests/it/transfer/mod.rs"]
#[allow(clippy::unwrap_used, reason = "shared with the tests")]
mod transfer;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use howdah_bpf::{Registered, list};
    use howdah_core::units;
    use howdah_path::{LossModel, PathConfig, QueueLimit};
    use howdah_wan::{WanConfig, World};

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, rate, rtt, queue, loss, seconds, how @ ..] = &arguments[..] else {
        return Err("usage: measure NAME RATE RTT QUEUE LOSS SECONDS [paced]".into());
    };
    let rate = units::parse_rate(rate)?;
    let lane = PathConfig {
        rate: Some(rate),
        queue: QueueLimit::Time(units::parse_span(queue)?),
        delay: units::parse_span(rtt)? / 2,
        ..PathConfig::default()
    };
    let world = World::create(&WanConfig {
        forward: PathConfig {
            loss: LossModel::Bernoulli(units::parse_probability(loss)?),
            ..lane.clone()
        },
        backward: lane,
        ..WanConfig::default()
    })?;
    let registered = if list().iter().any(|algorithm| algorithm.name == name) {
        Some(Registered::load_private(name)?)
    } else {
        None
    };
    let chosen = registered
        .as_ref()
        .map_or(name.as_str(), Registered::congestion_control_name);
    let paced = (how == ["paced"]).then_some(rate);
    let seconds = std::time::Duration::from_secs_f64(seconds.parse()?);
    let seen = transfer::transfer(&world, chosen, paced, seconds);
    let certificate = world.certificate();
    let path = &certificate.forward().path;
    println!(
        "{}: {:.0} Mbit/s over {:.1} s; lost {} at random, {} in the queue; {} reductions",
        seen.congestion_control,
        seen.mbit_per_second(),
        seen.seconds,
        path.dropped_loss,
        path.dropped_queue,
        seen.reductions().len(),
    );
    let mut windows: Vec<u32> = seen.samples.iter().map(|sample| sample.cwnd).collect();
    let last = windows.split_off(windows.len() / 2);
    let mean = last.iter().map(|&cwnd| f64::from(cwnd)).sum::<f64>() / last.len().max(1) as f64;
    println!("mean window of the second half: {mean:.0} segments");
    println!("{certificate}");
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
