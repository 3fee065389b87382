"""Connections that are reset in a deployed cluster in the simulator, with their proof."""

from collections.abc import Sequence

from run_in_world import Watched, with_cluster

from maxq.harness.client.probes import until
from maxq.harness.cluster.deployment import Deployment
from maxq.harness.contracts.environment import Cut

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


def test_of_connections_to_certain_ports_all_others_stay() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        asked = environment.machine("c0").address + ":"
        before = await ends(environment, "b0-0", "c0")
        to_remoting = {pair for pair in before if pair[1].startswith(asked)}
        assert to_remoting
        assert await cluster.resets.reset_connections("b0-0", PEERS, "ha") == {}
        assert await cluster.resets.reset_connections("b0-0", PEERS, "raft") == {}
        assert await ends(environment, "b0-0", "c0") == before
        proofs = await cluster.resets.reset_connections("b0-0", PEERS, "remoting")
        assert list(proofs) == ["b0-0", "c0", "n0"]
        assert all(proof.holds for proof in proofs.values())

    with_cluster(main)


def test_a_kernel_that_ends_none_cuts_no_other_ports() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        seen: list[Cut] = []
        machine = environment.machine("b0-0")
        put = machine.cut

        async def watched(cuts: Sequence[Cut]) -> None:
            seen.extend(cuts)
            await put(cuts)

        async def deaf(block: str, ports: Sequence[int] = ()) -> None:
            """It leaves them as they are."""

        machine.cut = watched  # type: ignore[method-assign]
        for node in ("b0-0", "c0"):
            environment.machine(node).reset_connections = deaf  # type: ignore[method-assign]
        await cluster.resets.reset_connections("b0-0", ["c0"], "remoting")
        assert seen
        assert all(cut.ports and cut.reset for cut in seen)
        assert await machine.cut_packets() == {}

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
        async def deaf(block: str, ports: Sequence[int] = ()) -> None:
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
