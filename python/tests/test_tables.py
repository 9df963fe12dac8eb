"""Tables in whatever reads Arrow have the figures of the command line."""

import http.server
import subprocess
import threading

import duckdb
import pandas
import polars
import pyarrow
import pytest
from conftest import command

import memtap
from memtap._polars import conditions


def test_each_table_has_its_schema_and_its_rows(trace):
    for name in trace.tables:
        table = trace[name]
        whole = pyarrow.table(table)
        assert whole.schema == pyarrow.schema(table), name
        assert whole.column_names == table.columns
        assert whole.schema.metadata == {b"memtap.tables": memtap.TABLES_VERSION.encode()}
        known = trace.rows(name)
        assert known is None or known == whole.num_rows, name
    assert trace.closed and trace.problems() == []


def test_figures_are_those_of_stat(trace, stat):
    kinds = pyarrow.table(trace.accesses.scan(["kind"])).column("kind").to_pylist()
    for kind, key in [("load", "loads"), ("store", "stores"), ("modify", "modifies")]:
        assert kinds.count(kind) == stat[key]
    variables = pyarrow.table(trace.variables).to_pylist()
    assert sum(row["loads"] for row in variables) == stat["loads"]
    cells = [row for row in variables if row["name"].startswith("malloc") or "calloc" in row["name"]]
    assert sum(row["modifies"] + row["loads"] + row["stores"] for row in cells) >= 2 * 2000 * 16


def test_parts_are_what_conditions_leave(trace):
    whole = polars.DataFrame(trace.accesses)
    thread, middle = whole["thread"].max(), int(whole["cycle"].max()) // 2
    part = polars.DataFrame(trace.accesses.scan(["cycle", "addr"], cycles=(0, middle), threads=[thread], kinds=["store"]))
    wanted = whole.filter(
        polars.col("cycle") < middle, polars.col("thread") == thread, polars.col("kind").cast(str) == "store"
    ).select("cycle", "addr")
    assert part.equals(wanted) and 0 < part.height < whole.height


def test_batches_come_in_order_or_all_the_same(trace):
    table = trace.accesses.scan(["thread", "cycle", "addr"], batch_rows=1000)
    sizes = [len(batch) for batch in table]
    assert max(sizes) <= 1000 and sum(sizes) == trace.rows("accesses")
    ordered = polars.DataFrame(table)
    any_order = polars.concat([polars.DataFrame(batch) for batch in table.batches(ordered=False)])
    keys = ["thread", "cycle", "addr"]
    assert any_order.sort(keys).equals(ordered.sort(keys))


def test_a_reader_that_goes_away_ends_the_reading(trace):
    for _ in range(20):
        assert len(next(iter(trace.accesses.scan(batch_rows=10)))) == 10


def test_columns_that_are_expensive_come_if_they_are_named(trace):
    assert "wall_ns" in trace.accesses.columns and "context" not in trace.accesses.columns
    assert polars.DataFrame(trace.accesses.scan(batch_rows=10)).columns == trace.accesses.columns
    table = trace.accesses.scan([*trace.accesses.columns, "context"])
    lazy = memtap.scan_polars(table).filter(polars.col("thread") == 0).select("context").collect()
    own = polars.DataFrame(trace.accesses.scan(["context"], threads=[0]))
    assert table.columns[-1] == "context" and lazy.equals(own) and own["context"].null_count() == 0


def test_contexts_are_those_of_the_accesses(trace):
    accesses = polars.DataFrame(trace.accesses.scan(["context", "kind"]))
    counted = accesses.filter(polars.col("kind").cast(str) != "prefetch").group_by("context").len()
    contexts = polars.DataFrame(trace.contexts)
    total = polars.col("loads") + polars.col("stores") + polars.col("modifies")
    made = contexts.select("context", total.alias("len")).filter(polars.col("len") > 0)
    assert dict(counted.iter_rows()) == dict(made.iter_rows())


def test_accesses_have_times(trace):
    times = polars.DataFrame(trace.accesses.scan(["thread", "wall_ns"]))
    assert times["wall_ns"].null_count() == 0
    for (thread,), own in times.group_by("thread"):
        assert own["wall_ns"].is_sorted(), thread


