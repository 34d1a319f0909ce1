"""A campaign of 400 quick cells by the workers of a Dask cluster of which two are killed: is its directory that of one machine, byte for byte? Needs no root.

Compared is every file but for what differs by nature: `wall_s`, `started_unix_s` and `machine` (docs/clusters.md). Twice, when a worker has come
to the cell of --kill-at, it is killed (kill -9); Dask's nanny starts it again.
"""

import argparse
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

import distributed
import howdah.lab
from howdah.dask import campaign

SCENARIO = """
id = "campaign"
[path.main]
rate = "5mbit"
rtt = ["10ms", "50ms"]
loss = ["0%", "0.1%", "0.5%", "1%", "2%"]
buffer = "20packets"
[flow.first]
protocol = ["cubic", "reno", "howdah", "htcp"]
[measure]
duration = "1s"
"""
SEEDS = 10


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kill-at", type=int, nargs="*", default=[100, 250], help="when so many cells are done, the worker of the next one is killed")
    return parser.parse_args()


def comparable(results):
    """Each file without what differs by nature."""
    found = {}
    for file in sorted(results.dir.rglob("*")):
        if file.is_file():
            text = file.read_bytes()
            for name in (rb"wall_s", rb"started_unix_s"):
                text = re.sub(rb'"' + name + rb'": [0-9.e-]+', b'"' + name + b'": 0', text)
            found[str(file.relative_to(results.dir))] = re.sub(rb'"machine": \{[^}]*\}', b"", text)
    return found


def main():
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="howdah-campaign-") as scratch:
        scratch = Path(scratch)
        scenario = scratch / "campaign.toml"
        scenario.write_text(SCENARIO)
        begun = time.monotonic()
        alone = howdah.lab.run(scenario, seeds=SEEDS, out=scratch / "alone")
        alone_s = time.monotonic() - begun
        left, killed = sorted(given.kill_at), []
        with (
            distributed.LocalCluster(given.workers, threads_per_worker=1, dashboard_address=None, local_directory=str(scratch / "dask")) as cluster,
            distributed.Client(cluster) as client,
        ):

            def look(now):
                if left and now.done >= left[0]:
                    left.pop(0)
                    pid = min(client.run(os.getpid).values())
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

            begun = time.monotonic()
            many = campaign(client, scenario, seeds=SEEDS, out=scratch / "many", progress=look)
            many_s = time.monotonic() - begun
        one, other = comparable(alone), comparable(many)
        differing = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
        cells = len(many.campaign["cells"])
        print(f"{cells} cells: one machine {alone_s:.1f} s, {given.workers} workers {many_s:.1f} s with {len(killed)} killed")
        print(f"{len(one)} files of one machine, {len(other)} of the cluster, {len(differing)} differ")
        for name in differing[:10]:
            print(f"  {name}")
        return 1 if differing or len(killed) != len(given.kill_at) else 0


if __name__ == "__main__":
    sys.exit(main())
