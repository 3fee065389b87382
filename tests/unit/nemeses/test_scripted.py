"""The nemesis of schedules: whom each act concerns at its moment, what is done, what is told."""

import asyncio
from typing import Any

import pytest
from struck_cluster import TRIO, FakeCluster

from maxq.harness.contracts.environment import CLIENT
from maxq.harness.contracts.outcome import Fail, Ok, Outcome
from maxq.harness.contracts.target import Topology
from maxq.histories.op import NEMESIS, Op
from maxq.nemeses.scripted import Scripted

BROKERS = ["b0-0", "b0-1", "b0-2"]
CONTROLLERS = ["c0", "c1", "c2"]
EVERYBODY = sorted(["n0", *CONTROLLERS, *BROKERS])


class Script:
    """Acts on a fake cluster, one after another."""

    def __init__(self, topology: Topology = TRIO, key: str = "7/act") -> None:
        self.cluster = FakeCluster(topology)
        self.nemesis = Scripted(self.cluster, key)
        self._count = 0

    def act(self, f: str, who: dict[str, Any] | None = None, *, id_: str = "", **args: Any) -> Any:
        """Perform an act; what was told of each node."""
        outcome = self.outcome(f, who, id_=id_, **args)
        assert isinstance(outcome, Ok), outcome
        return outcome.value

    def outcome(
        self, f: str, who: dict[str, Any] | None = None, *, id_: str = "", **args: Any
    ) -> Outcome:
        self._count += 1
        ext = {k: v for k, v in (("who", who), ("args", args)) if v}
        op = Op("info", NEMESIS, f, id_ or f"a{self._count}", ext=ext or None)
        return asyncio.run(self.nemesis.invoke(op))


def is_nobody(told: dict[str, Any], f: str) -> bool:
    return told == {"nobody": {"holds": True, "reason": f"nobody to {f}"}}


# Whom.


def test_nodes_by_name() -> None:
    script = Script()
    told = script.act("kill", {"nodes": ["c1", "b0-2", "r0", "x9"]})
    assert list(told) == ["c1", "b0-2"], "neither a spare nor one that there is not"
    assert [told[n]["role"] for n in told] == ["controller", "broker"]
    assert script.cluster.struck("kill") == ["c1", "b0-2"]
    assert is_nobody(script.act("kill", {"nodes": ["c1"]}), "kill"), "it is down"


@pytest.mark.parametrize(
    ("part", "among"),
    [
        ("master", ["b0-0"]), ("slave", ["b0-1", "b0-2"]), ("controller-leader", ["c0"]),
        ("controller", CONTROLLERS), ("broker", BROKERS), ("namesrv", ["n0"]),
        ("sync-state-set-slave", ["b0-1", "b0-2"]),
    ],
)  # fmt: skip
def test_whoever_plays_the_part_now(part: str, among: list[str]) -> None:
    script = Script()
    [struck] = script.act("kill", {"part": part})
    assert struck in among
    everybody = Script().act("kill", {"part": part, "count": -1})
    assert list(everybody) == among
    assert {told["role"] for told in everybody.values()} == {part}
    if len(among) > 1:
        two = list(Script().act("kill", {"part": part, "count": 2}))
        assert len(two) == 2
        assert two == [n for n in among if n in two], "in order"
        assert len(Script().act("kill", {"part": part, "count": 99})) == len(among)


def test_a_choice_is_keyed_by_the_act_and_the_run() -> None:
    def chosen(key: str, id_: str, before: int = 0) -> list[str]:
        script = Script(key=key)
        for _ in range(before):
            script.act("pause", {"part": "controller"})
            script.act("resume")
        return list(script.act("pause", {"part": "broker"}, id_=id_))

    assert chosen("7/act", "f3") == chosen("7/act", "f3", before=4), "whatever came before"
    by_id = {tuple(chosen("7/act", f"f{n}")) for n in range(20)}
    by_seed = {tuple(chosen(f"{n}/act", "f3")) for n in range(20)}
    assert len(by_id) == len(by_seed) == 3


def test_where_nobody_plays_the_part_another_is_struck() -> None:
    script = Script()
    script.cluster.nobody.add("master")
    [(node, told)] = script.act("kill", {"part": "master"}).items()
    assert node in BROKERS
    assert told["role"] == "broker"
    script.cluster.dead.update(BROKERS)
    assert is_nobody(script.act("kill", {"part": "master"}), "kill")


