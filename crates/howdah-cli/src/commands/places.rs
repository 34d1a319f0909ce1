//! What `howdah ls`, `du` and `clean` have in common: places that are looked at one after the other.

use super::connect::config;
use super::hints;
use crate::args::ConnectArgs;
use crate::exit::{self, Passed};
use crate::ui::{self, Signals};
use howdah::{
    Cancel, CopyConfig, Error, ErrorKind, Expanded, Listing, Location, Log, Progress, TreeOptions,
    TreeReport, expand, list,
};

/// A command on its way through its places.
pub(super) struct Visit {
    pub(super) config: CopyConfig,
    signals: Signals,
    json: bool,
    /// What went wrong so far: it is told, and the other places come all the same.
    worst: Option<ErrorKind>,
    /// The first of it, in words.
    first: Option<String>,
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
        let mut config = config(connect, places.iter())?;
        config.warn = Log::new(|line| ui::say(&format!("warning: {line}")));
        config.heard = Log::new(ui::say);
        Ok(Self {
            config,
            signals,
            json,
            worst: None,
            first: None,
        })
    }

    pub(super) fn cancel(&self) -> &Cancel {
        self.signals.cancel()
    }

    /// What the names of the places mean.
    pub(super) fn expand(&mut self, places: &[Location]) -> anyhow::Result<Vec<Expanded>> {
        let cancel = self.signals.cancel().clone();
        match expand(places, &mut self.config, &cancel, &mut |_: &Progress| {}) {
            Ok(places) => Ok(places),
            Err(error) => {
                let error = error.into();
                if self.json {
                    ui::print(&ui::error_event(&error)?)?;
                }
                Err(error)
            }
        }
    }

    /// Hands what lies at a place to `take`, until that fails.
    pub(super) fn list(
        &self,
        place: &Location,
        options: &TreeOptions,
        mut take: impl FnMut(&Listing) -> anyhow::Result<()>,
    ) -> anyhow::Result<Result<TreeReport, Error>> {
        let (mut failure, cancel) = (None, self.signals.cancel());
        let mut tell = |next: &Listing| {
            if failure.is_none() {
                failure = take(next).err();
                if failure.is_some() {
                    cancel.cancel();
                }
            }
        };
        let result = list(place, options, &self.config, cancel, &mut tell, &mut |_| ());
        failure.map_or(Ok(result), Err)
    }

    /// Something at a place could not be read, or the place itself.
    pub(super) fn trouble(&mut self, place: &Location, error: &Error) -> Result<(), Error> {
        if error.kind() == ErrorKind::Cancelled {
            return Err(error.clone());
        }
        let text = format!("{place}: {}", hints::to(error, place));
        ui::say_error(&text);
        self.first.get_or_insert(text);
        self.worst = self.worst.or_else(|| Some(error.kind()));
        Ok(())
    }

    /// Notes of things that could not be read.
    pub(super) fn notes(&mut self, place: &Location, count: u64, notes: &[String]) {
        for note in notes {
            ui::say(&format!("warning: {place}: {note}"));
        }
        if count > 0 {
            let first = notes.first();
            self.first = self
                .first
                .take()
                .or_else(|| Some(format!("{place}: {}", first?)));
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
                    let first = self.first.as_deref().unwrap_or("standard error says what");
                    let text = format!("not everything could be looked at: {first}");
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
