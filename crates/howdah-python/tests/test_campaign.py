"""A campaign over a real ``LocalCluster``: a worker is killed, and what comes out is what one machine comes to."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import howdah.lab
import pytest
from howdah.lab import Progress

distributed: Any = pytest.importorskip("distributed")

from howdah._campaign import _files  # noqa: E402
from howdah.dask import campaign  # noqa: E402

# Included, with a trace beside it, and with a flow alone: its neighbours' harm is known when all cells are.
SHARED = """
[path.main]
rate = { trace = "rate.txt", period = "2s" }
rtt = ["10ms", "50ms"]
buffer = "20packets"
"""
SCENARIO = """
include = "../shared/_paths.toml"
id = "small"
[flow.first]
protocol = "cubic"
[flow.second]
protocol = ["none", "howdah", "reno"]
[measure]
duration = "2s"
"""


def comparable(results: howdah.lab.Results) -> dict[str, str | bytes]:
    """Every file of a campaign, but for what differs by nature: wall times, and when it was begun."""
    files: dict[str, str | bytes] = {}
    for file in sorted(results.dir.rglob("*")):
        name = str(file.relative_to(results.dir))
        if file.suffix == ".json":
            files[name] = re.sub(r'"(wall_s|started_unix_s)": [0-9.e-]+', r'"\1": 0', file.read_text())
        elif file.is_file():
            files[name] = file.read_bytes()
    return files


def test_a_cluster_comes_to_what_one_machine_comes_to(tmp_path: Path, command: Path) -> None:
    for name, text in {"shared/_paths.toml": SHARED, "shared/rate.txt": "0s 4mbit\n1s 2mbit\n", "mine/small.toml": SCENARIO}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    scenario = tmp_path / "mine" / "small.toml"
    alone = howdah.lab.run(scenario, seeds=2, out=tmp_path / "alone")
    assert alone.cells.num_rows == 20 and "harm" in alone.cells.column_names

    # Workers say what they run; the first one to come to the fourth cell is killed.
    worker = tmp_path / "worker"
    worker.write_text(
        f"""#!/bin/sh
echo "$*" >>"{worker}.log"
case "$*" in *"--shard 4/12 "*) mkdir "{worker}.once" 2>/dev/null && kill -9 $PPID ;; esac
exec "{command}" "$@"
"""
    )
    worker.chmod(0o755)

    def shards() -> list[str]:
        log = Path(f"{worker}.log").read_text()
        Path(f"{worker}.log").write_text("")
        return re.findall(r"--shard (\d+)/12 ", log)

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path / "dask")
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        told: list[Progress] = []
        many = campaign(client, scenario, seeds=2, out=tmp_path / "many", progress=told.append, command=str(worker))
        assert Path(f"{worker}.once").exists()
        assert comparable(many) == comparable(alone)
        assert (told[0], told[-1]) == (Progress(12, 0), Progress(12, 12))
        ran = shards()
        assert set(ran) == {str(index) for index in range(1, 13)} and ran.count("4") == 2

        # What is lost is run again, and nothing else.
        lost = many.campaign["cells"][6]
        (many.dir / "cells" / f"{lost}.json").unlink()
        again = campaign(client, scenario, seeds=2, out=tmp_path / "many", command=str(worker))
        assert comparable(again) == comparable(alone)
        assert shards() == ["7"]

        with pytest.raises(howdah.UsageError, match="no-such.toml"):
            campaign(client, tmp_path / "no-such.toml", out=tmp_path / "none")
        with pytest.raises(howdah.Error, match="none has this howdah"):
            campaign(client, scenario, out=tmp_path / "none", command="/none/howdah")


def test_traces_travel_wherever_they_are_named(tmp_path: Path) -> None:
    text = """
id = "t"
[axes]
link = ["4g.txt", 'sub/5g.txt']
[path.main]
rate = { trace = "$link" }
rtt = "10ms"
jitter = { trace = ["slow.txt", "none.txt"] }
"""
    (tmp_path / "sub").mkdir()
    for name in ("4g.txt", "sub/5g.txt", "slow.txt"):
        (tmp_path / name).write_text(name)
    path = str(tmp_path / "t.toml")
    found = _files({"scenarios": [{"path": path, "text": text}]})
    assert {os.path.relpath(name, tmp_path) for name in found} == {"t.toml", "4g.txt", "sub/5g.txt", "slow.txt"}
    without = text.replace("trace", "steps")
    assert list(_files({"scenarios": [{"path": path, "text": without}]})) == [path]
