"""The tables of a trace."""

import os
from typing import Any, Iterator, List, Optional, Sequence, Tuple, Union

__version__: str
TABLES_VERSION: str
TABLES: List[str]

class MemtapError(Exception):
    """What memtap can't do, in one line."""

class Batch:
    """Some rows of a table, as Arrow."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

class Batches:
    """The batches of a table as they are read."""

    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...

class Table:
    """A table of a trace. Nothing is read before somebody takes its rows."""

    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> List[str]: ...
    def scan(
        self,
        columns: Optional[Sequence[str]] = None,
        *,
        cycles: Optional[Tuple[int, int]] = None,
        addresses: Optional[Tuple[int, int]] = None,
        instructions: Optional[Tuple[int, int]] = None,
        threads: Optional[Sequence[int]] = None,
        kinds: Optional[Sequence[str]] = None,
        batch_rows: Optional[int] = None,
    ) -> Table:
        """The same table with fewer columns and rows, or with columns that have to be named. Ranges are pairs of numbers, the second of
        which is no part of it."""
    def batches(self, *, ordered: bool = True) -> Batches:
        """Its batches, one by one. Where their order does not matter each core reads."""
    def __iter__(self) -> Iterator[Batch]: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

class Trace:
    """An open trace, whose tables are read where they lie."""

    accesses: Table
    allocations: Table
    contexts: Table
    fields: Table
    frames: Table
    functions: Table
    gaps: Table
    pages: Table
    processes: Table
    regions: Table
    syncs: Table
    threads: Table
    variables: Table

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, symbols: Sequence[Union[str, "os.PathLike[str]"]] = ()) -> None: ...
    @property
    def path(self) -> Union[str, "os.PathLike[str]"]: ...
    @property
    def tables(self) -> List[str]: ...
    @property
    def closed(self) -> bool:
        """Whether the recording came to its end."""
    def problems(self) -> List[str]:
        """What is missing of the recording and of what was read so far, a line each."""
    def rows(self, table: str) -> Optional[int]:
        """How many rows a table has, where that is known without reading it."""
    def __getitem__(self, name: str) -> Table: ...
