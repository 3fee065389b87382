"""What a run says of itself where there is no terminal."""

import pytest

from maxq.harness.run.process.progress import Progress
from maxq.harness.schedule.options import Options
from maxq.histories.fault_facts import AWAIT_RECOVERY
from maxq.histories.op import NEMESIS, Op

S = 1_000_000_000


def test_a_log_gets_a_line_a_minute_and_each_says_what_is_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A minute of the wall, however fast the time of a simulated run passes."""
    wall = [0.0]
    options = Options(environment="local", seed=1, time_limit_ns=300 * S)
    shown = Progress(options, quiet=False, clock=lambda: wall[0])
    for second in range(0, 301, 2):
        wall[0] = second / 2
        shown.update(second * S, None)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" \u00b7")[0] for line in lines] == [
        "120 s, 180 s left",
        "240 s, 60 s left",
    ]

    wall[0] = 180
    shown.update(301 * S, Op("info", NEMESIS, AWAIT_RECOVERY, None))
    [line] = capsys.readouterr().err.splitlines()
    bound = f"{options.recovery_s:.0f} s"
    assert line.startswith(f"healing, at most {bound} more, then reading everything: 301 s")
    wall[0] = 240
    shown.update(311 * S, Op("info", NEMESIS, AWAIT_RECOVERY, {"cluster": {"holds": True}}))
    shown.update(311 * S, None)
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("reading everything: 311 s")


def test_a_run_that_ends_early_is_not_said_to_have_time_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wall = [0.0]
    options = Options(environment="local", seed=1, time_limit_ns=300 * S)
    shown = Progress(options, quiet=False, clock=lambda: wall[0])
    shown.update(0, None)
    shown.update(20 * S, Op("info", NEMESIS, AWAIT_RECOVERY, None))
    wall[0] = 60
    shown.update(21 * S, None)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("healing, at most ")
