"""Measures what docs/performance.md shows and prints it as Markdown tables. Run it through run.sh.

Standard output gets the tables, standard error the progress. All figures, with the machine and
every program's own output (raw/), go to target/bench/DATE/. Standard library only.
"""

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import machine
import picture
import report
from experiments import cable, cell, check_scratch, file_copies
from procs import Failed, Interrupted, catch_signals, command, remove_stale, say
from series import GIB
from transports import Kit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "performance.md"
RTTS_MS = (0, 50, 100, 200, 400)
LOSSES_PERCENT = (0, 0.1, 1, 2)
QUICK_CELLS = ((0, 0), (100, 1), (400, 2))
MTUS = (9000, 1500)


def numbers(text):
    """Reads `0,100`."""
    return [float(part) for part in text.split(",")]


def arguments():
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="benches/run.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--tables", default="1,2,3,4,5", help="which [%(default)s]; 3 and 4 come from the cells of 1")
    parser.add_argument("--rtt", type=numbers, metavar="MS,...", help="round-trip times of table 1 [0,50,100,200,400]")
    parser.add_argument("--loss", type=numbers, metavar="%,...", help="losses of table 1 [0,0.1,1,2]")
    parser.add_argument("--seconds", type=float, help="length of a run of tables 1 and 2 [20 and 10]")
    parser.add_argument("--repeat", type=int, help="runs of tables 1, 2 and 5, the median is shown [1, 3 and 1]")
    parser.add_argument("--quick", action="store_true", help="try the harness: short runs, few cells, a small file")
    parser.add_argument("--only", choices=["howdah"], help="skip TCP")
    parser.add_argument("--file-gib", type=float, help="size of the file of table 5 [4]")
    parser.add_argument("--scratch", type=Path, help="where that file is made: on a disk [below target/bench]")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/performance.md as well")
    parser.add_argument("--from", dest="earlier", type=Path, metavar="RESULTS.JSON", action="append",
                        help="measure nothing, print the tables of an earlier run; if given more than once, of each "
                             "table the last")
    args = parser.parse_args()
    try:
        args.tables = sorted({int(part) for part in args.tables.split(",")})
    except ValueError:
        args.tables = []
    if not args.tables or not set(args.tables) <= {1, 2, 3, 4, 5}:
        parser.error("--tables takes numbers from 1 to 5: 1,2,5")
    if (args.seconds is not None and args.seconds < 2) or (args.repeat is not None and args.repeat < 1):
        parser.error("a run takes at least 2 seconds and is done at least once")
    return args


def plan(args):
    """The cells of table 1 that these arguments ask for."""
    if set(args.tables).isdisjoint({1, 3, 4}):
        return []
    if args.rtt is None and args.loss is None:
        if set(args.tables).isdisjoint({1, 4}):
            return [report.MEMORY_CELL]
        if args.quick:
            return list(QUICK_CELLS)
    return [(rtt, loss) for rtt in args.rtt or RTTS_MS for loss in args.loss or LOSSES_PERCENT]


def requirements(args):
    """Ends with plain words if something is missing."""
    howdah = Path(os.environ.get("HOWDAH", ROOT / "target/release/howdah")).resolve()
    if os.geteuid() != 0:
        raise Failed("network namespaces need root: use `make bench`, or sudo")
    if not os.access(howdah, os.X_OK):
        raise Failed(f"{howdah} is missing: cargo build --release -p howdah-cli, or set HOWDAH")
    for program in ("ip", "setpriv", "cmp", "dd", *(() if args.only else ("iperf3",))):
        if not shutil.which(program):
            raise Failed(f"{program} is missing" + (": apt-get install iperf3" if program == "iperf3" else ""))
    return howdah


