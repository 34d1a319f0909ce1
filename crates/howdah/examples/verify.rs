//! Compares two directories by content; each side hashes its own:
//! `cargo run -p howdah --example verify -- data site:store/data`.

use howdah::{Client, Error, ErrorKind};
use std::process::ExitCode;

fn main() -> Result<ExitCode, Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [a, b] = &args[..] else {
        return Err(Error::new(ErrorKind::Usage, "usage: verify A B"));
    };
    let verification = Client::of_this_user()?
        .verify(a.as_str(), b.as_str())
        .options(|options| options.checksum = true)
        .on_difference(|difference| println!("{difference:?}"))
        .run()?;
    Ok(if verification.equal {
        println!("equal, by {}", verification.compared_by);
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
