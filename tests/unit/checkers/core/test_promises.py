"""Settings and what they promise: the weakest decides, and what is not known promises nothing."""

import pytest

from maxq.checkers.core.claims import CLAIMS, unmade
from maxq.checkers.core.promises import (
    ALL_ACK,
    CLEAN,
    DEFAULTS,
    IN_SYNC,
    MIN_IN_SYNC,
    NEUTRAL,
    STRICT,
    SYNCED,
    Need,
    copies,
    keys,
    strength,
    unfulfilled,
    unknown_keys,
    weakest,
)

NEEDS = (ALL_ACK, CLEAN, SYNCED, STRICT)


@pytest.mark.parametrize("need", NEEDS, ids=str)
def test_what_a_promise_needs_is_the_strongest_value_of_its_key(need: Need) -> None:
    key, value = need.key, need.value
    [(_, _, values)] = [row for row in keys() if row[0] == f"`{key}`"]
    assert values.endswith(f"`{value}`")
    assert strength(key, value) > strength(key, "nonsense") == -1
    assert unfulfilled((need,), {key: value}) == ()
    assert unfulfilled((need,), {key: "nonsense"}) == (need,)


def test_what_is_not_set_is_at_its_default() -> None:
    assert unfulfilled(NEEDS, {}) == (ALL_ACK, SYNCED, STRICT)
    assert unfulfilled(NEEDS, DEFAULTS) == (ALL_ACK, SYNCED, STRICT)


def test_numbers_count_as_they_are() -> None:
    assert [strength(IN_SYNC, n) for n in ("1", "2", "10", "-1", "")] == [1, 2, 10, -1, -1]


def test_where_nodes_differ_the_weakest_value_of_each_key_counts() -> None:
    one = {ALL_ACK.key: "true", MIN_IN_SYNC: "3", CLEAN.key: "false"}
    two = {ALL_ACK.key: "false", MIN_IN_SYNC: "2", SYNCED.key: "SYNC_FLUSH"}
    found = weakest([one, two])
    assert found == {
        **DEFAULTS,
        ALL_ACK.key: "false",
        MIN_IN_SYNC: "2",
        CLEAN.key: "false",
        SYNCED.key: DEFAULTS[SYNCED.key],  # of the one that does not name it
    }
    assert weakest([{SYNCED.key: "SYNC_FLUSH"}, {"namesrv:x": "1"}])[SYNCED.key] == "SYNC_FLUSH"
    assert weakest([two, one]) == found
    assert weakest([]) == DEFAULTS


def test_keys_that_promise_nothing_are_left_out_of_what_is_effective() -> None:
    assert weakest([{"broker:slaveTimeout": "1", "broker:unheardOf": "x"}]) == DEFAULTS


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({}, 1),
        ({IN_SYNC: "2"}, 2),
        ({MIN_IN_SYNC: "2", IN_SYNC: "3"}, 3),
        ({MIN_IN_SYNC: "3", IN_SYNC: "2"}, 3),
        ({ALL_ACK.key: "true", IN_SYNC: "3"}, 1),
        ({ALL_ACK.key: "true", MIN_IN_SYNC: "2", IN_SYNC: "3"}, 2),
        ({MIN_IN_SYNC: "0", IN_SYNC: "0"}, 1),
    ],
)
def test_how_many_copies_an_acknowledged_message_has(settings: dict[str, str], count: int) -> None:
    """With all-ack it is the members of the SyncStateSet that count, and not their number."""
    assert copies(settings) == count


def test_keys_of_which_nobody_knows_what_they_promise() -> None:
    known = [*DEFAULTS, *NEUTRAL]
    assert unknown_keys(known) == ()
    assert unknown_keys([*known, "broker:z", "broker:a"]) == ("broker:a", "broker:z")
    assert not NEUTRAL & DEFAULTS.keys()


def test_a_claim_names_only_keys_that_have_a_default() -> None:
    for claim in CLAIMS:
        assert {n.key for n in (*claim.needs, *claim.after_power)} <= DEFAULTS.keys()


def test_where_nobody_knows_the_settings_every_claim_counts_as_made() -> None:
    assert all(unmade(c.id, None, power_lost=True) == () for c in CLAIMS)
    assert unmade("no-such-claim", {}, power_lost=True) == ()
    assert unmade("S6", {}, power_lost=False) == (ALL_ACK,)
    assert unmade("S6", {}, power_lost=True) == (ALL_ACK, SYNCED)
