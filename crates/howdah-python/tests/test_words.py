# pyright: basic, reportArgumentType=false, reportCallIssue=false
"""What is given wrongly is named, with what would be right, and nothing has happened by then."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import howdah
import pytest
from conftest import Site


def test_a_setting_that_makes_no_sense_is_named(site: Site) -> None:
    def client(**settings: object) -> howdah.Client:
        return howdah.Client(config_dir=site.config_dir, trust=site.public_key, **settings)

    made = client()

    def limit(bps: Any) -> None:
        made.limit_bps = bps

    for name, call in (
        ("limit_bps", lambda: client(limit_bps="1gbit")),
        ("limit_bps", lambda: client(limit_bps=-5)),
        ("limit_bps", lambda: client(limit_bps=1e9)),
        ("limit_bps", lambda: limit("1gbit")),
        ("limit_bps", lambda: limit(-1)),
        ("limit_bps", lambda: client(limit_bps=1 << 70)),
        ("rate_bps", lambda: client(policy="fixed", rate_bps=True)),
        ("reconnect_seconds", lambda: client(reconnect_seconds="30s")),
        ("reconnect_seconds", lambda: client(reconnect_seconds=float("nan"))),
        ("wait_for_space_seconds", lambda: client(wait_for_space_seconds=float("inf"))),
        ("resume", lambda: client(resume="no")),
        ("transport", lambda: client(transport=None)),
        ("share", lambda: client(share=8)),
        ("trust", lambda: howdah.Client(trust=None)),
        ("identity", lambda: howdah.Client(identity="key")),
        ("config_dir", lambda: howdah.Client(config_dir=7)),
        ("zero byte", lambda: howdah.Client(config_dir="a\0")),
    ):
        raises(name, call)
    assert made.limit_bps is None


def raises(text: str, call: Callable[[], object]) -> None:
    with pytest.raises(howdah.UsageError) as caught:
        call()
    assert text in str(caught.value), str(caught.value)
    # serde's places in a JSON text are nothing to whoever has written none.
    assert " column " not in str(caught.value), str(caught.value)


def test_an_option_that_makes_no_sense_is_named(site: Site) -> None:
    tree = site.files / "tree"
    tree.mkdir()
    (tree / "one").write_text("1")
    client, there = site.client(), site.url("there")
    for text, call in (
        ('exclude=[\'*.tmp\']', lambda: client.sync(tree, there, exclude="*.tmp")),
        ("exclude is a list", lambda: client.sync(tree, there, exclude=7)),
        ("include is a list of str", lambda: client.sync(tree, there, include=[7])),
        ("link_dest is a list", lambda: client.sync(tree, there, link_dest=Path("/x"))),
        ("max_size", lambda: client.copy(tree, there, recursive=True, max_size=-1)),
        ("modified_since", lambda: client.sync(tree, there, modified_since=1.5)),
        ("archive", lambda: client.sync(tree, there, archive="yes")),
        ("chmod", lambda: client.sync(tree, there, chmod=0o644)),
        ("backup_dir", lambda: client.sync(tree, there, backup_dir=object())),
        ("recursive", lambda: client.copy(tree, there, recursive="yes")),
        ("progress is True", lambda: client.copy(tree, there, recursive=True, progress="bar")),
        ("on_difference", lambda: client.verify(tree, there, on_difference=[])),
        ("progress is called and not awaited", lambda: client.copy(tree, there, recursive=True, progress=hear)),
        ("list of sources is empty", lambda: client.copy([], there)),
        ("os.fsdecode", lambda: client.copy(os.fsencode(tree), there)),
        ("a place is", lambda: client.copy([tree, None], there, recursive=True)),
        ("a place is", lambda: client.copy(tree, None)),
        ("zero byte", lambda: client.copy(f"{tree}\0", there)),
        ("zero byte", lambda: client.copy(tree, site.url("a\0b"), recursive=True)),
        ("zero byte", lambda: client.sync(Path(f"{tree}\0"), there)),
        ("surrogates", lambda: client.sync(tree, "\ud800")),
        ("surrogates", lambda: client.verify(Path("\ud800"), there)),
        ("exclude", lambda: client.sync(tree, there, exclude=["\ud800"])),
        ("differences_max", lambda: client.verify(tree, there, differences_max="5")),
    ):
        raises(text, call)
    assert not (site.root / "there").exists()


def test_a_copy_takes_no_option_that_deletes(site: Site) -> None:
    (site.files / "tree").mkdir()
    (site.root / "tree").mkdir()
    (site.root / "tree" / "kept").write_text("kept")
    for name in ("delete", "delete_all", "max_delete", "remove_source", "mirror", "rules", "contents"):
        options: dict[str, object] = {name: 1 if name == "max_delete" else True}
        raises(f"no option {name}", lambda: site.client().copy(site.files / "tree", site.url(""), recursive=True, **options))
    raises("sync has it", lambda: site.client().verify(site.files, site.url(""), delete=True))
    assert (site.root / "tree" / "kept").read_text() == "kept"


def test_a_server_is_told_of_its_keys_in_a_list(tmp_path: Path) -> None:
    me = howdah.Identity.generate()
    raises("list of lines", lambda: howdah.Server(tmp_path, authorized=me.public_key))
    raises("a line of authorized", lambda: howdah.Server(tmp_path, authorized=[7]))
    raises("root is", lambda: howdah.Server(7, authorized=[]))
    raises("listen", lambda: howdah.Server(tmp_path, 4433, authorized=[]))
    raises("max_rate_bps", lambda: howdah.Server(tmp_path, authorized=[], max_rate_bps=-1))
    with pytest.raises(howdah.NotFoundError, match="none"):
        howdah.Server(tmp_path / "none", authorized=[me.public_key])
    server = howdah.Server(tmp_path, authorized=[])
    server.start()
    with pytest.raises(RuntimeError, match="serves once"):
        server.start()
    server.stop()
    server.stop()
    with pytest.raises(RuntimeError, match="serves once"):
        server.start()


async def hear(_: object) -> None:
    """Nobody would await it."""


def test_names_that_are_no_text_are_names_there_as_well(site: Site) -> None:
    """As the command reads them; one that begins with a host is not a path of this machine."""
    odd = os.fsdecode(b"a b\n\xff")
    (site.files / odd).write_text("odd")
    client = site.client()
    client.copy(str(site.files / odd), site.url(odd))
    assert (site.root / odd).read_text() == "odd"
    client.copy(site.url(odd), site.files / "back")
    assert (site.files / "back").read_text() == "odd"
    (site.files / "back").unlink()
    with pytest.raises(howdah.Error) as caught:
        client.copy(site.url(odd + "none"), site.files / "back")
    str(caught.value).encode()


def test_failures_go_from_one_process_to_another() -> None:
    """As those of workers do."""
    for cls in (howdah.NoSpaceError, howdah.NotFoundError, howdah.PeerError, howdah.Error):
        error = cls("full: make room")
        error.kind = "protocol"
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.kind) == (cls, "full: make room", "protocol")
