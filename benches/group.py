"""What a set of processes costs: a control group (version 2) of its own."""

import contextlib
import os
import shlex
import time
from pathlib import Path

from procs import Failed

PAGE = os.sysconf("SC_PAGE_SIZE")
LOOK_EVERY_S = 0.2


def mount():
    """Where the control groups of version 2 are; on hybrid systems beside those of version 1."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind = line.split()[:3]
        if kind == "cgroup2":
            return Path(where)
    raise Failed("no control groups of version 2 are mounted")


class Group:
    """Everything that was started in it, and what that started in turn."""

    def __init__(self, name):
        """Makes the group. Its name carries this script's pid."""
        self.path = mount() / f"hbench-{os.getpid()}-{name}"
        self.path.mkdir()
        self.peak_bytes, self.next_look, self.begin_us = 0, 0.0, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def inside(self, argv):
        """The command that runs `argv` in this group."""
        line = f'echo $$ > {shlex.quote(str(self.path / "cgroup.procs"))} && exec "$@"'
        return ["sh", "-c", line, "sh", *map(str, argv)]

    def pids(self):
        """Who is in it now."""
        return [int(line) for line in (self.path / "cgroup.procs").read_text().split()]

    def begin(self):
        """Counts from here on."""
        self.peak_bytes, self.begin_us = 0, self.used_us()

    def used_us(self):
        """Processor time since it was made, in microseconds."""
        for line in (self.path / "cpu.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "usage_usec":
                return int(value)
        return 0

    def cpu_s(self):
        """Processor seconds since `begin`."""
        return (self.used_us() - self.begin_us) / 1e6

    def look(self):
        """Notes how much memory is resident now; cheap enough to be called often."""
        now = time.monotonic()
        if now < self.next_look:
            return
        self.next_look = now + LOOK_EVERY_S
        total = 0
        for pid in self.pids():
            # Resident less shared with files: of a program that maps its input only what it made itself.
            with contextlib.suppress(OSError, ValueError, IndexError):
                _, resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[:3]
                total += (int(resident) - int(shared)) * PAGE
        self.peak_bytes = max(self.peak_bytes, total)

    def kill(self):
        """Ends all of it, at once, and waits until it is gone."""
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")
        end = time.monotonic() + 10
        while self.path.exists() and self.pids() and time.monotonic() < end:
            time.sleep(0.02)
