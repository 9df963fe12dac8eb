"""What a program does to its memory, as Arrow tables.

>>> import memtap
>>> trace = memtap.record(["gzip", "-k", "words"])
>>> trace.variables                     # any reader of Arrow takes it: polars, pandas, pyarrow, duckdb
>>> memtap.scan_polars(trace.accesses)  # a LazyFrame whose filters leave out what need not be read

The tables and their columns are those of ``memtap sql``; docs/tables.md of memtap describes them.
"""

from __future__ import annotations

import os
from typing import Sequence, Union

from ._commands import Run, ask, errors, layout, lines, races, record, run, stat
from ._memtap import TABLES, TABLES_VERSION, Batch, Batches, MemtapError, Table, Trace, __version__
from ._polars import scan_polars

__all__ = [
    "TABLES",
    "TABLES_VERSION",
    "Batch",
    "Batches",
    "MemtapError",
    "Run",
    "Table",
    "Trace",
    "__version__",
    "ask",
    "errors",
    "layout",
    "lines",
    "open",
    "races",
    "record",
    "run",
    "scan_polars",
    "stat",
]

Path = Union[str, "os.PathLike[str]"]


def open(path: Path, *, symbols: Sequence[Path] = ()) -> Trace:
    """Open a trace by its path, or by its address in an object store. Files that its names come from are looked for in the directories ``symbols``, too."""
    return Trace(path, symbols=list(symbols))
