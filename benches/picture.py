"""Draws table 1 of docs/performance.md as a picture: docs/heatmap.svg. No figure comes from anywhere else.

    python3 benches/picture.py
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE, PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "heatmap.svg"
COLUMNS = {"howdah": "howdah (encrypted)", "TCP BBR": "kernel TCP BBR", "TCP CUBIC": "kernel TCP CUBIC"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 58, 40, 62, 70, 26
LINK_GBIT = 10.0
# A colour scale that also works in grey: dark is slow, light is fast (viridis, nine of its steps).
SCALE = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")


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


def colour(gbit):
    """Background and ink of a cell."""
    step = min(int(gbit / LINK_GBIT * len(SCALE)), len(SCALE) - 1)
    return SCALE[step], "#000" if step >= 5 else "#fff"


def number(gbit):
    """A rate in Gbit/s, in two digits."""
    return f"{gbit:.1f}" if gbit >= 0.95 else f"{gbit:.2g}"


def draw(found):
    """The picture."""
    rtts = sorted({key[0] for key in found})
    losses = sorted({key[1] for key in found})
    panel = WIDTH * len(losses)
    wide = LEFT + len(COLUMNS) * (panel + GAP)
    high = TOP + HEIGHT * len(rtts) + 62
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="img" '
        'aria-label="Goodput by round-trip time and loss" font-family="system-ui, sans-serif" font-size="13">',
        "<style>.t{fill:#1a1a1a}.p{fill:#fff}@media(prefers-color-scheme:dark){.t{fill:#e8e8e8}.p{fill:#14161a}}</style>",
        f'<rect class="p" width="{wide}" height="{high}"/>',
        f'<text class="t" x="{LEFT}" y="22" font-size="15">Payload that arrives over an emulated 10 Gbit/s path, Gbit/s</text>',
    ]
    for index, (name, title) in enumerate(COLUMNS.items()):
        x0 = LEFT + index * (panel + GAP)
        out.append(f'<text class="t" x="{x0 + panel / 2}" y="{TOP - 20}" text-anchor="middle" font-weight="600">{title}</text>')
        for column, loss in enumerate(losses):
            x = x0 + column * WIDTH
            out.append(f'<text class="t" x="{x + WIDTH / 2}" y="{TOP + HEIGHT * len(rtts) + 18}" text-anchor="middle">{loss:g} %</text>')
            for line, rtt in enumerate(rtts):
                if (rtt, loss, name) not in found:
                    continue
                gbit, vouched = found[rtt, loss, name]
                paper, ink = colour(gbit)
                y = TOP + line * HEIGHT
                out.append(f'<rect x="{x}" y="{y}" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="3" fill="{paper}"/>')
                text = number(gbit) + ("" if vouched else "*")
                out.append(f'<text x="{x + WIDTH / 2 - 1}" y="{y + HEIGHT / 2 + 4}" text-anchor="middle" fill="{ink}">{text}</text>')
    for line, rtt in enumerate(rtts):
        out.append(f'<text class="t" x="{LEFT - 8}" y="{TOP + line * HEIGHT + HEIGHT / 2 + 4}" text-anchor="end">{rtt:g} ms</text>')
    foot = "RTT down, loss in both directions across; mean of the second half of a run. * the emulator does not vouch for the cell."
    out.append(f'<text class="t" x="{LEFT}" y="{high - 14}" font-size="12">{foot}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    """Writes the picture."""
    PICTURE.write_text(draw(cells(PAGE.read_text())))
    print(f"wrote {PICTURE}", file=sys.stderr)


if __name__ == "__main__":
    main()
