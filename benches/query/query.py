"""What one question from Python costs, for `cargo xtask bench query`: seconds by the clock, of processor time, and megabytes.

usage: query.py polars TRACE | duckdb FILE.parquet | frame TRACE
"""

import resource
import sys
import time


def polars_groups(path):
    import memtap
    import polars

    accesses = memtap.scan_polars(memtap.open(path).accesses)
    counted = accesses.group_by("variable").len().sort("len", descending=True).head(20)
    return counted.collect().height


def duckdb_groups(path):
    import duckdb

    query = "SELECT variable, count(*) AS n FROM read_parquet($1) GROUP BY variable ORDER BY n DESC LIMIT 20"
    return len(duckdb.execute(query, [path]).fetchall())


def data_frame(path):
    import memtap
    import polars

    columns = ["cycle", "thread", "ip", "addr", "size", "kind"]
    return polars.DataFrame(memtap.open(path).accesses.scan(columns)).height


def main():
    what, path = sys.argv[1:]
    act = {"polars": polars_groups, "duckdb": duckdb_groups, "frame": data_frame}[what]
    # Loading the libraries is not what is measured.
    import duckdb  # noqa: F401
    import memtap  # noqa: F401
    import polars  # noqa: F401

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    rows = act(path)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(wall, cpu, (after - before) / 1024, rows)


main()
