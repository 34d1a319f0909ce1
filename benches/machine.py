"""What was measured, and on what."""

import hashlib
import os
import platform
import re
import subprocess
from pathlib import Path


def date(now):
    """A moment as people read it."""
    return now.strftime("%Y-%m-%d %H:%M UTC")


def first_line(*argv):
    """First line that a program prints, or '?'."""
    try:
        done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "?"
    return next(iter(done.stdout.splitlines()), "")


def commit(root):
    """The commit of the working tree, and whether it has changes."""
    # Under sudo the tree belongs to somebody else.
    git = ["git", "-c", "safe.directory=*", "-C", root]
    changed = first_line(*git, "status", "--porcelain", "--untracked-files=no")
    return first_line(*git, "rev-parse", "--short=12", "HEAD") + (" with changes" if changed not in ("", "?") else "")


def is_stale(root, binary):
    """Whether a source that the binary is made of changed after it was built."""
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "Cargo.lock", "Cargo.toml", "crates"],
        capture_output=True, text=True, timeout=20, check=False,
    ).stdout
    sources = [Path(root, name) for name in listing.split("\0") if name and "/tests/" not in name]
    built = binary.stat().st_mtime
    return any(source.stat().st_mtime > built for source in sources if source.exists())


def facts(root, howdah):
    """The machine and the versions of everything that takes part."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    name = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": name.group(1).strip() if name else platform.machine(),
        "memory_gib": pages * page / 2**30,
        "kernel": f"{platform.system()} {platform.release()}",
        "load": " ".join(f"{value:.2f}" for value in os.getloadavg()),
        "python": platform.python_version(),
        "iperf3": " ".join(first_line("iperf3", "--version").split()[:2]),
        "howdah": first_line(howdah, "--version"),
        "howdah_is_stale": is_stale(root, howdah),
        "howdah_sha256": hashlib.sha256(howdah.read_bytes()).hexdigest(),
        "commit": commit(root),
    }
