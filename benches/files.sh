#!/usr/bin/env bash
# The tables of files in docs/performance.md. `make bench-files` calls this; `benches/files.sh --help` lists what it takes.
# HOWDAH names the binary (target/release/howdah). Needs root, python3 (3.11), iproute2, openssh; rsync and rclone if there.
set -euo pipefail
command -v python3 >/dev/null || { echo "benches/files.sh: python3 is missing: apt-get install python3" >&2; exit 2; }
exec python3 -B "$(dirname "$0")/files.py" "$@"
