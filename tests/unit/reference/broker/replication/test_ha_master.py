"""The master's core: transfers, acknowledgements, confirmOffset, the SyncStateSet; long,
since each state of the core has its tests here."""

from typing import Any

import msgspec
import pytest

from maxq.reference.broker.replication import ha_master_events as core
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.broker.replication.ha_master import LINKS_MAX, HaMaster
from maxq.reference.broker.replication.ha_master_events import Effect
from maxq.reference.broker.replication.ha_settings import MasterSettings
from maxq.reference.broker.replication.sync_state_set import ProposeSyncStateSet
from maxq.reference.records import BrokerId, InvariantViolation, MasterEpoch, PhyOffset
from maxq.reference.wire.ha import EpochStart, MasterHandshake, SlaveAck, SlaveHandshake

SECOND = 1_000_000_000
ME = BrokerId(1)


def entries(*pairs: tuple[int, int]) -> Epochs:
    return tuple(EpochStart(epoch=MasterEpoch(e), start=PhyOffset(s)) for e, s in pairs)


FIRST = entries((1, 0))


def ids(*numbers: int) -> frozenset[BrokerId]:
    return frozenset(BrokerId(n) for n in numbers)


ALONE = ids(1)


def leader(
    end: int = 0,
    epochs: Epochs = FIRST,
    *,
    members: frozenset[BrokerId] = ALONE,
    **settings: Any,
) -> HaMaster:
    base = MasterSettings(file_size=1000, batch_bytes=100, all_ack=True)
    master = HaMaster(broker_id=ME, settings=msgspec.structs.replace(base, **settings))
    master.step(0, lead(end, epochs, members=members))
    return master


def lead(end: int, epochs: Epochs, *, members: frozenset[BrokerId] = ALONE) -> core.Lead:
    return core.Lead(
        master_epoch=epochs[-1].epoch,
        members=members,
        sync_state_set_epoch=5,
        epochs=epochs,
        start=PhyOffset(0),
        end=PhyOffset(end),
        counted=PhyOffset(end),
    )


def hello(
    master: HaMaster,
    link: int,
    slave: int,
    *,
    learner: bool = False,
    host: str = "",
    now: int = 0,
) -> list[Effect]:
    master.step(now, core.Accepted(link=link, host=host))
    packet = SlaveHandshake(broker_id=BrokerId(slave), async_learner=learner)
    return master.step(now, core.Received(link=link, packet=packet))


def ack(master: HaMaster, link: int, offset: int, now: int = 0) -> list[Effect]:
    packet = SlaveAck(offset=PhyOffset(offset))
    return master.step(now, core.Received(link=link, packet=packet))


def joined(master: HaMaster, link: int, slave: int) -> None:
    """A slave that has everything, and that the controller has taken into the set."""
    hello(master, link, slave)
    ack(master, link, master.end)
    known(master, master.members | ids(slave), master.sync_state_set_epoch + 1)


def known(master: HaMaster, members: frozenset[BrokerId], epoch: int, now: int = 0) -> list[Effect]:
    event = core.Known(
        master_epoch=master.master_epoch, sync_state_set_epoch=epoch, members=members
    )
    return master.step(now, event)


def wrote(master: HaMaster, end: int, now: int = 0, counted: int | None = None) -> list[Effect]:
    return master.step(
        now,
        core.Written(end=PhyOffset(end), counted=PhyOffset(end if counted is None else counted)),
    )


def wait(master: HaMaster, ticket: int, end: int, now: int = 0) -> list[Effect]:
    event = core.Await(ticket=ticket, master_epoch=master.master_epoch, end=PhyOffset(end))
    return master.step(now, event)


def pieces(effects: list[Effect]) -> list[tuple[int, int, int, int]]:
    """(start, size, epoch, epoch start) of the transfers among the effects."""
    return [
        (e.start, e.size, e.epoch, e.epoch_start) for e in effects if isinstance(e, core.SendLog)
    ]


def proposed(effects: list[Effect]) -> list[tuple[int, ...]]:
    return [e.members for e in effects if isinstance(e, ProposeSyncStateSet)]


def closed(effects: list[Effect]) -> str:
    assert isinstance(effects[0], core.Close)
    assert isinstance(effects[1], core.Trace)
    return effects[1].why


ACKED = core.Acknowledge


# Handshake and transfer.


