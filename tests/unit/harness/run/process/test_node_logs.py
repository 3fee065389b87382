"""What nodes wrote around a finding: found in logs of any length, in whatever zone."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.run.process.node_logs import AFTER, BEFORE, around, excerpt, paths, stamp_of

SECOND_NS = 1_000_000_000


def ours(line: bytes) -> int | None:
    return int(line.split()[0]) if line[:1].isdigit() else None


# A line with its time, and how many lines of a trace follow it.
LINES = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 3)), min_size=1, max_size=200)


@given(LINES, st.integers(-10, 510))
def test_lines_around_a_moment_are_those_that_reading_all_would_find(
    lines: list[tuple[int, int]], at_ns: int
) -> None:
    text = [
        part
        for n, (when, traces) in enumerate(sorted(lines))
        for part in (f"{when} line {n}", *[f"\tat trace {k}" for k in range(traces)])
    ]
    whole = [line.encode() for line in text]
    found = around(io.BytesIO(b"\n".join([*whole, b""])), ours, at_ns)
    stamps = [ours(line) for line in whole]
    place = next((n for n, s in enumerate(stamps) if s is not None and s >= at_ns), len(whole))
    assert found == (whole[max(0, place - BEFORE) : place], whole[place : place + AFTER])


def test_a_log_without_times_has_no_lines_around_anything() -> None:
    assert around(io.BytesIO(b"load config properties file OK\n" * 9), ours, 5) is None
    assert around(io.BytesIO(b""), ours, 5) is None


class Counting(io.BytesIO):
    """Counts the bytes that are read."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data

    def readline(self, size: int | None = -1, /) -> bytes:
        data = super().readline(size)
        self.taken += len(data)
        return data


def test_of_a_long_log_little_is_read() -> None:
    log = Counting(b"".join(b"%d a line of a log that is long\n" % n for n in range(500_000)))
    found = around(log, ours, 321_000)
    assert found is not None
    assert found[1][0].startswith(b"321000 ")
    assert log.taken < 100_000 < len(log.getvalue()) // 100


# Midnight of 1970-01-01 in UTC is 0; RocketMQ writes the time of day where it runs.
@pytest.mark.parametrize(("zone_h", "zero_h"), [(0, 6), (8, 6), (-5, 2), (5.75, 23), (0, 23.99)])
def test_times_of_day_are_of_the_zone_in_which_they_were_written(
    tmp_path: Path, zone_h: float, zero_h: float
) -> None:
    log = tmp_path / "nodes" / "b0-0" / "node.log"
    log.parent.mkdir(parents=True)
    zero_s = (zero_h + zone_h) * 3600

    def line(at_s: int) -> str:
        day_s = (zero_s + at_s) % 86_400
        clock = f"{int(day_s // 3600):02}:{int(day_s // 60 % 60):02}:{day_s % 60:06.3f}"
        return f"{clock} INFO  RocketmqBroker - {at_s} s of the run\n"

    log.write_text("Load the config\n" + "".join(line(at_s) for at_s in range(3, 300)))
    config = {"zero_wall_ms": round(zero_h * 3_600_000)}
    stamp = stamp_of(config, paths(tmp_path).values())
    found = excerpt(tmp_path, log, stamp, 120 * SECOND_NS)
    assert found is not None
    assert (found.node, found.path) == ("b0-0", "nodes/b0-0/node.log")
    assert found.before[-1].endswith(" 119 s of the run")
    assert found.after[0].endswith(" 120 s of the run")


def test_our_nodes_stamp_by_the_clock_of_the_harness(tmp_path: Path) -> None:
    log = tmp_path / "nodes" / "b0-0" / "node.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "".join(f'{{"at_ns":{(1000 + at) * SECOND_NS},"trace":"at {at}"}}\n' for at in range(90))
    )
    # The history begins 2 s after the configuration was written, at 1000 s of that clock.
    config = {
        "start_wall": "1970-01-01T00:00:50+00:00",
        "start_monotonic_ns": 1000 * SECOND_NS,
        "zero_wall_ms": 52_000,
    }
    found = excerpt(tmp_path, log, stamp_of(config, [log]), 40 * SECOND_NS)
    assert found is not None
    assert found.after[0].endswith('"at 42"}')
    simulated = stamp_of({}, [log])(b'{"at_ns": 7484839, "trace": "broker.recovered"}')
    assert simulated == 7_484_839
