"""This howdah and one of before, in turns: goodput and processor time through the emulator and over a bare veth pair. Needs root.

HOWDAH names this one, --other the one of before. Each round has both in each place, and which is first changes; the emulator is this
one's in either turn. What counts is the ratio of each pair (now / before). A run that the emulator's certificate speaks against is left
out with its pair, and counted. With --out the table goes between the marks of that page.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from files_report import write_docs
from procs import Cable, Failed, World, catch_signals, command, say
from transports import Kit, howdah_flow

# RTT in ms and loss in per cent of the cells of table 1 that are compared, at 10 Gbit/s.
CELLS = ((0, 0), (50, 0.1), (100, 0), (100, 1), (200, 0.1), (400, 2))
MTUS = (9000, 1500)
# No case is to be slower, or to take more, by more than that.
BEARABLE = 0.03
FIGURES = {
    "goodput, Gbit/s": ("mean_bps", 1e9, 1),
    "sender, CPU s/Gbit": ("sender_cpu_s_per_gbit", 1, -1),
    "receiver, CPU s/Gbit": ("receiver_cpu_s_per_gbit", 1, -1),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path, required=True, help="the howdah of before")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--cells", action="store_true", help="through the emulator only")
    parser.add_argument("--cables", action="store_true", help="over the veth pair only")
    parser.add_argument("--out", type=Path, help="a page with marks for the table")
    return parser.parse_args()


def places(given):
    """Name, RTT in ms, and how to make each."""
    cells = [
        (f"{rtt:g} ms, {loss:g} %", rtt, lambda kit, raw, rtt=rtt, loss=loss: World(kit.howdah, raw, rtt_ms=rtt, loss_percent=loss))
        for rtt, loss in CELLS
    ]
    cables = [(f"veth pair, MTU {mtu}", 0, lambda kit, raw, mtu=mtu: Cable(mtu)) for mtu in MTUS]
    return ([] if given.cables else cells) + ([] if given.cells else cables)


def one(kit, program, make, rtt_ms, raw, seconds):
    """Figures of one flow, or `None` if the emulator's certificate speaks against it."""
    raw.mkdir()
    with make(kit, raw) as place:
        run = howdah_flow(program, place, raw, seconds=seconds, rtt_s=rtt_ms / 1e3)
    certificate = getattr(place, "certificate", None)
    return run if certificate is None or certificate["valid"] else None


def measure(given, kit, programs, scratch):
    """Of each place the pairs, and how many were left out."""
    found = {name: ([], 0) for name, _, _ in places(given)}
    for number in range(given.rounds):
        for at, (name, rtt_ms, make) in enumerate(places(given)):
            turns = list(programs.items())
            if (number + at) % 2:
                turns.reverse()
            pair = {}
            for which, program in turns:
                pair[which] = one(kit, program, make, rtt_ms, scratch / f"{number}-{at}-{which}", given.seconds)
            pairs, left_out = found[name]
            if all(pair.values()):
                pairs.append(pair)
                rates = ", ".join(f"{which} {pair[which]['mean_bps'] / 1e9:.2f}" for which in programs)
                say(f"round {number}: {name}: {rates} Gbit/s")
            else:
                found[name] = (pairs, left_out + 1)
                say(f"round {number}: {name}: left out, by the emulator's certificate")
    return found


def row(name, pairs, left_out):
    """Cells of the table, and what is worse than bearable."""
    cells, worse = [name, f"{len(pairs)}" + (f" (+{left_out})" if left_out else "")], []
    for title, (key, unit, better) in FIGURES.items():
        if not pairs:
            cells += ["-", "-", "-"]
            continue
        before, now = (statistics.median(pair[which][key] for pair in pairs) / unit for which in ("before", "now"))
        ratios = sorted(pair["now"][key] / pair["before"][key] for pair in pairs)
        middle = statistics.median(ratios)
        cells += [f"{before:.4g}", f"{now:.4g}", f"{middle:.3f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"]
        if better * (middle - 1) < -BEARABLE:
            worse.append(f"{name}: {title} {middle:.3f}")
    return cells, worse


def table(given, found, versions, processor):
    heads = [head for title in FIGURES for head in (f"{title}, before", "now", "ratio")]
    lines = [
        f"`benches/before.py --other BEFORE`: {versions['before']} and {versions['now']}, {given.rounds} rounds of {given.seconds:g} s in turns,"
        f" medians; {os.cpu_count()} cores of {processor}. In brackets the pairs that certificates leave out.",
        "",
        f"| place | pairs | {' | '.join(heads)} |",
        f"| --- |{' ---: |' * (1 + len(heads))}",
    ]
    worse = []
    for name, (pairs, left_out) in found.items():
        cells, some = row(name, pairs, left_out)
        lines.append(f"| {' | '.join(cells)} |")
        worse += some
    verdict = f"Worse by more than {BEARABLE:.0%}: {'; '.join(worse)}." if worse else f"Nothing is worse by more than {BEARABLE:.0%}."
    return "\n".join([*lines, "", verdict]) + "\n"


def main():
    given = arguments()
    catch_signals()
    now = Path(os.environ.get("HOWDAH", "target/release/howdah")).resolve()
    scratch = Path(tempfile.mkdtemp(prefix=f"hbench-{os.getpid()}-", dir="/dev/shm"))
    try:
        keys = scratch / "keys"
        keys.mkdir(mode=0o700)
        kit = Kit(now, keys, only_howdah=True)
        kit.make_keys()
        programs = {"before": replace(kit, howdah=given.other.resolve()), "now": kit}
        versions = {which: command(program.howdah, "--version").strip() for which, program in programs.items()}
        found = measure(given, kit, programs, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    model = command("sh", "-c", "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1").strip()
    text = table(given, found, versions, model)
    print(text, end="")
    if given.out:
        write_docs(given.out, "before", text)


if __name__ == "__main__":
    try:
        main()
    except (Failed, subprocess.SubprocessError) as error:
        raise SystemExit(f"bench: {error}") from error
