//! Ours, exactly as it ships: `howdah serve` and `howdah cp`.

use super::{Errand, Figures, Launch, Ready, Recipe, Said, last_json};
use crate::netns::Trouble;
use crate::protocol::{HOWDAH, HOWDAH_FIXED};
use serde::Deserialize;
use std::ffi::OsString;
use std::path::Path;

const PORT: u16 = 4433;

pub(super) fn runs(protocol: &str) -> bool {
    [HOWDAH, HOWDAH_FIXED].contains(&protocol)
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "as for programs that may be missing"
)]
pub(super) fn prepare(errand: &Errand<'_>, dir: &Path) -> Result<Launch, Trouble> {
    let at = format!("{}:{PORT}", errand.ends.receiver);
    let file = |name: &str| OsString::from(dir.join(name));
    let key = |name: &str| OsString::from(errand.kit.key(name));
    let source = match errand.flow.size_bytes {
        Some(bytes) => format!("zero:{bytes}"),
        None => "zero:".to_owned(),
    };
    let mut sender = Recipe::new(errand.kit.howdah())
        .args(["cp", "--json", "--accept-new"])
        .args(["--identity".into(), key("client.pem")])
        .args(["--known-hosts".into(), file("known_hosts")])
        .ends_itself();
    if errand.flow.size_bytes.is_none() {
        sender = sender.args(["--time", &format!("{:.3}s", errand.seconds)]);
    }
    if let Some(bps) = errand
        .flow
        .options
        .rate_bps
        .filter(|_| errand.flow.protocol == HOWDAH_FIXED)
    {
        sender = sender.args(["--rate", &format!("{bps}bit")]);
    }
    Ok(Launch {
        receiver: Recipe::new(errand.kit.howdah())
            .args(["serve", "--listen", &at])
            .args(["--root".into(), OsString::from(dir)])
            .args(["--identity".into(), file("server.pem")])
            .args(["--authorized-keys".into(), key("authorized_keys")])
            .ready(Ready::Line("serving ")),
        sender: sender.args([source, format!("howdah://{at}/null:")]),
        read: Box::new(read),
        keep: Vec::new(),
    })
}

/// The fields of `howdah cp --json` that count here.
#[derive(Deserialize)]
struct Report {
    bytes: u64,
    seconds: f64,
    retransmitted_bytes: u64,
    mtu: u64,
}

fn read(sender: &Said, _: &Said) -> Result<Figures, String> {
    let report: Report = last_json(sender, "howdah cp")?;
    Ok(Figures {
        algorithm: "howdah".to_owned(),
        delivered_bytes: Some(report.bytes),
        seconds: Some(report.seconds),
        sent_bytes: Some(report.bytes + report.retransmitted_bytes),
        retransmitted_bytes: Some(report.retransmitted_bytes),
        environment: vec![("howdah_mtu".to_owned(), report.mtu.to_string())],
        samples: Vec::new(),
    })
}
