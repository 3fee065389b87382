"""Clocks and disks of a deployed cluster in the simulator: each fault with its proof."""

import asyncio
from typing import Any

import pytest
from run_in_world import Watched, with_cluster

from maxq.harness.cluster.deployment import Deployment, until
from maxq.harness.cluster.machines import WORD_S
from maxq.harness.contracts.environment import ClockShown, Misread
from maxq.histories.op import NEMESIS, Op
from maxq.nemeses.scripted import Scripted

TRIO: dict[str, Any] = {"broker_sets": 1, "replicas": 3, "controllers": 3, "profile": "P-SAFE"}


def test_a_clock_is_proven_by_what_it_shows() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        jump = await cluster.machines.bump_clock("b0-0", offset_ms=-90_000, drift_ppm=0)
        assert (jump.holds, jump.seen) == (True, {"off_ms": -90_000})
        drift = await cluster.machines.bump_clock("b0-0", offset_ms=5, drift_ppm=1_000)
        assert (drift.holds, drift.seen["drifted_ms"]) == (True, 6)
        assert cluster.machines.ailments("b0-0") == {"clock"}
        assert not (await cluster.machines.bump_clock("n0", offset_ms=0, drift_ppm=10)).holds, (
            "too slow"
        )
        back = await cluster.machines.reset_clock("b0-0")
        assert (back.holds, back.seen) == (True, {"off_ms": 0})
        assert not cluster.machines.ailments("b0-0")

    with_cluster(main)


def test_a_clock_that_is_not_set_proves_nothing() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        async def deaf(offset_ms: int, drift_ppm: int) -> None:
            """It shows what it showed."""

        environment.machine("b0-0").set_clock = deaf  # type: ignore[method-assign]
        assert not (await cluster.machines.bump_clock("b0-0", offset_ms=100, drift_ppm=0)).holds
        assert not (await cluster.machines.bump_clock("b0-0", offset_ms=0, drift_ppm=5_000)).holds

    with_cluster(main)


HOUR_MS = 3_600_000


def as_on_real_machines(
    environment: Watched, node: str, *, followed: bool = True, lie_ms: int = 0
) -> None:
    """Have a node's process get its clock from a library, which it has loaded or not; with a lie
    the machine shows so much more than its node sees, once it was set."""
    machine = environment.machine(node)
    read, set_off = machine.clock, machine.set_clock
    more = [0]

    async def clock(pid: int | None) -> ClockShown:
        return ClockShown((await read(pid)).ahead_ms + more[0], followed if pid else None)

    async def set_clock(offset_ms: int, drift_ppm: int) -> None:
        more[0] = lie_ms
        await set_off(offset_ms - lie_ms, drift_ppm)

    machine.clock, machine.set_clock = clock, set_clock  # type: ignore[method-assign]


def test_a_broker_on_a_real_machine_says_itself_that_its_clock_is_off() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        as_on_real_machines(environment, "b0-0")
        there = await cluster.machines.bump_clock("b0-0", offset_ms=-HOUR_MS, drift_ppm=0)
        moved = there.seen.pop("moved_s")
        assert (there.holds, there.seen) == (True, {"off_ms": -HOUR_MS, "followed": True})
        assert moved == {"b0-0": pytest.approx(-3600, abs=WORD_S)}
        back = await cluster.machines.reset_clock("b0-0")
        assert (back.holds, back.seen["off_ms"]) == (True, 0)
        assert back.seen["moved_s"] == {"b0-0": pytest.approx(3600, abs=WORD_S)}

    with_cluster(main)


@pytest.mark.parametrize(
    ("node", "how"),
    [
        ("b0-0", {"followed": False}),
        ("b0-0", {"lie_ms": HOUR_MS}),
        ("c0", {"followed": False}),
    ],
)
def test_a_node_that_sees_another_clock_than_its_machine_proves_nothing(
    node: str, how: dict[str, Any]
) -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        as_on_real_machines(environment, node, **how)
        proof = await cluster.machines.bump_clock(node, offset_ms=HOUR_MS, drift_ppm=0)
        assert (proof.holds, proof.seen["off_ms"]) == (False, HOUR_MS)

    with_cluster(main)


@pytest.mark.parametrize("node", ["c0", "n0", "b1-0"])
def test_of_who_tells_no_time_the_machine_and_the_library_are_the_proof(node: str) -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        as_on_real_machines(environment, node)
        if node == "b1-0":
            await cluster.processes.pause(node)  # it answers nothing
        proof = await cluster.machines.bump_clock(node, offset_ms=HOUR_MS, drift_ppm=0)
        assert (proof.holds, proof.seen) == (True, {"off_ms": HOUR_MS, "followed": True})

    with_cluster(main)


