"""The same, awaited."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import howdah
import pytest

from conftest import Site, can_go_on, make_big


def client(site: Site) -> howdah.aio.Client:
    return howdah.aio.Client(config_dir=site.config_dir, trust=site.public_key)


def test_copies_at_once(site: Site) -> None:
    async def work() -> None:
        names = [f"f{i}" for i in range(4)]
        for name in names:
            (site.files / name).write_bytes(os.urandom(1 << 18))
        mover = client(site)
        copies = (mover.copy(site.files / name, site.url(name)) for name in names)
        done = await asyncio.gather(*copies)
        assert sum(one.bytes for one in done) == 4 << 18
        (site.root / "f3").unlink()
        assert await mover.sync(site.files, site.url("mirror"))
        found = await mover.verify(site.files, site.url("mirror"), checksum=True)
        assert found and found.files == 4

    asyncio.run(work())


def test_a_failure_is_raised_where_it_is_awaited(site: Site) -> None:
    with pytest.raises(howdah.NotFoundError):
        asyncio.run(client(site).copy(site.files / "missing", site.url("x")))


def test_progress_is_told_by_the_loop_which_goes_on_meanwhile(site: Site) -> None:
    make_big(site.files / "big")
    loops: list[asyncio.AbstractEventLoop] = []

    class Enough(Exception):
        pass

    def hear(now: howdah.Progress) -> None:
        loops.append(asyncio.get_running_loop())
        if now.bytes:
            raise Enough

    async def work() -> None:
        mover = client(site)
        mover.limit_bps = 80_000_000
        with pytest.raises(Enough):
            await mover.copy(site.files / "big", site.url("big"), progress=hear)
        assert set(loops) == {asyncio.get_running_loop()}

    asyncio.run(work())
    assert not (site.root / "big").exists()


def test_a_cancelled_task_ends_the_copy(site: Site) -> None:
    make_big(site.files / "big")

    async def work() -> None:
        moving = asyncio.Event()

        def hear(now: howdah.Progress) -> None:
            if can_go_on(site.root):
                moving.set()

        mover = client(site)
        mover.limit_bps = 20_000_000
        task = asyncio.create_task(
            mover.copy(site.files / "big", site.url("big"), progress=hear)
        )
        await moving.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Its session has ended: the next one goes on with what is there.
        mover.limit_bps = None
        summary = await mover.copy(site.files / "big", site.url("big"))
        assert summary.resumed_bytes > 0

    asyncio.run(work())
    assert (site.root / "big").stat().st_size == 64 << 20


def test_no_exception_of_a_callback_is_waited_for_for_ever(site: Site) -> None:
    """Futures carry no StopIteration."""
    for side, content in (("a", "1"), ("b", "22")):
        (site.files / side).mkdir()
        (site.files / side / "one").write_text(content)

    def hear(_: howdah.Difference) -> None:
        raise StopIteration

    loop = asyncio.new_event_loop()
    task = loop.create_task(client(site).verify(site.files / "a", site.files / "b", on_difference=hear))
    loop.run_until_complete(asyncio.wait({task}, timeout=30))
    assert task.done()
    assert isinstance(task.exception(), RuntimeError)
    loop.close()


def test_a_server_for_async_with(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "one").write_text("1")
    me = howdah.Identity.generate()

    async def work() -> None:
        async with howdah.aio.Server(tmp_path / "root", authorized=[me.public_key]) as server:
            mover = howdah.aio.Client(identity=me, trust=server.public_key)
            await mover.copy(tmp_path / "one", server.url("one"))

    asyncio.run(work())
    assert (tmp_path / "root/one").read_text() == "1"
