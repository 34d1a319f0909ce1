"""Draws Vega-Lite specifications as SVG and PDF, beside them."""

import sys
from pathlib import Path

try:
    import vl_convert
except ImportError:
    sys.exit(3)

for name in sys.argv[1:]:
    spec = Path(name).read_text(encoding="utf-8")
    stem = name.removesuffix(".vl.json")
    try:
        Path(stem + ".svg").write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
        Path(stem + ".pdf").write_bytes(vl_convert.vegalite_to_pdf(spec))
    except (OSError, ValueError) as error:
        sys.exit(f"{name}: {error}")
