//! Makes a directory what another one is, and says what it deletes before it does it:
//! `cargo run -p howdah --example sync -- data site:store/data`.

use howdah::{ChangeLog, Client, Error, ErrorKind};

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = &args[..] else {
        return Err(Error::new(ErrorKind::Usage, "usage: sync FROM TO"));
    };
    let client = Client::of_this_user()?.configure(|config| {
        config.changes = ChangeLog::new(|changes| {
            for change in changes {
                println!("{change:?}");
            }
        });
    });
    let mirror = |dry_run: bool| {
        client
            .sync(from.as_str(), to.as_str())
            .options(|options| {
                options.delete = true;
                options.dry_run = dry_run;
            })
            .run()
    };
    mirror(true)?;
    let summary = mirror(false)?;
    println!("{} bytes moved", summary.bytes);
    Ok(())
}
