from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, final

__version__: str

@final
class Identity:
    """A private key (Ed25519)."""

    @staticmethod
    def generate() -> Identity:
        """A new key that is nowhere but in memory."""

    @staticmethod
    def load_or_create(path: str | PathLike[str]) -> Identity:
        """The key in a file that only its owner can read, which is made if it is not there."""

    @property
    def public_key(self) -> str:
        """The line for a server's ``authorized_keys``: ``howdah-ed25519 BASE64``."""

    @property
    def fingerprint(self) -> str:
        """Short form for people to compare: ``SHA256:...``."""

@final
class Task:
    def cancel(self) -> None: ...
    def run(self, hear: Callable[[str, str], object]) -> str: ...

@final
class Client:
    def __new__(
        cls,
        settings: str,
        identity: Identity | None,
        config_dir: str | PathLike[str] | None,
    ) -> Client: ...
    limit_bps: int | None
    paused: bool
    def copy(self, source: str | PathLike[str], destination: str | PathLike[str]) -> Task: ...
    def copy_tree(
        self,
        sources: Sequence[str | PathLike[str]],
        destination: str | PathLike[str],
        options: str,
        mirror: bool,
    ) -> Task: ...
    def open(self, place: str) -> Files: ...
    def verify(self, a: str | PathLike[str], b: str | PathLike[str], options: str) -> Task: ...

@final
class Files:
    def ask(self, requests: Sequence[tuple[Any, ...]], done: Callable[[list[Any]], object]) -> bool: ...
    def close(self) -> None: ...

@final
class Server:
    def __new__(
        cls,
        root: str | PathLike[str],
        listen: str,
        identity: Identity,
        authorized: Sequence[str],
        max_rate_bps: int | None,
    ) -> Server: ...
    @property
    def address(self) -> str: ...
    @property
    def public_key(self) -> str: ...
    def task(self) -> Task: ...
