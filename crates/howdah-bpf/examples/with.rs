//! `with NAME COMMAND...` registers a congestion control of `bpf/` while the command runs.

use howdah_bpf::{Registered, list};
use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, program, rest @ ..] = &arguments[..] else {
        for algorithm in list() {
            println!("{:<14} {}", algorithm.name, algorithm.about);
        }
        return Err("usage: with NAME COMMAND...".into());
    };
    let registered = Registered::load(name)?;
    let status = Command::new(program).args(rest).status()?;
    drop(registered);
    std::process::exit(status.code().unwrap_or(1));
}