def test_handshake() -> None:
    """The end of the log, the last epoch, all epochs (docs/spec/controller-ha.md 4.1)."""
    master = leader(300, entries((1, 0), (3, 120)))
    reply = MasterHandshake(
        max_offset=PhyOffset(300), last_epoch=MasterEpoch(3), epochs=entries((1, 0), (3, 120))
    )
    assert hello(master, 7, 2) == [core.Reply(link=7, packet=reply)]


def test_a_transfer_ends_at_epochs_files_and_batches() -> None:
    """Labels are exact, and an epoch without bytes gets a transfer of its own.

    docs/spec/controller-ha.md 4.4
    """
    master = leader(2210, entries((1, 0), (2, 950), (3, 950), (4, 1150), (5, 2210)))
    hello(master, 1, 2)
    got = pieces(ack(master, 1, 820))
    assert got == [
        (820, 100, 1, 0), (920, 30, 1, 0), (950, 0, 2, 950), (950, 50, 3, 950),
        (1000, 100, 3, 950), (1100, 50, 3, 950), (1150, 100, 4, 1150),
        *((at, 100, 4, 1150) for at in range(1250, 1950, 100)), (1950, 50, 4, 1150),
        (2000, 100, 4, 1150), (2100, 100, 4, 1150), (2200, 10, 4, 1150), (2210, 0, 5, 2210),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("request_at", "sent"),
    [
        (0, [(0, 100, 3, 120), (100, 20, 3, 120), (120, 30, 3, 120), (150, 10, 4, 150)]),
        (70, [(70, 50, 3, 120), (120, 30, 3, 120), (150, 10, 4, 150)]),
        (120, [(120, 30, 3, 120), (150, 10, 4, 150)]),
        (155, [(155, 5, 4, 150)]),
    ],
)
def test_what_is_older_than_the_list_goes_under_its_first_entry(
    request_at: int, sent: list[tuple[int, int, int, int]]
) -> None:
    """To a slave that is empty or behind; docs/spec/controller-ha.md 4.4, 6.4 (H8d)"""
    master = leader(160, entries((3, 120), (4, 150)))
    hello(master, 1, 2)
    assert pieces(ack(master, 1, request_at)) == sent


def test_the_window_bounds_what_is_on_the_way() -> None:
    master = leader(950, window_bytes=250)
    hello(master, 1, 2)
    assert pieces(ack(master, 1, 0)) == [(0, 100, 1, 0), (100, 100, 1, 0), (200, 50, 1, 0)]
    assert pieces(wrote(master, 960)) == []
    assert pieces(ack(master, 1, 100)) == [(250, 100, 1, 0)]


def test_the_first_frame_comes_at_once() -> None:
    """So that a slave knows epoch and confirmOffset; RocketMQ sends it after 5 s."""
    master = leader(50)
    hello(master, 1, 2)
    assert pieces(ack(master, 1, 50)) == [(50, 0, 1, 0)]
    assert pieces(ack(master, 1, 50)) == []


@pytest.mark.parametrize(
    ("from_last_file", "request_at", "start"), [(False, 0, 0), (True, 0, 2000), (True, 70, 70)]
)
def test_where_a_transfer_starts(from_last_file: bool, request_at: int, start: int) -> None:
    """At the request; an empty slave at the first byte, or in the last file.

    docs/spec/controller-ha.md 4.4
    """
    master = leader(2210)
    master.step(0, core.Accepted(link=1))
    packet = SlaveHandshake(broker_id=BrokerId(2), sync_from_last_file=from_last_file)
    master.step(0, core.Received(link=1, packet=packet))
    assert pieces(ack(master, 1, request_at))[0][0] == start


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ([301], "cannot start at 301"),
        ([-1], "cannot start at -1"),
        ([100, 99], "acknowledges 99 after 100"),
        ([100, 301], "acknowledges 301, sent up to 300"),
    ],
)
def test_acknowledgements_that_cannot_be(offsets: list[int], why: str) -> None:
    """S9: of bytes that were never sent, or of fewer than before."""
    master = leader(300)
    hello(master, 1, 2)
    for offset in offsets[:-1]:
        ack(master, 1, offset)
    assert why in closed(ack(master, 1, offsets[-1]))
    assert master.links == {}


