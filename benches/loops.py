#!/usr/bin/env python3
"""What further loops of a server bring: copies from memory to memory over loopback, to a server with one loop and with more, in turns.

    HOWDAH=target/release/howdah benches/loops.py [--rounds N] [--clients N ...] [--loops N ...] [--share PERCENT] [--whole | --one | --other PROGRAM]

Sender and receiver share the cores of this machine, so that a second loop has none for itself where there are two of them: each
thread that moves the server's data gets a control group (cgroup v1, cpu) with so many per cent of a core, and the clients get the
rest. `--whole` leaves the threads as they are, with one client: what a session takes longer, or more processor time, for the further
loops. `--one`: one session that uses so many loops at both ends (`howdah cp --loops`), each of these threads with its share of a core;
of N loops it moves N times as much, so that all runs take about as long. `--other`: one session of a program of before and of this one.
Needs root. Prints goodput of all clients together (and processor time of both sides per GB), and ratios of pairs in one round.
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


def in_turns(variants, rounds, measure):
    """What `measure` finds of each variant in each round; nobody is always the first."""
    found = []
    for number in range(rounds):
        turn = number % len(variants)
        found.append({variant: measure(variant) for variant in variants[turn:] + variants[:turn]})
    return found


def compared(rounds, base, variant):
    """Goodput of both in the middle, and how many times the base's goodput and processor time are the other's: middle, least and most."""
    rates = [f"{statistics.median(r[n][0] for r in rounds) / 1e9:.2f} Gbit/s" for n in (base, variant)]
    ratios = [sorted(r[variant][at] / r[base][at] for r in rounds) for at in (0, 1)]
    return rates + [f"{statistics.median(some):.2f} ({some[0]:.2f} to {some[-1]:.2f})" for some in ratios]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--loops", type=int, nargs="+", default=[2], help="beside a server with one")
    parser.add_argument("--size", type=int, default=500_000_000, help="bytes of each copy")
    parser.add_argument("--share", type=float, default=10, help="per cent of a core for each loop")
    parser.add_argument("--whole", action="store_true", help="one client, and loops that get what they get")
    parser.add_argument("--other", help="one session of that program of before and of this one, in turns, without quotas")
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
        run(options, howdah, env, place, share)


def run(options, howdah, env, place, share):
    def measure(move, program=howdah, loops=1, share=share):
        server = Server(program, env, place, loops, share)
        try:
            return move(program, server)
        finally:
            server.end()

    ways = [("to the server", False), ("from the server", True)]
    heads = ["goodput by one", "by so many", "ratio of goodput", "ratio of processor time"]
    rows = []
    each = [1, *options.loops]
    if options.other:
        heads = ["goodput before", "now", *heads[2:]]
        for which, gets in ways:
            move = lambda program, server: copies(program, env, server, 1, options.size, gets)
            rounds = in_turns([options.other, howdah], options.rounds, lambda program: measure(move, program, max(options.loops), None))
            rows.append([which, *compared(rounds, options.other, howdah)])
    elif options.one:
        share = options.share or None
        heads = ["loops", *heads]
        for which, gets in ways:
            def session(loops):
                move = lambda program, server: one(program, env, server, loops, options.size * loops, gets, share)
                return measure(move, loops=loops, share=share)

            rounds = in_turns(each, options.rounds, session)
            rows += [[which, str(loops), *compared(rounds, 1, loops)] for loops in options.loops]
    else:
        heads = ["clients", "loops", *heads]
        for clients in [1] if options.whole else options.clients:
            for which, gets in ways:
                move = lambda program, server: copies(program, env, server, clients, options.size, gets)
                rounds = in_turns(each, options.rounds, lambda loops: measure(move, loops=loops))
                rows += [[which, str(clients), str(loops), *compared(rounds, 1, loops)] for loops in options.loops]
    print(f"| direction | {' | '.join(heads)} |")
    print(f"|{' --- |' * (1 + len(heads))}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
