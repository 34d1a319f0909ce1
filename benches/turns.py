"""Compares two builds, or two ways to call one, by the cases of `make bench-files`, in turns on one machine.

Which of the two begins changes from round to round; a figure is the median of the rounds, the ratio that of the pairs.
"""

import argparse
import os
import shlex
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import files
from group import Group
from movers import MOVERS, Site
from procs import Failed, Interrupted, catch_signals, remove_stale, say

MIB = 1 << 20


def variant(name, words, default):
    """`BINARY [FLAGS]` or `FLAGS` of the howdah that `--one` or HOWDAH names."""
    binary = words[0] if words and not words[0].startswith("-") else default
    flags = words[1:] if words and not words[0].startswith("-") else words
    binary = Path(binary).resolve()
    if not os.access(binary, os.X_OK):
        raise Failed(f"{binary} cannot be run: --one and --other take the path of a howdah, flags, or both")
    ours = MOVERS[0]

    def copy(_, site, source, target):
        argv = ours.copy(binary, site, source, target)
        return [*argv[:2], *flags, *argv[2:]]

    return binary, replace(ours, name=name, copy=copy)


def rounds(args, pair, inputs, sizes, scratch, raw):
    """Seconds and most memory of each side: {(path, case): {name: [cell, ...]}}."""
    keys = scratch / "keys"
    keys.mkdir(mode=0o700)
    found = {}
    for number in range(args.rounds):
        for rate, loss_percent in args.paths:
            for binary, mover in pair if number % 2 == 0 else reversed(pair):
                place = raw / f"{number}-{rate}-{loss_percent:g}-{mover.name}"
                place.mkdir()
                with Group("near") as near, Group("far") as far:
                    world = files.Host(args.emulator, place, (near, far), rate=rate, loss_percent=loss_percent, tcp="bbr")
                    with world, Site(world, keys, place) as site:
                        for name in args.cases:
                            there = place / name
                            there.mkdir()
                            cell = files.case(mover, {"howdah": binary}, world, site, inputs, name, scratch, there, sizes)
                            if not cell.get("ended") or not cell["same"]:
                                raise Failed(f"{mover.name}, {rate}, {loss_percent:g} %, {name}: {cell}")
                            found.setdefault((f"{rate}, {loss_percent:g} %, {name}"), {}).setdefault(mover.name, []).append(cell)
                            say(f"round {number}: {rate}, {loss_percent:g} %, {name}, {mover.name}: {cell['seconds']:.2f} s")
    return found


def table(found):
    """Markdown."""
    yield "| case | one s | other s | one / other | one MiB | other MiB |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name, cells in found.items():
        one, other = cells["one"], cells["other"]
        ratio = statistics.median(a["seconds"] / b["seconds"] for a, b in zip(one, other, strict=True))
        seconds = [statistics.median(cell["seconds"] for cell in side) for side in (one, other)]
        peaks = [
            " + ".join(f"{statistics.median(cell[f'{end}_peak_bytes'] for cell in side) / MIB:.0f}" for end in ("near", "far"))
            for side in (one, other)
        ]
        yield f"| {name} | {seconds[0]:.2f} | {seconds[1]:.2f} | {ratio:.3f} | {peaks[0]} | {peaks[1]} |"


def arguments():
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="benches/turns.py", description=__doc__.splitlines()[0])
    parser.add_argument("--one", type=shlex.split, default=[], help="BINARY, FLAGS or both [HOWDAH or target/release/howdah]")
    parser.add_argument("--other", type=shlex.split, required=True, help="what it is compared with, in the same form")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--paths", type=files.path, nargs="+", default=files.PATHS, metavar="RATE,LOSS%")
    parser.add_argument("--cases", nargs="+", choices=files.CASES, default=files.CASES)
    parser.add_argument("--quick", action="store_true", help="small inputs")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"))
    return parser.parse_args()


def main():
    """0: all ran; 1: a run failed; 130: interrupted."""
    args = arguments()
    catch_signals()
    try:
        args.emulator = files.requirements()
        pair = [variant("one", args.one, args.emulator), variant("other", args.other, args.emulator)]
        sizes = files.QUICK if args.quick else files.FULL
        remove_stale(args.scratch)
        with tempfile.TemporaryDirectory(prefix=f"hbench-{os.getpid()}-", dir=args.scratch) as scratch:
            scratch = Path(scratch)
            inputs = files.make_inputs(scratch, sizes)
            raw = scratch / "raw"
            raw.mkdir()
            found = rounds(args, pair, inputs, sizes, scratch, raw)
        print(f"`benches/turns.py {shlex.join(sys.argv[1:])}`\n")
        print("\n".join(table(found)))
        return 0
    except Interrupted as signal:
        say(f"interrupted ({signal})")
        return 130
    except (Failed, OSError) as error:
        say(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
