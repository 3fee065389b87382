"""What faults can do to a deployed cluster in the simulator, and what proves that they did."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from run_in_world import Watched, with_cluster

from maxq.harness.cluster.deployment import Deployment, until
from maxq.harness.cluster.processes import Nodes
from maxq.harness.contracts.cluster import NothingThere
from maxq.harness.contracts.environment import CLIENT, CLIENT_ADDRESS, OBSERVER_ADDRESS, Role

Main = Callable[[Deployment, Watched], Coroutine[Any, Any, None]]
TRIO: dict[str, Any] = {"broker_sets": 1, "replicas": 3, "controllers": 3, "profile": "P-SAFE"}


async def playing(cluster: Deployment, part: Any) -> list[str]:
    """Who plays a part, once somebody does."""

    async def known() -> bool:
        return bool(await cluster.playing(part))

    assert await until(known, 30)
    return list(await cluster.playing(part))


def test_a_pause_is_proven_by_the_state_and_ends() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        proof = await cluster.processes.pause("b0-0")
        assert (proof.holds, proof.seen["stopped"]) == (True, True)
        assert cluster.processes.paused("b0-0")
        assert cluster.processes.running("b0-0")
        assert not await cluster.recovered(), "it does not answer"
        back = await cluster.processes.resume("b0-0")
        assert (back.holds, back.seen["stopped"], back.seen["port"]) == (True, False, "open")
        assert not cluster.processes.paused("b0-0")
        assert (await cluster.processes.resume("b0-0")).holds

    with_cluster(main)


@pytest.mark.parametrize("f", ["kill", "stop", "power_loss"])
def test_a_paused_node_can_end(f: str) -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.processes.pause("b0-0")
        proof = await getattr(cluster.processes, f)("b0-0")
        assert proof.holds, proof
        assert not cluster.processes.paused("b0-0")
        assert (await cluster.processes.start("b0-0")).holds

    with_cluster(main)


def test_a_stop_is_proven_by_exit_code_0() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        for name in ("b0-0", "c0", "n0"):
            proof = await cluster.processes.stop(name)
            assert proof.holds
            assert (proof.seen["code"], proof.seen["port"]) == (0, "refused")
            again = await cluster.processes.stop(name)
            assert (again.holds, again.seen["reason"]) == (False, "it was down")
        assert not (await cluster.processes.pause("n0")).holds

    with_cluster(main)


def instead_of_stopping(environment: Watched, node: str, sent: int | None) -> None:
    """Let a machine send another signal, or none, where a node is asked to stop."""
    machine = environment.machine(node)
    send: Any = machine.signal

    async def signalled(pid: int, number: int) -> None:
        what = sent if number == signal.SIGTERM else number
        if what is not None:
            await send(pid, what)

    machine.signal = signalled  # type: ignore[method-assign,assignment]


FORCED = {"forced": True, "reason": "it did not stop within 15 s and was killed"}


def test_one_that_does_not_stop_is_killed_and_the_proof_says_so() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        instead_of_stopping(environment, "b0-0", None)
        proof = await cluster.processes.stop("b0-0")
        assert (proof.holds, proof.seen["code"]) == (True, -signal.SIGKILL)
        assert proof.seen["port"] == "refused"
        assert proof.forced == FORCED
        again = await cluster.processes.stop("b0-0")
        assert (again.holds, again.forced) == (False, {})

    with_cluster(main)


def test_a_change_of_address_for_which_a_node_was_killed_did_happen() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        instead_of_stopping(environment, "b0-0", None)
        for proof in (
            await cluster.links.change_address("b0-0", restart=True),
            await cluster.links.restore_address("b0-0", restart=True),
        ):
            assert proof.holds, proof
            assert (proof.seen["now"], proof.seen["before"]) == ("open", "silent")
            assert proof.forced == FORCED
            assert proof.seen["stopped"]["code"] == -signal.SIGKILL

    with_cluster(main)


def test_a_crash_is_no_forced_stop() -> None:
    """Neither one before the signal nor one that the signal finds no more."""

    async def main(cluster: Deployment, environment: Watched) -> None:
        instead_of_stopping(environment, "c0", signal.SIGKILL)  # as if it crashed at that moment
        crashed = await cluster.processes.stop("c0")
        assert (crashed.holds, crashed.forced) == (False, {})
        assert crashed.seen["code"] == -signal.SIGKILL
        environment.crash("b0-0", code=-signal.SIGKILL)
        before = await cluster.processes.stop("b0-0")
        assert (before.holds, before.forced) == (False, {})
        assert before.seen["reason"] == "it had ended by itself"

    with_cluster(main)


def test_a_cut_is_proven_for_each_destination_and_healed() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        grudge = {"b0-0": frozenset({"c0", "n0"}), "c0": frozenset({"b0-0"})}
        proofs = await cluster.links.cut(grudge)
        assert sorted(proofs) == ["b0-0", "c0"]
        assert all(p.holds for p in proofs.values()), proofs
        assert sorted(proofs["b0-0"].seen["from"]) == ["c0", "n0"]
        assert all(n > 0 for n in proofs["b0-0"].seen["from"].values())
        healed = await cluster.links.heal()
        assert sorted(healed) == ["b0-0", "c0"]
        assert all(p.holds for p in healed.values()), healed
        assert await cluster.links.heal() == {}

    with_cluster(main)


@pytest.mark.parametrize("reset", [False, True])
def test_one_way_cuts_and_cuts_of_clients(reset: bool) -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        met = "refused" if reset else "silent"
        proofs = await cluster.links.cut({"b0-0": frozenset({CLIENT, "c0"})}, reset=reset)
        assert proofs["b0-0"].holds, proofs
        assert proofs["b0-0"].seen["met"] == {CLIENT: met, "c0": met}
        assert await cluster.playing("broker"), "observers see as before"
        assert await cluster.mutants()
        back = await cluster.links.heal()
        assert back["b0-0"].holds

    with_cluster(main)


def test_another_cut_replaces_the_one_before() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.links.cut({"b0-0": frozenset({"c0"})})
        proofs = await cluster.links.cut({"c0": frozenset({"n0"})})
        assert list(proofs) == ["c0"]
        assert await environment.machine("b0-0").cut_packets() == {}
        with pytest.raises(ValueError, match="clients take every packet"):
            await cluster.links.cut({CLIENT: frozenset({"c0"})})

    with_cluster(main)


def test_a_cut_of_nodes_that_are_down_or_paused_is_proven_all_the_same() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.processes.kill("b0-0")
        await cluster.processes.pause("c0")
        grudge = {"b0-0": frozenset({"c0", "n0"}), "c0": frozenset({"b0-0"})}
        assert all(p.holds for p in (await cluster.links.cut(grudge)).values())
        assert (await cluster.processes.start("b0-0")).holds, "observers reach it"
        assert (await cluster.processes.kill("b0-0")).holds
        healed = await cluster.links.heal()
        assert all(p.holds for p in healed.values()), healed
        assert healed["b0-0"].seen["met"] == {"c0": "refused", "n0": "refused"}

    with_cluster(main)


def test_a_cut_outlives_a_change_of_address() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.links.cut({"c0": frozenset({"b0-0"})})
        assert (await cluster.links.change_address("b0-0", restart=False)).holds
        assert (await cluster.links.cut({"c0": frozenset({"b0-0"})}))["c0"].holds
        machine = environment.machine("b0-0")
        host = environment.machine("c0").address
        assert await machine.probe(host, 9878, timeout_s=0.5) == "silent"

    with_cluster(main)


def test_a_rule_that_catches_nothing_is_no_proof() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        machine = environment.machine("b0-0")

        async def deaf(cuts: object) -> None:
            """Does not cut."""

        machine.cut = deaf  # type: ignore[method-assign]
        proofs = await cluster.links.cut({"b0-0": frozenset({"c0"})})
        assert not proofs["b0-0"].holds
        assert proofs["b0-0"].seen == {"from": {"c0": 0}, "met": {"c0": "open"}}

    with_cluster(main)


def test_a_heal_that_does_not_heal_is_no_proof() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.links.cut({"b0-0": frozenset({"c0"})})
        machine = environment.machine("b0-0")

        async def deaf(cuts: object) -> None:
            """Does not heal."""

        machine.cut = deaf  # type: ignore[method-assign]
        healed = await cluster.links.heal()
        assert not healed["b0-0"].holds
        assert healed["b0-0"].seen == {"rules": 1, "met": {"c0": "silent"}}

    with_cluster(main)


@pytest.mark.parametrize("restart", [False, True])
def test_a_broker_moves_and_comes_home(restart: bool) -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        first = cluster.address("b0-0")
        proof = await cluster.links.change_address("b0-0", restart=restart)
        assert proof.holds, proof
        assert f"{proof.seen['from']}:10911" == first
        assert f"{proof.seen['to']}:10911" == cluster.address("b0-0") == "198.18.0.49:10911"
        assert (proof.seen["now"], proof.seen["before"]) == ("open", "silent")
        assert await until(cluster.recovered, 20)
        assert await until(cluster.queries.level, 20)
        assert "b0-0" in await playing(cluster, "master")
        back = await cluster.links.restore_address("b0-0", restart=restart)
        assert back.holds, back
        assert cluster.address("b0-0") == first
        assert await until(cluster.recovered, 20)
        idle = await cluster.links.restore_address("b0-0", restart=restart)
        assert (idle.holds, idle.seen["reason"]) == (True, "it has its first address")

    with_cluster(main)


def test_one_that_is_down_moves_and_stays_down() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.processes.kill("b0-0")
        proof = await cluster.links.change_address("b0-0", restart=True)
        assert proof.holds, proof
        assert (proof.seen["now"], proof.seen["before"]) == ("refused", "silent")
        assert not cluster.processes.running("b0-0")
        assert (await cluster.processes.start("b0-0")).holds
        assert await until(cluster.recovered, 20)

    with_cluster(main)


def test_addresses_go_round_in_the_block_of_the_machine() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        seen = [cluster.address("n0")]
        for _ in range(16):
            await cluster.links.change_address("n0", restart=False)
            seen.append(cluster.address("n0"))
        assert seen[0] == seen[-1]
        assert len(set(seen)) == 16
        with pytest.raises(ValueError, match="not of the block"):
            await environment.machine("n0").set_address("198.18.0.99")

    with_cluster(main)


def test_the_parts_of_a_replicated_set() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        [master] = await playing(cluster, "master")
        slaves = await playing(cluster, "slave")

        async def in_sync() -> bool:
            return list(await cluster.playing("sync-state-set-slave")) == slaves

        assert await until(in_sync, 20)
        assert sorted([master, *slaves]) == ["b0-0", "b0-1", "b0-2"]
        [leader] = await playing(cluster, "controller-leader")
        assert leader in ("c0", "c1", "c2")
        await cluster.links.change_address(slaves[0], restart=False)
        assert await until(in_sync, 20), "it is known by its new address"
        await cluster.processes.kill(slaves[0])
        assert slaves[0] not in await cluster.playing("sync-state-set-slave")

    with_cluster(main, **TRIO)


def test_spares_have_machines_and_are_no_part_of_the_cluster() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        assert [n.name for n in cluster.nodes if n.spare] == ["r0", "r1"]
        assert "r0" not in [n.name for n in cluster.by_role(Role.BROKER)]
        assert not cluster.processes.running("r0")
        assert await cluster.recovered()
        assert sorted(await cluster.mutants()) == ["b0-0"]
        await cluster.create_topics({"t": 1})
        assert (await cluster.processes.start("r0")).holds
        assert "r0" not in await cluster.playing("broker")
        assert await cluster.recovered()
        assert await cluster.queries.level()
        assert not (await cluster.processes.wipe("r0")).holds, "it runs"
        assert (await cluster.links.change_address("r0", restart=False)).holds
        await asyncio.sleep(3)
        assert (await cluster.processes.stop("r0")).holds
        wiped = await cluster.processes.wipe("r0")
        assert wiped.holds
        assert wiped.seen["files"] > 0
        assert (await cluster.processes.start("r0")).holds
        names = {node async for node, _, _ in cluster.collect()}
        assert {"r0", "r1"} <= names
        assert await cluster.stop_all() == []

    with_cluster(main, broker_sets=1, spares=2)


def test_a_store_is_copied_and_a_bit_of_it_flipped_while_its_node_is_down() -> None:
    """A node that refuses such a store has an excuse, until the store is removed."""

    async def main(cluster: Deployment, environment: Watched) -> None:
        processes = cluster.processes
        assert (await processes.copy_store("b0-1", "b0-0")).seen == {"reason": "it runs"}
        assert (await processes.flip_bit("b0-1", "brokerIdentity", 0)).seen == {"reason": "it runs"}
        assert (await processes.kill("b0-1")).holds
        copied = await processes.copy_store("b0-1", "b0-0")
        assert copied.holds
        theirs = await processes.stored("b0-0", "store")
        assert copied.seen["files"] == len(theirs) - 1, "all but the lock"
        ours = await processes.stored("b0-1", "store")
        assert ours.keys() < theirs.keys()
        assert ours["store/brokerIdentity"] == theirs["store/brokerIdentity"]
        epochs = ("epochFileCheckpoint", "epochFileCheckpoint.bak")
        removed = await processes.remove_files("b0-1", epochs)
        assert removed.holds
        assert removed.seen == {"removed": [*epochs], "left": []}
        left = await processes.stored("b0-1", "store")
        assert ours.keys() - left.keys() == {f"store/{path}" for path in epochs}
        with pytest.raises(NothingThere, match="epochFileCheckpoint"):
            await processes.remove_files("b0-1", epochs)
        running = await processes.remove_files("b0-0", epochs)
        assert running.seen == {"reason": "it runs"}
        assert not (await processes.flip_bit("b0-1", "brokerIdentity", 10**6)).holds
        assert not (await processes.flip_bit("b0-1", "no such", 0)).holds
        for _ in range(2):  # there and back
            assert (await processes.flip_bit("b0-1", "brokerIdentity", 10)).holds
        assert await processes.identity("b0-1") == await processes.identity("b0-0")
        flipped = await processes.flip_bit("b0-1", "brokerIdentity", -1)
        assert flipped.holds
        assert await processes.identity("b0-1") is None, "its checksum is another one"
        assert not (await processes.cut_file("b0-1", "brokerIdentity", 10**6)).holds
        cut = await processes.cut_file("b0-1", "brokerIdentity", 3)
        assert (cut.holds, cut.seen["left"]) == (True, 3)
        await processes.start("b0-1")
        assert await until(lambda: ended(processes), 10)
        assert processes.excused("b0-1")
        assert processes.excused("b0-0"), "the other may have been taken for it"
        paused = await processes.pause("b0-1")
        assert (paused.holds, paused.seen["ended_by_itself"]) == (False, 1)
        assert await until(cluster.recovered, 30), "who has refused its store is not waited for"
        assert (await processes.wipe("b0-1")).holds
        assert not processes.excused("b0-1")
        assert await processes.crashed() == {}
        assert (await processes.start("b0-1")).holds
        assert await cluster.recovered()

    async def ended(processes: Nodes) -> bool:
        return "b0-1" in await processes.crashed()

    with_cluster(main, **TRIO)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("victims", [["c0"], ["n0"], ["c0", "c1", "c2", "n0"]])
def test_with_names_controllers_and_name_servers_move(victims: list[str], restart: bool) -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        [leader] = await playing(cluster, "controller-leader")
        for node in dict.fromkeys([leader if n == "c0" else n for n in victims] + victims[1:]):
            assert (await cluster.links.change_address(node, restart=restart)).holds
        await asyncio.sleep(10)  # whoever only seemed to be there is found out
        [master] = await playing(cluster, "master")
        assert (await cluster.processes.kill(master)).holds

        async def replaced() -> bool:
            return list(await cluster.playing("master")) not in ([], [master])

        assert await until(replaced, 30)
        assert (await cluster.processes.start(master)).holds
        assert await until(cluster.recovered, 30)

    with_cluster(main, by_name=True, **TRIO)


def test_observers_have_an_address_of_their_own() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        host, _, port = cluster.address("n0").partition(":")
        for dial, expected in (
            (environment.dial, CLIENT_ADDRESS),
            (environment.observer_dial, OBSERVER_ADDRESS),
        ):
            transport, _ = await dial(asyncio.Protocol, host, int(port))
            assert transport.get_extra_info("sockname")[0] == expected
            transport.close()

    with_cluster(main)


def test_a_spare_may_start_while_it_is_asked_who_has_ended() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        machine: Any = environment.machine("c0")
        status: Any = machine.status

        async def slow(pid: int) -> Any:
            machine.status = status
            assert (await cluster.processes.start("r0")).holds
            return await status(pid)

        machine.status = slow
        assert await cluster.processes.crashed() == {}
        assert cluster.processes.running("r0")

    with_cluster(main, spares=1)
