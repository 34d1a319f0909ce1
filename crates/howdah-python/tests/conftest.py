"""A real ``howdah serve`` on loopback, and a client of its own."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import howdah
import pytest

# Beside the module, as the wheel installs it.
COMMAND = Path(sysconfig.get_path("scripts")) / "howdah"


@dataclass
class Site:
    """A server of ``root``, and what a client needs to reach it."""

    root: Path
    files: Path
    config_dir: Path
    address: str
    public_key: str

    def client(self) -> howdah.Client:
        return howdah.Client(config_dir=self.config_dir, trust=self.public_key)

    def url(self, path: str) -> str:
        return f"howdah://{self.address}/{path}"


@pytest.fixture(scope="session")
def command() -> Path:
    assert COMMAND.is_file(), f"{COMMAND}: the wheel brings no command"
    return COMMAND


@pytest.fixture
def site(tmp_path: Path, command: Path) -> Iterator[Site]:
    with serving(tmp_path, command) as site:
        yield site


@contextmanager
def serving(tmp_path: Path, command: Path) -> Generator[Site, None, None]:
    """A server that has ``tmp_path`` for itself."""
    for name in ("root", "files"):
        (tmp_path / name).mkdir()
    keys: dict[str, howdah.Identity] = {}
    for who in ("server", "client"):
        keys[who] = howdah.Identity.load_or_create(_private(tmp_path / who) / "id_ed25519.pem")
    listed = tmp_path / "server" / "authorized_keys"
    listed.write_text(keys["client"].public_key + "\n")
    listed.chmod(0o600)
    environment = {**os.environ, "HOWDAH_CONFIG_DIR": str(tmp_path / "server")}
    arguments = [str(command), "serve", "--root", "root", "--listen", "127.0.0.1:0"]
    # A server that root starts wants to hear that this is meant.
    arguments += ["--user", "root"] if os.geteuid() == 0 else []
    process = subprocess.Popen(
        arguments,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = (line for line in process.stdout if "serving " in line)
        line = next(lines, None)
        assert line is not None, f"howdah serve ended with {process.wait()}"
        # A log that nobody reads holds up the server when the pipe is full.
        threading.Thread(target=lambda: [None for _ in lines], daemon=True).start()
        yield Site(
            root=tmp_path / "root",
            files=tmp_path / "files",
            config_dir=tmp_path / "client",
            address=line.rsplit(" on ", 1)[1].strip(),
            public_key=keys["server"].public_key,
        )
    finally:
        process.terminate()
        process.wait()


def _private(directory: Path) -> Path:
    directory.mkdir(mode=0o700)
    return directory


def make_big(path: Path, size_mib: int = 64) -> Path:
    """Random bytes: at 80 Mbit/s 64 MiB take seven seconds, so that something can happen meanwhile."""
    with open(path, "wb") as file:
        for _ in range(size_mib):
            file.write(os.urandom(1 << 20))
    return path


def can_go_on(root: Path) -> bool:
    """Whether the journal of an unfinished file says more than which one it is: then the next copy has something to go on with."""
    return any(journal.stat().st_size > 200 for journal in root.glob(".*.howdah-journal"))
