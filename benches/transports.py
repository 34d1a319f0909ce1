"""One run of one transport between two hosts: `howdah cp`, or kernel TCP through iperf3."""

import contextlib
import functools
import json
import os
import re
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from procs import Failed, Process, command
from series import GIB, Series, cpu_per_gbit, ramp_s, steady

if os.geteuid() == 0:
    # Servers of root say that they are meant to be.
    os.environ.setdefault("HOWDAH_SERVE_USER", "root")

HOWDAH_PORT = 4433
TCP_PORT = 5201
# How much longer than asked for a run may take before it is ended: start, end, and many losses.
PATIENCE_S = 45.0
# A quarter-second in which the processors were this busy counts as saturated (as in howdah-wan).
SATURATED, INTERVAL_S = 0.95, 0.25


@dataclass(frozen=True)
class Kit:
    """What every run needs."""

    howdah: Path
    keys: Path
    only_howdah: bool

    def make_keys(self):
        """Makes the client's key and lists it for the server."""
        line = command(self.howdah, "key", "new", "--identity", self.keys / "client.pem")
        (self.keys / "authorized_keys").write_text(line)

    def serve(self, place, root, raw, name="serve"):
        """`howdah serve` in the far host, ready."""
        argv = [self.howdah, "serve", "--root", root, "--listen", f"{place.far_address}:{HOWDAH_PORT}"]
        argv += ["--identity", self.keys / "server.pem", "--authorized-keys", self.keys / "authorized_keys"]
        process = Process("howdah serve", argv, out=raw / f"{name}.out", err=raw / f"{name}.log", netns=place.far)
        try:
            process.wait_for("serving ")
        except BaseException:
            process.stop()
            raise
        return process

    def copy(self, place, source, path, raw, name, extra=()):
        """`howdah cp --json` in the near host, to `path` on the far one; leaves a trace beside its output."""
        argv = [self.howdah, "cp", "--json", "--accept-new", *cold(self.howdah), "--trace", raw / f"{name}.trace", *extra]
        argv += ["--identity", self.keys / "client.pem", "--known-hosts", self.keys / "known_hosts"]
        argv += [source, f"howdah://{place.far_address}:{HOWDAH_PORT}/{path}"]
        return Process("howdah cp", argv, out=raw / f"{name}.json", err=raw / f"{name}.log", netns=place.near)


@functools.cache
def cold(howdah):
    """What has a copy know nothing of the path. Programs before there was a memory of paths know nothing anyhow."""
    return ["--no-memory"] if "--no-memory" in command(howdah, "cp", "--help") else []


class Watch:
    """Samples the machine's processors, and the bytes that arrive where a process lives."""

    def __init__(self, pid=None):
        """Begins; `pid` names a process in the network namespace whose arrivals are counted."""
        self.device = os.open(f"/proc/{pid}/net/dev", os.O_RDONLY) if pid else None
        self.begin = time.monotonic()
        self.arrivals = []
        self.ticks = [(self.begin, *processor_ticks())]
        self.look()

    def look(self):
        """To be called often."""
        now = time.monotonic()
        if self.device is not None:
            self.arrivals.append((now - self.begin, received_bytes(os.pread(self.device, 4096, 0).decode())))
        if now - self.ticks[-1][0] >= INTERVAL_S:
            self.ticks.append((now, *processor_ticks()))

    def close(self):
        """Gives back the shares of processor time in use and of quarter-seconds without any to spare."""
        if self.device is not None:
            os.close(self.device)
        steps = [(b[1] - a[1], b[2] - a[2]) for a, b in pairwise(self.ticks)]
        steps = [(busy, total) for busy, total in steps if total > 0]
        whole = sum(total for _, total in steps)
        return {
            "machine_busy": sum(busy for busy, _ in steps) / whole if whole else None,
            "machine_saturated": sum(b / t >= SATURATED for b, t in steps) / len(steps) if steps else None,
        }


def processor_ticks():
    """Busy and all ticks since boot, all processors together."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


def received_bytes(net_dev):
    """Bytes that all devices but the loopback of a `/proc/PID/net/dev` have received."""
    found = re.findall(r"^\s*(\S+):\s*(\d+)", net_dev, re.MULTILINE)
    return sum(int(count) for name, count in found if name != "lo")


def watched(process, patience, watch):
    """Waits for `process`; gives back its output, the arrivals and the machine's load meanwhile."""
    try:
        output = process.finish(patience, watch.look)
        watch.look()
    finally:
        load = watch.close()
    return output, watch.arrivals, load


