//! How far somebody has come in the history, over restarts.

use crate::private;
use std::fs;
use std::io;
use std::path::PathBuf;

/// A number in a file of its own: nobody but the manager writes into the database.
#[derive(Debug)]
pub(crate) struct Position {
    path: PathBuf,
    at: i64,
}

impl Position {
    /// As it was left; otherwise (and if it makes no sense) there.
    pub(crate) fn load(path: PathBuf, otherwise: i64) -> Self {
        let left = fs::read_to_string(&path).ok();
        let left = left.and_then(|text| text.trim().parse().ok());
        // A history that is shorter is another one.
        let at = left
            .filter(|at| (0..=otherwise).contains(at))
            .unwrap_or(otherwise);
        Self { path, at }
    }

    pub(crate) fn get(&self) -> i64 {
        self.at
    }

    /// It has come so far, also if the machine goes down.
    pub(crate) fn set_durably(&mut self, at: i64) -> io::Result<()> {
        self.at = at;
        self.save_durably()
    }

    /// Up to there was nothing that is to be told.
    pub(crate) fn pass(&mut self, at: i64) {
        self.at = self.at.max(at);
    }

    pub(crate) fn save_durably(&self) -> io::Result<()> {
        private::write_new(&self.path, &format!("{}\n", self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_where_it_was_left_and_believes_no_nonsense() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("position");
        let load = |otherwise| Position::load(path.clone(), otherwise);
        let mut position = load(7);
        assert_eq!(position.get(), 7);
        position.set_durably(9).unwrap();
        assert_eq!(load(20).get(), 9);
        position.set_durably(11).unwrap();
        position.pass(10);
        assert_eq!((position.get(), load(20).get()), (11, 11));
        position.pass(12);
        assert_eq!((position.get(), load(20).get()), (12, 11));
        assert_eq!(load(8).get(), 8, "a database that was made anew");
        for text in ["", "x", "-4", "99999999999999999999"] {
            fs::write(&path, text).unwrap();
            assert_eq!(load(20).get(), 20, "{text}");
        }
    }
}
