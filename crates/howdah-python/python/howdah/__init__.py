"""Moves big data over long fat networks at the rate of the link: verified, resumable, encrypted.

`copy`, `sync` and `verify` act as the ``howdah`` command would; a `Client` has settings, a `Server` answers in this process, and
`howdah.aio` has the same to be awaited. `howdah.lab` runs the laboratory. Places are written as for the command, or are ``pathlib.Path``. All sizes are bytes and all
rates bit/s. Warnings go to the logger ``howdah``.
"""

from . import aio, lab
from ._client import Client, copy, sync, verify
from ._errors import (
    Error,
    IntegrityError,
    LimitError,
    NetworkError,
    NoSpaceError,
    NotFoundError,
    PartialError,
    PeerError,
    RefusedError,
    SourceChangedError,
    StoppedError,
    UsageError,
)
from ._howdah import Identity, __version__
from ._results import Difference, Progress, SideUsage, Summary, TreeReport, Verification
from ._server import Server
from ._tasks import MirrorOptions, Place, TreeOptions
from ._watch import Bar, Watcher

__all__ = [
    "Bar",
    "Client",
    "Difference",
    "Error",
    "Identity",
    "IntegrityError",
    "LimitError",
    "MirrorOptions",
    "NetworkError",
    "NoSpaceError",
    "NotFoundError",
    "PartialError",
    "PeerError",
    "Place",
    "Progress",
    "RefusedError",
    "Server",
    "SideUsage",
    "SourceChangedError",
    "StoppedError",
    "Summary",
    "TreeOptions",
    "TreeReport",
    "UsageError",
    "Verification",
    "Watcher",
    "__version__",
    "aio",
    "copy",
    "lab",
    "sync",
    "verify",
]
