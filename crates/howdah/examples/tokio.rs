//! Two copies at a time in an asynchronous program, each with a deadline:
//! `cargo run -p howdah --features tokio --example tokio -- a.tar b.tar site:store/`.

use howdah::{Client, Error, ErrorKind};
use std::time::Duration;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [a, b, to] = &args[..] else {
        return Err(Error::new(ErrorKind::Usage, "usage: tokio FILE FILE TO"));
    };
    let client = Client::of_this_user()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build();
    let runtime = runtime.map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
    let copy = async |from: &str| {
        let copy = client.copy(from, to.as_str()).start();
        // A copy that nobody waits for any more ends, and is gone on with another time.
        let done = tokio::time::timeout(Duration::from_hours(1), copy).await;
        done.unwrap_or_else(|_| Err(Error::new(ErrorKind::Cancelled, "an hour is over")))
    };
    runtime.block_on(async {
        let (a, b) = tokio::join!(copy(a), copy(b));
        println!("{} bytes", a?.bytes + b?.bytes);
        Ok(())
    })
}
