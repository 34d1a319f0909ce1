"""What a sealed flow of ours costs beside the least that it could: processor time per Gbit of payload, of both ends, in turns. Needs root.

Both go over a veth pair between two namespaces, from memory to memory, in packets that fill its MTU, at the same rate. The floor
(crates/howdah-net/examples/floor.rs) seals trains of zeros with AES-256-GCM and opens them, and does nothing else. With --out the table goes
between the marks of that page.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from files_report import write_docs
from procs import Cable, Failed, Process, catch_signals, command, say
from transports import HOWDAH_PORT, Kit, howdah_costs, last_event

# Payload of a packet of the floor: its MTU without the headers of IP and UDP, its own, and the tag.
HEADERS = 28 + 12 + 16
FLOOR_PORT = HOWDAH_PORT + 1
ASKED = 1.3
PATIENCE_S = 30


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mbit", type=float, nargs="*", default=[1000, 5000], help="rates, in Mbit/s")
    parser.add_argument("--mtu", type=int, nargs="*", default=[9000, 1500])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a page with marks for the table")
    return parser.parse_args()


def floor(place, binary, raw, mtu, mbit, seconds):
    """CPU seconds per Gbit of sender and receiver, and the share of packets that did not arrive."""
    address = f"{place.far_address}:{FLOOR_PORT}"
    receive = [binary, "receive", address]
    with Process("floor receive", receive, out=raw / "receive.json", err=raw / "receive.log", netns=place.far) as far:
        far.wait_for("receiving")
        send = [binary, "send", address, mtu - HEADERS, mbit, seconds]
        with Process("floor send", send, out=raw / "send.json", err=raw / "send.log", netns=place.near) as near:
            sent = json.loads(near.finish(seconds + PATIENCE_S))
        got = json.loads(far.finish(PATIENCE_S))
    if sent["bytes"] < 0.98 * mbit * 1e6 / 8 * seconds:
        raise Failed(f"the floor sent {sent['bytes'] * 8 / seconds / 1e6:.0f} Mbit/s, not {mbit:g}: the machine is too slow, or busy")
    costs = [end["cpu_seconds"] / (end["bytes"] * 8 / 1e9) for end in (sent, got)]
    return costs, 1 - got["packets"] / sent["packets"]


def ours(place, kit, raw, mbit, seconds):
    """The same of a copy."""
    with kit.serve(place, raw, raw):
        extra = ["--time", f"{seconds:g}s", "--limit", f"{mbit:g}mbit"]
        with kit.copy(place, "zero:", "null:", raw, "ours", extra) as copy:
            report = last_event(copy.finish(seconds + PATIENCE_S), "howdah cp")
    costs = howdah_costs(report)
    return [costs["sender_cpu_s_per_gbit"], costs["receiver_cpu_s_per_gbit"]]


def measure(given, kit, binary, scratch):
    rows = []
    for mtu in given.mtu:
        for mbit in given.mbit:
            found, lost = {"ours": [], "floor": []}, 0
            for turn in range(given.rounds):
                raw = scratch / f"{mtu}-{mbit:g}-{turn}"
                raw.mkdir()
                with Cable(mtu) as place:
                    found["ours"].append(ours(place, kit, raw, mbit, given.seconds))
                    costs, share = floor(place, binary, raw, mtu, mbit, given.seconds)
                found["floor"].append(costs)
                lost = max(lost, share)
            middle = {name: [statistics.median(costs[end] for costs in all_) for end in (0, 1)] for name, all_ in found.items()}
            ratios = [a / b for a, b in zip(middle["ours"], middle["floor"], strict=True)]
            say(f"MTU {mtu}, {mbit:g} Mbit/s: {ratios[0]:.2f} and {ratios[1]:.2f} times the floor")
            rows.append((mtu, mbit, middle, ratios, lost))
    return rows


def table(given, rows, processor):
    lines = [
        f"`make bench-floor`: {given.rounds} rounds of {given.seconds:g} s in turns, medians; {os.cpu_count()} cores of {processor}. CPU seconds per Gbit of payload.",
        "",
        "| MTU | Mbit/s | sender, ours | floor | times | receiver, ours | floor | times | asked | most not arrived, floor |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for mtu, mbit, middle, ratios, lost in rows:
        cells = [f"{middle['ours'][end]:.4f} | {middle['floor'][end]:.4f} | {ratios[end]:.2f}" for end in (0, 1)]
        lines.append(f"| {mtu} | {mbit:g} | {cells[0]} | {cells[1]} | {ASKED} | {lost * 100:.2f} % |")
    return "\n".join(lines) + "\n"


def main():
    given = arguments()
    catch_signals()
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release"
    scratch = Path(tempfile.mkdtemp(prefix=f"hbench-{os.getpid()}-", dir="/dev/shm"))
    try:
        keys = scratch / "keys"
        keys.mkdir(mode=0o700)
        kit = Kit(howdah=(target / "howdah").resolve(), keys=keys, only_howdah=True)
        kit.make_keys()
        rows = measure(given, kit, (target / "examples" / "floor").resolve(), scratch)
    finally:
        shutil.rmtree(scratch)
    model = command("sh", "-c", "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1").strip()
    text = table(given, rows, model)
    print(text, end="")
    if given.out:
        write_docs(given.out, "floor", text)


if __name__ == "__main__":
    try:
        main()
    except (Failed, subprocess.SubprocessError) as error:
        raise SystemExit(f"bench: {error}") from error
