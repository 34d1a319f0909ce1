"""How well the simulator knows a path that was seen, over the emulator. Prints a Markdown table. Needs root.

Without more: real copies, each recorded (`howdah cp --record`) and run again in virtual time (`howdah lab replay`): recorded and replayed
rate, and their ratio. With `--predict`: `howdah predict` looks at the path, then the copy is made: what was told, and what it took.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from procs import Failed, World, catch_signals, command, say
from transports import HOWDAH_PORT, Kit, Process

# Within that of 1 counts.
NEAR = 0.10
PIECE = 64 << 10


@dataclass(frozen=True)
class Case:
    """A path, what is on it, and what holds the copy back."""

    kind: str
    rate: str
    rtt_ms: float
    queue: str
    extra: tuple = ()
    # Not where there are bursts of it.
    loss_percent: float | None = 0.0
    # What the program at one end gives or takes, in Mbit/s.
    slow_mbit: float = 0.0
    cubic: bool = False
    # Bytes of a copy, in those of the others.
    times: int = 1

    def size(self, seconds):
        """Bytes of a copy that takes about that."""
        share = 0.5 if self.cubic else 1.0
        return int(megabits(self.rate) * 125_000 * seconds * share * self.times)

    def name(self):
        """As the table calls it."""
        slow = f", {self.slow_mbit:g} Mbit/s" if self.slow_mbit else ""
        lossy = f", loss {self.loss_percent:g} %" if self.loss_percent else ""
        more = ", ".join(("", *(word.removeprefix("--") for word in self.extra[:2]))).replace("ge, ", "bursts ").replace("jitter, ", "jitter ")
        return f"{self.kind} | {self.rate}, {self.rtt_ms:g} ms, queue {self.queue}{lossy}{more}{slow}"


def cases():
    """Forty runs in five kinds."""
    for rate, rtt, queue, loss in (
        ("50mbit", 10, "20ms", 0), ("50mbit", 100, "50ms", 0.1), ("100mbit", 40, "20ms", 0), ("100mbit", 40, "5ms", 0.5),
        ("200mbit", 20, "25ms", 0), ("200mbit", 100, "25ms", 1), ("500mbit", 20, "25ms", 0), ("1gbit", 40, "25ms", 0.1),
    ):
        yield Case("constant", rate, rtt, queue, loss_percent=loss)
    for rate, rtt, jitter in (
        ("50mbit", 40, "2ms"), ("100mbit", 20, "1ms"), ("100mbit", 40, "5ms"), ("100mbit", 100, "10ms"),
        ("200mbit", 20, "2ms"), ("200mbit", 60, "5ms"), ("500mbit", 40, "1ms"), ("500mbit", 40, "3ms"),
    ):
        yield Case("jittery", rate, rtt, "30ms", ("--jitter", jitter))
    for rate, rtt, bursts in (
        ("50mbit", 40, "0.05%,20%"), ("100mbit", 20, "0.1%,10%"), ("100mbit", 40, "0.02%,5%"), ("100mbit", 100, "0.2%,20%"),
        ("200mbit", 20, "0.01%,2%"), ("200mbit", 60, "0.1%,20%"), ("500mbit", 20, "0.05%,10%"), ("500mbit", 40, "0.01%,5%"),
    ):
        yield Case("bursty loss", rate, rtt, "25ms", ("--ge", bursts, "--loss-back", "0"), loss_percent=None)
    for rate, rtt, queue in (
        ("50mbit", 20, "40ms"), ("50mbit", 40, "20ms"), ("100mbit", 20, "20ms"), ("100mbit", 20, "60ms"),
        ("100mbit", 40, "40ms"), ("200mbit", 20, "20ms"), ("200mbit", 40, "40ms"), ("500mbit", 20, "20ms"),
    ):
        yield Case("beside CUBIC", rate, rtt, queue, cubic=True)
    for rate, rtt, slow in (
        ("100mbit", 20, 30), ("100mbit", 40, 60), ("200mbit", 20, 40), ("200mbit", 60, 100),
        ("500mbit", 20, 80), ("500mbit", 40, 200), ("1gbit", 20, 150), ("100mbit", 100, 50),
    ):
        yield Case("slow sink", rate, rtt, "25ms", slow_mbit=slow)


def predicted_cases():
    """Those of which a probe can know something: a slow program shows when the copy runs, so longer copies instead."""
    yield from (case for case in cases() if not case.slow_mbit)
    for case in list(cases())[:8]:
        yield replace(case, kind="longer", times=3)


def megabits(rate):
    """Of a rate as the emulator takes it."""
    return float(rate.removesuffix("mbit")) if rate.endswith("mbit") else 1e3 * float(rate.removesuffix("gbit"))


def copy(kit, world, case, seconds, raw, recording):
    """One copy, recorded. The slow sink is a program that takes standard output at a rate."""
    words = [kit.howdah, "cp", "--accept-new", "--no-memory", "--transport", "udp", "--record", recording]
    words += ["--identity", kit.keys / "client.pem", "--known-hosts", kit.keys / "known_hosts"]
    far = f"howdah://{world.far_address}:{HOWDAH_PORT}"
    inside = ["ip", "netns", "exec", world.near]
    if not case.slow_mbit:
        words += [f"zero:{case.size(seconds)}", f"{far}/null:"]
        with Process("howdah cp", words, out=raw / "cp.out", err=raw / "cp.log", netns=world.near) as process:
            process.finish(90)
        return
    # What is on its way to a slow program takes up to twice a window of 16 MiB.
    size = int(case.slow_mbit * 125_000 * seconds) + (32 << 20)
    words += [f"{far}/zero:{size}", "-"]
    with (raw / "cp.log").open("wb") as log:
        child = subprocess.Popen(list(map(str, inside + words)), stdout=subprocess.PIPE, stderr=log)
        taken, begun = 0, time.monotonic()
        while piece := child.stdout.read(PIECE):
            taken += len(piece)
            time.sleep(max(0.0, taken / (case.slow_mbit * 125_000) - (time.monotonic() - begun)))
        if child.wait(30) != 0:
            raise Failed("howdah cp failed: " + (raw / "cp.log").read_text(errors="replace").strip())


def beside(stack, kit, world, case, raw, seconds):
    """One TCP connection with CUBIC that has the path for itself first, if the case wants one."""
    if not case.cubic:
        return
    address = f"{world.far_address}:5555"
    long = f"{seconds:.0f}s"
    take = [kit.howdah, "internal", "tcp-recv", "--listen", address, "--time", long, "--buffer", 1 << 26]
    give = [kit.howdah, "internal", "tcp-send", "--to", address, "--time", long, "--congestion", "cubic", "--buffer", 1 << 26]
    stack.enter_context(Process("tcp-recv", take, out=raw / "recv.out", err=raw / "recv.log", netns=world.far))
    time.sleep(0.3)
    stack.enter_context(Process("tcp-send", give, out=raw / "send.out", err=raw / "send.log", netns=world.near))
    time.sleep(2)


def world_of(kit, case, raw):
    """The path of a case."""
    return World(kit.howdah, raw, rtt_ms=case.rtt_ms, loss_percent=case.loss_percent, mtu=1500, rate=case.rate, queue=case.queue, extra=case.extra)


def run(kit, case, seconds, raw, recording):
    """The replay's report of one recorded copy."""
    with world_of(kit, case, raw) as world, kit.serve(world, raw, raw), ExitStack() as stack:
        beside(stack, kit, world, case, raw, seconds * 4 + 10)
        copy(kit, world, case, seconds, raw, recording)
    told = json.loads(command(kit.howdah, "lab", "replay", recording, "--protocols", "howdah", "--json"))
    return told, world.certificate


