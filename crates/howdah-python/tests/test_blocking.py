"""Copies, mirrors and comparisons that block."""

from __future__ import annotations

import dataclasses
import logging
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import howdah
import pytest

from conftest import Site, can_go_on, make_big


def tree(below: Path) -> Path:
    (below / "tree" / "deep").mkdir(parents=True)
    for name in ("one", "deep/two", "deep/three.tmp"):
        (below / "tree" / name).write_text(name)
    return below / "tree"


def test_a_file_goes_and_comes_back(site: Site) -> None:
    data = os.urandom(3 << 20)
    (site.files / "big").write_bytes(data)
    client = site.client()
    summary = client.copy(site.files / "big", site.url("there"))
    assert (site.root / "there").read_bytes() == data
    assert summary.bytes == len(data)
    assert summary.verified == "blake3"
    assert summary.seconds > 0 and summary.sender.peak_rss_bytes > 0 and summary.tree is None
    client.copy(site.url("there"), str(site.files / "back"))
    assert (site.files / "back").read_bytes() == data
    assert pickle.loads(pickle.dumps(summary)) == summary
    assert dataclasses.asdict(summary)["sender"]["cpu_seconds"] >= 0


def test_a_path_is_a_path_whatever_it_looks_like(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site.files)
    odd = os.fsdecode(b"host:a\xff")
    Path(odd).write_text("odd")
    site.client().copy(Path(odd), site.url("odd"))
    assert (site.root / "odd").read_text() == "odd"


def test_a_tree_its_options_and_its_report(site: Site) -> None:
    here = tree(site.files)
    client = site.client()
    summary = client.copy(here, site.url(""), recursive=True, exclude=["*.tmp"])
    assert summary.tree is not None and summary.tree.files == 2
    assert sorted(p.name for p in (site.root / "tree").rglob("*")) == ["deep", "one", "two"]
    several = client.copy([here / "one", here / "deep" / "two"], site.url("tree"))
    assert several.tree is not None and several.tree.files + several.tree.unchanged == 2


def test_sync_deletes_only_when_told(site: Site) -> None:
    here = tree(site.files)
    client = site.client()
    client.sync(here, site.url("mirror"))
    (here / "one").unlink()
    kept = client.sync(here, site.url("mirror"))
    assert (site.root / "mirror/one").exists() and kept.tree is not None and kept.tree.deleted == 0
    with pytest.raises(howdah.LimitError) as caught:
        client.sync(here, site.url("mirror"), delete=True, max_delete=0)
    assert caught.value.exit_code == 8 and (site.root / "mirror/one").exists()
    dry = client.sync(here, site.url("mirror"), delete=True, dry_run=True)
    assert dry.tree is not None and dry.tree.deleted == 1 and (site.root / "mirror/one").exists()
    client.sync(here, site.url("mirror"), delete=True)
    assert not (site.root / "mirror/one").exists()


def test_verify_names_what_differs(site: Site) -> None:
    here = tree(site.files)
    client = site.client()
    client.sync(here, site.url("mirror"))
    same = client.verify(here, site.url("mirror"), checksum=True)
    assert same and same.compared_by == "blake3" and same.files == 3 and same.differences == ()
    (site.root / "mirror/one").write_text("ONE")
    (site.root / "mirror/deep/two").unlink()
    heard: list[howdah.Difference] = []
    other = client.verify(here, site.url("mirror"), checksum=True, on_difference=heard.append)
    assert not other and list(other.differences) == heard
    assert [(found.path, found.what) for found in heard] == [
        ("one", "contents"),
        ("deep/two", "missing_in_b"),
    ]
    assert (heard[0].a, heard[0].b) == (0, 3)
    few = client.verify(here, site.url("mirror"), checksum=True, differences_max=1)
    assert len(few.differences) == 1 and (few.differing, few.missing_in_b) == (1, 1)


def test_failures_are_of_a_class(site: Site) -> None:
    client = site.client()
    with pytest.raises(howdah.NotFoundError) as missing:
        client.copy(site.files / "missing", site.url("x"))
    assert isinstance(missing.value, FileNotFoundError) and "missing" in str(missing.value)
    assert (missing.value.exit_code, missing.value.kind) == (3, "not_found")
    (site.files / "one").write_text("1")
    with pytest.raises(howdah.RefusedError):
        client.copy(site.files / "one", site.url("no/such/directory/x"))
    stranger = howdah.Client(identity=howdah.Identity.generate(), trust=site.public_key)
    with pytest.raises(howdah.PeerError) as refused:
        stranger.copy(site.files / "one", site.url("x"))
    assert refused.value.kind == "auth" and not refused.value.retry_may_help
    for text, call in (
        ("trust is", lambda: howdah.Client(trust="perhaps")),
        ("needs rate_bps", lambda: howdah.Client(policy="fixed")),
        ("reconnect_seconds", lambda: howdah.Client(reconnect_seconds=-1)),
        ("at least 64000", lambda: howdah.Client(limit_bps=1)),
        ("not 1/N", lambda: howdah.Client(share="2/8")),
        ("no option colour", lambda: client.copy("a", site.url("b"), colour=1)),  # type: ignore[call-arg] # pyright: ignore
        ("min_size cannot be", lambda: client.copy("a", site.url("b"), min_size="big")),  # type: ignore[arg-type] # pyright: ignore
        ("a place is", lambda: client.copy(7, site.url("b"))),  # type: ignore[arg-type] # pyright: ignore
        ("howdah://", lambda: client.copy("a", "howdah://[::1")),
    ):
        with pytest.raises(howdah.UsageError, match=text):
            call()


