"""What copies and comparisons tell. Names and units are those of ``--json``."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

_T = TypeVar("_T")


def _made(cls: type[_T], values: Mapping[str, Any]) -> _T:
    """Of the fields that there are: another version of the command may tell more."""
    names = {item.name for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return cls(**{name: value for name, value in values.items() if name in names})


@dataclass(frozen=True)
class Progress:
    """A look at a running copy or comparison, about ten times a second."""

    bytes: int
    """Bytes that are known to be at the receiver."""
    resumed_bytes: int
    """Of them, those that an interrupted copy had brought there before."""
    total_bytes: int | None
    """How many there will be, if that is known yet."""
    files_done: int
    """Files that are complete and in place."""
    files_total: int | None
    """How many there will be, if that is known yet."""
    current: tuple[str, ...]
    """Names of files that are under way, a few at most."""
    elapsed_seconds: float
    """Since it began."""
    goodput_bps: int
    """Payload over the last second, in bit/s."""
    wire_bps: int
    """IP packets with headers and repairs over the last second, in bit/s."""
    rtt_seconds: float
    """Smoothed round-trip time."""
    loss_rate: float
    """Fraction of the data's packets lost over the last second or so, 0 to 1."""
    limit_bps: int | None
    """The cap on the rate that is in force, in bit/s."""
    paused: bool
    """Sending rests."""

    @classmethod
    def from_json(cls, text: str) -> Progress:
        values = json.loads(text)
        values["current"] = tuple(values["current"])
        return _made(cls, values)


@dataclass(frozen=True)
class SideUsage:
    """What one process used for a copy."""

    cpu_seconds: float = 0.0
    """User and system CPU time."""
    peak_rss_bytes: int = 0
    """Peak resident set."""


@dataclass(frozen=True)
class TreeReport:
    """What became of the files of a tree."""

    files: int = 0
    """Files whose content was moved."""
    bytes: int = 0
    """Their bytes."""
    resumed_bytes: int = 0
    """Of them, those that an interrupted copy had brought before."""
    unchanged: int = 0
    """Files that were there already."""
    directories: int = 0
    links: int = 0
    """Symbolic links, and further names of files."""
    deleted: int = 0
    """Names that were removed because the source does not have them."""
    refused_deletes: int = 0
    failed: int = 0
    """Names that could not be copied."""
    changed: int = 0
    """Files that changed or vanished while they were read."""
    special: int = 0
    """Fifos, sockets and devices, which are never copied."""
    not_kept: int = 0
    """Attributes that could not be kept."""
    notes: tuple[str, ...] = ()
    """The first of each kind of trouble."""
    notices: tuple[str, ...] = ()
    """What is no trouble, and may not be what was meant."""
    grown: int = 0
    """Files that grew while they were read."""
    removed: int = 0
    """Files and links that were removed from the source."""
    linked: int = 0
    """Files that are further names of equal ones in ``link_dest``."""


@dataclass(frozen=True)
class Summary:
    """What a finished copy did: everything is verified, durable and in its place."""

    bytes: int = 0
    """Payload bytes that the destination has now."""
    resumed_bytes: int = 0
    """Of them, those that an interrupted copy had brought there before."""
    seconds: float = 0.0
    """From the call to the confirmed end."""
    goodput_bps: float = 0.0
    """``(bytes - resumed_bytes) * 8 / seconds``."""
    wire_bytes: int = 0
    """IP packets' bytes that the data's sender put on the wire."""
    retransmitted_bytes: int = 0
    """Payload bytes sent more than once."""
    feedback_bytes: int = 0
    """IP packets' bytes that the data's receiver put on the wire."""
    rtt_min_us: int = 0
    """Smallest round-trip time seen, in microseconds."""
    loss_rate: float = 0.0
    """Share of the sender's packets that did not arrive, 0 to 1."""
    mtu: int = 0
    """Largest IP packet that the path carries, in bytes."""
    sender: SideUsage = field(default_factory=SideUsage)
    receiver: SideUsage = field(default_factory=SideUsage)
    verified: str = ""
    """How the content was checked: ``"blake3"``, ``"reread"`` or ``"aead"``."""
    bottleneck: str = ""
    """What kept it from being faster: ``"network"``, ``"source"``, ``"sink"``, ``"cpu"`` or ``"rate cap"``."""
    reconnects: int = 0
    """How often a connection was lost and made again."""
    goodput_per_second_bps: tuple[float, ...] = ()
    """Goodput of each second of the run, in bit/s; shape ``(seconds,)``."""
    blake3: str | None = None
    """Of the content of a file, where it was hashed."""
    tree: TreeReport | None = None
    """What became of the files of a tree."""

    @classmethod
    def from_json(cls, text: str) -> Summary:
        values = json.loads(text)
        values["sender"] = _made(SideUsage, values.get("sender", {}))
        values["receiver"] = _made(SideUsage, values.get("receiver", {}))
        values["goodput_per_second_bps"] = tuple(values.get("goodput_per_second_bps", ()))
        tree = values.get("tree")
        if tree is not None:
            for name in ("notes", "notices"):
                tree[name] = tuple(tree.get(name, ()))
            values["tree"] = _made(TreeReport, tree)
        return _made(cls, values)


@dataclass(frozen=True)
class Difference:
    """One thing in which A and B differ."""

    path: str
    """Below the two places, as ``os.fsdecode`` writes it; ``""`` for the places themselves."""
    is_directory: bool
    what: str
    """``missing_in_a``, ``missing_in_b`` (``a`` or ``b`` is the number of names in it), ``kind``, ``size_bytes``,
    ``contents`` (the first different byte is in ``range(a, b)``), ``target``, ``mode``, ``time_ns`` (since 1970),
    ``owner`` (``[uid, gid]``), ``attributes``, ``hard_links`` or ``unread`` (``True`` for a side that could not)."""
    a: Any = None
    b: Any = None

    @classmethod
    def from_json(cls, text: str) -> Difference:
        values = json.loads(text)
        values["path"] = os.fsdecode(bytes.fromhex(values["path_hex"]))
        return _made(cls, values)


@dataclass(frozen=True)
class Verification:
    """What came of a comparison. It is true if both sides were read in whole and nothing differs."""

    equal: bool = False
    compared_by: str = ""
    """``"blake3"``, ``"reread"`` or ``"size_and_time"``."""
    seconds: float = 0.0
    files: int = 0
    """Files that are on both sides."""
    bytes: int = 0
    """Bytes of each side that were hashed and compared."""
    directories: int = 0
    others: int = 0
    """Symbolic links, fifos, sockets and devices on both sides."""
    missing_in_a: int = 0
    missing_in_b: int = 0
    differing: int = 0
    unread: int = 0
    differences: tuple[Difference, ...] = ()
    """The first ``differences_max`` of them, in an order that depends on the names only."""

    def __bool__(self) -> bool:
        return self.equal

    @classmethod
    def from_json(cls, text: str, differences: list[Difference]) -> Verification:
        return _made(cls, {**json.loads(text), "differences": tuple(differences)})
