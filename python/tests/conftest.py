"""Recordings of a real program for the tests. The environment's MEMTAP names the command."""

import os
import subprocess

import pytest

import memtap

PROGRAM = r"""
#include <pthread.h>
#include <stdlib.h>
struct cell { long alive, neighbours; };
long totals[16];
static void *count(void *at) {
    struct cell *cells = at;
    for (int turn = 0; turn < 2000; turn++)
        for (int i = 0; i < 16; i++) cells[i].alive += totals[i] + turn;
    return 0;
}
int main(void) {
    pthread_t other;
    struct cell *mine = calloc(16, sizeof *mine), *its = calloc(16, sizeof *its);
    pthread_create(&other, 0, count, its);
    pthread_join(other, 0);
    count(mine);
    return mine[3].alive == its[3].alive ? 0 : 1;
}
"""


@pytest.fixture(scope="session")
def trace(tmp_path_factory):
    place = tmp_path_factory.mktemp("program")
    source, program = place / "cells.c", place / "cells"
    source.write_text(PROGRAM)
    subprocess.run(["cc", "-g", "-O1", "-pthread", source, "-o", program], check=True)
    done = memtap.run([program], output=place / "cells.memtap")
    assert done.status == 0, done.stderr
    return done.trace


@pytest.fixture(scope="session")
def stat(trace):
    return memtap.stat(trace)


def totals(rows):
    return {kind: sum(row[kind] for row in rows) for kind in ("loads", "stores", "modifies")}


def command():
    return os.environ.get("MEMTAP", "memtap")
