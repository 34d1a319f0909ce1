//! Programs that copy a file over ssh: to an sshd of the run's own, on the receiving host.
//!
//! Nothing of the machine's own ssh is used: keys, lists of keys and settings are made for the run, in its
//! directory, and gone with it. Both files are on the RAM disk; the one that is read has holes only.

use super::default_tcp::{self, DEFAULT_TCP};
use super::{Adapter, AdapterArgs, Figures, Launch, Ready, Recipe, Said, need, need_peer};
use crate::netns::Trouble;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const PORT: u16 = 2222;
/// IPv4 and UDP.
const HEADER_BYTES: u32 = 28;
/// How the client's settings call the other host.
const ALIAS: &str = "far";
/// sshd wants this empty directory for its unprivileged half; Debian's unit makes it when it starts sshd.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";
/// Share of the free memory that a file may fill.
const MOST_OF_MEMORY: f64 = 0.7;
const INSTALL: &str = "make peers, or apt-get install openssh-server openssh-client rsync rclone";
const QCP: &str = "qcp";

pub(super) const ALL: &[Adapter] = &[
    Adapter {
        name: "scp",
        prepare: |errand, dir| over_tcp(errand, dir, "scp", scp),
    },
    Adapter {
        name: "rsync",
        prepare: |errand, dir| over_tcp(errand, dir, "rsync", rsync),
    },
    Adapter {
        name: "rclone",
        prepare: |errand, dir| over_tcp(errand, dir, "rclone", rclone),
    },
    Adapter {
        name: QCP,
        prepare: qcp,
    },
];

/// Files of a run.
struct Place<'a> {
    dir: &'a Path,
    host: String,
}

impl Place<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Trouble> {
        fs::write(self.file(name), text).map_err(Trouble::io(format!("write {name}")))
    }

    /// From where to where.
    fn copy(&self) -> [String; 2] {
        let to = format!("{ALIAS}:{}", self.path("arrived"));
        [self.path("object"), to]
    }

    /// Makes a pair of keys; the public one.
    fn key(&self, keygen: &Path, name: &str) -> Result<String, Trouble> {
        let output = Command::new(keygen)
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "howdah-lab", "-f"])
            .arg(self.file(name))
            .output()
            .map_err(Trouble::io("run ssh-keygen"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Trouble::Failed(format!("ssh-keygen: {}", said.trim())));
        }
        fs::read_to_string(self.file(&format!("{name}.pub")))
            .map_err(Trouble::io("read a public key"))
    }

    /// Settings of both sides.
    fn furnish(&self, keygen: &Path) -> Result<(), Trouble> {
        let host_key = self.key(keygen, "host_key")?;
        let client_key = self.key(keygen, "client_key")?;
        let host = &self.host;
        self.write("authorized_keys", &client_key)?;
        self.write("known_hosts", &format!("[{host}]:{PORT} {host_key}"))?;
        // The log at this level names the cipher.
        let server = format!(
            "ListenAddress {host}\nPort {PORT}\nHostKey {}\nPidFile {}\nAuthorizedKeysFile {}\n\
             PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             StrictModes no\nUsePAM no\nUseDNS no\nPrintMotd no\nPermitUserRC no\nLogLevel DEBUG1\n\
             Subsystem sftp internal-sftp\n",
            self.path("host_key"),
            self.path("sshd.pid"),
            self.path("authorized_keys"),
        );
        self.write("sshd_config", &server)?;
        let client = format!(
            "Host {ALIAS}\nHostName {host}\nPort {PORT}\nUser root\nIdentityFile {}\nIdentitiesOnly yes\n\
             IdentityAgent none\nUserKnownHostsFile {}\nGlobalKnownHostsFile /dev/null\n\
             StrictHostKeyChecking yes\nBatchMode yes\nControlMaster no\nControlPath none\n",
            self.path("client_key"),
            self.path("known_hosts"),
        );
        self.write("ssh_config", &client)?;
        let remote = format!(
            "[{ALIAS}]\ntype = sftp\nhost = {host}\nport = {PORT}\nuser = root\nkey_file = {}\n\
             known_hosts_file = {}\nshell_type = unix\nmd5sum_command = md5sum\nsha1sum_command = sha1sum\n",
            self.path("client_key"),
            self.path("known_hosts"),
        );
        self.write("rclone.conf", &remote)
    }
}

fn scp(program: &Path, place: &Place<'_>) -> Recipe {
    Recipe::new(program)
        .args(["-q", "-F", &place.path("ssh_config")])
        .args([
            place.path("object"),
            format!("{ALIAS}:{}", place.path("arrived")),
        ])
}

fn rsync(program: &Path, place: &Place<'_>) -> Recipe {
    let shell = format!("ssh -F {}", place.path("ssh_config"));
    Recipe::new(program).args(["-e", &shell]).args([
        place.path("object"),
        format!("{ALIAS}:{}", place.path("arrived")),
    ])
}

fn rclone(program: &Path, place: &Place<'_>) -> Recipe {
    Recipe::new(program)
        .args(["--config", &place.path("rclone.conf"), "copyto"])
        .args([
            place.path("object"),
            format!("{ALIAS}:{}", place.path("arrived")),
        ])
}

