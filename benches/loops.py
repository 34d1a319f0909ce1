#!/usr/bin/env python3
"""What further loops of a server bring: copies from memory to memory over loopback, to a server with one loop and with more, in turns.

    HOWDAH=target/release/howdah benches/loops.py [--rounds N] [--clients N ...] [--loops N ...] [--share PERCENT] [--whole | --one]

Sender and receiver share the cores of this machine, so that a second loop has none for itself where there are two of them: each
thread that moves the server's data gets a control group (cgroup v1, cpu) with so many per cent of a core, and the clients get the
rest. `--whole` leaves the threads as they are, with one client: what a session takes longer, or more processor time, for the further
loops. `--one`: one session that uses so many loops at both ends (`howdah cp --loops`), each of these threads with its share of a core;
of N loops it moves N times as much, so that all runs take about as long. Needs root. Prints goodput of all clients together (and processor time of both sides per GB), and ratios of pairs in one round.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import threading
import time

GROUPS = pathlib.Path("/sys/fs/cgroup/cpu")
PERIOD_US = 10_000


class Groups:
    """Control groups with a share of a core, one for each thread."""

    def __init__(self, share):
        self.share, self.made = share, {}

    def add(self, thread):
        if thread in self.made:
            return
        group = GROUPS / f"howdah-loops-{thread}"
        group.mkdir()
        self.made[thread] = group
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(int(PERIOD_US * self.share / 100)))
        (group / "tasks").write_text(str(thread))

    def end(self):
        for group in self.made.values():
            for _ in range(100):
                try:
                    group.rmdir()
                    break
                except OSError:
                    # The thread has not quite ended.
                    time.sleep(0.01)
        self.made = {}


def threads_of(process, *names):
    """Threads of a process that bear one of these names, as long as it is there."""
    found = []
    try:
        for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
            if (task / "comm").read_text().strip() in names:
                found.append(int(task.name))
    except OSError:
        pass
    return found


class Server:
    """`howdah serve` with so many loops, each with that share of a core, or all that it gets."""

    def __init__(self, howdah, env, place, loops, share):
        words = [howdah, "serve", "--listen", "127.0.0.1:0", "--root", str(place), "--loops", str(loops), "--user", "root"]
        self.process = subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True)
        said = (line for line in self.process.stderr if " on 127." in line)
        self.address = next(said).split(" on ")[1].split()[0]
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()
        self.groups = Groups(share)
        # It says that it listens before its threads have begun.
        while len(threads := self.threads()) < loops:
            time.sleep(0.01)
        for thread in threads if share else []:
            self.groups.add(thread)

    def threads(self):
        return threads_of(self.process, "howdah-net")

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.groups.end()


def copies(howdah, env, server, clients, size, gets):
    """Goodput of all, in bit/s, and seconds of processor time of both sides per GB."""
    there = f"howdah://{server.address}/"
    ends = [f"{there}zero:{size}", "null:"] if gets else [f"zero:{size}", f"{there}null:"]
    words = [howdah, "cp", "--json", "--accept-new", "--no-memory", *ends]
    before, began = server.cpu(), time.monotonic()
    running = [subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(clients)]
    told = [process.communicate()[0] for process in running]
    took = time.monotonic() - began
    if any(process.returncode for process in running):
        raise SystemExit(f"a copy failed: {told}")
    mine = "receiver" if gets else "sender"
    cpu = sum(json.loads(text.splitlines()[-1])[mine]["cpu_seconds"] for text in told) + server.cpu() - before
    moved = clients * size
    return moved * 8 / took, cpu / moved * 1e9


def one(howdah, env, server, loops, size, gets, share):
    """Goodput of one session by so many loops at both ends, in bit/s, and seconds of processor time of both sides per GB."""
    there = f"howdah://{server.address}/"
    ends = [f"{there}zero:{size}", "null:"] if gets else [f"zero:{size}", f"{there}null:"]
    words = [howdah, "cp", "--json", "--accept-new", "--no-memory", "--loops", str(loops), *ends]
    before = server.cpu()
    running = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    groups = Groups(share)
    while share and running.poll() is None:
        for thread in threads_of(running, "howdah-inside", "howdah-lane"):
            groups.add(thread)
        time.sleep(0.001 if len(groups.made) < loops else 0.05)
    told = running.communicate()[0]
    held = len(groups.made)
    groups.end()
    if running.returncode:
        raise SystemExit(f"a copy failed: {told}")
    if share and held != loops:
        raise SystemExit(f"{held} loops at the client instead of {loops}")
    told = json.loads(told.splitlines()[-1])
    cpu = told["receiver" if gets else "sender"]["cpu_seconds"] + server.cpu() - before
    return told["goodput_bps"], cpu / size * 1e9


def run_one(options, howdah, env, place):
    """One session by one loop at both ends and by more, in turns."""
    share = options.share or None
    print("| direction | loops | goodput by one | by so many | ratio of goodput | ratio of processor time |")
    print("| --- | --- | --- | --- | --- | --- |")
    for gets in (False, True):
        rounds = []
        for number in range(options.rounds):
            measured = {}
            each = [1, *options.loops]
            for loops in each[number % len(each) :] + each[: number % len(each)]:
                server = Server(howdah, env, place, loops, share)
                try:
                    measured[loops] = one(howdah, env, server, loops, options.size * loops, gets, share)
                finally:
                    server.end()
            rounds.append(measured)
        for loops in options.loops:
            rate = {n: statistics.median(r[n][0] for r in rounds) / 1e9 for n in (1, loops)}
            ratios = [sorted(r[loops][at] / r[1][at] for r in rounds) for at in (0, 1)]
            shown = [f"{statistics.median(some):.2f} ({some[0]:.2f} to {some[-1]:.2f})" for some in ratios]
            which = "from the server" if gets else "to the server"
            print(f"| {which} | {loops} | {rate[1]:.2f} Gbit/s | {rate[loops]:.2f} Gbit/s | {shown[0]} | {shown[1]} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--loops", type=int, nargs="+", default=[2], help="beside a server with one")
    parser.add_argument("--size", type=int, default=500_000_000, help="bytes of each copy")
    parser.add_argument("--share", type=float, default=10, help="per cent of a core for each loop")
    parser.add_argument("--whole", action="store_true", help="one client, and loops that get what they get")
    parser.add_argument("--one", action="store_true", help="one session that uses so many loops at both ends; --share 0: that get what they get")
    options = parser.parse_args()
    howdah = os.environ.get("HOWDAH", "target/release/howdah")
    share = None if options.whole else options.share
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "config").mkdir(mode=0o700)
        env = {**os.environ, "HOWDAH_CONFIG_DIR": str(place / "config")}
        key = subprocess.run([howdah, "key", "new"], env=env, stdout=subprocess.PIPE, text=True, check=True)
        authorized = place / "config" / "authorized_keys"
        authorized.touch(mode=0o600)
        authorized.write_text(key.stdout)
        if options.one:
            return run_one(options, howdah, env, place)
        print("| clients | direction | loops | 1 loop | so many | ratio of goodput | ratio of processor time |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for clients in [1] if options.whole else options.clients:
            for gets in (False, True):
                rounds = []
                for number in range(options.rounds):
                    measured = {}
                    each = [1, *options.loops]
                    # Nobody is always the first.
                    for loops in each[number % len(each) :] + each[: number % len(each)]:
                        server = Server(howdah, env, place, loops, share)
                        try:
                            measured[loops] = copies(howdah, env, server, clients, options.size, gets)
                        finally:
                            server.end()
                    rounds.append(measured)
                for loops in options.loops:
                    rate = {n: statistics.median(r[n][0] for r in rounds) / 1e9 for n in (1, loops)}
                    ratios = [sorted(r[loops][at] / r[1][at] for r in rounds) for at in (0, 1)]
                    shown = [f"{statistics.median(some):.2f} ({some[0]:.2f} to {some[-1]:.2f})" for some in ratios]
                    which = "from the server" if gets else "to the server"
                    print(f"| {clients} | {which} | {loops} | {rate[1]:.2f} Gbit/s | {rate[loops]:.2f} Gbit/s | {shown[0]} | {shown[1]} |", flush=True)


if __name__ == "__main__":
    main()
