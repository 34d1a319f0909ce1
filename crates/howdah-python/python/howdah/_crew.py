"""The workers of a Dask cluster that run ``howdah``: who is there, who has this version, and what has ended, in whatever way.

Tasks are put on workers by name, as many as a worker has room for; which are to be run again when a worker is gone is for those who
know what is missing to say. Nothing of it relies on the scheduler's memory.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ._command import run as run_command

_log = logging.getLogger("howdah")

_LOOK_EVERY_S = 0.5


@dataclass
class Running:
    """A task on a worker: its number among those of its kind."""

    task: int
    worker: str
    since: float = field(default_factory=time.monotonic)


class Crew:
    """The workers of ``client`` that have the ``howdah`` called ``command`` in the ``version`` of the first, or of the caller."""

    def __init__(self, client: Any, command: str | None, version: str | None = None) -> None:
        self.distributed: Any = importlib.import_module("distributed")
        self.client = client
        self.command = command
        self.version = version
        self.running: dict[Any, Running] = {}
        # Exit code of ``--version`` and what it printed.
        self._versions: dict[str, tuple[int, str]] = {}

    # For those who use it to say.

    def slots(self) -> dict[str, int]:
        """How many tasks each worker may run at a time."""
        raise NotImplementedError

    def failure(self, message: str) -> Exception:
        """What is raised when nobody can go on."""
        raise NotImplementedError

    nobody = "no worker is there, or none has this howdah"

    # Who is there.

    def workers(self) -> dict[str, Any]:
        try:
            info = self.client.scheduler_info(n_workers=-1)
        except TypeError:  # Older ones tell all.
            info = self.client.scheduler_info()
        return info["workers"]

    def free(self) -> list[str]:
        """Workers with room for a task, as often as they have room."""
        slots = self.slots()
        self._look_at([worker for worker, many in slots.items() if many])
        busy = [run.worker for run in self.running.values()]
        rounds = range(max(slots.values(), default=0))
        return [w for n in rounds for w, many in slots.items() if busy.count(w) + n < many and self.is_able(w)]

    def is_able(self, worker: str) -> bool:
        code, version = self._versions.get(worker, (1, ""))
        return code == 0 and version == self.version

    def check(self) -> None:
        """Raises if nobody can run anything, now or when what restarts is back."""
        slots = self.slots()
        able = [worker for worker in slots if self.is_able(worker)]
        if not able and not (self._versions and not slots):
            raise self.failure(self.nobody)

    def _look_at(self, workers: list[str]) -> None:
        new = [worker for worker in workers if worker not in self._versions]
        asked = {
            worker: self.client.submit(run_command, self.command, ["--version"], workers=[worker], pure=False, retries=0)
            for worker in new
        }
        for worker, future in asked.items():
            try:
                code, out, said = future.result(timeout=60)
            except Exception as error:  # It went away again, or stands still.
                self.client.cancel([future])
                code, out, said = 1, "", f"{type(error).__name__}: {error}"
            self._versions[worker] = (code, out.strip())
            if code == 0 and self.version is None:
                self.version = out.strip()
            if code != 0:
                _log.warning("worker %s is left out: %s", worker, said)
            elif out.strip() != self.version:
                _log.warning("worker %s is left out: it has %s, others have %s", worker, out.strip(), self.version)

    # What runs.

    def start(self, task: int, worker: str, what: Any, *arguments: Any) -> None:
        """Has the worker call ``what``, a function of a module, with these plain values."""
        future = self.client.submit(
            what,
            *arguments,
            workers=[worker],
            allow_other_workers=False,
            pure=False,
            retries=0,
            key=f"howdah-{task}-{time.monotonic_ns()}",
        )
        self.running[future] = Running(task, worker)

    def ended(self) -> Iterable[tuple[Any, Running]]:
        """Those that ended, waited for a moment; also those whose worker is gone."""
        if not self.running:
            time.sleep(_LOOK_EVERY_S)
            return []
        try:
            self.distributed.wait(list(self.running), timeout=_LOOK_EVERY_S, return_when="FIRST_COMPLETED")
        except (TimeoutError, self.distributed.TimeoutError):
            pass
        if self.client.status in ("closing", "closed"):
            raise self.failure("the client was closed; the same call goes on")
        there = set(self.workers())
        ended = [(f, run) for f, run in self.running.items() if f.done() or run.worker not in there]
        for future, _ in ended:
            del self.running[future]
        return ended

    def result(self, future: Any, run: Running) -> Any:
        """What a task returned; ``None`` if its worker is gone, with what it had returned or without."""
        while future.status == "finished":
            try:
                return future.result(timeout=_LOOK_EVERY_S)
            except (TimeoutError, self.distributed.TimeoutError):
                # What a worker that died had returned is not there: it would be waited for until the worker is back.
                if run.worker not in self.workers():
                    break
        self.client.cancel([future])
        return None

    def stop(self) -> None:
        """Forgets what runs; commands that run go on."""
        self.client.cancel(list(self.running))