def test_handshakes_that_cannot_be() -> None:
    master = leader(300)
    assert "impossible id" in closed(hello(master, 1, 1))
    assert "impossible id" in closed(hello(master, 2, 0))
    master.step(0, core.Accepted(link=3))
    assert "before the handshake" in closed(ack(master, 3, 0))
    hello(master, 4, 2)
    ack(master, 4, 300)
    packet = SlaveHandshake(broker_id=BrokerId(2))
    assert "in transfer" in closed(master.step(0, core.Received(link=4, packet=packet)))
    ignored = ack(master, 4, 300)
    assert [type(e) for e in ignored] == [core.Trace]


def test_a_second_connection_of_a_slave_replaces_the_first() -> None:
    """RocketMQ counts both (docs/spec/controller-ha.md 5.2)."""
    master = leader(300)
    hello(master, 1, 2)
    effects = hello(master, 2, 2)
    assert effects[0] == core.Close(link=1)
    assert list(master.links) == [2]
    assert master.step(0, core.Lost(link=1)) == []


def test_of_two_processes_with_one_id_the_newer_is_refused() -> None:
    """The older comes back as soon as it was replaced, which one that moved does not."""
    master = leader(300)
    hello(master, 1, 2, host="10.0.0.2")
    ack(master, 1, 300)
    assert hello(master, 2, 2, host="10.0.0.3", now=SECOND)[0] == core.Close(link=1)
    back = hello(master, 3, 2, host="10.0.0.2", now=2 * SECOND)
    assert back[0] == core.Close(link=2)
    assert isinstance(back[1], core.Reply)
    for link in range(4, 40):
        now = link * SECOND
        master.step(now, core.Received(link=3, packet=SlaveAck(offset=PhyOffset(300))))
        refused, trace = hello(master, link, 2, host="10.0.0.3", now=now)
        assert refused == core.Close(link=link)
        assert isinstance(trace, core.Trace)
        why = "2 at 10.0.0.3: another process has the id, at 10.0.0.2, and is alive"
        assert (trace.name, trace.why) == ("ha.slave.refused", why)
        assert list(master.links) == [3]
    silent = 39 * SECOND + 2 * master.settings.heartbeat_ns + 1
    assert hello(master, 40, 2, host="10.0.0.3", now=silent)[0] == core.Close(link=3)


def test_a_slave_that_moves_to_and_fro_is_served_wherever_it_is() -> None:
    master = leader(300)
    apart = 2 * master.settings.heartbeat_ns + 1
    for link, host in enumerate(["10.0.0.2", "10.0.0.3", "10.0.0.2", "10.0.0.3", "10.0.0.3"], 1):
        assert isinstance(hello(master, link, 2, host=host, now=link * apart)[-1], core.Reply)
        assert list(master.links) == [link]


def test_links_are_bounded() -> None:
    master = leader()
    for number in range(LINKS_MAX):
        assert master.step(0, core.Accepted(link=number)) == []
    assert master.step(0, core.Accepted(link=99))[0] == core.Close(link=99)


def test_time() -> None:
    """Heartbeats after 5 s, closing after 20 s without a word of the slave.

    docs/spec/controller-ha.md 4.5
    """
    master = leader(50)
    hello(master, 1, 2)
    ack(master, 1, 50)
    assert master.next_deadline_ns() == 5 * SECOND
    assert pieces(master.step(5 * SECOND, core.Timeout())) == [(50, 0, 1, 0)]
    assert "silent" in closed(master.step(20 * SECOND, core.Timeout()))


# Who must have it.


