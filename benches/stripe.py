"""One file, or one tree, by many movers: how much faster N Dask workers are than one, and what is moved twice when something dies. Needs root.

Each worker's commands run in a network namespace of their own, behind an emulated path of its own (`howdah wan`) to a server of its own; all
servers have the same directory, all workers write into one. Scheduler and workers are processes of their own (`python -m distributed.cli.dask_scheduler`
and `.dask_worker`) on this machine's loopback. With --kills a worker, a server or the scheduler is killed (kill -9) at a moment drawn from
--seed, and started again: each time the file must come out equal. What was moved twice is what came over the paths beyond what comes without a kill.
With --out the tables go between the marks of that page.
"""

import argparse
import filecmp
import json
import logging
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from files_report import write_docs
from procs import Failed, Process, World, catch_signals, command, say
from transports import HOWDAH_PORT, Kit, processor_ticks

MIB = 1 << 20
GOALS = {1: 1.0, 2: 0.95, 4: 0.95, 8: 0.9}
VICTIMS = ("worker", "server", "scheduler")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--mib", type=int, default=2048, help="size of the file")
    parser.add_argument("--lease", default="64MiB")
    parser.add_argument("--tree-files", type=int, default=20_000, help="a tree of so many files, with as many bytes as the file (0: none)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--kill-workers", type=int, default=4)
    parser.add_argument("--kill-mib", type=int, default=512, help="size of the file that somebody is killed at")
    parser.add_argument("--kill-lease", default="8MiB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--rtt-ms", type=float, default=50)
    parser.add_argument("--loss-percent", type=float, default=0.1)
    parser.add_argument("--mtu", type=int, default=9000)
    parser.add_argument("--quick", action="store_true", help="256 MiB, 2,000 files, and six kills")
    parser.add_argument("--out", type=Path, help="a page with marks for the tables")
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(mib=256, lease="8MiB", tree_files=2_000, kills=6, kill_mib=128)
    return parser.parse_args()


class Hand:
    """One worker, its path and its server. Each part can be killed and started again."""

    def __init__(self, number, given, kit, scratch, root):
        self.number, self.kit, self.root = number, kit, root
        self.raw = scratch / f"hand{number}"
        self.raw.mkdir()
        path = {"rtt_ms": given.rtt_ms, "loss_percent": given.loss_percent, "mtu": given.mtu, "rate": given.rate}
        self.world = World(kit.howdah, self.raw, **path)
        self.server = self.worker = None

    def serve(self):
        self.server = self.kit.serve(self.world, self.root, self.raw)

    def work(self, scheduler):
        # What it runs as howdah is the same program, on this path. It remembers no path of another run.
        # It does not profile itself, which takes 2 % of a core for each.
        settings = [f"HBENCH_NETNS={self.world.near}", f"XDG_STATE_HOME={self.raw}", "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=False"]
        argv = ["env", *settings, sys.executable, "-B", "-m", "distributed.cli.dask_worker", scheduler, "--no-nanny", "--nthreads", 1, "--no-dashboard"]
        argv += ["--host", "127.0.0.1", "--local-directory", self.raw]
        self.worker = Process("dask worker", argv, out=self.raw / "worker.out", err=self.raw / "worker.log")

    def arrived(self):
        """Bytes that came over the path so far."""
        link = json.loads(command("ip", "-n", self.world.near, "-j", "-s", "link", "show", "dev", "wan0"))
        return link[0]["stats64"]["rx"]["bytes"]

    def stop(self):
        for part in (self.worker, self.server):
            if part is not None:
                part.stop()
        self.world.__exit__()


