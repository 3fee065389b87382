"""The transient store pool: what was sent and is not in its file yet is nobody's to read or copy,
goes with a killed process, and is committed in time, whole and in order."""

import errno
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.simulation.world import SimHost, SimMachine, World
from maxq.reference.broker.store.pool import PAGE_BYTES, Commits
from maxq.reference.broker.store.store import Store
from maxq.reference.config import BrokerConfig
from maxq.reference.wire.message import Message, decode

POOLED = BrokerConfig(transient_store_pool_enable=True)
SLEEPS = BrokerConfig(transient_store_pool_enable=True, wake_commit_when_put_message=False)
FILE = 4096


@pytest.fixture
def machine() -> Iterator[SimMachine]:
    world = World(1)
    yield world.add_machine("a", "198.18.0.16")
    world.close()


def opened(host: SimHost, config: BrokerConfig | None) -> Store:
    pool = None if config is None else Commits.of(config)
    store = Store(host, root="/s", log_path="/s/log", log_file_size=FILE, queue_file_size=60,
                  pool=pool)  # fmt: skip
    store.recover()
    return store


def bodies(store: Store) -> list[bytes]:
    first, _ = store.bounds("T", 0)
    return [decode(store.record(unit))[0].body for _, unit in store.units("T", 0, first)]


def message(body: bytes) -> Message:
    return Message(topic="T", body=body, queue_id=0)


def test_without_sync_only_there_is_a_pool() -> None:
    assert POOLED.pools
    assert not BrokerConfig().pools
    assert not BrokerConfig(transient_store_pool_enable=True, flush_disk_type="SYNC_FLUSH").pools


def test_what_waits_is_nobodys_and_goes_with_the_process(machine: SimMachine) -> None:
    """A process dies here by being forgotten: its files stay, as a page cache does."""

    async def write(host: SimHost) -> None:
        store = opened(host, SLEEPS)
        (first,) = store.put([message(b"kept")])
        store.commit()
        stored = store.put([message(b"lost"), message(b"too")])
        assert [s.queue_offset for s in stored] == [1, 2]
        assert (store.end, store.pooled_end) == (first.end, stored[-1].end)
        assert store.bounds("T", 0) == (0, 1)
        assert bodies(store) == [b"kept"]
        assert store.read_range(first.end, 100) == b""
        store.flush_queues()  # which may be ahead of the log

    async def read(host: SimHost) -> None:
        store = opened(host, None)
        assert bodies(store) == [b"kept"]
        assert store.put([message(b"next")])[0].queue_offset == 1

    machine.world.run(machine, write)
    machine.world.run(machine, read)


@pytest.mark.parametrize("ending", ["mark", "sync", "truncate"])
def test_what_needs_the_whole_log_commits_it_first(machine: SimMachine, ending: str) -> None:
    async def write(host: SimHost) -> None:
        store = opened(host, SLEEPS)
        await store.sync_recovered()
        sent = [b"%d" % n + bytes(n * 37 % 900) for n in range(20)]  # of several files
        ends = [store.put([message(body)])[0].end for body in sent]
        if ending == "truncate":
            await store.truncate(ends[9])
        else:
            await (store.mark() if ending == "mark" else store.sync())
        assert bodies(store) == (sent[:10] if ending == "truncate" else sent)
        assert store.end == store.pooled_end

    machine.world.run(machine, write)


def test_a_full_disk_delays_a_commit_and_refuses_sends_meanwhile(machine: SimMachine) -> None:
    async def write(host: SimHost) -> None:
        store = opened(host, SLEEPS)
        store.put([message(b"first")])
        machine.disk.full = True
        store.pool.try_commit()
        assert bodies(store) == []
        with pytest.raises(OSError, match="space") as refused:
            store.put([message(b"refused")])
        assert refused.value.errno == errno.ENOSPC
        machine.disk.full = False
        store.put([message(b"second")])
        store.commit()
        assert bodies(store) == [b"first", b"second"]

    machine.world.run(machine, write)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**9))
def test_a_commit_waits_for_pages_or_time(end: int, waits: int, since_ns: int) -> None:
    """Of RocketMQ's settings: four pages, or 200 ms."""
    due = Commits.of(POOLED).is_due(since_ns, end + waits, end)
    assert due or (waits < 4 * PAGE_BYTES + PAGE_BYTES and since_ns < 200_000_000)
    assert not due or since_ns >= 200_000_000 or waits > 3 * PAGE_BYTES
