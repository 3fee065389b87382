"""A Java broker that deletes old files, followed and led by ours: logs that begin above 0."""

import asyncio
from pathlib import Path

import pytest
from mixed_world import FETCH_S, World, mixed, mixed_target

from maxq.harness.contracts.target import Settings, Topology

FILE, BIG, FILES = 1 << 20, 200_000, 6
JAVA_LOOKS_S = 90.0  # it looks for old files a minute after its start for the first time
JAVA, OURS = "b0-1", "b0-0"
KEYS = {
    "broker:mappedFileSizeCommitLog": str(FILE),
    "broker:cleanResourceInterval": "1000",
    f"{JAVA}:fileReservedTime": "0",  # whatever is no longer written to
    f"{JAVA}:deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
}

pytestmark = [pytest.mark.rocketmq, pytest.mark.timeout(FETCH_S + 180)]


async def files(w: World, broker: str) -> dict[int, bytes]:
    """The files of a replica's log, by where they begin."""
    found = await w.processes.stored(broker, "store/commitlog")
    names = ((path.rpartition("/")[2], data) for path, data in found.items())
    return {int(name): data for name, data in names if name.isdigit()}


async def level(w: World, master: str) -> None:
    """Both are in sync, with equal ends, and bytes that are equal where both have them."""

    async def joined() -> bool:
        now, _, members = await w.master()
        return now == master and members == (OURS, JAVA)

    await w.until(f"{master} leads both", joined)
    await w.until_writable(master)
    await w.send_some(master)

    async def equal() -> bool:
        return (await w.epochs(OURS))[1] == (await w.epochs(JAVA))[1]

    await w.until("equal ends", equal)
    ours, java = await files(w, OURS), await files(w, JAVA)
    shared = sorted(ours.keys() & java.keys())
    assert shared
    assert [ours[at] for at in shared] == [java[at] for at in shared]


# Passed in one of two runs: in the other the Java master sent nothing, waiting in transferToSlave.
@pytest.mark.campaign
def test_a_java_broker_without_its_first_files_is_followed_and_follows(
    release: str, tmp_path: Path
) -> None:
    """S6, S9: an empty broker of ours begins at Java's first byte, leads, and is followed by Java.

    One that ends before that byte is not served by a Java master, and waits.
    """
    target = mixed_target(release, {JAVA})
    topology = Topology(controllers=1, broker_sets=1, replicas=2)

    async def run() -> None:
        async with mixed(
            tmp_path, target, Settings(topology=topology, profile="P-DEFAULT", keys=KEYS)
        ) as w:
            assert (await w.queries.elect(JAVA)).holds
            await level(w, JAVA)
            assert (await w.processes.kill(OURS)).holds
            await w.until_writable(JAVA)
            for _ in range(FILES * FILE // BIG):
                await w.send(JAVA, size=BIG)

            async def trimmed() -> bool:
                return min(await files(w, JAVA)) > FILE

            await w.until("Java deletes its first files", trimmed, JAVA_LOOKS_S)
            await w.processes.wipe(OURS)
            assert (await w.processes.start(OURS)).holds
            await level(w, JAVA)
            assert min(await files(w, OURS)) > 0
            assert (await w.queries.elect(OURS)).holds
            await level(w, OURS)
            assert (await w.processes.kill(OURS)).holds
            assert (await w.processes.start(OURS)).holds
            leader, _, _ = await w.master()
            await w.until_writable(leader)

    asyncio.run(run())
