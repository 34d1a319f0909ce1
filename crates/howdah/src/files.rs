//! Who wants to hear of each file of a tree.

use howdah_store::PlacedFile;
use std::sync::Arc;

/// Hears of files that are complete, verified, durable and in place: many at a time, on the thread that moves
/// the data. Nobody listens to the default, and then nothing is told.
#[derive(Clone, Default)]
pub struct FileLog(Option<Hearer>);

type Hearer = Arc<dyn Fn(&[PlacedFile]) + Send + Sync>;

impl FileLog {
    /// Files go to `hear`.
    pub fn new(hear: impl Fn(&[PlacedFile]) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    pub(crate) fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn hear(&self, files: &[PlacedFile]) {
        if let Some(hear) = &self.0 {
            hear(files);
        }
    }
}

impl std::fmt::Debug for FileLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FileLog").field(&self.is_heard()).finish()
    }
}
