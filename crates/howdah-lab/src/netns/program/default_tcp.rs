//! TCP for programs that take the system's congestion control as it is.
//!
//! `net.ipv4.tcp_congestion_control` of a namespace can only name what the whole machine allows to everybody,
//! which may not be CUBIC. So the route to the other host names it, which counts before the default.

use super::{Recipe, Said, kernel};
use crate::netns::Trouble;
use crate::netns::plan::Ends;

/// What such programs run over.
pub(super) const DEFAULT_TCP: &str = "cubic";
/// Device of the emulator inside a namespace.
const DEVICE: &str = "wan0";
/// Sets the route, says what it is now, becomes the program.
const SCRIPT: &str = r#"ip route replace "$1/32" dev "$2" congctl "$3" && ip route get "$1" >&2 && shift 3 && exec "$@""#;

/// The sender, with [`DEFAULT_TCP`] for what it sends.
pub(super) fn over(program: Recipe, ends: Ends) -> Result<Recipe, Trouble> {
    kernel::congestion(DEFAULT_TCP)?;
    let mut wrapped = Recipe::new("sh")
        .args(["-c", SCRIPT, "sh"])
        .args([&ends.receiver.to_string(), DEVICE, DEFAULT_TCP])
        .args([program.program])
        .args(program.arguments);
    wrapped.environment = program.environment;
    wrapped.ends_itself = program.ends_itself;
    Ok(wrapped)
}

/// What the route said before the program started, for the record.
pub(super) fn read(sender: &Said) -> Result<Vec<(String, String)>, String> {
    let mut words = sender.err.split_ascii_whitespace();
    words.find(|word| *word == "congctl");
    match words.next() {
        Some(DEFAULT_TCP) => Ok(vec![(
            "tcp_congestion".to_owned(),
            format!("{DEFAULT_TCP} (set on the route)"),
        )]),
        other => Err(format!(
            "asked for TCP {DEFAULT_TCP}, the route has {}",
            other.unwrap_or("the default")
        )),
    }
}

/// What `ip route get` says, of iproute2 6.1.
#[cfg(test)]
pub(super) const ROUTE: &str =
    "10.88.0.2 dev wan0 src 10.88.0.1 uid 0 \n    cache congctl cubic \n";
