//! The console in a browser.

use crate::ui;
use howdah_daemon::client::Client;
use howdah_daemon::tokens;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Shows it, logged in, or says how to get there.
pub(super) fn open(directory: &Path) -> Result<(), String> {
    let address = Client::new(directory)
        .ticket()
        .map_err(|error| error.to_string())?;
    let (bare, _) = address.split_once('#').unwrap_or((&address, ""));
    let by_hand = format!(
        "open {bare} in a browser; a token is in {}",
        directory.join(tokens::FILE).display()
    );
    let page = leave(directory, &address).map_err(|error| format!("{error}; {by_hand}"))?;
    let named = env::var_os("BROWSER").filter(|name| !name.is_empty());
    let program = named.unwrap_or_else(|| "xdg-open".into());
    let started = Command::new(&program)
        .arg(&page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(mut child) => {
            ui::say(&format!("showing {bare} in a browser"));
            std::thread::spawn(move || child.wait());
            Ok(())
        }
        Err(error) => {
            let program = program.display();
            Err(format!(
                "no browser could be started ({program}: {error}): {by_hand}"
            ))
        }
    }
}

/// A page that leads there. Everybody on this machine sees what a program is started with, so the address is in a file.
fn leave(directory: &Path, address: &str) -> io::Result<PathBuf> {
    let path = directory.join("open.html");
    // Of letters, digits and a few signs: nothing in it means something in a page.
    let page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>howdah</title>\n\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\">\n<p><a href=\"{address}\">The console of howdah daemon</a></p>\n"
    );
    howdah_daemon::write_private(&path, &page)?;
    Ok(path)
}