def test_polars_reads_what_a_query_needs(trace, stat):
    lazy = memtap.scan_polars(trace.accesses)
    counted = lazy.group_by(polars.col("kind").cast(str)).len().collect()
    assert dict(counted.iter_rows())["store"] == stat["stores"]
    whole = polars.DataFrame(trace.accesses)
    low, high = int(whole["addr"].quantile(0.3)), int(whole["addr"].quantile(0.6))
    for wanted in [
        (polars.col("addr") >= low) & (polars.col("addr") < high),
        polars.col("cycle").is_between(5, 2000) & (polars.col("thread") == 0),
        (polars.col("kind").cast(str) == "modify") | (polars.col("size") == 8),
        ~(polars.col("cycle") < 1000),
    ]:
        keys = ["thread", "cycle", "addr"]
        found = lazy.filter(wanted).select(keys).collect().sort(keys)
        assert found.equals(whole.filter(wanted).select(keys).sort(keys)), wanted
    assert lazy.head(17).collect().height == 17
    assert memtap.scan_polars(trace.threads).collect().height == stat["threads"]


def test_polars_conditions_are_understood():
    cycle, address = polars.col("cycle"), polars.col("addr")
    both = (cycle >= 5) & (address < 0x2000) & (polars.lit(9) > cycle)
    assert conditions(both, "accesses") == {"cycles": (5, 9), "addresses": (0, 0x2000)}
    assert conditions(cycle == 7, "syncs") == {"cycles": (7, 8)}
    assert conditions(polars.col("kind") == "load", "accesses") == {"kinds": ["load"]}
    assert conditions(polars.col("kind") == "mutex", "syncs") == {}
    assert conditions((cycle < 5) | (address < 5), "accesses") == {}
    assert conditions(cycle < 5, "variables") == {}


def test_duckdb_and_pandas_take_tables(trace, stat):
    accesses = trace.accesses
    found = duckdb.sql("SELECT count(*) FROM accesses WHERE kind = 'load'").fetchall()
    assert found == [(stat["loads"],)]
    assert accesses is not None
    frame = pyarrow.table(trace.variables).to_pandas()
    assert isinstance(frame, pandas.DataFrame) and int(frame["stores"].sum()) == stat["stores"]


def test_what_can_not_be_is_said(trace, tmp_path):
    with pytest.raises(KeyError, match="there is no table access; there are accesses"):
        trace["access"]
    with pytest.raises(AttributeError, match="its tables are accesses"):
        trace.access
    with pytest.raises(KeyError, match="variables has no column adr"):
        trace.variables.scan(["adr"])
    with pytest.raises(ValueError, match="variables is read whole"):
        trace.variables.scan(cycles=(0, 5))
    with pytest.raises(ValueError, match="load, store, modify, prefetch; not lode"):
        trace.accesses.scan(kinds=["lode"])
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"no trace " * 99)
    said = memtap_says("stat", foreign)
    with pytest.raises(memtap.MemtapError) as raised:
        memtap.open(foreign)
    assert str(raised.value) == said
    with pytest.raises(memtap.MemtapError) as raised:
        memtap.stat(foreign)
    assert str(raised.value) == said
    with pytest.raises(memtap.MemtapError, match="no-such-program"):
        memtap.record(["no-such-program"], output=tmp_path / "none.memtap")
    with pytest.raises(memtap.MemtapError, match="there is no program"):
        memtap.record([])


def test_a_store_that_is_not_set_up_says_so(monkeypatch):
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_USE_EMULATOR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(memtap.MemtapError, match="its store is not set up: Account must be specified"):
        memtap.open("az://traces/run.memtap")


