"""Measures how fast trees of files move between two hosts, beside other people's programs; prints Markdown tables.

Every program copies the content of one directory into another over an emulated path and an sshd of its own. Standard
output gets the tables, standard error the progress; figures and every program's output go to target/bench/DATE/.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import sysconfig
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import files_report
import machine
from group import Group
from movers import MOVERS, Site
from procs import Failed, Interrupted, Process, World, catch_signals, command, remove_stale, say

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "performance.md"
RTT_MS = 100
PATHS = (("1gbit", 0.0), ("1gbit", 0.1), ("10gbit", 0.0), ("10gbit", 0.1))
CASES = ("file", "small", "source", "again", "soon", "resume")
FULL = {"file_bytes": 4 << 30, "small_files": 100_000, "limit_s": 120.0}
QUICK = {"file_bytes": 128 << 20, "small_files": 3_000, "limit_s": 30.0}
SMALL_BYTES = 4096
FILES_PER_DIRECTORY = 1000


class Host(World):
    """A world whose programs are counted, with one congestion control on both hosts."""

    def __init__(self, howdah, raw, groups, *, rate, loss_percent, tcp):
        """Starts the emulator."""
        super().__init__(howdah, raw, rtt_ms=RTT_MS, loss_percent=loss_percent, rate=rate, queue="50ms")
        self.near_group, self.far_group = groups
        for name in (self.near, self.far):
            command("ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={tcp}")
            read = command("ip", "netns", "exec", name, "sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
            if read != tcp:
                raise Failed(f"asked for TCP {tcp}, got {read}")

    def bytes(self):
        """Bytes that have gone there and back."""
        link = json.loads(command("ip", "-n", self.far, "-j", "-s", "link", "show", "dev", "wan0"))
        return tuple(link[0]["stats64"][way]["bytes"] for way in ("rx", "tx"))


def make_inputs(base, sizes):
    """The directories that are copied."""
    generator = random.Random(1)
    one = base / "file"
    one.mkdir()
    with (one / "big.bin").open("xb") as file:
        left = sizes["file_bytes"]
        while left:
            left -= file.write(generator.randbytes(min(left, 1 << 22)))
    small = base / "small"
    for number in range(sizes["small_files"]):
        directory = small / f"{number // FILES_PER_DIRECTORY:03}"
        if number % FILES_PER_DIRECTORY == 0:
            directory.mkdir(parents=True)
        (directory / f"f{number}").write_bytes(generator.randbytes(SMALL_BYTES))
    # A tree that people have: Python's standard library.
    library = Path(sysconfig.get_path("stdlib"))
    skip = shutil.ignore_patterns("site-packages", "__pycache__", "*.pyc", "config-*")
    shutil.copytree(library, base / "source", symlinks=True, ignore=skip)
    return {"file": one, "small": small, "source": base / "source", "again": base / "source", "soon": base / "source", "resume": one}


def tree_size(path):
    """Files and bytes."""
    found = [entry for entry in path.rglob("*") if entry.is_file() and not entry.is_symlink()]
    return len(found), sum(entry.stat().st_size for entry in found)


def same(one, other, raw):
    """Whether two trees have the same names and content."""
    with Process("diff", ["diff", "-rq", "--no-dereference", one, other], out=raw / "diff.out", err=raw / "diff.log") as d:
        try:
            d.finish(600)
        except Failed:
            return False
    return True


def run(mover, kit, world, site, source, target, raw, name, *, limit_s, stop_at=None):
    """One call of a program. `stop_at`: kill it when so many bytes have gone through."""
    argv = mover.copy(kit["howdah"], site, source, target)
    groups = (world.near_group, world.far_group)
    for group in groups:
        group.begin()
    forward, backward = world.bytes()
    begin, killed, done_bytes = time.monotonic(), False, None
    out, err = raw / f"{name}.out", raw / f"{name}.log"
    with Process(mover.name, argv, out=out, err=err, netns=world.near, group=world.near_group) as process:
        while process.child.poll() is None:
            for group in groups:
                group.look()
            now = time.monotonic()
            if stop_at is not None and world.bytes()[0] - forward >= stop_at:
                killed = True
            if killed or now - begin > limit_s:
                world.near_group.kill()
                break
            time.sleep(0.05 if stop_at is None else 0.02)
        process.child.wait(10)
        seconds = time.monotonic() - begin
        if not killed and seconds <= limit_s and process.child.returncode != 0:
            raise process.failure(f"failed with status {process.child.returncode}")
    there, back = world.bytes()
    return {
        "seconds": seconds,
        "ended": not killed and seconds <= limit_s,
        "forward_bytes": there - forward,
        "backward_bytes": back - backward,
        "near_cpu_s": world.near_group.cpu_s(),
        "far_cpu_s": world.far_group.cpu_s(),
        "near_peak_bytes": world.near_group.peak_bytes,
        "far_peak_bytes": world.far_group.peak_bytes,
    }


def settle(world, sshd_pid):
    """Waits until nothing but sshd runs on the far host."""
    end = time.monotonic() + 30
    while set(world.far_group.pids()) - {sshd_pid} and time.monotonic() < end:
        time.sleep(0.05)
    for pid in set(world.far_group.pids()) - {sshd_pid}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    world.settle(RTT_MS / 1e3)


def warm(scratch, size):
    """Writes and removes a file of that size.

    A virtual machine's memory costs several times as much when it is touched for the first time (here 0.27 and not
    2.6 GB/s), and whoever comes first would pay for all.
    """
    path, piece = scratch / "warm", bytes(1 << 20)
    try:
        with path.open("xb") as file:
            for _ in range(size >> 20):
                file.write(piece)
    finally:
        path.unlink()


def case(mover, kit, world, site, inputs, name, scratch, raw, sizes):
    """One cell of a table."""
    source, target = inputs[name], scratch / "target"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    warm(scratch, sizes["file_bytes"])
    # `ip netns exec` and the shell become sshd: the process that was started is the one that stays.
    listener = site.process.pid
    limit_s = sizes["limit_s"]
    if name in ("again", "soon"):
        if not mover.syncs:
            return {"skipped": "copies everything again"}
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    if name == "resume":
        if not mover.resumes:
            return {"skipped": "begins anew"}
        half = sizes["file_bytes"] / 2
        first = run(mover, kit, world, site, source, target, raw, "first", limit_s=limit_s, stop_at=half)
        settle(world, listener)
        if first["ended"] or first["forward_bytes"] < half:
            return {"skipped": f"did not come to half in {limit_s:.0f} s"}
    if name == "soon":
        # What this leaves running on the far host stays.
        run(mover, kit, world, site, source, target, raw, "before", limit_s=limit_s)
    result = run(mover, kit, world, site, source, target, raw, "run", limit_s=limit_s)
    settle(world, listener)
    result["same"] = same(source, target, raw) if result["ended"] else None
    return result


class Bench:
    """One run of the harness."""

    def __init__(self, args, howdah):
        """Makes the directory of the results."""
        now = datetime.now(UTC)
        self.args, self.howdah = args, howdah
        self.sizes = {**(QUICK if args.quick else FULL), **({"limit_s": args.limit} if args.limit else {})}
        self.directory = howdah.parent.parent / "bench" / now.strftime("files-%Y%m%dT%H%M%SZ")
        self.directory.mkdir(parents=True)
        self.results = {
            "schema": 1, "command": " ".join(["benches/files.sh", *sys.argv[1:]]), "started": machine.date(now),
            "machine": machine.facts(ROOT, howdah), "sizes": self.sizes, "rtt_ms": RTT_MS, "tcp": args.tcp, "cells": [],
        }

    def measure(self):
        """Everything that was asked for."""
        base = self.args.scratch or Path("/dev/shm")
        with tempfile.TemporaryDirectory(prefix=f"hbench-{os.getpid()}-", dir=base) as scratch:
            scratch = Path(scratch)
            say(f"making the inputs in {scratch}")
            inputs = make_inputs(scratch, self.sizes)
            self.results["inputs"] = {name: tree_size(path) for name, path in inputs.items()}
            keys = scratch / "keys"
            keys.mkdir(mode=0o700)
            for rate, loss_percent in self.args.paths:
                self.path(scratch, inputs, keys, rate, loss_percent)

    def path(self, scratch, inputs, keys, rate, loss_percent):
        """All programs on one path. Each has a world and a verdict of the emulator of its own."""
        movers = [mover for mover in MOVERS if self.args.only is None or mover.name in self.args.only]
        for mover in movers:
            if mover.program and not shutil.which(mover.program):
                say(f"{mover.program} is missing: left out")
                continue
            raw = self.directory / "raw" / f"{rate}-{loss_percent:g}" / mover.name.replace(" ", "-")
            raw.mkdir(parents=True)
            cells = []
            with Group("near") as near, Group("far") as far:
                world = Host(self.howdah, raw, (near, far), rate=rate, loss_percent=loss_percent, tcp=self.args.tcp)
                with world, Site(world, keys, raw) as site:
                    for name in self.args.cases:
                        place = raw / name
                        place.mkdir()
                        kit = {"howdah": self.howdah}
                        try:
                            cell = case(mover, kit, world, site, inputs, name, scratch, place, self.sizes)
                        except Failed as error:
                            cell = {"error": str(error)}
                        cells.append({"rate": rate, "loss_percent": loss_percent, "mover": mover.name, "case": name, **cell})
                        say(f"{rate}, {loss_percent:g} %, {mover.name}, {name}: {files_report.brief(cells[-1])}")
            for cell in cells:
                cell["certificate"] = world.certificate
            self.results["cells"] += cells
            (self.directory / "results.json").write_text(json.dumps(self.results, indent=1) + "\n")


def path(text):
    """Reads `1gbit,0.1`."""
    rate, _, loss = text.partition(",")
    return rate, float(loss or 0)


def arguments():
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="benches/files.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--paths", type=path, nargs="+", default=PATHS, metavar="RATE,LOSS%", help="[1 and 10 Gbit/s, 0 and 0.1]")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--only", nargs="+", choices=[mover.name for mover in MOVERS], help="programs [all that are installed]")
    parser.add_argument("--tcp", default="bbr", help="congestion control of the others [%(default)s]")
    parser.add_argument("--limit", type=float, metavar="S", help="end a run after so long [120, quick 30]")
    parser.add_argument("--quick", action="store_true", help="try the harness: small inputs")
    parser.add_argument("--scratch", type=Path, help="where the files are [/dev/shm]; a disk measures the disk as well")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/performance.md as well")
    parser.add_argument("--block", default="files", help="where in that page: after the marker of that name [%(default)s]")
    parser.add_argument("--from", dest="earlier", type=Path, metavar="RESULTS.JSON", help="print an earlier run's tables")
    return parser.parse_args()


def requirements():
    """Ends with plain words if something is missing."""
    howdah = Path(os.environ.get("HOWDAH", ROOT / "target/release/howdah")).resolve()
    if os.geteuid() != 0:
        raise Failed("network namespaces need root: use `make bench-files`, or sudo")
    if not os.access(howdah, os.X_OK):
        raise Failed(f"{howdah} is missing: cargo build --release -p howdah-cli, or set HOWDAH")
    for program in ("ip", "setpriv", "diff", "ssh", "ssh-keygen"):
        if not shutil.which(program):
            raise Failed(f"{program} is missing")
    return howdah


def main():
    """Measures, prints, writes. 0: all ran; 1: a run failed; 2: cannot run; 130: interrupted."""
    args = arguments()
    catch_signals()
    try:
        if args.earlier:
            results = json.loads(args.earlier.read_text())
        else:
            bench = Bench(args, requirements())
            remove_stale(args.scratch or Path("/dev/shm"))
            bench.measure()
            results = bench.results
            say(f"results are in {bench.directory}")
        text = files_report.markdown(results)
        print(text, end="")
        if args.write_docs:
            files_report.write_docs(DOCS, args.block, text)
            say(f"wrote {DOCS}")
        return 1 if any("error" in cell or cell.get("same") is False for cell in results["cells"]) else 0
    except Interrupted as signal:
        say(f"interrupted ({signal})")
        return 130
    except (Failed, OSError) as error:
        say(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
