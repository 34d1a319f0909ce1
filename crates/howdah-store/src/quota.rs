//! How much may come in a session: one account for all that it asks for, one thing after the other or at the same time.

use crate::StoreError;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module. Its copies are the same account. The default has no bound.
#[derive(Clone, Debug, Default)]
pub struct Quota(Option<Arc<Account>>);

#[derive(Debug)]
struct Account {
    bytes: Counter,
    files: Counter,
    /// As many as files, besides them: somebody who brings few files needs few.
    directories: Counter,
}

#[derive(Debug)]
struct Counter {
    /// `u64::MAX`: any number.
    most: u64,
    taken: AtomicU64,
}

impl Counter {
    fn new(most: Option<u64>) -> Self {
        Self {
            most: most.unwrap_or(u64::MAX),
            taken: AtomicU64::new(0),
        }
    }

    fn copied(&self) -> Self {
        Self {
            most: self.most,
            taken: AtomicU64::new(self.taken.load(Ordering::Relaxed)),
        }
    }

    /// Takes all of it, or nothing and says what the most is.
    fn take(&self, count: u64) -> Result<(), u64> {
        let take = |taken: u64| taken.checked_add(count).filter(|all| *all <= self.most);
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map(drop).map_err(|_| self.most)
    }

    fn give_back(&self, count: u64) {
        let back = |taken: u64| Some(taken.saturating_sub(count));
        let _ = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, back);
    }
}

fn over(path: &Path, most: u64, what: &str) -> StoreError {
    StoreError::OverQuota {
        path: path.to_path_buf(),
        what: format!("{most} {what}"),
    }
}

impl Quota {
    /// So many files and bytes of them. `None`: any number.
    pub fn new(files: Option<u64>, bytes: Option<u64>) -> Self {
        if files.is_none() && bytes.is_none() {
            return Self::default();
        }
        Self(Some(Arc::new(Account {
            bytes: Counter::new(bytes),
            files: Counter::new(files),
            directories: Counter::new(files),
        })))
    }

    /// The same, as it is now, for somebody who only asks what would be.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self(self.0.as_ref().map(|account| {
            Arc::new(Account {
                bytes: account.bytes.copied(),
                files: account.files.copied(),
                directories: account.directories.copied(),
            })
        }))
    }

    /// Whether there is a bound.
    pub fn is_bounded(&self) -> bool {
        self.0.is_some()
    }

    /// Takes in a file, or a link, which takes a name as well; `path` is told if it is too much.
    pub fn take_file(&self, path: &Path) -> Result<(), StoreError> {
        let Some(account) = &self.0 else {
            return Ok(());
        };
        let taken = account.files.take(1);
        taken.map_err(|most| over(path, most, "files"))
    }

    /// The same of many.
    pub fn take_files(&self, path: &Path, count: u64) -> Result<(), StoreError> {
        let Some(account) = &self.0 else {
            return Ok(());
        };
        let taken = account.files.take(count);
        taken.map_err(|most| over(path, most, "files"))
    }

    /// Takes in new directories.
    pub fn take_directories(&self, path: &Path, count: u64) -> Result<(), StoreError> {
        let Some(account) = &self.0 else {
            return Ok(());
        };
        let taken = account.directories.take(count);
        taken.map_err(|most| over(path, most, "files and as many directories"))
    }

    /// These were there already.
    pub fn give_back_directories(&self, count: u64) {
        if let Some(account) = &self.0 {
            account.directories.give_back(count);
        }
    }

    /// Takes in bytes of a file.
    pub fn take_bytes(&self, path: &Path, bytes: u64) -> Result<(), StoreError> {
        let Some(account) = &self.0 else {
            return Ok(());
        };
        let taken = account.bytes.take(bytes);
        taken.map_err(|most| over(path, most, "bytes"))
    }

    /// Whether so many bytes of a file could come now: an error if not, and nothing is taken.
    pub fn check_bytes(&self, path: &Path, bytes: u64) -> Result<(), StoreError> {
        self.copied().take_bytes(path, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h9_all_that_a_session_brings_goes_on_one_account() {
        let quota = Quota::new(Some(2), Some(10));
        let (path, other) = (Path::new("x"), quota.clone());
        quota.check_bytes(path, 10).unwrap();
        quota.take_bytes(path, 6).unwrap();
        let dry = quota.copied();
        dry.take_bytes(path, 4).unwrap();
        let error = other.take_bytes(path, 5).unwrap_err().to_string();
        assert!(error.contains("more than 10 bytes"), "{error}");
        assert!(other.check_bytes(path, 5).is_err());
        // What was refused took nothing, and what was only asked about neither.
        other.take_bytes(path, 4).unwrap();
        assert!(quota.take_bytes(path, 1).is_err() && quota.take_bytes(path, u64::MAX).is_err());
        for _ in 0..2 {
            quota.take_file(path).unwrap();
        }
        let error = other.take_file(path).unwrap_err().to_string();
        assert!(error.contains("more than 2 files"), "{error}");
        assert!(quota.take_directories(path, 3).is_err());
        quota.take_directories(path, 2).unwrap();
        assert!(other.take_directories(path, 1).is_err());
        other.give_back_directories(1);
        quota.take_directories(path, 1).unwrap();
        let any = Quota::new(None, None);
        assert!(!any.is_bounded());
        any.take_bytes(path, u64::MAX).unwrap();
        any.take_bytes(path, u64::MAX).unwrap();
        // One bound leaves the other things without.
        let bytes = Quota::new(None, Some(0));
        bytes.take_file(path).unwrap();
        bytes.take_bytes(path, 0).unwrap();
        assert!(bytes.is_bounded() && bytes.take_bytes(path, 1).is_err());
    }
}
