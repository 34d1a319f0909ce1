//! Whether the terminal is ours to draw on: not while a question stands there, nor in the background of a shell.

use std::fs;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a question waits for its answer.
static QUESTION: AtomicBool = AtomicBool::new(false);

/// Nothing is drawn while `ask` runs.
pub(crate) fn with_a_question<T>(ask: impl FnOnce() -> T) -> T {
    QUESTION.store(true, Ordering::Relaxed);
    let answer = ask();
    QUESTION.store(false, Ordering::Relaxed);
    answer
}

/// What ends the command while a question stands begins a line of its own.
pub(crate) fn leave_question() {
    if QUESTION.swap(false, Ordering::Relaxed) {
        // The terminal may have gone, and that was what ended it.
        let _ = writeln!(io::stderr());
    }
}

pub(super) fn is_ours() -> bool {
    !QUESTION.load(Ordering::Relaxed) && !in_background()
}

/// Whether this process is in the background of its terminal. Where that cannot be told it is not.
fn in_background() -> bool {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    groups(&stat).is_some_and(|(own, front)| front > 0 && own != front)
}

/// The process group, and the one that is in front on the terminal, of a line as in `/proc/PID/stat`.
fn groups(stat: &str) -> Option<(i32, i32)> {
    // The name of the program, in brackets, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let own = fields.nth(2)?.parse().ok()?;
    let front = fields.nth(2)?.parse().ok()?;
    Some((own, front))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n10_the_background_of_a_terminal_is_told_from_its_foreground() {
        let line =
            |name: &str, own: i32, front: i32| format!("7 ({name}) S 1 {own} 5 34816 {front} 4 1");
        for name in ["howdah", "a b) S 1 2 3", "("] {
            assert_eq!(groups(&line(name, 7, 7)), Some((7, 7)), "{name}");
            assert_eq!(groups(&line(name, 7, 5)), Some((7, 5)), "{name}");
            assert_eq!(groups(&line(name, 7, -1)), Some((7, -1)), "{name}");
        }
        for odd in ["", "7 (x", "7 (x) S 1", "7 (x) S a b c d e f"] {
            assert_eq!(groups(odd), None, "{odd}");
        }
    }

    #[test]
    fn o3_nothing_is_drawn_while_a_question_stands() {
        with_a_question(|| assert!(!is_ours()));
        assert_eq!(is_ours(), !in_background());
    }
}
