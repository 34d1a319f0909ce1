//! Who hears lines of text.

use howdah_audit::Level;
use std::sync::Arc;

/// Receives one line of text for each thing that happens. The default throws them away.
#[derive(Clone)]
pub struct Log(Arc<Hearer>);

type Hearer = dyn Fn(Level, &str) + Send + Sync;

impl Log {
    /// Lines go to `line`.
    pub fn new(line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |_, text| line(text)))
    }

    /// Lines go to `line`, with how much they matter.
    pub fn with_levels(line: impl Fn(Level, &str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(line))
    }

    pub(crate) fn line(&self, text: &str) {
        self.at(Level::Info, text);
    }

    pub(crate) fn at(&self, level: Level, text: &str) {
        (self.0)(level, text);
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log")
    }
}
