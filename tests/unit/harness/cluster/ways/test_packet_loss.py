"""Packet loss in a deployed cluster in the simulator: its proof, beside cuts and other losses."""

from typing import Any

from run_in_world import Watched, with_cluster

from maxq.harness.cluster.deployment import Deployment
from maxq.harness.contracts.environment import Dropped
from maxq.harness.contracts.outcome import Ok
from maxq.histories.op import NEMESIS, Op
from maxq.nemeses.scripted import Scripted

PEERS = ["b0-0", "c0", "n0"]  # a node is no peer of its own


def test_a_loss_is_proven_in_each_direction_by_what_was_dropped() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        lose = cluster.losses.lose
        for ways, seen in (("both", ["in", "out"]), ("in", ["in"]), ("out", ["out"])):
            proof = await lose("b0-0", percent=30, peers=PEERS, ways=ways)  # type: ignore[arg-type]
            assert proof.holds, proof
            assert list(proof.seen["dropped"]) == seen
            assert proof.seen["peers"] == ["c0", "n0"]
            assert all(0 < d["packets"] <= d["of"] for d in proof.seen["dropped"].values())
            assert cluster.losses.losing("b0-0")
            assert bool(await environment.machine("b0-0").lost_packets()) is ("in" in seen)
            assert bool(await environment.machine("c0").lost_packets()) is ("out" in seen)
        healed = await cluster.losses.stop_losing("b0-0")
        assert healed.holds, healed
        assert healed.seen["met"] == {"c0": {"b0-0": "open"}, "n0": {"b0-0": "open"}}
        assert healed.seen["dropped"]["out"]["packets"] > 0
        assert not cluster.losses.losing("b0-0")
        for node in PEERS:
            assert await environment.machine(node).lost_packets() == {}

    with_cluster(main)


def test_a_loss_that_drops_nothing_proves_nothing() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        machine = environment.machine("b0-0")
        lose, lost = machine.lose, machine.lost_packets

        async def deaf(losses: Any) -> None:
            """It loses what it lost before."""

        async def idle() -> dict[str, Dropped]:
            return {peer: Dropped(0, 40) for peer in ("c0", "n0")}

        machine.lose = deaf  # type: ignore[method-assign]
        assert not (await cluster.losses.lose("b0-0", percent=50, peers=PEERS, ways="in")).holds
        machine.lose = lose  # type: ignore[method-assign]
        machine.lost_packets = idle  # type: ignore[method-assign]
        assert not (await cluster.losses.lose("b0-0", percent=50, peers=PEERS, ways="in")).holds
        machine.lost_packets = lost  # type: ignore[method-assign]
        assert (await cluster.losses.lose("b0-0", percent=50, peers=PEERS, ways="in")).holds
        machine.lose = deaf  # type: ignore[method-assign]
        assert not (await cluster.losses.stop_losing("b0-0")).holds
        alone = await cluster.losses.lose("b0-0", percent=50, peers=["b0-0"], ways="in")
        assert (alone.holds, alone.seen) == (False, {"reason": "no other node was named"})

    with_cluster(main)


def test_a_loss_behind_a_cut_holds_once_its_rules_are_in_force() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        cut = await cluster.links.cut({"b0-0": frozenset({"c0", "n0"})}, name="p")
        assert cut["b0-0"].holds
        proof = await cluster.losses.lose("b0-0", percent=50, peers=PEERS, ways="both")
        assert proof.holds, proof
        assert proof.seen["dropped"]["in"] == {"packets": 0, "of": 0}
        assert proof.seen["dropped"]["out"]["packets"] > 0
        healed = await cluster.losses.stop_losing("b0-0")
        assert (healed.holds, healed.seen["met"]) == (True, {}), "the cut hides all ways"
        assert sorted(await environment.machine("b0-0").cut_packets()) == ["c0", "n0"]

    with_cluster(main)


def test_the_heal_of_a_cut_leaves_a_loss_and_asks_no_probe_that_may_be_lost() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.links.cut({"b0-0": frozenset({"c0", "n0"})}, name="p")
        assert (await cluster.losses.lose("b0-0", percent=90, peers=["c0"], ways="out")).holds
        healed = await cluster.links.heal(name="p")
        assert (healed["b0-0"].holds, healed["b0-0"].seen) == (
            True,
            {"rules": 0, "met": {"n0": "open"}},
        )
        assert list(await environment.machine("c0").lost_packets()) == ["b0-0"]

    with_cluster(main)


def test_of_two_losses_of_one_way_the_higher_share_counts_until_it_ends() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.losses.lose("b0-0", percent=20, peers=["c0"], ways="in")
        await cluster.losses.lose("c0", percent=60, peers=["b0-0", "n0"], ways="both")

        def shares() -> dict[str, int]:
            rules = environment.machine("b0-0")._machine.stack.losses
            return {rule.source: rule.percent for rule in rules}

        assert shares() == {"c0": 60}
        assert (await cluster.losses.stop_losing("c0")).holds
        assert shares() == {"c0": 20}
        assert (await cluster.losses.stop_losing("b0-0")).holds
        assert shares() == {}

    with_cluster(main)


def test_a_loss_strikes_by_role_and_its_heal_names_whom_it_struck() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        nemesis = Scripted(cluster, "key")

        async def do(f: str, act: str, **asked: Any) -> dict[str, Any]:
            outcome = await nemesis.invoke(Op("info", NEMESIS, f, act, ext=asked))
            assert isinstance(outcome, Ok)
            return dict(outcome.value)

        args = {"percent": 40, "from": "controllers"}
        struck = await do("start-packet-loss", "l", who={"part": "master"}, args=args)
        assert {n: (t["holds"], t["role"], t["percent"]) for n, t in struck.items()} == {
            "b0-0": (True, "master", 40)
        }
        assert sorted(await environment.machine("b0-0").lost_packets()) == ["c0"]
        assert "nobody" in await do("stop-packet-loss", "h", who={"nodes": ["c0"]})
        healed = await do("stop-packet-loss", "h2", who={"of": "l"})
        assert (list(healed), healed["b0-0"]["holds"]) == (["b0-0"], True)

    with_cluster(main)


def test_what_is_lost_of_some_ports_leaves_the_others_alone() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        lose, ways = cluster.losses.lose, cluster.losses._ways
        proof = await lose("b0-1", percent=100, peers=["b0-0", "n0"], ways="both", ports="ha")
        assert (proof.holds, proof.seen["peers"]) == (True, ["b0-0", "n0"])
        assert proof.seen["dropped"]["in"]["packets"] == proof.seen["dropped"]["in"]["of"] > 0
        assert await ways.probe("b0-0", "b0-1", 1.0) == "open"
        assert await ways.probe("b0-0", "b0-1", 1.0, "ha") == "silent"
        none = await lose("b0-1", percent=100, peers=["b0-0"], ways="both", ports="raft")
        assert none.seen == {"reason": "no other node with raft ports was named"}
        assert (await cluster.losses.stop_losing("b0-1")).holds
        assert await ways.probe("b0-0", "b0-1", 1.0, "ha") != "silent"

    with_cluster(main, replicas=2)
