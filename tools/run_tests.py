#!/usr/bin/env python3
"""Builds all test programs and runs several of them at once: most wait for networks and disks, not for processors.

    tools/run_tests.py [--at-once N] [--limit SECONDS] [--only TEXT] [--tests TEXT ...] -- CARGO TEST'S ARGUMENTS

Most crates have one program of tests, `tests/it/main.rs`, and of such a one each module (a file in `tests/it`) runs as a process of its own, as if it were
a program: environment, current directory, umask, limits, open files and handlers of signals are a process's. It is called "crate module" in what follows.

A program that fails is shown whole, and the others go on; one that takes longer than the limit is ended and has failed.
Where few have failed beside others they run once more, alone: what fails twice has failed, what does not is named as
unsteady, for somebody to mend the test or the race that it has found.
At the end stand the ten that took longest. Examples in the documentation are tested as well (`--only` and `--tests` leave them out).
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
# They fill the machine themselves, stop processes at a moment, or measure what a process holds, which grows where it has to wait: nothing else runs
# beside them.
ALONE = {"overload", "flood", "idle", "field_peers", "memory"}
# The longest begin first, so that none of them is what all wait for at the end.
LONG = {"field_snapshots", "field_choice", "field_stands", "smoke", "sharing", "injected", "no_udp", "lib howdah_tree"}

# More failures than these are no accident of a busy machine.
FEW = 3


def build(arguments):
    """The test programs: crate, name, executable, the directory that cargo would run it in, and whether its modules are apart."""
    command = [CARGO, "test", *arguments, "--no-run", "--message-format=json-render-diagnostics"]
    made = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if made.returncode:
        sys.exit(made.returncode)
    programs = set()
    for line in made.stdout.splitlines():
        word = json.loads(line)
        if word.get("reason") == "compiler-artifact" and word["executable"] and word["profile"]["test"]:
            home = pathlib.Path(word["manifest_path"]).parent
            kind = word["target"]["kind"][0]
            what = word["target"]["name"] if kind == "test" else f"{kind} {word['target']['name']}"
            is_split = kind == "test" and word["target"]["src_path"].endswith("/main.rs")
            programs.add((home.name, what, word["executable"], home, is_split))
    return sorted(programs)


def listed(executable, home, texts):
    """The names of a program's tests that have one of the texts in them, of all if there are none."""
    command = [executable, "--list", "--format", "terse", *texts]
    said = subprocess.run(command, cwd=home, env=environment(home), stdout=subprocess.PIPE, text=True, check=True).stdout
    return [line.removesuffix(": test") for line in said.splitlines() if line.endswith(": test")]


def jobs_of(programs, texts):
    """What runs as a process: its name, command and directory, and whether it has to be alone. The longest are the first."""
    jobs = []
    for package, what, executable, home, is_split in programs:
        if not is_split:
            if not texts or listed(executable, home, texts):
                jobs.append((package, what, [executable, *texts], home))
            continue
        modules = {}
        for test in listed(executable, home, texts):
            modules.setdefault(test.split("::", 1)[0], []).append(test)
        jobs += [(package, module, [executable, "--exact", *tests], home) for module, tests in modules.items()]
    jobs.sort(key=lambda job: job[1] not in LONG)
    return [(f"{package} {what}", command, home, what in ALONE) for package, what, command, home in jobs]


def environment(home):
    """What cargo gives to the programs that it runs."""
    config = tomllib.loads((ROOT / ".cargo/config.toml").read_text())
    return {**os.environ, **config.get("env", {}), "CARGO": CARGO, "CARGO_MANIFEST_DIR": str(home)}


RUNNING = set()


def end(child):
    """Ends a program and what it has started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(name, command, home, limit_s):
    began = time.monotonic()
    # A file and no pipe: who is left behind and holds it open is not waited for.
    with tempfile.TemporaryFile() as output:
        # In a group of its own: what it has started ends with it.
        child = subprocess.Popen(
            command, cwd=home, env=environment(home), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, process_group=0
        )
        RUNNING.add(child)
        try:
            code = child.wait(limit_s)
            verdict = "ok" if code == 0 else f"FAILED ({code})"
        except subprocess.TimeoutExpired:
            end(child)
            child.wait()
            verdict = f"FAILED (not done in {limit_s:.0f} s)"
        RUNNING.discard(child)
        output.seek(0)
        text = output.read().decode(errors="replace")
    took_s = time.monotonic() - began
    if verdict != "ok":
        print(text, flush=True)
    results = [line for line in text.splitlines() if line.startswith("test result:")]
    counts = results[-1].split(". ", 1)[-1].split("; finished")[0] if results else ""
    print(f"{name}: {verdict} in {took_s:.1f} s; {counts}", flush=True)
    return name, verdict == "ok", took_s


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at-once", type=int, default=2 * os.cpu_count(), help="programs at once (two for each processor)")
    parser.add_argument("--limit", type=float, default=900, help="seconds for one program")
    parser.add_argument("--only", help="only programs with this in their names")
    parser.add_argument("--tests", nargs="+", default=[], metavar="TEXT", help="only tests with one of these in their names, modules included")
    parser.add_argument("cargo", nargs="*")
    options = parser.parse_args()
    # Whoever ends this program ends all of them.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    jobs = [job for job in jobs_of(build(options.cargo), options.tests) if (options.only or "") in job[0]]
    if not options.only and not options.tests:
        jobs.append(("examples in the documentation", [CARGO, "test", *options.cargo, "--doc", "--quiet"], ROOT, False))
    began = time.monotonic()
    done = []
    for at_once, some in [(options.at_once, [job for job in jobs if not job[3]]), (1, [job for job in jobs if job[3]])]:
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            try:
                done += pool.map(lambda job: run(*job[:3], options.limit), some)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for child in list(RUNNING):
                    end(child)
                raise
    for name, _, took_s in sorted(done, key=lambda one: -one[2])[:10]:
        print(f"{took_s:7.1f} s  {name}")
    failed = [name for name, well, _ in done if not well]
    again = [job for job in jobs if job[0] in failed] if len(failed) <= FEW else []
    unsteady = [job[0] for job in again if run(*job[:3], options.limit)[1]]
    failed = [name for name in failed if name not in unsteady]
    if unsteady:
        print("unsteady, failed beside others and not alone:", *unsteady, sep="\n  ")
    print(f"{len(done)} programs in {time.monotonic() - began:.0f} s, {len(failed)} failed", *failed, sep="\n  ")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
