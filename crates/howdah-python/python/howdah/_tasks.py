"""What the blocking half and the one of asyncio share: settings, and the tasks that they run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union, cast

from . import _howdah
from ._errors import UsageError
from ._howdah import Identity

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack

Place = Union[str, "PathLike[str]"]
"""A ``str`` is read as the command reads it: a path, ``host:path`` (through ssh) or ``howdah://host:port/path``. An ``os.PathLike``
is a path of this machine, whatever its name looks like."""


class TreeOptions(TypedDict, total=False):
    """How trees are copied and compared: keywords of `copy`, `sync` and `verify`. docs/cli.md says more of each."""

    archive: bool
    """Owners, hard links, extended attributes, ACLs and the special mode bits are kept, too."""
    checksum: bool
    """Contents are compared, not sizes and times."""
    dry_run: bool
    """Nothing is written."""
    include: Sequence[str]
    """Names with these patterns take part, whatever ``exclude`` says."""
    exclude: Sequence[str]
    """Names with these patterns do not."""
    gitignore: bool
    """``.gitignore`` files in the source leave out what they match."""
    min_size: int
    """Smaller files are left out, in bytes."""
    max_size: int
    """Larger files are left out, in bytes."""
    modified_since: int
    """Files modified before that are left out, in seconds since 1970."""
    modified_until: int
    """Files modified after that are left out, in seconds since 1970."""
    one_file_system: bool
    """What is mounted below the source is left out."""
    copy_links: bool
    """Links in the source are followed."""
    update: bool
    """Files that are newer at the destination stay."""
    ignore_existing: bool
    """What is at the destination stays."""
    size_only: bool
    """Files of the same size are the same."""
    permissions: bool
    """Permissions are made equal."""
    numeric_ids: bool
    """Owners go by number."""
    chmod: str
    """Changes of permissions, as ``--chmod`` reads them."""
    make_path: bool
    """Directories that the destination is to lie in are made."""
    growing: bool
    """Of files that grow meanwhile, what stood when reading began is taken."""
    link_dest: Sequence[str]
    """Directories at the receiver: an equal file there gets a further name instead of being moved."""


class MirrorOptions(TreeOptions, total=False):
    """Keywords of `sync` beside those of `TreeOptions`."""

    delete: bool
    """What the source's directories do not have is deleted in those of the destination."""
    max_delete: int
    """Nothing is deleted if more names than that would be: `LimitError`."""
    delete_all: bool
    """Also a source in which there is nothing at all deletes."""
    backup_dir: str
    """Below the destination: where files go that are deleted or replaced."""


_TREE = {name for options in (TreeOptions,) for name in options.__annotations__}
_MIRROR = _TREE | set(MirrorOptions.__annotations__)
_LISTS = ("include", "exclude", "link_dest")


def _options(options: Mapping[str, Any], known: set[str], call: str) -> dict[str, Any]:
    """What was given, if it is what that call takes: others of the command's would do what nobody expects of it."""
    for name in options:
        if name not in known:
            more = " (sync has it)" if name in _MIRROR else ""
            raise UsageError(f"{call} has no option {name}{more}; help(howdah.TreeOptions) has all")
    return {name: _option(name, value) for name, value in options.items()}


def _option(name: str, value: Any) -> Any:
    if name not in _LISTS:
        return plain(value)
    if isinstance(value, (str, bytes, os.PathLike)) or not isinstance(value, Iterable):
        raise UsageError(f"{name} is a list, as in {name}=[{value!r}]")
    items: list[Any] = [plain(one) for one in cast("Iterable[Any]", value)]
    for one in items:
        if not isinstance(one, str):
            raise UsageError(f"{name} is a list of str, and {one!r} is none")
    return items


def plain(value: Any) -> Any:
    """A path as what it is called, and anything else as it is."""
    return os.fspath(cast("PathLike[Any]", value)) if isinstance(value, os.PathLike) else value


def place(given: Any) -> Any:
    """What names a place as it is, if files can have such a name."""
    if isinstance(given, (str, os.PathLike)):
        try:
            name = os.fsencode(cast("str | PathLike[str]", given))
        except UnicodeEncodeError as error:
            raise UsageError(f"{given!r} is no name of a file: {error.reason}") from None
        if b"\0" in name:
            raise UsageError(f"{given!r} is no name of a file: there is a zero byte in it")
    return cast("Any", given)


def _json(options: Mapping[str, Any]) -> str:
    for name, value in options.items():
        try:
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        except (TypeError, ValueError) as error:
            raise UsageError(f"{name} cannot be {value!r}: {error}") from error
    return json.dumps(options)


