# fsspec has no types of its own.
# pyright: basic, reportArgumentType=false, reportReturnType=false, reportAttributeAccessIssue=false
"""howdah:// as a file system of fsspec: its own suite, and what that does not ask."""

from __future__ import annotations

import os
import pickle
import random
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import fsspec
import howdah
import pytest
from conftest import Site, serving
from fsspec.tests import abstract
from howdah.fsspec import HowdahFileSystem, HowdahSshFileSystem

# What fsspec's suite asks and howdah does otherwise: the reason of each.
EXCEPTIONS: dict[str, str] = {}


def opened(site: Site, **settings: object) -> HowdahFileSystem:
    host, port = site.address.rsplit(":", 1)
    settings = {"config_dir": site.config_dir, "trust": site.public_key, **settings}
    return HowdahFileSystem(host, int(port), skip_instance_cache=True, **settings)


@pytest.fixture
def fs(site: Site) -> Iterator[HowdahFileSystem]:
    fs = opened(site)
    yield fs
    fs.close()


@pytest.fixture(scope="module")
def suite_fs(tmp_path_factory: pytest.TempPathFactory, command: Path) -> Iterator[HowdahFileSystem]:
    with serving(tmp_path_factory.mktemp("site"), command) as site:
        fs = opened(site)
        fs.mkdir("/suite")
        yield fs
        fs.close()


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, suite_fs: HowdahFileSystem) -> HowdahFileSystem:
        return suite_fs

    @pytest.fixture
    def fs_path(self) -> str:
        return "/suite"

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return True

    @pytest.fixture(autouse=True)
    def _known(self, request: pytest.FixtureRequest) -> None:
        reason = EXCEPTIONS.get(request.node.originalname)
        if reason:
            pytest.skip(reason)


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


def test_names_are_told(site: Site, fs: HowdahFileSystem) -> None:
    (site.root / "dir" / "sub").mkdir(parents=True)
    (site.root / "dir" / "one.txt").write_text("one")
    (site.root / "dir" / "two\udcff").write_text("two")
    assert fs.ls("dir", detail=False) == ["/dir/one.txt", "/dir/sub", "/dir/two\udcff"]
    assert fs.ls("/") == [fs.info("/dir")]
    assert fs.ls("/dir/one.txt") == [fs.info("dir/one.txt")]
    info = fs.info("dir/one.txt")
    assert (info["type"], info["size"]) == ("file", 3)
    assert fs.sizes(["dir/one.txt", "dir/two\udcff"]) == [3, 3]
    assert fs.modified("dir/one.txt").timestamp() == pytest.approx((site.root / "dir" / "one.txt").stat().st_mtime)
    assert fs.glob("/dir/*.txt") == ["/dir/one.txt"]
    assert sorted(fs.find("")) == ["/dir/one.txt", "/dir/two\udcff"]
    assert fs.isdir("dir") and fs.isfile("dir/one.txt") and not fs.exists("nothing")
    assert fs.cat_file("/dir/two\udcff") == b"two"
    with pytest.raises(FileNotFoundError):
        fs.info("nothing")
    with pytest.raises(PermissionError):
        fs.info("../files")


