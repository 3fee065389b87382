"""The slave's core: each rule of docs/spec/controller-ha.md 4.3 and 4.6, and where the reference
differs."""

from typing import Any

import msgspec
import pytest

from maxq.reference.broker.replication import ha_slave_events as core
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.broker.replication.ha_slave import HaSlave
from maxq.reference.broker.replication.ha_slave_events import Effect
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset
from maxq.reference.wire.ha import EpochStart, MasterHandshake, SlaveAck, SlaveHandshake, Transfer

SECOND = 1_000_000_000
MASTER = "198.18.0.9:10912"


def entries(*pairs: tuple[int, int]) -> Epochs:
    return tuple(EpochStart(epoch=MasterEpoch(e), start=PhyOffset(s)) for e, s in pairs)


def follow(end: int, epochs: Epochs, **more: object) -> core.Follow:
    log = core.LogState(
        start=PhyOffset(0), end=PhyOffset(end), epochs=epochs, confirm=PhyOffset(end // 2)
    )
    base = core.Follow(address=MASTER, master_epoch=MasterEpoch(1), in_sync_state_set=True, log=log)
    return msgspec.structs.replace(base, **more)


def reply(end: int, epochs: Epochs) -> MasterHandshake:
    last = epochs[-1].epoch if epochs else MasterEpoch(-1)
    return MasterHandshake(max_offset=PhyOffset(end), last_epoch=last, epochs=epochs)


def frame(
    start: int, data: bytes = b"", epoch: int = 1, since: int = 0, confirm: int = 0
) -> Transfer:
    return Transfer(
        start=PhyOffset(start),
        epoch=MasterEpoch(epoch),
        epoch_start=PhyOffset(since),
        confirm_offset=PhyOffset(confirm),
        data=data,
    )


def ack(offset: int, connection: int = 1) -> core.Send:
    return core.Send(connection=connection, packet=SlaveAck(offset=PhyOffset(offset)))


def shaking(end: int = 0, epochs: Epochs = (), *, durable: bool = False, **more: object) -> HaSlave:
    """A slave whose handshake is sent."""
    slave = HaSlave(broker_id=BrokerId(2), durable=durable)
    assert slave.step(0, follow(end, epochs, **more)) == []
    assert slave.step(0, core.Timeout()) == [core.Dial(connection=1, address=MASTER)]
    hello = SlaveHandshake(broker_id=BrokerId(2))
    assert slave.step(0, core.Connected(connection=1)) == [core.Send(connection=1, packet=hello)]
    return slave


def got(slave: HaSlave, packet: object, now: int = 0) -> list[Effect]:
    return slave.step(now, core.Received(connection=slave.connection, packet=packet))  # type: ignore[arg-type]


def settled(slave: HaSlave, now: int = 0) -> list[Effect]:
    return slave.step(now, core.Truncated(connection=slave.connection, end=slave.end))


def copying(end: int = 0, epochs: Epochs = (), *, durable: bool = False, **more: object) -> HaSlave:
    """A slave in transfer, whose master has the same log."""
    slave = shaking(end, epochs, durable=durable, **more)
    got(slave, reply(end, epochs or entries((1, 0))))
    settled(slave)
    return slave


def left(effects: list[Effect]) -> str:
    """Why a slave left its master; the effects must be that and nothing else."""
    hangup, trace = effects
    assert isinstance(hangup, core.Hangup)
    assert isinstance(trace, core.Trace)
    assert trace.name == "ha.slave.left"
    return trace.why


@pytest.mark.parametrize(
    ("mine", "end", "theirs", "their_end", "point", "kept"),
    [
        (entries((1, 0)), 9279, entries((1, 0), (2, 9081)), 10041, 9081,
         entries((1, 0), (2, 9081))),
        (entries((1, 0), (2, 100)), 180, entries((1, 0), (2, 100), (3, 150)), 300, 150,
         entries((1, 0), (2, 100), (3, 150))),
        (entries((1, 0)), 130, entries((1, 0), (2, 0)), 500, 0, entries((1, 0), (2, 0))),
        # docs/spec/controller-ha.md 6.4 (H3): the entry of an epoch without bytes stays.
        (entries((1, 0), (2, 100)), 100, entries((1, 0), (2, 100)), 100, 100,
         entries((1, 0), (2, 100))),
        (entries((1, 0)), 50, entries((1, 0), (2, 100)), 300, 50, entries((1, 0))),
        ((), 0, entries((1, 0), (2, 100)), 300, 0, entries((1, 0))),
    ],
)  # fmt: skip
def test_handshake_settles_then_acknowledges(
    mine: Epochs, end: int, theirs: Epochs, their_end: int, point: int, kept: Epochs
) -> None:
    """S8, S9: the log is cut before the first acknowledgement, which comes at once."""
    slave = shaking(end, mine)
    effects = got(slave, reply(their_end, theirs))
    done = core.Truncated(connection=1, end=PhyOffset(point))
    assert effects[-1] == core.Truncate(end=PhyOffset(point), epochs=kept, done=done)
    cut = [e for e in effects if isinstance(e, core.Trace)]
    assert [t.name for t in cut] == (["ha.slave.cut"] if point < end else [])
    confirms = [e for e in effects if isinstance(e, core.Confirm)]
    assert confirms == ([core.Confirm(offset=PhyOffset(point))] if point < end // 2 else [])
    assert slave.step(0, done) == [ack(point)]


def comparing(end: int, mine: Epochs, theirs: MasterHandshake, **more: Any) -> HaSlave:
    """A slave that shares no epoch with its master."""
    slave = shaking(end, mine, **more)
    trace, compare = got(slave, theirs)
    assert isinstance(trace, core.Trace)
    assert (trace.name, slave.phase) == ("ha.slave.compares", "comparing")
    assert compare == core.Compare(connection=1, address=MASTER, their_end=theirs.max_offset)
    return slave


def compared(slave: HaSlave, equal: int, whole: int, *, connection: int = 1) -> list[Effect]:
    event = core.Compared(connection=connection, equal=PhyOffset(equal), whole=PhyOffset(whole))
    return slave.step(0, event)


@pytest.mark.parametrize("mine", [(), entries((3, 0)), entries((3, 20), (4, 30))])
@pytest.mark.parametrize(
    ("equal", "whole", "point", "member_too", "trace"),
    [
        (70, 70, 70, True, ""),
        (60, 60, 60, True, "ha.slave.cut"),  # what follows a whole record was never acknowledged
        (40, 60, 40, False, "ha.slave.cut"),
        (0, 60, 0, False, "ha.slave.resync"),
    ],
)
@pytest.mark.parametrize("member", [False, True])
def test_a_log_that_shares_no_entry_keeps_what_is_equal(
    mine: Epochs, equal: int, whole: int, point: int, member_too: bool, trace: str, member: bool
) -> None:
    """S6, S8: and a member of the SyncStateSet, which may be elected, keeps all that it has.

    docs/spec/controller-ha.md 6.5 (rules 4 and 8)
    """
    theirs = entries((4, 50), (5, 100))
    slave = comparing(70, mine, reply(300, theirs), in_sync_state_set=member)
    effects = compared(slave, equal, whole)
    if member and not member_too:
        assert left(effects) == (
            f"other records than the master's from {equal} to {whole}, and a member of the "
            "SyncStateSet"
        )
        assert (slave.end, slave.epochs) == (70, mine)
        return
    assert [e.name for e in effects if isinstance(e, core.Trace)] == [trace] * bool(trace)
    kept = entries((4, 50)) if point >= 50 else ()
    done = core.Truncated(connection=1, end=PhyOffset(point))
    assert effects[-1] == core.Truncate(end=PhyOffset(point), epochs=kept, done=done)
    assert slave.step(0, done) == [ack(point)]


def test_a_comparison_keeps_the_connection_and_ends_with_it() -> None:
    """Each side would take the other for dead after 20 s."""
    slave = comparing(70, (), reply(300, entries((1, 50))))
    hello = core.Send(connection=1, packet=SlaveHandshake(broker_id=BrokerId(2)))
    for at in (5, 10, 15):
        assert slave.step(at * SECOND, core.Timeout()) == [hello]
        assert got(slave, reply(300 + at, entries((1, 50))), now=at * SECOND) == []
    assert [type(e) for e in compared(slave, 0, 70, connection=9)] == [core.Trace]
    failed = core.Uncompared(connection=1, why="TimeoutError")
    assert left(slave.step(0, failed)) == "not compared: TimeoutError"
    assert [type(e) for e in slave.step(0, failed)] == [core.Trace]
    assert [type(e) for e in compared(slave, 70, 70)] == [core.Trace]
    silent = comparing(70, (), reply(300, entries((1, 50))))
    assert left(silent.step(20 * SECOND, core.Timeout())) == "silent master"
    older = comparing(70, (), reply(300, entries((2, 50))), master_epoch=MasterEpoch(2))
    assert "older" in left(got(older, reply(300, entries((1, 50)))))
    mixed = comparing(70, (), reply(300, entries((1, 50))))
    assert left(got(mixed, frame(70))) == "Transfer in comparing"


def test_an_empty_log_takes_what_has_no_label() -> None:
    """Under the master's first entry; RocketMQ's last frame of it may cross its start."""
    slave = shaking()
    got(slave, reply(5000, entries((1, 4), (2, 9))))
    settled(slave)
    first = core.Append(start=PhyOffset(0), data=b"ab", epochs=entries((1, 4)), then=(ack(2),))
    assert got(slave, frame(0, b"ab", since=4)) == [first]
    across = core.Append(start=PhyOffset(2), data=b"cdefg", epochs=None, then=(ack(7),))
    assert got(slave, frame(2, b"cdefg", since=4)) == [across]
    assert "within a transfer" in left(got(slave, frame(7, b"hijk", epoch=2, since=9)))


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        (reply(300, ()), "no epoch list"),
        (reply(300, entries((2, 0), (1, 5))), "no epoch list"),
        (reply(-1, entries((2, 0))), "no epoch list"),
        (reply(300, entries((1, 0))), "older than the master's, 2"),
        (reply(300, entries((1, 0), (2, 50))), "older than this log's"),
        (frame(0), "Transfer in handshake"),
    ],
)
def test_a_master_that_must_not_be_followed(theirs: object, why: str) -> None:
    """S6: an older master would cut what the newer one had acknowledged.

    docs/spec/controller-ha.md 6.4 (H16)
    """
    slave = shaking(100, entries((1, 0), (3, 60)), master_epoch=MasterEpoch(2))
    assert why in left(got(slave, theirs))
    assert slave.next_deadline_ns() == SECOND
    assert slave.step(SECOND, core.Timeout()) == [core.Dial(connection=2, address=MASTER)]


