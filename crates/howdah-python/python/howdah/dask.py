"""What the workers of a Dask cluster do together: move one huge file or a tree, or run a campaign of the laboratory.

`campaign` runs the cells of scenarios on workers, and has their results in one directory (docs/lab.md). `stripe` moves a file or a directory as one
verified name: it runs the leases of ``howdah plan`` on workers, each by the ``howdah`` command there. Dask only says who runs what: which bytes
are there, and that they are right, stands in records beside the destination (docs/clusters.md). So whatever a scheduler forgets or
runs twice is harmless, and the same call goes on from the records after anything died.

Needs ``distributed``, which ``pip install howdah[dask]`` brings. All sizes are bytes, all times seconds.
"""

from __future__ import annotations

import fnmatch
import json
import logging
import os
import re
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._campaign import campaign
from ._command import run as _run
from ._crew import Crew, Running
from ._errors import NotFoundError

__all__ = ["Stripe", "StripeError", "campaign", "stripe"]

_log = logging.getLogger("howdah")

# What a later run may mend: the system, refused (somebody else runs it), the network, space, a signal.
_AGAIN = {1, 4, 5, 11, 12}
# Some files of a tree cannot be read, or changed meanwhile; the rest is planned.
_PARTIAL = {6, 13}

# The network: a server that is down fails at once, so a worker whose runs fail so rests, twice as long each time, up to so many seconds.
_NETWORK = 5
_REST_MOST_S = 16.0


