"""A table as a source of polars."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

if TYPE_CHECKING:
    import polars

    from ._memtap import Table

#: Columns whose ranges a scan can leave out, and what they are called there.
_RANGES = {"cycle": "cycles", "addr": "addresses", "ip": "instructions"}
#: One more than the largest number.
_END = 2**64
_TURNED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq", "Eq": "Eq"}
#: Tables whose rows can be left out.
_NARROWED = ("accesses", "allocations", "syncs")


def scan_polars(table: "Table") -> "polars.LazyFrame":
    """A table as a LazyFrame of polars.

    Columns that the query does not use are not read. Conditions on ``cycle``, ``addr``, ``ip``, ``thread`` and ``kind`` leave out whole
    frames of the trace. All cores read, so rows come in no certain order: sort where it matters.
    """
    import polars
    from polars.io.plugins import register_io_source

    def source(
        with_columns: Optional[List[str]],
        predicate: Optional["polars.Expr"],
        n_rows: Optional[int],
        batch_size: Optional[int],
    ) -> Iterator["polars.DataFrame"]:
        wanted = table.scan(with_columns, batch_rows=batch_size, **conditions(predicate, table.name))
        for batch in wanted.batches(ordered=False):
            rows = polars.DataFrame(batch)
            if predicate is not None:
                rows = rows.filter(predicate)
            if n_rows is not None:
                rows = rows.head(n_rows)
                n_rows -= rows.height
            yield rows
            if n_rows == 0:
                return

    return register_io_source(source, schema=polars.Schema(table), is_pure=True)


def conditions(predicate: Optional["polars.Expr"], table: str) -> Dict[str, Any]:
    """What of a condition a scan can leave out by itself. Rows are filtered afterwards, so that what isn't understood is no loss."""
    if predicate is None or table not in _NARROWED:
        return {}
    import warnings

    try:
        with warnings.catch_warnings():
            # polars gives no promise for this form: what it does not say in it is read.
            warnings.simplefilter("ignore")
            tree = json.loads(predicate.meta.serialize(format="json"))
    except Exception:
        return {}
    ranges: Dict[str, Tuple[int, int]] = {}
    kinds: List[str] = []
    threads: List[int] = []
    for column, operator, value in _comparisons(tree):
        if column in _RANGES and isinstance(value, int):
            low, high = ranges.get(column, (0, _END - 1))
            from_, to = _range(operator, value)
            ranges[column] = max(low, from_), min(high, to)
        elif column == "kind" and operator == "Eq" and isinstance(value, str) and table == "accesses":
            kinds.append(value)
        elif column == "thread" and operator == "Eq" and isinstance(value, int):
            threads.append(value)
    found: Dict[str, Any] = {_RANGES[column]: (low, max(low, high)) for column, (low, high) in ranges.items()}
    # Two different ones would leave nothing; that is left to polars.
    if len(set(kinds)) == 1 and kinds[0] in ("load", "store", "modify", "prefetch"):
        found["kinds"] = kinds[:1]
    if len(set(threads)) == 1 and 0 <= threads[0] < 2**32:
        found["threads"] = threads[:1]
    return found


def _range(operator: str, value: int) -> Tuple[int, int]:
    low, high = {
        "Eq": (value, value + 1),
        "Lt": (0, value),
        "LtEq": (0, value + 1),
        "Gt": (value + 1, _END - 1),
        "GtEq": (value, _END - 1),
    }[operator]
    return min(max(low, 0), _END - 1), min(max(high, 0), _END - 1)


def _comparisons(tree: Any) -> Iterator[Tuple[str, str, Any]]:
    """The comparisons of a column with a value that must all hold."""
    both = tree.get("BinaryExpr") if isinstance(tree, dict) else None
    if not isinstance(both, dict):
        return
    operator = both.get("op")
    left, right = both.get("left"), both.get("right")
    if operator in ("And", "LogicalAnd"):
        yield from _comparisons(left)
        yield from _comparisons(right)
        return
    if operator not in _TURNED:
        return
    column, value = _column(left), _value(right)
    if column is None:
        column, value, operator = _column(right), _value(left), _TURNED[operator]
    if column is not None and value is not None:
        yield column, operator, value


def _column(tree: Any) -> Optional[str]:
    if isinstance(tree, dict):
        if isinstance(tree.get("Column"), str):
            return tree["Column"]
        if "Cast" in tree:
            return _column(tree["Cast"].get("expr"))
    return None


def _value(tree: Any) -> Any:
    """The number or text of a literal, however it is wrapped."""
    if isinstance(tree, dict):
        if "Cast" in tree:
            return _value(tree["Cast"].get("expr"))
        if "Literal" in tree:
            tree = tree["Literal"]
            while isinstance(tree, dict) and len(tree) == 1:
                tree = next(iter(tree.values()))
            if isinstance(tree, (int, str)) and not isinstance(tree, bool):
                return tree
    return None
