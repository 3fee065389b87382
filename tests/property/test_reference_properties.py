"""Properties of the reference's pure parts and of its log: elections, ids, recovery, tables."""

from collections.abc import Awaitable, Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from maxq.harness.simulation.world import SimHost, World
from maxq.reference.broker.messages.pull import find
from maxq.reference.broker.store.commit_log import CorruptLog
from maxq.reference.broker.store.store import Store
from maxq.reference.controller import registry
from maxq.reference.controller.election import Candidate, choose
from maxq.reference.controller.registry import (
    AlterSyncStateSet,
    ApplyBrokerId,
    CleanBrokerData,
    ElectMaster,
    RegisterBroker,
    Registry,
)
from maxq.reference.records import PhyOffset, QueueOffset
from maxq.reference.wire.message import Message, QueueUnit, decode

IDS = st.integers(1, 5)
CANDIDATES = st.lists(
    st.builds(
        Candidate, broker_id=IDS, epoch=st.integers(-1, 3), max_offset=st.integers(-1, 5),
        priority=st.integers(0, 3),
    ),
    max_size=5, unique_by=lambda c: c.broker_id,
).map(tuple)  # fmt: skip
SETS = st.frozensets(IDS).map(lambda s: tuple(sorted(s)))


@given(
    SETS, st.none() | SETS, CANDIDATES, st.none() | IDS, st.none() | IDS, st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_who_is_chosen_may_be_chosen(
    registered: tuple[int, ...],
    sss: tuple[int, ...] | None,
    alive: tuple[Candidate, ...],
    old: int | None,
    preferred: int | None,
    designate: bool,
    unclean: bool,
) -> None:
    """S7: always registered and alive; of the SyncStateSet unless unclean and no member lives;
    somebody, where somebody may be; and the order of candidates does not matter."""
    settings: dict[str, Any] = {
        "registered": registered, "sync_state_set": sss, "old_master": old,
        "preferred": preferred, "designate": designate, "unclean": unclean,
    }  # fmt: skip
    chosen = choose(alive=alive, **settings)
    assert chosen == choose(alive=alive[::-1], **settings)
    living = {c.broker_id for c in alive} & set(registered)
    members = living if sss is None else living & set(sss)
    if chosen is None:
        assert designate or not (living if unclean else members)
        return
    assert chosen in living
    assert not designate or chosen == preferred
    if chosen not in members:
        assert unclean
        assert designate or not members
    elif old in members and not designate:
        assert chosen == old


NAMES = st.sampled_from(["b", "x"])
COMMANDS = st.one_of(
    st.builds(ApplyBrokerId, cluster=st.just("c"), broker_set=NAMES,
              broker_id=st.integers(-1, 6), check_code=st.sampled_from(["", "p;1", "q;1", "r;1"]),
              address=st.sampled_from(["p", "q"])),
    st.builds(RegisterBroker, cluster=st.just("c"), broker_set=NAMES, broker_id=IDS,
              address=st.sampled_from(["p", "q"])),
    st.builds(ElectMaster, broker_set=NAMES, preferred=st.none() | IDS, designate=st.booleans(),
              alive=CANDIDATES, unclean=st.booleans()),
    st.builds(AlterSyncStateSet, broker_set=NAMES, master=IDS, master_epoch=st.integers(0, 3),
              sync_state_set=st.lists(IDS, max_size=3).map(tuple),
              sync_state_set_epoch=st.integers(0, 3), alive=st.just((1, 2, 3, 4))),
    st.builds(CleanBrokerData, broker_set=NAMES,
              ids=st.none() | st.lists(IDS, max_size=2).map(tuple),
              living=st.booleans(), alive=st.just((1,))),
)  # fmt: skip


@given(st.lists(COMMANDS, max_size=40))
def test_every_command_keeps_the_promises(commands: list[registry.Command]) -> None:
    """S1, S2, S3, S5: whatever is proposed: ids in order and never reused, a code owns one id at
    most once granted, epochs only grow, one master an epoch, and the state can be stored."""
    state = Registry()
    masters: dict[tuple[str, int], int | None] = {}
    owners: dict[tuple[str, int], str] = {}
    for command in commands:
        before = {n: (s.next_broker_id, s.master_epoch, s.sync_state_set_epoch)
                  for n, s in state.sets.items()}  # fmt: skip
        state.apply(command)
        for name, known in state.sets.items():
            now = (known.next_broker_id, known.master_epoch, known.sync_state_set_epoch)
            assert all(a >= b for a, b in zip(now, before.get(name, (1, 0, 0)), strict=True))
            assert set(known.replicas) <= set(range(1, known.next_broker_id))
            assert set(known.sync_state_set) <= set(known.replicas)
            for broker_id, replica in known.replicas.items():
                key = (name, broker_id)
                assert owners.setdefault(key, replica.check_code) == replica.check_code
            key = (name, known.master_epoch)
            if known.master is not None:  # cleaned away, perhaps
                assert masters.setdefault(key, known.master) == known.master
        assert registry.from_bytes(registry.to_bytes(state)).sets == state.sets


# --- the log -----------------------------------------------------------------------------------

FILE = 1024
BODIES = st.lists(st.binary(max_size=300), min_size=1, max_size=14)


def on_disk(case: Callable[[SimHost, bytearray], Awaitable[None]], bodies: list[bytes]) -> None:
    """Write `bodies`, forget the process, and give its last file to `case`."""
    world = World(0)
    machine = world.add_machine("a", "198.18.0.16")

    async def main(host: SimHost) -> None:
        store = open_store(host)
        for body in bodies:
            store.put([Message(topic="T", body=body)])
        store.flush_queues()
        host.disk.unlink("/s/lock")
        machine.disk._locks.clear()
        last = max(p for p in machine.disk.files if "commitlog" in p)
        await case(host, machine.disk.files[last])

    try:
        world.run(machine, main)
    finally:
        world.close()


def open_store(host: SimHost) -> Store:
    store = Store(host, root="/s", log_path="/s/commitlog", log_file_size=FILE, queue_file_size=100)
    store.recover()
    return store


def stored(store: Store) -> list[bytes]:
    return [decode(store.record(u))[0].body for _, u in store.units("T", 0, QueueOffset(0))]


def last_record(content: bytearray, bodies: list[bytes]) -> int:
    """Where in its file the last record begins."""
    return content.rindex((0xDAA320A7).to_bytes(4, "big")) - 4


@settings(deadline=None, max_examples=150)
@given(BODIES, st.data())
def test_a_log_cut_in_its_last_record_keeps_all_before(
    bodies: list[bytes], data: st.DataObject
) -> None:
    """S6, S11: recovered to the last whole record, the tail erased; what is written next is read,
    and no old byte is ever taken for a record."""

    async def case(host: SimHost, content: bytearray) -> None:
        size = len(content)
        begin = last_record(content, bodies)
        end = begin + int.from_bytes(content[begin : begin + 4], "big")
        cut = data.draw(st.integers(begin, end - 1))
        if data.draw(st.booleans(), label="file is short"):
            del content[cut:]
        else:
            content[cut:] = bytes(size - cut)
        store = open_store(host)
        # Zeros may have been there before: then nothing was torn.
        kept = stored(store)
        assert kept in (bodies[:-1], bodies)
        assert store.end % FILE in (begin % FILE, end % FILE)
        assert len(content) == FILE
        assert not any(content[store.end % FILE :])
        more = data.draw(st.lists(st.binary(max_size=300), max_size=3))
        for at, body in enumerate(more):
            (place,) = store.put([Message(topic="T", body=body)])
            assert place.queue_offset == len(kept) + at
        host.disk.unlink("/s/lock")
        host.disk._locks.clear()  # type: ignore[attr-defined]
        assert stored(open_store(host)) == kept + more

    on_disk(case, bodies)


@settings(deadline=None, max_examples=150)
@given(BODIES, st.data())
def test_one_flipped_bit_is_a_torn_tail_or_a_refusal(
    bodies: list[bytes], data: st.DataObject
) -> None:
    """S6: in the last record: cut, or without effect where nothing guards it; before a
    sound record: the store refuses, or reads the same number of records. Never fewer in silence."""

    async def case(host: SimHost, content: bytearray) -> None:
        begin = last_record(content, bodies)
        end = begin + int.from_bytes(content[begin : begin + 4], "big")
        at = data.draw(st.integers(0, end - 1))
        content[at] ^= 1 << data.draw(st.integers(0, 7))
        why = ""
        try:
            store = open_store(host)
        except CorruptLog as error:
            why = str(error)
        if why:
            assert "/s/commitlog" in why
            assert "offset" in why
            assert at < begin or "message" in why or "renamed" in why
            return
        found = sum(store.bounds(*key)[1] for key in store._queues)
        assert found >= len(bodies) - (at >= begin)

    on_disk(case, bodies)


@given(
    st.integers(-3, 12), st.integers(0, 8), st.integers(-1, 40),
    st.none() | st.frozensets(st.integers(0, 2), min_size=1),
)  # fmt: skip
def test_pulls_skip_nothing(
    offset: int, end: int, count_max: int, codes: frozenset[int] | None
) -> None:
    """S10: following next offsets reads every wanted message once, in order."""
    units = [
        (QueueOffset(i), QueueUnit(physical_offset=PhyOffset(i), size=90_000, tags_code=i % 3))
        for i in range(end)
    ]
    seen: list[int] = []
    at, bounds = offset, (QueueOffset(0), QueueOffset(end))
    for _ in range(30):
        got = find(at, bounds, (u for u in units if u[0] >= at), count_max=count_max, codes=codes)
        seen += [u.physical_offset for u in got.units]
        assert got.code in (0, 19, 20, 21)
        if got.code == 19:
            assert got.next_offset == at == end
            break
        assert got.next_offset != at
        at = got.next_offset
    first = offset if 0 <= offset <= end else 0 if offset < 0 or end == 0 else end
    assert seen == [i for i in range(first, end) if codes is None or i % 3 in codes]
