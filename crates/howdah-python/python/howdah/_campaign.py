"""A campaign of the laboratory on a Dask cluster: each cell a task, all results in one directory here.

Cells depend on nothing but the scenario and the program, and are named by the hash of both: so whichever worker runs one, and how often,
comes to the same result, and a result is taken only if it has the name that this machine expects.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _errors
from ._command import run as run_command
from ._crew import Crew, Running
from ._lab_run import Watch, Watcher, failure, options, paths_of, read, run_lab, usual_place
from .lab import Results

_log = logging.getLogger("howdah")

# A part of so many that it has no cell: such a run writes what holds for all cells, and the table of those that are there.
_NOTHING = "1000000000/1000000000"
# Of ends without a result, those that another worker, or the same one later, may not come to.
_FOR_GOOD = {2, 3}
# A trace is named where it is used, in a list, or on an axis that "$name" refers to.
_TRACE = re.compile(r"""\btrace\s*=""")
_TEXT = re.compile(r"""["']([^"'\n]+)["']""")


def campaign(
    client: Any,
    scenarios: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    quick: bool = False,
    seeds: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Watcher = None,
    command: str | None = None,
    retries: int = 3,
) -> Results:
    """Runs the cells of ``scenarios`` that have no result yet on the workers of ``client``, a ``distributed.Client``, in virtual time.

    What comes out is what `howdah.lab.run` comes to on one machine, cell by cell; only wall times, the machine and the date differ. Scenario files
    and the traces that they name travel to the workers, results travel back: nothing is shared but the cluster. Each thread of a worker
    runs a cell at a time, by the ``howdah`` there.

    Blocks until the last cell is done. A cell whose worker died is run again elsewhere. After the scheduler, this process or everything
    died, the same call goes on: cells that have a result in ``out`` are not run again.

    Args:
        client: whose workers run cells. One without ``howdah``, or with another version than this machine, is left out, with a warning.
        scenarios: a scenario file or a directory of them, or several, on this machine.
        quick: the reduced set that each scenario names.
        seeds: at least so many seeds of each cell.
        out: the directory of the results, on this machine; ``results/NAME`` without it, with ``-quick`` behind it.
        progress: ``True`` for a bar, or a callable, which gets a `howdah.lab.Progress` on this thread.
        command: the ``howdah`` of the workers, if it is not the one beside their interpreter, nor in their ``PATH``.
        retries: how often a cell is run again whose worker died, or where the command could not do its work.

    Raises:
        howdah.UsageError: the scenarios make no sense, or ``out`` holds the results of others; nothing was run.
        howdah.Error: no worker can run anything, or a cell came to no end. What is done is kept.

    A cell that gave no result raises nothing: it has its reason in `howdah.lab.Results.failed`.
    """
    paths = paths_of(scenarios)
    place = Path(out) if out is not None else usual_place(paths[0], quick, "sim")
    wanted = options(quick, seeds)
    here = ["lab", "run", *paths, "--json", "--out", os.fspath(place), *wanted, "--shard", _NOTHING]
    _run_here(here)
    with Watch(place, progress, told_before=True) as watch:
        watch.look()
        _Campaign(client, command, retries, place, paths, wanted).run(watch)
    _run_here(here)
    results = Results(place)
    for cell, why in results.failed.items():
        _log.warning("cell %s: %s", cell, why)
    return results


def _run_here(words: list[str]) -> None:
    code, _, said = run_lab(words, None)
    if code != 0:
        raise failure(code, said)


# What runs on workers: a plain function of plain values.


def _simulate(
    command: str | None, files: dict[str, bytes], paths: list[str], wanted: list[str], shard: str
) -> tuple[int, str, bytes, bytes]:
    """Exit code, what was said, and the files of the one cell of this part; empty if it has no result."""
    try:
        # Dask clears it away when a worker was killed.
        worker: Any = importlib.import_module("distributed").get_worker()
        with tempfile.TemporaryDirectory(prefix="howdah-", dir=worker.local_directory) as scratch:
            inside, place = f"{scratch}/in", Path(scratch, "out")
            for name, content in files.items():
                file = Path(inside + name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            scenarios = [inside + path for path in paths]
            words = ["lab", "run", *scenarios, "--json", "--jobs", "1", "--shard", shard, "--out", str(place), *wanted]
            code, _, said = run_command(command, words)
            for cell in (place / "cells").glob("*.json"):
                return code, said, cell.read_bytes(), (place / "intervals" / f"{cell.stem}.parquet").read_bytes()
            return code, said, b"", b""
    except OSError as error:
        return 1, f"{error.filename}: {error.strerror}", b"", b""


class _Campaign(Crew):
    nobody = "no worker can run cells: none is there, or none has this howdah"

    def __init__(
        self, client: Any, command: str | None, retries: int, place: Path, paths: list[str], wanted: list[str]
    ) -> None:
        code, version, said = run_command(None, ["--version"])
        if code != 0:
            raise failure(code, said)
        super().__init__(client, command, version.strip())
        self.retries = retries
        self.place = place
        self.paths = [os.path.abspath(path) for path in paths]
        self.wanted = wanted
        self.campaign: dict[str, Any] = read(place / "campaign.json")
        self.files = _files(self.campaign)
        self.cells: list[str] = self.campaign["cells"]
        self.failures: dict[int, int] = {}

    def slots(self) -> dict[str, int]:
        return {address: int(worker["nthreads"]) for address, worker in self.workers().items()}

    def failure(self, message: str) -> _errors.Error:
        return _errors.Error(message)

    def run(self, watch: Watch) -> None:
        # One that stands there twice is run once.
        first = {cell: index for index, cell in reversed(list(enumerate(self.cells)))}
        waiting = sorted(index for cell, index in first.items() if not self._has(cell))
        try:
            while waiting or self.running:
                # Nobody is asked for when there is nothing to do but to wait.
                free = self.free() if waiting else []
                for worker in free[: len(waiting)]:
                    self._start(waiting.pop(0), worker)
                if not self.running:
                    self.check()
                for future, run in self.ended():
                    if not self._settle(self.result(future, run), run):
                        waiting.append(run.task)
                watch.look()
        finally:
            self.stop()

    def _has(self, cell: str) -> bool:
        file = self.place / "cells" / f"{cell}.json"
        try:
            # One that failed is tried again, as by the command; so is what is no result.
            return json.loads(file.read_bytes()).get("error") is None
        except (OSError, ValueError):
            return False

    def _start(self, index: int, worker: str) -> None:
        shard = f"{index + 1}/{len(self.cells)}"
        self.start(index, worker, _simulate, self.command, self.files, self.paths, self.wanted, shard)

    def _settle(self, returned: tuple[int, str, bytes, bytes] | None, run: Running) -> bool:
        """Whether the cell has its result now; else it is to be run again."""
        code, said, result, series = returned or (-9, f"worker {run.worker} is gone", b"", b"")
        cell = self.cells[run.task]
        if result:
            self._check(json.loads(result), cell, run.worker)
            # The cell's JSON last: it says that all is there.
            _replace(self.place / "intervals" / f"{cell}.parquet", series)
            _replace(self.place / "cells" / f"{cell}.json", result)
            return True
        failures = self.failures[run.task] = self.failures.get(run.task, 0) + 1
        if code in _FOR_GOOD or failures > self.retries:
            error = failure(code, f"cell {cell} on {run.worker}: {said}")
            raise error
        _log.warning("cell %s on %s: %s; it is run again", cell, run.worker, said)
        return False

    def _check(self, result: dict[str, Any], cell: str, worker: str) -> None:
        """Programs that call themselves the same may still differ while they are being written."""
        if result["id"] != cell:
            raise _errors.Error(f"{worker} has another howdah: to it cell {cell} is {result['id']}; install the same one everywhere")
        commit = self.campaign["commit"]
        if result["commit"] != commit:
            raise _errors.Error(f"{worker} has a howdah of commit {result['commit']}, this machine of {commit}; install the same one everywhere")


def _files(campaign: dict[str, Any]) -> dict[str, bytes]:
    """All that the scenarios are made of, by absolute path."""
    files: dict[str, bytes] = {}
    with_traces = any(_TRACE.search(scenario["text"]) for scenario in campaign["scenarios"])
    for scenario in campaign["scenarios"]:
        path = Path(os.path.abspath(scenario["path"]))
        files[str(path)] = scenario["text"].encode()
        for name in _TEXT.findall(scenario["text"]) if with_traces else []:
            trace = path.parent / name
            # Most texts name no file; a trace that is missing would have been told of.
            if len(name) < 256 and trace.is_file():
                files[os.path.abspath(trace)] = trace.read_bytes()
    return files


def _replace(file: Path, content: bytes) -> None:
    """It is there whole, or not at all."""
    temporary = file.with_suffix(f".tmp{os.getpid()}")
    try:
        with temporary.open("wb") as writer:
            writer.write(content)
            writer.flush()
            os.fsync(writer.fileno())
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _errors.Error(f"{file}: {error.strerror}; finished cells are kept, the same call goes on") from error
