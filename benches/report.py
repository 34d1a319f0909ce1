"""The tables as Markdown, with verdicts against the goals of the project's second issue."""

from experiments import ALGORITHMS
from series import GIB, median_run

MIB = 1 << 20
GOAL_SHARE = 0.85
# A run whose worst second falls below this share of its own mean is called unstable.
STABLE_SHARE = 0.75
GOAL_CABLE_BPS = {9000: 15e9, 1500: 8e9}
GOAL_RSS_BYTES = 128 * MIB
GOAL_FEEDBACK_BYTES_PER_GIB = 16 * 1024
GOAL_FILE_RATIO = 1.3
MATRIX_CELLS = 20
MEMORY_CELL = (400, 2)

BEGIN = "<!-- bench tables: begin -->"
END = "<!-- bench tables: end -->"


def markdown(results):
    """All tables of a run."""
    parts = [heading(results), goals(results)]
    wanted = results["settings"]["tables"]
    if 1 in wanted:
        parts += [matrix_rates(results), matrix_costs(results)]
    if 2 in wanted:
        parts.append(cable(results))
    if 3 in wanted:
        parts.append(memory(results))
    if 4 in wanted:
        parts.append(feedback(results))
    if 5 in wanted:
        parts.append(files(results))
    return "\n\n".join(parts) + "\n"


def last_of_each(runs):
    """Runs without the tables that a later one has measured again."""
    again = set()
    for run in reversed(runs):
        settings = run["settings"]
        settings["tables"] = [table for table in settings["tables"] if table not in again]
        again.update(settings["tables"])
        if 5 not in settings["tables"]:
            run["file"] = []
        if 2 not in settings["tables"]:
            run["cable"] = []
    return [run for run in runs if run["settings"]["tables"]]


