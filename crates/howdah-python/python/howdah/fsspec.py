# fsspec has no types of its own.
# pyright: basic, reportArgumentType=false, reportReturnType=false, reportAttributeAccessIssue=false
"""Files of another machine for fsspec, and so for pandas, xarray, zarr, dask and whatever else reads through it.

``howdah://HOST:PORT/path`` is what ``howdah serve`` serves there, ``howdah+ssh://[USER@]HOST/path`` any machine that ssh reaches. All that is
asked about files (`ls`, `info`, ranges) goes through one connection that stays open, any number of questions at a time; whole files
are copied as the ``howdah`` command copies them. docs/python.md says more.
"""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import tempfile
import threading
import weakref
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fsspec.asyn import AsyncFileSystem, sync
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractBufferedFile

from ._client import Client
from ._errors import NotFoundError, RefusedError, UsageError

__all__ = ["HowdahFile", "HowdahFileSystem", "HowdahSshFileSystem"]

_TO_THE_END = 1 << 62
# Ranges of one file that are asked for together: the server's threads share those of one file.
_TOGETHER = 16
# Smaller files come through the session that is open; larger ones are copied, verified and resumable.
_SMALL = 8 << 20


def _as_name(path: str) -> str:
    """What copies take for made-up bytes, or for nowhere, is a file here."""
    above, _, name = path.rpartition("/")
    return f"{above}/./{name}" if name == "null:" or name.startswith("zero:") else path


