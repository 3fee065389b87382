"""A recovery may rest between pieces of a log, and finds the same."""

import pytest

from maxq.harness.simulation.world import SimHost, World
from maxq.reference.broker.store import commit_log
from maxq.reference.broker.store.store import Store
from maxq.reference.wire.message import Message


def made(host: SimHost) -> Store:
    return Store(host, root="/s", log_path="/s/commitlog", log_file_size=4096, queue_file_size=60)


def test_a_recovery_rests_between_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """B5: a broker that comes with a long log holds up no neighbour."""
    monkeypatch.setattr(commit_log, "PIECE_RECORDS", 4)

    async def case(host: SimHost) -> None:
        store = made(host)
        store.recover()
        for number in range(30):  # ten in a file
            store.put([Message(topic="T", body=bytes(300) + b"%d" % number)])
        end, bounds = store.end, store.bounds("T", 0)
        store.close()
        store = made(host)
        assert sum(1 for _ in store.recovering()) == 6
        assert (store.end, store.bounds("T", 0)) == (end, bounds)
        store.close()

    world = World(1)
    world.run(world.add_machine("a", "198.18.0.16"), case)
    world.close()
