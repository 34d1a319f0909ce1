#!/usr/bin/env python3
"""Builds the laboratory as one HTML file that needs no server and no network: target/lab-web/laboratory.html

    tools/lab_web.py [--out FILE] [--profile PROFILE]

The target is fetched by rustup where it is missing; the scenarios of the repository (but those for testbeds) are inside.
"""

import argparse
import base64
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATE = ROOT / "crates/howdah-lab-web"
TARGET = "wasm32-unknown-unknown"
CARGO = os.environ.get("CARGO", "cargo")


def has_target():
    found = subprocess.run(["rustc", "--print", "target-libdir", "--target", TARGET], capture_output=True, text=True, cwd=ROOT)
    return found.returncode == 0 and pathlib.Path(found.stdout.strip()).is_dir()


def build(profile):
    """The module of WebAssembly."""
    if not has_target() and shutil.which("rustup"):
        subprocess.run(["rustup", "target", "add", TARGET], cwd=ROOT, check=False)
    if not has_target():
        sys.exit(f"lab-web: this Rust cannot build for {TARGET}: `rustup target add {TARGET}`, or your system's package of it")
    command = [CARGO, "build", "--locked", "-p", "howdah-lab-web", "--lib", "--target", TARGET, "--profile", profile]
    subprocess.run(command, cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return (target / TARGET / ("debug" if profile == "dev" else profile) / "howdah_lab_web.wasm").read_bytes()


def scenarios():
    """Path and text of everything that a scenario may be or include."""
    files = sorted(path for path in (ROOT / "scenarios").rglob("*") if path.is_file())
    # Those of real programs are for a testbed, and the smoke tests for the snapshots.
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files if not {"real", "smoke"} & set(path.parts)}


def inlined(text):
    """Text that may stand in a script element."""
    return re.sub(r"<(?=[/!s])", r"\\u003c", text)


def page(module):
    source = CRATE / "page"
    parts = {
        "lab.css": (source / "lab.css").read_text(),
        "lab.js": (source / "lab.js").read_text(),
        "worker.js": (source / "worker.js").read_text(),
        "scenarios": inlined(json.dumps(scenarios(), ensure_ascii=False)),
        "wasm": base64.b64encode(gzip.compress(module, mtime=0)).decode(),
    }
    return re.sub(r"\{\{([a-z.]+)\}\}", lambda name: parts[name[1]], (source / "index.html").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/lab-web/laboratory.html")
    parser.add_argument("--profile", default="release")
    options = parser.parse_args()
    made = page(build(options.profile))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(made)
    print(f"{options.out} ({len(made) / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
