"""Delay progress: what a master says of its delay levels."""

import pytest
from pair_histories import Told, delivered

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.replication.pairs.delay_progress import DelayProgress

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1")},
    settings={"broker:enableSlaveActingMaster": "true", "broker:enableControllerMode": "false"},
)


def judge(r: Told) -> Verdict:
    return DelayProgress().check(r.history, CONTEXT)


@pytest.mark.parametrize("at", [4, 5])
def test_progress_up_to_the_end_is_sound(at: int) -> None:
    assert judge(delivered({"1": (9, 9), "2": (at, 5)})).of("kept") == ("P7",)


def test_progress_beyond_the_end_is_blamed() -> None:
    [found] = judge(delivered({"1": (9, 9), "2": (6, 5)})).anomalies
    assert (found.claim, found.name) == ("P7", "progress-beyond-queue")
    assert found.detail == {
        "set": "b0", "node": "b0-0", "level": "2", "progress": 6, "end": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    "history",
    [{"node": "b0-1"}, {"isolated": True}, {"times": 1}, {"strikes": "b0-0"}],
    ids=["a slave", "isolated", "just online", "struck in between"],
)
def test_it_may_be_so_of(history: dict[str, object]) -> None:
    assert judge(delivered({"2": (6, 5)}, **history)).of("no occasion") == ("P7",)  # type: ignore[arg-type]


def test_where_no_message_was_delayed_there_is_no_occasion() -> None:
    assert judge(delivered(None)).of("no occasion") == ("P7",)
