"""Measures how long it takes from Enter to the first byte of data over ssh, in round trips; prints a Markdown table.

An emulated path, an sshd of its own. What ssh itself needs for an empty command is the least that anything over ssh can
take. HOWDAH names the binary (target/release/howdah). Needs root, iproute2, openssh.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from group import Group
from movers import Site
from procs import Failed, World, catch_signals, say

ROOT = Path(__file__).resolve().parent.parent


def first_byte_s(netns, argv):
    """Seconds until the first byte on standard output, and until the end."""
    begin = time.monotonic()
    command = ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", netns, *map(str, argv)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        first = child.stdout.read(1)
        first_s = time.monotonic() - begin
        child.stdout.read()
        said = child.stderr.read().decode(errors="replace")
        if child.wait(60) != 0:
            raise Failed(f"{argv[0]} failed with status {child.returncode}: {said.strip()}")
    return first_s if first else None, time.monotonic() - begin


def measure(howdah, scratch, rtt_ms, runs):
    """Rows of name, seconds to the first byte, seconds to the end."""
    raw, keys = scratch / "raw", scratch / "keys"
    raw.mkdir()
    keys.mkdir(mode=0o700)
    (scratch / "file").write_bytes(b"x" * 1000)
    rows = []
    with Group("near") as near, Group("far") as far:
        world = World(howdah, raw, rtt_ms=rtt_ms, loss_percent=0, rate="1gbit", queue="50ms")
        world.near_group, world.far_group = near, far
        with world, Site(world, keys, raw) as site:
            ssh = ["ssh", "-F", site.config, "far"]
            over = ["--quiet", "--ssh", site.ssh, "--remote-howdah", howdah, "--ssh-keep", "0"]
            # The run that is not counted makes the connection.
            kept = [*over[:-1], "1min"]
            cases = (
                ("`ssh far true`", [*ssh, "true"]),
                ("`ssh far cat file`", [*ssh, "cat", scratch / "file"]),
                ("`scp far:file ...`", ["scp", "-q", "-F", site.config, f"far:{scratch}/file", scratch / "got"]),
                ("`howdah cp far:file -`", [howdah, "cp", *over, f"far:{scratch}/file", "-"]),
                ("`howdah cp far:file ...`", [howdah, "cp", *over, f"far:{scratch}/file", scratch / "got"]),
                ("`howdah cp file far:...`", [howdah, "cp", *over, scratch / "file", f"far:{scratch}/put"]),
                ("`howdah cp far:file -`, connection there", [howdah, "cp", *kept, f"far:{scratch}/file", "-"]),
                ("`howdah cp file far:...`, connection there", [howdah, "cp", *kept, scratch / "file", f"far:{scratch}/put"]),
            )
            for name, argv in cases:
                # The first run fills caches and is not counted.
                results = [first_byte_s(world.near, argv) for _ in range(runs + 1)][1:]
                firsts = [first for first, _ in results if first is not None]
                first = statistics.median(firsts) if firsts else None
                rows.append((name, first, statistics.median(end for _, end in results)))
                say(f"{name}: {rows[-1]}")
    return rows


def main():
    """0: all ran; 2: cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rtt", type=int, default=100, metavar="MS")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    catch_signals()
    howdah = Path(os.environ.get("HOWDAH", ROOT / "target/release/howdah")).resolve()
    try:
        with tempfile.TemporaryDirectory(prefix=f"hbench-{os.getpid()}-", dir="/dev/shm") as scratch:
            rows = measure(howdah, Path(scratch), args.rtt, args.runs)
    except (Failed, OSError) as error:
        say(str(error))
        return 2
    print(f"| {args.rtt} ms, median of {args.runs} | first byte, ms | RTTs | end, ms | RTTs |\n| --- | ---: | ---: | ---: | ---: |")
    for name, first, end in rows:
        text = "| " + " | ".join(f"{s * 1e3:.0f} | {s * 1e3 / args.rtt:.1f}" if s else " | " for s in (first, end)) + " |"
        print(f"| {name} {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
