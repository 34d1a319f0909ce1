//! `howdah wan`.

use super::congestion::Congestion;
use crate::args::{PathArgs, Queue, WanArgs};
use crate::exit::Passed;
use crate::ui::{self, Signals};
use anyhow::ensure;
use howdah::{Error, ErrorKind};
use howdah_core::Span;
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit};
use howdah_wan::self_test::{self, SelfTestOptions};
use howdah_wan::{Certificate, WanConfig, WanError, World, run};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::atomic::Ordering;

pub(super) fn run(args: &WanArgs) -> anyhow::Result<()> {
    let config = with_trouble(args);
    let congestion = args.tcp.as_deref().map(Congestion::find).transpose()?;
    if args.self_test {
        let options = SelfTestOptions {
            rate: args.path.rate,
            seed: args.path.seed,
            ..SelfTestOptions::default()
        };
        let report = self_test::run(&options).map_err(|error| wan_error(&error))?;
        ui::print(&report.to_string())?;
        ensure!(
            report.passed(),
            "the emulator does not do what it is asked to do"
        );
    } else if args.hold {
        let signals = Signals::install()?;
        let stop = signals.cancel().flag();
        let mut set = Ok(());
        let ready = |world: &World| {
            set = congestion.as_ref().map_or(Ok(()), |tcp| tcp.set(world));
            if set.is_ok() {
                announce(world);
            } else {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let certificate = run::hold(&config, &stop, ready).map_err(|error| wan_error(&error))?;
        set?;
        show(&certificate);
    } else {
        let world = World::create(&config).map_err(|error| wan_error(&error))?;
        if let Some(congestion) = &congestion {
            congestion.set(&world)?;
        }
        let outcome = run::exec_in(&world, &args.command).map_err(|error| wan_error(&error))?;
        show(&outcome.certificate);
        match status(outcome.status) {
            0 => {}
            status => return Err(Passed(status).into()),
        }
    }
    Ok(())
}

/// The world that the arguments ask for, with random losses only.
pub(super) fn config(args: &PathArgs) -> WanConfig {
    let one_way = |loss: f64, delay: Span| PathConfig {
        rate: Some(args.rate),
        queue: match args.queue {
            Queue::Bytes(bytes) => QueueLimit::Bytes(bytes),
            Queue::Packets(packets) => QueueLimit::Packets(packets),
            Queue::Time(span) => QueueLimit::Time(span),
        },
        loss: if loss > 0.0 {
            LossModel::Bernoulli(loss)
        } else {
            LossModel::None
        },
        delay,
        ..PathConfig::default()
    };
    let there = args.rtt / 2;
    WanConfig {
        forward: one_way(args.loss, there),
        backward: one_way(
            args.loss_back.unwrap_or(args.loss),
            args.rtt.saturating_sub(there),
        ),
        mtu: args.mtu.into(),
        seed: args.seed,
    }
}

/// A failure of the emulator, sorted as the exit codes want it.
pub(super) fn wan_error(error: &WanError) -> Error {
    let kind = match error {
        WanError::NotPermitted => ErrorKind::Refused,
        WanError::BadConfig(_) => ErrorKind::Usage,
        WanError::Run { .. } => ErrorKind::NotFound,
        _ => ErrorKind::Io,
    };
    Error::new(kind, error.to_string())
}

fn with_trouble(args: &WanArgs) -> WanConfig {
    let mut config = config(&args.path);
    if let Some(ge) = args.ge {
        let bursts = LossModel::GilbertElliott {
            p_enter_bad: ge.enter,
            p_leave_bad: ge.leave,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        if args.path.loss_back.is_none() {
            config.backward.loss = bursts.clone();
        }
        config.forward.loss = bursts;
    }
    if let Some(most) = args.jitter {
        config.forward.jitter = Jitter::Uniform(most);
    }
    config
}

/// For scripts on standard output, for people on standard error.
fn announce(world: &World) {
    let (near, far) = (world.near().name(), world.far().name());
    // A closed output must not take the world away from whoever uses it.
    let _ = ui::print(&format!("near={near}\nfar={far}"));
    ui::say(&format!(
        "near is 10.88.0.1 and fd88::1: ip netns exec {near} COMMAND"
    ));
    ui::say(&format!(
        "far is 10.88.0.2 and fd88::2: ip netns exec {far} COMMAND"
    ));
    ui::say("the world stays until this process is interrupted");
}

fn show(certificate: &Certificate) {
    for line in certificate.to_string().lines() {
        ui::say(line);
    }
}

/// As a shell tells it: 128 plus the number of a deadly signal.
fn status(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    fn parse(words: &str) -> WanConfig {
        let words = format!("howdah wan {words} -- true");
        match Cli::try_parse_from(words.split_whitespace())
            .unwrap()
            .command
        {
            Command::Wan(args) => with_trouble(&args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_round_trip_is_cut_in_two_halves_and_loss_acts_both_ways() {
        let config = parse("--rtt 5ns --loss 2% --queue 100p --mtu 1500 --seed 7");
        assert_eq!(
            config.forward.delay + config.backward.delay,
            Span::from_nanos(5)
        );
        assert_eq!(config.forward.loss, LossModel::Bernoulli(0.02));
        assert_eq!(config.backward.loss, LossModel::Bernoulli(0.02));
        assert_eq!(config.forward.queue, QueueLimit::Packets(100));
        assert_eq!((config.mtu, config.seed), (1500, 7));
        let config = parse("--loss 2% --loss-back 0");
        assert_eq!(config.backward.loss, LossModel::None);
    }

    #[test]
    fn bursts_replace_random_losses() {
        let config = parse("--ge 1%,25%");
        assert!((config.forward.loss.stationary_loss() - 0.01 / 0.26).abs() < 1e-9);
        assert_eq!(config.forward.loss, config.backward.loss);
        let config = parse("--ge 1%,25% --loss-back 0.1%");
        assert_eq!(config.backward.loss, LossModel::Bernoulli(0.001));
        let config = parse("--jitter 3ms");
        let most = Span::from_millis(3);
        assert_eq!(config.forward.jitter, Jitter::Uniform(most));
        assert_eq!(config.backward.jitter, Jitter::None);
    }

    #[test]
    fn exactly_one_thing_is_done() {
        for words in [
            "howdah wan",
            "howdah wan --hold --self-test",
            "howdah wan --hold -- true",
        ] {
            assert!(
                Cli::try_parse_from(words.split_whitespace()).is_err(),
                "{words}"
            );
        }
        assert_eq!(status(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(status(ExitStatus::from_raw(9)), 137);
    }
}
