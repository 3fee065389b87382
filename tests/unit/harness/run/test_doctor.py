"""Trying environments: what is tried when, what a failure means, and where the trial is."""

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from maxq.harness.contracts.environment import Capability, EnvironmentUnavailable, Lack, MachineSpec
from maxq.harness.environments import choose
from maxq.harness.environments.choose import Facts
from maxq.harness.run import doctor
from maxq.harness.schedule.options import Options
from maxq.harness.targets.rocketmq.target import RocketMQTarget
from maxq.histories.fault_facts import REMOVE_BROKER, TRIM
from maxq.nemeses.catalogue import NO_FAULT, fault_names

OPTIONS = Options(environment="local", seed=1)
PLACE = doctor.Place()
NFT = Lack("nft is missing", package="nftables")


class Engine:
    """An environment whose `up` does as it is told; it knows what was done to it."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.done: list[str] = []
        self.found: dict[Capability, Lack] = {}

    def lacking(self) -> dict[Capability, Lack]:
        return self.found

    async def up(self, machines: list[MachineSpec]) -> None:
        self.done.append(f"up {len(machines)}")
        if self.failure is not None:
            raise self.failure

    async def down(self) -> None:
        self.done.append("down")


Tried = list[tuple[str, Path, str]]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Tried]:
    """A machine of these environments: name to how its trial ends; what is tried on it is told."""

    def make(lacking: dict[Capability, Lack] | None = None, **engines: Engine) -> Tried:
        tried: Tried = []

        def environment(options: Options, folder: Path, base: str, *_: object) -> Engine:
            assert folder.is_dir()
            tried.append((options.environment, folder, base))
            return engines[options.environment]

        def facts(name: str) -> Facts:
            could = frozenset(Capability)
            return Facts(
                environment=name, could=could, lacking=lacking or {}, machines_max=99, given="ok"
            )

        for name in ("docker", "local"):
            monkeypatch.setitem(doctor.FACTS, name, partial(facts, name))
        monkeypatch.setattr(doctor, "make_environment", environment)
        return tried

    return make


def choice(options: Options = OPTIONS, place: doctor.Place = PLACE) -> tuple[str, list[str]]:
    said: list[str] = []
    return doctor.choose(options, place, said.append), said


def test_what_comes_after_the_chosen_one_is_not_tried(world: Callable[..., Tried]) -> None:
    engine = Engine()
    tried = world(docker=engine, local=Engine())
    assert choice() == ("docker", ["environment: docker (chosen by auto: ok)"])
    assert [name for name, _, _ in tried] == ["docker"]
    assert engine.done == ["up 1", "down"]


def test_an_image_that_cannot_be_built_leads_to_the_next(world: Callable[..., Tried]) -> None:
    failure = EnvironmentUnavailable("docker: told to whoever named it", Lack("no base", mend="x"))
    engine = Engine(failure)
    world(docker=engine, local=Engine())
    assert choice() == (
        "local",
        ["docker: no base; x", "environment: local (chosen by auto: ok)"],
    )
    assert engine.done == ["up 1", "down"], "what is left of the trial is removed"


@pytest.mark.parametrize(
    "failure", [EnvironmentUnavailable("all of it"), OSError(28, "all of it")], ids=repr
)
def test_any_failure_of_a_trial_is_a_reason(
    failure: Exception, world: Callable[..., Tried]
) -> None:
    world(docker=Engine(failure), local=Engine())
    environment, said = choice()
    assert environment == "local"
    assert "all of it" in said[0]


def test_a_failure_of_ours_is_not_hidden(world: Callable[..., Tried]) -> None:
    world(docker=Engine(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        choice()


def test_nothing_is_tried_of_what_cannot_do_it_anyway(world: Callable[..., Tried]) -> None:
    tried = world({Capability.CUT: NFT})
    environment, said = choice()
    assert (environment, tried) == ("simulated", [])
    assert said == [
        "docker: nft is missing; apt-get install nftables",
        "local: nft is missing; apt-get install nftables",
        "environment: simulated (chosen by auto: virtual time in this process, needs nothing)",
    ]


def test_a_run_that_needs_no_cut_runs_where_none_can_be_made(
    world: Callable[..., Tried],
) -> None:
    world({Capability.CUT: NFT}, docker=Engine())
    assert choice(msgspec.structs.replace(OPTIONS, nemesis=("kill",)))[0] == "docker"


def test_the_trial_is_where_the_run_will_be_and_leaves_nothing(
    tmp_path: Path, world: Callable[..., Tried]
) -> None:
    tried = world(docker=Engine())
    place = doctor.Place(base_image="base:1", store=tmp_path / "not" / "there")
    choice(place=place)
    ((_, folder, base),) = tried
    assert (folder.parent, base) == (tmp_path, "base:1")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_trial_left_is_removed_by_the_next(
    tmp_path: Path, world: Callable[..., Tried]
) -> None:
    world(docker=Engine())
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, living, other = (
        tmp_path / f"{doctor.TRIAL}{ended.pid}-x", tmp_path / f"{doctor.TRIAL}{os.getpid()}-x",
        tmp_path / f"{doctor.TRIAL}of-the-user",
    )  # fmt: skip
    for folder in (dead, living, other):
        (folder / "deep").mkdir(parents=True)
    choice(place=doctor.Place(store=tmp_path))
    assert (dead.exists(), living.exists(), other.exists()) == (False, True, True)


def test_where_none_can_the_error_lists_what_is_missing_in_each(
    world: Callable[..., Tried], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_jars(_: RocketMQTarget) -> dict[str, str]:
        raise EnvironmentUnavailable("no jars", Lack("no mvn", package="maven"))

    tried = world(docker=Engine(), local=Engine())
    monkeypatch.setattr(RocketMQTarget, "prepare", no_jars)
    with pytest.raises(EnvironmentUnavailable) as caught:
        choice(msgspec.structs.replace(OPTIONS, target="rocketmq:5.5.0"))
    assert str(caught.value).splitlines() == [
        "environment: none can do what is asked",
        "docker: no mvn; apt-get install maven",
        "local: no mvn; apt-get install maven",
        "simulated: it runs reference nodes only, not rocketmq:5.5.0",
    ]
    assert tried == [], "no image is built for what cannot run in it"


def test_doctor_tries_all_and_says_the_same(world: Callable[..., Tried]) -> None:
    failure = EnvironmentUnavailable("", Lack("no base", mend="x"))
    tried = world(docker=Engine(failure), local=Engine())
    told = doctor.diagnosis(OPTIONS, PLACE, lambda _: None)
    _, said = choice()
    assert told[0] == f"no  {said[0]}"
    assert told[1].startswith("yes local: ok; can ")
    assert told[2].startswith("yes simulated: ")
    assert told[3] == said[-1]
    assert [name for name, _, _ in tried[:2]] == ["docker", "local"]


def test_what_faults_need_is_asked_for() -> None:
    def needs(*nemesis: str) -> set[Capability]:
        return set(doctor.asked_of(msgspec.structs.replace(OPTIONS, nemesis=nemesis)).needs)

    kill = {Capability.KILL, Capability.RESTART}
    assert needs(NO_FAULT) == set()
    assert needs("kill") == kill
    assert needs("partition-then-kill") == {Capability.CUT, *kill}
    assert needs("pause", "change-address") == {Capability.PAUSE, Capability.CHANGE_ADDRESS}
    bare = (NO_FAULT, TRIM, REMOVE_BROKER)
    assert all(needs(name) for name in fault_names() if name not in bare)
    asked = doctor.asked_of(msgspec.structs.replace(OPTIONS, workload=("queue",)), lasting=True)
    assert (asked.machines, asked.target, asked.lasting) == (7, "reference", True)


def test_every_environment_is_known_in_the_order_of_preference() -> None:
    assert tuple(doctor.FACTS) == choose.ORDER == ("docker", "local", "simulated")


def test_what_takes_the_place_of_a_fault_is_said_and_recorded(world: Callable[..., Tried]) -> None:
    world({Capability.DELAY: Lack("one kernel")}, local=Engine())
    said: list[str] = []
    asked = msgspec.structs.replace(OPTIONS, nemesis=("delay", "kill", "loss"))
    options = doctor.with_stand_ins(asked, PLACE, said.append)
    assert said == ["local cannot do delay: loss strikes in place of delay (one kernel)"]
    assert (options.nemesis, options.stand_ins) == (("loss", "kill"), {"delay": "loss"})


@pytest.mark.parametrize("nemesis", [("kill",), ("none",), ("clock",), ("loss", "power")])
def test_nothing_is_said_of_what_needs_no_stand_in_or_has_none(
    world: Callable[..., Tried], nemesis: tuple[str, ...]
) -> None:
    world({Capability.CLOCK: Lack("one clock")}, local=Engine())
    said: list[str] = []
    asked = msgspec.structs.replace(OPTIONS, nemesis=nemesis)
    assert (doctor.with_stand_ins(asked, PLACE, said.append), said) == (asked, [])


def test_what_only_containers_can_say_is_asked_of_one(world: Callable[..., Tried]) -> None:
    """Whether a kernel can lose packets at random: where it cannot, a cut takes the place."""
    engine, said = Engine(), list[str]()
    tried = world(docker=engine)
    asked = msgspec.structs.replace(OPTIONS, environment="docker", nemesis=("loss",))
    assert doctor.with_stand_ins(asked, PLACE, said.append) == asked
    engine.found = {Capability.LOSS: Lack("no packets can be lost at random")}
    options = doctor.with_stand_ins(asked, PLACE, said.append)
    assert (options.nemesis, options.stand_ins) == (("partition",), {"loss": "partition"})
    assert said == ["docker cannot do packet-loss: partition strikes in place of loss"]
    assert engine.done == ["up 1", "down"] * 2
    assert {name for name, *_ in tried} == {"docker"}
