"""HTTP to a daemon: over its socket, or over TCP with a token. A connection for each question, as the command does it."""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import os
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ._errors import Error, NetworkError, PeerError, UsageError, of_name

_PORT = 8470
# Of a file with a token; no more of a longer one is read.
_TOKEN_MOST = 64 << 10
# One that is asked whether a job is over says nothing for so long at most; anything else is answered sooner.
_PATIENCE_S = 60.0


def variable(name: str) -> str | None:
    """What the environment says; empty is nothing."""
    return os.environ.get(name) or None


def state_directory() -> Path:
    """Where this user's daemon has its socket (docs/daemon.md)."""
    for name, below in (("HOWDAH_CONFIG_DIR", ""), ("XDG_STATE_HOME", "howdah"), ("HOME", ".local/state/howdah")):
        found = variable(name)
        if found:
            return Path(found, below, "daemon")
    raise UsageError(
        "there is no place for a daemon: none of HOWDAH_CONFIG_DIR, XDG_STATE_HOME and HOME is set; name one with state="
    )


def token_of(path: str | os.PathLike[str]) -> str:
    """The first line that is no comment: a token alone, or a line of the daemon's file, ``ROLE TOKEN NAME``."""
    try:
        with open(path, "rb") as file:
            text = file.read(_TOKEN_MOST).decode()
    except (OSError, ValueError) as error:
        raise UsageError(f"the token's file {os.fspath(path)!r} cannot be read: {error}") from error
    lines = [line.strip() for line in text.splitlines()]
    words = next((line for line in lines if line and not line.startswith("#")), "").split()
    if not words:
        raise UsageError(f"there is no token in the file {os.fspath(path)!r}")
    return words[1] if len(words) > 1 else words[0]


class Socket:
    """The daemon of a directory of this machine."""

    def __init__(self, directory: Path) -> None:
        self.path = directory.absolute() / "socket"
        self.headers = {"Host": "localhost"}

    def __str__(self) -> str:
        return str(self.path)

    advice = "; 'howdah daemon' starts one"

    def connect(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.settimeout(_PATIENCE_S)
            made.connect(os.fspath(self.path))
        except BaseException:
            made.close()
            raise
        return made


class Remote:
    """One at an address, for whoever has a token. In the clear on this machine only."""

    advice = ""

    def __init__(self, url: str, token: str, fingerprint: str | None, ca: str | os.PathLike[str] | None) -> None:
        self.url = url
        wrong = UsageError(f"{url!r} is no address of a daemon: https://HOST:{_PORT}")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise wrong from None
        if not parts.hostname or parts.path not in ("", "/") or parts.query or "@" in parts.netloc:
            raise wrong
        if parts.scheme not in ("http", "https"):
            raise wrong
        self.host, self.port = parts.hostname, port or _PORT
        if parts.scheme == "http" and not _is_here(self.host):
            raise UsageError(f"{url}: the token would be read on the way; https://, or ssh -L")
        if not re.fullmatch(r"[!-~]+", token):
            raise UsageError("that is no token")
        bracketed = f"[{self.host}]" if ":" in self.host else self.host
        self.headers = {"Host": f"{bracketed}:{self.port}", "Authorization": f"Bearer {token}"}
        self._wanted = None if fingerprint is None else _fingerprint(fingerprint)
        self._tls = _context(ca, pinned=self._wanted is not None) if parts.scheme == "https" else None
        self._is_pinned = self._wanted is not None or ca is None

    def __str__(self) -> str:
        return self.url

    def connect(self) -> socket.socket:
        made = socket.create_connection((self.host, self.port), timeout=_PATIENCE_S)
        try:
            if self._tls is None:
                return made
            try:
                secure = self._tls.wrap_socket(made, server_hostname=self.host)
            except ssl.SSLCertVerificationError as error:
                raise PeerError(f"{self.url} shows a certificate that is not good: {error.verify_message}") from error
            made = secure
            if self._is_pinned:
                self._check(secure)
        except BaseException:
            made.close()
            raise
        return made

    def _check(self, secure: ssl.SSLSocket) -> None:
        """Before anything is told it."""
        shown = hashlib.sha256(secure.getpeercert(binary_form=True) or b"").hexdigest()
        if shown != self._wanted:
            pairs = ":".join(re.findall("..", shown.upper()))
            raise PeerError(
                f"{self.url} shows a certificate with the fingerprint {pairs}: "
                "if that is what the daemon there has printed, give it with fingerprint="
            )


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _fingerprint(text: str) -> str:
    digits = text.strip().removeprefix("SHA256:").replace(":", "").lower()
    if not re.fullmatch("[0-9a-f]{64}", digits):
        raise UsageError(f"a fingerprint is 64 hexadecimal digits, as the daemon prints it, and not {text!r}")
    return digits


def _context(ca: str | os.PathLike[str] | None, *, pinned: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if pinned or ca is None:
        # Whoever is meant is known by the certificate itself.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        try:
            context.load_verify_locations(os.fspath(ca))
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"{os.fspath(ca)!r} has no certificates (PEM): {error}") from error
    return context


class _Connection(http.client.HTTPConnection):
    """On a socket that is there."""

    def __init__(self, made: socket.socket) -> None:
        super().__init__("localhost")
        self.sock = made


class Http:
    """Asks the daemon at a place."""

    def __init__(self, place: Socket | Remote) -> None:
        self.place = place

    def ask(self, method: str, path: str, body: Any = None, patience_s: float = _PATIENCE_S) -> Any:
        """The answer, which is JSON or nothing."""
        connection, response = self._response(method, path, body, patience_s)
        try:
            answer = response.read()
            return json.loads(answer) if answer else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._away(error) from error
        finally:
            connection.close()

    def events(self, path: str) -> Iterator[tuple[str, Any]]:
        """Server-sent events: the name of each, and its data, until the daemon ends it."""
        # A daemon that has nothing to tell says so several times a minute.
        connection, response = self._response("GET", path, None, _PATIENCE_S)
        try:
            name = ""
            while line := response.readline():
                field, _, value = line.decode().rstrip("\r\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    yield name, json.loads(value)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._away(error) from error
        finally:
            connection.close()

    def _response(
        self, method: str, path: str, body: Any, patience_s: float
    ) -> tuple[_Connection, http.client.HTTPResponse]:
        try:
            text = None if body is None else json.dumps(body)
        except (TypeError, ValueError) as error:
            raise UsageError(f"what is asked for is no JSON: {error}") from error
        try:
            made = self.place.connect()
        except OSError as error:
            if isinstance(error, Error):
                raise
            raise NetworkError(f"no daemon answers at {self.place}: {error}{self.place.advice}") from error
        made.settimeout(patience_s)
        connection = _Connection(made)
        headers = {**self.place.headers, "Content-Type": "application/json", "Connection": "close"}
        try:
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            if response.status < 300:
                return connection, response
            problem = response.read(1 << 20)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._away(error) from error
        except BaseException:
            connection.close()
            raise
        connection.close()
        raise _refused(response.status, response.reason, problem)

    def _away(self, error: BaseException) -> NetworkError:
        return NetworkError(f"the daemon at {self.place} went away: {error}")


def _refused(status: int, reason: str, problem: bytes) -> Error:
    try:
        words = json.loads(problem)["error"]
        return of_name(str(words["kind"]), str(words["message"]))
    except (ValueError, KeyError, TypeError):
        return of_name("io", f"the daemon answers {status} {reason}")
