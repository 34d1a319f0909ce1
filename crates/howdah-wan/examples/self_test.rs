//! Prints the emulator's self-test.

fn main() -> Result<(), howdah_wan::WanError> {
    let report = howdah_wan::self_test::run(&howdah_wan::self_test::SelfTestOptions::default())?;
    println!("{report}");
    Ok(())
}
