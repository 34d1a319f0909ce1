#!/usr/bin/env python3
"""What the sandbox costs: memory to memory over loopback with it and without (HOWDAH_SANDBOX=off), in turns.

    HOWDAH=target/release/howdah benches/sandbox_cost.py [--pairs N] [--size SIZE]

Processor time of sender and receiver for each pair, and the medians of the ratios (with / without): on a busy machine the wall
clock says nothing.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import threading


def copy(howdah, place, size, sandboxed):
    """Seconds of processor time of the sender and of the receiver."""
    env = {**os.environ, "HOWDAH_CONFIG_DIR": str(place / "config"), "HOWDAH_SANDBOX": "on" if sandboxed else "off"}
    serve = [howdah, "serve", "--listen", "127.0.0.1:0", "--root", str(place / "root")]
    if os.geteuid() == 0:
        serve += ["--user", "root"]
    server = subprocess.Popen(serve, env=env, stderr=subprocess.PIPE, text=True)
    try:
        said = (line for line in server.stderr if " on 127." in line)
        address = next(said).split(" on ")[1].split()[0]
        threading.Thread(target=lambda: [None for _ in server.stderr], daemon=True).start()
        words = [howdah, "cp", "--json", "--accept-new", "--no-memory", f"zero:{size}", f"howdah://{address}/null:"]
        done = subprocess.run(words, env=env, stdout=subprocess.PIPE, text=True, check=True)
    finally:
        server.terminate()
        server.wait()
    last = json.loads(done.stdout.splitlines()[-1])
    return last["sender"]["cpu_seconds"], last["receiver"]["cpu_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--size", default="4GB")
    options = parser.parse_args()
    howdah = os.environ.get("HOWDAH", "target/release/howdah")
    ratios = {"sender": [], "receiver": [], "both": []}
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "config").mkdir(mode=0o700)
        (place / "root").mkdir()
        env = {**os.environ, "HOWDAH_CONFIG_DIR": str(place / "config")}
        key = subprocess.run([howdah, "key", "new"], env=env, stdout=subprocess.PIPE, text=True, check=True)
        authorized = place / "config" / "authorized_keys"
        authorized.touch(mode=0o600)
        authorized.write_text(key.stdout)
        for pair in range(options.pairs):
            took = {}
            for sandboxed in (True, False) if pair % 2 else (False, True):
                took[sandboxed] = copy(howdah, place, options.size, sandboxed)
            ratios["sender"].append(took[True][0] / took[False][0])
            ratios["receiver"].append(took[True][1] / took[False][1])
            ratios["both"].append(sum(took[True]) / sum(took[False]))
            print(f"pair {pair + 1}: with {sum(took[True]):.2f} s, without {sum(took[False]):.2f} s", flush=True)
    for side, some in ratios.items():
        print(f"{side}: median {statistics.median(some):.3f}, {min(some):.3f} to {max(some):.3f}")


if __name__ == "__main__":
    main()
