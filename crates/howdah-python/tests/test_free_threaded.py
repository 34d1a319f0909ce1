"""Without the global lock: threads that really run at the same time share clients, sessions and servers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import howdah
import pytest
from howdah import aio

from conftest import Site

pytestmark = pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this interpreter has a global lock: make python-free-threaded"
)

THREADS = 8


def at_once(work: Callable[[int], object]) -> None:
    """Calls it with 0 to THREADS - 1, each in a thread, all from the same moment; raises what the first of them raised."""
    barrier = threading.Barrier(THREADS)
    failed: list[BaseException] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_the_import_brings_no_lock_back() -> None:
    """A module that does not say that it needs none has the interpreter switch it on, with a warning."""
    code = "import sys, howdah, howdah.aio, howdah.lab, howdah.daemon, howdah.dask; print(sys._is_gil_enabled())"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    told = subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout.strip()) == (0, "False"), told.stderr


def test_threads_share_a_client(site: Site) -> None:
    data = [os.urandom((1 << 20) + number) for number in range(THREADS)]
    client = site.client()
    heard: list[list[howdah.Progress]] = [[] for _ in range(THREADS)]

    def there_and_back(number: int) -> None:
        source, back = site.files / f"{number}", site.files / f"{number}.back"
        source.write_bytes(data[number])

        def hear(now: howdah.Progress) -> None:
            heard[number].append(now)
            client.limit_bps = None if len(heard[number]) % 2 else 10_000_000_000

        client.copy(source, site.url(f"{number}"), progress=hear)
        client.copy(site.url(f"{number}"), back, progress=hear)
        assert client.verify(back, site.url(f"{number}"), checksum=True)
        assert back.read_bytes() == data[number]

    at_once(there_and_back)
    for number, progress in enumerate(heard):
        assert all(now.total_bytes in (0, None, len(data[number])) for now in progress), progress
        assert all(now.bytes <= len(data[number]) for now in progress)


def test_threads_share_a_session_of_files(site: Site) -> None:
    fsspec = pytest.importorskip("howdah.fsspec")
    data = os.urandom(4 << 20)
    (site.root / "big").write_bytes(data)
    host, port = site.address.rsplit(":", 1)
    fs = fsspec.HowdahFileSystem(host=host, port=int(port), config_dir=site.config_dir, trust=site.public_key)

    def read(number: int) -> None:
        starts = [(number * 7919 + step * 65537) % (len(data) - 5000) for step in range(200)]
        parts = fs.cat_ranges(["/big"] * len(starts), starts, [start + 5000 for start in starts])
        assert parts == [data[start : start + 5000] for start in starts]

    at_once(read)


def test_one_thread_closes_what_others_read_through(site: Site) -> None:
    fsspec = pytest.importorskip("howdah.fsspec")
    data = os.urandom(1 << 20)
    (site.root / "file").write_bytes(data)
    host, port = site.address.rsplit(":", 1)
    fs = fsspec.HowdahFileSystem(host=host, port=int(port), config_dir=site.config_dir, trust=site.public_key)
    over = threading.Event()

    def read_or_close(number: int) -> None:
        if number == 0:
            while not over.wait(0.002):
                fs.close()
            return
        try:
            for step in range(100):
                start = (number * 7919 + step * 65537) % (len(data) - 5000)
                try:
                    assert fs.cat_file("/file", start, start + 5000) == data[start : start + 5000]
                except howdah.StoppedError:
                    pass  # It was on its way.
        finally:
            over.set()

    at_once(read_or_close)
    assert fs.cat_file("/file") == data


def test_one_thread_cancels_what_another_one_runs(site: Site) -> None:
    (site.files / "big").write_bytes(os.urandom(8 << 20))
    client = site.client()

    def outcome(run: Callable[[Callable[[str, str], None]], object], hear: Callable[[str, str], None]) -> str:
        try:
            run(hear)
        except howdah.StoppedError:
            return "stopped"
        except RuntimeError as error:
            assert "once" in str(error)
            return "taken"
        return "done"

    def run_and_cancel(number: int) -> None:
        task = client._copy(site.files / "big", site.url(f"{number}"), False, {})
        threads = [threading.Thread(target=task.cancel) for _ in range(4)]

        def hear(_kind: str, _text: str) -> None:
            while threads:
                threads.pop().start()

        ran: list[str] = []
        others = [threading.Thread(target=lambda: ran.append(outcome(task.run, hear))) for _ in range(2)]
        for thread in others:
            thread.start()
        for thread in others:
            thread.join()
        # One of the two ran it, to its end or until it was cancelled.
        assert sorted(ran)[0] in ("done", "stopped") and sorted(ran)[1] == "taken", ran

    at_once(run_and_cancel)


def test_a_server_serves_once_whoever_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many that serve nothing: two threads meet in so short a moment."""

    class Bound:
        def __init__(self, *_: object) -> None:
            self.runs, self.over = 0, threading.Event()

        def task(self) -> Bound:
            return self

        def run(self, _: object) -> None:
            self.runs += 1
            self.over.wait()

        def cancel(self) -> None:
            self.over.set()

    monkeypatch.setattr("howdah._server._howdah.Server", Bound)
    servers = [howdah.Server(tmp_path, authorized=[]) for _ in range(200)]
    together = threading.Barrier(THREADS)
    began = [0] * len(servers)

    def start_or_stop(number: int) -> None:
        for which, server in enumerate(servers):
            together.wait()
            try:
                if number == THREADS - 1:
                    server.stop()
                else:
                    server.start()
                    began[which] += 1
            except RuntimeError as error:
                if "serves once" not in str(error):
                    together.abort()
                    raise

    at_once(start_or_stop)
    for server in servers:
        server.stop()
    assert max(began) == 1
    assert [cast("Bound", server._server).runs for server in servers] == began


def test_event_loops_beside_each_other(site: Site) -> None:
    client = aio.Client(config_dir=site.config_dir, trust=site.public_key)

    async def several(number: int) -> None:
        names = [f"{number}-{part}" for part in range(3)]
        for name in names:
            (site.files / name).write_text(name)
        await asyncio.gather(*(client.copy(site.files / name, site.url(name)) for name in names))
        assert [(site.root / name).read_text() for name in names] == names

    at_once(lambda number: asyncio.run(several(number)))


def test_a_server_is_stopped_while_it_serves(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "one").write_bytes(os.urandom(1 << 20))
    me = howdah.Identity.generate()
    with howdah.Server(tmp_path / "root", authorized=[me.public_key]) as server:
        client = howdah.Client(identity=me, trust=server.public_key, reconnect_seconds=0)

        def copy_and_stop(number: int) -> None:
            try:
                client.copy(tmp_path / "one", server.url(f"{number}"))
            except howdah.Error as error:
                assert error.exit_code in (5, 12), error  # Another one was first.
            server.stop()

        at_once(copy_and_stop)
    there = [path for path in (tmp_path / "root").iterdir() if not path.name.startswith(".")]
    assert there and all(path.read_bytes() == (tmp_path / "one").read_bytes() for path in there)