fn over_tcp(
    errand: &AdapterArgs<'_>,
    dir: &Path,
    name: &'static str,
    client: fn(&Path, &Place<'_>) -> Recipe,
) -> Result<Launch, Trouble> {
    let (place, sshd, size) = prepare(errand, dir, name)?;
    let sender = client(&need(name, INSTALL)?, &place).ends_itself();
    let arrived = place.file("arrived");
    Ok(Launch {
        receiver: sshd,
        sender: default_tcp::over(sender, errand.ends)?,
        read: Box::new(move |sender, receiver| {
            read(name, complete(&arrived, size), sender, receiver)
        }),
        keep: Vec::new(),
    })
}

/// Is told rate, round-trip time and packet size of the path, as its manual asks for; ssh carries its settings only.
fn qcp(errand: &AdapterArgs<'_>, dir: &Path) -> Result<Launch, Trouble> {
    let (place, sshd, size) = prepare(errand, dir, QCP)?;
    let program = need_peer(errand, QCP)?;
    let payload = errand.mtu - HEADER_BYTES;
    let mut sender = Recipe::new(&program)
        .args(["-q", "-4", "--ssh-config", &place.path("ssh_config")])
        .args(["-S", "-F", "-S", &place.path("ssh_config")])
        .args(["--remote-qcp-binary".into(), program.into_os_string()])
        .args(["--rtt", &format!("{:.0}", (errand.rtt_s * 1e3).max(1.0))])
        .args(["--initial-mtu", &payload.to_string()])
        .args(["--max-mtu", &payload.to_string()]);
    if let Some(bps) = errand.rate_bps {
        let bytes = (bps / 8).to_string();
        sender = sender.args(["--tx", &bytes, "--rx", &bytes]);
    }
    let [from, to] = place.copy();
    let arrived = place.file("arrived");
    Ok(Launch {
        receiver: sshd,
        sender: sender.args([from, to]).ends_itself(),
        read: Box::new(move |_, _| {
            Ok(Figures {
                algorithm: "qcp, QUIC cubic".to_owned(),
                delivered_bytes: complete(&arrived, size),
                ..Figures::default()
            })
        }),
        keep: Vec::new(),
    })
}

/// Keys, settings and the file; the server, and the size.
fn prepare<'a>(
    errand: &AdapterArgs<'_>,
    dir: &'a Path,
    name: &str,
) -> Result<(Place<'a>, Recipe, u64), Trouble> {
    let size = errand.flow.size_bytes.ok_or_else(|| {
        Trouble::Skipped(format!("{name} copies files: it needs a flow with a size"))
    })?;
    need("ssh", INSTALL)?;
    let sshd = need("sshd", INSTALL)?;
    let keygen = need("ssh-keygen", INSTALL)?;
    let free = available_bytes();
    if free.is_some_and(|free| size as f64 > free as f64 * MOST_OF_MEMORY) {
        return Err(Trouble::Skipped(format!(
            "{name} writes a file of {size} bytes, and {} bytes of memory are free",
            free.unwrap_or_default()
        )));
    }
    let place = Place {
        dir,
        host: errand.ends.receiver.to_string(),
    };
    fs::create_dir_all(PRIVILEGE_SEPARATION)
        .map_err(Trouble::io(format!("make {PRIVILEGE_SEPARATION}")))?;
    place.furnish(&keygen)?;
    // Holes read as zeros and take no memory.
    let object = File::create(place.file("object")).and_then(|file| file.set_len(size));
    object.map_err(Trouble::io("make a file to send"))?;
    let server = Recipe::new(&sshd)
        .args(["-D", "-e", "-f", &place.path("sshd_config")])
        .ready(Ready::TcpPort(PORT));
    Ok((place, server, size))
}

/// The size of what arrived, if it is all of it.
fn complete(arrived: &Path, size: u64) -> Option<u64> {
    let bytes = fs::metadata(arrived).ok()?.len();
    (bytes == size).then_some(bytes)
}

/// `delivered_bytes`: of a complete file.
fn read(
    name: &str,
    delivered_bytes: Option<u64>,
    sender: &Said,
    receiver: &Said,
) -> Result<Figures, String> {
    let mut environment = default_tcp::read(sender)?;
    let cipher = cipher(&receiver.err).unwrap_or("unknown cipher");
    environment.push(("ssh_cipher".to_owned(), cipher.to_owned()));
    Ok(Figures {
        algorithm: format!("{name}, kernel {DEFAULT_TCP}, {cipher}"),
        delivered_bytes,
        over_tcp: true,
        environment,
        ..Figures::default()
    })
}

/// The cipher of what comes from the client, from the server's log.
fn cipher(log: &str) -> Option<&str> {
    log.lines().find_map(|line| {
        let (_, words) = line.split_once("kex: client->server cipher: ")?;
        words.split_ascii_whitespace().next()
    })
}

/// Memory that is free or can be made so.
fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sshd of OpenSSH 9.2, shortened.
    const LOG: &str = "\
debug1: kex: algorithm: sntrup761x25519-sha512 [preauth]
debug1: kex: host key algorithm: ssh-ed25519 [preauth]
debug1: kex: client->server cipher: chacha20-poly1305@openssh.com MAC: <implicit> compression: none [preauth]
debug1: kex: server->client cipher: chacha20-poly1305@openssh.com MAC: <implicit> compression: none [preauth]
";

    #[test]
    fn the_cipher_is_named() {
        let said = |err: &str| Said {
            out: String::new(),
            err: err.to_owned(),
        };
        let figures = read("scp", Some(5), &said(default_tcp::ROUTE), &said(LOG)).unwrap();
        assert_eq!(
            figures.algorithm,
            "scp, kernel cubic, chacha20-poly1305@openssh.com"
        );
        assert_eq!(figures.delivered_bytes, Some(5));
        let silent = read("scp", None, &said(default_tcp::ROUTE), &said("")).unwrap();
        assert!(silent.algorithm.contains("unknown"));
        assert!(read("scp", None, &said(""), &said(LOG)).is_err());
    }

    #[test]
    fn the_machine_has_memory() {
        assert!(available_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}