def test_transfer() -> None:
    """Append, acknowledge, confirm no more than there is; a new epoch is saved first.

    docs/spec/controller-ha.md 4.3
    """
    slave = copying()
    append = core.Append(start=PhyOffset(0), data=b"abc", epochs=None, then=(ack(3),))
    assert got(slave, frame(0, b"abc")) == [append]
    assert got(slave, frame(3, confirm=2)) == [core.Confirm(offset=PhyOffset(2))]
    assert got(slave, frame(3, confirm=9)) == [core.Confirm(offset=PhyOffset(3))]
    epoch = core.Append(
        start=PhyOffset(3), data=b"d", epochs=entries((1, 0), (2, 3)), then=(ack(4),)
    )
    assert got(slave, frame(3, b"d", epoch=2, since=3, confirm=3)) == [epoch]
    # RocketMQ labels the last piece of an epoch with the next one.
    early = core.Append(
        start=PhyOffset(4), data=b"ef", epochs=entries((1, 0), (2, 3), (3, 6)), then=(ack(6),)
    )
    assert got(slave, frame(4, b"ef", epoch=3, since=6, confirm=3)) == [early]
    empty = core.Append(
        start=PhyOffset(6), data=b"", epochs=entries((1, 0), (2, 3), (3, 6), (4, 6)), then=()
    )
    assert got(slave, frame(6, epoch=4, since=6, confirm=3)) == [empty]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (frame(11, b"x"), "gap or overlap"),
        (frame(9, b"x"), "gap or overlap"),
        (frame(9), "gap or overlap"),  # heartbeats too
        (frame(-2), "negative"),
        (frame(10, b"x", since=-1), "negative"),
        (frame(10, b"x", epoch=1), "epoch 1 after 2"),
        (frame(10, b"x", epoch=2, since=3), "epoch 2 starts at 3, was 5"),
        (frame(10, b"x", epoch=3, since=9), "starts at 9, before 10"),
        (frame(10, b"xyz", epoch=3, since=11), "starts within a transfer"),
        (reply(10, entries((1, 0), (2, 5))), "MasterHandshake in transfer"),
    ],
)
def test_frames_that_cannot_follow(bad: object, why: str) -> None:
    """S8: nothing of it is taken; the connection is closed."""
    slave = copying(10, entries((1, 0), (2, 5)))
    assert why in left(got(slave, bad))
    assert slave.end == 10


