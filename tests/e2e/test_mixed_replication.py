"""Apache RocketMQ's nodes and ours in one cluster, each in the other's place.

Both sides of every protocol are ours in all other tests, so a misreading is seen by neither. Here
a Java broker is slave and master of ours under our controllers, our brokers live under a Java
controller and name server, and a set of both is killed one by one while clients write. At every
turn the SyncStateSet has all, the logs are equal byte by byte, and every acknowledged message is
there.

Not shown, since Java cannot: a Java master that writes nothing in its epoch, then ours. The Java
slave refuses the entry that starts where its last one does (docs/spec/controller-ha.md 6.4 (H2)).
Our own masters begin each epoch with a record.
"""

import asyncio
from pathlib import Path

import pytest
from mixed_world import FETCH_S, World, mixed, mixed_target

from harness.contracts.target import Settings, Topology
from harness.run.run_context import RunContext
from harness.run.stored_run import run_test
from harness.schedule.format import Act, Header, Load, Schedule, When, Who
from harness.schedule.options import Options
from histories.fault_facts import REPLACE_RELEASE

BIG, TAIL = 300_000, 40  # bytes, messages: more than sockets hold
PATIENT = {"broker:haMaxTimeSlaveNotCatchup": "15000"}  # no slave leaves the set while it is held

pytestmark = [pytest.mark.rocketmq, pytest.mark.timeout(FETCH_S + 180)]


async def die_with_tail(w: World, dies: str, survives: str) -> None:
    """The master is killed with messages that its held slave has in part, or not at all."""
    before = (await w.epochs(dies))[1]
    assert (await w.processes.pause(survives)).holds
    begin = len(w.tail)
    acked = await asyncio.gather(*(w.send(dies, size=BIG) for _ in range(TAIL)))
    assert not any(acked), f"{sum(acked)} acknowledged without the slave"
    end = (await w.epochs(dies))[1]
    assert end > before + TAIL // 2 * BIG, "Java refuses some when it is busy, but not half of them"
    assert (await w.processes.kill(dies)).holds
    await w.processes.resume(survives)
    await w.until_writable(survives)
    assert (await w.epochs(survives))[1] < end
    await w.send_some(survives)
    assert (await w.processes.start(dies)).holds
    await w.settled(survives)
    log = await w.log(dies, (await w.epochs(dies))[1])
    cut = [body for body in w.tail[begin:] if len(body) > BIG and body not in log]
    assert cut, "nothing of the tail was truncated"


def test_java_broker_and_ours_take_turns_under_our_controllers(
    release: str, tmp_path: Path
) -> None:
    """S6, S8, S14 between implementations: registration, elections, fail-over, truncation."""
    java, ours = "b0-1", "b0-0"
    topology = Topology(controllers=3, broker_sets=1, replicas=2)
    target = mixed_target(release, {java}, topology)
    settings = Settings(topology=topology, profile="P-ALL", keys=PATIENT)

    async def run() -> None:
        async with mixed(tmp_path, target, settings) as w:
            for master, slave in ((java, ours), (ours, java)):
                assert (await w.queries.elect(master)).holds
                await w.settled(master)
                seen = await w.ha_status(slave)
                assert seen.ha_client_runtime_info is not None
                assert (seen.master, bool(seen.ha_client_runtime_info.master_addr)) == (False, True)
                [link] = (await w.ha_status(master)).ha_connection_info
                assert (link.in_sync, link.diff) == (True, 0)
                if master == ours:
                    await w.make_tables(ours)
                    await w.until("tables in Java", lambda: w.has_tables(java))
                await die_with_tail(w, master, slave)

    asyncio.run(run())


@pytest.mark.parametrize("embedded", [False, True])
def test_our_brokers_under_javas_controller_and_name_server(
    release: str, tmp_path: Path, *, embedded: bool
) -> None:
    """They register, replicate, fail over, and obey an operator's election; the controller is a
    process of its own, or in the name server."""
    topology = Topology(controllers=1, broker_sets=1, replicas=2, embedded=embedded)
    target = mixed_target(release, {"n0", "c0"}, topology)

    async def run() -> None:
        async with mixed(tmp_path, target, Settings(topology=topology, profile="P-ALL")) as w:
            first, epoch, _ = await w.master()
            await w.settled(first)
            [second] = [broker for broker in w.brokers if broker != first]
            assert (await w.processes.kill(first)).holds
            await w.until_writable(second)
            await w.send_some(second)
            assert (await w.processes.start(first)).holds
            await w.settled(second)
            assert (await w.queries.elect(first)).holds
            await w.settled(first)
            assert (await w.master())[1] == epoch + 2

    asyncio.run(run())


def test_mixed_set_survives_kills(release: str, tmp_path: Path) -> None:
    """A whole run of the harness, judged as any: two of ours and one of Java's, P-SAFE."""
    options = Options(
        environment="local", seed=3, workload=("queue",), nemesis=("kill",), namesrvs=2,
        time_limit_ns=20_000_000_000, rate=50.0, concurrency=6,
        releases=dict.fromkeys(("b0-1", "n1"), f"rocketmq:{release}"),
    )  # fmt: skip
    mixed_target(release, {"b0-1", "n1"}, options.topology)  # skips where it cannot be had
    judged = run_test(options, tmp_path, quiet=False)
    killed = {
        node
        for op in judged.stored.history.ops
        if op.f == "kill" and isinstance(op.value, dict)
        for node, seen in op.value.items()
        if seen["holds"]
    }
    print(f"killed: {sorted(killed)}")
    assert any(node.startswith("b0") for node in killed), killed
    assert judged.results.valid is True, judged.results


def test_a_rolling_upgrade_under_load(release: str, tmp_path: Path) -> None:
    """Each node of ours becomes Java's on its store, one after the other, and nothing is lost."""
    acts = tuple(
        Act(id=f"u{at}", f=REPLACE_RELEASE, when=When(at=4.0) if not at else
            When(after=f"u{at - 1}", at=12.0), who=Who(nodes=(node,)))
        for at, node in enumerate(("b0-1", "b0-0"))
    )  # fmt: skip
    options = Options(
        environment="local", seed=7, workload=("queue",), nemesis=(REPLACE_RELEASE,), replicas=2,
        controllers=1, profile="P-ALL", time_limit_ns=60_000_000_000, scripted=True,
        next_release=f"rocketmq:{release}",
    )  # fmt: skip
    mixed_target(release, {"b0-0"}, options.topology)
    header = Header(name="rolling upgrade", length=60.0, seed=7)
    load = Load(id="w", until=60.0, rate=20.0)
    script = Schedule(header=header, loads=(load,), acts=acts)
    judged = run_test(options, tmp_path, quiet=False, context=RunContext(script=script))
    proofs = {
        node: seen
        for op in judged.stored.history.ops
        if op.f == REPLACE_RELEASE and isinstance(op.value, dict)
        for node, seen in op.value.items()
    }
    assert {
        node: (seen["holds"], seen["from"], seen["to"]) for node, seen in proofs.items()
    } == dict.fromkeys(("b0-0", "b0-1"), (True, "reference", f"rocketmq:{release}"))
    assert judged.results.valid is True, judged.results
