"""What the daemon costs, with a release build ($HOWDAH) and a directory of its own: a queue of thousands of jobs, a hundred that run,
two hundred that look on, and what a job takes longer than its command.

Its clients are on the same machine and not counted. Prints a table with what was asked for beside.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import selectors
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from machine import facts
from procs import Failed, Process, catch_signals, command, say

CLIENTS = 16
SLOW = 64_000  # bit/s
PATIENCE = 120  # seconds for what does not hang


class Connection(http.client.HTTPConnection):
    """To a daemon's socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)

    def ask(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        headers = {} if text is None else {"Content-Type": "application/json"}
        self.request(method, path, text, headers)
        answer = self.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise Failed(f"{method} {path}: {answer.status} {data.decode()}")
        return json.loads(data)


class Howdah(Process):
    """A howdah that goes on until it is stopped, and what it takes of the machine."""

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self, name):
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE).group(1)) / 1024

    def share(self, seconds):
        """Of a core, over that time."""
        began, cpu = time.monotonic(), self.cpu_seconds()
        time.sleep(seconds)
        return (self.cpu_seconds() - cpu) / (time.monotonic() - began)

    def address(self):
        """Where it listens."""
        return re.search(r"(?: on |http://)([0-9.]+:\d+)", self.err.read_text()).group(1)


class Place:
    """Keys, files and a server of its own."""

    def __init__(self, directory, howdah):
        self.directory, self.howdah, self.count = directory, howdah, 0
        for name, mode in (("config", 0o700), ("run", 0o700), ("root", 0o755)):
            (directory / name).mkdir(mode=mode)
        self.env = ["env", f"HOWDAH_CONFIG_DIR={directory}/config", f"XDG_RUNTIME_DIR={directory}/run"]
        keys = directory / "config" / "authorized_keys"
        keys.write_text(command(*self.env, howdah, "key", "new"))
        keys.chmod(0o600)
        self.source = directory / "source"
        self.source.write_bytes(os.urandom(1 << 20))
        # A quarter of an hour at 64 kbit/s.
        self.long = directory / "long"
        self.long.write_bytes(os.urandom(7 << 20))
        words = ["serve", "--root", directory / "root", "--listen", "127.0.0.1:0"]
        self.server = self.start("serving ", *words, *(["--user", "root"] if os.getuid() == 0 else []))
        self.url = f"howdah://{self.server.address()}"

    def start(self, sign, *words):
        """A howdah that has said that."""
        self.count += 1
        out, err = (self.directory / f"{self.count}.{kind}" for kind in ("out", "err"))
        process = Howdah(f"howdah {words[0]}", [*self.env, self.howdah, *words], out=out, err=err)
        try:
            process.wait_for(sign)
        except BaseException:
            process.stop()
            raise
        return process

    @contextlib.contextmanager
    def daemon(self, *words):
        """A new one, with nothing in it, and its directory. At the end its jobs are cancelled."""
        state = self.directory / f"state{self.count}"
        with self.start("taking jobs", "daemon", "--state", state, *words) as process:
            try:
                yield process, state
            finally:
                cancel_all(state)

    def spec(self, *arguments, **more):
        return {"kind": "cp", "arguments": list(map(str, arguments)), "directory": str(self.directory), **more}