def test_a_master_that_has_not_chosen_a_start_is_alive() -> None:
    slave = copying()
    assert got(slave, frame(-1), now=9 * SECOND) == []
    assert slave.end == 0


def test_an_empty_log_begins_where_the_master_begins() -> None:
    """After a purge, or from the last file; the epochs are those of the bytes there.

    docs/spec/controller-ha.md 4.3
    """
    slave = shaking()
    got(slave, reply(5000, entries((1, 0), (2, 1000), (3, 3000))))
    settled(slave)
    effects = got(slave, frame(4096, b"abc", epoch=3, since=3000))
    assert effects == [
        core.Append(
            start=PhyOffset(4096), data=b"abc", epochs=entries((3, 3000)), then=(ack(4099),)
        )
    ]
    assert (slave.start, slave.end) == (4096, 4099)


def test_durable_acknowledges_only_what_is_synced() -> None:
    """S6 under loss of power: also the first one, which is the request."""
    slave = shaking(10, entries((1, 0)), durable=True)
    got(slave, reply(50, entries((1, 0))))
    first = core.Synced(connection=1, end=PhyOffset(10))
    assert settled(slave) == [core.Sync(done=first)]
    assert slave.step(5 * SECOND, core.Timeout()) == []  # no heartbeat can speak for it
    assert slave.step(5 * SECOND, first) == [ack(10)]
    second = core.Synced(connection=1, end=PhyOffset(12))
    append = core.Append(start=PhyOffset(10), data=b"ab", epochs=None, then=())
    now = 5 * SECOND
    effects = got(slave, frame(10, b"ab", confirm=5), now=now)
    assert effects == [append, core.Sync(done=second)]
    assert [type(e) for e in got(slave, frame(12, b"c", confirm=5), now=now)] == [core.Append]
    third = core.Synced(connection=1, end=PhyOffset(13))
    assert slave.step(now, second) == [ack(12), core.Sync(done=third)]
    assert slave.step(now, third) == [ack(13)]


