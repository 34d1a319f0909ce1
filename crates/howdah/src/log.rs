//! Who hears lines of text.

use howdah_audit::Level;
use std::borrow::Cow;
use std::sync::Arc;

/// The longest line, in bytes, and what of its end stays of a longer one: names in it are as long as somebody else makes them, five times that when
/// nobody can read them, and why it failed stands behind them.
const LINE_MAX: usize = 8 << 10;
const END: usize = 2 << 10;

fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= LINE_MAX {
        return Cow::Borrowed(text);
    }
    let (start, _) = text.split_at(text.floor_char_boundary(LINE_MAX - END - 3));
    let (_, end) = text.split_at(text.ceil_char_boundary(text.len() - END));
    Cow::Owned(format!("{start}...{end}"))
}

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
        (self.0)(level, &shortened(text));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn h18_no_line_is_longer_than_it_may_be_and_its_end_stays() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let log = Log::new(move |line| kept.lock().expect("no panic").push(line.to_owned()));
        let name = "\u{e9}".repeat(30_000);
        log.line(&format!("put {name} failed: why"));
        log.line("short");
        let lines = lines.lock().expect("no panic");
        assert!(lines[0].len() <= LINE_MAX && lines[0].len() > LINE_MAX - 8);
        assert!(lines[0].starts_with("put \u{e9}") && lines[0].ends_with("\u{e9} failed: why"));
        assert_eq!(lines[1], "short");
    }
}
