"""Figures of results, by matplotlib. What a line is shows in its marker and its dashes as well as in its colour."""

from __future__ import annotations

import importlib
import io
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._errors import UsageError
from ._lab_rows import measure

# No figure of pyplot's: those stay in a table of the process until somebody closes them.
_matplotlib: Any = importlib.import_module("matplotlib.figure")

# Okabe and Ito: told apart by most people whose eyes have fewer cones, but for yellow, which is too light for a line.
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00"]
_MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*", "<", ">"]
_DASHES = ["-", "--", "-.", ":"]
_MOST_PANELS = 12
_RATES = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")]
_AXES = {"loss": "Random loss (%)", "rtt": "Round-trip time (ms)"}

Cell = Mapping[str, Any]


class _Figure(_matplotlib.Figure):  # pyright: ignore[reportUntypedBaseClass]
    def _repr_png_(self) -> bytes:
        """What a notebook shows, whether pyplot is there or not."""
        image = io.BytesIO()
        self.savefig(image, format="png", dpi=110)
        return image.getvalue()


@dataclass
class _Line:
    """Goodput in bit/s: of each seed at each place on the x axis."""

    at: dict[float, list[float]] = field(default_factory=dict[float, list[float]])
    label: dict[float, str] = field(default_factory=dict[float, str])

    def add(self, x: float, goodput_bps: float, label: str = "") -> None:
        self.at.setdefault(x, []).append(goodput_bps)
        self.label[x] = label


# Lines by name, of panels by title, both in the order of the scenario.
_Panels = dict[str, dict[str, _Line]]


def draw(
    name: str,
    cells: Sequence[Cell],
    experiment: str | None,
    where: Mapping[str, str | Sequence[str]],
    series: Callable[[str], Any],
) -> Any:
    if name not in (*_AXES, "time"):
        raise UsageError(f"there is no figure '{name}'; there are: loss, rtt, time")
    chosen = _chosen(cells, experiment, where)
    if name == "time":
        panels = _over_time(chosen, series)
        return _figure(panels, "Time (s)", _title(chosen, "the run of the lowest seed"), _draw_series)
    axis = _axis_called(name, chosen)
    panels = _against(axis, chosen)
    seeds = len({cell["seed"] for cell in chosen})
    note = "one seed" if seeds == 1 else f"median and range of {seeds} seeds"
    return _figure(panels, _AXES[name], _title(chosen, note), _draw_points)


def _chosen(cells: Sequence[Cell], experiment: str | None, where: Mapping[str, str | Sequence[str]]) -> list[Cell]:
    ids = list(dict.fromkeys(cell["experiment"] for cell in cells))
    if experiment is None and len(ids) > 1:
        raise UsageError(f"several experiments; name one with experiment=: {', '.join(ids)}")
    if experiment is not None and experiment not in ids:
        raise UsageError(f"no results of an experiment '{experiment}'; there are: {', '.join(ids) or 'none'}")
    chosen = [cell for cell in cells if experiment in (None, cell["experiment"])]
    for axis, wanted in where.items():
        labels = [wanted] if isinstance(wanted, str) else list(wanted)
        there = _labels(axis, chosen)
        if not there:
            raise UsageError(f"where: there is no axis '{axis}'; the axes are: {', '.join(_axes(chosen)) or 'none'}")
        for label in labels:
            if label not in there:
                raise UsageError(f"where: the axis '{axis}' has no value '{label}'; it has: {', '.join(there)}")
        chosen = [cell for cell in chosen if cell["at"].get(axis) in labels]
    chosen = [cell for cell in chosen if cell["flows"]]
    if not chosen:
        raise UsageError("no cell with flows has such a result")
    return chosen


def _axes(cells: Sequence[Cell]) -> list[str]:
    return sorted({axis for cell in cells for axis in cell["at"]})


def _labels(axis: str, cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell["at"][axis] for cell in cells if axis in cell["at"]))


def _axis_called(name: str, cells: Sequence[Cell]) -> str:
    """The axis of that name; of one path it may be ``second.rtt``."""
    found = [axis for axis in _axes(cells) if axis == name or axis.endswith(f".{name}")]
    if len(found) != 1:
        raise UsageError(f"the figure '{name}' needs one axis of that name; the axes are: {', '.join(_axes(cells)) or 'none'}")
    return found[0]


def _place(cell: Cell, cells: Sequence[Cell], without: str | None) -> str:
    """The panel of a cell: its values on the other axes that vary."""
    varying = [axis for axis in _axes(cells) if axis not in (without, "protocol") and len(_labels(axis, cells)) > 1]
    return ", ".join(f"{axis} {cell['at'][axis]}" for axis in varying if axis in cell["at"])


def _line(cell: Cell, flow: Mapping[str, Any]) -> str:
    protocol = cell["at"].get("protocol", flow["protocol"]) if len(cell["flows"]) == 1 else flow["protocol"]
    return protocol if len(cell["flows"]) == 1 else f"{flow['name']}: {protocol}"