def test_time() -> None:
    """Heartbeats after 5 s without a word, closing after 20 s of silence.

    docs/spec/controller-ha.md 4.5
    """
    slave = copying(10, entries((1, 0)))
    assert slave.next_deadline_ns() == 5 * SECOND
    assert slave.step(1, core.Timeout()) == []
    for at in (5, 10, 15):
        assert slave.step(at * SECOND, core.Timeout()) == [ack(10)]
    assert left(slave.step(20 * SECOND, core.Timeout())) == "silent master"
    silent = shaking()
    assert silent.next_deadline_ns() == 5 * SECOND
    assert "no answer" in left(silent.step(5 * SECOND, core.Timeout()))


def test_stale_events_are_ignored() -> None:
    """What a former connection brings, or a sync begun before a cut."""
    slave = copying(10, entries((1, 0)), durable=True)
    assert left(slave.step(0, core.Lost(connection=1, why="reset"))) == "reset"
    assert [type(e) for e in got(slave, frame(10, b"x"))] == [core.Trace]
    slave.step(SECOND, core.Timeout())
    for event in (
        core.Lost(connection=1, why="late"),
        core.Truncated(connection=1, end=PhyOffset(10)),
        core.Synced(connection=1, end=PhyOffset(99)),
        core.Received(connection=1, packet=frame(10, b"x")),
    ):
        assert [type(e) for e in slave.step(SECOND, event)] == [core.Trace]
    hangup = [core.Hangup(connection=1)]
    assert slave.step(SECOND, core.Connected(connection=1)) == hangup
    assert slave.phase == "dialling"
    assert slave.end == 10