def test_exported_tables_are_the_tables(trace, tmp_path):
    def export(*words, to):
        said = subprocess.run([command(), "export", trace.path, "--format", "parquet", "-o", to, *words], capture_output=True, text=True)
        return said.returncode, said.stderr

    accesses = tmp_path / "accesses.parquet"
    assert export(to=accesses) == (0, "")
    keys = ["thread", "cycle", "addr", "size", "ip"]
    read = polars.read_parquet(accesses)
    assert read.select(keys).sort(keys).equals(polars.DataFrame(trace.accesses).select(keys).sort(keys))
    counted = duckdb.sql(f"SELECT count(*), sum(addr) FROM '{accesses}' WHERE kind = 'store'").fetchall()
    whole = polars.DataFrame(trace.accesses).filter(polars.col("kind").cast(str) == "store")
    assert counted == [(whole.height, sum(whole["addr"].to_list()))]
    variables = tmp_path / "variables.parquet"
    assert export("--table", "variables", to=variables) == (0, "")
    assert pandas.read_parquet(variables)["loads"].sum() == polars.DataFrame(trace.variables)["loads"].sum()
    two = tmp_path / "two.parquet"
    assert export("--query", "SELECT name FROM functions LIMIT 2", to=two) == (0, "")
    assert polars.read_parquet(two).shape == (2, 1)
    status, said = export("--table", "acceses", to=tmp_path / "none.parquet")
    assert status == 1 and "the nearest is accesses" in said
    status, said = export(to=two)
    assert status == 1 and "--force" in said


def memtap_says(*words):
    done = subprocess.run([command(), *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr.strip().removeprefix("memtap: ")


def test_a_damaged_frame_is_told_and_the_rest_is_read(trace, tmp_path):
    """Wherever the file is injured: rows that are lost are told."""
    data = open(trace.path, "rb").read()
    whole = pyarrow.table(trace.accesses).num_rows
    damaged = tmp_path / "damaged.memtap"
    shorter = 0
    for place in range(len(data) // 8, len(data) * 7 // 8, len(data) // 40):
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :])
        cut = memtap.open(damaged)
        for name in ("allocations", "regions", "syncs"):
            pyarrow.table(cut[name])
        rows = pyarrow.table(cut.accesses).num_rows
        if rows < whole:
            shorter += 1
            assert cut.problems() or polars.DataFrame(cut.gaps).height > 0, place
    # Most of the file is accesses and what their blocks are.
    assert shorter > 0


def test_a_catalogue_is_read_without_memtap(trace, stat, tmp_path):
    runs = tmp_path / "runs"
    added = subprocess.run([command(), "catalogue", "add", runs, trace.path], capture_output=True, text=True)
    assert (added.returncode, added.stderr) == (0, f"memtap: {runs}: 1 added\n")
    query = f"SELECT run, loads, stores, threads FROM '{runs}/runs/*.parquet'"
    [(run, *figures)] = duckdb.sql(query).fetchall()
    assert figures == [stat["loads"], stat["stores"], stat["threads"]]
    variables = polars.read_parquet(f"{runs}/variables/*.parquet")
    assert set(variables["run"]) == {run}
    assert variables["loads"].sum() == polars.DataFrame(trace.variables)["loads"].sum()


def test_a_trace_is_read_from_a_web_server(trace, stat):
    class Handler(http.server.BaseHTTPRequestHandler):
        """A file by ranges, which Python's own handler does not know."""

        def do_HEAD(self):
            self.answer(200, trace_bytes, is_sent=False)

        def do_GET(self):
            first, last = self.headers["range"].removeprefix("bytes=").split("-")
            self.answer(206, trace_bytes[int(first) : int(last) + 1], f"bytes {first}-{last}/{len(trace_bytes)}")

        def answer(self, status, part, told=None, is_sent=True):
            if self.path != "/cells.memtap":
                status, part = 404, b""
            self.send_response(status)
            self.send_header("content-length", str(len(part)))
            self.send_header("last-modified", "Sat, 28 Nov 2026 00:00:00 GMT")
            if told:
                self.send_header("content-range", told)
            self.end_headers()
            if is_sent:
                self.wfile.write(part)

        def log_message(self, *_):
            pass

    trace_bytes = trace.path.read_bytes()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/cells.memtap"
    there = memtap.open(address)
    assert there.path == address
    assert polars.DataFrame(there.variables).equals(polars.DataFrame(trace.variables))
    with pytest.raises(memtap.MemtapError, match="there is no such object"):
        memtap.open(address + "s")
    server.shutdown()