def test_progress_is_heard_on_the_thread_that_waits(site: Site) -> None:
    make_big(site.files / "big", 40)
    heard: list[howdah.Progress] = []
    threads: set[int] = set()

    def hear(now: howdah.Progress) -> None:
        heard.append(now)
        threads.add(threading.get_ident())

    client = site.client()
    client.limit_bps = 200_000_000
    client.copy(site.files / "big", site.url("big"), progress=hear)
    assert threads == {threading.get_ident()}
    assert heard[-1].total_bytes == 40 << 20 and heard[-1].limit_bps == 200_000_000
    assert [now.bytes for now in heard] == sorted(now.bytes for now in heard)


def test_what_a_callback_raises_ends_the_copy_and_the_next_goes_on(site: Site) -> None:
    data = make_big(site.files / "big").read_bytes()

    class Enough(Exception):
        pass

    def stop(now: howdah.Progress) -> None:
        if can_go_on(site.root):
            raise Enough

    slow = site.client()
    slow.limit_bps = 20_000_000
    with pytest.raises(Enough):
        slow.copy(site.files / "big", site.url("big"), progress=stop)
    assert not (site.root / "big").exists()
    summary = site.client().copy(site.files / "big", site.url("big"))
    assert summary.resumed_bytes > 0
    assert (site.root / "big").read_bytes() == data


def test_a_bar(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    (site.files / "one").write_bytes(b"x" * 2048)
    site.client().copy(site.files / "one", site.url("one"), progress=True)
    assert "2.00k/2.00k" in capsys.readouterr().err.rsplit("\r", 1)[-1]


def test_warnings_go_to_the_logger(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    (site.files / "one").write_text("1")
    new = howdah.Client(config_dir=site.config_dir, trust="accept-new")
    with caplog.at_level(logging.INFO, logger="howdah"):
        new.copy(site.files / "one", site.url("one"))
    assert site.address.split(":")[1] in (site.config_dir / "known_hosts").read_text()
    # It is known from now on.
    howdah.Client(config_dir=site.config_dir).copy(site.files / "one", site.url("two"))


INTERRUPTED = """
import signal, sys, threading, howdah
# Whoever runs the tests in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
config_dir, key, source, destination = sys.argv[1:]
client = howdah.Client(config_dir=config_dir, trust=key, limit_bps=80_000_000)
def hear(now):
    if now.bytes and not told:
        told.append(1); print("moving", flush=True)
told = []
try:
    client.copy(source, destination, progress=hear)
except KeyboardInterrupt:
    print("interrupted", threading.active_count(), flush=True)
"""


def test_ctrl_c_ends_a_copy(site: Site) -> None:
    make_big(site.files / "big")
    arguments = [sys.executable, "-c", INTERRUPTED, str(site.config_dir), site.public_key]
    with subprocess.Popen(
        [*arguments, str(site.files / "big"), site.url("big")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "moving\n"
        process.send_signal(2)
        assert process.stdout.readline() == "interrupted 1\n"
        assert process.wait() == 0
    assert not (site.root / "big").exists()


def test_other_threads_run_meanwhile(site: Site) -> None:
    make_big(site.files / "big")
    client = site.client()
    client.limit_bps = 80_000_000
    moving, counted = threading.Event(), threading.Event()

    def count() -> None:
        moving.wait()
        counted.set()

    counter = threading.Thread(target=count)
    counter.start()

    def hear(now: howdah.Progress) -> None:
        if now.bytes:
            moving.set()
            # Only if the interpreter is free while this copy runs does the other thread come this far.
            if counted.wait(0):
                raise StopIteration

    with pytest.raises(StopIteration):
        client.copy(site.files / "big", site.url("big"), progress=hear)
    counter.join()


def test_a_paused_client_goes_on(site: Site) -> None:
    (site.files / "one").write_bytes(os.urandom(1 << 20))
    client = site.client()
    client.paused = True
    assert client.paused

    def hear(now: howdah.Progress) -> None:
        if now.paused:
            client.paused = False

    assert client.copy(site.files / "one", site.url("one"), progress=hear).bytes == 1 << 20
    assert not client.paused


def test_a_server_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "one").write_text("1")
    me = howdah.Identity.generate()
    assert me.public_key.startswith("howdah-ed25519 ") and me.fingerprint in repr(me)
    with howdah.Server(tmp_path / "root", authorized=[f"write-only {me.public_key}"]) as server:
        client = howdah.Client(identity=me, trust=server.public_key)
        client.copy(tmp_path / "one", server.url("one"))
        with pytest.raises(howdah.RefusedError):
            client.copy(server.url("one"), tmp_path / "back")
    with pytest.raises(howdah.NetworkError):
        howdah.Client(identity=me, trust=server.public_key, reconnect_seconds=0).copy(
            tmp_path / "one", server.url("two")
        )
    with pytest.raises(howdah.UsageError, match="listen is"):
        howdah.Server(tmp_path, "localhost", authorized=[])
    with pytest.raises(howdah.UsageError, match="authorized key"):
        howdah.Server(tmp_path, authorized=["ssh-rsa AAAA"])


def test_the_command_is_the_same_version(command: Path) -> None:
    told = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert f" {howdah.__version__}" in told.stdout
    module = subprocess.run(
        [sys.executable, "-m", "howdah", "--version"], capture_output=True, text=True, check=True
    )
    assert module.stdout == told.stdout