def _against(axis: str, cells: Sequence[Cell]) -> _Panels:
    panels: _Panels = {}
    for cell in cells:
        label = cell["at"].get(axis)
        amount = measure(label) if label is not None else None
        if label is None or amount is None:
            continue
        # The mean of a cell that ended early would be that of its start.
        figure = "steady_goodput_bps" if cell["shortened"] else "goodput_bps"
        for flow in cell["flows"]:
            lines = panels.setdefault(_place(cell, cells, axis), {})
            lines.setdefault(_line(cell, flow), _Line()).add(amount[1], flow[figure], label)
    if not panels:
        raise UsageError(f"the axis '{axis}' has no values with a unit")
    return panels


def _over_time(cells: Sequence[Cell], series: Callable[[str], Any]) -> _Panels:
    panels: _Panels = {}
    lowest: dict[tuple[str, ...], Cell] = {}
    for cell in cells:
        place = tuple(f"{axis}={label}" for axis, label in sorted(cell["at"].items()))
        if place not in lowest or cell["seed"] < lowest[place]["seed"]:
            lowest[place] = cell
    for cell in lowest.values():
        columns = series(cell["id"]).select(["flow", "t_s", "goodput_bps"]).to_pydict()
        names = {flow["name"]: _line(cell, flow) for flow in cell["flows"]}
        lines = panels.setdefault(_place(cell, cells, None), {})
        for flow, t_s, goodput_bps in zip(columns["flow"], columns["t_s"], columns["goodput_bps"]):
            if flow in names:
                lines.setdefault(names[flow], _Line()).add(t_s, goodput_bps)
    return panels


def _title(cells: Sequence[Cell], note: str) -> str:
    testbeds = sorted({cell["testbed"] for cell in cells})
    return f"{cells[0]['experiment']} ({', '.join(testbeds)}): {note}"


def _figure(panels: _Panels, x_label: str, title: str, draw_one: Callable[[Any, _Line, float, dict[str, Any], int], None]) -> Any:
    if len(panels) > _MOST_PANELS:
        raise UsageError(f"{len(panels)} panels are too many for a figure; choose with where=, as in where={{'rtt': '50ms'}}")
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    styles = {name: _style(index) for index, name in enumerate(names)}
    values = [value for lines in panels.values() for line in lines.values() for all_of in line.at.values() for value in all_of]
    if not values:
        raise UsageError("no run was as long as an interval of its series; a shorter 'interval' in [measure] shows what was in it")
    most = max(values)
    unit, unit_name = next((each for each in _RATES if most >= each[0]), _RATES[-1])
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    figure: Any = _Figure(figsize=(1.5 + 3.6 * columns + (1.2 if columns == 1 else 0), 1.1 + 2.9 * rows), layout="constrained")
    figure.suptitle(title, fontsize="medium")
    drawn = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for axes, (panel, lines) in zip(drawn, panels.items()):
        if panel:
            axes.set_title(panel, fontsize="small")
        for name, line in lines.items():
            draw_one(axes, line, unit, {**styles[name], "label": name}, names.index(name))
        axes.grid(alpha=0.3)
    drawn[0].set_ylim(0, 1.05 * most / unit or 1)
    for axes in drawn[len(panels) :]:
        axes.set_visible(False)
    for axes in drawn[::columns]:
        axes.set_ylabel(f"Goodput ({unit_name})")
    for axes in drawn[max(len(panels) - columns, 0) : len(panels)]:
        axes.set_xlabel(x_label)
        axes.tick_params(labelbottom=True)
    if draw_one is _draw_points:
        _ticks(drawn[: len(panels)], panels, is_wide=x_label == _AXES["loss"])
    named: dict[str, Any] = {}
    for axes in figure.axes:
        named.update({name: handle for handle, name in zip(*axes.get_legend_handles_labels())})
    figure.legend([named[name] for name in names], names, loc="outside lower center", ncols=min(len(names), 2 + 2 * columns), fontsize="small")
    return figure


def _style(index: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "linestyle": _DASHES[index // len(_COLOURS) % len(_DASHES)],
        "markersize": 5,
        "linewidth": 1.4,
    }


def _draw_points(axes: Any, line: _Line, unit: float, style: dict[str, Any], _: int) -> None:
    places = sorted(line.at)
    middle = [statistics.median(line.at[x]) for x in places]
    below = [(y - min(line.at[x])) / unit for x, y in zip(places, middle)]
    above = [(max(line.at[x]) - y) / unit for x, y in zip(places, middle)]
    axes.errorbar(places, [y / unit for y in middle], yerr=[below, above], capsize=2.5, **style)


def _draw_series(axes: Any, line: _Line, unit: float, style: dict[str, Any], index: int) -> None:
    places = sorted(line.at)
    # A marker now and then, not all at the same moments.
    every = max(len(places) // 8, 1)
    axes.plot(places, [line.at[x][0] / unit for x in places], markevery=(index % every, every), **style)


def _ticks(drawn: Sequence[Any], panels: _Panels, *, is_wide: bool) -> None:
    """At what was measured, as the scenario writes it."""
    labels: dict[float, str] = {}
    for lines in panels.values():
        for line in lines.values():
            labels.update(line.label)
    places = sorted(labels)
    positive = [x for x in places if x > 0]
    for axes in drawn:
        if is_wide and len(positive) > 1 and positive[-1] / positive[0] >= 10:
            # Decades, and zero beside the least.
            axes.set_xscale("symlog", linthresh=positive[0], linscale=0.6)
            axes.autoscale(axis="x")
        axes.set_xticks(places, [f"{x:g}" for x in places], fontsize="small")
        axes.set_xticks([], minor=True)
