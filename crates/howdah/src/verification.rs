//! What came of a comparison.

use crate::{Error, ErrorKind};
use howdah_tree::Tally;
use serde::Serialize;

/// What came of a comparison. Printed by `--json`; the field names are stable.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verification {
    /// Both sides were read in whole, and nothing differs.
    pub equal: bool,
    /// How contents were compared: `"blake3"`; `"reread"`, which is that of what both devices gave back; or
    /// `"size_and_time"`.
    pub compared_by: &'static str,
    /// From the call to the end, in seconds. `--json` has it beside these fields, as for a copy.
    #[serde(skip)]
    pub seconds: f64,
    /// What was compared.
    #[serde(flatten)]
    pub tally: Tally,
    /// Names that a side could not read.
    pub failed: u64,
    /// Files that changed or vanished while they were read.
    pub changed: u64,
    /// The first of each kind of trouble, a line each, with the side's letter.
    pub notes: Vec<String>,
}

impl Verification {
    /// Why it says less than it should: something could not be read.
    pub fn shortfall(&self) -> Option<Error> {
        let unread = self
            .failed
            .max(self.tally.unread.saturating_sub(self.changed));
        let kind = match (unread, self.changed) {
            (0, 0) => return None,
            (0, _) => ErrorKind::SourceChanged,
            _ => ErrorKind::Partial,
        };
        let first = self.notes.first();
        let first = first.map_or_else(String::new, |note| format!(" ({note})"));
        let text = format!(
            "{unread} could not be read, {} changed or vanished meanwhile; only the rest was compared{first}",
            self.changed
        );
        Some(Error::new(kind, text))
    }
}
