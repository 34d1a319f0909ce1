"""What the Python module costs: `howdah.copy` and the `howdah` command through one emulated path to one server, in turns. Needs root.

Both are those of the environment that this runs in, each copy is by a process of its own, and all begin cold: the command with
--no-memory, the module as a client with a directory of its own, which remembers no path. Moved are zeros that are made up, and a file
in memory; the server throws them away. Each round is a pair of copies, and which is first changes; what counts is the ratio of each
pair (module / command), of which at least 0.98 is asked. With --out the table goes between the marks of that page.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from files_report import write_docs
from procs import Failed, Process, World, catch_signals, say
from transports import HOWDAH_PORT, Kit, last_event

GIB = 1 << 30
GOAL = 0.98
COMMAND = Path(sysconfig.get_path("scripts")) / "howdah"
# The module's turn: a process that prints what the command prints.
MODULE = """
import dataclasses, json, sys, howdah
config_dir, source, url = sys.argv[1:]
summary = howdah.Client(config_dir=config_dir, trust="accept-new").copy(source, url)
print(json.dumps(dataclasses.asdict(summary)))
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="pairs of each case")
    parser.add_argument("--gib", type=float, default=4, help="size of what is moved")
    parser.add_argument("--rate", default="10gbit")
    parser.add_argument("--rtt-ms", type=float, default=10)
    parser.add_argument("--loss-percent", type=float, default=0)
    parser.add_argument("--mtu", type=int, default=9000)
    parser.add_argument("--quick", action="store_true", help="three pairs of 1 GiB")
    parser.add_argument("--out", type=Path, help="a page with marks for the table")
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(rounds=3, gib=1)
    return parser.parse_args()


def make_file(path, size):
    with path.open("wb") as file:
        for begin in range(0, size, 1 << 20):
            file.write(os.urandom(min(1 << 20, size - begin)))


class Turns:
    """Copies of one source by either of the two."""

    def __init__(self, world, keys, raw, size):
        self.world, self.keys, self.raw, self.size = world, keys, raw, size
        self.url = f"howdah://{world.far_address}:{HOWDAH_PORT}/null:"

    def argv(self, who, source):
        if who == "module":
            return [sys.executable, "-B", "-c", MODULE, self.keys, source, self.url]
        identity = ["--identity", self.keys / "id_ed25519.pem", "--known-hosts", self.keys / "known_hosts"]
        return [COMMAND, "cp", "--json", "--no-memory", "--accept-new", *identity, source, self.url]

    def copy(self, who, source):
        """Goodput and the sender's processor time per Gbit."""
        out, err = self.raw / f"{who}.out", self.raw / f"{who}.log"
        with Process(f"howdah ({who})", self.argv(who, source), out=out, err=err, netns=self.world.near) as process:
            told = last_event(process.finish(patience=600), who)
        if told["bytes"] != self.size or told["resumed_bytes"]:
            raise Failed(f"{who}: {told['bytes']} bytes came, and {told['resumed_bytes']} had been there")
        return told["goodput_bps"], told["sender"]["cpu_seconds"] / (told["bytes"] * 8 / 1e9)

    def pairs(self, what, source, rounds):
        """By who, the figures of each round."""
        # The server is known from now on, and caches are filled.
        for who in ("module", "command"):
            self.copy(who, source)
        runs = {"module": [], "command": []}
        for number in range(rounds):
            for who in list(runs)[:: 1 if number % 2 else -1]:
                runs[who].append(self.copy(who, source))
            last = {who: figures[-1][0] for who, figures in runs.items()}
            say(f"{what}: " + ", ".join(f"{who} {bps / 1e9:.2f}" for who, bps in last.items())
                + f" Gbit/s, ratio {last['module'] / last['command']:.3f}")
        return runs


def row(what, runs):
    """A line of the table."""
    goodput, cpu = ({who: statistics.median(run[index] for run in figures) for who, figures in runs.items()} for index in (0, 1))
    ratios = [module[0] / command[0] for module, command in zip(runs["module"], runs["command"], strict=True)]
    low, middle, high = statistics.quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3
    return (
        f"| {what} | {goodput['module'] / 1e9:.2f} | {goodput['command'] / 1e9:.2f} | **{middle:.3f}** | {low:.3f} - {high:.3f} | {min(ratios):.3f} - {max(ratios):.3f} |"
        f" {cpu['module'] * 1e3:.1f}, {cpu['command'] * 1e3:.1f} |"
    )


def table(given, cases, valid):
    doubt = "valid" if valid else "against the run, mostly for want of processor time"
    lines = [
        f"`make bench-python` at {given.rate}, {given.rtt_ms:g} ms, {given.loss_percent:g} %, packets of {given.mtu} bytes: {given.gib:g} GiB to `null:`, {given.rounds} pairs;"
        f" {os.cpu_count()} cores for all of it, emulator included (its certificate: {doubt}). At least {GOAL} is asked.",
        "",
        "| From | module, Gbit/s | command, Gbit/s | ratio of pairs: median | middle half | all | sender's processor, ms per Gbit |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(row(what, runs) for what, runs in cases.items()),
    ]
    return "\n".join(lines) + "\n"


def main():
    given = arguments()
    catch_signals()
    scratch = Path(tempfile.mkdtemp(prefix=f"hbench-{os.getpid()}-", dir="/dev/shm"))
    try:
        keys = scratch / "keys"
        keys.mkdir(mode=0o700)
        kit = Kit(COMMAND, keys, True)
        kit.make_keys()
        # Where the module looks for it.
        (keys / "client.pem").rename(keys / "id_ed25519.pem")
        size = int(given.gib * GIB)
        make_file(scratch / "file", size)
        world = World(COMMAND, scratch, rtt_ms=given.rtt_ms, loss_percent=given.loss_percent, mtu=given.mtu, rate=given.rate)
        with world, kit.serve(world, scratch, scratch):
            turns = Turns(world, keys, scratch, size)
            sources = {"`zero:`": f"zero:{size}", "a file": scratch / "file"}
            cases = {what: turns.pairs(what, source, given.rounds) for what, source in sources.items()}
        text = table(given, cases, world.certificate["valid"])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(text, end="")
    if given.out:
        write_docs(given.out, "cost", text)


if __name__ == "__main__":
    try:
        main()
    except (Failed, subprocess.SubprocessError) as error:
        raise SystemExit(f"bench: {error}") from error
