"""The programs that move files over ssh, each as the command that copies one directory into another."""

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from procs import Process, command
from transports import cold

SSH_PORT = 2222


class Site:
    """An sshd of our own on the far host, with keys made for it, and what a client needs to reach it."""

    def __init__(self, world, keys, raw):
        """Starts it. Nothing of the system's ssh is read or written."""
        self.config, self.address = keys / "ssh_config", world.far_address
        host_key, user_key = keys / "host", keys / "user"
        self.user_key = user_key
        for key in (host_key, user_key):
            if not key.exists():
                command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "howdah-bench", "-f", key)
        authorized = keys / "authorized"
        shutil.copy(user_key.with_suffix(".pub"), authorized)
        authorized.chmod(0o600)
        server = keys / "sshd_config"
        server.write_text(
            f"ListenAddress {world.far_address}\nPort {SSH_PORT}\nHostKey {host_key}\n"
            f"AuthorizedKeysFile {authorized}\nPidFile none\nUsePAM no\nStrictModes no\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nMaxStartups 100\n"
            "Subsystem sftp internal-sftp\n"
        )
        known = keys / "ssh_known_hosts"
        self.config.write_text(
            f"Host far\n HostName {world.far_address}\n Port {SSH_PORT}\n User root\n IdentityFile {user_key}\n"
            f" IdentitiesOnly yes\n UserKnownHostsFile {known}\n StrictHostKeyChecking accept-new\n LogLevel ERROR\n"
        )
        # sshd refuses to start without its directory for unprivileged children.
        Path("/run/sshd").mkdir(exist_ok=True)
        argv = [shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-e", "-f", server]
        out, err = raw / "sshd.out", raw / "sshd.log"
        self.process = Process("sshd", argv, out=out, err=err, netns=world.far, group=world.far_group)
        try:
            self.process.wait_for("Server listening")
        except BaseException:
            self.process.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stop()

    @property
    def ssh(self):
        """The command line that reaches the far host, less its name."""
        return f"ssh -F {shlex.quote(str(self.config))}"


@dataclass(frozen=True)
class Mover:
    """One program."""

    name: str
    program: str
    # (howdah, site, source directory, directory on the far host) -> argv; copies the content of the first into the second.
    copy: callable
    # Whether a second call leaves out what is there already.
    syncs: bool
    # Whether a second call goes on within a file.
    resumes: bool


def howdah(binary, site, source, target):
    """Ours, over ssh."""
    return [binary, "sync", "--json", *cold(binary), "--ssh", site.ssh, "--remote-howdah", binary, f"{source}/", f"far:{target}/"]


def rsync(_, site, source, target):
    """Delta transfer; keeps what had arrived of a file."""
    return ["rsync", "-a", "--partial", "-e", site.ssh, f"{source}/", f"far:{target}/"]


def scp(_, site, source, target):
    """OpenSSH's own, over SFTP."""
    # "." of a directory is its content.
    return ["scp", "-q", "-r", "-p", "-F", site.config, f"{source}/.", f"far:{target}/"]


def rclone(_, site, source, target):
    """Over its own SFTP, several files at a time as it comes."""
    there = ["--sftp-host", site.address, "--sftp-port", SSH_PORT, "--sftp-user", "root", "--sftp-key-file", site.user_key]
    return ["rclone", "copy", "--config", "/dev/null", *there, str(source), f":sftp:{target}"]


def tar(_, site, source, target):
    """The classic."""
    there = shlex.quote(f"tar -C {shlex.quote(str(target))} -xf -")
    return ["bash", "-o", "pipefail", "-c", f"tar -C {shlex.quote(str(source))} -cf - . | {site.ssh} far {there}"]


MOVERS = (
    Mover("howdah", "", howdah, syncs=True, resumes=True),
    Mover("rsync", "rsync", rsync, syncs=True, resumes=True),
    Mover("scp", "scp", scp, syncs=False, resumes=False),
    Mover("rclone (sftp)", "rclone", rclone, syncs=True, resumes=False),
    Mover("tar, ssh", "tar", tar, syncs=False, resumes=False),
)