def foretell(kit, case, seconds, raw):
    """What was told of a copy, and how many seconds it took."""
    keys = ["--accept-new", "--identity", kit.keys / "client.pem", "--known-hosts", kit.keys / "known_hosts"]
    with world_of(kit, case, raw) as world, kit.serve(world, raw, raw), ExitStack() as stack:
        beside(stack, kit, world, case, raw, seconds * 6 + 90)
        far = f"howdah://{world.far_address}:{HOWDAH_PORT}"
        inside = ["ip", "netns", "exec", world.near, kit.howdah]
        told = json.loads(command(*inside, "predict", "--json", "--size", case.size(seconds), far, *keys))
        words = ["cp", "--json", "--no-memory", "--transport", "udp", *keys, f"zero:{case.size(seconds)}", f"{far}/null:"]
        took = json.loads(command(*inside, *words).splitlines()[-1])["seconds"]
    return told, took, world.certificate


def predictions(kit, given, raw):
    """Runs all cases that can be foretold, and prints the table."""
    rows = []
    for case in (case for case in predicted_cases() if given.only in case.name()):
        try:
            told, took, certificate = foretell(kit, case, given.seconds, raw)
        except Failed as error:
            say(f"{case.name()}: {error}")
            continue
        rows.append((case, told, took, certificate["valid"]))
        say(f"{case.name()}: {told['least_s']:.2f} to {told['most_s']:.2f}, likely {told['likely_s']:.2f}; {took:.2f} s")
    print("| kind | path | told, s | between, s | took, s | inside |\n| --- | --- | ---: | ---: | ---: | --- |")
    inside = [told["least_s"] <= took <= told["most_s"] for _, told, took, _ in rows]
    for (case, told, took, valid), is_inside in zip(rows, inside, strict=True):
        mark = "" if valid else " †"
        word = "yes" if is_inside else "no"
        print(f"| {case.name()}{mark} | {told['likely_s']:.2f} | {told['least_s']:.2f} - {told['most_s']:.2f} | {took:.2f} | {word} |")
    print(f"\n{sum(inside)} of {len(rows)} inside." + ("" if all(row[3] for row in rows) else " †: the emulator's certificate speaks against the run."))


