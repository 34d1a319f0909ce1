"""``python -m howdah`` is the ``howdah`` command that came with this package."""

import os
import sys
import sysconfig


def main() -> None:
    command = os.path.join(sysconfig.get_path("scripts"), "howdah")
    if not os.path.exists(command):
        sys.exit(f"howdah: {command} is missing: this package was built without the command")
    os.execv(command, ["howdah", *sys.argv[1:]])


main()
