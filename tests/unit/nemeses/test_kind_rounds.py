"""Every kind of fault, as drawn: what its rounds say, and that a nemesis can do all of it."""

import asyncio
from itertools import islice
from random import Random

import pytest
from struck_cluster import SETS, TRIO, FakeCluster

from maxq.harness.contracts.environment import SIMULATED_ONLY
from maxq.harness.contracts.layouts import CROSSED_2
from maxq.harness.contracts.outcome import Ok
from maxq.harness.contracts.target import Topology
from maxq.harness.sampling.rounds import acts_of, timed
from maxq.harness.schedule.format import When
from maxq.harness.schedule.perform import asked
from maxq.histories.fault_facts import BUILT_IN
from maxq.histories.op import NEMESIS, Op
from maxq.nemeses.catalogue import BUILT_IN as KINDS
from maxq.nemeses.kind import Drawing, Kind, Step
from maxq.nemeses.kinds.containers import FAILURE, REMOVAL
from maxq.nemeses.kinds.machine import CLOCK
from maxq.nemeses.kinds.store import STRUCK as PARTS
from maxq.nemeses.scripted import Scripted

DRAWN = [kind for kind in KINDS if kind.rounds is not None]
SEEDS = range(3)
CONTAINERS = Topology(broker_sets=2, replicas=2, layout=CROSSED_2)
ALONE = ("trim", "reset-connections")  # that are over at once, and need no heal


def rounds(
    kind: Kind, seed: int = 1, count: int = 12, topology: Topology = TRIO
) -> list[tuple[Step, ...]]:
    nodes, releases = FakeCluster(topology).nodes, ("reference", "rocketmq:5.5.0")
    drawing = Drawing.of(str(seed), nodes, by_name=True, releases=releases)
    assert kind.rounds is not None
    return [tuple(made) for made in islice(kind.rounds(drawing), count)]


@pytest.mark.parametrize("kind", DRAWN, ids=lambda kind: kind.name)
def test_each_round_strikes_and_heals_what_it_struck(kind: Kind) -> None:
    names = {act.f for act in kind.acts}
    for made in rounds(kind):
        strikes = [n for n, step in enumerate(made) if not BUILT_IN.heals(step.f)]
        healed = {step.of for step in made if BUILT_IN.heals(step.f)}
        assert {step.f for step in made} <= names
        assert strikes[0] == 0
        own = {n for n in strikes if made[n].of < 0 and made[n].f not in ALONE}
        later = {made[n].of for n in strikes if made[n].of >= 0}
        assert healed == own == later | own
        assert all(step.of < n for n, step in enumerate(made))


@pytest.mark.parametrize("kind", DRAWN, ids=lambda kind: kind.name)
def test_draws_are_keyed(kind: Kind) -> None:
    assert rounds(kind, 1) == rounds(kind, 1)
    assert len({repr(rounds(kind, seed)) for seed in range(8)}) > 1


@pytest.mark.parametrize("topology", [TRIO, SETS])
@pytest.mark.parametrize("kind", DRAWN, ids=lambda kind: kind.name)
def test_a_nemesis_does_all_of_it(kind: Kind, topology: Topology) -> None:
    if kind in (REMOVAL, FAILURE):
        topology = CONTAINERS
    cluster = FakeCluster(topology)
    nemesis = Scripted(cluster, "7/act")

    async def main() -> list[str]:
        struck = []
        for number, made in enumerate(rounds(kind, topology=topology)):
            for act in acts_of(f"x{number}", timed(made), When()):
                op = Op("info", NEMESIS, act.f, act.id, ext=asked(act) or None)
                done = await nemesis.invoke(op)
                assert isinstance(done, Ok), done
                assert all(what["holds"] for what in done.value.values())
                struck += [act.f] if "nobody" not in done.value else []
        return struck

    struck = asyncio.run(main())
    alone = topology.replicas == 1  # whose set has no other store to be copied
    drawn = {step.f for made in rounds(kind, topology=topology) for step in made}
    assert set(struck) == drawn - ({"start", "copy-store"} if alone else {"start"}) | (
        set()
        if kind.name in ("restart", "replace-release", *ALONE)
        else {"start"} & {a.f for a in kind.acts}
    )
    assert not cluster.named, "every cut was healed by its own heal"