def test_of_a_node_that_is_down_the_machine_alone_is_the_proof() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        as_on_real_machines(environment, "b1-0")
        await cluster.processes.kill("b1-0")
        proof = await cluster.machines.bump_clock("b1-0", offset_ms=HOUR_MS, drift_ppm=0)
        assert (proof.holds, proof.seen) == (True, {"off_ms": HOUR_MS})
        await cluster.processes.start("b1-0")
        back = await cluster.machines.reset_clock("b1-0")
        assert back.holds
        assert back.seen["moved_s"] == {"b1-0": pytest.approx(-3600, abs=WORD_S)}

    with_cluster(main)


def test_a_disk_is_proven_by_a_file_that_is_written() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        machine = environment.machine("n0")
        before = await machine.files("/n0")
        for kind, args in (("full", {"full": True}), ("frozen", {"frozen": True}),
                           ("slow", {"sync_ms": 700})):  # fmt: skip
            proof = await cluster.machines.break_disk("n0", **args)
            assert proof.holds, (kind, proof)
            assert cluster.machines.ailments("n0") == {f"{kind}-disk"}
            assert cluster.processes.excused("n0")
        assert proof.seen["took_ms"] >= 700
        back = await cluster.machines.heal_disk("n0")
        assert (back.holds, back.seen["disk"]) == (True, "written")
        assert not cluster.machines.ailments("n0")
        assert await machine.files("/n0") == before, "nothing of the trials is left"
        assert not (await cluster.machines.break_disk("n0")).holds, "that is no fault"

    with_cluster(main)


def test_a_misread_bit_is_proven_by_its_file() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        machine = environment.machine("n0")
        await machine.put(f"{machine.data_dir}/store/x", b"abcd")
        proof = await cluster.machines.break_disk("n0", misread=Misread("x", 9))
        assert proof.holds
        assert cluster.machines.ailments("n0") == {"misreading-disk"}
        assert await machine.get(f"{machine.data_dir}/store/x") == b"a`cd"
        assert (await cluster.machines.heal_disk("n0")).holds
        assert await machine.get(f"{machine.data_dir}/store/x") == b"abcd"
        for bad in (Misread("x", 32), Misread("y", 0)):
            assert not (await cluster.machines.break_disk("n0", misread=bad)).holds

    with_cluster(main)


def test_a_disk_that_is_not_faulty_proves_nothing() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        async def sound(**faults: Any) -> None:
            """It works as ever."""

        environment.machine("n0").set_disk = sound  # type: ignore[method-assign]
        machine = environment.machine("n0")
        await machine.put(f"{machine.data_dir}/store/x", b"abcd")
        wrong: list[dict[str, Any]] = [
            {"full": True}, {"frozen": True}, {"sync_ms": 700}, {"misread": Misread("x", 9)},
        ]  # fmt: skip
        for args in wrong:
            assert not (await cluster.machines.break_disk("n0", **args)).holds
        environment.machine("b0-0").set_disk = sound  # type: ignore[method-assign]
        misread = Misread("logWatermark", 10)
        assert not (await cluster.machines.break_disk("b0-0", misread=misread)).holds

    with_cluster(main)


def test_who_ends_for_want_of_a_disk_is_started_again_when_it_is_sound() -> None:
    """And whoever has ended by himself without such a reason is not."""

    async def main(cluster: Deployment, environment: Watched) -> None:
        nemesis = Scripted(cluster, "key")

        async def do(f: str, act: str, **asked: Any) -> dict[str, Any]:
            outcome: Any = await nemesis.invoke(Op("info", NEMESIS, f, act, ext=asked))
            return dict(outcome.value)

        who = {"nodes": ["b0-1"]}
        await do("start-disk-fault", "d", who=who, args={"full": True})
        environment.crash("b0-1", 1)
        environment.crash("b0-2", 1)
        assert "nobody" in await do("start", "s1"), "its disk is full yet"
        assert "nobody" in await do("kill", "k", who=who), "it is down already"
        healed = await do("stop-disk-fault", "h", who={"of": "d"})
        assert healed["b0-1"]["holds"]
        back = await do("start", "s2", who={"of": "d"})
        assert back["b0-1"]["holds"]
        assert (back["b0-1"]["ended_by_itself"], "excused" in back["b0-1"]) == (1, True)
        assert "nobody" in await do("start", "s3"), "b0-2 is evidence"
        assert await cluster.processes.crashed() == {"b0-2": 1}

    with_cluster(main, **TRIO)


def test_who_goes_on_into_a_full_disk_may_end_there() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        for node, full in (("c1", True), ("c2", False)):
            assert (await cluster.processes.pause(node)).holds
            if full:
                assert (await cluster.machines.break_disk(node, full=True)).holds
            environment.crash(node, 1)
            back = await cluster.processes.resume(node)
            assert (back.holds, back.seen["ended"]) == (full, full)

    with_cluster(main, **TRIO)


def test_frozen_syncs_end_with_the_frost() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.machines.break_disk("b0-0", frozen=True)
        await cluster.processes.power_loss("b0-0")
        await cluster.machines.heal_disk("b0-0")
        assert (await cluster.processes.start("b0-0")).holds
        assert await until(cluster.recovered, 30)
        await asyncio.sleep(1)
        assert await cluster.processes.crashed() == {}

    with_cluster(main)
