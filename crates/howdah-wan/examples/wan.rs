//! A bare front end for measuring the emulator: `wan RATE DELAY LOSS QUEUE MTU -- PROGRAM...` runs
//! the program in the near namespace; a first `far:SHELL COMMAND` argument after the dashes is
//! started in the far namespace before it.
//!
//! The delay is one way; both directions have rate, delay and queue, only forward has loss.

use howdah_core::units;
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_wan::{WanConfig, World, run};
use std::ffi::OsString;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rate, delay, loss, queue, mtu, dashes, program @ ..] = &arguments[..] else {
        return Err("usage: wan RATE DELAY LOSS QUEUE MTU -- [far:COMMAND] PROGRAM...".into());
    };
    if dashes != "--" {
        return Err("expected --".into());
    }
    let lane = PathConfig {
        rate: if rate == "none" {
            None
        } else {
            Some(units::parse_rate(rate)?)
        },
        delay: units::parse_span(delay)?,
        queue: QueueLimit::Time(units::parse_span(queue)?),
        ..PathConfig::default()
    };
    let forward = PathConfig {
        loss: LossModel::Bernoulli(units::parse_probability(loss)?),
        ..lane.clone()
    };
    let config = WanConfig {
        forward,
        backward: lane,
        mtu: mtu.parse()?,
        seed: 1,
    };
    let world = World::create(&config)?;
    let mut program = program.to_vec();
    let mut server = None;
    if let Some(command) = program.first().and_then(|first| first.strip_prefix("far:")) {
        server = Some(
            world
                .far()
                .command("sh")
                .args(["-c", &format!("exec {command}")])
                .spawn()?,
        );
        std::thread::sleep(Duration::from_millis(300));
        program.remove(0);
    }
    let argv: Vec<OsString> = program.into_iter().map(Into::into).collect();
    let outcome = run::exec_in(&world, &argv)?;
    if let Some(mut server) = server {
        server.kill()?;
        server.wait()?;
    }
    println!("{}", outcome.certificate);
    std::process::exit(outcome.status.code().unwrap_or(1));
}
