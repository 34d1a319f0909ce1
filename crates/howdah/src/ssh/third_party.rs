//! A copy between two other machines: both far ends are started from here, the data flows from one to
//! the other, and the one that sends tells through its channel how it goes.

use super::FarEnd;
use super::handover::{CopyEvent, OneCopy, ThirdPartyCopy};
use super::process::Lines;
use super::within::Within;
use crate::policy::Transport;
use crate::rules_digest::digest;
use crate::session::pace;
use crate::{
    Cancel, CopyConfig, Error, ErrorKind, PathBytes, Progress, SshLocation, SshTarget, Summary,
};
use howdah_core::{Rate, Span};
use howdah_session::{Change, RuleList, TreeOptions};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How often it is looked whether the user has had enough.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A sender that has not told anything for that long hangs.
const SILENCE_MAX: Duration = Duration::from_mins(15);

/// What is to go where.
pub(crate) struct Order<'a> {
    pub(crate) from: &'a SshTarget,
    pub(crate) sources: Vec<PathBytes>,
    pub(crate) to: &'a SshLocation,
    /// If they are trees, and not one file.
    pub(crate) tree: Option<TreeOptions>,
}

/// Lets one machine send to another one.
pub(crate) fn copy_between(
    order: Order<'_>,
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    if config.duration_limit.is_some() {
        let text = "--time works for copies from or to this machine";
        return Err(Error::new(ErrorKind::Usage, text));
    }
    let sender = FarEnd::start_sender(config, order.from, cancel)?;
    let target = &order.to.target;
    let only = one_copy(&order);
    let hears_changes = order.tree.as_ref().is_some_and(|options| options.dry_run);
    let within = Within::of_put(order.to.path.clone(), order.tree.as_ref());
    let key = (&sender.key(), within);
    let receiver = FarEnd::start_for(config, target, key, Some(Box::new(only)), cancel)?;
    let pace = pace::wanted(config.policy, config.share, &config.throttle);
    let errand = ThirdPartyCopy {
        sources: order.sources,
        destination: order.to.path.clone(),
        tree: order.tree,
        host: target.host().to_owned(),
        port: receiver.port(),
        addresses: receiver.addresses(),
        key: receiver.key().to_string(),
        pace,
        transport: match config.transport {
            Transport::Auto => 0,
            Transport::Udp => 1,
            Transport::Tcp => 2,
        },
        resume: config.resume,
        reread: config.reread,
        wait_for_space_s: config.wait_for_space.as_millis().div_ceil(1000),
        hears_notes: true,
        idle_timeout_ms: Some(config.idle_timeout.as_millis()),
        growing: config.growing,
        wordy: config.ssh.wordy,
        hears_changes,
    };
    let told = sender.send_on(errand)?;
    let summary = watch(&told, (&sender, &receiver), config, cancel, on_progress)?;
    sender.leave();
    receiver.leave();
    Ok(summary)
}

/// What the receiver must let the sender do.
fn one_copy(order: &Order<'_>) -> OneCopy {
    // Rules may be long, so only what tells them from others goes there; the list is for the one who walks.
    let tree = order.tree.as_ref().map(|options| TreeOptions {
        files: None,
        rules: RuleList::default(),
        ..options.clone()
    });
    let names = order.sources.iter().filter_map(|source| {
        let name = source.as_path().file_name()?;
        Some(PathBytes::from(name))
    });
    OneCopy {
        destination: order.to.path.clone(),
        names: names.collect(),
        tree,
        selection: order.tree.as_ref().map(digest),
    }
}

fn watch(
    told: &Receiver<CopyEvent>,
    (sender, receiver): (&FarEnd, &FarEnd),
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let mut silent = Duration::ZERO;
    let mut lines = Lines::default();
    let mut pace = pace::wanted(config.policy, config.share, &config.throttle);
    loop {
        let wanted = pace::wanted(config.policy, config.share, &config.throttle);
        if wanted != pace {
            pace = wanted;
            sender.set_pace(pace);
        }
        let next = told.recv_timeout(LOOK_EVERY);
        // Ctrl-C is for every process of a terminal, ssh too: what the others say of it is no news.
        if cancel.is_cancelled() && !matches!(next, Ok(CopyEvent::Done(_))) {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        match next {
            Ok(CopyEvent::Progress {
                bytes,
                total_bytes,
                files_done,
                files_total,
                elapsed_us,
                goodput_bps,
                wire_bps,
                rtt_us,
                loss,
                current,
                answered,
                resumed_bytes,
            }) => on_progress(&Progress {
                answered,
                resumed_bytes,
                current,
                bytes,
                total_bytes,
                files_done,
                files_total,
                wire_rate_now: Rate::from_bits_per_sec(wire_bps),
                elapsed: Span::from_micros(elapsed_us),
                goodput_now: Rate::from_bits_per_sec(goodput_bps),
                rtt: Span::from_micros(rtt_us),
                loss: loss.clamp(0.0, 1.0),
                ..Progress::default()
            }),
            Ok(CopyEvent::Warning(text)) => {
                lines.show(&config.warn, &format!("{}: {text}", sender.name()));
            }
            Ok(CopyEvent::Note(text)) => {
                lines.show(&config.note, &format!("{}: {text}", sender.name()));
            }
            Ok(CopyEvent::Change { word, path }) => {
                if let Some(change) = Change::from_word(word, path.as_path().to_owned()) {
                    config.changes.hear(&[change]);
                }
            }
            Ok(CopyEvent::Done(summary)) => return Ok(*summary),
            Ok(CopyEvent::Failed {
                kind,
                message,
                stuck,
            }) => {
                let error = failure((sender.name(), receiver.name()), kind, &message);
                return Err(if stuck { error.stuck() } else { error });
            }
            Err(RecvTimeoutError::Timeout) if silent < SILENCE_MAX => {
                silent += LOOK_EVERY;
                continue;
            }
            Err(_) => {
                let lost = Error::new(
                    ErrorKind::Network,
                    format!("{} says nothing any more; try again", sender.name()),
                );
                return Err(sender.explain(lost));
            }
        }
        silent = Duration::ZERO;
    }
}

/// What the sender says of its failure, for whoever asked for the copy.
fn failure((sender, receiver): (&str, &str), kind: u8, message: &str) -> Error {
    let (kind, text) = match super::kinds::kind(kind) {
        ErrorKind::Network => {
            let text = format!(
                "{message}; the data goes from {sender} to {receiver} directly, not by way of this machine"
            );
            (ErrorKind::Network, text)
        }
        // Whoever is here did not do that: it is as if the machine were gone.
        ErrorKind::Cancelled => (
            ErrorKind::Network,
            "the howdah there was stopped; try again".to_owned(),
        ),
        kind => (kind, message.to_owned()),
    };
    Error::new(kind, format!("{sender}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssh::kinds::kind_number;

    /// N1: the far end of somebody who shuts down that machine, as of a server that is stopped.
    #[test]
    fn n1_a_sender_that_is_stopped_there_is_a_lost_connection_and_no_wish_of_the_user() {
        let said = |kind| {
            failure(
                ("a", "b"),
                kind_number(kind),
                "interrupted; the same command goes on",
            )
        };
        let stopped = said(ErrorKind::Cancelled);
        assert!(stopped.is_lost_connection(), "{stopped}");
        assert!(
            stopped
                .to_string()
                .starts_with("a: the howdah there was stopped"),
            "{stopped}"
        );
        assert!(
            said(ErrorKind::Network)
                .to_string()
                .contains("from a to b directly")
        );
        assert_eq!(said(ErrorKind::NoSpace).kind(), ErrorKind::NoSpace);
    }
}
