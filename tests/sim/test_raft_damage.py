"""Raft files that are lost, older or another's, and frames that no peer would send.

No vote and no committed entry is forgotten: a node that has lost a part of its log does not vote
before it has caught up, and one that nobody can help does not start.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from reference_world import BROKER_CONF, CONTROLLER_CONF, JOINED, NAMESRV_CONF, Cluster
from test_raft_group import PORT, Group, say, until

from harness.simulation.world import SimHost, SimMachine, World
from reference.raft import message as wire
from reference.raft.message import Append, AppendReply, Entry, Install, Message, Vote
from reference.raft.storage import CorruptRaftLog
from reference.raft.watermark import ForeignRaftLog
from reference.rpc import Pool
from reference.wire.codes import RAFT
from reference.wire.frame import Frame

LOG, MARK = "/raft/log", "/raft/watermark"
Files = dict[str, bytes]


def play(main: Callable[[Group], Coroutine[Any, Any, None]]) -> None:
    """Run a test beside a group of three."""
    world = World(11)

    async def body(host: SimHost) -> None:
        await main(Group(world, 3))

    world.run(world.add_machine("client", "198.18.1.2"), body)
    world.close()


def emptied(now: Files, older: Files) -> Files:
    return {**now, LOG: b""}


def deleted(now: Files, older: Files) -> Files:
    return {path: data for path, data in now.items() if path != LOG}


def shortened(now: Files, older: Files) -> Files:
    return {**now, LOG: older[LOG]}


@pytest.mark.parametrize("damage", [emptied, deleted, shortened])
def test_a_node_that_lost_its_log_does_not_vote_before_it_has_caught_up(
    damage: Callable[[Files, Files], Files],
) -> None:
    """Two of three have what was agreed on; one of them loses it, and the third never had it."""

    async def main(group: Group) -> None:
        await say(group, b"one")
        await until(lambda: group.everywhere([b"one"]))
        leader = group.leader()
        assert leader is not None
        loser, late = [n for n in group.machines if n != leader]
        disk = group.machines[loser].disk
        older = {path: bytes(data) for path, data in disk.files.items()}
        group.kill(late)
        await say(group, b"two")
        await until(lambda: group.words[loser].words == [b"one", b"two"])
        group.kill(loser)
        now = {path: bytes(data) for path, data in disk.files.items()}
        for path in (LOG, MARK):
            disk.remove(path)
        for path, data in damage(now, older).items():
            disk.install(path, data)
        group.kill(leader)
        group.start(loser)
        group.start(late)
        await asyncio.sleep(10)
        assert group.leader() is None, "a majority of them does not know of the second word"
        assert group.rafts[loser].core.lost is not None
        group.start(leader)
        await say(group, b"three")
        await until(lambda: group.everywhere([b"one", b"two", b"three"]))
        assert group.rafts[loser].core.lost is None
        group.kill(group.leader() or "")
        await say(group, b"four")

    play(main)


def alone(cluster: Cluster) -> SimMachine:
    """One controller, which has given an id to one broker; both are ended."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    controller = cluster.up("controller", "controller", CONTROLLER_CONF)
    broker = cluster.up("b1", "broker", JOINED)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    broker.loop.kill()
    controller.loop.kill()
    return cluster.machines["controller"]


@pytest.mark.parametrize("damage", [emptied, deleted])
def test_a_single_controller_that_lost_its_log_does_not_start(
    cluster: Cluster, damage: Callable[[Files, Files], Files]
) -> None:
    """It would give broker id 1 away again. Without the watermark an operator lets it."""
    machine = alone(cluster)
    files = {p: bytes(d) for p, d in machine.disk.files.items()}
    names = {f"/data{path}": path for path in (LOG, MARK)}
    kept = damage({names.get(p, p): d for p, d in files.items()}, {})
    for path in names:
        machine.disk.remove(path)
    for path in names.values():
        if path in kept:
            machine.disk.install(f"/data{path}", kept[path])
    with pytest.raises(BaseExceptionGroup) as refused:
        cluster.up("controller", "controller", CONTROLLER_CONF)
    assert refused.group_contains(CorruptRaftLog, match="remove the watermark")
    machine.disk.remove(f"/data{MARK}")
    assert cluster.up("controller", "controller", CONTROLLER_CONF).healthy