def table(head, rows):
    """A Markdown table; columns whose head begins with '>' are numbers, set to the right."""
    rule = ["---:" if name.startswith(">") else "---" for name in head]
    lines = [[name.lstrip(">") for name in head], rule, *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def heading(results):
    """Where, when and of what."""
    machine, settings = results["machine"], results["settings"]
    lines = [
        f"Measured by `{results['command']}` from {results['started']} to {results['finished']}"
        + ("." if results["complete"] else ", **which was interrupted**."),
        "",
        f"- Machine: {machine['cores']} cores of {machine['processor']}, {machine['memory_gib']:.0f} GiB; sender, "
        "receiver and emulator together.",
        f"- Kernel: {machine['kernel']}; {machine['iperf3']}; {machine['howdah']}, commit {machine['commit']}.",
        f"- Load average when it began: {machine['load']}.",
    ]
    if machine["howdah_is_stale"]:
        lines.append("- **The binary is older than the sources: it is not of that commit.**")
    if settings["quick"]:
        lines.append("- **A quick run, to try the harness out: too short to judge by.**")
    return "\n".join(lines)


# ---- Numbers as text ------------------------------------------------------------------------------


def gbit(bps):
    """A rate in Gbit/s, small ones with more digits."""
    value = bps / 1e9
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def percent(share, digits=1):
    """A share in percent."""
    return "-" if share is None else f"{share * 100:.{digits}f} %"


def mebibytes(count):
    """Bytes in MiB."""
    return f"{count / MIB:.1f}"


def kibibytes(count):
    """Bytes in KiB."""
    return "-" if count is None else f"{count / 1024:.1f}"


def cpu(value):
    """CPU seconds per Gbit."""
    return "-" if value is None else f"{value:.4f}"


def loss(loss_percent):
    """A loss rate."""
    return f"{loss_percent:g} %"


def failed(run):
    """Why there are no figures."""
    return f"**failed:** {run['error']}".replace("|", "/").replace("\n", " ")


def is_unstable(run):
    """Whether a second of the second half fell far below its mean."""
    return run["worst_second_bps"] < STABLE_SHARE * run["steady_bps"]


def short(value, goal, text, unit="", digits=1):
    """`text`, and by how much `value` is short of `goal` if it is."""
    return text if value >= goal else f"{text} **short by {goal - value:.{digits}f}{unit}**"


# ---- What was measured, sorted --------------------------------------------------------------------


def grouped(items, *keys):
    """Repetitions of the same experiment together, sorted by its settings."""
    groups = {}
    for item in items:
        groups.setdefault(tuple(item[key] for key in keys), []).append(item)
    return sorted(groups.items())


def good(cells, name="howdah"):
    """The runs of one transport that came to their end."""
    runs = (cell["runs"].get(name) for cell in cells)
    return [run for run in runs if run and "error" not in run]


def representative(cells):
    """Of repetitions the one with the median steady rate of howdah; failed ones count as zero."""
    return median_run(cells, lambda cell: cell["runs"]["howdah"].get("steady_bps", 0.0))


def share_of_bound(cell):
    """Steady goodput of howdah as a share of what the path can carry; 0 for a failed run."""
    return cell["runs"]["howdah"].get("steady_bps", 0.0) / cell["bound_bps"]


# ---- Tables ---------------------------------------------------------------------------------------


def goals(results):
    """Each goal with what was measured and the verdict."""
    matrix, rows = results["matrix"], []

    def add(name, measured, met):
        rows.append([name, measured, "met" if met else "**not met**"])

    if 1 in results["settings"]["tables"] and matrix:
        cells = grouped(matrix, "rtt_ms", "loss_percent")
        chosen = [representative(group) for _, group in cells]
        worst = min(chosen, key=share_of_bound)
        where = f"{worst['rtt_ms']:g} ms, {loss(worst['loss_percent'])}"
        coverage = "" if len(cells) == MATRIX_CELLS else f", {len(cells)} of {MATRIX_CELLS} cells measured"
        lowest = share_of_bound(worst)
        add(f"1: steady at least {percent(GOAL_SHARE, 0)} of the bound in every cell",
            short(lowest * 100, GOAL_SHARE * 100, f"lowest {percent(lowest)} ({where})", " points") + coverage,
            lowest >= GOAL_SHARE)
        shaky = [cell for cell in matrix if "error" in cell["runs"]["howdah"] or is_unstable(cell["runs"]["howdah"])]
        add(f"1: none unstable (worst second at least {percent(STABLE_SHARE, 0)} of the mean)",
            f"{len(shaky)} of {len(matrix)} runs unstable or failed", not shaky)
        doubted = [cell for cell in matrix if not cell["certificate"]["valid"]]
        add("1: the emulator vouches for every cell", f"{len(doubted)} of {len(matrix)} certificates not valid",
            not doubted)
    for (mtu,), group in grouped(results["cable"], "mtu"):
        run, goal = cable_median(group, "howdah"), GOAL_CABLE_BPS.get(mtu)
        if goal:
            bps = run["mean_bps"] if run else 0.0
            add(f"2: at least {goal / 1e9:g} Gbit/s at MTU {mtu}",
                short(bps / 1e9, goal / 1e9, f"{gbit(bps)} Gbit/s", " Gbit/s", 2), bps >= goal)
    peak = peak_memory(results)
    if 3 in results["settings"]["tables"] and peak:
        most = max(peak)
        add(f"3: at most {GOAL_RSS_BYTES // MIB} MiB in either process at 400 ms, 2 %", f"{mebibytes(most)} MiB",
            most <= GOAL_RSS_BYTES)
    reports = [run["feedback_bytes_per_gib"] for run in good(matrix) if run["feedback_bytes_per_gib"] is not None]
    if 4 in results["settings"]["tables"] and reports:
        add(f"4: at most {GOAL_FEEDBACK_BYTES_PER_GIB // 1024} KiB of feedback per GiB in every cell",
            f"most {kibibytes(max(reports))} KiB/GiB", max(reports) <= GOAL_FEEDBACK_BYTES_PER_GIB)
    for result in results["file"][:1]:
        for cache in ("cold", "warm"):
            row = file_median(results["file"], cache)
            if row:
                add(f"5: the same bytes within {GOAL_FILE_RATIO} x of zero: to null:, or the bottleneck named "
                    f"({cache} cache)", file_verdict(row)[0], file_verdict(row)[1])
            else:
                add(f"5: a file of {result['bytes'] / GIB:g} GiB ({cache} cache)", "failed", False)
    return "### Verdicts\n\n" + table(["goal", "measured", "verdict"], rows)


def matrix_rates(results):
    """Table 1, what arrives."""
    settings = results["settings"]
    algorithms = [] if settings["only_howdah"] else ALGORITHMS
    head = [">RTT", ">loss", ">bound", ">howdah", ">of the bound", ">worst second", ">90 % after"]
    head += [f">TCP {name.upper()} (worst second)" for name in algorithms] + ["certificate"]
    rows, notes = [], []
    for _, group in grouped(results["matrix"], "rtt_ms", "loss_percent"):
        cell = representative(group)
        run = cell["runs"]["howdah"]
        row = [f"{cell['rtt_ms']:g} ms", loss(cell["loss_percent"]), gbit(cell["bound_bps"])]
        if "error" in run:
            row += [failed(run), "", "", ""]
        else:
            share = share_of_bound(cell)
            text = short(share * 100, GOAL_SHARE * 100, percent(share), " points")
            if len(group) > 1:
                shares = [share_of_bound(each) for each in group]
                text += f" ({percent(min(shares))} to {percent(max(shares))})"
            worst = min(each["worst_second_bps"] / cell["bound_bps"] for each in good(group))
            row += [gbit(run["steady_bps"]), text, percent(worst) + unstable(good(group)),
                    ramp(run["ramp_s"], cell["rtt_ms"])]
        for name in algorithms:
            tcp = cell["runs"].get(name, {"error": "not run"})
            mark = "" if cell.get("tcp_certificates", {}).get(name, {}).get("valid", True) else " ?"
            row.append(failed(tcp) if "error" in tcp else
                       f"{gbit(tcp['steady_bps'])} ({gbit(tcp['worst_second_bps'])}){unstable([tcp])}{mark}")
        doubts = verdict_of(group)
        if doubts != "valid":
            notes.append(f"- {cell['rtt_ms']:g} ms, {loss(cell['loss_percent'])}: {doubts}")
        rows.append([*row, "valid" if doubts == "valid" else "**not valid**"])
    seconds = {cell["seconds"] for cell in results["matrix"]}
    worlds = (
        "one world per run, transports one after the other, and the emulator's certificate of howdah's run (*?* marks a TCP "
        "run whose own is not valid)" if all("tcp_certificates" in cell for cell in results["matrix"]) else
        "one world per cell, transports one after the other, and one certificate for all of them"
    )
    text = (
        f"### Table 1: zero: to null: through the emulator\n\n10 Gbit/s, MTU 9000, queue 25 ms, loss in both directions, "
        f"runs of {', '.join(f'{s:g}' for s in sorted(seconds))} s; rates in Gbit/s of payload that arrived, mean of "
        f"the second half; {worlds}. Worst second of howdah as a share of the "
        f"bound; *unstable*: below {percent(STABLE_SHARE, 0)} of its own mean. 90 % after: from the first packet that "
        f"arrives, handshake included, in RTTs (in ms where there is none), resolution 10 ms."
    )
    if any(len(group) > 1 for _, group in grouped(results["matrix"], "rtt_ms", "loss_percent")):
        text += " Of repetitions the one with the median rate, range in brackets, worst second and certificate of all."
    doubted = ["", "", "What the emulator objects to:", "", *notes] if notes else []
    return text + "\n\n" + table(head, rows) + "\n".join(doubted)


def unstable(runs):
    """The mark of an unstable cell."""
    return " **unstable**" if any(map(is_unstable, runs)) else ""


def ramp(seconds, rtt_ms):
    """Time to the steady rate in RTTs."""
    if seconds is None:
        return "never"
    return f"{seconds * 1e3 / rtt_ms:.1f} RTT" if rtt_ms else f"{seconds * 1e3:.0f} ms"


def verdict_of(cells):
    """What the emulator says of these worlds."""
    doubts = [cell["certificate"]["verdict"] for cell in cells if not cell["certificate"]["valid"]]
    return "; ".join(doubts).replace("|", "/").replace("NOT VALID: ", "") or "valid"


def matrix_costs(results):
    """Table 1, what it costs."""
    rows = []
    for _, group in grouped(results["matrix"], "rtt_ms", "loss_percent"):
        cell = representative(group)
        run = cell["runs"]["howdah"]
        if "error" not in run:
            rows.append([f"{cell['rtt_ms']:g} ms", loss(cell["loss_percent"]), kibibytes(run["feedback_bytes_per_gib"]),
                         percent(run["loss_seen"], 2), percent(run["repeated_share"], 2),
                         cpu(run["sender_cpu_s_per_gbit"]), cpu(run["receiver_cpu_s_per_gbit"]),
                         mebibytes(run["sender_rss_bytes"]), mebibytes(run["receiver_rss_bytes"]),
                         percent(run["machine_busy"], 0), percent(run["machine_saturated"], 0)])
    head = [">RTT", ">loss", ">feedback KiB/GiB", ">loss seen", ">sent again", ">CPU s/Gbit sender", ">receiver",
            ">peak MiB sender", ">receiver", ">machine busy", ">saturated"]
    return (
        "What these runs of howdah cost, over their whole length. CPU s/Gbit is also cores per Gbit/s; busy and "
        "saturated: share of all processor time in use, and of quarter-seconds with less than 5 % to spare, "
        "during the run of howdah.\n\n" + table(head, rows)
    )


def cable_median(group, name):
    """Of repetitions over a cable the run with the median rate, or None if all failed."""
    return median_run(good(group, name), lambda run: run["mean_bps"])


def cable(results):
    """Table 2."""
    rows = []
    for (mtu,), group in reversed(grouped(results["cable"], "mtu")):
        for name, title in (("howdah", "howdah, sealed"), ("cubic", "TCP CUBIC, in the clear")):
            runs, run = good(group, name), cable_median(group, name)
            if run:
                text, goal = gbit(run["mean_bps"]), GOAL_CABLE_BPS.get(mtu, 0.0) if name == "howdah" else 0.0
                rates = [each["mean_bps"] for each in runs]
                rows.append([mtu, title, short(run["mean_bps"] / 1e9, goal / 1e9, text, "", 2),
                             f"{gbit(min(rates))} to {gbit(max(rates))}", gbit(run["steady_bps"]),
                             cpu(run["sender_cpu_s_per_gbit"]), cpu(run["receiver_cpu_s_per_gbit"]),
                             percent(run["machine_busy"], 0)])
            for each in group:
                if "error" in each["runs"].get(name, {}):
                    rows.append([mtu, title, failed(each["runs"][name]), "", "", "", "", ""])
    repeats = max((len(group) for _, group in grouped(results["cable"], "mtu")), default=0)
    seconds = results["cable"][0]["seconds"] if results["cable"] else 0
    head = [">MTU", "transport", ">Gbit/s", ">range", ">second half", ">CPU s/Gbit sender", ">receiver", ">machine busy"]
    return (
        f"### Table 2: a veth pair between two namespaces, no emulator\n\nOne session or flow, {seconds:g} s, "
        f"{repeats} run{'s' * (repeats != 1)} each, the one with the median rate; Gbit/s of payload that arrived over "
        f"the whole run, start and end included.\n\n" + table(head, rows)
    )


def peak_memory(results):
    """Peak resident bytes of sender and receiver in the cell that counts, most of its repetitions."""
    cells = [c for c in results["matrix"] if (c["rtt_ms"], c["loss_percent"]) == MEMORY_CELL]
    runs = good(cells)
    return [max(run[f"{side}_rss_bytes"] for run in runs) for side in ("sender", "receiver")] if runs else None


def memory(results):
    """Table 3."""
    title = "### Table 3: peak memory at 10 Gbit/s, 400 ms, 2 %\n\n"
    peak = peak_memory(results)
    if not peak:
        return title + "Not measured in this run: it comes from the cell of 400 ms and 2 %."
    rows = [
        [side, mebibytes(count),
         "met" if count <= GOAL_RSS_BYTES else f"**short by {mebibytes(count - GOAL_RSS_BYTES)} MiB**"]
        for side, count in zip(("sender", "receiver"), peak)
    ]
    return title + table(["process", ">peak resident MiB", f"at most {GOAL_RSS_BYTES // MIB} MiB"], rows)


def feedback(results):
    """Table 4."""
    title = "### Table 4: feedback per GiB\n\n"
    found = [(run["feedback_bytes_per_gib"], cell) for cell in results["matrix"] for run in good([cell])
             if run["feedback_bytes_per_gib"] is not None]
    if not found:
        return title + "Not measured in this run: it comes from the cells of table 1."
    most, where = max(found, key=lambda pair: pair[0])
    least = min(value for value, _ in found)
    limit = GOAL_FEEDBACK_BYTES_PER_GIB
    verdict = "met" if most <= limit else f"**short by {kibibytes(most - limit)} KiB**"
    row = [kibibytes(least), kibibytes(most), f"{where['rtt_ms']:g} ms, {loss(where['loss_percent'])}", verdict]
    return title + f"IP bytes from receiver to sender, over {len(found)} runs of table 1.\n\n" + table(
        [">least KiB/GiB", ">most KiB/GiB", "there", f"at most {limit // 1024} KiB/GiB"], [row])


def file_median(results, name):
    """Of repetitions of table 5 the copy with the median time, with its ratio to zero: to null:."""
    pairs = [
        {**result["runs"][name], "ratio": result["runs"][name]["seconds"] / result["runs"]["made_up"]["seconds"]}
        for result in results
        if "error" not in result["runs"][name] and "error" not in result["runs"]["made_up"]
    ]
    return median_run(pairs, lambda run: run["seconds"])


def file_verdict(run):
    """Words and verdict on one copy of the file."""
    text = f"{run['ratio']:.2f} x, limited by the {run['bottleneck']}"
    if not run["same_bytes"]:
        return f"{text}, **the bytes differ**", False
    return text, run["ratio"] <= GOAL_FILE_RATIO or run["bottleneck"] != "network"


def files(results):
    """Table 5."""
    rows = []
    for name, title in (("made_up", "zero: to null:"), ("cold", "disk to disk, cold cache"),
                        ("warm", "disk to disk, warm cache")):
        run = file_median(results["file"], name)
        errors = [result["runs"][name] for result in results["file"] if "error" in result["runs"][name]]
        if run:
            is_file = name != "made_up"
            same = {True: "yes", False: "**no**"}[run["same_bytes"]] if is_file else "-"
            verdict = ("met" if file_verdict(run)[1] else f"**short by {run['ratio'] - GOAL_FILE_RATIO:.2f} x**"
                       if run["same_bytes"] else "**the bytes differ**") if is_file else "-"
            rows.append([title, f"{run['seconds']:.2f}", f"{run['ratio']:.2f}", gbit(run["mean_bps"]),
                         run["bottleneck"], run["verified"], same, cpu(run["sender_cpu_s_per_gbit"]),
                         cpu(run["receiver_cpu_s_per_gbit"]), verdict])
        rows += [[title, failed(error), *[""] * 8] for error in errors]
    size = results["file"][0]["bytes"] if results["file"] else 0
    kind = results["file"][0]["filesystem"] if results["file"] else "?"
    alone = [result["disk_alone"] for result in results["file"]]
    plain = median_run([run for run in alone if "error" not in run], lambda run: run["seconds"])
    note = f" A plain copy on that disk (`dd conv=fsync`, cold cache) takes {plain['seconds']:.2f} s." if plain else ""
    doubts = verdict_of(results["file"])
    head = ["", ">seconds", ">ratio", ">Gbit/s", "limited by", "verified", "same bytes (cmp)", ">CPU s/Gbit sender",
            ">receiver", f"at most {GOAL_FILE_RATIO} x, or the bottleneck named"]
    return (
        f"### Table 5: a file of {size / GIB:g} GiB through 100 ms and 1 %\n\nTime from the call to the confirmed end: "
        f"for the file that is hashed, written, fsynced and renamed, from and to the same disk ({kind}).{note} "
        f"Certificate: {doubts}.\n\n" + table(head, rows)
    )
