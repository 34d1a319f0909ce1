#!/usr/bin/env python3
"""Makes the tables of a document anew from results.

A table stands between a line `<!-- howdah lab table ARGUMENTS -->`, which says how it is made, and a line
`<!-- end -->`. `python3 tools/doc_tables.py PROGRAM DOCUMENT DIR...` runs PROGRAM with these arguments and the campaigns
DIR... for each, and writes DOCUMENT whole if all of them had a result.
"""

import pathlib
import re
import shlex
import subprocess
import sys

MARK = re.compile(r"<!-- howdah (lab table .*) -->")
END = "<!-- end -->"


def made(program: str, arguments: str, campaigns: list[str]) -> list[str]:
    """Caption, empty line and table, as the program prints them."""
    command = [program, *shlex.split(arguments), *campaigns]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"doc_tables: {shlex.join(command)}: {done.stderr.strip()}")
    return done.stdout.rstrip("\n").split("\n")


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit("usage: doc_tables.py PROGRAM DOCUMENT DIR...")
    program, document, campaigns = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    out: list[str] = []
    lines = iter(document.read_text().split("\n"))
    tables = 0
    for line in lines:
        out.append(line)
        mark = MARK.fullmatch(line)
        if not mark:
            continue
        if END not in lines:
            sys.exit(f"doc_tables: {document}: no {END} behind {line}")
        out += ["", *made(program, mark[1], campaigns), "", END]
        tables += 1
    document.write_text("\n".join(out))
    print(f"doc_tables: {document}: {tables} tables", file=sys.stderr)


if __name__ == "__main__":
    main()
