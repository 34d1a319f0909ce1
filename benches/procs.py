"""Processes and network namespaces that do not outlive this script.

Every process is started in a session of its own (the terminal's interrupts do not reach it), dies
with this script (PR_SET_PDEATHSIG) and is ended by its own pid. Namespaces carry this script's pid
in their names; those of a script that was killed are removed by the next one.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

NETNS = Path("/run/netns")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Failed(Exception):
    """A run that did not come to its end; the text says why."""


class Interrupted(KeyboardInterrupt):
    """A signal asked this script to end."""


def say(text):
    """Tells a person how far it is."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def catch_signals():
    """Turns the first signal into an exception, so that every `with` cleans up; ignores later ones."""

    def interrupt(number, _frame):
        for other in SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(signal.Signals(number).name)

    for number in SIGNALS:
        signal.signal(number, interrupt)


class Process:
    """A running program whose output goes to two files. Leaving the `with` ends it."""

    def __init__(self, name, argv, *, out, err, netns=None, group=None):
        """Starts `argv`, in the network namespace `netns` and the control group `group` if they are given."""
        self.name, self.out, self.err = name, Path(out), Path(err)
        inside = ["ip", "netns", "exec", netns] if netns else []
        command = ["setpriv", "--pdeathsig", "KILL", *inside, *map(str, argv)]
        if group:
            # From outside: `ip netns exec` mounts a /sys of its own, without the groups.
            command = group.inside(command)
        with self.out.open("wb") as stdout, self.err.open("wb") as stderr:
            self.child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
            )
        self.pid = self.child.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def wait_until(self, ready, patience=20.0):
        """Waits until `ready()` is true."""
        end = time.monotonic() + patience
        while not ready():
            if self.child.poll() is not None:
                raise self.failure("ended too early")
            if time.monotonic() > end:
                raise self.failure("does not get ready")
            time.sleep(0.02)

    def wait_for(self, text, patience=20.0):
        """Waits until it has written a whole line with `text` in it."""
        line = re.compile(re.escape(text) + r".*\n")
        said = lambda: self.out.read_text(errors="replace") + self.err.read_text(errors="replace")
        self.wait_until(lambda: line.search(said()), patience)

    def finish(self, patience, look=lambda: None):
        """Waits until it ends well, calling `look` a hundred times a second; gives back its output."""
        end = time.monotonic() + patience
        while self.child.poll() is None:
            look()
            if time.monotonic() > end:
                self.stop()
                raise self.failure(f"did not end within {patience:.0f} s")
            time.sleep(0.01)
        if self.child.returncode != 0:
            raise self.failure(f"failed with status {self.child.returncode}")
        return self.out.read_text(errors="replace")

    def stop(self, grace=10.0):
        """Interrupts it; kills it if it does not end within `grace` seconds."""
        for number, patience in ((signal.SIGINT, grace), (signal.SIGKILL, 5.0)):
            if self.child.poll() is None:
                self.child.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.child.wait(patience)

    def failure(self, what):
        """What went wrong, with what the program said last."""
        said = self.err.read_text(errors="replace").strip().splitlines()[-3:]
        text = self.out.read_text(errors="replace").strip()
        # The last of several objects, or one that may take several lines.
        for part in (text.rpartition("\n")[2], text):
            with contextlib.suppress(ValueError, AttributeError):
                if error := json.loads(part).get("error"):
                    said = [error["message"] if isinstance(error, dict) else str(error)]
                    break
        return Failed(f"{self.name} {what}" + (": " + "; ".join(said) if said else ""))


def command(*argv):
    """Runs a short command to its end; gives back its output."""
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, argv))}: {done.stderr.strip()}")
    return done.stdout


class World:
    """Two hosts and an emulated WAN between them: `howdah wan --hold`."""

    far_address = "10.88.0.2"

    def __init__(self, howdah, raw, *, rtt_ms, loss_percent, mtu=9000, rate="10gbit", queue="25ms", extra=()):
        """Starts the emulator. `certificate` holds its verdict once the `with` is left."""
        self.certificate = None
        path = ["--rate", rate, "--rtt", f"{rtt_ms:g}ms"]
        # Bursts (--ge) are told instead of random losses.
        path += [] if loss_percent is None else ["--loss", f"{loss_percent:g}%"]
        path += ["--queue", queue, "--mtu", mtu, *extra]
        argv = [howdah, "wan", *path, "--hold"]
        self.process = Process("howdah wan", argv, out=raw / "wan.out", err=raw / "wan.log")
        try:
            self.process.wait_for("far=")
            names = dict(line.split("=", 1) for line in self.process.out.read_text().splitlines())
            self.near, self.far = names["near"], names["far"]
        except BaseException:
            self.process.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stop()
        self.certificate = certificate(self.process.err.read_text(errors="replace"))

    def settle(self, rtt_s):
        """Waits until the path is empty: what one transport left behind must not meet the next."""
        time.sleep(2 * rtt_s + 0.3)
        end, before = time.monotonic() + 15, None
        while time.monotonic() < end:
            link = json.loads(command("ip", "-n", self.far, "-j", "-s", "link", "show", "dev", "wan0"))
            now = sum(link[0]["stats64"][way]["bytes"] for way in ("rx", "tx"))
            if before is not None and now - before < 20_000:
                return
            before = now
            time.sleep(max(0.3, rtt_s))
        say("the path does not come to rest")


def certificate(log):
    """What the emulator says about itself at the end: whether its run counts, and its own lines."""
    lines = [line.removeprefix("howdah: ") for line in log.splitlines()]
    about = [line for line in lines if re.match(r"emulated |forward |backward |certificate: ", line)]
    verdict = about[-1] if about and about[-1].startswith("certificate: ") else "certificate: none"
    return {
        "valid": verdict == "certificate: valid",
        "verdict": verdict.removeprefix("certificate: "),
        "lines": about,
    }


class Cable:
    """Two hosts and a veth pair between them, nothing emulated."""

    far_address = "10.89.0.2"

    def __init__(self, mtu):
        """Makes the namespaces."""
        self.near, self.far = (f"hbench-{os.getpid()}-{end}" for end in "ab")
        try:
            for name in (self.near, self.far):
                command("ip", "netns", "add", name)
            command("ip", "-n", self.near, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0",
                    "netns", self.far)
            for host, name in enumerate((self.near, self.far), start=1):
                command("ip", "-n", name, "addr", "add", f"10.89.0.{host}/24", "dev", "veth0")
                command("ip", "-n", name, "link", "set", "lo", "up")
                command("ip", "-n", name, "link", "set", "veth0", "mtu", mtu, "up")
        except BaseException:
            self.remove()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        """Deletes both namespaces and with them the cable."""
        for name in (self.near, self.far):
            if (NETNS / name).exists():
                command("ip", "netns", "delete", name)


def remove_stale(scratch):
    """Removes what a run of this script left behind that was killed: namespaces, and files in `scratch`."""
    for path in [*NETNS.glob("hbench-*-[ab]"), *scratch.glob("hbench-*-*")]:
        owner = path.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists():
            if path.parent == NETNS:
                command("ip", "netns", "delete", path.name)
            else:
                shutil.rmtree(path)