def main():
    """Runs all cases, some of them again, and prints the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=6.0, help="how long a copy takes that has its path for itself")
    arguments.add_argument("--only", default="", help="kinds of cases with this in their names")
    arguments.add_argument("--keep", type=Path, help="directory for the recordings")
    arguments.add_argument("--predict", action="store_true", help="judge howdah predict instead")
    given = arguments.parse_args()
    catch_signals()
    howdah = Path(os.environ["HOWDAH"]).resolve()
    rows = []
    with tempfile.TemporaryDirectory(prefix="hbench-replay-") as directory:
        keys = Path(directory)
        kit = Kit(howdah, keys, True)
        kit.make_keys()
        if given.predict:
            predictions(kit, given, keys)
            return
        chosen = [(number, case) for number, case in enumerate(cases()) if given.only in case.name()]
        for number, case in chosen:
            recording = (given.keep or keys) / f"{number:02}.flight"
            try:
                told, certificate = run(kit, case, given.seconds, keys, recording)
            except Failed as error:
                say(f"{case.name()}: {error}")
                continue
            recorded, replayed = told["recorded"]["goodput_bps"] / 1e6, told["outcomes"][0]["goodput_bps"] / 1e6
            rows.append((case, recorded, replayed, certificate["valid"]))
            late = "" if certificate["valid"] else f" ({certificate['verdict']})"
            say(f"{case.name()}: {recorded:.1f}, {replayed:.1f}: {replayed / recorded:.3f}{late}")
    print("| kind | path | recorded, Mbit/s | replayed, Mbit/s | ratio |\n| --- | --- | ---: | ---: | ---: |")
    for case, recorded, replayed, valid in rows:
        mark = "" if valid else " †"
        print(f"| {case.name()}{mark} | {recorded:.1f} | {replayed:.1f} | {replayed / recorded:.2f} |")
    near = sum(abs(replayed / recorded - 1) <= NEAR for _, recorded, replayed, _ in rows)
    print(f"\n{near} of {len(rows)} within {NEAR:.0%}." + ("" if all(row[3] for row in rows) else " †: the emulator's certificate speaks against the run."))


main()
