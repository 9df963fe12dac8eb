"""The notebook runs as it stands."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient


def test_the_notebook_runs():
    path = Path(__file__).parent.parent / "notebooks" / "first.ipynb"
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("gzip.memtap" in str(output) for output in shown)
    assert not any(output.output_type == "error" for output in shown)