@pytest.mark.parametrize(
    ("settings", "acks", "acknowledged"),
    [
        ({"all_ack": True}, {2: 0, 3: 0}, False),
        ({"all_ack": True}, {2: 10, 3: 0}, False),
        ({"all_ack": True}, {2: 10, 3: 10}, True),
        ({"all_ack": False, "in_sync_replicas": 1}, {2: 0, 3: 0}, True),
        ({"all_ack": False, "in_sync_replicas": 2}, {2: 0, 3: 0}, False),
        ({"all_ack": False, "in_sync_replicas": 2}, {2: 10, 3: 0}, True),
        ({"all_ack": False, "in_sync_replicas": 3}, {2: 10, 3: 0}, False),
        ({"all_ack": False, "in_sync_replicas": 3}, {2: 10, 3: 10}, True),
        # Neither a learner nor a slave outside the set counts.
        ({"all_ack": False, "in_sync_replicas": 2}, {2: 0, 3: 0, 4: 10, 5: 10}, False),
        ({"all_ack": True}, {2: 10, 3: 10, 4: 0, 5: 0}, True),
    ],
)
def test_which_sends_are_acknowledged(
    settings: dict[str, Any], acks: dict[int, int], acknowledged: bool
) -> None:
    """By profile; 4 is a learner, 5 not in the set (docs/spec/controller-ha.md 5.2 and 6.5)."""
    master = leader(members=ids(1, 2, 3), **settings)
    for slave in acks:
        hello(master, slave, slave, learner=slave == 4)
        ack(master, slave, 0)
    if 5 in acks:
        master.step(3 * SECOND, core.Timeout())  # 5 is not held any more
    wrote(master, 10)
    effects = wait(master, 77, 10)
    for slave, offset in acks.items():
        effects += ack(master, slave, offset)
    assert (ACKED(ticket=77) in effects) is acknowledged


def test_a_lone_master_acknowledges_if_it_may() -> None:
    """P-ALL does, P-SAFE (minInSyncReplicas 2) never, whenever the set shrank."""
    alone = leader()
    wrote(alone, 10)
    assert wait(alone, 1, 10) == [ACKED(ticket=1)]
    assert alone.in_sync_count == 1
    safe = leader(members=ids(1, 2), min_in_sync_replicas=2)
    wrote(safe, 10)
    assert wait(safe, 1, 10) == []
    assert safe.in_sync_count == 2
    assert ACKED(ticket=1) not in known(safe, ids(1), 6)
    assert safe.in_sync_count == 1
    gave_up = core.GiveUp(ticket=1, why="replicas did not acknowledge in time")
    assert gave_up in safe.step(3 * SECOND, core.Timeout())


def test_what_is_not_synced_does_not_count() -> None:
    """SYNC_FLUSH: the master is one of those who must have it."""
    master = leader()
    assert wrote(master, 10, counted=0) == []
    assert wait(master, 1, 10) == []
    assert wrote(master, 10, counted=10) == [core.Confirm(offset=PhyOffset(10)), ACKED(ticket=1)]


def test_a_silent_member_holds_confirm_back() -> None:
    """RocketMQ leaves a member without acknowledgement out.

    docs/spec/controller-ha.md 6.5 (rule 5) and 6.4 (H6)
    """
    master = leader(members=ids(1, 2, 3))
    hello(master, 2, 2)
    hello(master, 3, 3)
    ack(master, 2, 0)
    wrote(master, 10)
    ack(master, 2, 10)
    assert master.confirm == 0
    ack(master, 3, 0)
    assert master.confirm == 0
    assert core.Confirm(offset=PhyOffset(10)) in ack(master, 3, 10)


def test_confirm_never_goes_back() -> None:
    master = leader(50)
    assert master.confirm == 50
    joined(master, 2, 2)
    master.step(0, core.Lost(link=2))
    hello(master, 3, 2)
    ack(master, 3, 20)
    assert master.confirm == 50


def test_the_end_of_a_term_gives_up_everything() -> None:
    """Nobody knows; a send that comes late is answered the same way.

    docs/spec/controller-ha.md 6.5 (rule 6)
    """
    master = leader(members=ids(1, 2))
    hello(master, 2, 2)
    wait(master, 1, 10)
    effects = master.step(0, core.Resign())
    assert effects == [core.Close(link=2), core.GiveUp(ticket=1, why="no longer master")]
    assert wait(master, 2, 10) == [core.GiveUp(ticket=2, why="no longer master")]
    assert master.next_deadline_ns() is None
    assert [type(e) for e in wrote(master, 20)] == [core.Trace]
    assert master.step(0, core.Accepted(link=3))[0] == core.Close(link=3)
    assert master.step(0, core.Timeout()) == []


def test_a_term_that_follows_keeps_its_connections() -> None:
    """The slaves learn the new epoch at once.

    docs/spec/controller-ha.md 3.6 (step 2) and 6.4 (H15)
    """
    master = leader(50)
    joined(master, 2, 2)
    effects = master.step(0, lead(50, entries((1, 0), (2, 50))))
    assert pieces(effects) == [(50, 0, 2, 50)]
    assert (master.members, master.master_epoch) == (ids(1), 2)
    late = core.Await(ticket=1, master_epoch=MasterEpoch(1), end=PhyOffset(50))
    assert master.step(0, late) == [core.GiveUp(ticket=1, why="no longer master")]
    assert [type(e) for e in master.step(0, lead(50, entries((1, 0))))] == [core.Trace]


