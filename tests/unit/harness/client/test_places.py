"""What an answer to 28 tells of a broker's place in a group without controllers."""

import msgspec
import pytest

from maxq.harness.client.places import Place, delays, place

UNKNOWN = msgspec.UNSET


@pytest.mark.parametrize(
    ("role", "acting", "isolated", "told"),
    [
        ("master", "false", "false", Place(leads=True, acting=False, isolated=False)),
        ("master", "false", "true", Place(leads=True, acting=False, isolated=True)),
        ("slave", "true", "false", Place(leads=False, acting=True, isolated=False)),
    ],
)
def test_our_brokers_say_it_themselves(role: str, acting: str, isolated: str, told: Place) -> None:
    table = {"maxq.role": role, "maxq.acting": acting, "maxq.isolated": isolated}
    # What a master does runs at an isolated one of ours, too; its own keys count.
    table["brokerActive"] = "true"
    assert place(table, first=True) == place(table, first=False) == told


@pytest.mark.parametrize(("first", "copying"), [(False, True), (True, UNKNOWN)])
def test_our_slaves_say_whether_they_copy(first: bool, copying: bool | msgspec.UnsetType) -> None:
    table = {"maxq.role": "slave", "maxq.copying": "true"}
    assert place(table, first=first).copying == copying


@pytest.mark.parametrize(
    ("first", "active", "told"),
    [
        (True, "true", Place(leads=True, acting=False, isolated=UNKNOWN)),
        (True, "false", Place(leads=True, acting=False, isolated=UNKNOWN)),
        (False, "true", Place(leads=False, acting=True, isolated=UNKNOWN)),
        (False, "false", Place(leads=False, acting=False, isolated=UNKNOWN)),
    ],
)
def test_of_rocketmqs_it_shows_by_what_runs_there(first: bool, active: str, told: Place) -> None:
    assert place({"brokerActive": active, "brokerVersionDesc": "V5_5_0"}, first=first) == told


def test_of_a_broker_that_says_nothing_only_its_setting_is_known() -> None:
    assert place({}, first=True) == Place(leads=True, acting=UNKNOWN, isolated=UNKNOWN)
    assert place({}, first=False) == Place(leads=False, acting=UNKNOWN, isolated=UNKNOWN)


def test_it_is_said_how_far_delay_levels_are() -> None:
    table = {"scheduleMessageOffset_1": "3,4", "scheduleMessageOffset_18": "0,2", "other": "1,2"}
    assert delays(table) == {"1": (3, 4), "18": (0, 2)}


@pytest.mark.parametrize("value", ["", "3", "3,", ",4", "-1,4", "a,b"])
def test_what_is_no_pair_of_numbers_is_left_out(value: str) -> None:
    assert delays({"scheduleMessageOffset_1": value}) is UNKNOWN