def test_masters_are_killed_most_and_each_part_now_and_then() -> None:
    [kind] = [kind for kind in DRAWN if kind.name == "kill"]
    parts = [made[0].who.part for made in rounds(kind, count=400)]
    assert parts.count("master") > parts.count("slave")
    assert {"master", "slave", "sync-state-set-slave", "controller-leader", "namesrv", "broker",
            "controller"} == set(parts)  # fmt: skip
    several = [made[0].who for made in rounds(kind, count=400)[3::4]]
    assert all(who.count == 2 for who in several), "most of three"


def test_each_accident_befalls_a_broker_that_was_killed_for_it() -> None:
    [kind] = [kind for kind in DRAWN if kind.name == "damage"]
    made = rounds(kind, count=60)
    assert {step.f for round_ in made for step in round_[1:2]} == {
        "copy-store",
        "cut-file",
        "flip-bit",
    }
    assert all(r[0].f == "kill" and r[0].who.part in PARTS for r in made)
    places = [r[1].args["at"] for r in made if r[1].f == "flip-bit"]
    assert min(places) < 0.2 < 0.8 < max(places)


def test_epoch_files_are_removed_of_a_broker_that_is_down_and_each_third_time_of_all() -> None:
    [kind] = [kind for kind in DRAWN if kind.name == "remove-epochs"]
    made = rounds(kind)
    assert {tuple(step.f for step in round_[1:]) for round_ in made} == {("remove-epochs", "start")}
    assert [round_[0].f for round_ in made] == ["kill", "kill", "stop"] * 4
    assert [round_[0].who.count for round_ in made] == [1, 1, -1] * 4


def test_logs_get_old_of_one_broker_and_each_fourth_time_or_so_of_all() -> None:
    [kind] = [kind for kind in DRAWN if kind.name == "trim"]
    made = rounds(kind, count=400)
    assert {tuple(step.f for step in round_) for round_ in made} == {("trim",)}
    counts = [round_[0].who.count for round_ in made]
    assert 60 < counts.count(-1) < 140
    assert counts.count(1) + counts.count(-1) == 400


def test_a_rack_loses_its_power_each_third_time() -> None:
    [kind] = [kind for kind in DRAWN if kind.name == "power"]
    counts = [made[0].who.count for made in rounds(kind)]
    assert counts == [1, 1, -1] * 4


def test_half_of_the_moves_are_under_the_running_process() -> None:
    [kind] = [kind for kind in DRAWN if kind.name == "change-address"]
    moves = [step for made in rounds(kind, count=60) for step in made if step.f == "change-address"]
    assert sum(bool(step.args.get("restart")) for step in moves) * 2 == len(moves)


def test_a_share_of_a_file_is_less_than_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draw of 0.99996 would be rounded up, and no schedule can have that."""
    monkeypatch.setattr(Random, "random", lambda rng: 0.99996)
    [kind] = [kind for kind in DRAWN if kind.name == "damage"]
    shares = [step.args["at"] for made in rounds(kind) for step in made if "at" in step.args]
    assert set(shares) == {0.9999}


def test_on_real_machines_clocks_are_off_by_steps() -> None:
    """In the simulator they drift as well, in the same draws as ever."""
    nodes = FakeCluster(TRIO).nodes
    for lacks, expected in (((), {"offset_ms", "drift_ppm"}), (SIMULATED_ONLY, {"offset_ms"})):
        drawing = Drawing.of("1", nodes, by_name=True, lacks=lacks)
        assert CLOCK.rounds is not None
        made = [step.args for steps in islice(CLOCK.rounds(drawing), 12) for step in steps]
        assert {name for args in made for name in args} == expected
