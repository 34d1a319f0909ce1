"""A server in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from os import PathLike

from . import _howdah
from ._errors import UsageError
from ._howdah import Identity
from ._tasks import number, place, text
from ._watch import Ear


class Bound:
    """What a server of either kind is: bound to its address, and told to stop."""

    def __init__(
        self,
        root: str | PathLike[str],
        listen: str = "127.0.0.1:0",
        *,
        authorized: Iterable[str],
        identity: Identity | None = None,
        max_rate_bps: int | None = None,
    ) -> None:
        """
        Args:
            root: the directory that clients read and write below.
            listen: address and UDP port; port 0 is any.
            authorized: lines as in ``authorized_keys``: perhaps options, and a public key.
            identity: the key that it shows; a new one if none is given.
            max_rate_bps: what all sessions may move together, in each direction, in bit/s.

        Raises:
            UsageError: an address or a key that is none.
            RefusedError, NotFoundError: the root cannot be opened.
            Error: the address cannot be bound.
        """
        if isinstance(authorized, (str, bytes)):
            raise UsageError(f"authorized is a list of lines, as in authorized=[{authorized!r}]")
        lines = [text("a line of authorized", line) for line in authorized]
        identity = identity or Identity.generate()
        most = number("max_rate_bps", max_rate_bps)
        if not isinstance(root, (str, PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"root is a str or an os.PathLike, and not {root!r}")
        self._server = _howdah.Server(place(root), text("listen", listen), identity, lines, most)
        self._task = self._server.task()
        # One thread may start it while another one stops it.
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """Address and port: clients write ``howdah://ADDRESS/path``."""
        return self._server.address

    @property
    def public_key(self) -> str:
        """What a client may name as ``trust``."""
        return self._server.public_key

    def url(self, path: str = "") -> str:
        """The place of a path below the root."""
        return f"howdah://{self.address}/{path}"


class Server(Bound):
    """Answers copies on one UDP port. ``with Server(...) as server`` serves on a thread of its own until the block ends.

    The ``howdah serve`` command does the same in a sandbox of the operating system, which a library cannot put its caller in: use it
    for what faces strangers.
    """

    _thread: threading.Thread | None = None
    _ended = False

    def run(self) -> None:
        """Serves until `stop` is called or Ctrl-C comes."""
        self._task.run(Ear())

    def start(self) -> None:
        """Serves on a thread of its own, until `stop`.

        Raises:
            RuntimeError: it was started, or stopped, before: it serves once.
        """
        with self._lock:
            if self._thread is not None or self._ended:
                raise RuntimeError("a server serves once: make another one")
            thread = threading.Thread(target=self.run, name="howdah-server", daemon=True)
            thread.start()
            # Not before: whoever stops it joins it.
            self._thread = thread

    def stop(self) -> None:
        """Ends its sessions and waits until it has ended. It cannot be started again."""
        with self._lock:
            self._ended = True
        self._task.cancel()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