def test_whom_another_act_struck_all_the_first_or_the_rest() -> None:
    script = Script()
    struck = list(script.act("kill", {"part": "controller", "count": -1}, id_="k"))
    assert list(script.act("start", {"of": "k", "share": "first"})) == struck[:1]
    assert list(script.act("start", {"of": "k", "share": "rest"})) == struck[1:]
    assert is_nobody(script.act("start", {"of": "k"}), "start"), "all run again"
    assert is_nobody(script.act("start", {"of": "never"}), "start")
    assert list(script.act("pause", {"of": "k"})) == struck
    assert is_nobody(script.act("pause", {"of": "k"}), "pause"), "they are paused"


def test_the_last_victim_and_the_last_that_rejoined() -> None:
    script = Script()
    assert is_nobody(script.act("kill", {"part": "last-victim"}), "kill")
    script.act("kill", {"nodes": ["b0-1"]}, id_="k")
    script.act("pause", {"nodes": ["c2"]})
    assert list(script.act("resume", {"part": "last-victim"})) == ["c2"]
    assert is_nobody(script.act("start", {"part": "last-rejoined"}), "start"), "it runs"
    script.act("start", {"of": "k"})
    [(node, told)] = script.act("kill", {"part": "last-rejoined"}).items()
    assert (node, told["role"]) == ("b0-1", "last-rejoined")
    script.act("elect-master", replica=2)
    assert list(script.act("start", {"part": "last-victim"})) == ["b0-1"], "nobody was struck since"


def test_whoever_is_heard_again_has_rejoined() -> None:
    script = Script()
    script.act("start-partition", {"nodes": ["b0-0"]}, id_="c")
    script.act("kill", {"nodes": ["b0-2"]})
    script.act("stop-partition", {"of": "c"})
    assert list(script.act("start", {"part": "last-victim"})) == ["b0-2"], "a heal strikes nobody"
    script.act("start-partition", {"nodes": ["b0-1"]}, id_="d")
    script.act("stop-partition", {"of": "d"})
    assert list(script.act("kill", {"part": "last-rejoined"})) == ["b0-1"]


def test_heals_that_name_nobody_are_for_everybody_and_faults_for_nobody() -> None:
    script = Script()
    script.act("kill", {"nodes": ["b0-0", "n0"]})
    script.act("pause", {"nodes": ["c0", "c1"]})
    assert sorted(script.act("start")) == ["b0-0", "n0"]
    assert sorted(script.act("resume")) == ["c0", "c1"]
    assert sorted(script.act("restore-address")) == EVERYBODY
    for f in ("kill", "pause", "restart", "change-address", "power-loss", "stop"):
        assert is_nobody(script.act(f), f)
    assert is_nobody(script.act("start"), "start")


@pytest.mark.parametrize(
    ("f", "verbs"),
    [
        ("kill", ["kill"]), ("stop", ["stop"]), ("power-loss", ["power_loss"]),
        ("pause", ["pause"]), ("restart", ["stop", "start"]),
        ("change-address", ["change_address"]), ("restore-address", ["restore_address"]),
    ],
)  # fmt: skip
def test_what_each_act_does(f: str, verbs: list[str]) -> None:
    script = Script()
    told = script.act(f, {"nodes": ["b0-0"]})["b0-0"]
    assert script.cluster.done == [(verb, "b0-0") for verb in verbs]
    assert told["holds"] is True
    assert "spread_ms" not in told, "of one there is none"
    for verb in verbs:
        doubted = Script()
        doubted.cluster.unproven.add(verb)
        assert doubted.act(f, {"nodes": ["b0-0"]})["b0-0"]["holds"] is False


def test_a_change_of_address_may_be_with_a_restart() -> None:
    for restart in (True, False):
        script = Script()
        told = script.act("change-address", {"nodes": ["b0-0"]}, restart=restart)
        assert told["b0-0"]["restart"] is restart
        told = script.act("restore-address", {"nodes": ["b0-0"]}, restart=restart)
        assert told["b0-0"]["restart"] is restart


def test_several_are_struck_in_one_instant_and_how_far_apart_is_told() -> None:
    script = Script()
    told = script.act("kill", {"nodes": [*BROKERS, "c0"]})
    spreads = {t["spread_ms"] for t in told.values()}
    assert len(spreads) == 1
    assert 0 <= spreads.pop() < 1000


@pytest.mark.parametrize("f", ["murder", "bump-clocks", "inspect"])
def test_an_act_that_there_is_not(f: str) -> None:
    assert Script().outcome(f, {"nodes": ["b0-0"]}) == Fail(["no-such-act", f])


# Cuts.


