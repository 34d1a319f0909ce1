"""The laboratory from Python: runs of a small scenario, their tables and figures, and what is raised."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import howdah
import howdah.lab
import pytest
from howdah import _lab_run
from howdah.lab import Progress, Results

pytest.importorskip("pyarrow")

SCENARIO = """
id = "small"
[path.main]
rate = "4mbit"
rtt = ["10ms", "50ms"]
buffer = "20packets"
loss = ["0%", "1%"]
[flow.main]
protocol = ["howdah", "cubic"]
[group.short]
protocol = "reno"
count = 3
window = "1s"
mean = "10kB"
[measure]
duration = "3s"
[quick.path.main]
rtt = "10ms"
loss = "0%"
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    place = tmp_path_factory.mktemp("lab")
    (place / "small.toml").write_text(SCENARIO)
    return howdah.lab.run(place / "small.toml", seeds=2, out=place / "results")


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


def test_a_row_is_a_transport_in_a_cell(results: Results) -> None:
    table = results.cells
    assert table.num_rows == 2 * 2 * 2 * 2 and results.failed == {}
    rows = table.to_pylist()
    assert {row["axis.rtt_ms"] for row in rows} == {10.0, 50.0}
    assert {row["axis.loss_percent"] for row in rows} == {0.0, 1.0}
    assert {row["axis.protocol"] for row in rows} == {"howdah", "cubic"} == {row["protocol"] for row in rows}
    assert {(row["seed"], row["flow"], row["testbed"]) for row in rows} == {(1, "main", "sim"), (2, "main", "sim")}
    # As the cell's own file has it.
    row = rows[3]
    cell = json.loads((results.dir / "cells" / f"{row['cell']}.json").read_text())
    assert row["axis.rtt"] == cell["at"]["rtt"]
    assert row["goodput_bps"] == cell["flows"][0]["goodput_bps"] > 0
    assert row["forward_efficiency"] == cell["metrics"]["forward_efficiency/main"]
    # What nothing has keeps its type: tables of two campaigns fit together.
    types = dict(zip(table.column_names, map(str, table.schema.types)))
    assert (types["completion_s"], types["error"], types["retransmitted_bytes"]) == ("double", "string", "int64")


def test_groups_and_links_have_percentiles(results: Results) -> None:
    group = results.groups.to_pylist()[0]
    assert (group["group"], group["flows"]) == ("short", 3)
    assert group["completion_p50_s"] <= group["completion_p99_s"]
    links = results.links.to_pylist()
    assert {link["link"] for link in links} == {"main/forward", "main/backward"}
    assert all(0 <= link["utilisation"] <= 1 and link["queue_p50_ms"] >= 0 for link in links)
    assert results.streams.num_rows == 0


def test_series_say_what_they_are(results: Results) -> None:
    row = results.cells.to_pylist()[0]
    series = results.series(row["cell"])
    assert series.num_rows == 3 and series["t_s"].to_pylist() == [1.0, 2.0, 3.0]
    assert set(series["axis.rtt_ms"].to_pylist()) == {row["axis.rtt_ms"]}
    mean = sum(series["goodput_bps"].to_pylist()) / 3
    assert mean == pytest.approx(row["goodput_bps"], rel=0.01)
    assert results.series().num_rows == 3 * 16
    with pytest.raises(howdah.NotFoundError, match="nobody"):
        results.series("nobody")


def test_the_ledger_is_a_table(results: Results) -> None:
    ledger = results.ledger()
    assert ledger.num_rows > 100
    assert {"id", "paper", "statement", "verdict"} <= set(ledger.column_names)


def test_what_has_results_is_not_run_again(results: Results) -> None:
    before = {file.name: file.stat().st_mtime_ns for file in (results.dir / "cells").iterdir()}
    told: list[Progress] = []
    again = howdah.lab.run(results.dir.parent / "small.toml", seeds=2, out=results.dir, progress=told.append)
    assert told[-1] == Progress(cells=16, done=16)
    assert {file.name: file.stat().st_mtime_ns for file in (results.dir / "cells").iterdir()} == before
    assert again.cells.equals(howdah.lab.open(results.dir).cells)


def test_results_go_where_the_command_puts_them(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scenario.parent)
    found = howdah.lab.run("small.toml", quick=True, only={"protocol": ["howdah"]}, jobs=1)
    assert found.dir == scenario.parent / "results" / "small-quick"
    assert found.cells.num_rows == 1 and found.campaign["quick"]
    assert found.campaign["command"] == "howdah lab run small.toml --quick"
    assert repr(found).startswith("<Results of 1 of 2 cells")


def test_cells_that_cannot_be_run_say_why(scenario: Path, tmp_path: Path) -> None:
    scenario.write_text(SCENARIO.replace('"cubic"]', '"libudt"]'))
    found = howdah.lab.run(scenario, quick=True, out=tmp_path / "results")
    rows = {row["axis.protocol"]: row for row in found.cells.to_pylist()}
    assert "netns" in rows["libudt"]["skipped"] and rows["libudt"]["goodput_bps"] is None
    assert rows["howdah"]["skipped"] is None


