"""The ``howdah`` command, run from Python: that of this environment, as the wheel brings it."""

from __future__ import annotations

import os
import subprocess
import sysconfig


def command(named: str | None = None) -> str:
    """The one that is named, else the one beside this interpreter, else that of the ``PATH``."""
    beside = os.path.join(sysconfig.get_path("scripts"), "howdah")
    return named or (beside if os.path.exists(beside) else "howdah")


def environment() -> dict[str, str]:
    """What it is started with: it must not go on when whoever started it was killed."""
    return {**os.environ, "HOWDAH_DIE_WITH_PARENT": "1"}


def run(named: str | None, arguments: list[str]) -> tuple[int, str, str]:
    """Exit code (minus a signal; 127 where there is no command), what it printed, and the last that it said."""
    try:
        done = subprocess.run(
            [command(named), *arguments],
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        return 127, "", f"cannot run howdah: {error}"
    lines = [line for line in done.stderr.splitlines() if line]
    # What is behind a usage error says where help is.
    said = [line for line in lines if line.startswith("howdah: ")] or lines
    return done.returncode, done.stdout, said[-1] if said else ""