def _write_whole(path: str, content: bytes) -> None:
    """The file has its name when all of it is there; what was there before stays until then, with its permissions."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        # A pipe or a device is written to.
        Path(path).write_bytes(content)
        return
    name = os.path.join(os.path.dirname(path), f".howdah-{secrets.token_hex(8)}")
    # Nobody sees of it what he may not see of the one that it replaces.
    mode = 0o600 if os.path.exists(path) else 0o666
    try:
        made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    try:
        with os.fdopen(made, "wb") as file:
            file.write(content)
            file.flush()
            if os.path.exists(path):
                os.fchmod(file.fileno(), os.stat(path).st_mode & 0o7777)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


class _Sessions:
    """The open session of a file system, which a process that was forked does not share."""

    def __init__(self, client: Client, place: str) -> None:
        self._client, self._place = client, place
        self._lock = threading.Lock()
        self._session: Any = None
        self._pid = 0

    def get(self) -> Any:
        with self._lock:
            if self._session is None or self._pid != os.getpid():
                self._session = self._client._client.open(self._place)
                self._pid = os.getpid()
            return self._session

    @property
    def ready(self) -> Any:
        return self._session if self._pid == os.getpid() else None

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
            if session is not None and self._pid == os.getpid():
                session.close()


class HowdahFileSystem(AsyncFileSystem):
    """What ``howdah serve`` serves at a host.

    Reading needs the key's right to read (and to list, for directories), writing that to write. Failures are those of the package
    ``howdah``, most of which are built-in ones, too: `howdah.NotFoundError` is a `FileNotFoundError`, `howdah.RefusedError` a
    `PermissionError`, `howdah.NetworkError` a `ConnectionError`; `howdah.SourceChangedError` says that a file has changed since it was
    opened. What only reads is asked once more if the connection is lost.
    """

    protocol = "howdah"
    root_marker = "/"
    cachable = True

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        username: str | None = None,
        *,
        asynchronous: bool = False,
        loop: Any = None,
        batch_size: int | None = None,
        skip_instance_cache: bool = False,
        use_listings_cache: bool = False,
        **settings: Any,
    ) -> None:
        """
        Args:
            host: the server's name or address.
            port: its port, 4433 unless another one is named. With ``howdah+ssh`` that of its sshd.
            username: with ``howdah+ssh``, who to be there.
            settings: those of `howdah.Client`, such as ``config_dir``, ``trust`` and ``limit_bps``.
        """
        if not host:
            kind = self._protocols()[0]
            raise UsageError(f"a host is missing: {kind}://HOST/path, or host=")
        super().__init__(
            asynchronous=asynchronous,
            loop=loop,
            batch_size=batch_size,
            skip_instance_cache=skip_instance_cache,
            use_listings_cache=use_listings_cache,
        )
        self.host, self.port, self.username = host, port, username
        self._howdah = Client(**settings)
        self._sessions = _Sessions(self._howdah, self._place("/"))
        weakref.finalize(self, self._sessions.close)

    # Names.

    @property
    def _netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    def _place(self, path: str) -> str:
        """A path as `howdah.copy` takes it."""
        return f"howdah://{self._netloc}{_as_name(path)}"

    def _bytes(self, path: str) -> bytes:
        """A path as the session takes it."""
        return os.fsencode(self._strip_protocol(path).lstrip("/"))

    @classmethod
    def _protocols(cls) -> tuple[str, ...]:
        return (cls.protocol,) if isinstance(cls.protocol, str) else tuple(cls.protocol)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        for protocol in cls._protocols():
            if path.startswith(f"{protocol}://"):
                path = path[len(protocol) + 3 :].partition("/")[2]
                break
        return "/" + path.strip("/")

    @classmethod
    def _get_kwargs_from_urls(cls, path: str) -> dict[str, Any]:
        if not path.startswith(tuple(f"{protocol}://" for protocol in cls._protocols())):
            return {}
        parts = urlsplit(f"//{path.split('://', 1)[1].partition('/')[0]}")
        if parts.password is not None:
            raise UsageError("a URL takes no password: howdah knows people by their keys")
        found = {"host": parts.hostname, "port": parts.port, "username": parts.username}
        return {name: value for name, value in found.items() if value is not None}

    def unstrip_protocol(self, name: str) -> str:
        return f"{self._protocols()[0]}://{self._netloc}{self._strip_protocol(name)}"

    @property
    def fsid(self) -> str:
        return f"{self._protocols()[0]}_{self._netloc}"

    # Questions.

    async def _ask(self, requests: list[tuple[Any, ...]]) -> list[Any]:
        """Asks all of it at once; of each question its answer or an exception."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()

        def settle(answers: list[Any]) -> None:
            if not future.done():
                future.set_result(answers)

        def done(answers: list[Any]) -> None:
            try:
                loop.call_soon_threadsafe(settle, answers)
            except RuntimeError:
                pass  # The loop is closed: nobody waits any more.

        while True:
            session = self._sessions.ready or await loop.run_in_executor(None, self._sessions.get)
            # Another thread may have closed it meanwhile: what is asked later opens another one.
            if session.ask(requests, done):
                return await future

    async def _answer(self, *request: Any) -> Any:
        (answer,) = await self._ask([request])
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return {"name": path, **await self._answer("stat", self._bytes(path))}

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        name = self._bytes(path)
        stat, names = await self._ask([("stat", name), ("list", name)])
        if isinstance(stat, BaseException):
            raise stat
        if stat["type"] != "directory":
            found = [{"name": path, **stat}]
        elif isinstance(names, BaseException):
            raise names
        else:
            above = "" if path == "/" else path
            found = [{"name": f"{above}/{os.fsdecode(name)}", **info} for name, info in names]
        found.sort(key=lambda one: one["name"])
        return found if detail else [one["name"] for one in found]

    async def _lengths(self, paths: Iterable[str]) -> dict[str, int]:
        paths = list(dict.fromkeys(paths))
        answers = await self._ask([("stat", self._bytes(path)) for path in paths])
        # What has none is told by what reads it.
        return {
            path: 0 if isinstance(answer, BaseException) else answer["size"]
            for path, answer in zip(paths, answers, strict=True)
        }

    async def _read(
        self, wanted: list[tuple[str, int | None, int | None]], version: Any = None
    ) -> list[Any]:
        """Bytes from start to end of each, or an exception; numbers below zero count from the end of the file."""
        from_end = {path for path, *bounds in wanted if any(at is not None and at < 0 for at in bounds)}
        sizes = await self._lengths(from_end) if from_end else {}

        def at(path: str, bound: int | None, absent: int) -> int:
            if bound is None:
                return absent
            return bound if bound >= 0 else max(0, sizes[path] + bound)

        requests: list[tuple[str, bytes, Any, list[tuple[int, int]]]] = []
        for path, start, end in wanted:
            name, first = self._bytes(path), at(path, start, 0)
            length = max(0, at(path, end, _TO_THE_END) - first)
            last = requests[-1] if requests else None
            if last and last[1] == name and len(last[3]) < _TOGETHER:
                last[3].append((first, length))
            else:
                requests.append(("read", name, version, [(first, length)]))
        found: list[Any] = []
        for request, answer in zip(requests, await self._ask(requests), strict=True):
            failed = isinstance(answer, BaseException)
            found.extend([answer] * len(request[3]) if failed else answer)
        return found

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, version: Any = None, **_: Any
    ) -> bytes:
        (found,) = await self._read([(path, start, end)], version)
        if isinstance(found, BaseException):
            raise found
        return found

    async def _cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        if max_gap is not None:
            raise NotImplementedError("ranges are not joined: they share a connection anyway; leave max_gap out")
        if not isinstance(paths, list):
            raise TypeError("paths is a list")
        starts = list(starts) if isinstance(starts, Iterable) else [starts] * len(paths)
        ends = list(ends) if isinstance(ends, Iterable) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError(f"{len(paths)} paths have as many starts and ends, and not {len(starts)} and {len(ends)}")
        found = await self._read(list(zip(paths, starts, ends, strict=True)))
        if on_error != "return":
            for one in found:
                if isinstance(one, BaseException):
                    raise one
        return found

    async def _cat(
        self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any
    ) -> Any:
        paths = await self._expand_path(path, recursive=recursive)
        bounds = kwargs.get("start"), kwargs.get("end")
        found = await self._read([(one, *bounds) for one in paths])
        if on_error == "raise":
            for one in found:
                if isinstance(one, BaseException):
                    raise one
        if len(paths) == 1 and not isinstance(path, list) and paths[0] == self._strip_protocol(path):
            return found[0]
        pairs = zip(paths, found, strict=True)
        return {
            name: one for name, one in pairs if on_error != "omit" or not isinstance(one, BaseException)
        }

    # Changes.

    async def _in_thread(self, work: Any, *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, work, *given)

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        with tempfile.NamedTemporaryFile(prefix="howdah-") as file:
            file.write(value)
            file.flush()
            await self._put_file(file.name, path, mode=mode)

    async def _put_file(
        self, lpath: str, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **_: Any
    ) -> None:
        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            return await self._makedirs(rpath, exist_ok=True)
        try:
            there = await self._info(rpath)
        except (NotFoundError, RefusedError):
            # Nothing is there, or this key may not know.
            there = None
        if there and there["type"] == "directory":
            raise IsADirectoryError(f"{rpath} is a directory")
        if there and mode == "create":
            raise FileExistsError(f"{rpath} is there already")
        size = os.path.getsize(lpath)
        callback.set_size(size)
        place = self._place(rpath)
        try:
            await self._in_thread(self._howdah.copy, Path(lpath), place)
        except RefusedError as error:
            if there:
                raise
            try:
                await self._makedirs(self._parent(rpath), exist_ok=True)
            except RefusedError:
                raise error from None
            await self._in_thread(self._howdah.copy, Path(lpath), place)
        callback.relative_update(size)

    async def _get_file(
        self, rpath: str, lpath: str, callback: Any = DEFAULT_CALLBACK, **_: Any
    ) -> None:
        info = await self._info(rpath)
        if info["type"] == "directory":
            return os.makedirs(lpath, exist_ok=True)
        callback.set_size(info["size"])
        parent = os.path.dirname(lpath)
        if parent:
            os.makedirs(parent, exist_ok=True)
        if os.path.isdir(lpath):
            raise IsADirectoryError(f"{lpath} is a directory")
        if info["size"] <= _SMALL:
            content = await self._cat_file(rpath, version=info["version"])
            await self._in_thread(_write_whole, lpath, content)
        else:
            await self._in_thread(self._howdah.copy, self._place(info["name"]), Path(lpath))
        callback.relative_update(info["size"])

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Through this machine: a server copies nothing by itself."""
        if await self._isdir(path1):
            return await self._makedirs(path2, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="howdah-") as directory:
            file = os.path.join(directory, "file")
            await self._get_file(path1, file)
            await self._put_file(file, path2)

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        await self._make_dir(path, create_parents, exist_ok=False)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        await self._make_dir(path, True, exist_ok)

    async def _make_dir(self, path: str, parents: bool, exist_ok: bool) -> None:
        path = self._strip_protocol(path)
        if path == "/" and exist_ok:
            return
        if not exist_ok and await self._exists(path):
            raise FileExistsError(f"{path} is there already")
        await self._answer("mkdir", self._bytes(path), parents)

    async def _rm_file(self, path: str, **_: Any) -> None:
        await self._answer("remove", self._bytes(path), False)

    async def _rmdir(self, path: str) -> None:
        await self._answer("remove", self._bytes(path), True)

    def rmdir(self, path: str) -> None:
        """Removes a directory that has nothing in it."""
        # Of those that fsspec makes by itself it is none.
        sync(self.loop, self._rmdir, path)

    async def _remove(self, paths: list[str], is_dir: bool) -> None:
        for answer in await self._ask([("remove", self._bytes(path), is_dir) for path in paths]):
            # What somebody else has removed is gone as well.
            if isinstance(answer, BaseException) and not isinstance(answer, NotFoundError):
                raise answer

    async def _rm(self, path: Any, recursive: bool = False, batch_size: int | None = None, **_: Any) -> None:
        """All names of a level at once, the deepest first. Links are removed and not followed."""
        paths = await self._expand_path(path)
        infos = [await self._info(one) for one in paths]
        level = [one["name"] for one in infos if one["type"] == "directory" and not one["islink"]]
        if level and not recursive:
            raise IsADirectoryError(f"{level[0]} is a directory: say recursive=True")
        others = [one["name"] for one in infos if one["name"] not in level]
        levels: list[list[str]] = []
        while level:
            levels.append(level)
            names = await self._ask([("list", self._bytes(one)) for one in level])
            below: list[str] = []
            for above, found in zip(level, names, strict=True):
                if isinstance(found, BaseException):
                    raise found
                for name, info in found:
                    is_dir = info["type"] == "directory" and not info["islink"]
                    (below if is_dir else others).append(f"{above}/{os.fsdecode(name)}")
            level = below
        await self._remove(others, False)
        for level in reversed(levels):
            await self._remove(level, True)

    async def _mv(self, path1: str, path2: str, **_: Any) -> None:
        target = self._strip_protocol(path2)
        if path2.endswith("/") or await self._isdir(target):
            target = f"{target.rstrip('/')}/{self._strip_protocol(path1).rsplit('/', 1)[1]}"
        await self._answer("rename", self._bytes(path1), self._bytes(target))

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **_: Any) -> None:
        """Gives a file or directory another name, or moves it into a directory; one question, nothing is copied."""
        # A name may have such signs in it.
        if maxdepth is not None or (any(sign in path1 for sign in "*?[") and not self.exists(path1)):
            raise NotImplementedError("mv takes one name, without wildcards and maxdepth: rename the names one by one")
        sync(self.loop, self._mv, path1, path2)

    async def _checksum(self, path: str) -> int:
        return int(await self._answer("hash", self._bytes(path)), 16)

    def checksum(self, path: str) -> int:
        """BLAKE3 of the content, which the server reads for it."""
        return sync(self.loop, self._checksum, path)

    def ukey(self, path: str) -> str:
        """Another text when somebody has written to the file or replaced it."""
        return "-".join(map(str, self.info(path)["version"]))

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], timezone.utc)

    def created(self, path: str) -> datetime:
        raise NotImplementedError("howdah does not tell when a file was made")

    # Files.

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Any = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **kwargs: Any,
    ) -> HowdahFile:
        if mode not in ("rb", "wb", "xb"):
            raise NotImplementedError(f"a file is opened for reading (rb), or written whole (wb, xb), not {mode}")
        if mode == "xb" and self.exists(path):
            raise FileExistsError(f"{path} is there already")
        block_size = self.blocksize if block_size in (None, "default") else block_size
        return HowdahFile(
            self, path, mode, block_size, autocommit=autocommit, cache_options=cache_options, **kwargs
        )

    def close(self) -> None:
        """Ends the session. What is asked later opens another one."""
        self._sessions.close()


class HowdahSshFileSystem(HowdahFileSystem):
    """Files of a machine that ssh reaches and that has ``howdah``: absolute paths, ``/~/`` is the home directory."""

    protocol = "howdah+ssh"

    @property
    def _netloc(self) -> str:
        user = "" if self.username is None else f"{self.username}@"
        return user + super()._netloc

    def _place(self, path: str) -> str:
        return f"ssh://{self._netloc}{_as_name(path)}"

    def _bytes(self, path: str) -> bytes:
        path = self._strip_protocol(path)
        return os.fsencode(path[1:] if path == "/~" or path.startswith("/~/") else path)


class HowdahFile(AbstractBufferedFile):
    """One version of a file, read by ranges; or a file that is written here and copied when it is closed."""

    def __init__(self, fs: HowdahFileSystem, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> None:
        super().__init__(fs, path, mode, *args, **kwargs)
        if mode == "rb" and self.details["type"] == "directory":
            raise IsADirectoryError(f"{path} is a directory")
        self._version = self.details["version"] if mode == "rb" else None
        self._spool: Any = None

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs.cat_file(self.path, start, end, version=self._version)

    def _initiate_upload(self) -> None:
        self._spool = tempfile.NamedTemporaryFile(prefix="howdah-")

    def _upload_chunk(self, final: bool = False) -> bool:
        self.buffer.seek(0)
        self._spool.write(self.buffer.read())
        if final and self.autocommit:
            self.commit()
        return True

    def __exit__(self, kind: Any, *_: Any) -> None:
        """What a failure ended is not whole: what was there before keeps its name."""
        if kind is not None and self.writable():
            self.discard()
            self.closed = True
        self.close()

    def commit(self) -> None:
        """Has the file get its name there."""
        if self._spool is None:
            return
        self._spool.flush()
        mode = "create" if "x" in self.mode else "overwrite"
        try:
            self.fs.put_file(self._spool.name, self.path, mode=mode)
        finally:
            self.discard()

    def discard(self) -> None:
        """Throws away what was written."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        self.buffer = io.BytesIO()