def test_mistakes_are_exceptions(scenario: Path, results: Results, tmp_path: Path) -> None:
    with pytest.raises(howdah.UsageError, match="no-such.toml"):
        howdah.lab.run(tmp_path / "no-such.toml", out=tmp_path / "out")
    with pytest.raises(howdah.UsageError, match="progress is True for a bar"):
        howdah.lab.run(scenario, out=tmp_path / "out", progress="bar")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(howdah.UsageError, match="'-1'.*'--seeds"):
        howdah.lab.run(scenario, out=tmp_path / "out", seeds=-1)
    with pytest.raises(howdah.UsageError, match="no value"):
        howdah.lab.run(scenario, only={"rtt": ["11ms"]}, out=tmp_path / "out")
    scenario.write_text(SCENARIO.replace("buffer", "bufer"))
    with pytest.raises(howdah.UsageError, match="did you mean 'buffer'"):
        howdah.lab.run(scenario, out=tmp_path / "out")
    scenario.write_text(SCENARIO.replace("4mbit", "5mbit"))
    with pytest.raises(howdah.UsageError, match="holds the results of"):
        howdah.lab.run(scenario, out=results.dir)
    with pytest.raises(howdah.NotFoundError, match="no campaign here"):
        howdah.lab.open(tmp_path)


def test_what_is_damaged_is_named(results: Results, tmp_path: Path) -> None:
    """Whatever lies where a campaign has its files."""
    cell = f"cells/{results.campaign['cells'][0]}.json"
    for name, text in (
        ("campaign.json", "[]"),
        ("campaign.json", "{"),
        ("campaign.json", "\udcff"),
        ("summary.json", "{}"),
        ("summary.json", "5"),
        (cell, "{}"),
        (cell, "null"),
    ):
        damaged = tmp_path / "damaged"
        shutil.copytree(results.dir, damaged)
        (damaged / name).write_bytes(os.fsencode(text))
        with pytest.raises(howdah.Error, match=f"{name}: damaged"):
            howdah.lab.open(damaged)
        shutil.rmtree(damaged)


def test_one_value_of_an_axis_need_not_be_in_a_list(scenario: Path, tmp_path: Path) -> None:
    found = howdah.lab.run(scenario, quick=True, only={"protocol": "cubic"}, out=tmp_path / "out")
    assert {row["axis.protocol"] for row in found.cells.to_pylist()} == {"cubic"}


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[str]]]:
    """The commands that are started."""
    started: list[subprocess.Popen[str]] = []
    real = subprocess.Popen

    def popen(*arguments: Any, **keywords: Any) -> subprocess.Popen[str]:
        started.append(real(*arguments, **keywords))
        return started[-1]

    monkeypatch.setattr(_lab_run.subprocess, "Popen", popen)
    yield started
    for child in started:
        child.kill()


def endless(scenario: Path) -> Path:
    """One cell that is done at once, and one that lasts for a quarter of an hour (billions of packets)."""
    scenario.write_text(
        SCENARIO.replace('protocol = ["howdah", "cubic"]', 'protocol = "cubic"')
        .replace('duration = "3s"', 'duration = ["1s", "80000s"]')
        .replace('"4mbit"', '"1gbit"')
        .replace('["10ms", "50ms"]', '"10ms"')
        .replace('["0%", "1%"]', '"0%"')
    )
    return scenario


