//! What ran it: the machine and the commit.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Processor, cores, memory, kernel.
pub fn machine() -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    if let Some(model) = field(&cpus, "model name") {
        out.insert("cpu".to_owned(), model);
    }
    if let Ok(cores) = std::thread::available_parallelism() {
        out.insert("cores".to_owned(), cores.to_string());
    }
    if let Some(memory) = field(&read("/proc/meminfo"), "MemTotal") {
        out.insert("memory".to_owned(), memory);
    }
    let kernel = read("/proc/sys/kernel/osrelease");
    if !kernel.is_empty() {
        out.insert("kernel".to_owned(), kernel.trim().to_owned());
    }
    out.insert("os".to_owned(), std::env::consts::OS.to_owned());
    out.insert("arch".to_owned(), std::env::consts::ARCH.to_owned());
    out
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

/// Commit of the sources that this program was built from and whether they differed from it; of a debug build what
/// they are now. "unknown" where there is no repository.
pub(super) fn commit() -> (String, bool) {
    if let Some(commit) = option_env!("HOWDAH_COMMIT") {
        let changed = option_env!("HOWDAH_CHANGED") == Some("true");
        return (commit.to_owned(), changed);
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(sources)
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    match git(&["rev-parse", "HEAD"]) {
        Some(commit) => {
            let dirty = git(&["status", "--porcelain", "--untracked-files=no"]);
            (commit, dirty.is_none_or(|changes| !changes.is_empty()))
        }
        None => ("unknown".to_owned(), false),
    }
}

/// Seconds since 1970.
pub(super) fn unix_time_s() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
