//! Ours, exactly as it ships: `howdah serve` and `howdah cp`.

use super::{AdapterArgs, Figures, Launch, Ready, Recipe, Said, cut_off, last_json};
use crate::catalog::{HOWDAH, HOWDAH_BACKGROUND, HOWDAH_FIXED};
use crate::netns::Trouble;
use serde::Deserialize;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const PORT: u16 = 4433;
/// What else of a user is kept, paths above all, is below it.
const CONFIG_DIR: &str = "HOWDAH_CONFIG_DIR";

pub(super) fn runs(protocol: &str) -> bool {
    [HOWDAH, HOWDAH_FIXED, HOWDAH_BACKGROUND].contains(&protocol)
}

/// Whether a warm flow has something to begin with.
pub(in crate::netns) fn remembers(memory: &Path) -> bool {
    let paths = std::fs::read_dir(memory.join("paths"));
    paths.is_ok_and(|mut paths| paths.next().is_some())
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "as for programs that may be missing"
)]
pub(super) fn prepare(errand: &AdapterArgs<'_>, dir: &Path) -> Result<Launch, Trouble> {
    let at = format!("{}:{PORT}", errand.ends.receiver);
    let file = |name: &str| OsString::from(dir.join(name));
    let key = |name: &str| OsString::from(errand.kit.key(name));
    let size = errand.flow.size_bytes;
    let source = match size {
        Some(bytes) => format!("zero:{bytes}"),
        None => "zero:".to_owned(),
    };
    let mut sender = Recipe::new(errand.kit.howdah())
        .args(["cp", "--json", "--accept-new"])
        .args(["--identity".into(), key("client.pem")])
        .args(["--known-hosts".into(), file("known_hosts")])
        .ends_itself();
    if errand.flow.warm {
        let memory = OsString::from(errand.memory);
        sender.environment.push((CONFIG_DIR.to_owned(), memory));
    } else {
        // Whatever an earlier run over these addresses has learnt of another path.
        sender = sender.args(["--no-memory"]);
    }
    if errand.flow.size_bytes.is_none() {
        sender = sender.args(["--time", &format!("{:.3}s", errand.seconds)]);
    }
    if errand.flow.protocol == HOWDAH_BACKGROUND {
        sender = sender.args(["--policy", "background"]);
    }
    if let Some(sessions) = errand.flow.options.share_of {
        sender = sender.args(["--share", &format!("1/{sessions}")]);
    }
    if let Some(bps) = errand
        .flow
        .options
        .rate_bps
        .filter(|_| errand.flow.protocol == HOWDAH_FIXED)
    {
        sender = sender.args(["--rate", &format!("{bps}bit")]);
    }
    let mut receiver =
        Recipe::new(errand.kit.howdah()).args(["serve", "--keys-below-root", "--listen", &at]);
    if std::fs::metadata("/proc/self").is_ok_and(|us| us.uid() == 0) {
        // Namespaces take root, and what is in them is ours alone.
        receiver = receiver.args(["--user", "root"]);
    }
    Ok(Launch {
        receiver: receiver
            .args(["--root".into(), OsString::from(dir)])
            .args(["--identity".into(), file("server.pem")])
            .args(["--authorized-keys".into(), key("authorized_keys")])
            .ready(Ready::Line("serving ")),
        sender: sender.args([source, format!("howdah://{at}/null:")]),
        read: Box::new(move |sender, _| read(size, sender)),
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

fn read(size: Option<u64>, sender: &Said) -> Result<Figures, String> {
    if let Some(figures) = cut_off(size, "howdah", sender) {
        return Ok(figures);
    }
    let report: Report = last_json(sender, "howdah cp")?;
    Ok(Figures {
        algorithm: "howdah".to_owned(),
        delivered_bytes: Some(report.bytes),
        seconds: Some(report.seconds),
        sent_bytes: Some(report.bytes + report.retransmitted_bytes),
        retransmitted_bytes: Some(report.retransmitted_bytes),
        environment: vec![("howdah_mtu".to_owned(), report.mtu.to_string())],
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_copy_has_no_figures() {
        // The form of every error with `--json`.
        let said = Said {
            out: r#"{"schema":1,"error":{"kind":"interrupted","message":"stopped"}}"#.to_owned(),
            err: String::new(),
        };
        assert_eq!(read(Some(5), &said).unwrap().delivered_bytes, None);
        assert!(read(None, &said).is_err());
    }
}
