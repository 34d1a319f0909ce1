//! Copies a file, as `howdah cp` does: `cargo run -p howdah --example copy -- data.tar site:store/`.

use howdah::{Client, Error, ErrorKind};

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = &args[..] else {
        return Err(Error::new(ErrorKind::Usage, "usage: copy FROM TO"));
    };
    let client = Client::of_this_user()?;
    let summary = client.copy(from.as_str(), to.as_str()).run()?;
    println!(
        "{} bytes in {:.3} s, {:.2} Gbit/s, checked by {}",
        summary.bytes,
        summary.seconds,
        summary.goodput_bps / 1e9,
        summary.verified
    );
    Ok(())
}
