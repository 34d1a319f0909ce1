//! Shows how far a copy is, slows it down, and ends it after ten seconds. The next one goes on where it was:
//! `cargo run -p howdah --example progress -- big.tar site:store/`.

use howdah::{Cancel, Client, Error, ErrorKind, Rate};
use std::time::Duration;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = &args[..] else {
        return Err(Error::new(ErrorKind::Usage, "usage: progress FROM TO"));
    };
    let client = Client::of_this_user()?;
    let cancel = Cancel::new();
    let (throttle, switch) = (client.throttle().clone(), cancel.clone());
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(5));
        throttle.set_limit(Some(Rate::from_bits_per_sec(100_000_000)));
        std::thread::sleep(Duration::from_secs(5));
        switch.cancel();
    });
    let copy = client.copy(from.as_str(), to.as_str()).cancel(&cancel);
    let done = copy
        .on_progress(|now| {
            let total = now.total_bytes;
            let total = total.map_or_else(|| "?".to_owned(), |bytes| bytes.to_string());
            eprintln!("{} of {total} bytes, {}", now.bytes, now.goodput_now);
        })
        .run();
    match done {
        Ok(summary) => println!("{} bytes", summary.bytes),
        Err(error) if error.kind() == ErrorKind::Cancelled => println!("to be gone on with"),
        Err(error) => return Err(error),
    }
    Ok(())
}