def cut(who: dict[str, Any] | None = None, **args: Any) -> dict[str, list[str]]:
    """Who does not hear whom."""
    script = Script()
    script.act("start-partition", who or {"nodes": ["b0-0"]}, id_="c", **args)
    return {to: sorted(sources) for to, sources in script.cluster.named.get("c", {}).items()}


OTHERS = [n for n in EVERYBODY if n != "b0-0"]


def test_a_node_is_cut_from_all_others_both_ways() -> None:
    assert cut() == {"b0-0": OTHERS, **{n: ["b0-0"] for n in OTHERS}}


def test_cuts_of_one_way() -> None:
    assert cut(ways="in") == {"b0-0": OTHERS}
    assert cut(ways="out") == {n: ["b0-0"] for n in OTHERS}


@pytest.mark.parametrize(
    ("far", "nodes"),
    [
        ("brokers", ["b0-1", "b0-2"]), ("controllers", CONTROLLERS), ("namesrvs", ["n0"]),
        ("controller-leader", ["c0"]), ("slave", ["b0-1", "b0-2"]), (["c1", "x9"], ["c1"]),
        (["b0-0", "n0"], ["n0"]),
    ],
)  # fmt: skip
def test_whom_it_is_cut_from(far: Any, nodes: list[str]) -> None:
    assert cut(None, ways="in", **{"from": far}) == {"b0-0": nodes}


def test_several_victims_hear_each_other() -> None:
    made = cut({"nodes": ["b0-0", "b0-1"]})
    left = [n for n in EVERYBODY if n not in ("b0-0", "b0-1")]
    assert made["b0-0"] == made["b0-1"] == left
    assert made["c0"] == ["b0-0", "b0-1"]


def test_where_clients_are() -> None:
    """`with` the victims: all others do not hear them; `against`: the victims do not."""
    both, apart = cut(clients="both"), cut(clients="against")
    assert not [n for n, sources in both.items() if CLIENT in sources]
    assert [n for n, sources in apart.items() if CLIENT in sources] == ["b0-0"]
    together = cut(clients="with")
    assert [n for n, sources in together.items() if CLIENT in sources] == OTHERS
    only = cut(None, ways="out", clients="against", **{"from": "namesrvs"})
    assert only == {"b0-0": [CLIENT], "n0": ["b0-0"]}


def test_a_cut_as_it_was_recorded() -> None:
    given = {"c0": ["b0-0", CLIENT], "b0-0": []}
    assert cut({"nodes": []}, grudge=given) == {"c0": sorted(["b0-0", CLIENT]), "b0-0": []}


def test_a_cut_of_nobody_cuts_nothing() -> None:
    script = Script()
    assert is_nobody(script.act("start-partition"), "start-partition")
    alone = script.act("start-partition", {"nodes": ["n0"]}, **{"from": "namesrvs"})
    assert is_nobody(alone, "start-partition")
    assert script.cluster.named == {}


def test_cuts_have_names_and_are_healed_by_them() -> None:
    script = Script()
    script.act("start-partition", {"nodes": ["b0-0"]}, id_="c", ways="in", **{"from": ["c0"]})
    told = script.act("start-partition", {"nodes": ["c1"]}, id_="d", ways="in", **{"from": ["c2"]})
    assert told == {"c1": {"holds": True, "from": {"c2": 1}, "role": "controller"}}
    assert sorted(script.cluster.named) == ["c", "d"]
    assert list(script.act("stop-partition", {"of": "c"})) == ["b0-0"]
    assert sorted(script.cluster.named) == ["d"]
    assert is_nobody(script.act("stop-partition", {"of": "c"}), "stop-partition")
    script.act("start-partition", {"nodes": ["b0-0"]}, id_="e", ways="in", **{"from": ["c0"]})
    assert sorted(script.act("stop-partition")) == ["b0-0", "c1"], "of all that are in force"
    assert script.cluster.named == {}
    assert is_nobody(script.act("stop-partition"), "stop-partition")


# Who leads.


def test_a_replica_of_each_set_is_made_master() -> None:
    script = Script(Topology(broker_sets=2, replicas=3))
    told = script.act("elect-master", replica=1)
    assert sorted(told) == ["b0-1", "b1-1"]
    assert all(t["holds"] for t in told.values())
    assert sorted(script.act("elect-master", replica=3)) == ["b0-0", "b1-0"], "round and round"
    script.cluster.unproven.add("elect")
    refused = script.act("elect-master", replica=2)
    assert [t["holds"] for t in refused.values()] == [False, False]
    allowed = script.act("elect-master", replica=2, refusable=True)
    assert [(t["holds"], t["elected"]) for t in allowed.values()] == [(True, False)] * 2


# As a package of a run.
