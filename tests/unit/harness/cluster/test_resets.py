"""Connections that are reset in a deployed cluster in the simulator, with their proof."""

from run_in_world import Watched, with_cluster

from maxq.harness.client.probes import until
from maxq.harness.cluster.deployment import Deployment

PEERS = ["b0-0", "c0", "n0"]  # a node is no peer of its own


async def ends(environment: Watched, node: str, peer: str) -> frozenset[tuple[str, str]]:
    return await environment.machine(node).connections(environment.machine(peer).block)


def test_the_connections_of_before_are_gone_at_both_ends_and_come_anew() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        before = {peer: await ends(environment, "b0-0", peer) for peer in ("c0", "n0")}
        assert all(before.values())
        proofs = await cluster.resets.reset_connections("b0-0", PEERS)
        assert list(proofs) == ["b0-0", "c0", "n0"]
        assert all(proof.holds for proof in proofs.values())
        counts = {peer: len(each) for peer, each in before.items()}
        assert proofs["b0-0"].seen == {"from": counts, "left": {}}
        assert proofs["n0"].seen == {"from": {"b0-0": counts["n0"]}, "left": {}}

        async def anew() -> bool:
            return bool(await ends(environment, "b0-0", "n0"))

        assert await until(anew, 5)
        assert not before["n0"] & await ends(environment, "b0-0", "n0")

    with_cluster(main)


def test_of_machines_without_a_connection_nothing_is_told() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        assert await cluster.resets.reset_connections("n0", ["n0"]) == {}
        await cluster.processes.kill("b0-0")
        assert await cluster.resets.reset_connections("n0", ["b0-0"]) == {}

    with_cluster(main)


def test_a_kernel_that_ends_none_is_helped_by_resets_of_what_is_said() -> None:
    """A connection on which nobody says anything stays, and the proof says so."""

    async def main(cluster: Deployment, environment: Watched) -> None:
        async def deaf(block: str) -> None:
            """It leaves them as they are."""

        for node in ("b0-0", "c0"):
            environment.machine(node).reset_connections = deaf  # type: ignore[method-assign]
        proofs = await cluster.resets.reset_connections("b0-0", ["c0"])
        seen = proofs["b0-0"].seen
        assert sum(seen["left"].values()) < sum(seen["from"].values())
        assert all(proof.holds is not bool(seen["left"]) for proof in proofs.values())
        assert await environment.machine("b0-0").cut_packets() == {}

    with_cluster(main)


def test_what_is_left_is_no_proof() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        known = await ends(environment, "b0-0", "n0")

        async def always(block: str) -> frozenset[tuple[str, str]]:
            return known

        environment.machine("b0-0").connections = always  # type: ignore[method-assign]
        proofs = await cluster.resets.reset_connections("b0-0", ["n0"])
        assert not any(proof.holds for proof in proofs.values())
        assert proofs["n0"].seen["left"] == {"b0-0": len(known)}

    with_cluster(main)
