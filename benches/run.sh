#!/usr/bin/env bash
# The tables of docs/performance.md. `make bench` calls this; `benches/run.sh --help` lists what it takes.
# HOWDAH names the binary (target/release/howdah). Needs root, python3 (3.11), iproute2 and iperf3.
set -euo pipefail
command -v python3 >/dev/null || { echo "benches/run.sh: python3 is missing: apt-get install python3" >&2; exit 2; }
exec python3 -B "$(dirname "$0")/tables.py" "$@"
