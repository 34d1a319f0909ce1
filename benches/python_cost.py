"""What the Python module costs: the same file over loopback to one server, by `howdah.copy` and by the `howdah` command, in turns.

Both are those of the environment that this runs in. Prints a line for each round, the medians and their ratio.
"""

import argparse
import json
import os
import statistics
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import howdah

COMMAND = Path(sysconfig.get_path("scripts")) / "howdah"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--size-mib", type=int, default=1024)
    arguments.add_argument("--dir", default="/dev/shm", help="where the files are: in memory")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as directory:
        measure(Path(directory), given.rounds, given.size_mib)


def measure(directory: Path, rounds: int, size_mib: int) -> None:
    (directory / "root").mkdir()
    source = directory / "file"
    with open(source, "wb") as file:
        for _ in range(size_mib):
            file.write(os.urandom(1 << 20))
    config = directory / "config"
    config.mkdir(mode=0o700)
    me = howdah.Identity.load_or_create(config / "id_ed25519.pem")
    (config / "authorized_keys").write_text(me.public_key + "\n")
    (config / "authorized_keys").chmod(0o600)
    environment = {**os.environ, "HOWDAH_CONFIG_DIR": str(config)}
    serve = [COMMAND, "serve", "--user", "root", "--root", directory / "root", "--listen", "127.0.0.1:0"]
    if os.getuid() != 0:
        serve = [word for word in serve if word not in ("--user", "root")]
    with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            line = next(line for line in server.stdout if "serving " in line)
            url = f"howdah://{line.rsplit(' on ', 1)[1].strip()}/there"
            goodputs: dict[str, list[float]] = {"module": [], "command": []}
            client = howdah.Client(config_dir=config, trust="accept-new")

            def by_module() -> float:
                return client.copy(source, url).goodput_bps

            def by_command() -> float:
                words = [COMMAND, "cp", "--no-memory", "--accept-new", "--json", source, url]
                told = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
                return json.loads(told.stdout.splitlines()[-1])["goodput_bps"]

            by_module(), by_command()  # Warm, and the server is known.
            for round in range(rounds):
                turns = [("module", by_module), ("command", by_command)]
                for who, copy in turns if round % 2 else turns[::-1]:
                    (directory / "root" / "there").unlink()
                    goodputs[who].append(copy())
                print(*(f"{who} {values[-1] / 1e9:.2f}" for who, values in goodputs.items()), "Gbit/s", flush=True)
            module, command = (statistics.median(goodputs[who]) for who in ("module", "command"))
            ratios = [a / b for a, b in zip(goodputs["module"], goodputs["command"])]
            print(
                f"median of {rounds}: module {module / 1e9:.2f}, command {command / 1e9:.2f} Gbit/s;",
                f"ratio of medians {module / command:.3f}, median of ratios {statistics.median(ratios):.3f}",
            )
        finally:
            server.terminate()


main()
