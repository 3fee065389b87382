"""Write permissions in a deployed cluster in the simulator, with their proof."""

from typing import Any

from run_in_world import Watched, with_cluster

from maxq.harness.cluster.deployment import Deployment


def test_an_order_is_proven_by_the_routes_and_told_of_each_broker_of_the_set() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.create_topics({"t": 1, "u": 2})
        for order, perm in (
            (cluster.permissions.wipe_write, 4),
            (cluster.permissions.add_write, 6),
        ):
            proofs = await order("b0-0", ["n0"])
            members = [n.name for n in cluster.nodes if n.broker_set == "b0" and not n.spare]
            assert list(proofs) == members
            for proof in proofs.values():
                assert proof.holds
                assert proof.seen == {"set": "b0", "perms": {"n0": {"t": perm, "u": perm}}}

    with_cluster(main)


def test_a_name_server_that_does_not_answer_is_left_out() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.create_topics({"t": 1})
        await cluster.processes.kill("n0")
        assert await cluster.permissions.wipe_write("b0-0", ["n0"]) == {}

    with_cluster(main)


def test_of_a_silent_name_server_the_set_is_told_that_it_may_open_later() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.create_topics({"t": 1})
        await cluster.processes.pause("n0")
        proofs = await cluster.permissions.add_write("b0-0", ["n0"])
        assert list(proofs) == ["nobody"]
        assert proofs["nobody"].seen["set"] == "b0"
        assert "no answer of n0" in proofs["nobody"].seen["reason"]

    with_cluster(main)


def test_routes_that_do_not_change_are_no_proof() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.create_topics({"t": 1})

        async def other(*words: Any) -> dict[str, int]:
            return {"t": 6}

        cluster.permissions._ordered = other  # type: ignore[method-assign,assignment]
        proofs = await cluster.permissions.wipe_write("b0-0", ["n0"])
        assert not any(proof.holds for proof in proofs.values())

    with_cluster(main)
