"""Which files of a log go, by age, hour and how full the partition is."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.reference.broker.store.cleaner import rules_of
from maxq.reference.broker.store.retention import HOUR_MS, LogFile, Rules, Seen, Verdict, judge
from maxq.reference.config import BrokerConfig
from maxq.reference.records import PhyOffset

SIZE = 100
RULES = Rules()
NOW = 1000 * HOUR_MS


def files(*ages_h: float) -> list[LogFile]:
    """Files of a log, by their ages, from offset 500 on."""
    return [
        LogFile(start=PhyOffset(500 + at * SIZE), modified_ms=NOW - round(age * HOUR_MS))
        for at, age in enumerate(ages_h)
    ]


def start(
    log: list[LogFile], *, hour: int = 4, used: float = 50, held: int = 10_000, **rules: object
) -> int | None:
    seen = Seen(now_ms=NOW, hour=hour, used=used, held_from=PhyOffset(held))
    return judge(msgspec.structs.replace(RULES, **rules), seen, log, full=False).start


OLD = files(100, 80, 72, 71.9, 1)


def test_the_defaults_are_rocketmqs() -> None:
    assert rules_of(BrokerConfig()) == RULES


def test_what_is_old_goes_at_its_hour() -> None:
    assert start(OLD) == 800, "three files"
    assert start(OLD, hour=3) is None
    assert start(OLD, hour=16, hours=frozenset({4, 16})) == 800
    assert start(OLD, reserved_ms=79 * HOUR_MS) == 700
    assert start(files(1, 100, 100)) is None, "what is young keeps all behind it"
    assert start([]) is None


def test_what_is_old_goes_at_any_hour_when_the_partition_fills_up() -> None:
    assert start(OLD, hour=3, used=75) is None
    assert start(OLD, hour=3, used=75.1) == 800
    assert start(OLD, hour=3, used=85.1, forcibly=False) == 800
    assert start(OLD, hour=3, used=85.1, used_max=98, forcibly=False) == 800


def test_what_is_young_goes_when_it_is_nearly_full() -> None:
    """The last file never does."""
    assert start(OLD, hour=3, used=85) == 800
    assert start(OLD, hour=3, used=85.1) == 900
    assert start(files(100), used=99) is None


def test_no_more_than_a_batch_goes_at_once() -> None:
    assert start(files(*[100] * 30)) == 500 + 10 * SIZE
    assert start(OLD, batch_max=1) == 600


@pytest.mark.parametrize(("held", "expected"), [(0, None), (599, None), (600, 600), (799, 700)])
def test_what_is_not_confirmed_or_still_copied_stays(held: int, expected: int | None) -> None:
    """S9: whatever its age, and however full the partition is."""
    assert start(OLD, held=held) == expected
    assert start(OLD, held=held, used=99) == expected


SHARED = {"share": 0.5, "total": 2000}  # 1000 bytes, of which 800 are the most


def shared(log: list[LogFile], own: int, **more: Any) -> Verdict:
    """What a broker does whose files have `own` bytes. It is no hour for old files."""
    said = {"hour": 3, "used": 50.0, "held_from": 10_000, **SHARED, **more}
    names = {"used", "hour", "held_from", "total"}
    seen = Seen(now_ms=NOW, own=own, **{k: v for k, v in said.items() if k in names})
    rules = {k: v for k, v in said.items() if k not in names}
    return judge(msgspec.structs.replace(RULES, **rules), seen, log, full=False)


YOUNG = files(*[1] * 30)


def test_a_share_takes_young_files_as_far_as_is_needed() -> None:
    """Where RocketMQ takes a whole batch."""
    assert shared(YOUNG, 800) == Verdict(start=None, full=False)
    assert shared(YOUNG, 801) == Verdict(start=PhyOffset(600), full=False)
    assert shared(YOUNG, 1100) == Verdict(start=PhyOffset(800), full=False)
    assert shared(YOUNG, 1100, share=0.55, share_forcibly_at=1.0).start is None
    assert shared(YOUNG, 9000) == Verdict(start=PhyOffset(3400), full=False, beyond=5300)


@given(st.integers(1, 200), st.integers(0, 5000), st.integers(100, 40_000))
def test_a_look_leaves_no_more_than_the_share_whatever_came_in_between(
    count: int, queues: int, total: int
) -> None:
    """But for the last file, and what is no file of the log; and no file more than that takes."""
    log, own = files(*[1] * count), count * SIZE + queues
    verdict = shared(log, own, total=total, held_from=10**9)
    gone = 0 if verdict.start is None else verdict.start - log[0].start
    most = 0.8 * 0.5 * total
    assert own - gone <= most or gone == (count - 1) * SIZE
    assert gone == 0 or own - gone + SIZE > most
    assert verdict.beyond == math.ceil(max(0, own - gone - most))


def test_a_share_that_is_nearly_used_takes_old_files_at_any_hour() -> None:
    assert shared(OLD, 750).start is None
    assert shared(OLD, 751).start == 800
    assert shared(OLD, 750, hour=4).start == 800


def test_what_may_not_go_stays_beyond_a_share() -> None:
    assert shared(YOUNG, 1000, held_from=650) == Verdict(
        start=PhyOffset(600), full=False, beyond=100
    )
    assert shared(YOUNG, 1000, forcibly=False) == Verdict(start=None, full=False, beyond=200)
    assert shared(files(1), 1000) == Verdict(start=None, full=False, beyond=200)


def test_a_neighbour_s_use_takes_nothing_of_a_broker_with_a_share() -> None:
    """B10: but nobody can write to a full partition."""
    assert shared(OLD, 700, used=89) == Verdict(start=None, full=False)
    assert shared(OLD, 700, used=91) == Verdict(start=None, full=True)
    assert shared(YOUNG, 800, used=99) == Verdict(start=None, full=True)


def test_sends_are_refused_from_one_level_on_and_taken_again_from_a_lower_one() -> None:
    def full(used: float, *, before: bool) -> bool:
        seen = Seen(now_ms=NOW, hour=0, used=used, held_from=PhyOffset(0))
        return judge(RULES, seen, OLD, full=before).full

    assert [full(used, before=False) for used in (85, 86, 90, 90.1)] == [False, False, False, True]
    assert [full(used, before=True) for used in (85, 86, 90, 90.1)] == [False, True, True, True]
    quiet = Seen(now_ms=NOW, hour=0, used=10, held_from=PhyOffset(10_000))
    assert judge(RULES, quiet, OLD, full=True) == Verdict(start=None, full=False)
