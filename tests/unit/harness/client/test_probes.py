"""What brokers say of how long they have run."""

import pytest

from maxq.harness.client.probes import uptime_s
from maxq.reference.broker.admin.admin import ran


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("[ 0 days, 0 hours, 1 minutes, 27 seconds ]", 87),
        ("[ 1,000 days, 2 hours, 0 minutes, 3 seconds ]", 86_407_203),
        ("[ 0 days, 0 hours, -59 minutes, -58 seconds ]", -3_598),
        ("[ 0 days, 0 hours, 1 minutes ]", None),
        ("soon", None),
    ],
)
def test_a_time_in_words_is_read(said: str, seconds: int | None) -> None:
    assert uptime_s({"runtime": said}) == seconds


def test_a_broker_that_says_nothing_has_run_for_an_unknown_time() -> None:
    assert uptime_s({}) is None


@pytest.mark.parametrize("seconds", [0, 59, 3_661, 90_000_000, -1, -3_661, -90_061])
def test_what_ours_say_is_read_as_it_was_meant(seconds: int) -> None:
    assert uptime_s({"runtime": ran(1000 * seconds)}) == seconds


def test_parts_of_a_second_do_not_count() -> None:
    assert ran(1_999) == "[ 0 days, 0 hours, 0 minutes, 1 seconds ]"
    assert ran(-1_999) == "[ 0 days, 0 hours, 0 minutes, -1 seconds ]"
    assert ran(90_061_000) == "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"