def test_terms_that_begin_within_a_handshake_are_told() -> None:
    """S8b: the reply did not name them, and they may stay without bytes."""
    master = leader(50)
    hello(master, 2, 2)
    master.step(0, lead(50, entries((1, 0), (2, 50))))
    master.step(0, lead(50, entries((1, 0), (2, 50), (3, 50))))
    assert pieces(ack(master, 2, 50)) == [(50, 0, 2, 50), (50, 0, 3, 50)]


def test_a_term_begins_with_its_epoch() -> None:
    master = HaMaster(broker_id=ME, settings=MasterSettings(file_size=1000))
    wrong = msgspec.structs.replace(lead(0, entries((1, 0))), master_epoch=MasterEpoch(2))
    with pytest.raises(InvariantViolation, match="S8"):
        master.step(0, wrong)


# The SyncStateSet.


def test_a_slave_that_has_everything_is_proposed() -> None:
    """Also the first acknowledgement counts; a learner never is.

    docs/spec/controller-ha.md 5.4
    """
    master = leader(50, entries((1, 0), (2, 40)))
    hello(master, 2, 2)
    effects = ack(master, 2, 50)
    assert effects[-1] == ProposeSyncStateSet(
        number=1, master_epoch=MasterEpoch(2), sync_state_set_epoch=5, members=(ME, BrokerId(2))
    )
    assert master.in_sync_count == 2
    hello(master, 3, 3, learner=True)
    assert proposed(ack(master, 3, 50)) == []


def test_a_slave_behind_the_last_election_is_not() -> None:
    master = leader(50, entries((1, 0), (2, 40)))
    hello(master, 2, 2)
    assert proposed(ack(master, 2, 39)) == []
    wrote(master, 60)
    assert wait(master, 1, 60) == [ACKED(ticket=1)]  # and it holds nothing up


def test_a_slave_joins_under_load() -> None:
    """It is waited for first, and proposed when it has what was confirmed until then."""
    master = leader(50)
    hello(master, 2, 2)
    assert proposed(ack(master, 2, 10)) == []  # near: held from now on
    wrote(master, 60)
    assert wait(master, 1, 60) == []
    assert proposed(ack(master, 2, 49)) == []
    effects = ack(master, 2, 50)
    assert proposed(effects) == [(1, 2)]
    assert ACKED(ticket=1) in ack(master, 2, 60)


def test_a_slow_slave_is_let_go() -> None:
    master = leader(50)
    hello(master, 2, 2)
    ack(master, 2, 10)
    wrote(master, 60)
    wait(master, 1, 60)
    assert master.next_deadline_ns() == 2 * SECOND
    assert ACKED(ticket=1) in master.step(2 * SECOND, core.Timeout())
    ack(master, 2, 20, now=3 * SECOND)
    wrote(master, 70)
    assert wait(master, 2, 70) == [ACKED(ticket=2)]  # not held again at once


def test_a_lost_connection_shrinks_the_set() -> None:
    """What waits does so until the controller has agreed (docs/spec/controller-ha.md 5.4)."""
    master = leader(50)
    joined(master, 2, 2)
    joined(master, 3, 3)
    wrote(master, 60)
    wait(master, 1, 60)
    ack(master, 2, 60)
    assert proposed(master.step(0, core.Lost(link=3))) == [(1, 2)]
    assert master.in_sync_count == 3
    assert ACKED(ticket=1) in known(master, ids(1, 2), 8)


def test_a_member_that_acknowledges_nothing_leaves_in_time() -> None:
    """S14b: RocketMQ takes sent for acknowledged, and keeps it."""
    master = leader(50)
    joined(master, 2, 2)
    wrote(master, 60, now=SECOND)
    for second in range(2, 16):
        ack(master, 2, 50, now=second * SECOND)
        assert proposed(master.step(second * SECOND, core.Timeout())) == []
    assert proposed(master.step(20 * SECOND, core.Timeout())) == [(1,)]


