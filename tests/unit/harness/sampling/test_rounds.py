"""The schedule of a run of ``maxq test``: whole before it begins, from options and seed."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.contracts.existing import BrokerMember, Existing, Member
from maxq.harness.run.replay import options_for
from maxq.harness.sampling.rounds import BUSY_S, schedule_of
from maxq.harness.schedule.format import Act, Schedule, decode, encode
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.reductions import family
from maxq.histories.fault_facts import BUILT_IN

OPTIONS = Options(environment="simulated", seed=1)


def drawn(patience: int = 1, **more: Any) -> Schedule:
    return schedule_of(msgspec.structs.replace(OPTIONS, **more), patience)


def strikes(script: Schedule) -> list[Act]:
    return [act for act in script.acts if not BUILT_IN.heals(act.f)]


def test_the_same_options_and_seed_give_the_same_bytes() -> None:
    assert encode(drawn()) == encode(drawn())
    assert encode(drawn(seed=2)) != encode(drawn())
    assert decode(encode(drawn())) == drawn()


def test_every_fault_strikes_in_rounds_as_many_as_fit() -> None:
    minute, ten = drawn(), drawn(time_limit_ns=600 * 10**9)
    for name in ("kill", "partition", "change-address"):
        few, many = ([a for a in s.acts if a.id.startswith(name)] for s in (minute, ten))
        assert few == many[: len(few)], "a longer run begins as a shorter one"
        assert 8 * len(few) < len(many)
        rounds = list(dict.fromkeys(family(act) for act in many))
        assert rounds == [f"{name}{n}" for n in range(1, len(rounds) + 1)]


def test_a_fault_alone_strikes_more_often_and_a_slow_target_less() -> None:
    def count(patience: int = 1, *names: str) -> int:
        acts = drawn(patience, nemesis=names, time_limit_ns=300 * 10**9).acts
        return sum(act.f == "kill" for act in acts)

    assert count(1, "kill") > count(1, "kill", "pause") > count(3, "kill", "pause") > 0


EXISTING = Existing(
    cluster="mine",
    namesrv=(Member(name="n", address="n:1"),),
    controller=tuple(Member(name=f"c{i}", address=f"c{i}:1") for i in range(3)),
    broker=tuple(
        BrokerMember(name=f"x{i}", address=f"x{i}:1", set="x", id=i + 1) for i in range(3)
    ),
)


@given(seed=st.integers(0, 2**32 - 1), most=st.integers(1, 3))
def test_of_a_cluster_that_runs_already_faults_take_turns_and_few_nodes(
    seed: int, most: int
) -> None:
    names = ("kill", "partition", "pause", "loss")
    script = drawn(
        seed=seed, nemesis=names, existing=EXISTING, max_unavailable=most,
        time_limit_ns=300 * 10**9,
    )  # fmt: skip
    assert {act.id.rstrip("0123456789.") for act in script.acts} == {*names}
    before = ""
    for act in script.acts:
        assert act.when.after == before, "each waits for the end of the one before"
        before = act.id
    assert len([a for a in script.acts if BUILT_IN.heals(a.f)]) * 2 == len(script.acts)
    assert all(-1 < act.who.count <= most for act in script.acts)
    assert all(act.args.get("keeps") for act in script.acts if act.f == "start-partition")


def test_one_fault_does_not_change_the_draws_of_another() -> None:
    both = [a for a in drawn(nemesis=("kill", "pause")).acts if a.id.startswith("kill")]
    other = [a for a in drawn(nemesis=("kill", "change-address")).acts if a.id.startswith("kill")]
    assert [(a.f, a.who) for a in both] == [(a.f, a.who) for a in other]


def test_heals_name_what_they_heal_and_wait_for_cuts_where_there_are_any() -> None:
    script = drawn()
    ids = {act.id for act in strikes(script)}
    heals = [act for act in script.acts if BUILT_IN.heals(act.f)]
    assert {act.who.of for act in heals} == ids
    assert {act.when.uncut for act in heals if act.f != "stop-partition"} == {True}
    assert {act.when.uncut for act in script.acts if act.f == "stop-partition"} == {False}
    assert not any(act.when.uncut for act in drawn(nemesis=("kill", "pause")).acts)


def test_a_pair_strikes_within_a_while_of_the_first() -> None:
    script = drawn(nemesis=("partition-then-kill",), time_limit_ns=600 * 10**9)
    after = []
    for name in dict.fromkeys(map(family, script.acts)):
        acts = {act.id: act for act in script.acts if family(act) == name}
        at = {name: 0.0}
        for act in [act for act in acts.values() if act.id != name]:
            at[act.id] = round(at[act.when.after] + act.when.at, 3)
        assert [acts[name].f] == ["start-partition"]
        after += [at[act.id] for act in acts.values() if act.f == "kill"]
    assert len(after) > 10
    assert all(0 <= at <= 25 for at in after)
    assert len({round(at) for at in after}) > 5


def test_no_round_reaches_into_a_lull() -> None:
    script = drawn(nemesis=("kill", "partition"), lull_ns=5 * 10**9, time_limit_ns=300 * 10**9)
    starts = [act.when.at for act in strikes(script) if not act.when.after]
    assert len(starts) > 5
    assert all(at % (BUSY_S + 5) + 5 <= BUSY_S for at in starts)
    assert {(load.busy, load.lull) for load in script.loads} == {(BUSY_S, 5.0)}


def test_no_fault_and_an_unknown_one() -> None:
    assert drawn(nemesis=("none",)).acts == ()
    with pytest.raises(ValueError, match="no fault 'murder'"):
        drawn(nemesis=("murder",))


@pytest.mark.parametrize("workload", [("queue",), ("lock", "offsets"), ("registration",)])
def test_clients_have_a_load_each_and_a_replay_is_set_up_the_same(
    workload: tuple[str, ...],
) -> None:
    script = drawn(workload=workload, nemesis=("power", "change-address"), rate=30.0)
    assert [load.workload for load in script.loads] == [
        *(["queue"] * 2 if "queue" in workload else []), *(w for w in workload if w != "queue"),
    ]  # fmt: skip
    assert sum(load.rate for load in script.loads if load.workload == "queue") in (0, 30)
    again = options_for(script)
    before = msgspec.structs.replace(
        OPTIONS, workload=workload, nemesis=("power", "change-address")
    )
    assert (again.topology, again.nemesis) == (before.topology, before.nemesis)
    ours, theirs = again.settings(), before.settings()
    assert (ours.by_name, ours.sync_flush) == (theirs.by_name, theirs.sync_flush) == (True, True)
