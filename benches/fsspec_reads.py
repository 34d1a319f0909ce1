"""Reads by fsspec over an emulated path: howdah beside fsspec's own sftp (a real sshd) and http (nginx), in turns.

Three tasks: random ranges of one file and all chunks of a Zarr-like directory, each asked for in one call (`cat_ranges`, `cat`), and three of
thirty columns of a Parquet file, by `fsspec.parquet` and pyarrow. What comes is compared with what is there. Each program has one warm connection.
sftp reads ranges one after the other, as fsspec's file system for it does. With --out the table goes between the marks of that page.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from files_report import write_docs
from movers import SSH_PORT, Site
from procs import Failed, Process, World, catch_signals, command, say

CHUNK = 256 << 10
RANGE = 64 << 10
COLUMNS = 30
WANTED = ["c3", "c13", "c23"]
GROUP_ROWS = 1 << 20
PROGRAMS = ("howdah", "http", "sftp")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranges", type=int, default=1000)
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--parquet-mib", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, once")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rtt-ms", type=float, default=100)
    parser.add_argument("--loss-percent", type=float, default=0.1)
    parser.add_argument("--tcp", default="cubic", help="congestion control of http and sftp")
    parser.add_argument("--sftp-part", type=int, default=20, help="sftp does so many times less, and is counted up")
    parser.add_argument("--out", type=Path, help="a page with marks for the table")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.quick:
        given.ranges, given.chunks, given.parquet_mib, given.rounds = 100, 200, 512, 1
    return given


def file_system(given):
    """In the client's namespace: the file system, and where the data is in it."""
    import fsspec

    if given["program"] == "howdah":
        host, port = given["address"].rsplit(":", 1)
        config = {"config_dir": given["config"], "trust": given["key"]}
        return fsspec.filesystem("howdah", host=host, port=int(port), **config), ""
    if given["program"] == "http":
        return fsspec.filesystem("http"), f"http://{given['address']}"
    host, port = given["address"].rsplit(":", 1)
    ssh = {"port": int(port), "username": given["user"], "key_filename": given["identity"]}
    return fsspec.filesystem("sftp", host=host, **ssh), given["root"]


