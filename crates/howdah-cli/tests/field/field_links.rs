//! T15: machines that are reached by link-local addresses, over a pair of virtual Ethernet devices.
#![cfg(target_os = "linux")]

use crate::support::place::{content, world};
use crate::support::process::Input;
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use howdah_wan::{Namespace, WanConfig};
use std::fs;
use std::time::{Duration, Instant};

fn ip(namespace: &Namespace, args: &str) -> Result<String, String> {
    let args: Vec<&str> = args.split(' ').collect();
    let done = namespace.command("ip").args(&args).output().unwrap();
    if done.status.success() {
        Ok(String::from_utf8(done.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

/// A link between the two, whose ends have other names; `None` where there is none.
fn link(near: &Namespace, far: &Namespace) -> Option<()> {
    let add = format!(
        "link add lan0 type veth peer name wire7 netns {}",
        far.name()
    );
    if let Err(why) = ip(near, &add) {
        println!("skipped: no virtual Ethernet here: {why}");
        return None;
    }
    for (namespace, device, address) in [(near, "lan0", "fe80::a"), (far, "wire7", "fe80::b")] {
        ip(namespace, &format!("link set {device} addrgenmode none up")).unwrap();
        ip(
            namespace,
            &format!("addr add {address}/64 dev {device} nodad"),
        )
        .unwrap();
    }
    let end = Instant::now() + Duration::from_secs(20);
    while !ip(near, "link show lan0").unwrap().contains("LOWER_UP") {
        assert!(Instant::now() < end, "the link does not come up");
    }
    Some(())
}

#[test]
fn t15_a_link_local_address_keeps_its_link() {
    let site = Site::new(200);
    let Some(world) = world(&WanConfig::default()) else {
        return;
    };
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    if link(world.near(), world.far()).is_none() {
        return;
    }
    let bytes = content("link", (2 << 20) + 5);
    fs::write(site.file("here"), &bytes).unwrap();
    let (here, back) = (site.file("here"), site.file("back"));
    let there = site.root("there");

    // A server on that link only, which is named by its device there.
    let mut server = site.serve_at(far, "[fe80::b%wire7]:4440", &site.root(""));
    for url in [
        "howdah://[fe80::b%lan0]:4440/there",
        "howdah://[fe80::b%25lan0]:4440/there",
    ] {
        for transport in ["udp", "tcp"] {
            for ends in [[&*here, url], [url, &*back]] {
                let args = [&["--transport", transport], &ends[..]].concat();
                let done = site.copy_with(near, &args, Input::None);
                done.assert_copied(bytes.len() as u64, "blake3");
            }
        }
        assert!(fs::read(&there).unwrap() == bytes && fs::read(&back).unwrap() == bytes);
    }
    server.await_line("fe80::a", Duration::from_secs(10));
    server.stop();

    // And ssh, whose far end calls the link by another name.
    let Some(sshd) = Sshd::start(&site, far, "::") else {
        return;
    };
    let config = fs::read_to_string(sshd.file("ssh_config")).unwrap();
    let start = config.find("Host far far2").unwrap();
    let config = config[start..]
        .replace("Host far far2", "Host *\nHostKeyAlias [::]:2222")
        .replace("HostName ::\n", "");
    let at = sshd.file("link_config");
    fs::write(&at, config).unwrap();
    let ssh = format!("ssh -F {}", at.display());
    let url = format!("ssh://[fe80::b%lan0]:2222{there}");
    let scp = format!("[fe80::b%lan0]:{there}");
    for transport in ["udp", "tcp"] {
        for ends in [
            [&*here, &*url],
            [&*url, &*back],
            [&*here, &*scp],
            [&*scp, &*back],
        ] {
            let args = ["cp", "--json", "--ssh", &ssh, "--transport", transport];
            let args = [&args[..], &ends].concat();
            let done = site.start(near, "nobody", &args, Input::None).finish();
            done.assert_copied(bytes.len() as u64, "blake3");
            assert!(!done.err.contains("through ssh itself"), "{}", done.err);
        }
    }
    // Between two others, which call their links as they like.
    let other = format!("ssh://[fe80::b%lan0]:2222{}", site.root("other"));
    let args = [
        "cp",
        "--json",
        "--ssh",
        &ssh,
        "--transport",
        "udp",
        &url,
        &other,
    ];
    let done = site.start(near, "nobody", &args, Input::None).finish();
    done.assert_copied(bytes.len() as u64, "blake3");
    assert!(fs::read(site.root("other")).unwrap() == bytes);
    site.assert_nothing_half_done();
}
