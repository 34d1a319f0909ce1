"""The laboratory: which transport, over which network, beside which other traffic.

`run` runs a scenario with the ``howdah lab run`` of this environment, `open` takes results that are there already. Both give
`Results`: Arrow tables, which pandas, polars and DuckDB read, and figures by matplotlib. docs/lab.md says how a scenario is written
and what each figure means.

The tables need ``pyarrow``, the figures ``matplotlib`` as well: ``pip install 'howdah[lab]'`` brings both. Units are in the names of
columns: ``_bps`` is bit/s, ``_s`` and ``_ms`` seconds and milliseconds, ``_bytes`` bytes, ``_percent`` per cent.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from . import _errors
from ._lab_rows import CELL, Kind, columns, front_of, series_of
from ._lab_run import Progress, Watch, Watcher, failure, options, paths_of, read, run_lab, usual_place

__all__ = ["Progress", "Results", "Watcher", "open", "run"]

_log = logging.getLogger("howdah")


def run(
    scenario: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    quick: bool = False,
    seeds: int | None = None,
    only: Mapping[str, str | Sequence[str]] | None = None,
    on: str = "sim",
    runs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: Watcher = None,
    command: str | None = None,
) -> Results:
    """Runs the cells of ``scenario`` that have no result yet, and returns the results of all.

    Blocks until the last cell is done. A run that was interrupted is gone on with by the same call; where all cells have results, nothing is run.

    Args:
        scenario: a scenario file or a directory of them, or several.
        quick: the reduced set that each scenario names.
        seeds: at least so many seeds of each cell.
        only: only cells that have one of these values of an axis, as in ``{"rtt": ["50ms", "100ms"]}``.
        on: ``"sim"``, in virtual time, or ``"netns"``, with real programs in network namespaces of this machine (root).
        runs: with ``"netns"``, runs of a cell at most (10); fewer if its median is settled before.
        out: the directory of the results; that of the command without it: ``results/NAME``, with ``-quick`` and ``-netns`` behind it.
        jobs: cells at a time; one for each core without it.
        progress: ``True`` for a bar, or a callable, which is called on this thread.
        command: a ``howdah`` to run other than the one of this environment, such as one with a congestion control of your own.

    Raises:
        howdah.UsageError: the scenario or the arguments make no sense, or ``out`` holds the results of other scenarios; nothing was run.
        howdah.RefusedError: this machine has no such testbed.
        howdah.StoppedError: somebody ended the command.
        howdah.Error: anything else, such as a disk that is full, or no command to run.
        KeyboardInterrupt: after Ctrl-C, when the command has ended; cells that were done are kept. A second Ctrl-C does not wait.

    A cell that gave no result raises nothing: it is warned of (logger ``howdah``), and has its reason in `Results.failed`.
    """
    paths = paths_of(scenario)
    place = Path(out) if out is not None else usual_place(paths[0], quick, on)
    words = ["lab", "run", *paths, "--json", "--on", on, "--out", os.fspath(place), *options(quick, seeds)]
    for axis, values in (only or {}).items():
        words += ["--only", f"{axis}={values if isinstance(values, str) else ','.join(values)}"]
    if runs is not None:
        words += ["--runs", str(runs)]
    if jobs is not None:
        words += ["--jobs", str(jobs)]
    with Watch(place, progress) as watch:
        code, printed, said = run_lab(words, watch, command)
    # With code 1 some cells may have failed, and the others have results.
    if code == 0 or (code == 1 and printed):
        for failed in json.loads(printed)["failed"]:
            _log.warning("%s: %s", failed["cell"], failed["error"])
        return Results(place)
    raise failure(code, said)


def open(directory: str | os.PathLike[str]) -> Results:
    """The results that ``howdah lab run``, `run` or `howdah.dask.campaign` have left in a directory, as they are now.

    Raises:
        howdah.NotFoundError: there is no campaign in it.
    """
    return Results(directory)


class Results:
    """What a campaign has left in a directory, as it was when this was made.

    Attributes:
        dir: the directory, absolute.
        campaign: what holds for all cells (``campaign.json``): scenarios as they were, commit, machine, command.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.dir: Path = Path(directory).absolute()
        if not (self.dir / "campaign.json").is_file():
            raise _errors.NotFoundError(f"{self.dir}: no campaign here ('howdah lab run' writes one)")
        self.campaign: dict[str, Any] = read(self.dir / "campaign.json")
        self._cells = self._read_cells()

    def __repr__(self) -> str:
        return f"<Results of {len(self._cells)} of {len(self._ids())} cells in {self.dir}>"

    @cached_property
    def cells(self) -> Any:
        """One row for each cell and transport in it (each ``[flow.NAME]``), in the order of the scenario; a ``pyarrow.Table``.

        What the cell is: ``cell`` (its id), ``experiment``, ``testbed``, ``seed``, ``commit``, ``duration_s`` and ``wall_s``,
        ``shortened``, ``error`` and ``skipped`` (why it has no result; such cells have one row), ``marks``; ``axis.NAME``, the value of
        each axis as the scenario writes it, and the same as a number where it is one: ``axis.rtt_ms``, ``axis.loss_percent``, ``axis.rate_bps``,
        ``axis.buffer_packets``, ``axis.buffer_bytes``, ``axis.buffer_bdp``.

        What the transport did: ``flow`` (its name), ``protocol``, ``algorithm``, ``goodput_bps`` over all of its time,
        ``steady_goodput_bps`` behind the warm-up, ``completion_s``, bytes and packets; then the figures of docs/lab.md, those
        of this flow under their names without it (``harm``, ``t90_ms.1`` for the first change of the network; ``flow_duration_s``, as
        ``duration_s`` is the run's), and those of the cell (``jain``).
        What is not known is null.
        """
        return self._table("flows")

    @cached_property
    def groups(self) -> Any:
        """One row for each cell and ``[group.NAME]`` of short flows; a ``pyarrow.Table``, else as `cells`. Percentiles are
        ``completion_p50_s``, ``completion_p95_s`` and ``completion_p99_s``."""
        return self._table("groups")

    @cached_property
    def streams(self) -> Any:
        """One row for each cell and ``[stream.NAME]``; a ``pyarrow.Table``, else as `cells`."""
        return self._table("streams")

    @cached_property
    def links(self) -> Any:
        """One row for each cell and direction of a path (``link``: ``main/forward``); a ``pyarrow.Table``, else as `cells`.
        ``utilisation`` is a share, 0 to 1; ``queue_p50_ms`` and the others are percentiles of the waiting time."""
        return self._table("links")

    @property
    def failed(self) -> dict[str, str]:
        """Why cells gave no result, by their id."""
        return {cell["id"]: cell["error"] for cell in self._cells if cell.get("error")}

    def series(self, cell: str | None = None) -> Any:
        """A row for each flow (and stream) and interval, of one cell or of all; a ``pyarrow.Table``.

        Columns: ``cell``, ``experiment``, ``seed``, ``axis.NAME`` as in `cells`, ``flow``, ``t_s`` (the interval's end, in scenario time),
        ``goodput_bps``, ``wire_bps``, ``retransmitted_bytes``, ``cwnd_bytes``, ``in_flight_bytes``, ``srtt_ms``, ``queue_ms``,
        ``jitter_ms``; 0 where a program of the testbed does not tell.

        Args:
            cell: its id, from the column ``cell`` of `cells`.

        Raises:
            howdah.NotFoundError: the campaign has no such cell, or the cell no result.
        """
        wanted = [each for each in self._cells if cell in (None, each["id"])]
        if cell is not None and not wanted:
            raise _errors.NotFoundError(f"{self.dir}: no result of a cell '{cell}' (the column 'cell' of Results.cells has them)")
        arrow = _arrow()
        parquet = cast(Any, importlib.import_module("pyarrow.parquet"))
        tables: list[Any] = []
        axes = self._axes()
        front = front_of(self._cells, axes)
        for each in wanted:
            file = self.dir / "intervals" / f"{each['id']}.parquet"
            if not file.is_file():
                if cell is not None:
                    raise _errors.NotFoundError(f"{file}: no such file")
                continue
            tables.append(series_of(each, axes, front, parquet.ParquetFile(file).read(), arrow))
        return arrow.concat_tables(tables) if tables else arrow.table({})

    def ledger(self) -> Any:
        """What the papers state, held against these results by ``howdah lab ledger``: a row for each statement; a ``pyarrow.Table``.

        Columns: ``id``, ``paper``, ``experiment``, ``statement``, ``stated`` (as the paper has it), ``ours``, ``verdict`` (``holds``, ``shape holds``,
        ``fails``, ``cannot be judged``), ``standing`` (whether it counts as a prediction), ``note`` and others: docs/ledger-notes.md.
        """
        arrow = _arrow()
        code, printed, said = run_lab(["lab", "ledger", os.fspath(self.dir), "--json"], None)
        if code != 0:
            raise failure(code, said)
        return arrow.Table.from_pylist(json.loads(printed))

    def figure(self, name: str, *, experiment: str | None = None, where: Mapping[str, str | Sequence[str]] | None = None) -> Any:
        """A ``matplotlib.figure.Figure``, which notebooks show and ``savefig("name.pdf")`` writes.

        Args:
            name: ``"loss"`` or ``"rtt"``, goodput against that axis of the scenario, the median over the seeds with their range;
                or ``"time"``, goodput over time of the lowest seed. A panel for each combination of the other axes, a line for each transport.
            experiment: its id, where the campaign has several.
            where: only cells with these values of axes, as in ``{"rtt": "50ms", "protocol": ["howdah", "cubic"]}``.

        Raises:
            ImportError: matplotlib is missing; names what brings it.
            howdah.UsageError: there is no such figure, axis or value, or there would be more than twelve panels.
        """
        try:
            figures = importlib.import_module("howdah._lab_figures")
        except ImportError as error:
            raise ImportError("figures need matplotlib: pip install 'howdah[lab]'") from error
        return figures.draw(name, self._cells, experiment, where or {}, self.series)

    def _table(self, kind: Kind) -> Any:
        arrow = _arrow()
        return arrow.table({name: arrow.array(values, type=kind_of) for name, kind_of, values in columns(self._cells, self._axes(), kind)})

    def _axes(self) -> list[str]:
        return sorted({axis for cell in self._cells for axis in cell["at"]})

    def _ids(self) -> list[str]:
        return self.campaign.get("cells") or [cell["id"] for cell in self._cells]

    def _read_cells(self) -> list[dict[str, Any]]:
        """Of each what its own file says, which is newer than the table where a run did not come to its end."""
        table = self.dir / "summary.json"
        written: dict[str, Any] = {}
        if table.is_file():
            written = {cell["id"]: cell for cell in read(table, "cells")["cells"]}
        found: list[dict[str, Any]] = []
        for name in self.campaign.get("cells") or list(written):
            file = self.dir / "cells" / f"{name}.json"
            if file.is_file():
                found.append(read(file, *CELL))
            elif name in written:
                found.append(written[name])
        return found


def _arrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise ImportError("tables of results need pyarrow: pip install 'howdah[lab]'") from error
