"""A share of the damage that ``python -m benchmarks.damaged_stores`` does to all stores."""

import pytest

from benchmarks.damaged_stores import DAMAGES, came_of, cases, done, ready, store, tried

SHARE = 7  # one file or so a damage: which one goes round


@pytest.mark.parametrize("victim", ["master", "slave", "leader", "follower"])
def test_no_damage_of_a_file_is_silently_wrong(victim: str) -> None:
    """It is refused by name, or made good."""
    every = list(cases(victim))
    assert {damage for _, damage in every} == set(DAMAGES)
    wrong, outcomes = [], set()
    for number, (file, damage) in enumerate(every):
        case = tried(victim, file, damage) if number % SHARE == number // SHARE % SHARE else None
        if case is not None:
            outcomes.add(case.outcome)
            wrong += [case] if case.outcome == "WRONG" else []
    assert not wrong
    assert outcomes <= {"refused", "whole"}
    assert outcomes


def test_a_lost_identity_is_refused_by_name() -> None:
    """Before, such a broker came back under a new id, with a log that counted for the old one."""
    case = tried("slave", "brokerIdentity", "deleted")
    assert case is not None
    assert (case.outcome, "brokerIdentity is missing" in case.said) == ("refused", True)


@pytest.mark.parametrize("victim", ["master", "slave"])
def test_a_flip_in_a_header_is_refused_by_name(victim: str) -> None:
    """Before, the node came back with another record than the others had."""
    case = tried(victim, "commitlog/00000000000000000000", "flipped in a header")
    assert case is not None
    assert (case.outcome, "the bytes of offsets 0 to" in case.said) == ("refused", True)


@pytest.mark.parametrize("victim", ["master", "slave"])
def test_a_list_of_epochs_that_was_read_from_its_copy_is_written_anew(victim: str) -> None:
    """Else the next damage, of the copy, would find the file still damaged."""
    file = "epochFileCheckpoint"
    arena, name, older = ready(victim)
    assert done(arena, name, file, "flipped", older)
    assert came_of(arena, name, file) == ("whole", "")
    kept = store(arena, name)
    arena.world.close()
    assert kept[file] == kept[f"{file}.bak"]
