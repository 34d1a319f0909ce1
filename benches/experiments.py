"""The experiments behind the tables, each a function that gives back plain data for JSON."""

import os
import random
import time
from pathlib import Path

from procs import Cable, Failed, Process, World, say
from series import bound_bps
from transports import attempt, howdah_costs, howdah_flow, last_event, tcp_flow

RATE_BPS = 10e9
MTU = 9000
FILE_RTT_MS, FILE_LOSS_PERCENT = 100, 1
COPY_PATIENCE_S = 900.0
ALGORITHMS = ("bbr", "cubic")


def brief(run):
    """A run in a word, for the progress lines."""
    return run["error"] if "error" in run else f"{run.get('steady_bps', run['mean_bps']) / 1e9:.2f} Gbit/s"


def cell(kit, raw, *, rtt_ms, loss_percent, seconds):
    """Howdah, then TCP BBR, then TCP CUBIC, each through a world of its own with its own certificate."""
    rtt_s = rtt_ms / 1e3
    runs, certificates = {}, {}
    for name in ("howdah",) if kit.only_howdah else ("howdah", *ALGORITHMS):
        place = raw / name
        place.mkdir(parents=True)
        with World(kit.howdah, place, rtt_ms=rtt_ms, loss_percent=loss_percent, mtu=MTU) as world:
            if name == "howdah":
                runs[name] = attempt(howdah_flow, kit, world, place, seconds=seconds, rtt_s=rtt_s)
            else:
                runs[name] = attempt(tcp_flow, world, place, name, seconds=seconds)
        certificates[name] = world.certificate
        say(f"  {name}: {brief(runs[name])}; emulator: {world.certificate['verdict']}")
    return {
        "rtt_ms": rtt_ms,
        "loss_percent": loss_percent,
        "seconds": seconds,
        "bound_bps": bound_bps(RATE_BPS, loss_percent / 100, MTU),
        "runs": runs,
        "certificate": certificates["howdah"],
        "tcp_certificates": {name: certificates[name] for name in certificates if name != "howdah"},
    }


def cable(kit, raw, *, mtu, seconds):
    """One cable without emulator: howdah, then TCP CUBIC."""
    raw.mkdir(parents=True)
    runs = {}
    with Cable(mtu) as place:
        runs["howdah"] = attempt(howdah_flow, kit, place, raw, seconds=seconds, rtt_s=0.0)
        if not kit.only_howdah:
            runs["cubic"] = attempt(tcp_flow, place, raw, "cubic", seconds=seconds)
    for name, run in runs.items():
        say(f"  {name}: {brief(run)}")
    return {"mtu": mtu, "seconds": seconds, "runs": runs}


def file_copies(kit, raw, scratch, *, size):
    """A file from disk to disk, from a cold and from a warm page cache, beside zero: to null:."""
    raw.mkdir(parents=True)
    source, root = scratch / "file", scratch / "root"
    root.mkdir(exist_ok=True)
    if not source.exists():
        say(f"  making {size / 2**30:g} GiB of pseudo-random bytes in {scratch}")
        make_file(source, size)
    result = {
        "rtt_ms": FILE_RTT_MS,
        "loss_percent": FILE_LOSS_PERCENT,
        "bytes": size,
        "filesystem": filesystem(scratch),
        "disk_alone": attempt(disk_alone, raw, source, root / "alone"),
        "runs": {},
    }
    with World(kit.howdah, raw, rtt_ms=FILE_RTT_MS, loss_percent=FILE_LOSS_PERCENT, mtu=MTU) as world:
        made_up = attempt(one_copy, kit, world, raw, f"zero:{size}", "null:", root, "made-up")
        result["runs"]["made_up"] = made_up
        say(f"  zero: to null:: {brief(made_up)}")
        for cache in ("cold", "warm"):
            run = attempt(file_copy, kit, world, raw, source, root, cache)
            result["runs"][cache] = run
            say(f"  file, {cache} cache: {brief(run)}")
    result["certificate"] = world.certificate
    return result


def one_copy(kit, world, raw, source, path, root, name):
    """One `howdah cp` with a server of its own."""
    with (
        kit.serve(world, root, raw, f"{name}-serve"),
        kit.copy(world, source, path, raw, name) as copy,
    ):
        report = last_event(copy.finish(COPY_PATIENCE_S), "howdah cp")
    world.settle(FILE_RTT_MS / 1e3)
    return {**howdah_costs(report), "seconds": report["seconds"], "bottleneck": report["bottleneck"],
            "verified": report["verified"], "report": report}


def file_copy(kit, world, raw, source, root, cache):
    """One copy of the file, its arrival compared byte for byte and removed."""
    read_through(source) if cache == "warm" else forget(source)
    # Dropping all caches drops the program's pages too; only the file shall be cold.
    read_through(kit.howdah)
    arrived = root / cache
    try:
        run = one_copy(kit, world, raw, source, cache, root, cache)
        run["same_bytes"] = same_bytes(raw, source, arrived)
    finally:
        arrived.unlink(missing_ok=True)
    return run


def same_bytes(raw, one, other):
    """Whether two files have the same content."""
    with Process("cmp", ["cmp", one, other], out=raw / "cmp.out", err=raw / "cmp.log") as process:
        try:
            process.finish(COPY_PATIENCE_S)
        except Failed:
            if process.child.returncode != 1:
                raise
            return False
    return True


def make_file(path, size):
    """Writes reproducible pseudo-random bytes and syncs them."""
    generator, left = random.Random(1), size
    with path.open("xb") as file:
        while left:
            left -= file.write(generator.randbytes(min(left, 1 << 22)))
        os.fsync(file.fileno())


def read_through(path):
    """Reads a file into the page cache."""
    with path.open("rb", buffering=0) as file:
        chunk = bytearray(1 << 22)
        while file.readinto(chunk):
            pass


def forget(path):
    """Takes a file out of the page cache: by dropping all of it, or that file where that is not permitted."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk_alone(raw, source, target):
    """Seconds that a plain copy of the file takes on this disk, from a cold cache to synced."""
    forget(source)
    argv = ["dd", f"if={source}", f"of={target}", "bs=4M", "conv=fsync", "status=none"]
    try:
        with Process("dd", argv, out=raw / "dd.out", err=raw / "dd.log") as process:
            begin = time.monotonic()
            process.finish(COPY_PATIENCE_S)
            return {"seconds": time.monotonic() - begin}
    finally:
        target.unlink(missing_ok=True)


def filesystem(path):
    """Type of the file system that holds `path`."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    holders = [(point, kind) for point, kind in mounts if path.resolve().is_relative_to(point)]
    # Of two on the same place the later one is on top.
    return max(enumerate(holders), key=lambda entry: (len(entry[1][0]), entry[0]))[1][1]


def check_scratch(path, needed):
    """Refuses a place that is no disk, or too small, for the file of table 5."""
    kind, free = filesystem(path), os.statvfs(path)
    if kind in ("tmpfs", "ramfs"):
        raise Failed(f"{path} is {kind}, not a disk: name another place with --scratch")
    if free.f_bavail * free.f_frsize < needed:
        raise Failed(f"{path} needs {needed / 2**30:.1f} GiB free: name another place with --scratch")
