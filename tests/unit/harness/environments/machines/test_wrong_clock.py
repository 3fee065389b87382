"""How far a machine's clock is off, as libfaketime reads it, and a computer that has no such
library."""

from pathlib import Path

import pytest

from maxq.harness.environments.machines import wrong_clock
from maxq.harness.environments.machines.wrong_clock import WrongClock, lacking, spelled


@pytest.mark.parametrize(
    ("offset_ms", "said"),
    [
        (0, "+0.000\n"),
        (1, "+0.001\n"),
        (-1, "-0.001\n"),
        (3_600_000, "+3600.000\n"),
        (-90_125, "-90.125\n"),
    ],
)
def test_an_offset_is_spelled_in_seconds_with_a_sign(offset_ms: int, said: str) -> None:
    assert spelled(offset_ms) == said


def test_a_clock_is_right_at_first_and_off_when_its_file_says_so(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    clock = WrongClock(Path("/lib/f.so"), file)
    assert (file.read_text(), clock.offset_ms) == ("+0.000\n", 0)
    before = file.stat().st_ino
    clock.set(-1500)
    assert (file.read_text(), clock.offset_ms) == ("-1.500\n", -1500)
    assert file.stat().st_ino != before, "replaced, so that nobody reads half of it"
    assert [path.name for path in tmp_path.iterdir()] == ["clock"]


def test_processes_are_started_with_the_library_and_the_file(tmp_path: Path) -> None:
    env = WrongClock(Path("/lib/f.so"), tmp_path / "clock").env
    assert env["LD_PRELOAD"] == "/lib/f.so"
    assert env["FAKETIME_TIMESTAMP_FILE"] == str(tmp_path / "clock")
    assert env["FAKETIME_DONT_FAKE_MONOTONIC"] == "1", "timers run on"
    assert env["NO_FAKE_STAT"] == "1", "files have the times of the kernel"


def test_a_computer_without_the_library_lacks_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrong_clock, "PLACES", (f"{tmp_path}/*/faketime",))
    said = "libfaketime, which sets clocks off, is missing (package libfaketime)"
    assert str(lacking()) == said
    (tmp_path / "any" / "faketime").mkdir(parents=True)
    library = tmp_path / "any" / "faketime" / wrong_clock.NAME
    library.touch()
    assert (wrong_clock.found(), lacking()) == (library, None)