def test_following_somebody_else() -> None:
    slave = copying(10, entries((1, 0)))
    assert slave.step(0, follow(99, (), master_epoch=MasterEpoch(2))) == []  # the same one
    assert slave.end == 10  # the log of a follower is its own
    older = slave.step(0, follow(0, (), address="x:1"))
    assert older == [core.Trace(name="ha.follow.ignored", why="older master epoch")]
    moved = follow(0, (), address="198.18.0.8:10912", master_epoch=MasterEpoch(2))
    assert left(slave.step(7, moved)) == "master moved"
    assert slave.next_deadline_ns() == 7
    assert slave.step(7, core.Timeout()) == [core.Dial(connection=2, address="198.18.0.8:10912")]
    assert slave.step(8, core.Stop()) == [core.Hangup(connection=2)]
    assert slave.next_deadline_ns() is None
    assert slave.step(9, follow(20, entries((1, 0)), master_epoch=MasterEpoch(3))) == []
    assert slave.end == 20


def test_an_unknown_address_is_waited_for() -> None:
    """A slave may know its master before it knows the HA address.

    docs/spec/controller-ha.md 3.7
    """
    slave = HaSlave(broker_id=BrokerId(2))
    slave.step(0, follow(0, (), address=""))
    assert slave.next_deadline_ns() is None
    assert slave.step(5, core.Timeout()) == []
    slave.step(6, follow(0, ()))
    assert slave.step(6, core.Timeout()) == [core.Dial(connection=1, address=MASTER)]


def test_a_full_disk_closes_the_connection() -> None:
    slave = copying()
    got(slave, frame(0, b"abc", confirm=3))
    failed = core.AppendFailed(why="ENOSPC", end=PhyOffset(0), epochs=entries((1, 0)))
    assert left(slave.step(0, failed)) == "append failed: ENOSPC"
    assert (slave.end, slave.confirm) == (0, 0)
    assert [type(e) for e in slave.step(0, failed)] == [core.Trace]


def test_a_trimmed_log_begins_higher() -> None:
    """Of what is confirmed only; with the epochs of what is left."""
    slave = copying(100, entries((1, 0), (2, 40)))
    got(slave, frame(100, b"", epoch=2, since=40, confirm=60))
    ignored = [core.Trace(name="ha.trimmed.ignored", why="not confirmed any more, or not new")]
    assert slave.step(0, core.Trimmed(start=PhyOffset(61))) == ignored
    assert slave.step(0, core.Trimmed(start=PhyOffset(50))) == [
        core.Trim(start=PhyOffset(50), epochs=entries((2, 40)))
    ]
    assert slave.step(0, core.Trimmed(start=PhyOffset(50))) == ignored
    assert (slave.start, slave.end) == (50, 100)


def test_a_log_that_ends_before_the_masters_begins_anew_unless_it_is_a_members() -> None:
    slave = copying(10, entries((1, 0)), in_sync_state_set=False)
    effects = got(slave, frame(4096, b"abc"))
    assert effects[0] == core.Hangup(connection=1)
    assert effects[-1] == core.Truncate(
        end=PhyOffset(0),
        epochs=(),
        done=core.Truncated(connection=1, end=PhyOffset(0)),
    )
    assert (slave.end, slave.epochs, slave.confirm) == (0, (), 0)
    member = copying(10, entries((1, 0)))
    assert "gap or overlap" in left(got(member, frame(4096, b"abc")))
    late = copying(10, entries((1, 0)), in_sync_state_set=False)
    got(late, frame(10, b"abc"))
    assert "gap or overlap" in left(got(late, frame(4096, b"abc"))), "only the first transfer"
    assert member.end == 10
