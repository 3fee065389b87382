"""What is said of commands that were interrupted, and which of it is wrong."""

import signal
import sys
from pathlib import Path

import pytest

from benchmarks.interrupts import (
    COMMANDS,
    SPAN_S,
    Interrupt,
    interrupted,
    moments,
    repeated,
)
from maxq.harness.cli.given.failures import RESUMED

ENDED = Interrupt(3.0, signal.SIGTERM, took=0.5, code=143)
OBEDIENT = """
import pathlib, signal, sys, time
def end(*_):
    print("go on:   maxq again", file=sys.stderr, flush=True)
    raise SystemExit(143)
signal.signal(signal.SIGTERM, end)
for n in range(3):
    pathlib.Path("journal.jsonl").open("a").write('{"seed": %d}\\n' % n)
time.sleep(60)
"""


def test_every_command_that_goes_on_is_interrupted() -> None:
    assert {name.split(",")[0].split()[0] for name in COMMANDS} == RESUMED


def test_moments_are_of_every_part_and_the_same_again() -> None:
    drawn = [*moments(10, 1)]
    assert drawn == [*moments(10, 1)] == sorted(drawn)
    assert drawn != [*moments(10, 2)]
    assert 1 <= drawn[0] < SPAN_S / 8 < SPAN_S * 7 / 8 < drawn[-1] < SPAN_S


@pytest.mark.parametrize(
    "wrong",
    [{"took": 5.1}, {"code": 255}, {"said": False}, {"stayed": ("process 7",)}, {"kept": False},
     {"over_before": True, "code": 255}],
)  # fmt: skip
def test_what_must_not_be(wrong: dict[str, object]) -> None:
    assert ENDED.good
    assert ENDED._replace(over_before=True, code=0).good
    assert not ENDED._replace(**wrong).good  # type: ignore[arg-type]


def test_a_step_that_is_made_twice_is_counted_unless_it_failed() -> None:
    lines = [b'{"seed": 1}', b'{"seed": 2, "error": "no"}', b'{"seed": 2}', b'{"seed": 1}']
    assert repeated(lines, "seed") == 1
    assert repeated(lines, "") == 0


def test_a_command_that_obeys(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    words = [sys.executable, "-c", OBEDIENT]
    seen = interrupted(words, tmp_path, 30, signal.SIGTERM, more=3)
    assert seen.good, seen.line()
    assert (seen.before, seen.after, seen.code) == (0, 3, 143)
