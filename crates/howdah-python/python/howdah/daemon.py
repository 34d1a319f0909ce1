"""Jobs that outlive this process: a client of ``howdah daemon`` (docs/daemon.md), which runs copies, comparisons and the laboratory.

    from howdah.daemon import Daemon

    daemon = Daemon()                                   # this user's; or Daemon("https://server:8470", token_file="token")
    job = daemon.submit("cp", "-r", "data", "site:store/", labels=["night"])
    done = daemon.wait(job.id)
    done.raise_if_failed()

All calls block, from any thread; in asyncio ``await asyncio.to_thread(daemon.wait, 12)``. Failures are those of `howdah`: `howdah.NetworkError` where no daemon
answers, `howdah.UsageError` and `howdah.RefusedError` for what it does not want, `howdah.NotFoundError` for a job that there is not.
All times are seconds since 1970, all sizes bytes, all rates bit/s.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Union, cast
from urllib.parse import quote, urlencode

from ._daemon_http import Http, Remote, Socket, state_directory, token_of, variable
from ._errors import Error, StoppedError, UsageError, of_code
from ._results import Summary
from ._tasks import plain, text

__all__ = ["Attempt", "Daemon", "Job", "Kind", "State"]

Kind = Literal["cp", "sync", "verify", "lab run"]
"""The command of a job."""
State = Literal["waiting", "held", "running", "done", "failed", "cancelled"]
"""How a job stands. The last three are for good."""
Moment = Union[datetime, float]
"""A ``datetime``, or seconds since 1970."""

_OVER = ("done", "failed", "cancelled")
# The daemon answers after an hour at most; less, so that what lies between does not take the connection for dead.
_WAIT_S = 30


@dataclass(frozen=True)
class Attempt:
    """One process of a job."""

    number: int
    """From 1."""
    started: float
    """Seconds since 1970."""
    ended: float | None
    """Seconds since 1970; ``None`` while it runs."""
    pid: int | None
    exit_code: int | None
    """``None`` while it runs, and if it was killed or nobody saw its end."""


@dataclass(frozen=True)
class Job:
    """A job as the daemon tells it. It does not change by itself: `Daemon.job` looks again."""

    id: int
    kind: str
    """The command: ``"cp"``, ``"sync"``, ``"verify"`` or ``"lab run"``."""
    arguments: tuple[str, ...]
    directory: str
    state: str
    """One of `State`."""
    reason: str | None
    """Why, in words, if there is something to say."""
    exit_code: int | None
    """Of the last attempt that ended by itself."""
    submitted: float
    """Seconds since 1970."""
    ended: float | None
    """Seconds since 1970; ``None`` before its end."""
    labels: tuple[str, ...]
    priority: int
    hosts: tuple[str, ...]
    """Machines that it speaks with."""
    attempts: tuple[Attempt, ...]
    """The first one first; empty in lists."""
    last: Mapping[str, Any] | None
    """The last event that its last attempt told (docs/json.md); ``None`` in lists."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """All that the daemon says of it."""

    @property
    def is_over(self) -> bool:
        return self.state in _OVER

    @property
    def summary(self) -> Summary | None:
        """What a copy that is done has done; ``None`` before, and in lists."""
        if self.last is None or self.last.get("event") != "summary":
            return None
        return Summary.from_json(json.dumps(self.last))

    def raise_if_failed(self) -> Job:
        """This job, if it is done or still to be.

        Raises:
            Error: it has failed; the class is that of its exit code.
            StoppedError: it was cancelled.
        """
        said = f"job {self.id} ({self.kind}): {self.reason or self.state}"
        if self.state == "cancelled":
            raise StoppedError(said)
        if self.state == "failed":
            raise of_code(self.exit_code or Error.exit_code, said)
        return self

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Job:
        spec = values["spec"]
        return cls(
            id=values["id"],
            kind=str(spec["kind"]).replace("_", " "),
            arguments=tuple(spec["arguments"]),
            directory=spec["directory"],
            state=values["state"],
            reason=values.get("reason"),
            exit_code=values.get("exit_code"),
            submitted=values["submitted_ms"] / 1000,
            ended=_seconds(values.get("ended_ms")),
            labels=tuple(spec.get("labels", ())),
            priority=spec.get("priority", 0),
            hosts=tuple(values["hosts"]),
            attempts=tuple(_attempt(one) for one in values.get("attempts", ())),
            last=values.get("last"),
            raw=values,
        )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _attempt(values: Mapping[str, Any]) -> Attempt:
    ended = values.get("ended")
    # A word where nobody saw it.
    code = cast("dict[str, int]", ended).get("code") if isinstance(ended, dict) else None
    return Attempt(
        number=values["number"],
        started=values["started_ms"] / 1000,
        ended=_seconds(values.get("ended_ms")),
        pid=values.get("pid"),
        exit_code=code,
    )


def _milliseconds(name: str, moment: Moment | None) -> int | None:
    if moment is None:
        return None
    seconds = moment.timestamp() if isinstance(moment, datetime) else moment
    try:
        return int(seconds * 1000)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{name} is a datetime or seconds since 1970, not {moment!r}") from error


class Daemon:
    """A daemon: this user's on this machine, or one elsewhere. Threads may share it."""

    def __init__(
        self,
        url: str | None = None,
        *,
        state: str | os.PathLike[str] | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        fingerprint: str | None = None,
        ca: str | os.PathLike[str] | None = None,
    ) -> None:
        """
        Args:
            url: ``https://HOST:8470``, or ``http://`` on this machine. Without it, and without ``state``, that of ``HOWDAH_DAEMON``, else the daemon of this user.
            state: the directory of a daemon of this machine, if it is not the usual one.
            token: what it knows us by, of a daemon with a URL. Without, what is in ``token_file``.
            token_file: a file with a token, or with a line of the daemon's file ``tokens``; without, that of ``HOWDAH_DAEMON_TOKEN_FILE``.
            fingerprint: SHA-256 of its certificate, as it has printed it; without, and without ``ca``, that of ``HOWDAH_DAEMON_FINGERPRINT``.
            ca: a file (PEM) of who vouches for its certificate; without, and without ``fingerprint``, that of ``HOWDAH_DAEMON_CA``.

        Nobody is asked yet.

        Raises:
            UsageError: what is given makes no sense together.
        """
        for name, value in (("url", url), ("token", token), ("fingerprint", fingerprint)):
            if value is not None:
                text(name, value)
        about_url = {"token": token, "token_file": token_file, "fingerprint": fingerprint, "ca": ca}
        given = [name for name, value in about_url.items() if value is not None]
        if state is not None and url is not None:
            raise UsageError("a daemon has a url, or a state directory on this machine, not both")
        if url is None and state is None:
            url = variable("HOWDAH_DAEMON")
        if url is None:
            if given:
                raise UsageError(f"{', '.join(given)}: of a daemon elsewhere; name it with url='https://HOST:8470'")
            self._http = Http(Socket(state_directory() if state is None else Path(state)))
            return
        if token is not None and token_file is not None:
            raise UsageError("a token, or a token_file, not both")
        if token is None:
            token_file = token_file or variable("HOWDAH_DAEMON_TOKEN_FILE")
            if token_file is None:
                raise UsageError(
                    f"{url} wants a token: token_file=, with a line of the file 'tokens' in the daemon's directory"
                )
            token = token_of(token_file)
        if fingerprint is None and ca is None:
            fingerprint = variable("HOWDAH_DAEMON_FINGERPRINT")
            ca = None if fingerprint else variable("HOWDAH_DAEMON_CA")
        self._http = Http(Remote(url, token, fingerprint, ca))

    def __repr__(self) -> str:
        return f"Daemon({str(self._http.place)!r})"

    def about(self) -> dict[str, Any]:
        """What it is, and what we may: ``version``, ``role``, ``home``, ``allow``, ``max_running`` and others."""
        return self._http.ask("GET", "/v1/about")

    # Jobs.

    def submit(
        self,
        kind: Kind,
        *arguments: str | os.PathLike[str],
        directory: str | os.PathLike[str] | None = None,
        labels: Sequence[str] = (),
        priority: int = 0,
        retries: int = 3,
        after: Iterable[int | Job] = (),
        deadline: Moment | None = None,
        by: Moment | None = None,
        submission: str | None = None,
        hold: bool = False,
    ) -> Job:
        """Submits a job, which needs this process no more.

        Args:
            kind: the command.
            *arguments: what follows it on the command line, each a word of its own: ``"-r", "data", "site:store/"``.
            directory: what relative paths are below: the working directory, or the home of the daemon's user if that is elsewhere.
            labels: words to find it by.
            priority: higher ones go first.
            retries: how often it is tried again where that may help.
            after: jobs that must be done before.
            deadline: if it is not done by then, it has failed.
            by: it takes the least rate that has it done by then.
            submission: a name. Given again with the same description, the same job is meant.
            hold: it waits until `release`.

        Raises:
            UsageError: no such command line, as the command says it.
            RefusedError: it may not be done there.
        """
        spec = {
            "kind": str(kind).replace(" ", "_"),
            "arguments": _words("an argument", arguments),
            "directory": self._directory(directory),
            "labels": _words("a label", labels),
            "priority": priority,
            "retries": retries,
            "after": [one.id if isinstance(one, Job) else one for one in after],
            "deadline_ms": _milliseconds("deadline", deadline),
            "by_ms": _milliseconds("by", by),
            "submission": submission,
            "hold": hold,
        }
        return self.job(self._http.ask("POST", "/v1/jobs", spec)["id"])

    def job(self, id: int | Job) -> Job:
        """One job, as it stands.

        Raises:
            NotFoundError: there is none of that number.
        """
        return Job.from_json(self._http.ask("GET", self._path(id)))

    def jobs(
        self,
        *,
        state: State | Sequence[State] | None = None,
        label: str | None = None,
        host: str | None = None,
        text: str | None = None,
    ) -> Iterator[Job]:
        """All jobs for which everything holds that is said, the newest first; asked for a page at a time.

        Args:
            state: one or several.
            label: one of theirs.
            host: a machine that they speak with.
            text: words, each somewhere in number, command line, directory, labels or reason.
        """
        states = state if isinstance(state, str) or state is None else ",".join(state)
        wanted = {"state": states, "label": label, "host": host, "text": text}
        query = {name: value for name, value in wanted.items() if value is not None}
        while True:
            page = self._http.ask("GET", f"/v1/jobs?{urlencode({**query, 'limit': '1000'})}")
            yield from map(Job.from_json, page["jobs"])
            before = page.get("next_before")
            if before is None:
                return
            query["before"] = str(before)

    def wait(self, id: int | Job, timeout: float | None = None) -> Job:
        """The job when it is over, however it ended: `Job.raise_if_failed` raises what it failed with.

        Ctrl-C ends the waiting, and leaves the job alone.

        Args:
            timeout: in seconds.

        Raises:
            TimeoutError: it is not over by then, and goes on.
        """
        if timeout is not None and (not isinstance(timeout, (int, float)) or math.isnan(timeout)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"timeout is a number of seconds, and not {timeout!r}")
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _WAIT_S if until is None else until - time.monotonic()
            # Whole seconds; what is left of less than one is looked at once more.
            wait_s = max(0, min(_WAIT_S, -(-left // 1)))
            answer = self._http.ask("GET", f"{self._path(id)}?wait_seconds={int(wait_s)}", patience_s=wait_s + 30)
            job = Job.from_json(answer)
            if job.is_over:
                return job
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"job {job.id} is {job.state} after {timeout} s, and goes on")

    def cancel(self, id: int | Job) -> Job:
        """Ends it: what runs is asked to stop, and killed if it does not within 30 s.

        Raises:
            UsageError: it is over already.
        """
        return self._act(id, "cancel")

    def hold(self, id: int | Job) -> Job:
        """Lets it wait until it is released."""
        return self._act(id, "hold")

    def release(self, id: int | Job) -> Job:
        """Lets it go, now if it waits for another attempt."""
        return self._act(id, "release")

    def limit(self, id: int | Job, limit: str) -> Job:
        """What it takes of the wire at most, at once and in all its attempts: ``"100mbit"``, a timetable, ``"none"``, ``"pause"`` or ``"auto"``."""
        return Job.from_json(self._http.ask("POST", f"{self._path(id)}/limit", {"limit": limit}))

    def events(self, id: int | Job) -> Iterator[dict[str, Any]]:
        """What its processes say (docs/json.md), from the beginning to its end, as it comes."""
        for name, event in self._http.events(f"{self._path(id)}/events"):
            if name == "event":
                yield event

    def output(self, id: int | Job, *kinds: str, attempt: int | None = None) -> Iterator[dict[str, Any]]:
        """What its last attempt, or the one of that number, has said until now.

        Args:
            *kinds: only events of these kinds: ``"change"`` of a dry run is what would be done.
        """
        query = {"event": ",".join(kinds)} if kinds else {}
        if attempt is not None:
            query["attempt"] = str(attempt)
        offset = 0
        while True:
            page = self._http.ask("GET", f"{self._path(id)}/output?{urlencode({**query, 'offset': str(offset)})}")
            yield from page["events"]
            if page["next_offset"] == offset:
                return
            offset = page["next_offset"]

    # What holds for all.

    def limits(self) -> dict[str, Any]:
        """What all running copies share (``limit``, ``allowed_bps``), and who has what of it (``running``)."""
        return self._http.ask("GET", "/v1/limits")

    def set_limit(self, limit: str) -> dict[str, Any]:
        """Sets what they share, at once and for later: a rate, a timetable, ``"none"``, ``"pause"`` or ``"auto"``."""
        return self._http.ask("PUT", "/v1/limits", {"limit": limit})

    def hosts(self) -> list[dict[str, Any]]:
        """Machines that jobs speak with: what runs and waits, limits, keys, the path as it was last measured."""
        return self._http.ask("GET", "/v1/hosts")["hosts"]

    def set_host(self, name: str, *, limit: str | None = None, max_running: int | None = None) -> None:
        """Sets both for a machine, at once; ``None`` is nothing of its own."""
        self._http.ask("PUT", f"/v1/hosts/{quote(name, safe='')}", {"limit": limit, "max_running": max_running})

    def schedules(self) -> list[dict[str, Any]]:
        """All schedules, as the daemon tells them."""
        return self._http.ask("GET", "/v1/schedules")["schedules"]

    def watches(self) -> list[dict[str, Any]]:
        """All watched directories, as the daemon tells them."""
        return self._http.ask("GET", "/v1/watches")["watches"]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Any question of the daemon's API (docs/howdah-daemon.openapi.json): ``daemon.ask("POST", "/v1/schedules/3/pause")``."""
        if not re.fullmatch("/v1/[!-~]*", text("path", path)):
            raise UsageError(f"a path of the API begins with /v1/, and is not {path!r}")
        return self._http.ask(method, path, body)

    def _path(self, id: int | Job) -> str:
        number: Any = id.id if isinstance(id, Job) else id
        if not isinstance(number, int) or isinstance(number, bool):
            raise UsageError(f"a job is named by its number, and not by {number!r}")
        return f"/v1/jobs/{number}"

    def _act(self, id: int | Job, action: str) -> Job:
        return Job.from_json(self._http.ask("POST", f"{self._path(id)}/{action}"))

    def _directory(self, named: str | os.PathLike[str] | None) -> str:
        here = "" if named is None else os.fspath(named)
        if os.path.isabs(here):
            return here
        base = os.getcwd() if isinstance(self._http.place, Socket) else str(self.about()["home"])
        return os.path.join(base, here) if here else base


def _words(what: str, given: Iterable[Any]) -> list[str]:
    if isinstance(given, (str, bytes)):
        raise UsageError(f"{what} is an item of a list: [{given!r}]")
    words: list[Any] = [plain(word) for word in given]
    for word in words:
        if not isinstance(word, str):
            raise UsageError(f"{what} is a str or an os.PathLike, not {type(word).__name__}")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{what} is text (UTF-8), and {word!r} is none: a job is told as JSON") from None
    return words
