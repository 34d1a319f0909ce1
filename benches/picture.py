"""Draws table 1 of docs/performance.md as a picture: a Vega-Lite specification with its data, docs/heatmap.vl.json, and what vl-convert makes of it,
docs/heatmap.svg. No figure comes from anywhere else.

    pip install vl-convert-python && python3 benches/picture.py
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE, SPEC, PICTURE = (ROOT / "docs" / name for name in ("performance.md", "heatmap.vl.json", "heatmap.svg"))
COLUMNS = {"howdah": "howdah (encrypted)", "TCP BBR": "kernel TCP BBR", "TCP CUBIC": "kernel TCP CUBIC"}
LINK_GBIT = 10.0
# From here on the ground is light.
LIGHT_GBIT = 5.5


def cells(page):
    """(RTT in ms, loss in %, transport) -> (Gbit/s, whether the emulator vouches for the cell)."""
    lines = iter(page.splitlines())
    head = next((line for line in lines if line.startswith("| RTT | loss | bound |")), None)
    if head is None:
        sys.exit("picture: docs/performance.md has no table 1: run benches/run.sh --write-docs")
    names = [re.sub(r" \(.*", "", name.strip()) for name in head.strip("|").split("|")]
    next(lines)
    found = {}
    for line in lines:
        if not line.startswith("|"):
            break
        row = dict(zip(names, (field.strip() for field in line.strip("|").split("|")), strict=True))
        where = float(row["RTT"].split()[0]), float(row["loss"].split()[0])
        for name in COLUMNS:
            rate = re.match(r"[\d.]+", row[name])
            if rate:
                found[(*where, name)] = float(rate[0]), row["certificate"] == "valid"
    return found


def number(gbit):
    """A rate in Gbit/s, in two digits."""
    return f"{gbit:.1f}" if gbit >= 0.95 else f"{gbit:.2g}"


def spec(found):
    """The picture: a panel for each transport, RTT down, loss across, the rate as colour and as number."""
    rows = [
        {"transport": COLUMNS[name], "rtt": f"{rtt:g} ms", "loss": f"{loss:g} %", "gbit": gbit, "text": number(gbit) + ("" if vouched else "*")}
        for (rtt, loss, name), (gbit, vouched) in found.items()
    ]
    rtts, losses = ([f"{value:g} {unit}" for value in sorted({key[at] for key in found})] for at, unit in ((0, "ms"), (1, "%")))

    def axis(field, order, title):
        labels = {"labelAngle": 0, "domain": False, "ticks": False, "labelPadding": 8, "title": title}
        return {"field": field, "type": "ordinal", "sort": order, "axis": labels, "scale": {"padding": 0.03}}

    # Viridis also works in grey: dark is slow, light is fast.
    colour = {"field": "gbit", "type": "quantitative", "legend": None, "scale": {"scheme": "viridis", "domain": [0, LINK_GBIT]}}
    ink = {"condition": {"test": f"datum.gbit >= {LIGHT_GBIT}", "value": "black"}, "value": "white"}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": "Goodput by round-trip time and loss",
        "background": "white",
        "padding": 12,
        "title": {
            "text": "Payload that arrives over an emulated 10 Gbit/s path, Gbit/s",
            "subtitle": "Mean of the second half of a run; loss in both directions. * the emulator does not vouch for the cell.",
            "anchor": "start",
            "subtitlePadding": 6,
        },
        "data": {"values": rows},
        "facet": {"column": {"field": "transport", "type": "nominal", "sort": list(COLUMNS.values()), "title": None, "header": {"labelFontWeight": "bold"}}},
        "spec": {
            "width": {"step": 58},
            "height": {"step": 40},
            "encoding": {"x": axis("loss", losses, None), "y": axis("rtt", rtts, None)},
            "layer": [
                {"mark": {"type": "rect", "cornerRadius": 3}, "encoding": {"color": colour}},
                {"mark": "text", "encoding": {"text": {"field": "text"}, "color": ink}},
            ],
        },
        "config": {"font": "system-ui, sans-serif", "view": {"stroke": None}, "axis": {"labelFontSize": 13}, "header": {"labelFontSize": 13}, "text": {"fontSize": 13}, "title": {"fontSize": 15, "subtitleFontSize": 12}},
    }


def written(found):
    """The specification as it stands in its file."""
    return json.dumps(spec(found), indent=1, ensure_ascii=False) + "\n"


def main():
    """Writes the specification, and the picture."""
    text = written(cells(PAGE.read_text()))
    SPEC.write_text(text)
    try:
        import vl_convert
    except ImportError:
        print(f"picture: wrote {SPEC}, and not {PICTURE.name}: pip install vl-convert-python, then benches/picture.py", file=sys.stderr)
        return
    PICTURE.write_text(vl_convert.vegalite_to_svg(text) + "\n")
    print(f"wrote {SPEC} and {PICTURE}", file=sys.stderr)


if __name__ == "__main__":
    main()
