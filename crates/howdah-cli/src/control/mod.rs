//! The door by which `howdah ctl` reaches a running copy or server: a Unix socket in a directory of the user's own.
//!
//! One line of JSON comes in, one goes back. Who may open the directory may do with the user's processes whatever he
//! likes anyhow, so there is no other check than that nobody else can.

mod message;
mod socket;

pub(crate) use crate::own_dir::{Sockets, directory, prepare};
pub(crate) use message::{Answer, Request, ServerStatus, SessionLine, Status, ask};
pub(crate) use socket::ControlSocket;

use crate::args::PaceArgs;
use crate::exit::words;
use crate::ui::{Reporter, Signals, Start};
use howdah::Throttle;
use socket::Controlled;

/// Everything that changes the pace of a running copy: the timetable, `howdah ctl`, signals.
#[derive(Debug)]
pub(crate) struct Control {
    controlled: Controlled,
    reporter: Reporter,
    _door: Option<ControlSocket>,
}

impl Control {
    /// From now until it is dropped.
    pub(crate) fn begin(
        throttle: &Throttle,
        pace: &PaceArgs,
        reporter: &Reporter,
        start: &Start,
    ) -> Self {
        let controlled = Controlled::new(
            throttle.clone(),
            pace.limit.clone(),
            reporter.clone(),
            start.clone(),
        );
        let answering = controlled.clone();
        let door = ControlSocket::open(move |request| answering.answer(request));
        if let Err(error) = &door {
            // The copy is worth more than its remote control.
            reporter.note(&format!("howdah ctl cannot reach this copy: {error}"));
        }
        Self {
            controlled,
            reporter: reporter.clone(),
            _door: door.ok(),
        }
    }

    /// To be called some times a second.
    pub(crate) fn attend(
        &self,
        signals: &Signals,
        reread: impl FnOnce() -> anyhow::Result<Option<PaceArgs>>,
    ) {
        if signals.take_asked() {
            self.reporter.say_how_it_stands();
        }
        if signals.take_reload() {
            match reread() {
                Ok(Some(pace)) => self.controlled.plan(pace.limit),
                Ok(None) => {}
                // What was in force stays in force.
                Err(error) => self.reporter.warn(&words(&error)),
            }
        }
        self.controlled.keep();
    }
}
