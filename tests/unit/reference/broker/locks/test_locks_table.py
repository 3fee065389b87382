"""Locks of ordered queues, one broker: leases, the time after a start, undo; and the count."""

import pytest

from maxq.reference.broker.locks.lock_quorum import others
from maxq.reference.broker.locks.locks import LEASES_MAX, LockTable, Tally, quorum
from maxq.reference.wire.bodies import MessageQueue

LEASE = 60_000_000_000
Q = tuple(MessageQueue(broker_name="b", queue_id=i, topic="T") for i in range(3))


def test_a_lease_excludes_until_more_than_its_time_has_passed() -> None:
    """L3, L8: granted if free, own, or expired (strictly more than the lease).

    docs/spec/acting-master.md 6.2
    """
    table = LockTable(LEASE)
    assert table.lock(0, "g", "A", Q[:2]) == Q[:2]
    assert table.lock(LEASE, "g", "B", Q) == Q[2:]
    assert table.lock(LEASE, "other", "B", Q) == Q  # of another group
    assert table.owner(LEASE, "g", Q[0]) == "A"
    assert table.owner(LEASE + 1, "g", Q[0]) is None
    assert table.lock(LEASE + 1, "g", "B", Q[:1]) == Q[:1]


def test_a_renewal_counts_from_itself() -> None:
    table = LockTable(LEASE)
    table.lock(0, "g", "A", Q[:1])
    assert table.lock(LEASE, "g", "A", Q[:1]) == Q[:1]
    assert table.lock(2 * LEASE, "g", "B", Q[:1]) == ()
    assert table.owner(2 * LEASE, "g", Q[1]) is None


def test_unlock_ends_the_own_lease_only() -> None:
    """L9 (docs/spec/acting-master.md 6.2)."""
    table = LockTable(LEASE)
    table.lock(0, "g", "A", Q[:1])
    table.unlock("g", "B", Q)
    assert table.owner(0, "g", Q[0]) == "A"
    table.unlock("g", "A", Q)
    assert table.lock(0, "g", "B", Q) == Q


def test_nothing_is_granted_or_renewed_for_one_lease_after_the_start() -> None:
    """L1: what was granted before a restart is not known; it has run out when granting begins."""
    table = LockTable(LEASE, closed_until_ns=LEASE)
    assert table.lock(LEASE - 1, "g", "A", Q) == ()
    assert table.lock(LEASE, "g", "A", Q) == Q


def test_an_attempt_undoes_what_it_has_made_and_nothing_older_or_newer() -> None:
    """L1: a renewal in the attempt may be part of an older quorum; one after it, of a newer."""
    table = LockTable(LEASE)
    table.lock(0, "g", "A", Q[:1], attempt="1")
    table.lock(0, "g", "A", Q[:1], attempt="2")  # a renewal
    table.lock(0, "g", "A", Q[1:], attempt="3")
    table.lock(0, "g", "A", Q[2:], attempt="4")  # renewed since
    for attempt in ("1", "2", "3", "4"):
        table.undo("g", "A", Q, attempt)
    assert [table.owner(0, "g", q) for q in Q] == ["A", None, "A"]
    table.lock(0, "g", "B", Q[1:2], attempt="5")
    table.undo("g", "A", Q, "5")
    assert table.owner(0, "g", Q[1]) == "B"


def test_a_release_spares_what_was_renewed_since() -> None:
    table = LockTable(LEASE)
    table.lock(0, "g", "A", Q, attempt="one")
    table.lock(1, "g", "A", Q[:1], attempt="two")
    assert table.marks("g", "A", Q) == {"one/two": Q[:1], "/one": Q[1:]}
    assert table.marks("g", "B", Q) == {}
    table.release("g", "A", Q, "/one")
    assert [table.owner(1, "g", q) for q in Q] == ["A", None, None]
    table.release("g", "B", Q, "one/two")
    assert table.owner(1, "g", Q[0]) == "A"
    table.release("g", "A", Q, "one/two")
    assert table.owner(1, "g", Q[0]) is None


def test_an_attempt_that_comes_late_together_with_its_unlock_ends_no_later_quorum() -> None:
    """L1: a cut held both back; the client has given the lock back and got it again since."""
    held_back = LockTable(LEASE)
    held_back.lock(0, "g", "A", Q[:1], attempt="old")
    [old] = held_back.marks("g", "A", Q[:1])
    table = LockTable(LEASE)
    table.lock(1, "g", "A", Q[:1], attempt="new")
    table.lock(2, "g", "A", Q[:1], attempt="old")
    table.release("g", "A", Q[:1], old)
    assert table.owner(2, "g", Q[0]) == "A"


def test_expired_leases_are_forgotten_and_their_number_is_bounded() -> None:
    table = LockTable(LEASE)
    many = [MessageQueue(broker_name="b", queue_id=i, topic="X") for i in range(LEASES_MAX)]
    assert len(table.lock(0, "g", "A", many)) == LEASES_MAX
    assert table.lock(0, "g", "A", Q) == ()
    table.expire(LEASE)
    assert table.lock(LEASE, "g", "A", many[:1]) == tuple(many[:1])
    table.expire(LEASE + 1)
    assert len(table._leases) == 1
    assert table.lock(LEASE + 1, "g", "A", Q) == Q


@pytest.mark.parametrize(("replicas", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_quorum_is_more_than_half_of_the_configured_replicas(replicas: int, needed: int) -> None:
    """docs/spec/acting-master.md 6.3."""
    assert quorum(replicas) == needed


def test_a_count_is_decided_as_soon_as_no_answer_can_change_it() -> None:
    """L6: each queue for itself; what the asked broker did not grant cannot be won.

    docs/spec/acting-master.md 6.3
    """
    tally = Tally(2, Q[:2], asked=2)
    assert (tally.won, tally.lost, tally.decided) == ((), (), False)
    tally.on_answer([Q[0], Q[0], Q[2]])
    assert (tally.won, tally.lost, tally.decided) == (Q[:1], (), False)
    tally.on_answer([])
    assert (tally.won, tally.lost, tally.decided) == (Q[:1], Q[1:2], True)
    assert Tally(2, Q[:1], asked=0).lost == Q[:1]
    assert Tally(1, Q[:1], asked=0).won == Q[:1]
    assert Tally(3, Q[:1], asked=1).decided
    assert Tally(2, (), asked=0).decided


def test_a_broker_never_asks_itself() -> None:
    """One broker must not count twice, whatever id or address it is listed under.

    docs/spec/acting-master.md 6.6 (d)
    """
    group = {0: "a:1", 1: "old:1", 2: "b:1", 3: "b:1", 4: "a:1"}
    assert others(group, address="a:1", ids=(0, 1)) == ("b:1",)
    assert others(group, address="x:1", ids=(7,)) == ("a:1", "old:1", "b:1")
