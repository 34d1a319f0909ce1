#!/usr/bin/env python3
"""What further loops of a server bring: copies from memory to memory over loopback, to a server with one loop and with more, in turns.

    HOWDAH=target/release/howdah benches/loops.py [--rounds N] [--clients N ...] [--loops N ...] [--share PERCENT] [--whole]

Sender and receiver share the cores of this machine, so that a second loop has none for itself where there are two of them: each
thread that moves the server's data gets a control group (cgroup v1, cpu) with so many per cent of a core, and the clients get the
rest. `--whole` leaves the threads as they are, with one client: what a session takes longer, or more processor time, for the further
loops. Needs root. Prints goodput of all clients together (and processor time of both sides per GB), and ratios of pairs in one round.
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


class Server:
    """`howdah serve` with so many loops, each with that share of a core, or all that it gets."""

    def __init__(self, howdah, env, place, loops, share):
        words = [howdah, "serve", "--listen", "127.0.0.1:0", "--root", str(place), "--loops", str(loops), "--user", "root"]
        self.process = subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True)
        said = (line for line in self.process.stderr if " on 127." in line)
        self.address = next(said).split(" on ")[1].split()[0]
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()
        self.groups = []
        # It says that it listens before its threads have begun.
        while len(threads := self.threads()) < loops:
            time.sleep(0.01)
        for thread in threads if share else []:
            group = GROUPS / f"howdah-loops-{thread}"
            group.mkdir()
            self.groups.append(group)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(PERIOD_US * share / 100)))
            (group / "tasks").write_text(str(thread))

    def threads(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(task.name) for task in tasks if (task / "comm").read_text().strip() == "howdah-net"]

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.kill()
        self.process.wait()
        for group in self.groups:
            group.rmdir()


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--loops", type=int, nargs="+", default=[2], help="beside a server with one")
    parser.add_argument("--size", type=int, default=500_000_000, help="bytes of each copy")
    parser.add_argument("--share", type=float, default=10, help="per cent of a core for each loop")
    parser.add_argument("--whole", action="store_true", help="one client, and loops that get what they get")
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
