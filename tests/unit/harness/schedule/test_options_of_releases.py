"""Options of a run whose nodes are of several releases, and what follows for its verdict."""

import msgspec
import pytest

from maxq.harness.cli.given.asked import asked_from
from maxq.harness.run.judging import absent
from maxq.harness.run.replay import options_for
from maxq.harness.sampling.rounds import schedule_of
from maxq.harness.schedule.format import Act, Header, Schedule, ScheduleError
from maxq.harness.schedule.options import Options

PLAIN = {
    "environment": "local", "seed": 1, "nemesis": ("none",), "workload": ("queue",),
    "profile": "P-SAFE", "replicas": 3, "target": "reference", "mutant": "", "time_limit": 60,
    "concurrency": 10,
}  # fmt: skip


def made(**releases: str) -> Options:
    own = {name.replace("_", "-"): of for name, of in releases.items()}
    return Options(environment="local", seed=1, workload=("queue",), releases=own)


def test_a_node_comes_before_its_component_and_that_before_the_target() -> None:
    found = made(broker="rocketmq:5.1.1", b0_1="rocketmq:5.5.0").node_releases
    assert found == {
        "n0": "reference", "c0": "reference", "c1": "reference", "c2": "reference",
        "b0-0": "rocketmq:5.1.1", "b0-1": "rocketmq:5.5.0", "b0-2": "rocketmq:5.1.1",
    }  # fmt: skip


def test_what_runs_is_said_and_its_command_repeats_it() -> None:
    options = made(broker="rocketmq:5.1.1", c0="rocketmq:5.1.0")
    assert options.running == "reference, broker 5.1.1, c0 5.1.0"
    assert "--release broker=5.1.1,c0=5.1.0" in options.command()
    assert options.context().target == options.running
    assert made(broker="reference").running == "reference", "which is what all are"
    assert "--release" not in made().command()


def test_claims_that_one_of_the_releases_cannot_show_are_not_judged() -> None:
    assert "S1" in absent(made(b0_1="rocketmq:5.1.0")), "it has no ids"
    assert not made(c0="rocketmq:5.1.0").elects
    assert absent(made(n0="rocketmq:5.1.1")) == ["S9b", "S10b", "L3", "L4", "L6"]
    assert absent(made()) == ["L3", "L4"], "brokers are in strict mode"
    assert made(b0_0="rocketmq:5.0.0").context().shrink_ns == 20_000_000_000


def test_a_schedules_acts_say_what_nodes_become() -> None:
    act = Act(id="a", f="replace-release", args={"release": "5.1.0"})
    options = options_for(Schedule(header=Header(), acts=(act,)), "local")
    assert options.later == ("rocketmq:5.1.0",)
    assert options.lacks_ids
    with pytest.raises(ScheduleError, match="simulator is for our reference"):
        options_for(Schedule(header=Header(), acts=(act,)), "simulated")
    strange = msgspec.structs.replace(act, args={"release": "5.1.9"})
    with pytest.raises(ScheduleError, match=r"a: no release 5\.1\.9, did you mean"):
        options_for(Schedule(header=Header(), acts=(strange,)), "local")
    header = Header(options={"releases": {"b9-9": "reference"}})
    with pytest.raises(ScheduleError, match="no component or node 'b9-9'"):
        options_for(Schedule(header=header), "local")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"releases": (("b0-7", "rocketmq:5.1.1"),)}, "no component or node 'b0-7'"),
        ({"environment": "simulated", "releases": (("c0", "rocketmq:5.1.1"),)}, "the simulator"),
        ({"mutant": "some", "releases": (("c0", "rocketmq:5.1.1"),)}, "seeded bugs"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_tried(
    more: dict[str, object], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        asked_from({**PLAIN, **more})


def test_a_drawn_replacement_is_one_of_the_runs_releases() -> None:
    given = {"nemesis": ("replace-release",), "releases": (("b0-1", "rocketmq:5.5.0"),)}
    options = asked_from({**PLAIN, **given, "time_limit": 300_000_000_000})
    acts = schedule_of(options, 3).acts
    drawn = {act.args["release"] for act in acts if act.f == "replace-release"}
    assert drawn == {"reference", "rocketmq:5.5.0"}
