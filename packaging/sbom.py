#!/usr/bin/env python3
"""Writes what the binary is made of (CycloneDX 1.5, JSON): sbom.py MANIFEST >FILE. Read from Cargo.lock by cargo itself."""

import json
import subprocess
import sys
from collections import defaultdict


def main() -> None:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", sys.argv[1]]
    command += ["--filter-platform", "x86_64-unknown-linux-gnu"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    root = next(p["id"] for p in told["packages"] if p["manifest_path"].endswith(sys.argv[1].lstrip("./")))

    # What is linked or builds it, not what tests it.
    uses: dict[str, list[str]] = defaultdict(list)
    waiting, seen = [root], {root}
    while waiting:
        package = waiting.pop()
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                uses[package].append(dependency["pkg"])
                if dependency["pkg"] not in seen:
                    seen.add(dependency["pkg"])
                    waiting.append(dependency["pkg"])

    def component(package: dict) -> dict:
        purl = f"pkg:cargo/{package['name']}@{package['version']}"
        made = {
            "type": "application" if package["id"] == root else "library",
            "bom-ref": purl,
            "name": package["name"],
            "version": package["version"],
            "purl": purl,
        }
        if package["license"]:
            made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        return made

    made = {id: component(packages[id]) for id in sorted(seen)}
    ours = made.pop(root)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": ours},
        "components": list(made.values()),
        "dependencies": [
            {
                "ref": (made.get(id) or ours)["bom-ref"],
                "dependsOn": sorted({made[used]["bom-ref"] for used in uses[id] if used in made}),
            }
            for id in sorted(seen)
        ],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


main()
