"""Logs that are older than their epoch lists, of Apache RocketMQ's brokers and of ours.

The upgrade to 5.1.1 leaves such logs: brokers are stopped, slaves first, their epoch files are
deleted, the old master is started, then the slaves. A RocketMQ slave then asks from its own end,
and its master sends what has no label under its first epoch; both know nothing of a comparison.
At the end logs are equal byte by byte, and every acknowledged message is there.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import pytest
from mixed_world import FETCH_S, LEAD_S, World, mixed, mixed_target

from maxq.harness.client.stored_logs import read_log
from maxq.harness.contracts.target import Settings, Topology
from maxq.harness.targets.rocketmq.releases import REFERENCE, Version
from maxq.nemeses.kinds.epochs import FILES

pytestmark = [pytest.mark.rocketmq, pytest.mark.timeout(FETCH_S + 240)]
PAIR = Topology(controllers=1, broker_sets=1, replicas=2)
EVERYTHING = frozenset(("n0", "c0", "b0-0", "b0-1"))
How = Literal["level", "behind", "empty"]
BEFORE_IDS = "5.1.0"  # the last release without persistent broker ids


async def upgrade(w: World, master: str, slaves: Sequence[str], how: How = "level") -> bytes:
    """As documented. Slaves have all that the master has; or are `behind`, since it is written to
    once they have stopped; or are `empty`. Returns the master's log of before."""
    await w.settled(master)
    for broker in slaves:
        await stop(w, broker)
    if how == "behind":
        await w.until_writable(master)
        await w.send_some(master)
    before = await w.log(master, (await w.epochs(master))[1])
    await stop(w, master)
    for broker in (*slaves, master):
        assert (await w.processes.remove_files(broker, FILES)).holds
    for broker in slaves if how == "empty" else ():
        assert (await w.processes.wipe(broker)).holds
    assert (await w.processes.start(master)).holds

    await w.until(f"{master} is elected", lambda: leads(w, master), LEAD_S)
    await w.until_writable(master)
    assert min(start for _, start in (await w.epochs(master))[0]) >= len(before)
    for broker in slaves:
        assert (await w.processes.start(broker)).holds
    await w.settled(master)
    return before


async def stop(w: World, broker: str) -> None:
    stopped = await w.processes.stop(broker)  # a JVM has an exit code of its own
    assert stopped.seen["port"] == "refused"


@pytest.mark.campaign
@pytest.mark.parametrize("how", get_args(How))
def test_java_and_ours_take_each_others_unlabelled_logs(
    release: str, tmp_path: Path, how: How
) -> None:
    """S6, S8, S14: each as the master and as the slave. A slave of ours that is behind a Java
    master's first epoch begins anew, as that master sends it nothing sound."""
    java, ours = "b0-1", "b0-0"
    target = mixed_target(release, {java})

    async def run() -> None:
        async with mixed(tmp_path, target, Settings(topology=PAIR, profile="P-ALL")) as w:
            for master, slave in ((ours, java), (java, ours)):
                if (await w.master())[0] != master:
                    assert (await w.queries.elect(master)).holds
                before = await upgrade(w, master, [slave], how)
                for broker in (master, slave):
                    assert await w.log(broker, len(before)) == before

    asyncio.run(run())


@pytest.mark.parametrize("to_java", [False, pytest.param(True, marks=pytest.mark.campaign)])
def test_all_nodes_are_replaced_and_controllers_begin_anew(
    release: str, tmp_path: Path, to_java: bool
) -> None:
    """S6, S8, S14: RocketMQ of before broker ids by ours, or ours by a later RocketMQ."""
    java = frozenset[str]() if to_java else EVERYTHING
    target = mixed_target(release if to_java else BEFORE_IDS, java)

    async def run() -> None:
        async with mixed(tmp_path, target, Settings(topology=PAIR, profile="P-SAFE")) as w:
            [master] = await w.playing("master")
            [slave] = {"b0-0", "b0-1"} - {master}
            await w.until_writable(master)
            await w.send_some(master)
            await w.until("both have everything", w.queries.level)
            old = {broker: await log_of(w, broker) for broker in (master, slave)}
            assert old[master] == old[slave]
            for node in (slave, master, "c0", "n0"):
                assert (await w.processes.stop(node)).seen["port"] == "refused"
            for broker in (slave, master):
                gone = (*FILES, "brokerIdentity")  # the controllers will not know it
                assert (await w.processes.remove_files(broker, gone)).holds
            assert (await w.processes.wipe("c0")).holds
            become = str(Version(release)) if to_java else REFERENCE
            for node in ("n0", "c0", master):
                assert (await w.releases.start_as(node, become)).holds
            await w.until(f"{master} leads", lambda: leads(w, master), LEAD_S)
            assert (await w.releases.start_as(slave, become)).holds
            await w.settled(master)
            for broker in (master, slave):
                assert await w.log(broker, len(old[master])) == old[master]

    asyncio.run(run())


async def leads(w: World, broker: str) -> bool:
    return (await w.master())[0] == broker


async def log_of(w: World, broker: str) -> bytes:
    """A broker's log as on its disk, without what follows its last record."""
    files = await w.processes.stored(broker, "store")
    return read_log(files).data
