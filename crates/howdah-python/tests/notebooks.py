"""Not collected by itself (the name): the notebooks of docs/notebooks run from top to bottom on their reduced sets, by `make notebooks`, which brings what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat: Any = pytest.importorskip("nbformat", reason="make notebooks runs them")
nbclient: Any = pytest.importorskip("nbclient", reason="make notebooks runs them")
pytest.importorskip("matplotlib", reason="make notebooks runs them")
pytest.importorskip("pandas", reason="make notebooks runs them")

REPOSITORY = Path(__file__).parents[3]
NOTEBOOKS = sorted((REPOSITORY / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_some() -> None:
    assert len(NOTEBOOKS) >= 3


@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_shows_figures(path: Path, tmp_path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), f"{path.name}: commit it without outputs"
    # As in the repository, but with results of its own.
    here = tmp_path / "docs" / "notebooks"
    here.mkdir(parents=True)
    (tmp_path / "scenarios").symlink_to(REPOSITORY / "scenarios")
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(here)}}).execute()
    shown = [output.get("data", {}) for cell in book.cells for output in cell.get("outputs", [])]
    assert any("image/png" in data for data in shown)
    assert any("text/html" in data for data in shown)
