"""The tables of `benches/files.sh`."""

from procs import Failed

TITLES = {
    "file": "one file",
    "small": "many small files",
    "source": "a source tree",
    "again": "the source tree again, nothing changed",
    "soon": "the source tree once more right after that, nothing changed",
    "resume": "the file, killed at half: the second run",
}


def size(count):
    """Bytes as people read them."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} bytes"


def brief(cell):
    """One cell in a word."""
    if "error" in cell:
        return f"failed: {cell['error']}"
    if "skipped" in cell:
        return cell["skipped"]
    wrong = "; WRONG CONTENT" if cell["same"] is False else ""
    return ("" if cell["ended"] else "> ") + f"{cell['seconds']:.1f} s" + wrong


def seconds(cell, best):
    """One cell of the table: seconds, and how often the quickest's."""
    if cell is None:
        return "-"
    if "error" in cell:
        return "failed"
    if "skipped" in cell:
        return cell["skipped"]
    if cell["same"] is False:
        return "wrong content"
    text = f"{cell['seconds']:.1f}" if cell["ended"] else f"> {cell['seconds']:.0f}"
    if best and cell["seconds"] > best:
        factor = cell["seconds"] / best
        text += f" ({'>' if not cell['ended'] else ''}{factor:.1f}x)"
    elif best:
        text = f"**{text}**"
    return text + ("" if cell["certificate"]["valid"] else " \\*")


def costs(cell):
    """Processor seconds here + there; memory here, there."""
    if cell is None or "seconds" not in cell:
        return "-"
    return (f"{cell['near_cpu_s']:.1f} + {cell['far_cpu_s']:.1f} s; "
            f"{cell['near_peak_bytes'] / 2**20:.0f}, {cell['far_peak_bytes'] / 2**20:.0f} MiB")


def markdown(results):
    """All of it."""
    cells = {(c["rate"], c["loss_percent"], c["case"], c["mover"]): c for c in results["cells"]}
    movers = list(dict.fromkeys(c["mover"] for c in results["cells"]))
    paths = list(dict.fromkeys((c["rate"], c["loss_percent"]) for c in results["cells"]))
    cases = list(dict.fromkeys(c["case"] for c in results["cells"]))
    facts = results["machine"]
    lines = [
        f"`{results['command']}`, {results['started']}, commit {facts.get('commit', '?')}; RTT {results['rtt_ms']} ms, queue 50 ms, "
        f"MTU 9000; ssh's programs run over TCP {results['tcp']}; runs are ended after {results['sizes']['limit_s']:.0f} s. Seconds from "
        "start to end of the command, and how many times the quickest; \\*: the emulator doubts the run.",
        "",
    ]
    for name in cases:
        count, total = results["inputs"][name]
        lines += [f"**{TITLES[name][0].upper()}{TITLES[name][1:]}** ({count} files, {size(total)})", ""]
        lines += ["| path | " + " | ".join(movers) + " |", "| --- |" + " ---: |" * len(movers)]
        for rate, loss in paths:
            row = [cells.get((rate, loss, name, mover)) for mover in movers]
            ended = [c["seconds"] for c in row if c and c.get("ended") and c.get("same")]
            best = min(ended, default=None)
            lines.append(f"| {rate}, {loss:g} % | " + " | ".join(seconds(c, best) for c in row) + " |")
        lines.append("")
    lines += ["What it costs (processor seconds here + there; most memory here, there):", ""]
    lines += ["| path, case | " + " | ".join(movers) + " |", "| --- |" + " ---: |" * len(movers)]
    for rate, loss in paths:
        for name in cases:
            row = [cells.get((rate, loss, name, mover)) for mover in movers]
            lines.append(f"| {rate}, {loss:g} %, {name} | " + " | ".join(map(costs, row)) + " |")
    return "\n".join(lines) + "\n"


def write_docs(docs, block, text):
    """Puts the tables between the markers of that block."""
    first, last = f"<!-- {block}: begin -->", f"<!-- {block}: end -->"
    before, begin, rest = docs.read_text().partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise Failed(f"{docs} has no markers {first} and {last}")
    docs.write_text(f"{before}{first}\n\n{text}\n{last}{after}")
