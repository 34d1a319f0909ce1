"""Measures the memory that both sides need for a tree of ten million entries; prints a Markdown table.

`howdah serve` and `howdah cp` on the loopback address; the trees lie on a tmpfs of their own. Their files are further
names of one empty file, which howdah cp -r does not look at, so that the machine's memory suffices. Each case has its
share of the time; what is not through by then is interrupted and counts with what it has done. HOWDAH names the
binary (target/release/howdah). Needs root, Linux.
"""

import argparse
import contextlib
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

from procs import Failed, Process, catch_signals, command, say

if os.geteuid() == 0:
    # Servers of root say that they are meant to be.
    os.environ.setdefault("HOWDAH_SERVE_USER", "root")

ROOT = Path(__file__).resolve().parent.parent
IN_EACH = 1000
LIMIT_MIB = 512
#: What tmpfs takes for a name, and for a name with a file of its own, with something to spare.
NAME_BYTES, FILE_BYTES = 300, 1100


def empty_file(base):
    """The file that all names are of."""
    file = base / "first"
    file.touch(exist_ok=True)
    os.utime(file, (1e9, 1e9))
    return file


def make_links(top, count):
    """`count` names of one empty file in directories of a thousand, the first name apart."""
    first = empty_file(top.parent)
    for group in range(count // IN_EACH):
        below = top / f"{group // IN_EACH:03}" / f"{group % IN_EACH:03}"
        below.mkdir(parents=True)
        there = os.open(below, os.O_RDONLY)
        try:
            for number in range(IN_EACH):
                os.link(first, f"some-file-{number:04}.dat", dst_dir_fd=there)
        finally:
            os.close(there)


def make_directories(top, count):
    """`count` empty directories."""
    for group in range(count // IN_EACH):
        for number in range(IN_EACH):
            os.makedirs(top / f"{group // IN_EACH:03}" / f"{group % IN_EACH:03}" / f"some-directory-{number:03}")


def make_flat(top, count):
    """`count` names of one empty file in one directory."""
    top.mkdir()
    first = empty_file(top.parent)
    there = os.open(top, os.O_RDONLY)
    try:
        for number in range(count):
            os.link(first, f"some-file-{number:08}.dat", dst_dir_fd=there)
    finally:
        os.close(there)


def peak_mib(pid):
    """VmHWM of a process, in MiB."""
    with contextlib.suppress(OSError):
        if found := re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE):
            return int(found.group(1)) / 1024
    return 0.0


class Case:
    """One copy, watched: the peak of both sides by the number of entries that were through."""

    def __init__(self, howdah, base, env):
        """`base`: where keys and output go."""
        self.howdah, self.base, self.env = howdah, base, env

    def run(self, name, flags, source, destination, seconds):
        """A row: what, entries, seconds, the peaks in MiB, and whether it came to its end."""
        out, err = self.base / f"{name}.out", self.base / f"{name}.err"
        serve = [*self.env, f"HOWDAH_CONFIG_DIR={self.base}/server", self.howdah, "serve", "--listen", "127.0.0.1:0",
                 "--root", destination.parent]
        with Process("howdah serve", serve, out=self.base / f"{name}.server", err=self.base / f"{name}.log") as server:
            server.wait_for("serving ")
            address = re.search(r" on (\S+:\d+)\n", server.err.read_text()).group(1)
            argv = [*self.env, f"HOWDAH_CONFIG_DIR={self.base}/client", self.howdah, *flags, "--json", "--accept-new",
                    source, f"howdah://{address}/{destination.name}"]
            begin, peaks, curve = time.monotonic(), [0.0, 0.0], []
            with Process("howdah", argv, out=out, err=err) as client:
                while client.child.poll() is None:
                    peaks = [max(old, peak_mib(pid)) for old, pid in zip(peaks, (client.pid, server.pid), strict=True)]
                    took = time.monotonic() - begin
                    done = progress(out)
                    if done and (not curve or done >= 2 * curve[-1][0]):
                        curve.append((done, *peaks))
                    if took > seconds:
                        client.stop()
                        break
                    time.sleep(0.2)
            summary = last(out)
        if summary.get("event") == "summary":
            tree = summary["tree"]
            done = sum(tree[field] for field in ("files", "unchanged", "directories", "links"))
            peaks = [summary[side]["peak_rss_bytes"] / 2**20 for side in ("sender", "receiver")]
            row = {"case": name, "entries": done, "seconds": summary["seconds"], "peaks": peaks, "complete": True,
                   "failed": tree["failed"] + tree["changed"]}
        elif took > seconds:
            # Further names are no files: the directories that they lie in are counted.
            there = max(progress(out), sum(IN_EACH for _ in destination.glob("[0-9]*/[0-9]*")))
            row = {"case": name, "entries": there, "seconds": took, "peaks": peaks, "complete": False, "failed": 0}
        else:
            raise client.failure("failed")
        say(f"{name}: {row}; on the way (entries, MiB, MiB): {curve}")
        return row


def last(path):
    """The last whole event in a file."""
    lines = [line for line in path.read_text(errors="replace").split("\n")[:-1] if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


def progress(path):
    """Files that were through at the last event of progress."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        found = re.findall(rb'"files_done":(\d+)', file.read())
    return int(found[-1]) if found else 0


def available_bytes():
    """Memory that may be taken."""
    return int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text()).group(1)) * 1024


def measure(args, howdah, base):
    """The rows."""
    for who in ("server", "client"):
        env = ["env", f"HOWDAH_CONFIG_DIR={base}/{who}"]
        line = command(*env, howdah, "key", "new")
    (base / "server/authorized_keys").write_text(line)
    rows = []
    for name in args.cases:
        trees = base / name
        trees.mkdir()
        command("mount", "-t", "tmpfs", "-o", "nr_inodes=0,size=90%", "howdah-entries", trees)
        try:
            rows += run_case(name, args, Case(howdah, base, ["env"]), trees)
        finally:
            command("umount", trees)
    return rows


def fit(entries, each):
    """As many entries as fit into the memory that is left, with room for others."""
    most = int(available_bytes() * 0.7 / each) // IN_EACH * IN_EACH
    if most < entries:
        say(f"{entries} entries do not fit into this machine's memory; {most} are taken")
    return min(entries, most)


def run_case(name, args, case, trees):
    """One kind of tree."""
    source, destination = trees / "source", trees / "there"
    end = args.begin + args.minutes * 60 * (args.cases.index(name) + 1) / len(args.cases)
    left = lambda: max(10.0, end - time.monotonic())
    rows = []
    if name == "compare":
        entries = fit(args.entries, 2 * NAME_BYTES)
        make_links(source, entries)
        make_links(destination, entries)
        rows.append(case.run("files compared", ["sync"], source, destination, left()))
    elif name == "files":
        make_links(source, fit(args.entries, NAME_BYTES + FILE_BYTES))
        rows.append(case.run("files copied", ["cp", "-r"], f"{source}/.", destination, left()))
    elif name == "links":
        make_links(source, fit(args.entries, 2 * NAME_BYTES))
        rows.append(case.run("hard links copied", ["cp", "-a"], f"{source}/.", destination, left()))
    elif name == "directories":
        make_directories(source, fit(args.entries, 2 * FILE_BYTES))
        rows.append(case.run("directories copied", ["cp", "-r"], f"{source}/.", destination, left()))
    else:
        make_flat(source, fit(args.entries, 2 * NAME_BYTES))
        rows.append(case.run("one directory copied", ["cp", "-a"], f"{source}/.", destination, left() * 0.7))
        # Both sides hold all of its names.
        rows.append(case.run("one directory compared", ["sync", "--delete"], source, destination, left()))
    return rows


def main():
    """0: all within the limit; 1: not; 2: cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--minutes", type=float, default=10.0, help="for all cases together")
    kinds = ("compare", "links", "files", "directories", "flat")
    parser.add_argument("--cases", nargs="+", default=kinds[:3], choices=kinds)
    args = parser.parse_args()
    args.begin = time.monotonic()
    catch_signals()
    howdah = Path(os.environ.get("HOWDAH", ROOT / "target/release/howdah")).resolve()
    try:
        with tempfile.TemporaryDirectory(prefix=f"hbench-{os.getpid()}-") as scratch:
            rows = measure(args, howdah, Path(scratch))
    except (Failed, OSError) as error:
        say(str(error))
        return 2
    print("| case | entries | s | sender, MiB | receiver, MiB |\n| --- | ---: | ---: | ---: | ---: |")
    for row in rows:
        seconds = f"{row['seconds']:.0f}" if row["complete"] else f"not done after {row['seconds']:.0f}"
        sender, receiver = row["peaks"]
        print(f"| {row['case']} | {row['entries']:,} | {seconds} | {sender:.0f} | {receiver:.0f} |")
    good = all(max(row["peaks"]) <= LIMIT_MIB and row["failed"] == 0 for row in rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
