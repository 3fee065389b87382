"""What this machine can host, found out by trying; and where a run goes that names no environment.

A trial of docker or local is what a run begins with: the target's files are had, an image is built
where there is none, and one machine is made and removed again. So what cannot be had, built or made
is known before the run, which then takes the next environment (`maxq.harness.environments.choose`).
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from maxq.harness.contracts.environment import (
    Capability,
    Environment,
    EnvironmentUnavailable,
    Lack,
    MachineSpec,
)
from maxq.harness.contracts.target import plan
from maxq.harness.contracts.terminal import echo
from maxq.harness.environments import docker, local
from maxq.harness.environments.choose import (
    DOCKER,
    LOCAL,
    ORDER,
    SIMULATED,
    Asked,
    Decision,
    Facts,
    decide,
    preferred,
)
from maxq.harness.environments.engine.client import EngineFailed, connect
from maxq.harness.environments.engine.image import quiet
from maxq.harness.run.execute import capabilities_of, make_environment, make_target
from maxq.harness.schedule.options import Options
from maxq.harness.targets.rocketmq.releases import REFERENCE
from maxq.nemeses.catalogue import NO_FAULT, needs_of
from maxq.nemeses.feasibility import replaceable, stand_ins

TRIAL = ".maxq-trial-"

Say = Callable[[str], None]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial needs to know beside the options: the image that docker builds on, empty for the
    default, and where run folders go, which containers must see."""

    base_image: str = ""
    store: Path = Path()


def aloud(text: str) -> None:
    """Say it on standard error, as it is now."""
    echo(text, err=True)


def choose(options: Options, place: Place, say: Say, *, lasting: bool = False) -> str:
    """The environment that these options run in, whatever they name; what was decided is said.

    Args:
        options: as of a real environment.
        place: what else its trial needs.
        say: called with what takes long, and a line for each environment down to the chosen one.
        lasting: the cluster is to stay up without a run.

    Raises:
        EnvironmentUnavailable: none can; says what is missing in each.
    """
    tried: list[Decision] = []
    for decision in examine(options, place, say, lasting=lasting):
        tried.append(decision)
        if decision.works:
            break
    choice = preferred(tried)
    if not choice.environment:
        raise EnvironmentUnavailable("\n".join([*choice.lines[-1:], *choice.lines[:-1]]))
    for line in choice.lines:
        say(line)
    return choice.environment


def with_stand_ins(options: Options, place: Place, say: Say) -> Options:
    """The options, with faults that their environment cannot do replaced by those that take their
    place (`maxq.nemeses.kind.Kind.stand_in`). Each is said, and recorded in the options."""
    if not replaceable(options.nemesis):
        return options  # it does not matter what the environment can do
    could, absent = _able(options.environment)
    can = could - absent.keys()
    if options.environment == DOCKER and Capability.LOSS in needs_of(options.nemesis) & can:
        _, lacking = _trial(msgspec.structs.replace(options, nemesis=(NO_FAULT,)), place, say)
        can -= lacking.keys()  # which only containers can say
    instead = stand_ins(options.nemesis, can)
    for asked, done in instead.items():
        missing = sorted(needs_of([asked]) - can, key=lambda capability: capability.value)
        lacks = ", ".join(capability.value for capability in missing)
        why = "; ".join(dict.fromkeys(str(absent[c]) for c in missing if c in absent))
        say(f"{options.environment} cannot do {lacks}: {done} strikes in place of {asked}"
            + (f" ({why})" if why else ""))  # fmt: skip
    return msgspec.structs.replace(
        options,
        nemesis=tuple(dict.fromkeys(instead.get(name, name) for name in options.nemesis)),
        stand_ins=instead,
    )


def _able(environment: str) -> tuple[frozenset[Capability], Mapping[Capability, Lack]]:
    """What an environment could do, and what is missing of that here, without a trial."""
    if environment not in FACTS:
        return capabilities_of(environment), {}  # it is a plug-in's
    facts = FACTS[environment]()
    return facts.could, facts.lacking


