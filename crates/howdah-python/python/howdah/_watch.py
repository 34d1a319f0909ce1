"""Who hears what a task tells."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, Union

from ._errors import UsageError
from ._results import Difference, Progress

Watcher = Union[bool, None, Callable[[Progress], object]]
"""``True`` shows a bar (tqdm), also in notebooks; a callable gets a `Progress` about ten times a second."""

_log = logging.getLogger("howdah")


def bar(**keywords: Any) -> Any:
    """A bar of tqdm's, with its keywords."""
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("a progress bar needs tqdm: pip install 'howdah[progress]'") from error
    return tqdm(**keywords)


def check_heard(name: str, hears: Any) -> None:
    """Raises if nobody would hear of anything."""
    if not (hears is None or callable(hears) or (name == "progress" and isinstance(hears, bool))):
        bar = "True for a bar, or " if name == "progress" else ""
        raise UsageError(f"{name} is {bar}a callable, and not {hears!r}")
    if inspect.iscoroutinefunction(hears):
        raise UsageError(f"{name} is called and not awaited: a plain function, which may make a task of its own")


class Bar:
    """A progress bar by tqdm, of whatever is given ``progress=Bar()``. Keywords are tqdm's."""

    def __init__(self, **keywords: Any) -> None:
        settings: dict[str, Any] = {"unit": "B", "unit_scale": True, "unit_divisor": 1024}
        self._bar: Any = bar(**{**settings, **keywords})

    def __call__(self, now: Progress) -> None:
        self._bar.total = now.total_bytes
        self._bar.update(now.bytes - self._bar.n)

    def finish(self, total_bytes: int) -> None:
        """Fills it: what ended between two looks."""
        self._bar.total = total_bytes
        self._bar.update(total_bytes - self._bar.n)

    def close(self) -> None:
        """Leaves it as it is."""
        self._bar.close()


class Ear:
    """Sorts what a task tells; a context that closes the bar it made."""

    def __init__(
        self,
        progress: Watcher = None,
        on_difference: Callable[[Difference], object] | None = None,
        differences_max: int = 0,
    ) -> None:
        check_heard("progress", progress)
        check_heard("on_difference", on_difference)
        if not isinstance(differences_max, int) or isinstance(differences_max, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"differences_max is a number, and not {differences_max!r}")
        self._bar = Bar() if progress is True else None
        self._progress = progress if callable(progress) else self._bar
        self._on_difference = on_difference
        self._differences_max = differences_max
        self.differences: list[Difference] = []

    def __enter__(self) -> Ear:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def finished(self, total_bytes: int) -> None:
        """A copy may end between two looks."""
        if self._bar is not None:
            self._bar.finish(total_bytes)

    def __call__(self, kind: str, text: str) -> None:
        if kind == "progress":
            if self._progress is not None:
                self._progress(Progress.from_json(text))
        elif kind == "difference":
            found = Difference.from_json(text)
            if len(self.differences) < self._differences_max:
                self.differences.append(found)
            if self._on_difference is not None:
                self._on_difference(found)
        else:
            _log.log(logging.WARNING if kind == "warning" else logging.INFO, "%s", text)