def number(name: str, value: Any, *kinds: type) -> Any:
    """A setting as it is, if it is of such a kind."""
    # More than a u64 holds is none, and neither is what is no number.
    is_one = isinstance(value, kinds or (int,)) and not isinstance(value, bool) and 0 <= value < 1 << 64
    if value is not None and not is_one:
        what = "a number of bit/s" if name.endswith("_bps") else "a number of seconds"
        raise UsageError(f"{name} is {what}, 0 or more, and not {value!r}")
    return value


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name} is a str, and not {value!r}")
    return value


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{name} is True or False, and not {value!r}")
    return value


class Settings:
    """A client's settings, and its tasks."""

    def __init__(
        self,
        *,
        identity: Identity | None = None,
        config_dir: Place | None = None,
        trust: str = "strict",
        policy: Literal["fair", "background", "fixed"] = "fair",
        rate_bps: int | None = None,
        limit_bps: int | None = None,
        share: str = "1/1",
        transport: Literal["auto", "udp", "tcp"] = "auto",
        reconnect_seconds: float = 30.0,
        wait_for_space_seconds: float = 0.0,
        resume: bool = True,
        reread: bool = False,
    ) -> None:
        """
        Args:
            identity: the key that it shows. Without, that of this user (``howdah key show``), which is made if there is none.
            config_dir: where keys and known servers are, instead of this user's directory. With ``identity`` and without
                ``config_dir`` no server is known: name one with ``trust``.
            trust: a server that is not known is refused (``"strict"``), accepted and put on record (``"accept-new"``), or must
                hold the public key that stands here.
            policy: ``"fair"`` fills the path and shares it, ``"background"`` takes what nobody else wants, ``"fixed"`` sends
                at ``rate_bps`` on a circuit of your own.
            rate_bps: the rate of ``"fixed"``, in bit/s.
            limit_bps: an upper bound for IP packets, in bit/s, at least 64,000; it can be set again while copies run.
            share: each copy is one of so many sessions that count as one flow to others, such as ``"1/8"``; of the policy ``"fair"``.
            transport: what carries the data; ``"auto"`` is UDP, and TCP or ssh where no UDP passes.
            reconnect_seconds: a connection that is lost is made again until nothing has come for that long.
            wait_for_space_seconds: space on a full destination is waited for that long, each time.
            resume: go on with what an interrupted copy has left.
            reread: read each file back from the device and compare once more.

        Raises:
            UsageError: a setting makes no sense.
            PeerError: a file of keys cannot be used.
        """
        if identity is not None and not isinstance(identity, Identity):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"identity is a howdah.Identity, as load_or_create makes it of a file, and not {identity!r}")
        settings = _json(
            {
                "trust": text("trust", trust),
                "policy": text("policy", policy),
                "rate_bps": number("rate_bps", rate_bps),
                "limit_bps": number("limit_bps", limit_bps),
                "share": text("share", share),
                "transport": text("transport", transport),
                "reconnect_seconds": number("reconnect_seconds", reconnect_seconds, int, float),
                "wait_for_space_seconds": number("wait_for_space_seconds", wait_for_space_seconds, int, float),
                "resume": flag("resume", resume),
                "reread": flag("reread", reread),
            }
        )
        if config_dir is not None and not isinstance(config_dir, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"config_dir is a str or an os.PathLike, and not {config_dir!r}")
        self._client = _howdah.Client(settings, identity, place(config_dir))

    @property
    def limit_bps(self) -> int | None:
        """The most that its copies send together, in bit/s of IP packets; copies that run see a change at once."""
        return self._client.limit_bps

    @limit_bps.setter
    def limit_bps(self, bps: int | None) -> None:
        self._client.limit_bps = number("limit_bps", bps)

    @property
    def paused(self) -> bool:
        """Its copies rest, and stay connected."""
        return self._client.paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._client.paused = paused

    def _copy(
        self, source: Place | Sequence[Place], destination: Place, recursive: bool, options: Any
    ) -> _howdah.Task:
        many = isinstance(source, Sequence) and not isinstance(source, (str, bytes, bytearray))
        sources: list[Place] = [place(one) for one in (source if many else [source])]  # type: ignore[list-item, union-attr]
        destination = place(destination)
        if not sources:
            raise UsageError("there is nothing to copy: the list of sources is empty")
        options = _options(options, _TREE, "copy")
        flag("recursive", recursive)
        if len(sources) == 1 and not recursive and not options:
            return self._client.copy(sources[0], destination)
        options = {**options, "recursive": recursive or bool(options.get("archive"))}
        return self._client.copy_tree(sources, destination, _json(options), False)

    def _sync(self, source: Place, destination: Place, options: Any) -> _howdah.Task:
        return self._client.copy_tree([place(source)], place(destination), _json(_options(options, _MIRROR, "sync")), True)

    def _verify(self, a: Place, b: Place, options: Any) -> _howdah.Task:
        return self._client.verify(place(a), place(b), _json(_options(options, _TREE, "verify")))
