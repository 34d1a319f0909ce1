//! Processors, clocks, limits, programs.

use super::{Finding, ask, read};
use rustix::process::{Resource, getrlimit};

/// Enough for as many files at a time as a transfer has open, and some.
const LEAST_FILES: u64 = 1_024;

pub(super) fn check() -> Vec<Finding> {
    let mut findings = vec![aes(), processors()];
    findings.extend(governor());
    findings.push(clock_source());
    findings.push(clock_sync());
    findings.push(open_files());
    findings.push(ssh());
    findings
}

fn aes() -> Finding {
    #[cfg(target_arch = "x86_64")]
    let known = Some(std::arch::is_x86_feature_detected!("aes"));
    #[cfg(target_arch = "aarch64")]
    let known = Some(std::arch::is_aarch64_feature_detected!("aes"));
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let known: Option<bool> = None;
    match known {
        Some(true) => Finding::ok("aes", "AES in hardware"),
        Some(false) => Finding::note(
            "aes",
            "no AES in hardware: ChaCha20 is used, about a fifth as fast",
        ),
        None => Finding::note("aes", "unknown on this kind of processor"),
    }
}

fn processors() -> Finding {
    match std::thread::available_parallelism().map(usize::from) {
        Ok(1) => Finding::note(
            "processors",
            "1: the network and the disk share it; two are much better",
        ),
        Ok(n) => Finding::ok("processors", n.to_string()),
        Err(error) => Finding::note("processors", format!("unknown: {error}")),
    }
}

fn governor() -> Option<Finding> {
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")?;
    Some(if governor == "performance" {
        Finding::ok("governor", governor)
    } else {
        let text = format!("{governor}: clocks may be low when a burst comes");
        Finding::note("governor", text).remedy("cpupower frequency-set -g performance")
    })
}

fn clock_source() -> Finding {
    const FAST: [&str; 5] = [
        "tsc",
        "kvm-clock",
        "arch_sys_counter",
        "hyperv_clocksource_tsc_page",
        "xen",
    ];
    let base = "/sys/devices/system/clocksource/clocksource0";
    match read(format!("{base}/current_clocksource")) {
        Some(source) if FAST.contains(&source.as_str()) => Finding::ok("clock-source", source),
        Some(source) => {
            let text =
                format!("{source}: reading the time is slow, and it is read for each packet");
            let others = read(format!("{base}/available_clocksource")).unwrap_or_default();
            let better = FAST
                .iter()
                .find(|fast| others.split(' ').any(|o| o == **fast));
            let finding = Finding::note("clock-source", text);
            match better {
                Some(better) => {
                    finding.remedy(format!("echo {better} > {base}/current_clocksource"))
                }
                None => finding,
            }
        }
        None => Finding::note("clock-source", "unknown"),
    }
}

/// Transfers do not need it, but `sync` by time does, and logs.
fn clock_sync() -> Finding {
    let id = "clock-sync";
    let said = ask("timedatectl", &["show", "-p", "NTPSynchronized", "--value"]);
    let synchronised = match said.as_deref() {
        Some("yes") => Some(true),
        Some("no") => Some(false),
        _ => std::path::Path::new("/run/systemd/timesync/synchronized")
            .exists()
            .then_some(true),
    };
    let synchronised = match synchronised {
        // Another program may keep the time without systemd's knowing.
        Some(false) | None => ask("chronyc", &["-c", "tracking"])
            .map(|tracking| !tracking.contains("Not synchronised"))
            .or(synchronised),
        known => known,
    };
    match synchronised {
        Some(true) => Finding::ok(id, "the time is kept by the network"),
        Some(false) => Finding::note(
            id,
            "the time is not kept by the network; comparing files by their time needs it",
        )
        .remedy("timedatectl set-ntp true"),
        None => Finding::note(id, "nobody here knows whether the time is right"),
    }
}

fn open_files() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX);
    if soft >= LEAST_FILES {
        let text = limit
            .current
            .map_or_else(|| "unlimited".into(), |n| n.to_string());
        Finding::ok("open-files", text)
    } else {
        let hard = limit
            .maximum
            .map_or_else(|| "unlimited".into(), |n: u64| n.to_string());
        let text = format!("at most {soft} at a time (it may be raised to {hard})");
        Finding::change("open-files", text).remedy(format!("ulimit -n {LEAST_FILES}"))
    }
}

fn ssh() -> Finding {
    match ask("ssh", &["-V"]) {
        Some(version) => Finding::ok("ssh", version.lines().next().unwrap_or_default()),
        None => Finding::note(
            "ssh",
            "no program ssh: HOST:path cannot be reached, howdah:// can",
        )
        .remedy("apt-get install openssh-client"),
    }
}
