"""``howdah lab``, run from Python, and how far it is."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union, cast

from . import _errors
from ._command import command, environment
from ._watch import bar, check_heard

_LOOK_EVERY_S = 0.2


@dataclass(frozen=True)
class Progress:
    """How far a run is, told when that changes."""

    cells: int
    """Cells of the campaign."""
    done: int
    """Cells that have a result, those of earlier runs included."""


Watcher = Union[bool, None, Callable[[Progress], object]]
"""``True`` shows a bar (tqdm), also in notebooks; a callable gets a `Progress`."""


def options(quick: bool, seeds: int | None) -> list[str]:
    """What changes the cells of a scenario."""
    return [*(["--quick"] if quick else []), *([] if seeds is None else [f"--seeds={seeds}"])]


def failure(code: int, said: str) -> _errors.Error:
    """The exception for how the command ended."""
    said = said.strip().removeprefix("howdah: ")
    if code < 0:
        return _errors.of_kind("io", 1, said or f"howdah was ended by signal {-code}")
    return _errors.of_code(code, said or f"howdah ended with code {code}")


def paths_of(scenario: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    several = [scenario] if isinstance(scenario, (str, os.PathLike)) else scenario
    paths = [os.fspath(path) for path in several]
    if not paths:
        raise _errors.UsageError("no scenario was given")
    # One that begins with a dash is no option.
    return [os.path.join(".", path) if path.startswith("-") else path for path in paths]


def usual_place(path: str, quick: bool, on: str) -> Path:
    """As the command has it."""
    marks = ("-quick" if quick else "") + ("-netns" if on == "netns" else "")
    return Path("results") / ((Path(path).stem or "lab") + marks)


def run_lab(words: list[str], watch: Watch | None, named: str | None = None) -> tuple[int, str, str]:
    """Exit code, what it printed and what it said. Whatever is raised meanwhile ends it."""
    try:
        # Ctrl-C at a terminal is for this process, which tells the command.
        child = subprocess.Popen(
            [command(named), *words],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        raise _errors.Error(f"cannot run howdah: {error}") from error
    try:
        while True:
            try:
                printed, said = child.communicate(timeout=_LOOK_EVERY_S if watch else None)
                return child.returncode, printed, said
            except subprocess.TimeoutExpired:
                if watch:
                    watch.look()
    except BaseException:
        _end(child)
        raise


def _end(child: subprocess.Popen[str]) -> None:
    """Lets it keep the cells that are done; a second Ctrl-C does not wait."""
    # Not SIGINT: whoever runs in the background of a script ignores that, and what it starts does so, too.
    with suppress(ProcessLookupError):
        child.terminate()
    try:
        child.communicate()
    except BaseException:
        child.kill()
        child.wait()
        raise


class Watch:
    """Tells how many cells of a campaign have a result: the command writes a file for each."""

    def __init__(self, place: Path, watcher: Watcher, told_before: bool = False) -> None:
        check_heard("progress", watcher)
        self._place = place
        self._bar: Any = bar(unit="cell") if watcher is True else None
        self._watcher = watcher if callable(watcher) else None
        self._told: Progress | None = None
        # What an earlier run with other scenarios in it wrote is no news, unless the caller says so.
        self._before = None if told_before else self._stamp()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *failed: object) -> None:
        try:
            if failed[0] is None:
                self.look()
        finally:
            if self._bar is not None:
                self._bar.close()

    def _stamp(self) -> tuple[int, int] | None:
        try:
            known = (self._place / "campaign.json").stat()
        except OSError:
            return None
        return known.st_ino, known.st_mtime_ns

    def look(self) -> None:
        if self._bar is None and self._watcher is None:
            return
        if self._stamp() in (None, self._before):
            return
        ids: set[str] = set(read(self._place / "campaign.json", "cells")["cells"])
        there = {file.stem for file in (self._place / "cells").glob("*.json")}
        now = Progress(cells=len(ids), done=len(ids & there))
        if now == self._told:
            return
        self._told = now
        if self._bar is not None:
            self._bar.total = now.cells
            self._bar.update(now.done - self._bar.n)
        if self._watcher is not None:
            self._watcher(now)


def read(file: Path, *names: str) -> Any:
    """An object that has such names."""
    try:
        found: Any = json.loads(file.read_text())
    except OSError as error:
        raise _errors.Error(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise _errors.Error(f"{file}: damaged: {error}") from error
    if not isinstance(found, dict):
        raise _errors.Error(f"{file}: damaged: it is no object of JSON")
    missing = [name for name in names if name not in found]
    if missing:
        raise _errors.Error(f"{file}: damaged: it has no '{missing[0]}'")
    return cast("dict[str, Any]", found)
