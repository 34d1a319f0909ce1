"""Results of cells as columns: what a cell is, where it stands in the matrix, and what happened in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, Union, cast

Kind = Literal["flows", "groups", "streams", "links"]
Value = Union[str, int, float, bool, list[Any], None]

# Columns that have a type even where no cell has a value.
_TYPES = {
    "shortened": "bool",
    "reduced": "bool",
    "error": "string",
    "skipped": "string",
    "design": "string",
    "commit": "string",
    "fingerprint": "string",
    "protocol": "string",
    "algorithm": "string",
}
# What every cell has.
CELL = ("id", "experiment", "testbed", "seed", "at", "duration_s", "wall_s", "shortened", "metrics", "flows", "groups", "streams", "links")
_COUNTS = {"connections", "congestion_events", "timeouts", "retransmitted_bytes", "seed"}

# In each of these, how much one is in the column's unit.
_UNITS: dict[str, dict[str, float]] = {
    "ms": {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "min": 60e3, "h": 3600e3},
    "percent": {"%": 1.0},
    "bps": {
        **{"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12},
        **{"B/s": 8.0, "kB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9, "TB/s": 8e12},
    },
    "bytes": {
        **{"bytes": 1.0, "B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12},
        **{"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40},
    },
    "packets": {"packets": 1.0},
    "bdp": {"bdp": 1.0},
}
_NUMBER = re.compile(r"([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z%/]*)")


def measure(label: str) -> tuple[str, float] | None:
    """Unit and amount of what a scenario writes, ``("ms", 50.0)`` of ``50ms``, if it is an amount of something."""
    parts = _NUMBER.fullmatch(label.strip())
    if parts is None:
        return None
    for unit, names in _UNITS.items():
        if parts[2] in names:
            # 0.1 % is 0.1 and not a neighbour of it.
            return unit, float(f"{float(parts[1]) * names[parts[2]]:.15g}")
    return None


def columns(cells: list[dict[str, Any]], axes: list[str], kind: Kind) -> Iterator[tuple[str, str | None, list[Value]]]:
    """Name, Arrow type (``None``: that of the values) and values of each column of the table of all items of a kind."""
    rows = [row for cell in cells for row in _rows(cell, axes, kind)]
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    for name in names:
        values = [row.get(name) for row in rows]
        known = {type(value) for value in values} - {type(None)}
        type_of = _TYPES.get(name)
        if name in _COUNTS:
            type_of = "int64"
        elif known == {int, float} or not known:
            type_of = type_of or ("string" if name.startswith("axis.") else "float64")
        elif known == {list}:
            type_of = None if any(value for value in values) else type_of
        yield name, type_of, values


def front_of(cells: list[dict[str, Any]], axes: list[str]) -> dict[str, str]:
    """The columns that say what a cell is, and their types: the same for all cells, whichever unit its own values have."""
    places = {name for cell in cells for name in _place(cell, axes)}
    labels = {f"axis.{axis}" for axis in axes}
    about = {"cell": "string", "experiment": "string", "seed": "int64"}
    return {**about, **{name: "string" if name in labels else "float64" for name in sorted(places)}}


def series_of(cell: dict[str, Any], axes: list[str], front: dict[str, str], table: Any, arrow: Any) -> Any:
    """The series of a cell, with what the cell is in front."""
    # They say what they are in their own way, for other readers.
    table = table.drop_columns([name for name in ("experiment", "testbed", "seed", "at") if name in table.column_names])
    about = {"cell": cell["id"], "experiment": cell["experiment"], "seed": cell["seed"], **_place(cell, axes)}
    before = {name: arrow.array([about.get(name)] * table.num_rows, type=kind) for name, kind in front.items()}
    return arrow.table({**before, **dict(zip(table.column_names, table.columns))})


def _place(cell: dict[str, Any], axes: list[str]) -> dict[str, Value]:
    """The cell's values of all axes of the campaign."""
    place: dict[str, Value] = {}
    for axis in axes:
        label: str | None = cell["at"].get(axis)
        place[f"axis.{axis}"] = label
        known = measure(label) if label is not None else None
        if known:
            place[f"axis.{axis}_{known[0]}"] = known[1]
    return place


def _rows(cell: dict[str, Any], axes: list[str], kind: Kind) -> Iterator[dict[str, Value]]:
    about: dict[str, Value] = {
        "cell": cell["id"],
        "experiment": cell["experiment"],
        "testbed": cell["testbed"],
        "seed": cell["seed"],
        **_place(cell, axes),
        "duration_s": cell["duration_s"],
        "wall_s": cell["wall_s"],
        "shortened": cell["shortened"],
        "commit": cell.get("commit", ""),
        "error": cell.get("error"),
        "skipped": cell.get("skipped"),
        "marks": ", ".join(cell.get("marks", [])),
    }
    items: list[dict[str, Any]] = cell[kind]
    if not items and kind == "flows" and (about["error"] or about["skipped"]):
        yield about
    for item in items:
        row = {**about}
        for name, value in item.items():
            row.update(_flat(kind[:-1] if name == "name" else name, value))
        for name, value in cell["metrics"].items():
            for figure, of_item in _figure(name, value, item["name"], kind).items():
                # How long a transfer took is not how long the run did.
                row[f"{kind[:-1]}_{figure}" if figure in about else figure] = of_item
        yield row


def _figure(name: str, value: float, item: str, kind: Kind) -> dict[str, Value]:
    """A further figure, if it is about this item or about the cell as a whole."""
    figure, *of = name.split("/")
    if not of:
        return {figure: value} if kind == "flows" else {}
    if of[0] != item or kind == "links":
        return {}
    return {".".join([figure, *of[1:]]): value}


def _flat(name: str, value: Any) -> dict[str, Value]:
    """Percentiles become columns: ``queue_ms`` has ``queue_p50_ms``."""
    if not isinstance(value, dict):
        return {name: value}
    stem, _, unit = name.rpartition("_")
    return {f"{stem}_{which}_{unit}": amount for which, amount in cast("dict[str, float]", value).items()}