def test_ranges_come_in_one_batch(site: Site, fs: HowdahFileSystem) -> None:
    content = os.urandom(1 << 20)
    (site.root / "big").write_bytes(content)
    ranges = [(start, start + random.randrange(9_000)) for start in random.choices(range(1 << 20), k=2_000)]
    starts, ends = map(list, zip(*ranges, strict=True))
    found = fs.cat_ranges(["big"] * len(ranges), starts, ends)
    assert found == [content[start:end] for start, end in ranges]
    assert fs.cat_file("big", -10) == content[-10:]
    assert fs.cat_file("big", 5, -5) == content[5:-5]
    mixed = fs.cat_ranges(["big", "nothing", "big"], 0, 3)
    assert mixed[0] == mixed[2] == content[:3]
    assert isinstance(mixed[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["nothing"], 0, 3, on_error="raise")
    assert fs.cat(["big", "nothing"], on_error="omit") == {"/big": content}
    with fs.open("big") as file:
        file.seek(700_000)
        assert file.read(100_000) == content[700_000:800_000]
    assert fs.checksum("big") == fs.checksum("/big")


def test_a_session_that_somebody_closes_meanwhile_is_opened_anew(
    site: Site, fs: HowdahFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.root / "file").write_text("what is in it")
    taken = [fs._sessions.get()]
    fs.close()
    assert not taken[0].ask([("stat", b"file")], print)
    monkeypatch.setattr(type(fs._sessions), "ready", property(lambda _: taken.pop() if taken else None))
    assert fs.cat_file("/file") == b"what is in it"


def test_an_open_file_is_one_version(site: Site, fs: HowdahFileSystem) -> None:
    (site.root / "log").write_bytes(bytes(1_000))
    with fs.open("log", block_size=100, cache_type="none") as file:
        assert file.read(10) == bytes(10)
        before = fs.ukey("log")
        (site.root / "log").write_bytes(b"x" * 1_000)
        assert fs.ukey("log") != before
        with pytest.raises(howdah.SourceChangedError, match="look at it again"):
            file.read(10)


def test_files_are_written_moved_and_removed(site: Site, fs: HowdahFileSystem) -> None:
    with fs.open("new/deep/file", "wb") as file:
        file.write(b"a" * (6 << 20))
        file.write(b"b")
    assert (site.root / "new/deep/file").stat().st_size == (6 << 20) + 1
    with pytest.raises(FileExistsError):
        fs.pipe_file("new/deep/file", b"", mode="create")
    with pytest.raises(NotImplementedError, match="written whole"):
        fs.open("new/deep/file", "ab")
    fs.mv("new/deep/file", "new/moved")
    assert not fs.exists("new/deep/file") and (site.root / "new/moved").exists()
    fs.mkdir("made/a/b")
    with pytest.raises(FileExistsError):
        fs.mkdir("made")
    (site.root / "made/way").symlink_to(site.root / "new")
    with pytest.raises(IsADirectoryError):
        fs.rm("made")
    fs.rm("made", recursive=True)
    assert not (site.root / "made").exists() and (site.root / "new/moved").exists()
    with fs.transaction:
        with fs.open("later", "wb") as file:
            file.write(b"x")
        assert not (site.root / "later").exists()
    assert (site.root / "later").read_bytes() == b"x"
    # One that is large is copied, a small one comes through the session.
    fs.get("new/moved", str(site.files / "large"))
    fs.get("later", str(site.files / "small"))
    assert (site.files / "large").read_bytes() == (site.root / "new/moved").read_bytes()
    assert (site.files / "small").read_bytes() == b"x"


def test_urls_name_file_systems(site: Site) -> None:
    (site.root / "x").write_text("x")
    settings = {"config_dir": str(site.config_dir), "trust": site.public_key}
    with fsspec.open(site.url("x"), **settings) as file:
        assert file.read() == b"x"
    fs, path = fsspec.url_to_fs(site.url("a/b"), **settings)
    assert (path, fs.unstrip_protocol(path)) == ("/a/b", site.url("a/b"))
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file("x") == b"x"
    known = HowdahSshFileSystem._get_kwargs_from_urls("howdah+ssh://anna@[::1]:22/~/x")
    assert known == {"host": "::1", "port": 22, "username": "anna"}
    ssh = HowdahSshFileSystem("site", username="anna", config_dir=str(site.config_dir))
    assert ssh._place("/~/x") == "ssh://anna@site/~/x"
    assert (ssh._bytes("/~/x"), ssh._bytes("/x")) == (b"~/x", b"/x")
    with pytest.raises(howdah.UsageError, match="no password"):
        HowdahFileSystem._get_kwargs_from_urls("howdah://anna:x@site/")


def test_who_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    fs = HowdahFileSystem("127.0.0.1", 1, config_dir=tmp_path, transport="udp", skip_instance_cache=True)
    with pytest.raises(ConnectionError):
        fs.ls("/")


def test_a_small_file_has_its_name_when_all_of_it_is_there(
    site: Site, fs: HowdahFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there stays, where the disk is full in the midst of it."""
    (site.root / "new").write_bytes(bytes(1 << 20))
    there = site.files / "there"
    there.write_text("before")
    there.chmod(0o640)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limit[1]))
    try:
        with pytest.raises(OSError):
            fs.get_file("/new", str(there))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert there.read_text() == "before"
    assert [path.name for path in site.files.iterdir()] == ["there"]
    fs.get_file("/new", str(there))
    assert there.read_bytes() == bytes(1 << 20) and there.stat().st_mode & 0o777 == 0o640
    # Nobody looks into what is to replace it, either.
    there.chmod(0o600)
    modes: list[int] = []
    real = os.open

    def opens(name: str, flags: int, mode: int = 0o777, **more: object) -> int:
        if flags & os.O_CREAT:
            modes.append(mode)
        return real(name, flags, mode, **more)

    monkeypatch.setattr(os, "open", opens)
    fs.get_file("/new", str(there))
    monkeypatch.undo()
    assert modes and not any(mode & 0o077 for mode in modes)
    (site.files / "link").symlink_to("there")
    fs.pipe_file("/new", b"two")
    fs.get_file("/new", str(site.files / "link"))
    assert (site.files / "link").is_symlink() and there.read_text() == "two"
    (site.files / "dir").mkdir()
    with pytest.raises(IsADirectoryError):
        fs.get_file("/new", str(site.files / "dir"))


@pytest.mark.parametrize("name", ["a b", "new\nline", "%20", "a#b?c", "[x]*", "-r", "~", "two\udcff", "host:x", "\\u"])
def test_a_name_is_the_name_whatever_is_in_it(site: Site, fs: HowdahFileSystem, name: str) -> None:
    """Also of what is copied by a session of its own."""
    content = os.urandom((8 << 20) + 1)
    (site.files / "big").write_bytes(content)
    fs.put_file(str(site.files / "big"), f"/{name}")
    assert (site.root / name).read_bytes() == content
    assert fs.info(f"/{name}")["size"] == len(content)
    fs.get_file(f"/{name}", str(site.files / name))
    assert (site.files / name).read_bytes() == content
    assert fs.cat_file(f"/{name}", -3) == content[-3:]
    fs.pipe_file(f"/{name}", b"")
    assert fs.cat_file(f"/{name}") == b""
    fs.mv(f"/{name}", f"/{name}2")
    fs.rm_file(f"/{name}2")
    assert list(site.root.iterdir()) == []


def test_what_cannot_be_is_said_and_changes_nothing(site: Site, fs: HowdahFileSystem) -> None:
    (site.root / "dir").mkdir()
    (site.root / "dir" / "file").write_text("before")
    with pytest.raises(IsADirectoryError, match="dir is a directory"):
        fs.open("/dir")
    with pytest.raises(howdah.Error, match="not empty"):
        fs.rmdir("/dir")
    with pytest.raises(FileNotFoundError):
        fs.rmdir("/none")
    fs.mkdir("/empty")
    fs.rmdir("/empty")
    assert not (site.root / "empty").exists()
    with pytest.raises(ValueError, match="2 paths have as many starts"):
        fs.cat_ranges(["/dir/file"] * 2, [0], [1, 2])
    # One whose writer fails is not whole.
    with pytest.raises(KeyError), fs.open("/dir/file", "wb") as file:
        file.write(b"aft")
        raise KeyError
    assert (site.root / "dir" / "file").read_text() == "before"
    with pytest.raises(OSError) as caught:
        fs.get_file("/dir/file", "/proc/nothing")
    assert caught.value.filename == "/proc/nothing"
    for call in (lambda: fsspec.open("howdah:///x").open(), lambda: fsspec.filesystem("howdah+ssh")):
        with pytest.raises(howdah.UsageError, match="a host is missing"):
            call()


def test_a_name_that_means_nowhere_to_copies_is_a_file(site: Site, fs: HowdahFileSystem, tmp_path: Path) -> None:
    for name in ("/null:", "/zero:5", "/d/null:"):
        fs.pipe_file(name, b"kept")
        assert fs.cat_file(name) == b"kept" == (site.root / name[1:]).read_bytes()
    # Larger than what comes through the session.
    content = os.urandom(9 << 20)
    (site.root / "zero:9MiB").write_bytes(content)
    fs.get_file("/zero:9MiB", str(tmp_path / "got"))
    assert (tmp_path / "got").read_bytes() == content
