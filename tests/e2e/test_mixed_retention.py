"""Brokers that delete old files, Java's and ours, followed by one another: logs that begin above 0.

A slave whose log ends before its master's first byte is a case of its own. Ours, of either master,
and either slave that is empty, begins anew there. A slave of RocketMQ never does, whoever its
master is: it takes no frame that does not begin at the end of its log.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest
from mixed_world import FETCH_S, LEAD_S, World, mixed, mixed_target

from maxq.harness.cluster.processes import NODE_LOG
from maxq.harness.contracts.target import Settings, Topology

FILE, BIG, FILES = 1 << 20, 200_000, 6
JAVA_LOOKS_S = 90.0  # it looks for old files a minute after its start for the first time
TRIES_S = 40.0  # a slave of RocketMQ tries again each 5 s
JAVA, OURS = "b0-1", "b0-0"
KEPT_H = {JAVA: 0, OURS: 1}  # ours takes no less
REFUSES = b"master pushed offset not equal the max phy offset in slave"
WAITS = b"Slave report current offset"  # each 5 s, where no byte comes

# Java looks for old files a minute after its start, and again each minute: campaigns.
pytestmark = [pytest.mark.rocketmq, pytest.mark.campaign, pytest.mark.timeout(FETCH_S + 420)]


@contextlib.asynccontextmanager
async def pair(
    folder: Path, release: str, trims: str, java: Collection[str] = (JAVA,)
) -> AsyncIterator[World]:
    """Two brokers, of which the first to lead deletes whatever it no longer writes to."""
    keys = {"broker:mappedFileSizeCommitLog": str(FILE), "broker:cleanResourceInterval": "1000"}
    keys[f"{trims}:fileReservedTime"] = str(KEPT_H[trims])
    keys[f"{trims}:deleteWhen"] = ";".join(f"{hour:02}" for hour in range(24))
    topology = Topology(controllers=1, broker_sets=1, replicas=2)
    settings = Settings(topology=topology, profile="P-DEFAULT", keys=keys)
    async with mixed(folder, mixed_target(release, java), settings) as w:
        assert (await w.queries.elect(trims)).holds
        await level(w, trims)
        yield w


def other(broker: str) -> str:
    return OURS if broker == JAVA else JAVA


async def files(w: World, broker: str) -> dict[int, bytes]:
    """The files of a replica's log, by where they begin."""
    found = await w.processes.stored(broker, "store/commitlog")
    names = ((path.rpartition("/")[2], data) for path, data in found.items())
    return {int(name): data for name, data in names if name.isdigit()}


async def trimmed_beyond(w: World, master: str) -> None:
    """The slave dies, and its master goes on until it has deleted all that the slave has, which is
    an hour old then."""
    slave = other(master)
    end = (await w.epochs(slave))[1]
    assert (await w.processes.kill(slave)).holds
    await w.until_writable(master)
    for _ in range(FILES * FILE // BIG):
        await w.send(master, size=BIG)

    store = Path(w.processes.machine(master).data_dir) / "store" / "commitlog"
    for path in store.iterdir():
        long_ago = time.time() - (KEPT_H[master] + 1) * 3600
        os.utime(path, (long_ago, long_ago))

    async def trimmed() -> bool:
        return min(await files(w, master)) > max(end, FILE)

    await w.until(f"{master} deletes its first files", trimmed, JAVA_LOOKS_S)


async def level(w: World, master: str) -> None:
    """Both are in sync, with equal ends, and bytes that are equal where both have them."""

    async def joined() -> bool:
        now, _, members = await w.master()
        return now == master and members == (OURS, JAVA)

    await w.until(f"{master} leads both", joined, LEAD_S)
    await w.until("both know the topic", w.know_the_topic)
    await w.until_writable(master)
    await w.send_some(master)

    async def equal() -> bool:
        return (await w.epochs(OURS))[1] == (await w.epochs(JAVA))[1]

    await w.until("equal ends", equal)
    ours, java = await files(w, OURS), await files(w, JAVA)
    shared = sorted(ours.keys() & java.keys())
    assert shared
    assert [ours[at] for at in shared] == [java[at] for at in shared]


async def failed_over(w: World, master: str) -> None:
    """The master dies; the other one, whose log never began at 0, leads it when it returns."""
    assert min(await files(w, other(master))) > 0
    assert (await w.processes.kill(master)).holds

    async def leads() -> bool:
        return (await w.master())[0] == other(master)

    await w.until(f"{other(master)} is elected", leads, LEAD_S)
    await w.until_writable(other(master))
    assert (await w.processes.start(master)).holds
    await level(w, other(master))


async def stays_away(w: World, slave: str, said: bytes) -> None:
    """A slave of RocketMQ says so again and again, and is no member."""

    async def tried() -> bool:
        machine = w.processes.machine(slave)
        log = await machine.get(f"{machine.data_dir}/{NODE_LOG}") or b""
        return log.count(said) >= 3

    await w.until(f"{slave} tries again and again", tried, TRIES_S)
    assert (await w.master())[2] == (other(slave),)


@pytest.mark.parametrize("empty", [False, pytest.param(True, marks=pytest.mark.campaign)])
def test_a_java_master_without_its_first_files_is_followed(
    release: str, tmp_path: Path, empty: bool
) -> None:
    """S6, S9, S14: by ours, whose log ends before those or is empty, through two fail-overs."""

    async def run() -> None:
        async with pair(tmp_path, release, JAVA) as w:
            await trimmed_beyond(w, JAVA)
            if empty:
                await w.processes.wipe(OURS)
            assert (await w.processes.start(OURS)).holds
            await level(w, JAVA)
            await failed_over(w, JAVA)
            await failed_over(w, OURS)

    asyncio.run(run())


def test_our_master_without_its_first_files_is_followed(release: str, tmp_path: Path) -> None:
    """S6, S9, S14: by an empty broker of Java, through two fail-overs. One that has a log, which
    ends before ours begins, tries for ever; that is so between brokers of RocketMQ, too."""

    async def run() -> None:
        async with pair(tmp_path, release, OURS) as w:
            await trimmed_beyond(w, OURS)
            assert (await w.processes.start(JAVA)).holds
            await stays_away(w, JAVA, REFUSES)
            assert (await w.processes.kill(JAVA)).holds
            await w.processes.wipe(JAVA)
            assert (await w.processes.start(JAVA)).holds
            await level(w, OURS)
            await failed_over(w, OURS)
            await failed_over(w, JAVA)

    asyncio.run(run())


@pytest.mark.campaign
def test_a_java_slave_never_follows_a_java_master_without_its_first_files(
    release: str, tmp_path: Path
) -> None:
    """S14: what is told of RocketMQ in docs/upgrade.md, and why ours asks where the log begins."""

    async def run() -> None:
        async with pair(tmp_path, release, JAVA, java=(OURS, JAVA)) as w:
            await trimmed_beyond(w, JAVA)
            assert (await w.processes.start(OURS)).holds
            await stays_away(w, OURS, WAITS)
            assert (await w.processes.kill(OURS)).holds
            await w.processes.wipe(OURS)
            assert (await w.processes.start(OURS)).holds
            await level(w, JAVA)

    asyncio.run(run())
