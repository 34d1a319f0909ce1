//! What a library shows to others, one line for each thing, from what rustdoc tells of it as JSON: `make lint-api` holds the facade's
//! against crates/howdah/public-api.txt.
//!
//! `cargo run -p howdah-core --example public_api -- target/doc/howdah.json` prints it. What every type has (`Send`, `impl<T> From<T>`) and
//! what a derive says are left out.

use std::io::{self, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args_os()
        .nth(1)
        .ok_or("name rustdoc's JSON of a library: target/doc/howdah.json")?;
    let api = public_api::Builder::from_rustdoc_json(file)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    let mut out = io::stdout().lock();
    for item in api.items() {
        writeln!(out, "{item}")?;
    }
    Ok(())
}
