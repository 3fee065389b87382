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
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mixed_world import FETCH_S, World, mixed, mixed_target

from maxq.harness.contracts.target import Settings, Topology
from maxq.harness.environments.local import LocalEnvironment
from maxq.harness.run.lifecycle import perform
from maxq.harness.run.process.progress import Progress
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import config_of, judge_stored
from maxq.harness.sampling.rounds import schedule_of
from maxq.harness.schedule.options import Options
from maxq.histories.store import RunStore

BIG, TAIL = 300_000, 40  # bytes, messages: more than sockets hold
PATIENT = {"broker:haMaxTimeSlaveNotCatchup": "15000"}  # no slave leaves the set while it is held

pytestmark = [pytest.mark.rocketmq, pytest.mark.timeout(FETCH_S + 180)]


async def die_with_tail(w: World, dies: str, survives: str) -> None:
    """The master is killed with messages that its held slave has in part, or not at all.

    It is held too until the slave has read what was sent. A Java slave that is elected while it
    reads may never lead: the confirm offset, raised to its log's end by the new SyncStateSet, falls
    back with the next bytes of the old master, so that `truncateInvalidMsg` cuts nothing, and
    `changeToMaster` waits for the dispatch of half a record.
    """
    before = (await w.epochs(dies))[1]
    assert (await w.processes.pause(survives)).holds
    begin = len(w.tail)
    acked = await asyncio.gather(*(w.send(dies, size=BIG) for _ in range(TAIL)))
    assert not any(acked), f"{sum(acked)} acknowledged without the slave"
    end = (await w.epochs(dies))[1]
    assert end > before + TAIL // 2 * BIG, "Java refuses some when it is busy, but not half of them"
    assert (await w.processes.pause(dies)).holds
    await w.processes.resume(survives)
    await w.until_read(survives)
    assert (await w.processes.kill(dies)).holds
    await w.until_writable(survives)
    assert (await w.epochs(survives))[1] < end
    await w.send_some(survives)
    assert (await w.processes.start(dies)).holds
    await w.settled(survives)
    log = await w.log(dies, (await w.epochs(dies))[1])
    cut = [body for body in w.tail[begin:] if len(body) > BIG and body not in log]
    assert cut, "nothing of the tail was truncated"


@pytest.mark.campaign
def test_java_broker_and_ours_take_turns_under_our_controllers(
    release: str, tmp_path: Path
) -> None:
    """S6, S8, S14 between implementations: registration, elections, fail-over, truncation."""
    java, ours = "b0-1", "b0-0"
    target = mixed_target(release, {java})
    topology = Topology(controllers=3, broker_sets=1, replicas=2)
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
    target = mixed_target(release, {"n0", "c0"})
    topology = Topology(controllers=1, broker_sets=1, replicas=2, embedded=embedded)

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
    target = mixed_target(release, {"b0-1", "n1"})
    options = Options(
        environment="local", seed=7, workload=("queue",), nemesis=("kill",), namesrvs=2,
        time_limit_ns=20_000_000_000, rate=50.0, concurrency=6,
    )  # fmt: skip
    run = RunStore(tmp_path).create("mixed", datetime.now(UTC))
    run.save_config(config_of(options))
    with Progress(options, quiet=False) as progress:
        context = RunContext(
            progress=progress, wall_ms=lambda: time.time_ns() // 1_000_000,
            collect=False, script=schedule_of(options, target.patience),
        )  # fmt: skip
        asyncio.run(perform(options, LocalEnvironment(run.path / "nodes"), target, run, context))
    judged = judge_stored(run.path)
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
