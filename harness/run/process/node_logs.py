"""What nodes wrote around a moment: lines of their logs before and after it.

A log may have a gigabyte, so it is searched by halves: its lines are in order of time, and a few
kilobytes around the moment are read. Nodes of ours stamp their lines by the clock of the harness
(``at_ns``), those of RocketMQ by the time of day in the zone of their machine, which the first
lines of the logs of a run show. Lines without a stamp belong to the one before. Times are ns of the
history.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from maxq.checkers.judgement.digest import brokers_by_address, named
from maxq.harness.known.harm import Clock
from maxq.harness.known.run_artifacts import LOG, events
from maxq.harness.report.evidence import Evidence, Excerpt

BEFORE, AFTER = 30, 30  # lines
LINE_MAX, HEAD_LINES = 400, 2000  # characters of a line; lines in which a log's first stamp is
CHUNK, CHUNK_MAX = 1 << 15, 1 << 20  # bytes read at a time, and at most, for so many lines
FINDINGS_MAX, NODES_MAX = 8, 6  # whose logs are shown
_NODE = re.compile(r"\b[a-z]\d+(?:-\d+)?\b")  # as nodes are called
_OURS = re.compile(rb'\{"at_ns": ?(\d{1,18}),')
_OF_DAY = re.compile(rb"(\d\d:\d\d:\d\d\.\d{3}) ")
Stamp = Callable[[bytes], int | None]  # the time of a line, if it has one


def with_logs(evidence: Evidence, run: Path) -> Evidence:
    """The same, with what the nodes that each finding names wrote around its moment.

    Raises:
        OSError: a log cannot be read.
    """
    logs = paths(run)
    findings = evidence.results.findings[:FINDINGS_MAX]
    if not logs or not findings:
        return evidence
    stamp = stamp_of(evidence.config, logs.values())
    brokers = brokers_by_address(evidence.history)
    rows = {row.number: row for row in evidence.rows}
    found: dict[int, tuple[Excerpt, ...]] = {}
    for number, harm in enumerate(findings, start=1):
        row = rows.get(number)
        at_ns = row.seen_ns if row is not None else harm.first_ns
        said = _NODE.findall(named(harm.story, brokers))
        nodes = dict.fromkeys([*said, harm.node, *(row.nodes if row is not None else ())])
        about = [logs[node] for node in nodes if node in logs][:NODES_MAX] if at_ns >= 0 else []
        read = (excerpt(run, log, stamp, at_ns) for log in about)
        found[number] = tuple(one for one in read if one is not None)
    return msgspec.structs.replace(evidence, logs=found)


def paths(run: Path) -> dict[str, Path]:
    """The logs of a run that hold something, by node."""
    return {
        path.parent.name: path
        for path in sorted((run / "nodes").glob(f"*/{LOG}"))
        if path.is_file() and path.stat().st_size
    }


def stamp_of(config: Mapping[str, Any], logs: Iterable[Path]) -> Stamp:
    """How lines of these logs are stamped, in a run that was set up so."""
    heads = {}
    for path in logs:
        with path.open(encoding="utf-8", errors="replace") as lines:
            heads[path.parent.name] = tuple(islice(events(islice(lines, HEAD_LINES)), 1))
    zero_wall_ms = config.get("zero_wall_ms")
    clock = Clock(zero_wall_ms if isinstance(zero_wall_ms, int) else None, heads)
    zero_ns = _zero_ns(config)

    def at(line: bytes) -> int | None:
        if ours := _OURS.match(line):
            return int(ours[1]) - zero_ns
        of_day = _OF_DAY.match(line)
        return clock.ns(of_day[1].decode()) if of_day else None

    return at


def _zero_ns(config: Mapping[str, Any]) -> int:
    """Where the history begins on the clock of our nodes: at 0 in the simulator."""
    wall_ms, since_ns = config.get("zero_wall_ms"), config.get("start_monotonic_ns")
    if not isinstance(wall_ms, int) or not isinstance(since_ns, int):
        return 0
    try:
        started = datetime.fromisoformat(str(config.get("start_wall"))).timestamp()
    except ValueError:
        return since_ns
    return since_ns + round(wall_ms * 1e6 - started * 1e9)


def excerpt(run: Path, log: Path, stamp: Stamp, at_ns: int) -> Excerpt | None:
    """The lines of a log around a moment; None where no line has a time.

    Raises:
        OSError: the log cannot be read.
    """
    with log.open("rb") as file:
        lines = around(file, stamp, at_ns)
    if lines is None:
        return None
    before, after = map(_texts, lines)
    path = log.relative_to(run).as_posix()
    return Excerpt(node=log.parent.name, path=path, at_ns=at_ns, before=before, after=after)


def around(
    file: BinaryIO, stamp: Stamp, at_ns: int
) -> tuple[Sequence[bytes], Sequence[bytes]] | None:
    """The last `BEFORE` lines before a moment, and the first `AFTER` from it on; None where no line
    has a time."""
    size = file.seek(0, 2)
    place = _place(file, size, stamp, at_ns)
    if place is None:
        return None
    file.seek(place)
    after = list(islice(iter(lambda: file.readline(CHUNK_MAX), b""), AFTER))
    return _back(file, place), [line.rstrip(b"\r\n") for line in after]


def _place(file: BinaryIO, size: int, stamp: Stamp, at_ns: int) -> int | None:
    """Where the first line begins that is not before a moment; `size` if there is none."""
    if _stamped(file, 0, size, stamp) is None:
        return None
    low, high = 0, size  # the line begins at or after `low`; what begins at `high` is not before
    while low < high:
        middle = (low + high) // 2
        found = _stamped(file, middle, high, stamp)
        if found is not None and found[1] < at_ns:
            low = found[2]
        else:
            high = middle
    first = _stamped(file, low, size, stamp)
    return size if first is None else first[0]


def _stamped(file: BinaryIO, start: int, end: int, stamp: Stamp) -> tuple[int, int, int] | None:
    """The first line with a stamp that begins in [start, end): where, when, and where it ends."""
    file.seek(max(0, start - 1))
    at = start
    if start:
        at += len(file.readline(CHUNK_MAX)) - 1
    while at < end:
        line = file.readline(CHUNK_MAX)
        if not line:
            return None
        when = stamp(line)
        if when is not None:
            return at, when, at + len(line)
        at += len(line)
    return None


def _back(file: BinaryIO, place: int) -> Sequence[bytes]:
    """The lines before a place."""
    length = CHUNK
    while True:
        start = max(0, place - length)
        file.seek(start)
        lines = file.read(place - start).splitlines()[1 if start else 0 :]  # the first is a part
        if len(lines) >= BEFORE or not start or length >= CHUNK_MAX:
            return lines[-BEFORE:]
        length *= 4


def _texts(lines: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(line[: LINE_MAX * 4].decode(errors="replace")[:LINE_MAX] for line in lines)
