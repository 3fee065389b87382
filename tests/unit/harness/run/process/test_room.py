"""Room for a run on the disk of its store."""

import errno
from pathlib import Path

import pytest

from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.run.process import room
from maxq.harness.run.process.room import Room, needed, warning
from maxq.harness.schedule.options import Options

S = 1_000_000_000
RUN = Options(environment="local", seed=1, rate=200.0, time_limit_ns=40 * S)


def test_a_run_is_refused_only_where_it_certainly_does_not_fit() -> None:
    store, most = Path("/s"), needed(RUN)
    assert 6_000_000 < most < 20_000_000, "measured: 6.3 MB"
    assert warning(RUN, store, most) == ""
    assert "ends early once the store is nearly full" in warning(RUN, store, most - 1)
    with pytest.raises(EnvironmentUnavailable, match=r"/s has 1\.0 MB left, and 40 s at 200 "):
        warning(RUN, store, 1_000_000)


def test_more_load_time_and_nodes_need_more() -> None:
    from msgspec.structs import replace

    more = (replace(RUN, rate=400.0), replace(RUN, time_limit_ns=80 * S), replace(RUN, replicas=5))
    assert all(needed(each) > needed(RUN) for each in more)


def test_a_run_ends_while_its_end_still_fits(tmp_path: Path) -> None:
    """Everything is read again: as much as was written."""
    journal, left = tmp_path / "history.jsonl", [10_000_000]
    journal.write_bytes(bytes(3_000_000))
    looked = Room(journal, lambda _: left[0])
    assert not any(looked.short() for _ in range(1000))
    left[0] = 4_000_000
    assert [why for _ in range(64) if (why := looked.short())] == ["the store has only 4.0 MB left"]


@pytest.mark.parametrize(("number", "full"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_which_errors_are_those_of_a_full_disk(number: int, full: bool) -> None:
    assert room.is_full(OSError(number, "x")) is full
