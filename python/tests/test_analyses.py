"""Recording and the analyses."""

import memtap


def test_analyses_are_rows(trace, stat):
    assert memtap.races(trace) == []
    assert isinstance(memtap.errors(trace), list)
    types = memtap.layout(trace)
    assert any("cell" in str(row) for row in types)
    shared = memtap.lines(trace)
    assert isinstance(shared, list)
    assert stat == memtap.ask("stat", trace.path)


def test_a_status_of_the_program_is_kept(tmp_path):
    done = memtap.run(["sh", "-c", "exit 7"], output=tmp_path / "seven.memtap")
    assert done.status == 7 and done.trace.closed
    again = memtap.run(["true"], output=tmp_path / "seven.memtap", force=True)
    assert again.status == 0
