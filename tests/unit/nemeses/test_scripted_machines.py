"""The nemesis of a schedule: acts on machines, whom they concern, what environments cannot do."""

import asyncio
from typing import Any

import pytest
from struck_cluster import TRIO, FakeCluster

from maxq.harness.contracts.outcome import Ok
from maxq.histories.fault_facts import BUILT_IN
from maxq.histories.op import NEMESIS, Op
from maxq.nemeses.catalogue import acts
from maxq.nemeses.scripted import Scripted

# A fault of machines, what it is asked with, what is told of it, its heal.
FAULTS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("bump-clock", {"offset_ms": -700}, {"off_ms": -700, "ppm": 0}, "reset-clock"),
    ("bump-clock", {"drift_ppm": 900}, {"off_ms": 0, "ppm": 900}, "reset-clock"),
    ("start-disk-fault", {"full": True}, {"kind": "full-disk", "sync_ms": None}, "stop-disk-fault"),
    ("start-disk-fault", {"frozen": True}, {"kind": "frozen-disk", "sync_ms": None},
     "stop-disk-fault"),
    ("start-disk-fault", {"sync_ms": 80}, {"kind": "slow-disk", "sync_ms": 80}, "stop-disk-fault"),
    ("start-disk-fault", {"misread": "commitlog/0", "bit": 7},
     {"kind": "misreading-disk", "sync_ms": None}, "stop-disk-fault"),
    ("start-delay", {"ms": 40, "from": ["c0", "c1"]},
     {"ms": 40, "jitter_ms": 0, "kb_s": 0, "peers": ["c0", "c1"], "ways": "in", "ports": "all"},
     "stop-delay"),
    ("start-delay", {"ms": 40, "jitter_ms": 9, "kb_s": 7, "from": "namesrvs", "ways": "both",
                     "ports": "remoting"},
     {"ms": 40, "jitter_ms": 9, "kb_s": 7, "peers": ["n0"], "ways": "both", "ports": "remoting"},
     "stop-delay"),
    ("start-packet-loss", {"percent": 30, "from": "namesrvs"},
     {"percent": 30, "peers": ["n0"], "ways": "both", "ports": "all"}, "stop-packet-loss"),
    ("start-packet-loss", {"percent": 100, "ways": "in", "from": ["c0", "c1"], "ports": "raft"},
     {"percent": 100, "peers": ["c0", "c1"], "ways": "in", "ports": "raft"}, "stop-packet-loss"),
]  # fmt: skip