def queue(place, jobs):
    """Thousands of jobs that wait: how fast they come, and what it takes to look at them."""
    spec = place.spec("-r", "/data/run7", "host:/store/run7", labels=["load"], hold=True)
    with place.daemon() as (daemon, state):

        def submit(count):
            connection = Connection(state / "socket")
            for _ in range(count):
                connection.ask("POST", "/v1/jobs", spec)

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            began = time.monotonic()
            list(clients.map(submit, [jobs // CLIENTS] * CLIENTS))
            rate = jobs // CLIENTS * CLIENTS / (time.monotonic() - began)
        connection = Connection(state / "socket")
        pages = []
        for _ in range(50):
            began = time.monotonic()
            connection.ask("GET", "/v1/jobs?limit=100")
            pages.append(time.monotonic() - began)
        now, most = daemon.memory_mib("VmRSS"), daemon.memory_mib("VmHWM")
    yield f"{jobs:,} queued jobs: submitted a second ({CLIENTS} clients)", f"{rate:,.0f}", "1,000"
    yield "a page of 100 of them, median of 50 (ms)", f"{statistics.median(pages) * 1e3:.1f}", "under 50"
    yield "memory then, and at most (MiB)", f"{now:.0f}, {most:.0f}", "under 128"


def overhead(place, rounds):
    """How much longer it takes until a job is known to be done than its command takes, in turns."""
    bare, job = [], []
    words = ["--accept-new", "--no-memory", place.source, f"{place.url}/there"]
    with place.daemon() as (_, state):
        connection = Connection(state / "socket")
        # The first of each warms up.
        for _ in range(rounds + 1):
            began = time.monotonic()
            command(*place.env, place.howdah, "cp", "--json", *words)
            bare.append(time.monotonic() - began)
            began = time.monotonic()
            made = connection.ask("POST", "/v1/jobs", place.spec(*words))
            ended = connection.ask("GET", f"/v1/jobs/{made['id']}?wait_seconds={PATIENCE // 2}")
            job.append(time.monotonic() - began)
            if ended["state"] != "done":
                raise Failed(f"a job ended so: {ended}")
    alone, of_job = (statistics.median(times[1:]) * 1e3 for times in (bare, job))
    more = statistics.median(b - a for a, b in zip(bare[1:], job[1:], strict=True)) * 1e3
    yield f"1 MiB over loopback: the command, and as a job, medians of {rounds} (ms)", f"{alone:.0f}, {of_job:.0f}", ""
    yield "a job's overhead over its command, median of differences (ms)", f"{more:.0f}", "under 60"


def running_jobs(state):
    return len(Connection(state / "socket").ask("GET", "/v1/jobs?state=running&limit=1000")["jobs"])


def share_of(daemon, state, count, seconds):
    """Of a core, that a daemon takes while so many jobs run, all of the time."""
    share = daemon.share(seconds)
    if running_jobs(state) != count:
        raise Failed(f"only {running_jobs(state)} jobs of {count} still run")
    return share


def run_slow(place, state, count, *limit):
    """So many copies that take longer than this does; back when all run."""
    connection = Connection(state / "socket")
    for n in range(count):
        words = ["--accept-new", "--no-memory", *limit, place.long, f"{place.url}/slow{n}"]
        connection.ask("POST", "/v1/jobs", place.spec(*words, retries=0))
    end = time.monotonic() + PATIENCE
    while running_jobs(state) < count:
        if time.monotonic() > end:
            raise Failed("not all of them run")
        time.sleep(0.2)
    time.sleep(10)  # Beginnings are over.


def cancel_all(state):
    connection = Connection(state / "socket")
    while jobs := connection.ask("GET", "/v1/jobs?state=waiting,running&limit=1000")["jobs"]:
        for job in jobs:
            if not job["cancelling"]:
                connection.ask("POST", f"/v1/jobs/{job['id']}/cancel")
        time.sleep(0.2)


@contextlib.contextmanager
def look_on(state, address, count):
    """So many that follow the events of all jobs over TCP, and read as they come: how many bytes."""
    token = re.search(r"^read (\w+)", (state / "tokens").read_text(), re.MULTILINE).group(1)
    head = f"GET /v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
    host, port = address.split(":")
    came, stop = [0], threading.Event()
    with contextlib.ExitStack() as stack:
        chosen = stack.enter_context(selectors.DefaultSelector())
        for _ in range(count):
            stream = stack.enter_context(socket.create_connection((host, int(port)), PATIENCE))
            stream.sendall(head.encode())
            answer = stream.recv(64)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise Failed(f"a stream of events was answered {answer}")
            chosen.register(stream, selectors.EVENT_READ)

        def read():
            while not stop.is_set():
                for key, _ in chosen.select(0.5):
                    came[0] += len(key.fileobj.recv(1 << 16))

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield came
        finally:
            stop.set()
            thread.join()


def running(place, count, seconds):
    """A hundred slow copies at a time; limited by themselves, then by what the daemon divides."""
    many = ["--max-running", count, "--max-per-host", count]
    with place.daemon(*many) as (daemon, state):
        run_slow(place, state, count, "--limit", f"{SLOW // 1000}kbit")
        share = share_of(daemon, state, count, seconds)
    yield f"{count} running jobs of 64 kbit/s: share of a core", f"{share * 100:.1f} %", "under 10 %"
    with place.daemon(*many, "--limit", f"{count * SLOW // 1000}kbit") as (daemon, state):
        run_slow(place, state, count)
        share = share_of(daemon, state, count, seconds)
    yield "the same, by one limit that the daemon divides", f"{share * 100:.1f} %", ""


def browsers(place, count, seconds):
    """Events of four running jobs, as many as run if nothing is said, to two hundred that look on."""
    with place.daemon("--max-per-host", 4, "--listen", "127.0.0.1:0") as (daemon, state):
        run_slow(place, state, 4, "--limit", f"{SLOW // 1000}kbit")
        alone = share_of(daemon, state, 4, seconds)
        with look_on(state, daemon.address(), count) as came:
            time.sleep(2)
            before = came[0]
            share = share_of(daemon, state, 4, seconds)
            each = (came[0] - before) / count / seconds
    yield "4 running jobs, nobody looks on: share of a core", f"{alone * 100:.1f} %", ""
    yield f"the same, told to {count} streams of events over TCP: share of a core", f"{share * 100:.1f} %", "under 15 %"
    yield "what each of them was told a second (bytes)", f"{each:,.0f}", ""


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--jobs", type=int, default=10_000, help="that wait")
    arguments.add_argument("--running", type=int, default=100, help="jobs at a time")
    arguments.add_argument("--browsers", type=int, default=200, help="streams of events, 200 at most")
    arguments.add_argument("--rounds", type=int, default=20, help="of a job and its command")
    arguments.add_argument("--seconds", type=float, default=30, help="over which a share is taken")
    given = arguments.parse_args()
    howdah = Path(os.environ.get("HOWDAH", "target/release/howdah")).resolve()
    if not howdah.exists():
        sys.exit(f"there is no {howdah}: make bench-daemon, or name one in HOWDAH")
    catch_signals()
    with tempfile.TemporaryDirectory() as directory:
        place = Place(Path(directory), howdah)
        with place.server:
            known = facts(Path(__file__).resolve().parent.parent, howdah)
            say(f"{known['cores']} x {known['processor']}, load {known['load']}, {known['howdah']}")
            print("| | measured | asked |\n| --- | --- | --- |", flush=True)
            for part in (
                queue(place, given.jobs),
                overhead(place, given.rounds),
                running(place, given.running, given.seconds),
                browsers(place, given.browsers, given.seconds),
            ):
                for what, found, asked in part:
                    print(f"| {what} | {found} | {asked} |", flush=True)


if __name__ == "__main__":
    main()