def test_a_member_under_load_stays() -> None:
    """It never has everything, but always what there was a moment ago."""
    master = leader(50)
    joined(master, 2, 2)
    for second in range(1, 40):
        wrote(master, 50 + second * 10, now=second * SECOND)
        ack(master, 2, 40 + second * 10, now=second * SECOND)
        assert proposed(master.step(second * SECOND, core.Timeout())) == []


def test_an_idle_member_stays() -> None:
    master = leader(50)
    joined(master, 2, 2)
    ack(master, 2, 50, now=19 * SECOND)
    assert proposed(master.step(25 * SECOND, core.Timeout())) == []
    wrote(master, 60, now=26 * SECOND)
    assert proposed(master.step(36 * SECOND, core.Timeout())) == []


def test_one_proposal_at_a_time() -> None:
    """The next is derived from what the controller made of the last.

    docs/spec/controller-ha.md 6.4 (H4)
    """
    master = leader(50)
    hello(master, 2, 2)
    hello(master, 3, 3)
    assert proposed(ack(master, 2, 50)) == [(1, 2)]
    assert proposed(ack(master, 3, 50)) == []
    assert proposed(known(master, ids(1, 2), 6)) == []
    assert proposed(ack(master, 3, 50)) == [(1, 2, 3)]


def test_a_refused_proposal_holds_nothing_up() -> None:
    master = leader(50)
    hello(master, 2, 2)
    ack(master, 2, 50)
    wrote(master, 60)
    wait(master, 1, 60)
    refused = core.Answered(number=1, outcome="refused")
    assert ACKED(ticket=1) in master.step(0, refused)
    assert [type(e) for e in master.step(0, refused)] == [core.Trace]


def test_a_lost_proposal_holds_until_it_is_settled() -> None:
    """It may yet be applied, so its members are waited for; it is asked for again.

    docs/spec/controller-ha.md 6.5 (rule 5)
    """
    master = leader(50)
    hello(master, 2, 2)
    ack(master, 2, 50)
    wrote(master, 60)
    wait(master, 1, 60)
    assert master.step(0, core.Answered(number=1, outcome="unknown")) == []
    assert ACKED(ticket=1) not in master.step(0, core.Lost(link=2))
    assert proposed(master.step(SECOND, core.Timeout())) == [(1, 2)]
    # The second attempt being refused says nothing of the first.
    assert ACKED(ticket=1) not in master.step(SECOND, core.Answered(number=2, outcome="refused"))
    assert proposed(known(master, ids(1, 2), 6, now=SECOND)) == [(1,)]
    assert ACKED(ticket=1) in known(master, ids(1), 7, now=SECOND)


@pytest.mark.parametrize(
    ("epoch", "set_epoch", "members"), [(2, 9, ids(1, 2)), (1, 5, ids(1, 2)), (1, 9, ids(2))]
)
def test_a_set_of_another_time_is_ignored(
    epoch: int, set_epoch: int, members: frozenset[BrokerId]
) -> None:
    master = leader(50)
    event = core.Known(
        master_epoch=MasterEpoch(epoch), sync_state_set_epoch=set_epoch, members=members
    )
    assert [type(e) for e in master.step(0, event)] == [core.Trace]
    assert master.members == ids(1)


def test_a_trimmed_log_is_served_from_its_first_byte() -> None:
    """Also to a slave that ends before it, which sees that so; one that still copies from there
    loses its connection. What a member has not acknowledged counts as not copied."""
    epochs = entries((1, 0), (2, 1000), (3, 1500))
    master = leader(2500, epochs, members=ids(1, 2), window_bytes=100)
    assert master.copied == 0, "nothing is known of a member that is not connected"
    hello(master, 1, 2)
    ack(master, 1, 1600)
    assert master.copied == 1600
    hello(master, 2, 3)
    assert pieces(ack(master, 2, 300)) == [(300, 100, 1, 0)]
    trimmed = core.Trimmed(start=PhyOffset(1000), epochs=epochs[1:])
    assert "3: log trimmed" in closed(master.step(0, trimmed))
    assert list(master.links) == [1]
    assert (master.start, master.epochs) == (1000, epochs[1:])
    assert pieces(ack(master, 1, 1700))[0][2:] == (3, 1500), "labels moved with the list"
    hello(master, 3, 3)
    assert pieces(ack(master, 3, 300))[-1] == (1000, 100, 2, 1000)
    assert master.step(0, trimmed) == [
        core.Trace(name="ha.trimmed.ignored", why="not master, or not new")
    ]
