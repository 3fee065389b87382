"""Raft files that are lost, older or another's, and frames that no peer would send.

No vote and no committed entry is forgotten: a node that has lost a part of its log does not vote
before it has caught up, and one that nobody can help does not start.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from reference_world import BROKER_CONF, CONTROLLER_CONF, JOINED, NAMESRV_CONF, Cluster
from test_raft_group import PORT, Group, say, until

from maxq.harness.simulation.world import SimHost, SimMachine, World
from maxq.reference.raft import handshake
from maxq.reference.raft import message as wire
from maxq.reference.raft.handshake import Hello
from maxq.reference.raft.message import Append, AppendReply, Entry, Install, Message, Vote
from maxq.reference.raft.storage import CorruptRaftLog
from maxq.reference.raft.watermark import ForeignRaftLog
from maxq.reference.rpc import connect
from maxq.reference.wire.codes import RAFT
from maxq.reference.wire.frame import Frame

LOG, MARK = "/raft/log", "/raft/watermark"
Files = dict[str, bytes]


def play(main: Callable[[Group], Coroutine[Any, Any, None]], *, by_name: bool = False) -> None:
    """Run a test beside a group of three."""
    world = World(11)

    async def body(host: SimHost) -> None:
        await main(Group(world, 3, by_name=by_name))

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


async def speak(group: Group, to: str, bodies: Sequence[bytes]) -> None:
    """Send frames over one connection, until it is cut."""
    async with asyncio.TaskGroup() as tasks:
        made = await connect(f"{group.machines[to].address}:{PORT}", group=tasks)
        for body in bodies:
            if not made.closed:
                made.oneway(Frame(code=RAFT, body=body))
                await asyncio.sleep(0.1)
        made.close()


def refusals(group: Group, name: str) -> list[str]:
    return [str(fields["why"]) for _, trace, fields in group.machines[name].log
            if trace == "raft.peer.refused"]  # fmt: skip


def sender_of(message: Message) -> str:
    named = ("candidate", "voter", "leader", "follower")
    return next(str(getattr(message, name)) for name in named if hasattr(message, name))


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (Hello(group="h", sender="n1", receiver="n0"), "it is of group 'h', and this node of 'g'"),
        (Hello(group="g", sender="n1", receiver="n2"), "it takes this node, 'n0', for 'n2'"),
        (Hello(group="g", sender="n9", receiver="n0"), "'n9' is no other node of this group"),
        (Hello(group="g", sender="n0", receiver="n0"), "'n0' is no other node of this group"),
        (
            Hello(group="g", sender="n1", receiver="n0"),
            "'n1' is configured at 198.18.0.32, and this comes from 198.18.1.2",
        ),
    ],
)
def test_who_is_no_peer_is_refused_by_name(hello: Hello, why: str) -> None:
    async def main(group: Group) -> None:
        await until(group.leader)
        await speak(group, "n0", [handshake.encode(hello), b"", b""])
        assert refusals(group, "n0") == [why]
        vote = Vote(term=9, candidate="n1", last_index=9, last_term=9, pre=False)
        await speak(group, "n0", [wire.encode(vote)])
        assert refusals(group, "n0")[-1].startswith("not the first message of a raft peer")
        await speak(group, "n0", [b""])
        assert len(refusals(group, "n0")) == 3

    play(main)


def test_a_peer_speaks_for_itself_alone() -> None:
    async def main(group: Group) -> None:
        await until(group.leader)
        hello = Hello(group="g", sender="n1", receiver="n0")
        vote = Vote(term=9, candidate="n2", last_index=9, last_term=9, pre=False)
        await speak(group, "n0", [handshake.encode(hello), wire.encode(vote)])
        assert refusals(group, "n0") == ["'n1' speaks for 'n2'"]

    play(main, by_name=True)


def test_no_frame_of_a_peer_ends_a_node_or_spoils_its_log() -> None:
    """Where peers are configured by name, whoever greets as one of them is heard."""

    async def main(group: Group) -> None:
        await say(group, b"before")
        leader = group.leader()
        assert leader is not None
        follower = next(n for n in group.machines if n != leader)
        frames = [(to, sender_of(m), wire.encode(m)) for to, m in hostile(leader, follower)]
        for to, sender, body in (*frames, (leader, follower, b"\xc1")):
            hello = Hello(group="g", sender=sender, receiver=to)
            await speak(group, to, [handshake.encode(hello), body])
        assert sum(len(refusals(group, name)) for name in group.machines) >= len(frames) // 2
        assert all(loop.alive and not loop.failures for loop in group.loops.values())
        await say(group, b"after")
        await until(lambda: group.everywhere([b"before", b"after"]))
        for name in group.machines:
            group.kill(name)
        for name in group.machines:
            group.start(name)
        await say(group, b"again")
        await until(lambda: group.everywhere([b"before", b"after", b"again"]))

    play(main, by_name=True)


def test_a_broker_without_the_name_server_still_has_its_id(cluster: Cluster) -> None:
    """A control of `alone`: the same files, undamaged, give the id back."""
    alone(cluster)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    cluster.up("b1", "broker", JOINED)
    assert (cluster.disk("b1", "/data/brokerIdentity") or b"").startswith(
        f"{BROKER_CONF['brokerClusterName']}#b#1#".encode()
    )
