"""Pairs become crossed containers, machine after machine, as docs/containers.md has it."""

import pytest

from maxq.harness.contracts.environment import Role
from maxq.harness.experiments.crash_points.container_arena import ContainerArena


@pytest.mark.parametrize("first", ["k0", "k1"])
@pytest.mark.parametrize("sync_flush", [True, False])
def test_pairs_move_into_containers_with_their_stores(first: str, sync_flush: bool) -> None:
    """Each set takes messages before, between and after; nothing acknowledged is missing."""
    arena = ContainerArena(None, controllers=0, brokers=2, sync_flush=sync_flush)
    on = {k: [n.name for n in arena.nodes.values() if n.container == k] for k in ("k0", "k1")}
    try:
        arena.start(*arena.of(Role.NAMESRV))
        arena.start_alone(*on["k0"], *on["k1"])
        arena.until(lambda: arena.in_sync(2) and len(arena.acked) >= 6, "pairs take messages")
        for container in sorted(on, reverse=first == "k1"):
            before = arena.taken.copy()
            arena.kill(*on[container])
            arena.start(container)
            arena.until(lambda: arena.in_sync(2), "all are in sync again")
            arena.until(lambda b=before: all(arena.taken[s] >= b[s] + 3 for s in arena.sets),  # type: ignore[misc]
                        "each set takes messages")  # fmt: skip
        arena.become_whole()
        assert (arena.missing(), arena.oracle.anomalies) == ([], [])
    finally:
        arena.world.close()