class Site:
    """A scheduler, hands, and a client that asks them to move."""

    def __init__(self, stack, count, given, kit, scratch, wrapper):
        self.stack, self.given, self.kit, self.wrapper = stack, given, kit, wrapper
        self.scratch = Path(tempfile.mkdtemp(prefix="site-", dir=scratch))
        self.root, self.files = scratch / "root", self.scratch / "files"
        self.files.mkdir()
        self.address = f"127.0.0.1:{free_port()}"
        self.hands = []
        for number in range(count):
            self.hands.append(Hand(number, given, kit, self.scratch, self.root))
            stack.callback(self.hands[-1].stop)
            self.hands[-1].serve()
        self.begin()
        stack.callback(lambda: self.scheduler.stop())

    def begin(self):
        """The scheduler, and all workers at it."""
        argv = [sys.executable, "-B", "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", self.address.split(":")[1], "--no-dashboard"]
        out, err = self.scratch / "scheduler.out", self.scratch / "scheduler.log"
        self.scheduler = Process("dask scheduler", argv, out=out, err=err)
        self.scheduler.wait_for("Scheduler at:")
        for hand in self.hands:
            hand.work(self.address)

    def client(self):
        from distributed import Client

        client = Client(self.address, timeout="60s")
        client.wait_for_workers(len(self.hands), timeout=60)
        return client

    def move(self, client, name, lease):
        """One stripe."""
        from howdah.dask import stripe

        keys = self.kit.keys
        options = ["--identity", str(keys / "client.pem"), "--known-hosts", str(keys / "known_hosts"), "--accept-new"]
        source = f"howdah://{World.far_address}:{HOWDAH_PORT}/{name}"
        # Each mover has a path of its own.
        archive = (self.root / name).is_dir()
        return stripe(client, source, self.files / name, lease=lease, options=options, command=str(self.wrapper), share=1, archive=archive)

    def try_to_move(self, client, lease, failed):
        try:
            self.move(client, "mid", lease)
        except Exception as error:
            failed.append(error)

    def arrived(self):
        return sum(hand.arrived() for hand in self.hands)

    def check(self, name):
        """What came is what is there, and nothing is left; makes room for the next."""
        left = sorted(path.name for path in self.files.iterdir())
        here, there = self.files / name, self.root / name
        if left != [name] or not (is_equal_tree if there.is_dir() else is_equal)(there, here):
            raise Failed(f"{name} did not come out equal; there is {left}")
        remove(here)

    def kill(self, what, number):
        """Kills one part with all that it has started, and starts it again."""
        hand = self.hands[number % len(self.hands)]
        part = {"worker": hand.worker, "server": hand.server, "scheduler": self.scheduler}[what]
        # Its own session: what it has started dies with it (HOWDAH_DIE_WITH_PARENT).
        part.child.kill()
        part.child.wait()
        if what == "worker":
            hand.work(self.address)
        elif what == "server":
            hand.serve()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def make_file(path, mib):
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(MIB))


def make_tree(path, files, mib):
    """So many files of one size, a hundred in a directory."""
    size = mib * MIB // files
    for number in range(files):
        file = path / f"{number // 100:04}" / f"{number:06}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(size))


def is_equal(one, other):
    return filecmp.cmp(one, other, shallow=False)


def is_equal_tree(one, other):
    names = [sorted(path.relative_to(top) for path in top.rglob("*")) for top in (one, other)]
    return names[0] == names[1] and all(is_equal(one / name, other / name) for name in names[0] if (one / name).is_file())


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def speed_up(given, kit, scratch, wrapper, name):
    """By number of workers: seconds and the busy share of the machine of each run, and whether each emulator's certificate is valid."""
    results = {}
    for count in given.workers:
        with ExitStack() as stack:
            site = Site(stack, count, given, kit, scratch, wrapper)
            for _ in range(given.rounds):
                with site.client() as client:
                    busy, total = processor_ticks()
                    done = site.move(client, name, given.lease)
                    after = processor_ticks()
                site.check(name)
                used = (after[0] - busy) / max(after[1] - total, 1)
                results.setdefault(count, ([], site))[0].append((done.seconds, used))
                say(f"{name}, {count} workers: {done.seconds:.2f} s, machine {used:.0%} busy")
        shutil.rmtree(site.scratch)
    remove(scratch / "root" / name)
    return {count: (runs, [hand.world.certificate["valid"] for hand in site.hands]) for count, (runs, site) in results.items()}


def kills(given, kit, scratch, wrapper):
    """What was moved twice, as a share of the file, by what was killed."""
    make_file(scratch / "root" / "mid", given.kill_mib)
    size = given.kill_mib * MIB
    draw = random.Random(given.seed)
    twice = {what: [] for what in VICTIMS}
    with ExitStack() as stack:
        site = Site(stack, given.kill_workers, given, kit, scratch, wrapper)
        before, began = site.arrived(), time.monotonic()
        with site.client() as client:
            site.move(client, "mid", given.kill_lease)
        seconds, needed = time.monotonic() - began, site.arrived() - before
        site.check("mid")
        say(f"without a kill: {seconds:.1f} s, {needed / size:.3f} of the file over the paths")
        for number in range(given.kills):
            what, moment, victim = draw.choice(VICTIMS), draw.uniform(0.1, 0.95) * seconds, draw.randrange(1 << 16)
            before = site.arrived()
            happened = one_kill(site, given, what, moment, victim)
            site.check("mid")
            share = (site.arrived() - before - needed) / size
            twice[what].append(share)
            say(f"{number + 1}: {what} killed after {moment:.1f} s{happened}: equal, {share:.1%} moved twice")
    return twice, needed / size