def diagnosis(options: Options, place: Place, say: Say) -> list[str]:
    """What every environment can do of what the options ask, and which one `auto` takes."""
    decisions = list(examine(options, place, say))
    lines = [f"{'yes' if d.works else 'no ':3} {d.line}" for d in decisions]
    return [*lines, preferred(decisions).lines[-1]]


def examine(
    options: Options, place: Place, say: Say = quiet, *, lasting: bool = False
) -> Iterator[Decision]:
    """Try the environments from the best on, each when its decision is asked for."""
    asked = asked_of(options, lasting=lasting)
    for name in ORDER:
        facts = FACTS[name]()
        decision = decide(asked, facts)
        if decision.works and name != SIMULATED:  # else a trial can change nothing
            lacks, found = _trial(msgspec.structs.replace(options, environment=name), place, say)
            lacking = {**facts.lacking, **found}
            decision = decide(asked, msgspec.structs.replace(facts, lacks=lacks, lacking=lacking))
        yield decision


def asked_of(options: Options, *, lasting: bool = False) -> Asked:
    """What options ask of an environment."""
    return Asked(
        needs=needs_of(options.nemesis),
        machines=len({node.process for node in plan(options.topology)}),
        target=options.running,
        lasting=lasting,
    )


def _docker() -> Facts:
    lacks: tuple[Lack, ...] = ()
    given = "no engine"
    try:
        engine = connect()
        given = f"engine {engine.version} answers"
        engine.close()
    except EnvironmentUnavailable as error:
        lacks = error.lacks
    except EngineFailed as error:
        lacks = (Lack(str(error)),)
    return Facts(
        environment=DOCKER,
        could=docker.COULD,
        lacking=docker.lacking(),
        lacks=lacks,
        machines_max=docker.MACHINES_MAX,
        given=given,
    )


def _local() -> Facts:
    absent, lacking = local.absent(), local.lacking()
    if absent:  # the rest failed for want of these, and says nothing
        lacking = {c: lack for c, lack in lacking.items() if lack.package}
    return Facts(
        environment=LOCAL,
        could=local.COULD,
        lacking=lacking,
        lacks=tuple(absent or local.no_network()),
        machines_max=local.MACHINES_MAX,
        given="network namespaces of this machine",
    )


def _simulated() -> Facts:
    from maxq.harness.environments.simulated import MACHINES_MAX, SimulatedEnvironment

    return Facts(
        environment=SIMULATED,
        could=SimulatedEnvironment.capabilities,
        machines_max=MACHINES_MAX,
        only=REFERENCE,
        lasting=False,
        given="virtual time in this process, needs nothing",
    )


FACTS: dict[str, Callable[[], Facts]] = {DOCKER: _docker, LOCAL: _local, SIMULATED: _simulated}


def _trial(
    options: Options, place: Place, say: Say
) -> tuple[tuple[Lack, ...], Mapping[Capability, Lack]]:
    """Begin as a run in this environment would; what it lacks for that, and what it cannot do."""
    try:
        target = make_target(options)
        target.prepare()
        beside = _beside(place.store)
        _sweep(beside)
        prefix = f"{TRIAL}{os.getpid()}-"
        with tempfile.TemporaryDirectory(prefix=prefix, dir=beside) as folder:
            environment = make_environment(options, Path(folder), place.base_image, say, target)
            asyncio.run(_made_once(environment, [MachineSpec(name="trial")]))
            return (), environment.lacking()
    except EnvironmentUnavailable as error:
        return error.lacks, {}
    except OSError as error:
        return (Lack(str(error)),), {}


async def _made_once(environment: Environment, machines: Sequence[MachineSpec]) -> None:
    try:
        await environment.up(machines)
    finally:
        await environment.down()


def _sweep(folder: Path) -> None:
    """Remove what trials left whose process was killed; each folder names its process."""
    for left in folder.glob(f"{TRIAL}*-*"):
        pid = left.name.removeprefix(TRIAL).partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)


def _beside(store: Path) -> Path:
    """A store, or the nearest folder above it that is there: what containers see of one they see of
    the other."""
    folder = store.absolute()
    while not folder.is_dir():
        folder = folder.parent
    return folder