@pytest.fixture
def set_interrupts() -> Iterator[Callable[[Any], object]]:
    """Sets what SIGINT does; puts it back."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda what: signal.signal(signal.SIGINT, what)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_the_command(
    scenario: Path, tmp_path: Path, children: list[subprocess.Popen[str]], set_interrupts: Callable[[Any], object]
) -> None:
    # Whoever runs the tests in the background has it ignored.
    set_interrupts(signal.default_int_handler)

    def interrupt(now: Progress) -> None:
        if now.done == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        howdah.lab.run(endless(scenario), out=tmp_path / "results", jobs=2, progress=interrupt)
    assert [child.returncode for child in children] == [howdah.StoppedError.exit_code]
    # What was done is kept.
    assert howdah.lab.open(tmp_path / "results").cells["duration_s"].to_pylist() == [1.0]


def test_what_progress_raises_ends_it_too(scenario: Path, tmp_path: Path, children: list[subprocess.Popen[str]]) -> None:
    def refuse(_: Progress) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        howdah.lab.run(endless(scenario), out=tmp_path / "results", progress=refuse)
    assert [child.returncode for child in children] == [howdah.StoppedError.exit_code]


def test_a_process_that_ignores_ctrl_c_can_end_it_too(
    scenario: Path, tmp_path: Path, children: list[subprocess.Popen[str]], set_interrupts: Callable[[Any], object]
) -> None:
    """What runs in the background of a script does, and what it starts inherits that."""
    set_interrupts(signal.SIG_IGN)

    def refuse(_: Progress) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        howdah.lab.run(endless(scenario), out=tmp_path / "results", progress=refuse)
    assert [child.returncode for child in children] == [howdah.StoppedError.exit_code]


def test_what_is_missing_is_named(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = howdah.lab.open(results.dir)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"howdah\[lab\]"):
        fresh.cells
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "howdah._lab_figures", raising=False)
    with pytest.raises(ImportError, match=r"howdah\[lab\]"):
        fresh.figure("loss")


def test_how_long_a_transfer_took_is_not_how_long_the_run_did(scenario: Path, tmp_path: Path) -> None:
    text = SCENARIO.split("[group.short]")[0].replace('"10ms", "50ms"', '"10ms"').replace('"0%", "1%"', '"0%"')
    sized = 'size = ["100kB", "1GB"]\n[measure]\nduration = "3s"\n'
    scenario.write_text(text.replace('"howdah", "cubic"', '"cubic"') + sized)
    rows = howdah.lab.run(scenario, out=tmp_path / "results").cells.to_pylist()
    took = {row["axis.size"]: (row["duration_s"], row["flow_duration_s"]) for row in rows}
    assert took["1GB"] == (3.0, None)
    run_s, transfer_s = took["100kB"]
    assert run_s == 3.0 and 0 < transfer_s < 1


def test_series_of_cells_with_other_units_are_one_table(scenario: Path, tmp_path: Path) -> None:
    text = SCENARIO.split("[group.short]")[0].replace('"howdah", "cubic"', '"cubic"').replace('"10ms", "50ms"', '"10ms"')
    # Names that end as units do are labels all the same.
    text = text.replace('["0%", "1%"]', '"$loss_percent.v"').replace('"20packets"', '["20packets", "0.5bdp", "unlimited"]')
    axes = '[axes]\nloss_percent = [{ name = "none", v = "0%" }]\n[measure]\nduration = "2s"\n'
    scenario.write_text(text + axes)
    rows = howdah.lab.run(scenario, out=tmp_path / "results").series().to_pylist()
    assert {row["axis.loss_percent"] for row in rows} == {"none"}
    found = {row["axis.buffer"]: (row["axis.buffer_packets"], row["axis.buffer_bdp"]) for row in rows}
    assert found == {"20packets": (20.0, None), "0.5bdp": (None, 0.5), "unlimited": (None, None)}


def test_others_read_the_tables(results: Results) -> None:
    """`make notebooks` brings them."""
    pandas: Any = pytest.importorskip("pandas")
    polars: Any = pytest.importorskip("polars")
    duckdb: Any = pytest.importorskip("duckdb")
    cells = results.cells
    best = max(row["goodput_bps"] for row in cells.to_pylist())
    assert cells.to_pandas().groupby("axis.protocol")["goodput_bps"].max().max() == best
    assert isinstance(cells.to_pandas(), pandas.DataFrame)
    assert polars.from_arrow(cells)["goodput_bps"].max() == best
    assert duckdb.sql('select max(goodput_bps) from cells where "axis.rtt_ms" >= 10').fetchall() == [(best,)]


def test_figures_have_units_and_more_than_colour(results: Results, tmp_path: Path) -> None:
    """`make notebooks` brings matplotlib."""
    pytest.importorskip("matplotlib")
    for name, label in {"loss": "Random loss (%)", "rtt": "Round-trip time (ms)", "time": "Time (s)"}.items():
        figure = results.figure(name)
        panels = [axes for axes in figure.axes if axes.get_visible()]
        assert len(panels) == (4 if name == "time" else 2)
        assert label in {axes.get_xlabel() for axes in panels}
        assert "Goodput (Mbit/s)" in {axes.get_ylabel() for axes in panels}
        lines = [line for line in panels[0].lines if not line.get_label().startswith("_")] or panels[0].lines
        assert len({line.get_marker() for line in lines if line.get_marker() not in ("None", "_", "|")}) >= 2
        assert {text.get_text() for text in figure.legends[0].get_texts()} == {"howdah", "cubic"}
    with pytest.raises(howdah.UsageError, match="loss, rtt, time"):
        results.figure("colour")
    with pytest.raises(howdah.UsageError, match="it has: 10ms, 50ms"):
        results.figure("loss", where={"rtt": "11ms"})
    one = results.figure("loss", where={"rtt": "50ms"})
    assert len(one.axes) == 1
    short = tmp_path / "short.toml"
    short.write_text(SCENARIO.replace('duration = "3s"', 'duration = "3s"\nuntil_complete = true').replace("[group.short]", 'size = "1kB"\n[group.short]'))
    with pytest.raises(howdah.UsageError, match="interval"):
        howdah.lab.run(short, quick=True, out=tmp_path / "short").figure("time")
    one.savefig(tmp_path / "loss.pdf")
    assert one._repr_png_().startswith(b"\x89PNG")
