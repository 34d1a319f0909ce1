//! What `howdah ls`, `du` and `clean` have in common: places that are looked at one after the other.

use super::cp::config;
use crate::args::ConnectArgs;
use crate::exit::{self, Passed};
use crate::ui::{self, Signals};
use howdah::{Cancel, CopyConfig, Error, ErrorKind, Expanded, Location, Log, Progress, expand};

/// A command on its way through its places.
pub(super) struct Visit {
    pub(super) config: CopyConfig,
    signals: Signals,
    json: bool,
    /// What went wrong so far: it is told, and the other places come all the same.
    worst: Option<ErrorKind>,
}

impl Visit {
    pub(super) fn begin(
        connect: &ConnectArgs,
        places: &[Location],
        json: bool,
    ) -> anyhow::Result<Self> {
        for place in places {
            if !place.is_remote() && !matches!(place, Location::File(_)) {
                let text = format!("{place} is neither a file nor a directory");
                return Err(Error::new(ErrorKind::Usage, text).into());
            }
        }
        let signals = Signals::install()?;
        let mut config = config(connect, places.iter(), &signals)?;
        config.warn = Log::new(|line| ui::say(&format!("warning: {line}")));
        config.heard = Log::new(ui::say);
        Ok(Self {
            config,
            signals,
            json,
            worst: None,
        })
    }

    pub(super) fn cancel(&self) -> &Cancel {
        self.signals.cancel()
    }

    /// What the names of the places mean.
    pub(super) fn expand(&mut self, places: &[Location]) -> Result<Vec<Expanded>, Error> {
        let cancel = self.signals.cancel().clone();
        expand(places, &mut self.config, &cancel, &mut |_: &Progress| {})
    }

    /// Something at a place could not be read, or the place itself.
    pub(super) fn trouble(&mut self, place: &Location, error: &Error) -> Result<(), Error> {
        if error.kind() == ErrorKind::Cancelled {
            return Err(error.clone());
        }
        ui::say_error(&format!("{place}: {error}"));
        self.worst = self.worst.or_else(|| Some(error.kind()));
        Ok(())
    }

    /// Notes of things that could not be read.
    pub(super) fn notes(&mut self, place: &Location, count: u64, notes: &[String]) {
        for note in notes {
            ui::say(&format!("warning: {place}: {note}"));
        }
        if count > 0 {
            self.worst = Some(ErrorKind::Partial);
        }
    }

    /// The end: the code of what went wrong. `places`: how many there were.
    pub(super) fn end(self, places: usize, summary: &serde_json::Value) -> anyhow::Result<()> {
        let worst = self.worst.map(|kind| match places {
            1 => kind,
            _ => ErrorKind::Partial,
        });
        if self.json {
            let line = match worst {
                None => ui::object("summary", summary)?,
                Some(kind) => {
                    let text = "not everything could be looked at; standard error says what";
                    ui::error_event(&Error::new(kind, text).into())?
                }
            };
            ui::print(&line)?;
        }
        match worst {
            None => Ok(()),
            Some(kind) => Err(Passed(exit::code(kind)).into()),
        }
    }
}