def perform(cluster: FakeCluster, *acts: tuple[str, str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What each act did, by node."""

    async def main() -> list[dict[str, Any]]:
        nemesis, found = Scripted(cluster, "key"), []
        for f, name, asked in acts:
            outcome = await nemesis.invoke(Op("info", NEMESIS, f, name, ext=asked))
            assert isinstance(outcome, Ok), outcome
            found.append(outcome.value)
        return found

    return asyncio.run(main())


@pytest.mark.parametrize(("f", "args", "seen", "heal"), FAULTS)
def test_a_fault_of_machines_and_its_heal(
    f: str, args: dict[str, Any], seen: dict[str, Any], heal: str
) -> None:
    cluster = FakeCluster(TRIO)
    who = {"part": "slave", "count": 2}
    struck, first, rest, nobody = perform(
        cluster,
        (f, "f1", {"who": who, "args": args}),
        (heal, "f1.h1", {"who": {"of": "f1", "share": "first"}}),
        (heal, "end", {}),
        (heal, "again", {}),
    )
    told = {"holds": True, "role": "slave", **seen}
    spread = {k: v for k, v in struck["b0-1"].items() if k == "spread_ms"}
    assert struck == {"b0-1": {**told, **spread}, "b0-2": {**told, **spread}}
    assert (list(first), list(rest)) == (["b0-1"], ["b0-2"]), "only who has something is healed"
    assert nobody["nobody"]["holds"]


def test_every_act_has_its_needs_its_heal_and_its_colour() -> None:
    for f in {f for f, _, _, _ in FAULTS}:
        assert len(acts()[f].needs) == 1
        facts = BUILT_IN.of(f)
        assert facts is not None
        [heal] = facts.heals
        assert acts()[heal].back
        assert acts()[heal].needs == acts()[f].needs
        assert facts.color


@pytest.mark.parametrize("kind", ["full-disk", "frozen-disk"])
@pytest.mark.parametrize("f", ["start", "restart", "stop"])
def test_on_a_disk_that_takes_nothing_nobody_starts_or_stops_in_good_order(
    f: str, kind: str
) -> None:
    cluster = FakeCluster(TRIO)
    cluster.sick = {"b0-1": {kind}}
    if f == "start":
        cluster.dead = {"b0-1"}
    who = {"who": {"nodes": ["b0-1"]}}
    [during] = perform(cluster, (f, "a", who))
    assert list(during) == ["nobody"]
    cluster.sick = {"b0-1": {"slow-disk"}}
    [after] = perform(cluster, (f, "a", who))
    assert list(after) == ["b0-1"]


def test_who_ended_for_want_of_a_disk_is_down_for_every_act() -> None:
    cluster = FakeCluster(TRIO)
    cluster.sick = {"b0-1": set()}
    who = {"who": {"nodes": ["b0-1", "b0-2"]}}
    for f in ("kill", "stop", "power-loss", "pause", "restart", "change-address"):
        cluster.ended, cluster.dead, cluster.held = {"b0-1": 1, "b0-2": 1}, set(), set()
        [done] = perform(cluster, (f, "a", who))
        assert list(done) == ["b0-2"], f
    cluster.ended, cluster.dead = {"b0-1": 1, "b0-2": 1}, set()
    [back] = perform(cluster, ("start", "s", {}))
    assert list(back) == ["b0-1"], "whoever has no excuse stays as he is"


def test_connections_are_reset_with_those_who_are_named_and_told_of_both_ends() -> None:
    cluster = FakeCluster(TRIO)
    who = {"nodes": ["b0-0", "b0-1"]}
    [done] = perform(cluster, ("reset-connections", "r", {"who": who, "args": {"from": ["n0"]}}))
    assert {node: what["from"] for node, what in done.items()} == {
        "b0-0": {"n0": 1}, "n0": {"b0-0": 1, "b0-1": 1}, "b0-1": {"n0": 1},
    }  # fmt: skip
    cluster.dead = {"b0-0", "b0-1"}
    [nobody] = perform(cluster, ("reset-connections", "r", {"who": who}))
    assert list(nobody) == ["nobody"]
    complaint = acts()["reset-connections"].complaint({"from": "everywhere"}, ["n0"])
    assert "everywhere" in complaint


def test_connections_to_certain_ports_are_reset_alone() -> None:
    cluster, who = FakeCluster(TRIO), {"nodes": ["b0-0"]}
    acts_of = [
        ("reset-connections", kind, {"who": who, "args": {"from": ["n0"], "ports": kind}})
        for kind in ("ha", "raft")
    ]
    of_ha, of_raft = perform(cluster, *acts_of)
    assert list(of_ha) == ["b0-0", "n0"]
    assert "b0-0" not in of_raft
    complaint = acts()["reset-connections"].complaint({"ports": "http"}, ["n0"])
    assert complaint == "ports 'http' is none of all, ha, raft, remoting"


@pytest.mark.parametrize(("f", "perm"), [("wipe-write", 4), ("add-write", 6)])
def test_a_permission_is_the_sets_whoever_of_it_is_named(f: str, perm: int) -> None:
    cluster = FakeCluster(TRIO)
    who = {"nodes": ["b0-1", "b0-2", "n0"]}
    [done] = perform(cluster, (f, "w", {"who": who}))
    assert list(done) == ["b0-0", "b0-1", "b0-2"]
    assert all(what["perms"] == {"n0": {"t": perm}} for what in done.values())
    assert "nowhere" in acts()[f].complaint({"from": "nowhere"}, ["n0"])
