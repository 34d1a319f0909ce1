"""The same for asyncio: ``await howdah.aio.copy(...)``.

Each task runs on a thread of its own, not in the loop's pool, which long copies would fill. Callbacks are called by the loop. Cancelling
ends the copy, and the task is cancelled when it has ended: nothing is written behind anybody's back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ._results import Difference, Summary, Verification
from ._server import Bound
from ._tasks import MirrorOptions, Place, Settings, TreeOptions
from ._watch import Ear, Watcher

if TYPE_CHECKING:
    from ._howdah import Task
    from ._tasks import Unpack

__all__ = ["Client", "Server", "copy", "sync", "verify"]


class _Run:
    """One task on a thread, as a future of the loop that it was started in."""

    def __init__(self, task: Task, ear: Ear) -> None:
        self._task, self._ear = task, ear
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[str] = self._loop.create_future()
        # Retrieved, whoever waits: a cancelled task leaves one behind.
        self.future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._raised: BaseException | None = None
        threading.Thread(target=self._work, name="howdah-task", daemon=True).start()

    def _work(self) -> None:
        result, error = "", None
        try:
            result = self._task.run(self._hear)
        except BaseException as raised:
            error = raised
        try:
            self._loop.call_soon_threadsafe(self._finish, result, error)
        except RuntimeError:
            pass  # The loop is closed: nobody waits any more.

    def _hear(self, kind: str, text: str) -> None:
        self._loop.call_soon_threadsafe(self._tell, kind, text)

    def _tell(self, kind: str, text: str) -> None:
        if self._raised is None:
            try:
                self._ear(kind, text)
            except BaseException as raised:
                self._raised = raised
                self._task.cancel()

    def _finish(self, result: str, error: BaseException | None) -> None:
        error = self._raised or error
        if self.future.done():
            return
        if isinstance(error, StopIteration):
            # No future carries one (asyncio makes the same of it from Python 3.12 on).
            carried = RuntimeError("a callback has raised StopIteration")
            carried.__cause__ = error
            error = carried
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    async def result(self) -> str:
        try:
            return await asyncio.shield(self.future)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait({self.future})
            raise


async def _moved(task: Task, progress: Watcher) -> Summary:
    with Ear(progress) as ear:
        summary = Summary.from_json(await _Run(task, ear).result())
        ear.finished(summary.bytes)
        return summary


class Client(Settings):
    """`howdah.Client` with calls that are awaited. ``asyncio.timeout`` and ``Task.cancel`` end a copy; the next goes on where it was."""

    async def copy(
        self,
        source: Place | Sequence[Place],
        destination: Place,
        *,
        recursive: bool = False,
        progress: Watcher = None,
        **options: Unpack[TreeOptions],
    ) -> Summary:
        """`howdah.Client.copy`."""
        return await _moved(self._copy(source, destination, recursive, options), progress)

    async def sync(
        self,
        source: Place,
        destination: Place,
        *,
        progress: Watcher = None,
        **options: Unpack[MirrorOptions],
    ) -> Summary:
        """`howdah.Client.sync`."""
        return await _moved(self._sync(source, destination, options), progress)

    async def verify(
        self,
        a: Place,
        b: Place,
        *,
        progress: Watcher = None,
        on_difference: Callable[[Difference], object] | None = None,
        differences_max: int = 10_000,
        **options: Unpack[TreeOptions],
    ) -> Verification:
        """`howdah.Client.verify`."""
        with Ear(progress, on_difference, differences_max) as ear:
            told = await _Run(self._verify(a, b, options), ear).result()
            return Verification.from_json(told, ear.differences)


class Server(Bound):
    """`howdah.Server` for ``async with``."""

    _run: _Run | None = None

    async def run(self) -> None:
        """Serves until it is cancelled or `stop` is called."""
        await _Run(self._task, Ear()).result()

    async def stop(self) -> None:
        """Ends its sessions and waits until it has ended."""
        self._task.cancel()
        if self._run is not None:
            await self._run.result()

    async def __aenter__(self) -> Server:
        self._run = _Run(self._task, Ear())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


async def copy(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    recursive: bool = False,
    progress: Watcher = None,
    **options: Unpack[TreeOptions],
) -> Summary:
    """`howdah.copy`."""
    client = Client()
    return await client.copy(source, destination, recursive=recursive, progress=progress, **options)


async def sync(
    source: Place, destination: Place, *, progress: Watcher = None, **options: Unpack[MirrorOptions]
) -> Summary:
    """`howdah.sync`."""
    return await Client().sync(source, destination, progress=progress, **options)


async def verify(
    a: Place,
    b: Place,
    *,
    progress: Watcher = None,
    on_difference: Callable[[Difference], object] | None = None,
    differences_max: int = 10_000,
    **options: Unpack[TreeOptions],
) -> Verification:
    """`howdah.verify`."""
    return await Client().verify(
        a,
        b,
        progress=progress,
        on_difference=on_difference,
        differences_max=differences_max,
        **options,
    )
