"""What the command ``memtap`` does: recording, and the analyses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Union

from ._memtap import MemtapError, Trace

Path = Union[str, "os.PathLike[str]"]


def _binary() -> str:
    """The command: the environment's ``MEMTAP``, or the first in the path."""
    named = os.environ.get("MEMTAP")
    found = named or shutil.which("memtap")
    if not found:
        raise MemtapError("the command memtap is not in the path; install it, or name it in the environment's MEMTAP")
    return found


def _start(words: Sequence[Path], **options: Any) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run([_binary(), *map(os.fspath, words)], **options)
    except OSError as error:
        raise MemtapError(f"{error.filename}: can't be run: {error.strerror}") from error


def _words(stderr: bytes) -> str:
    """The last line that memtap says, without its name."""
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("memtap: ") if lines else "memtap failed without a word"


@dataclass(frozen=True)
class Run:
    """A run that was recorded."""

    trace: Trace
    #: The exit status of memtap: that of the program, or 1 where something is missing.
    status: int
    #: What memtap and the program said on standard error.
    stderr: str


def run(command: Sequence[Path], *, output: Path = "memtap.memtap", options: Sequence[str] = (), force: bool = False) -> Run:
    """Record a program into the file ``output``, with further ``options`` of ``memtap record``.

    The program has this process's standard input and output.
    """
    if not command:
        raise MemtapError("there is no program to record")
    replace = ["--force"] if force else []
    words = ["record", "-o", output, *replace, *options, "--", *command]
    done = _start(words, stderr=subprocess.PIPE)
    if not os.path.exists(output):
        raise MemtapError(_words(done.stderr))
    stderr = done.stderr.decode(errors="replace")
    return Run(Trace(output), done.returncode, stderr)


def record(command: Sequence[Path], *, output: Path = "memtap.memtap", options: Sequence[str] = (), force: bool = False) -> Trace:
    """Record a program, and open the trace. What is said meanwhile goes to standard error; see also :func:`run`."""
    done = run(command, output=output, options=options, force=force)
    sys.stderr.write(done.stderr)
    return done.trace


def ask(command: str, trace: Union[Trace, Path], *options: str) -> Any:
    """What ``memtap COMMAND FILE --json`` tells, as Python's own values."""
    path = trace.path if isinstance(trace, Trace) else trace
    done = _start([command, path, "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    # 3: there are findings, where --fail-on-... asks for that status.
    if done.returncode not in (0, 3):
        raise MemtapError(_words(done.stderr))
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise MemtapError(f"memtap {command} --json tells nothing that can be read: {error}") from error


def stat(trace: Union[Trace, Path]) -> Dict[str, Any]:
    """What ``memtap stat`` tells: counts, threads, gaps."""
    return ask("stat", trace)


def races(trace: Union[Trace, Path], *options: str) -> List[Dict[str, Any]]:
    """Data races, as ``memtap race`` finds them: a row each."""
    return _rows(ask("race", trace, *options), "races")


def errors(trace: Union[Trace, Path], *options: str) -> List[Dict[str, Any]]:
    """Errors of memory, as ``memtap errors`` finds them: a row each."""
    return _rows(ask("errors", trace, *options), "findings")


def lines(trace: Union[Trace, Path], *options: str) -> List[Dict[str, Any]]:
    """Cache lines that threads share, as ``memtap lines`` finds them: a row each."""
    return _rows(ask("lines", trace, *options), "lines")


def layout(trace: Union[Trace, Path], *options: str) -> List[Dict[str, Any]]:
    """Types of heap blocks and variables and their fields, as ``memtap layout`` tells them: a row for the blocks of a type, one for
    the variables."""
    return _rows(ask("layout", trace, *options), "types")


def _rows(told: Any, key: str) -> List[Dict[str, Any]]:
    return told if isinstance(told, list) else told[key]
