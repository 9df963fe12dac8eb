"""Spark on a cluster of two workers: exported tables and catalogues have the figures of `memtap sql` and of `memtap catalogue`."""

import json
import subprocess

import pytest
from conftest import command
from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark():
    # Two worker processes with a core and a gigabyte each, as they would be on two machines.
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.jsonGenerator.ignoreNullFields", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def printed(*words):
    done = subprocess.run([command(), *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def rows(frame):
    """Rows as JSON has them."""
    return [json.loads(line) for line in frame.toJSON().collect()]


# Words that both kinds of SQL have.
QUERIES = [
    "SELECT kind, count(*) AS n FROM accesses GROUP BY kind ORDER BY kind",
    "SELECT variable, count(*) AS n, sum(size) AS bytes FROM accesses GROUP BY variable ORDER BY n DESC, variable NULLS LAST",
    "SELECT thread, min(cycle) AS first, max(cycle) AS last FROM accesses WHERE kind <> 'load' GROUP BY thread ORDER BY thread",
    "SELECT function, count(DISTINCT addr) AS addresses FROM accesses GROUP BY function ORDER BY addresses DESC, function NULLS LAST",
    "SELECT f.name, f.loads, count(*) AS n FROM functions f JOIN accesses a ON a.function = f.name AND a.module = f.module"
    " GROUP BY f.name, f.module, f.loads ORDER BY n DESC, f.name LIMIT 10",
]


def test_exported_tables_have_the_same_answers(spark, trace, tmp_path):
    for table in ("accesses", "functions"):
        file = tmp_path / f"{table}.parquet"
        subprocess.run([command(), "export", trace.path, "--format", "parquet", "--table", table, "-o", file], check=True)
        spark.read.parquet(str(file)).createOrReplaceTempView(table)
    assert spark.sparkContext.master.startswith("local-cluster")
    for query in QUERIES:
        expected = printed("sql", trace.path, query, "--format", "json")
        assert expected and rows(spark.sql(query)) == expected, query


def test_a_catalogue_is_read_as_it_is(spark, trace, tmp_path):
    other, catalogue = tmp_path / "other.memtap", tmp_path / "catalogue"
    subprocess.run([command(), "copy", trace.path, "-o", other], check=True, capture_output=True)
    subprocess.run([command(), "catalogue", "add", catalogue, trace.path, other], check=True, capture_output=True)
    for table in ("runs", "variables", "pages"):
        spark.read.parquet(str(catalogue / table)).createOrReplaceTempView(table)
    for query in (
        "SELECT count(*) AS runs, sum(loads) AS loads FROM runs",
        "SELECT name, count(*) AS runs, sum(stores) AS stores FROM variables GROUP BY name ORDER BY stores DESC, name",
        "SELECT r.path, count(*) AS pages FROM pages p JOIN runs r ON p.run = r.run GROUP BY r.path ORDER BY r.path",
    ):
        expected = printed("catalogue", "query", catalogue, query, "--format", "json")
        assert expected and rows(spark.sql(query)) == expected, query