class StripeError(Exception):
    """A stripe that is not finished. What was moved stays: the same call goes on from there.

    ``code`` is the exit code of the ``howdah`` command that failed, 0 if none did.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Stripe:
    """A file or directory that was moved.

    ``blake3`` is in hexadecimal, as ``b3sum`` prints it; of a directory, that of the list that ``howdah finish --manifest`` writes. ``seconds`` is the time of this call, ``moved_bytes`` what came in it,
    ``lost_bytes`` at most what came in it for nothing: whole leases that died, failed or were run twice.
    """

    destination: str
    bytes: int
    blake3: str
    seconds: float
    leases: int
    moved_bytes: int
    lost_bytes: int


def stripe(
    client: Any,
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    movers: int | Sequence[str] | None = None,
    recursive: bool = False,
    archive: bool = False,
    lease: int | str = "1GiB",
    plan: str | Path | None = None,
    options: Sequence[str] = (),
    share: int | None = None,
    command: str | None = None,
    retries: int = 3,
    steal_after: float = 3.0,
) -> Stripe:
    """Moves the file, or with ``recursive`` or ``archive`` (as ``cp -r`` and ``cp -a``) the directory, ``src`` to ``dst`` by the workers of ``client``, a ``distributed.Client``.

    ``src`` is on another machine, ``dst`` an absolute path in a directory that all movers see under that name. Or ``src`` is a file or directory that all movers
    see, and ``dst`` is on another machine (``howdah://HOST/PATH`` or ``HOST:PATH``); a file may go to such a path as well. If any worker
    has the resource ``DTN``, only those that have it move, and no more at a time than it says; otherwise every worker moves one
    lease at a time. ``movers`` is the most that move at the same time, or the addresses of those that may.

    ``lease`` is the length of a lease, a power of two; ``plan`` the file of the plan, ``dst``, or ``src`` where ``dst`` is on another machine, with ``.plan`` behind it unless
    another is named. If there is one already, it is gone on with; at the end it is removed. ``options`` are those of ``howdah plan`` and ``howdah cp`` about
    the other side (``--identity``, ``--limit`` ...), ``command`` the ``howdah`` of the workers. A worker that has none, or that of
    another version, is left out, with a warning.

    All that move at the same time count as one flow to others: each takes its part of one (``howdah cp --share``). ``share`` says another number of them: 1
    where each has a path of its own. With ``--policy`` or ``--rate`` among the options they are what these say.

    A lease that fails is run again ``retries`` times. One that takes ``steal_after`` times as long as the others is taken over by
    a mover that has nothing else to do.

    Raises `StripeError`; then, and after the client, the scheduler or this process died, the same call goes on.
    """
    _check(client, movers, options)
    src, dst = os.fspath(src), os.fspath(dst)
    far = _is_far(dst)
    if far and _is_far(src):
        raise StripeError(f"{src} is on another machine, and so is {dst}: one of both is a path that all movers see", 2)
    # Workers have working directories of their own.
    src = src if _is_far(src) else _absolute(src)
    path = dst if far else os.path.abspath(dst)
    where = plan if plan is not None else f"{os.path.abspath(src) if far else path}.plan"
    kind = [flag for flag, is_set in (("-r", recursive), ("-a", archive)) if is_set]
    crew = _Stripe(client, movers, list(options), share, command, retries, steal_after)
    return crew.run(src, path, os.path.abspath(where), str(lease), kind, far)


def _check(client: Any, movers: Any, options: Any) -> None:
    """What would be found out late, or never."""
    if getattr(client, "asynchronous", False):
        raise StripeError("the client is asynchronous, and stripe blocks: give it one of its own, in a thread", 2)
    if not callable(getattr(client, "submit", None)):
        raise StripeError(f"client is a distributed.Client, and not {client!r}", 2)
    if getattr(client, "status", "running") in ("closing", "closed"):
        raise StripeError("the client is closed", 2)
    if isinstance(options, (str, bytes)):
        raise StripeError(f"options is a list of words, as on the command line, and not {options!r}", 2)
    is_known = movers is None or (isinstance(movers, (int, Iterable)) and not isinstance(movers, (str, bytes, bool)))
    if not is_known or (isinstance(movers, int) and movers < 1):
        raise StripeError(f"movers is how many move, from 1, or a list of workers' addresses, and not {movers!r}", 2)


def _is_far(place: str) -> bool:
    return re.match(r"[^/]*:", place) is not None


def _absolute(src: str) -> str:
    """With what a ``/.`` at its end means: what is in it."""
    path = os.path.abspath(src)
    return os.path.join(path, ".") if src == "." or src.endswith("/.") else path


def _known(place: str) -> tuple[Any, ...]:
    """A place as it can be compared, however it is written: who, where, and the path."""
    if not _is_far(place):
        return ("", os.path.normpath(place))
    url = re.match(r"(howdah|ssh)://(?:([^/@]*)@)?(\[[^]]*\]|[^/:]*)(?::(\d+))?/?(.*)", place, re.DOTALL)
    if url:
        kind, user, host, port, path = url.groups()
        port = int(port) if port else {"howdah": 4433, "ssh": 22}[kind]
        path = f"/{path}" if kind == "ssh" else path
    else:
        kind, port = "ssh", 22
        match = re.match(r"(?:([^/@]*)@)?(\[[^]]*\]|[^/:]*):(.*)", place, re.DOTALL)
        user, host, path = match.groups() if match else ("", place, "")
    if kind == "ssh":
        # The home directory.
        path = re.sub("^/?~(/|$)", "", path)
    path = os.path.normpath(path) if path else "."
    return kind, user or "", host.strip("[]").lower(), port, path


def _is_meant(told: str, asked: str, source: str | None) -> bool:
    """Whether the place that a plan tells is the one that is asked for, or, with the name of ``source``, lies in it."""
    a, b = _known(told), _known(asked)
    if a == b or (a[-1] == b[-1] == "."):
        return a == b
    if a[:-1] != b[:-1]:
        return False
    if source is None:
        # Wildcards are expanded there.
        return any(sign in asked for sign in "*?[") and fnmatch.fnmatchcase(a[-1], b[-1])
    above, name = os.path.split(a[-1])
    return (above or ".") == b[-1] and name == os.path.basename(_known(source)[-1])


# What runs on workers. Plain functions of plain values: a worker needs nothing but this module and the command.


def _plan(named: str | None, src: str, dst: str, plan: str, more: list[str]) -> tuple[int, str, str]:
    if os.path.exists(plan):
        return 0, "", ""
    code, out, said = _run(named, ["plan", src, dst, "-o", plan, *more])
    if code in _PARTIAL and os.path.exists(plan):
        _log.warning("not all of %s is planned: %s", src, said)
        return 0, out, said
    return code, out, said


def _places(plan: str) -> tuple[int, str, str]:
    """Source and destination, as they are: what commands print may be written otherwise."""
    try:
        values = json.loads(Path(plan).read_bytes())
        return 0, json.dumps([values["source"], values["destination"]]), ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        return 2, "", f"cannot read the plan {plan}: {error}"


def _move(named: str | None, plan: str, lease: int, more: list[str]) -> tuple[int, str, str]:
    return _run(named, ["cp", "--json", "--quiet", "--plan", plan, "--lease", str(lease), *more])


def _forget(named: str | None, plan: str, more: list[str]) -> tuple[int, str, str]:
    done = _run(named, ["finish", "--json", plan, *more])
    Path(plan).unlink(missing_ok=True)
    return done


class _Stripe(Crew):
    def __init__(
        self,
        client: Any,
        movers: int | Sequence[str] | None,
        options: list[str],
        share: int | None,
        command: str | None,
        retries: int,
        steal_after: float,
    ) -> None:
        super().__init__(client, command)
        self.most = movers if isinstance(movers, int) else None
        self.named = None if movers is None or isinstance(movers, int) else set(movers)
        self.options = options
        self.share = share
        self.retries = retries
        self.steal_after = steal_after
        self.failures: dict[int, int] = {}
        # How long a worker rests if it fails next, and until when it does.
        self.rests: dict[str, tuple[float, float]] = {}
        self.times: list[float] = []
        # Of the end of a plan that is elsewhere.
        self.end_options: list[str] = []
        self.leases = 1
        self.moved_bytes = 0
        self.lost_runs = 0

    def run(self, src: str, dst: str, plan: str, lease: str, kind: list[str], far: bool) -> Stripe:
        begun = time.monotonic()
        if far:
            self.end_options = self.options
        if not self.free():
            self.check()
        more = ["--lease", lease, *kind, *self.options]
        self._ask(_plan, self.command, src, dst, plan, more)
        state = self._state(plan)
        source, destination = json.loads(self._ask(_places, plan))
        # It may be there for long, and then this call goes on with it.
        if not (_is_meant(source, src, None) and _is_meant(destination, dst, source)):
            raise StripeError(
                f"{plan} is the plan of {source} to {destination}, not of {src} to {dst}; name another with plan=, or remove it",
                2,
            )
        missing = set(state["missing"])
        size, leases = state["bytes"], state["leases"]
        self.leases = leases
        lease_bytes = max((run["bytes"] for run in state["moved"]), default=_bytes(lease))
        try:
            self._move_all(plan, missing)
        finally:
            # Commands that run go on; what they move is not lost.
            self.stop()
        finished = json.loads(self._ask(_run, self.command, ["finish", "--keep", "--json", plan, *self.end_options]))
        # Its result is known: now the records may go.
        self._ask(_forget, self.command, plan, self.end_options, may_fail=True)
        return Stripe(
            destination=destination,
            bytes=size,
            blake3=finished["blake3"],
            seconds=time.monotonic() - begun,
            leases=leases,
            moved_bytes=self.moved_bytes,
            lost_bytes=self.lost_runs * lease_bytes,
        )

    def _state(self, plan: str) -> dict[str, Any]:
        try:
            return json.loads(self._ask(_run, self.command, ["finish", "--check", "--json", plan, *self.end_options]))
        except StripeError as error:
            if error.code != NotFoundError.exit_code:
                raise
            # As the end of a call leaves it that was ended between the two.
            raise StripeError(f"{error}; to begin anew, remove {plan}", error.code) from None

    def _move_all(self, plan: str, missing: set[int]) -> None:
        waiting = sorted(missing)
        while missing:
            free = self.free()
            while free and waiting:
                self._start(plan, waiting.pop(0), free.pop(0))
            if free and not waiting:
                slow = self._slow()
                if slow is not None:
                    _log.info("lease %d takes long on %s; %s takes it over", slow.task, slow.worker, free[0])
                    self._start(plan, slow.task, free[0])
            if not self.running:
                self.check()
            for future, run in self.ended():
                waiting += self._settle(future, run, missing)

    # Who may move.

    def slots(self) -> dict[str, int]:
        workers = {a: w for a, w in self.workers().items() if self.named is None or a in self.named}
        marked = {a: int(w.get("resources", {}).get("DTN", 0)) for a, w in workers.items()}
        return marked if any(marked.values()) else dict.fromkeys(workers, 1)

    def free(self) -> list[str]:
        now = time.monotonic()
        able = [worker for worker in super().free() if self.rests.get(worker, (0.0, 0.0))[1] <= now]
        return able if self.most is None else able[: max(self.most - len(self.running), 0)]

    nobody = "no worker can move: none is there (with the resource DTN), or none has this howdah"

    def failure(self, message: str) -> StripeError:
        return StripeError(message)

    def _start(self, plan: str, lease: int, worker: str) -> None:
        self.start(lease, worker, _move, self.command, plan, lease, [*self.options, *self._share()])

    def _share(self) -> list[str]:
        """Of the policy that shares; another one may be among the options."""
        asked = {word.split("=", 1)[0] for word in self.options}
        if self.share is None and asked & {"--policy", "--rate"}:
            return []
        return ["--share", f"1/{self._sessions()}"]

    def _sessions(self) -> int:
        """How many move at the same time, from now on."""
        if self.share is not None:
            return self.share
        able = sum(many for worker, many in self.slots().items() if self.is_able(worker))
        most = able if self.most is None else min(able, self.most)
        return max(1, min(most, self.leases))

    def _settle(self, future: Any, run: Running, missing: set[int]) -> list[int]:
        """What became of a run; the leases that are to be run again."""
        code, out, said = self.result(future, run) or (1, "", f"worker {run.worker} is gone")
        if code == 0:
            summary = json.loads(out.splitlines()[-1])
            new = summary["bytes"] - summary["resumed_bytes"]
            self.moved_bytes += new
            self.rests.pop(run.worker, None)
            if new:
                self.times.append(time.monotonic() - run.since)
            missing.discard(run.task)
            return []
        self.lost_runs += 1
        if code == _NETWORK:
            rest, _ = self.rests.get(run.worker, (1.0, 0.0))
            self.rests[run.worker] = (min(2 * rest, _REST_MOST_S), time.monotonic() + rest)
        if run.task not in missing or any(other.task == run.task for other in self.running.values()):
            return []
        failures = self.failures[run.task] = self.failures.get(run.task, 0) + 1
        if (code > 0 and code not in _AGAIN) or failures > self.retries:
            raise StripeError(f"lease {run.task} on {run.worker}: {said}", max(code, 0))
        _log.warning("lease %d on %s: %s; it is run again", run.task, run.worker, said)
        return [run.task]

    def _slow(self) -> Running | None:
        if not self.times:
            return None
        limit = self.steal_after * statistics.median(self.times)
        now = time.monotonic()
        leases = [run.task for run in self.running.values()]
        slow = [run for run in self.running.values() if now - run.since > limit and leases.count(run.task) == 1]
        return min(slow, key=lambda run: run.since, default=None)

    def _ask(self, what: Any, *arguments: Any, may_fail: bool = False) -> str:
        """What a command prints that any mover may run."""
        able = [worker for worker, many in self.slots().items() if many and self.is_able(worker)]
        # One that still runs a lease that was taken over may hang for ever.
        busy = {run.worker for run in self.running.values()}
        able = [worker for worker in able if worker not in busy] or able
        code, out, said = self.client.submit(what, *arguments, workers=able, pure=False).result()
        if code != 0 and not may_fail:
            raise StripeError(said, max(code, 0))
        return out


def _bytes(size: str) -> int:
    units = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
    unit = units.get(size[-3:])
    return int(float(size[:-3]) * unit) if unit else int(size)
