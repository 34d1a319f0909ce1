"""A client of a real ``howdah daemon``."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import subprocess
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import howdah
import pytest
from conftest import Site, make_big
from howdah.daemon import Daemon, Job


@dataclass
class Served:
    """A daemon that moves for the client of a site."""

    directory: Path
    site: Site
    tcp: str

    @property
    def daemon(self) -> Daemon:
        return Daemon(state=self.directory)

    def copy(self, name: str, *options: str) -> list[str]:
        return [*options, str(self.site.files / name), self.site.url(name)]


@pytest.fixture
def served(site: Site, tmp_path: Path, command: Path) -> Iterator[Served]:
    with running(site, tmp_path / "state", command) as served:
        yield served


@contextmanager
def running(site: Site, directory: Path, command: Path, *options: str) -> Generator[Served, None, None]:
    # The copies of its jobs know the server.
    (site.files / "first").write_text("1")
    howdah.Client(config_dir=site.config_dir, trust="accept-new").copy(site.files / "first", site.url("first"))
    process = subprocess.Popen(
        [command, "daemon", "--state", directory, "--listen", "127.0.0.1:0", *options],
        env={**os.environ, "HOWDAH_CONFIG_DIR": str(site.config_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            found = re.search(r"https?://[0-9.:]+", line)
            if found:
                break
        else:
            raise AssertionError(f"howdah daemon ended: {said}")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield Served(directory, site, found.group())
    finally:
        process.terminate()
        process.wait()


def test_a_job_is_submitted_waited_for_and_summed_up(served: Served) -> None:
    make_big(served.site.files / "big", 3)
    daemon = served.daemon
    about = daemon.about()
    assert (about["role"], about["version"].split()[0]) == ("admin", howdah.__version__)
    job = daemon.submit("cp", *served.copy("big"), labels=["night"], submission="one")
    assert job.kind == "cp" and job.labels == ("night",) and job.directory == os.getcwd()
    assert daemon.submit("cp", *served.copy("big"), labels=["night"], submission="one").id == job.id
    done = daemon.wait(job)
    assert done.raise_if_failed() is done and done.state == "done" and done.is_over and done.exit_code == 0
    assert done.summary is not None and done.summary.bytes == 3 << 20
    assert [attempt.exit_code for attempt in done.attempts] == [0]
    assert done.ended is not None and abs(done.ended - time.time()) < 60 and done.submitted <= done.ended
    assert (served.site.root / "big").read_bytes() == (served.site.files / "big").read_bytes()
    events = list(daemon.events(job.id))
    assert [events[0]["event"], events[-1]["event"]] == ["start", "summary"]
    assert [event["event"] for event in daemon.output(job.id, "summary")] == ["summary"]
    assert [one.id for one in daemon.jobs(label="night", state=["done", "failed"])] == [job.id]
    assert list(daemon.jobs(state="waiting")) == []


def test_a_job_that_fails_raises_what_its_command_would(served: Served) -> None:
    daemon = served.daemon
    job = daemon.wait(daemon.submit("cp", *served.copy("none"), retries=0), timeout=60)
    assert (job.state, job.exit_code) == ("failed", 3)
    with pytest.raises(howdah.NotFoundError, match=f"job {job.id}"):
        job.raise_if_failed()


def test_what_waits_is_held_released_and_cancelled(served: Served) -> None:
    make_big(served.site.files / "big", 3)
    daemon = served.daemon
    job = daemon.submit("cp", *served.copy("big"), hold=True)
    assert job.state == "held"
    with pytest.raises(TimeoutError, match="goes on"):
        daemon.wait(job, timeout=0.1)
    assert daemon.limit(job, "80mbit").raw["limit"] == "80mbit"
    assert daemon.set_limit("1gbit")["limit"] == daemon.limits()["limit"] == "1gbit"
    daemon.release(job)
    assert daemon.wait(job).state == "done"
    with pytest.raises(howdah.Error, match="over|done"):
        daemon.cancel(job)
    other = daemon.cancel(daemon.submit("cp", *served.copy("big"), hold=True))
    with pytest.raises(howdah.StoppedError):
        daemon.wait(other).raise_if_failed()
    assert [host["name"] for host in daemon.hosts()] == ["127.0.0.1"]
    assert daemon.schedules() == daemon.watches() == []
    spec = {"cron": "@daily", "job": {"kind": "cp", "arguments": served.copy("big"), "directory": "/"}}
    number = daemon.ask("POST", "/v1/schedules", spec)["id"]
    assert [one["id"] for one in daemon.schedules()] == [number]
    assert daemon.ask("DELETE", f"/v1/schedules/{number}") is None


def test_over_tcp_it_wants_a_token(served: Served, tmp_path: Path) -> None:
    tokens = (served.directory / "tokens").read_text()
    # The first line that is none of a comment, as the command reads it.
    for role, token in re.findall(r"^(read|submit|admin) (\S+)", tokens, re.MULTILINE):
        daemon = Daemon(served.tcp, token=token)
        assert daemon.about()["role"] == role
        if role == "read":
            with pytest.raises(howdah.Error):
                daemon.submit("cp", *served.copy("first"))
    file = tmp_path / "token"
    file.write_text(f"# mine\n{token}\n")  # type: ignore[possibly-undefined] # pyright: ignore[reportPossiblyUnbound]
    assert Daemon(served.tcp, token_file=file).about()["home"]
    with pytest.raises(howdah.Error) as refused:
        Daemon(served.tcp, token="x" * 40).about()
    assert refused.value.kind == "auth"


def test_with_tls_it_is_known_before_it_hears_the_token(site: Site, tmp_path: Path, command: Path) -> None:
    with running(site, tmp_path / "state", command, "--tls") as served:
        assert served.tcp.startswith("https://")
        role, token = re.findall(r"^(read) (\S+)", (served.directory / "tokens").read_text(), re.MULTILINE)[0]
        certificate = served.directory / "tls-cert.pem"
        with pytest.raises(howdah.PeerError, match="fingerprint=") as shown:
            Daemon(served.tcp, token=token).about()
        found = re.search("([0-9A-F]{2}:){31}[0-9A-F]{2}", str(shown.value))
        assert found is not None
        fingerprint = found.group()
        der = ssl.PEM_cert_to_DER_cert(certificate.read_text())
        assert fingerprint.replace(":", "").lower() == hashlib.sha256(der).hexdigest()
        assert Daemon(served.tcp, token=token, fingerprint=fingerprint).about()["role"] == role
        assert Daemon(served.tcp, token=token, ca=certificate).about()["role"] == role
        with pytest.raises(howdah.PeerError, match="fingerprint"):
            Daemon(served.tcp, token=token, fingerprint="00" * 32).about()
        (tmp_path / "none.pem").write_text("")
        with pytest.raises(howdah.UsageError, match="no certificates"):
            Daemon(served.tcp, token=token, ca=tmp_path / "none.pem")
        with pytest.raises(howdah.Error):
            Daemon(served.tcp.replace("https", "http"), token=token).about()


def test_what_makes_no_sense_is_said(served: Served, tmp_path: Path) -> None:
    daemon = served.daemon
    usage = [
        (lambda: daemon.submit("cp", "-r"), "argument"),
        (lambda: daemon.submit("rm", "x"), "rm"),  # type: ignore[arg-type] # pyright: ignore
        (lambda: daemon.submit("cp", b"x", "y"), "str"),  # type: ignore[arg-type] # pyright: ignore
        (lambda: daemon.submit("cp", os.fsdecode(b"\xff"), "host:x"), "UTF-8"),
        (lambda: daemon.submit("cp", *served.copy("first"), labels="night"), "list"),
        (lambda: daemon.submit("cp", *served.copy("first"), deadline=float("nan")), "deadline"),
        (lambda: daemon.limit(1, "fast"), "fast"),
        (lambda: daemon.job("1"), "number"),  # type: ignore[arg-type] # pyright: ignore
        (lambda: daemon.ask("GET", "/metrics"), "/v1/"),
        (lambda: daemon.ask("GET", "/v1/jobs\r\nX: y"), "/v1/"),
        (lambda: daemon.ask("GET", 7), "path"),  # type: ignore[arg-type] # pyright: ignore
        (lambda: daemon.wait(1, timeout="5"), "timeout"),  # type: ignore[arg-type] # pyright: ignore
        (lambda: daemon.wait(1, timeout=float("nan")), "timeout"),
        (lambda: Daemon(7), "url is a str"),  # type: ignore[arg-type] # pyright: ignore
        (lambda: Daemon("https://h", token=b"x"), "token is a str"),  # type: ignore[arg-type] # pyright: ignore
        (lambda: Daemon("https://h", token="x", fingerprint=b"y"), "fingerprint is a str"),  # type: ignore[arg-type] # pyright: ignore
        (lambda: Daemon("https://h", state=tmp_path), "not both"),
        (lambda: Daemon(token="x"), "elsewhere"),
        (lambda: Daemon("https://h"), "wants a token"),
        (lambda: Daemon("http://example.org", token="x"), "read on the way"),
        (lambda: Daemon("ftp://h", token="x"), "no address"),
        (lambda: Daemon("https://h:99999", token="x"), "no address"),
        (lambda: Daemon("https://h", token="a\r\nb: c"), "no token"),
        (lambda: Daemon("https://h", token="x", fingerprint="12"), "64 hexadecimal"),
        (lambda: Daemon("https://h", token="x", ca=tmp_path / "none"), "none"),
        (lambda: Daemon("https://h", token_file=tmp_path / "none"), "none"),
    ]
    for call, text in usage:
        with pytest.raises(howdah.UsageError) as caught:
            call()
        assert text in str(caught.value), str(caught.value)
    with pytest.raises(howdah.NotFoundError, match="4711"):
        daemon.job(4711)
    with pytest.raises(howdah.NetworkError, match="howdah daemon' starts one"):
        Daemon(state=tmp_path).about()
    with pytest.raises(howdah.NetworkError, match="no daemon answers at http://127.0.0.1:1"):
        Daemon("http://127.0.0.1:1", token="x").about()


def test_where_the_daemon_is_is_what_the_command_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOWDAH_DAEMON", "HOWDAH_CONFIG_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/anna")
    assert repr(Daemon()) == "Daemon('/home/anna/.local/state/howdah/daemon/socket')"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert "/state/howdah/daemon/socket" in repr(Daemon())
    monkeypatch.setenv("HOWDAH_CONFIG_DIR", "/config")
    assert "/config/daemon/socket" in repr(Daemon())
    (tmp_path / "token").write_text("submit abc anna\n")
    monkeypatch.setenv("HOWDAH_DAEMON", "https://server")
    monkeypatch.setenv("HOWDAH_DAEMON_TOKEN_FILE", str(tmp_path / "token"))
    assert repr(Daemon()) == "Daemon('https://server')"


def test_a_job_is_a_value() -> None:
    values = {
        "id": 3,
        "spec": {"kind": "lab_run", "arguments": ["x.toml"], "directory": "/"},
        "hosts": [],
        "state": "failed",
        "cancelling": False,
        "submitted_ms": 1500,
        "reason": "the network",
        "attempts": [{"number": 1, "started_ms": 1000, "ended_ms": 2000, "ended": "vanished"}],
        "some_day": "more",
    }
    job = Job.from_json(values)
    assert (job.kind, job.submitted, job.attempts[0].exit_code, job.summary) == ("lab run", 1.5, None, None)
    with pytest.raises(howdah.Error, match="the network"):
        job.raise_if_failed()