def read_json(text, whose):
    """The one JSON object that a program printed."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise Failed(f"{whose} printed no JSON: {text[:200]!r}") from error


def last_event(text, whose):
    """The last of the JSON objects that a program printed, one per line: what came of it."""
    return read_json(text.strip().rpartition("\n")[2], whose)


def howdah_flow(kit, place, raw, *, seconds, rtt_s, name="howdah"):
    """zero: to null: for that long. Figures of the run, with the report of the tool as `report`.

    The receiving host's own byte counter must bear the report out.
    """
    with kit.serve(place, raw, raw, f"{name}-serve") as serve:
        # Before the first packet.
        watch = Watch(serve.pid)
        with kit.copy(place, "zero:", "null:", raw, name, ["--time", f"{seconds:g}s"]) as copy:
            output, arrivals, load = watched(copy, seconds + PATIENCE_S, watch)
    report = last_event(output, "howdah cp")
    arrived = arrivals[-1][1] - arrivals[0][1]
    if arrived < report["bytes"]:
        raise Failed(f"howdah cp reports {report['bytes']} bytes, but only {arrived} reached the far host")
    lines = [json.loads(line) for line in (raw / f"{name}.trace").read_text().splitlines()]
    samples = [(0.0, 0), *((line["seconds"], line["bytes"]) for line in lines)]
    samples.append((report["seconds"], report["bytes"]))
    (raw / f"{name}-arrivals.csv").write_text("".join(f"{t:.4f},{b}\n" for t, b in arrivals))
    return {
        **steady(Series(samples), seconds),
        **howdah_costs(report),
        **load,
        "arrived_bytes": arrived,
        "ramp_s": ramp_s(Series(arrivals), seconds, rtt_s),
        "report": report,
    }


def howdah_costs(report):
    """What a copy took, per byte moved, from the JSON of `howdah cp`."""
    sender, receiver, moved = report["sender"], report["receiver"], report["bytes"]
    return {
        "mean_bps": report["goodput_bps"],
        "sender_cpu_s_per_gbit": cpu_per_gbit(sender["cpu_seconds"], moved),
        "receiver_cpu_s_per_gbit": cpu_per_gbit(receiver["cpu_seconds"], moved),
        "sender_rss_bytes": sender["peak_rss_bytes"],
        "receiver_rss_bytes": receiver["peak_rss_bytes"],
        "feedback_bytes_per_gib": report["feedback_bytes"] * GIB / moved if moved else None,
        "repeated_share": report["retransmitted_bytes"] / moved if moved else None,
        "loss_seen": report["loss_rate"],
        "mtu": report["mtu"],
    }


def tcp_flow(place, raw, algorithm, *, seconds):
    """One flow of kernel TCP from memory to memory for that long, counted where it arrives."""
    name = f"tcp-{algorithm}"
    serve = ["iperf3", "-s", "-1", "-J", "-p", TCP_PORT]
    send = ["iperf3", "-c", place.far_address, "-p", TCP_PORT, "-C", algorithm, "-t", f"{seconds:g}", "-J"]
    send += ["--connect-timeout", "10000"]
    with Process("iperf3 -s", serve, out=raw / f"{name}-server.json", err=raw / f"{name}-server.log",
                 netns=place.far) as server:
        server.wait_until(lambda: listens(server.pid, TCP_PORT))
        with Process("iperf3 -c", send, out=raw / f"{name}.json", err=raw / f"{name}.log",
                     netns=place.near) as client:
            output, _, load = watched(client, seconds + PATIENCE_S, Watch())
        sent = read_json(output, "iperf3 -c")
        received = read_json(server.finish(PATIENCE_S), "iperf3 -s")
    return {**tcp_figures(sent, received, algorithm, seconds), **load}


def tcp_figures(sent, received, algorithm, seconds):
    """Figures of a TCP run from the JSON of both ends of iperf3."""
    for side in (sent, received):
        if "error" in side:
            raise Failed(f"iperf3: {side['error']}")
    end = sent["end"]
    used = end.get("sender_tcp_congestion")
    if used != algorithm:
        raise Failed(f"asked for TCP {algorithm}, the kernel used {used}")
    total, samples = 0, [(0.0, 0)]
    for interval in received["intervals"]:
        total += interval["sum"]["bytes"]
        samples.append((interval["sum"]["end"], total))
    arrived = received["end"]["sum_received"]
    sender, receiver = (side["end"]["cpu_utilization_percent"]["host_total"] for side in (sent, received))
    return {
        **steady(Series(samples), seconds),
        "mean_bps": arrived["bits_per_second"],
        "congestion": used,
        "retransmits": end["sum_sent"].get("retransmits"),
        # Percent of one processor over the time that each end measured.
        "sender_cpu_s_per_gbit": cpu_per_gbit(sender / 100 * end["sum_sent"]["seconds"], arrived["bytes"]),
        "receiver_cpu_s_per_gbit": cpu_per_gbit(receiver / 100 * arrived["seconds"], arrived["bytes"]),
    }


def listens(pid, port):
    """Whether `pid` has become iperf3 and somebody listens on that TCP port where it lives."""
    if Path(f"/proc/{pid}/comm").read_text().strip() != "iperf3":
        return False
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(f":{port:04X}") and fields[3] == "0A":
                    return True
    return False


def attempt(what, *arguments, **settings):
    """Runs `what`; a failed run is a result too."""
    try:
        return what(*arguments, **settings)
    except (Failed, OSError, KeyError, ValueError) as error:
        return {"error": str(error) if isinstance(error, Failed) else repr(error)}
