"""Cuts of several names at once, healed one by one; and masters that are asked for by name."""

import asyncio

from run_in_world import Watched, with_cluster
from test_deployment_faults import TRIO, playing

from maxq.harness.cluster.deployment import Deployment, until
from maxq.harness.contracts.environment import CLIENT


def test_the_heal_of_one_cut_leaves_the_other_in_force() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        one = await cluster.links.cut({"b0-0": frozenset({"c0", "n0"})}, name="one")
        other = await cluster.links.cut(
            {"b0-0": frozenset({"c0", "c1"}), "c1": frozenset({"n0"})}, name="other"
        )
        assert all(p.holds for p in (*one.values(), *other.values())), (one, other)
        assert sorted(await environment.machine("b0-0").cut_packets()) == ["c0", "c1", "n0"]

        healed = await cluster.links.heal(name="one")

        assert list(healed) == ["b0-0"]
        assert healed["b0-0"].holds, healed
        # Only n0 is heard again: c0 is in the other cut as well.
        assert healed["b0-0"].seen == {"rules": 2, "met": {"n0": "open"}}
        assert sorted(await environment.machine("b0-0").cut_packets()) == ["c0", "c1"]
        host, port = cluster.address("b0-0").split(":")
        for source, met in (("c0", "silent"), ("c1", "silent"), ("n0", "open")):
            probed = await environment.machine(source).probe(host, int(port), timeout_s=0.5)
            assert probed == met, source
        rest = await cluster.links.heal(name="other")
        assert sorted(rest) == ["b0-0", "c1"]
        assert all(p.holds for p in rest.values()), rest
        assert await environment.machine("b0-0").cut_packets() == {}

    with_cluster(main, broker_sets=1, controllers=3)


def test_a_probe_that_another_cut_stops_proves_nothing_of_a_heal() -> None:
    """Cuts of the two ways between two nodes: what each hears again is known when both are over."""

    async def main(cluster: Deployment, environment: Watched) -> None:
        assert (await cluster.links.cut({"b0-0": frozenset({"c0"})}, name="in"))["b0-0"].holds
        assert (await cluster.links.cut({"c0": frozenset({"b0-0"})}, name="out"))["c0"].holds
        first = await cluster.links.heal(name="in")
        assert (first["b0-0"].holds, first["b0-0"].seen) == (True, {"rules": 0, "met": {}})
        second = await cluster.links.heal(name="out")
        assert second["c0"].seen == {"rules": 0, "met": {"b0-0": "open"}}
        assert second["c0"].holds

    with_cluster(main)


def test_a_heal_without_a_name_ends_all_and_of_an_unknown_name_nothing() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.links.cut({"b0-0": frozenset({"c0"})}, name="one")
        await cluster.links.cut({"c0": frozenset({CLIENT})}, name="two", reset=True)
        assert await cluster.links.heal(name="three") == {}
        assert await cluster.links.heal(name="") == {}, "that is a name like any other"
        healed = await cluster.links.heal()
        assert sorted(healed) == ["b0-0", "c0"]
        assert all(p.holds for p in healed.values())

    with_cluster(main)


def test_a_cut_of_the_same_name_replaces_its_own_and_no_other() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.links.cut({"b0-0": frozenset({"c0"})}, name="one")
        await cluster.links.cut({"b0-0": frozenset({"n0"})}, name="two")
        await cluster.links.cut({"c0": frozenset({"n0"})}, name="one")
        assert sorted(await environment.machine("b0-0").cut_packets()) == ["n0"]
        assert sorted(await environment.machine("c0").cut_packets()) == ["n0"]

    with_cluster(main)


def test_the_newest_of_two_cuts_says_how_packets_are_refused() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.links.cut({"b0-0": frozenset({"c0"})}, name="quiet")
        loud = await cluster.links.cut({"b0-0": frozenset({"c0"})}, name="loud", reset=True)
        assert loud["b0-0"].holds
        assert loud["b0-0"].seen["met"] == {"c0": "refused"}
        assert (await cluster.links.heal(name="loud"))["b0-0"].holds, "still silent by the other"
        host, port = cluster.address("b0-0").split(":")
        probed = await environment.machine("c0").probe(host, int(port), timeout_s=0.5)
        assert probed == "silent"

    with_cluster(main)


def test_each_replica_can_be_made_master() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        [leader] = await playing(cluster, "master")
        assert (await cluster.queries.elect(leader)).holds, "no error if it leads"
        assert await until(cluster.queries.level, 20)
        for node in ("b0-1", "b0-2", "b0-0"):
            proof = await cluster.queries.elect(node)
            assert proof.holds, (node, proof)
            assert await playing(cluster, "master") == [node]
            assert isinstance(proof.seen["id"], int)
            assert await until(cluster.queries.level, 20)

    with_cluster(main, **TRIO)


def test_one_that_is_down_is_not_made_master() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        [leader] = await playing(cluster, "master")
        await asyncio.sleep(2)
        [victim, *_] = await playing(cluster, "slave")
        await cluster.processes.kill(victim)
        proof = await cluster.queries.elect(victim)
        assert not proof.holds
        assert proof.seen["answers"], "and what controllers say of it"
        assert await playing(cluster, "master") == [leader]

    with_cluster(main, **TRIO)