class Run:
    """One run of the harness: its settings, its directory, and what has been measured so far."""

    def __init__(self, args, howdah):
        """Makes the directory of the results."""
        now = datetime.now(UTC)
        base = howdah.parent.parent / "bench"
        self.args, self.howdah = args, howdah
        self.directory = base / now.strftime("%Y%m%dT%H%M%SZ")
        self.raw = self.directory / "raw"
        self.raw.mkdir(parents=True)
        self.results = {
            "schema": 1,
            "command": shlex.join(["benches/run.sh", *sys.argv[1:]]),
            "started": machine.date(now),
            "finished": None,
            "complete": False,
            "machine": machine.facts(ROOT, howdah),
            "settings": {"tables": args.tables, "quick": args.quick, "only_howdah": args.only == "howdah"},
            "matrix": [],
            "cable": [],
            "file": [],
        }

    def measure(self):
        """Runs everything that was asked for, writing down the results after each step."""
        with tempfile.TemporaryDirectory(prefix=f"hbench-{os.getpid()}-", dir=self.scratch_base()) as scratch:
            keys = Path(scratch, "keys")
            keys.mkdir()
            kit = Kit(self.howdah, keys, only_howdah=self.args.only == "howdah")
            kit.make_keys()
            if 5 in self.args.tables:
                # Better now than after half an hour.
                check_scratch(Path(scratch), 2 * self.file_bytes() + (64 << 20))
            # Tables 3 and 4 are about howdah alone.
            self.matrix(kit if 1 in self.args.tables else replace(kit, only_howdah=True))
            if 2 in self.args.tables:
                self.cables(kit)
            if 5 in self.args.tables:
                self.files(kit, Path(scratch))
        self.results["complete"] = True

    def scratch_base(self):
        """Where temporary files go."""
        base = self.args.scratch or self.directory.parent
        base.mkdir(parents=True, exist_ok=True)
        return base

    def file_bytes(self):
        """Size of the file of table 5."""
        return int((self.args.file_gib or (0.25 if self.args.quick else 4)) * GIB)

    def note(self, table, result):
        """Keeps a result."""
        self.results[table].append(result)
        self.write()

    def matrix(self, kit):
        """The cells of table 1."""
        seconds = self.args.seconds or (4 if self.args.quick else 20)
        cells = [(*where, i) for where in plan(self.args) for i in range(self.args.repeat or 1)]
        for number, (rtt_ms, loss_percent, i) in enumerate(cells, start=1):
            say(f"table 1, {number} of {len(cells)}: RTT {rtt_ms:g} ms, loss {loss_percent:g} %")
            raw = self.raw / f"rtt{rtt_ms:g}-loss{loss_percent:g}-{i + 1}"
            result = cell(kit, raw, rtt_ms=rtt_ms, loss_percent=loss_percent, seconds=seconds)
            self.note("matrix", result)

    def cables(self, kit):
        """The runs of table 2."""
        seconds = self.args.seconds or (3 if self.args.quick else 10)
        repeat = self.args.repeat or (1 if self.args.quick else 3)
        for i in range(repeat):
            for mtu in MTUS:
                say(f"table 2, {i + 1} of {repeat}: MTU {mtu}")
                self.note("cable", cable(kit, self.raw / f"mtu{mtu}-{i + 1}", mtu=mtu, seconds=seconds))

    def files(self, kit, scratch):
        """The copies of table 5."""
        size = self.file_bytes()
        for i in range(self.args.repeat or 1):
            say(f"table 5, {i + 1} of {self.args.repeat or 1}")
            self.note("file", file_copies(kit, self.raw / f"file-{i + 1}", scratch, size=size))

    def write(self):
        """Writes results and tables; under sudo they belong to who called."""
        self.results["finished"] = machine.date(datetime.now(UTC))
        text = report.markdown(self.results)
        (self.directory / "results.json").write_text(json.dumps(self.results, indent=1) + "\n")
        (self.directory / "tables.md").write_text(text)
        owner = os.environ.get("SUDO_UID")
        if owner:
            command("chown", "-R", f"{owner}:{os.environ.get('SUDO_GID', owner)}", self.directory)
        return text


def around_tables():
    """What stands before and after the tables in docs/performance.md."""
    before, begin, rest = DOCS.read_text().partition(report.BEGIN)
    _, end, after = rest.partition(report.END)
    if not begin or not end:
        raise Failed(f"{DOCS} has lost its markers: {report.BEGIN} and {report.END}")
    return before, after


def write_docs(text):
    """Puts the tables between the markers of docs/performance.md."""
    before, after = around_tables()
    DOCS.write_text(f"{before}{report.BEGIN}\n\n{text}\n{report.END}{after}")
    picture.main()
    say(f"wrote {DOCS}")


def any_failed(results):
    """Whether a run did not come to its end."""
    runs = [run for table in ("matrix", "cable", "file") for each in results[table] for run in each["runs"].values()]
    return any("error" in run for run in runs)


def main():
    """Measures, prints, writes. 0: all ran; 1: a run failed; 2: cannot run; 130: interrupted."""
    args = arguments()
    catch_signals()
    try:
        if args.write_docs:
            around_tables()
        if args.earlier:
            runs = [json.loads(path.read_text()) for path in args.earlier]
            text, status = "\n".join(map(report.markdown, report.last_of_each(runs))), 0
        else:
            run = Run(args, requirements(args))
            if os.getloadavg()[0] > 0.5:
                say("this machine is busy with something else: the figures will show it")
            if run.results["machine"]["howdah_is_stale"]:
                say("the binary is older than the sources: cargo build --release -p howdah-cli")
            remove_stale(run.scratch_base())
            try:
                run.measure()
            finally:
                text = run.write()
                say(f"results are in {run.directory}")
            status = 1 if any_failed(run.results) else 0
        print(text, end="")
        if args.write_docs:
            write_docs(text)
        return status
    except Interrupted as signal:
        say(f"interrupted ({signal}); nothing was left behind")
        return 130
    except (Failed, OSError) as error:
        say(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