def one_kill(site, given, what, moment, victim):
    """A stripe in which something is killed; goes on with the same call where it failed. How often it did."""
    client = site.client()
    for again in range(6):
        failed = []
        # What this thread starts dies with it, so it is another one that moves.
        mover = threading.Thread(target=site.try_to_move, args=(client, given.kill_lease, failed))
        mover.start()
        if again == 0:
            mover.join(moment)
            site.kill(what, victim)
        mover.join()
        if site.scheduler.child.poll() is not None:
            client.close(timeout=1)
            # Workers end with their scheduler; these do so now.
            for hand in site.hands:
                hand.worker.child.kill()
                hand.worker.child.wait()
            site.begin()
            client = site.client()
        if not failed:
            client.close(timeout=5)
            return f", the call again {again} times" if again else ""
    raise Failed(f"after {again + 1} calls: {failed[0]}")


def speed_table(given, what, speeds):
    machine = f"{os.cpu_count()} cores for all of it, emulators included"
    lines = [
        f"{what} of {given.mib} MiB in leases of {given.lease}, each worker behind {given.rate}, {given.rtt_ms:g} ms, {given.loss_percent:g} % with packets"
        f" of {given.mtu} bytes; median of {given.rounds}; {machine}.",
        "",
        "| Workers | seconds | speed-up | asked | machine busy |",
        "|---:|---:|---:|---:|---:|",
    ]
    first = None
    for count, (runs, valid) in speeds.items():
        seconds = statistics.median(run[0] for run in runs)
        busy = statistics.median(run[1] for run in runs)
        first = first or seconds * count
        goal = GOALS.get(count, 0.9) * count
        mark = "" if all(valid) else " †"
        lines.append(f"| {count}{mark} | {seconds:.2f} | {first / seconds:.2f} | {goal:.2f} | {busy:.0%} |")
    if not all(all(valid) for _, valid in speeds.values()):
        lines += ["", "†: an emulator's certificate speaks against the run, mostly for want of processor time."]
    return [*lines, ""]


def tables(given, speeds, killed):
    lines = []
    for what, found in speeds.items():
        lines += speed_table(given, what, found)
    if killed:
        twice, needed = killed
        lines += [
            f"`kill -9`, seed {given.seed}: {given.kill_mib} MiB in leases of {given.kill_lease} by {given.kill_workers} workers; the file was equal each time. Without a kill {needed:.3f}"
            " of the file come over the paths; moved twice is what came beyond that.",
            "",
            "| Killed | times | moved twice: median | most |",
            "|---|---:|---:|---:|",
        ]
        for what, shares in twice.items():
            if shares:
                lines.append(f"| {what} | {len(shares)} | {statistics.median(shares):.1%} | {max(shares):.1%} |")
    return "\n".join(lines).rstrip() + "\n"


def main():
    given = arguments()
    catch_signals()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    howdah = Path(os.environ.get("HOWDAH", Path(sysconfig.get_path("scripts")) / "howdah")).resolve()
    scratch = Path(tempfile.mkdtemp(prefix=f"hbench-{os.getpid()}-", dir="/dev/shm"))
    try:
        (scratch / "root").mkdir()
        keys = scratch / "keys"
        keys.mkdir(mode=0o700)
        kit = Kit(howdah, keys, True)
        kit.make_keys()
        wrapper = scratch / "howdah"
        # From the worker's place on loopback to its place on the path.
        wrapper.write_text(f'#!/bin/sh\nexec ip netns exec "$HBENCH_NETNS" "{howdah}" "$@"\n')
        wrapper.chmod(0o755)
        speeds = {}
        if given.mib and given.workers:
            make_file(scratch / "root" / "big", given.mib)
            speeds["`make bench-stripe`: one file"] = speed_up(given, kit, scratch, wrapper, "big")
        if given.tree_files and given.workers:
            make_tree(scratch / "root" / "tree", given.tree_files, given.mib)
            speeds[f"A tree of {given.tree_files:,} files"] = speed_up(given, kit, scratch, wrapper, "tree")
        killed = kills(given, kit, scratch, wrapper) if given.kills else None
        text = tables(given, speeds, killed)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(text, end="")
    if given.out:
        write_docs(given.out, "stripe", text)


if __name__ == "__main__":
    try:
        main()
    except (Failed, subprocess.SubprocessError) as error:
        raise SystemExit(f"bench: {error}") from error
