"""What can go wrong: one class for each class of exit codes of the ``howdah`` command."""

from __future__ import annotations


class Error(Exception):
    """A failure, with a sentence for people: what happened, where, and what to do.

    Attributes:
        kind: its name in ``--json``, such as ``"network"``.
        exit_code: what the command would have ended with.
        retry_may_help: whether the same call may succeed later without anybody changing anything.
    """

    kind: str = "io"
    exit_code: int = 1

    @property
    def retry_may_help(self) -> bool:
        return self.kind in ("network", "partial", "source_changed")


class UsageError(Error, ValueError):
    """The arguments make no sense together (exit code 2)."""

    kind = "usage"
    exit_code = 2


class NotFoundError(Error, FileNotFoundError):
    """The source does not exist (exit code 3)."""

    kind = "not_found"
    exit_code = 3


class RefusedError(Error, PermissionError):
    """Permissions, the path rules of the peer, or a destination's directory that does not exist (exit code 4)."""

    kind = "refused"
    exit_code = 4


class NetworkError(Error, ConnectionError):
    """Nobody answers, or the peer went away; trying again may help (exit code 5)."""

    kind = "network"
    exit_code = 5


class PartialError(Error):
    """Some files could not be copied, the others are in place (exit code 6)."""

    kind = "partial"
    exit_code = 6


class PeerError(Error):
    """Keys or protocol do not match; trying again does not help (exit code 7). ``kind`` is ``"auth"`` or ``"protocol"``."""

    kind = "auth"
    exit_code = 7


class LimitError(Error):
    """A limit was reached, such as ``max_delete`` (exit code 8)."""

    kind = "limit"
    exit_code = 8


class IntegrityError(Error):
    """What arrived is not what was sent (exit code 10)."""

    kind = "integrity"
    exit_code = 10


class NoSpaceError(Error, OSError):
    """No space or quota left at the destination (exit code 11)."""

    kind = "no_space"
    exit_code = 11


class StoppedError(Error):
    """Somebody stopped it (exit code 12). What is at the destination by then is gone on with by the next copy."""

    kind = "cancelled"
    exit_code = 12


class SourceChangedError(Error):
    """The source changed while it was read (exit code 13)."""

    kind = "source_changed"
    exit_code = 13


_CLASSES: dict[int, type[Error]] = {
    cls.exit_code: cls
    for cls in (
        Error,
        UsageError,
        NotFoundError,
        RefusedError,
        NetworkError,
        PartialError,
        PeerError,
        LimitError,
        IntegrityError,
        NoSpaceError,
        StoppedError,
        SourceChangedError,
    )
}


def of_kind(kind: str, exit_code: int, message: str) -> Error:
    """The exception of a failure of the library's."""
    error = _CLASSES.get(exit_code, Error)(message)
    error.kind = kind
    return error


def of_code(exit_code: int, message: str) -> Error:
    """The exception of a command that ended with this code."""
    return _CLASSES.get(exit_code, Error)(message)


_KINDS: dict[str, int] = {**{cls.kind: code for code, cls in _CLASSES.items()}, "protocol": PeerError.exit_code}


def of_name(kind: str, message: str) -> Error:
    """The exception of a failure that was told by its name; of one that is not known here, the general one."""
    return of_kind(kind, _KINDS.get(kind, Error.exit_code), message)
