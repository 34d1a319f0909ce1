//! The one question that howdah asks.

use super::printable;
use howdah::keys::NewHost;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};

/// Asks on the terminal whether to trust a new server; no terminal means no.
pub(crate) fn ask_about(new: &NewHost) -> bool {
    // Not standard input: that may be the data.
    let Ok(mut terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        return false;
    };
    let question = format!(
        "howdah: the server {} was never met; the fingerprint of its key is\n  {}\n\
         howdah: does 'howdah serve' print the same there? [yes/no] ",
        printable(&new.host),
        new.key.fingerprint()
    );
    let Ok(answers) = terminal.try_clone() else {
        return false;
    };
    let mut answers = BufReader::new(answers);
    // Three tries, so that a stream of nonsense ends.
    for _ in 0..3 {
        let mut answer = String::new();
        let asked = terminal.write_all(question.as_bytes());
        if asked.is_err() || answers.read_line(&mut answer).unwrap_or(0) == 0 {
            return false;
        }
        match answer.trim().to_ascii_lowercase().as_str() {
            "yes" | "y" => return true,
            "no" | "n" => return false,
            _ => {}
        }
    }
    false
}