def read(given):
    """One task of one program; prints its seconds."""
    fs, base = file_system(given)
    root = Path(given["root"])
    part = given["part"]
    # The connection is there, and warm.
    assert fs.cat_file(f"{base}/small") == b"small"
    if given["task"] == "ranges":
        rng = random.Random(7)
        size = (root / "big").stat().st_size
        starts = [rng.randrange(size - RANGE) for _ in range(max(1, given["ranges"] // part))]
        began = time.monotonic()
        if given["program"] == "sftp":
            found = [one_range(fs, f"{base}/big", start) for start in starts]
        else:
            found = fs.cat_ranges([f"{base}/big"] * len(starts), starts, [start + RANGE for start in starts])
        seconds = time.monotonic() - began
        with open(root / "big", "rb") as file:
            right = all(os.pread(file.fileno(), RANGE, start) == one for start, one in zip(starts, found, strict=True))
    elif given["task"] == "parquet":
        seconds, right, part = columns(fs, f"{base}/table.parquet", root / "table.parquet", part)
    else:
        names = [f"c{number}" for number in range(max(1, given["chunks"] // part))]
        began = time.monotonic()
        if given["program"] == "sftp":
            found = {f"{base}/zarr/{name}": fs.cat_file(f"{base}/zarr/{name}") for name in names}
        else:
            found = fs.cat([f"{base}/zarr/{name}" for name in names])
        seconds = time.monotonic() - began
        right = len(found) == len(names)
        for name in names:
            got = next(v for k, v in ((f"{base}/zarr/{name}", found.get(f"{base}/zarr/{name}")),
                                      (f"/zarr/{name}", found.get(f"/zarr/{name}"))) if v is not None)
            right = right and got == (root / "zarr" / name).read_bytes()
    if not right:
        raise SystemExit("what came is not what is there")
    print(seconds * part)


def columns(fs, path, local, part):
    """Some columns of the table, or of a part of its groups of rows: seconds, whether they are right, how many such parts there are."""
    import pyarrow.parquet as pq
    from fsspec.parquet import open_parquet_file

    groups = pq.ParquetFile(local).num_row_groups
    some = list(range(max(1, groups // part)))
    began = time.monotonic()
    with open_parquet_file(path, fs=fs, columns=WANTED, row_groups=some, engine="pyarrow") as file:
        found = pq.ParquetFile(file).read_row_groups(some, columns=WANTED)
    seconds = time.monotonic() - began
    return seconds, found.equals(pq.ParquetFile(local).read_row_groups(some, columns=WANTED)), groups / len(some)


def write_table(path, mib):
    """Random numbers, so that nothing gets smaller."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(COLUMNS)])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False, write_statistics=False) as writer:
        for _ in range(max(1, (mib << 20) // (GROUP_ROWS * COLUMNS * 8))):
            column = lambda: pa.Array.from_buffers(pa.int64(), GROUP_ROWS, [None, pa.py_buffer(os.urandom(GROUP_ROWS * 8))])
            writer.write_table(pa.table([column() for _ in range(COLUMNS)], schema=schema), row_group_size=GROUP_ROWS)


def one_range(fs, path, start):
    with fs.open(path, "rb") as file:
        file.seek(start)
        return file.read(RANGE)


def fill(root, chunks, mib):
    (root / "zarr").mkdir(parents=True)
    (root / "small").write_bytes(b"small")
    with open(root / "big", "wb") as file:
        for _ in range(256):
            file.write(os.urandom(1 << 20))
    write_table(root / "table.parquet", mib)
    for number in range(chunks):
        (root / "zarr" / f"c{number}").write_bytes(os.urandom(CHUNK))


def nginx(world, scratch, root):
    config = scratch / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; user root; pid {scratch}/nginx.pid; error_log {scratch}/nginx.log;\n"
        "events { worker_connections 4096; }\n"
        "http { access_log off; sendfile on; keepalive_requests 100000;\n"
        f" server {{ listen {world.far_address}:8080 backlog=4096; root {root}; }} }}\n"
    )
    argv = ["nginx", "-c", config, "-e", scratch / "nginx.log"]
    server = Process("nginx", argv, out=scratch / "nginx.out", err=scratch / "nginx.err", netns=world.far)
    server.wait_until(lambda: "8080" in command("ip", "netns", "exec", world.far, "ss", "-ltn"))
    return server


def set_congestion_control(netns, name):
    """By its routes: a namespace may not set what the kernel does not allow to all, and the kernel's default differs from machine to machine."""
    for route in json.loads(command("ip", "-n", netns, "-4", "-j", "route", "show", "dev", "wan0")):
        source = ["src", route["prefsrc"]] if "prefsrc" in route else []
        command("ip", "-n", netns, "route", "replace", route["dst"], "dev", "wan0", *source, "congctl", name)


def congestion_control(world, address):
    """What a connection of the near host has."""
    host, port = address.split(":")
    ask = f"import socket; s = socket.create_connection(({host!r}, {port})); print(s.getsockopt(6, socket.TCP_CONGESTION, 16).decode())"
    return command("ip", "netns", "exec", world.near, sys.executable, "-c", ask).strip("\0\n")


def measure(given, scratch, howdah):
    import howdah as library

    root = scratch / "root"
    say(f"writing {given.chunks} chunks, a table of {given.parquet_mib} MiB and a file of 256 MiB")
    fill(root, given.chunks, given.parquet_mib)
    config = scratch / "config"
    config.mkdir(mode=0o700)
    me = library.Identity.load_or_create(config / "id_ed25519.pem")
    (config / "authorized_keys").write_text(me.public_key + "\n")
    (config / "authorized_keys").chmod(0o600)
    results = {}
    path = {"rtt_ms": given.rtt_ms, "loss_percent": given.loss_percent, "rate": given.rate, "mtu": 1500}
    keys = scratch / "keys"
    keys.mkdir(mode=0o700)
    with World(howdah, scratch, **path, queue="100ms") as world:
        world.far_group = None
        for name in (world.near, world.far):
            set_congestion_control(name, given.tcp)
        serve = ["env", f"HOWDAH_CONFIG_DIR={config}", howdah, "serve", "--user", "root", "--root", root,
                 "--listen", f"{world.far_address}:4433"]
        with (
            Process("howdah serve", serve, out=scratch / "serve.out", err=scratch / "serve.err", netns=world.far) as server,
            nginx(world, scratch, root),
            Site(world, keys, scratch) as sshd,
        ):
            server.wait_for("serving ")
            control = congestion_control(world, f"{world.far_address}:8080")
            common = {"root": str(root), "ranges": given.ranges, "chunks": given.chunks}
            ways = {
                "howdah": {"address": f"{world.far_address}:4433", "config": str(config), "key": me.public_key},
                "http": {"address": f"{world.far_address}:8080"},
                "sftp": {"address": f"{world.far_address}:{SSH_PORT}", "identity": str(sshd.user_key), "user": "root"},
            }
            for task in ("ranges", "chunks", "parquet"):
                for _ in range(given.rounds):
                    for program in PROGRAMS:
                        part = given.sftp_part if program == "sftp" else 1
                        asked = json.dumps({**common, **ways[program], "program": program, "task": task, "part": part})
                        argv = [sys.executable, "-B", __file__, "--read", asked]
                        out, err = scratch / "read.out", scratch / "read.err"
                        with Process(program, argv, out=out, err=err, netns=world.near) as reader:
                            seconds = float(reader.finish(900).split()[-1])
                        say(f"{task}: {program} {seconds:.2f} s")
                        results.setdefault(task, {}).setdefault(program, []).append(seconds)
                        world.settle(given.rtt_ms / 1e3)
    say(f"the emulator: {world.certificate['verdict']}; TCP: {control}")
    return results, world.certificate["verdict"], control


def table(given, results, verdict, control):
    lines = [
        f"`make bench-fsspec` at {given.rate}, {given.rtt_ms:g} ms, {given.loss_percent:g} %, TCP {control}; median seconds of {given.rounds}"
        f" (the emulator's certificate: {verdict}). sftp did one part in {given.sftp_part} and is counted up.",
        "",
        "| Task | howdah | http (nginx) | sftp (sshd) |",
        "|---|---|---|---|",
    ]
    what = {
        "ranges": f"{given.ranges} random ranges of 64 KiB",
        "chunks": f"{given.chunks} chunks of 256 KiB",
        "parquet": f"{len(WANTED)} of {COLUMNS} columns of a Parquet file of {given.parquet_mib} MiB",
    }
    for task, found in results.items():
        cells = [f"{statistics.median(found[program]):.2f}" for program in PROGRAMS]
        lines.append(f"| {what[task]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    given = arguments()
    if given.read:
        return read(json.loads(given.read))
    catch_signals()
    howdah = os.environ.get("HOWDAH", str(Path(sysconfig.get_path("scripts")) / "howdah"))
    scratch = Path(tempfile.mkdtemp(prefix=f"hbench-{os.getpid()}-", dir="/dev/shm"))
    try:
        text = table(given, *measure(given, scratch, howdah))
    finally:
        shutil.rmtree(scratch)
    print(text, end="")
    if given.out:
        write_docs(given.out, "fsspec", text)


if __name__ == "__main__":
    try:
        main()
    except (Failed, subprocess.SubprocessError) as error:
        raise SystemExit(f"bench: {error}") from error
