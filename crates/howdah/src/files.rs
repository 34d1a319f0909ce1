//! Who wants to hear of each name of a tree.

use howdah_session::Change;
use howdah_tree::PlacedFile;
use std::sync::Arc;

/// Hears of things as they are known: many at a time, on the thread that moves the data. Nobody listens to the
/// default, and then nothing is told.
pub struct Hears<T>(Option<Hearer<T>>);

type Hearer<T> = Arc<dyn Fn(&[T]) + Send + Sync>;

/// Hears of files that are complete, verified, durable and in place.
pub type FileLog = Hears<PlacedFile>;

/// Hears what a dry run would do, and why.
pub type ChangeLog = Hears<Change>;

impl<T> Hears<T> {
    /// They go to `hear`.
    pub fn new(hear: impl Fn(&[T]) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    pub(crate) fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    /// Tells it.
    pub fn hear(&self, things: &[T]) {
        if let Some(hear) = &self.0 {
            hear(things);
        }
    }
}

// Derived, these would ask the same of what is told.
impl<T> Clone for Hears<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Hears<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> std::fmt::Debug for Hears<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Hears").field(&self.is_heard()).finish()
    }
}