OF_GROUP_H = {"controllerDLegerGroup": "h"}
OF_NODE_N1 = {
    "controllerDLegerSelfId": "n1",
    "controllerDLegerPeers": CONTROLLER_CONF["controllerDLegerPeers"].replace("n0", "n1"),
}


@pytest.mark.parametrize("other", [OF_GROUP_H, OF_NODE_N1])
def test_another_groups_or_nodes_folder_is_refused(cluster: Cluster, other: dict[str, str]) -> None:
    alone(cluster)
    with pytest.raises(BaseExceptionGroup) as refused:
        cluster.up("controller", "controller", {**CONTROLLER_CONF, **other})
    assert refused.group_contains(ForeignRaftLog, match="the log of node n0 of group g")


def hostile(leader: str, follower: str) -> list[tuple[str, Message]]:
    """Messages, each with whom it is sent to, that ended nodes or made their logs unreadable."""
    entry = Entry(term=9, index=7, data=b"x")
    beat = Append(term=9, leader=leader, previous_index=1, previous_term=1, entries=(), commit=0,
                  round=1)  # fmt: skip

    def like(**more: Any) -> Append:
        fields = {f: getattr(beat, f) for f in beat.__struct_fields__}
        return Append(**{**fields, **more})

    return [
        *((leader, like(term=t, leader=follower)) for t in range(1, 9)),
        (follower, like(term=2**63)),
        (leader, Vote(term=2**64 - 1, candidate=follower, last_index=0, last_term=0, pre=False)),
        (follower, like(previous_index=-1, commit=5)),
        (follower, like(entries=(entry,))),
        (follower, like(previous_index=0, previous_term=0, commit=1,
                        entries=(Entry(term=9, index=1, data=b"x"),))),
        (follower, like(entries=(Entry(term=9, index=2, data=b"?"),), commit=2)),
        (follower, like(commit=2**62)),
        (follower, Install(term=9, leader=leader, index=100, index_term=9, data=b"?", round=1)),
        *((leader, AppendReply(term=t, follower=follower, accepted=True, index=2**62, round=2**62))
          for t in range(1, 9)),
        *((leader, AppendReply(term=t, follower=follower, accepted=False, index=-5, round=2**62))
          for t in range(1, 9)),
    ]  # fmt: skip


def test_no_frame_of_a_stranger_ends_a_node_or_spoils_its_log() -> None:
    async def main(group: Group) -> None:
        await say(group, b"before")
        leader = group.leader()
        assert leader is not None
        follower = next(n for n in group.machines if n != leader)
        async with asyncio.TaskGroup() as tasks:
            pool = Pool(tasks)
            frames = [(to, wire.encode(m)) for to, m in hostile(leader, follower)]
            for to, body in (*frames, (leader, b"\xc1")):
                pool.post(f"{group.machines[to].address}:{PORT}", Frame(code=RAFT, body=body))
                await asyncio.sleep(0.2)
            pool.close()
        assert all(loop.alive and not loop.failures for loop in group.loops.values())
        await say(group, b"after")
        await until(lambda: group.everywhere([b"before", b"after"]))
        for name in group.machines:
            group.kill(name)
        for name in group.machines:
            group.start(name)
        await say(group, b"again")
        await until(lambda: group.everywhere([b"before", b"after", b"again"]))

    play(main)


def test_a_broker_without_the_name_server_still_has_its_id(cluster: Cluster) -> None:
    """A control of `alone`: the same files, undamaged, give the id back."""
    alone(cluster)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    cluster.up("b1", "broker", JOINED)
    assert (cluster.disk("b1", "/data/brokerIdentity") or b"").startswith(
        f"{BROKER_CONF['brokerClusterName']}#b#1#".encode()
    )
