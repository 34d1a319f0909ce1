"""Copies and comparisons that block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ._results import Difference, Summary, Verification
from ._tasks import MirrorOptions, Place, Settings, TreeOptions
from ._watch import Ear, Watcher

if TYPE_CHECKING:
    from ._howdah import Task
    from ._tasks import Unpack


def _moved(task: Task, progress: Watcher) -> Summary:
    with Ear(progress) as ear:
        summary = Summary.from_json(task.run(ear))
        ear.finished(summary.bytes)
        return summary


class Client(Settings):
    """Moves, mirrors and compares on behalf of one key. Threads may share it.

    Each call blocks with the interpreter released. Ctrl-C ends it and raises ``KeyboardInterrupt``; the next copy goes on where it
    was. An exception that a callback raises ends it, too.
    """

    def copy(
        self,
        source: Place | Sequence[Place],
        destination: Place,
        *,
        recursive: bool = False,
        progress: Watcher = None,
        **options: Unpack[TreeOptions],
    ) -> Summary:
        """Copies a file, or with ``recursive`` files and directories, as ``howdah cp`` does it.

        Args:
            source: one place, or several on one machine.
            destination: a file or directory; either side may be another machine, or both if ssh reaches them.
            recursive: directories are copied; an existing directory gets them below it.
            progress: ``True`` for a bar, or a callable.
            **options: `TreeOptions`.

        Returns:
            What was done, when everything is verified, durable and in its place.

        Raises:
            Error: one of its subclasses says which; after `PartialError` and `SourceChangedError` the rest of a tree is in place.
        """
        return _moved(self._copy(source, destination, recursive, options), progress)

    def sync(
        self,
        source: Place,
        destination: Place,
        *,
        progress: Watcher = None,
        **options: Unpack[MirrorOptions],
    ) -> Summary:
        """Makes what is in ``destination`` what is in ``source``, as ``howdah sync`` does it. Nothing is deleted without ``delete``.

        Raises:
            Error: as for `copy`; `LimitError` if ``max_delete`` is reached.
        """
        return _moved(self._sync(source, destination, options), progress)

    def verify(
        self,
        a: Place,
        b: Place,
        *,
        progress: Watcher = None,
        on_difference: Callable[[Difference], object] | None = None,
        differences_max: int = 10_000,
        **options: Unpack[TreeOptions],
    ) -> Verification:
        """Compares two files or directories by size and time, or with ``checksum`` by content; each side hashes its own.

        Args:
            on_difference: hears of each difference.
            differences_max: so many of them are kept in the result.

        Returns:
            A value that is true if nothing differs. Differences are no error.

        Raises:
            PartialError, SourceChangedError: something could not be read, so that nobody knows.
            Error: as for `copy`.
        """
        with Ear(progress, on_difference, differences_max) as ear:
            told = self._verify(a, b, options).run(ear)
            return Verification.from_json(told, ear.differences)


def copy(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    recursive: bool = False,
    progress: Watcher = None,
    **options: Unpack[TreeOptions],
) -> Summary:
    """`Client.copy` of this user's client: with the keys and known servers of the ``howdah`` command."""
    return Client().copy(source, destination, recursive=recursive, progress=progress, **options)


def sync(
    source: Place, destination: Place, *, progress: Watcher = None, **options: Unpack[MirrorOptions]
) -> Summary:
    """`Client.sync` of this user's client."""
    return Client().sync(source, destination, progress=progress, **options)


def verify(
    a: Place,
    b: Place,
    *,
    progress: Watcher = None,
    on_difference: Callable[[Difference], object] | None = None,
    differences_max: int = 10_000,
    **options: Unpack[TreeOptions],
) -> Verification:
    """`Client.verify` of this user's client."""
    return Client().verify(
        a,
        b,
        progress=progress,
        on_difference=on_difference,
        differences_max=differences_max,
        **options,
    )
