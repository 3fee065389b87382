"""The upgrades that are tried: what is documented of each, and the schedule that tries it.

Three groups. *compatibility*: brokers of one release under controllers of another, from the start
or once the controllers were replaced and their data cleared, as the documentation of persistent
broker ids tells. *documented*: its whole upgrade, with the epoch files deleted. *rolling*:
neighbouring releases, up and down, one node after the other under load; of these nobody says
anything. Sources: RocketMQ's docs, persistent_unique_broker_id (upgrade plan, compatibility).
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

import msgspec

from maxq.harness.contracts.target import Topology, plan
from maxq.harness.schedule.format import READ, Act, Header, Load, Schedule, When, Who
from maxq.harness.targets.rocketmq.releases import MISSING, PREFIX, REFERENCE, lacks_ids, spelled
from maxq.histories.fault_facts import KILL, RELEASE, REMOVE_EPOCHS, REPLACE_RELEASE, RESTART

Group = Literal["compatibility", "documented", "rolling"]
# What a cluster does: another master takes over when one dies, or none does; who restarts stays
# away; it never comes up; all that was acknowledged is there at the end, and it serves.
Expected = Literal["switches", "no switch", "stays away", "never up", "keeps all", ""]

OLD, NEW = "5.1.0", "5.1.1"  # the last release without persistent broker ids, the first with them
TOPOLOGY = Topology(namesrvs=1, controllers=3, broker_sets=1, replicas=3)
AWAY_S = 25.0  # of a killed master: longer than any election
STEP_S = 5.0  # between two replacements
SHORT_S, LONG_S, ROLLING_S = 40.0, 120.0, 240.0  # a JVM of two busy cores may need half a minute
RATE, READS = 30.0, 4.0


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """One upgrade: `controllers` and `brokers` are the releases in the beginning, `says` is what is
    documented (empty: nothing), in short `expected`; `replaced` is how many nodes become another
    release."""

    name: str
    group: Group
    controllers: str
    brokers: str
    says: str = ""
    expected: Expected = ""
    replaced: int = 0
    length: float = SHORT_S
    acts: tuple[Act, ...] = ()

    @property
    def releases(self) -> dict[str, str]:
        """As a run's options have them; name servers are of the controllers' release."""
        return {
            "namesrv": spelled(self.controllers),
            "controller": spelled(self.controllers),
            "broker": spelled(self.brokers),
        }

    def schedule(self, profile: str) -> Schedule:
        """What is run, under a profile such as ``P-SAFE``."""
        options: dict[str, Any] = {
            "workload": ["queue"],
            "profile": profile,
            "releases": self.releases,
            "controllers": TOPOLOGY.controllers,
            "replicas": TOPOLOGY.replicas,
        }
        header = Header(name=f"upgrade {self.name}", length=self.length, options=options)
        loads = (
            Load(id="w", until=self.length, rate=RATE),
            Load(id="r", f=READ, until=self.length, rate=READS),
        )
        return Schedule(header=header, loads=loads, acts=self.acts)


def upgrades() -> tuple[Upgrade, ...]:
    """All of them, in the order of the page."""
    return (*_compatibility(), *_documented(), *_rolling())


def _killed(after: str = "", at: float = 5.0) -> tuple[Act, ...]:
    """The master dies, and is started once there was time for an election."""
    return (
        Act(id="kill", f=KILL, when=When(after=after, at=at), who=Who(part="master")),
        Act(id="back", f="start", when=When(after="kill", at=AWAY_S), who=Who(of="kill")),
    )


def _cleared(release: str) -> tuple[Act, ...]:
    """All controllers are shut down, their data cleared, and those of another release started."""
    all_of = Who(nodes=_named("c"))
    return (
        Act(id="down", f="stop", when=When(at=4), who=all_of),
        Act(id="clear", f="wipe", when=When(after="down"), who=all_of),
        Act(id="new", f="start", when=When(after="clear"), who=all_of, args={RELEASE: release}),
    )


def _named(letter: str) -> tuple[str, ...]:
    return tuple(node.name for node in plan(TOPOLOGY) if node.name.startswith(letter))


def _compatibility() -> Iterator[Upgrade]:
    for controllers in (OLD, NEW, REFERENCE):
        for brokers in (OLD, NEW, REFERENCE):
            yield _from_the_start(controllers, brokers)
    for release in (NEW, REFERENCE):
        yield Upgrade(
            name=f"{OLD}-under-replaced-{release}",
            group="compatibility",
            controllers=OLD,
            brokers=OLD,
            says="goes on if master and slaves are settled, and does not switch",
            expected="no switch",
            replaced=TOPOLOGY.controllers,
            length=LONG_S,
            acts=(*_cleared(release), *_killed("new", 15.0)),
        )
        yield Upgrade(
            name=f"{OLD}-restarted-under-replaced-{release}",
            group="compatibility",
            controllers=OLD,
            brokers=OLD,
            says="a broker that restarts cannot be brought up",
            expected="stays away",
            replaced=TOPOLOGY.controllers,
            length=LONG_S,
            acts=(
                *_cleared(release),
                Act(id="again", f=RESTART, when=When(after="new", at=15), who=Who(part="master")),
            ),
        )


def _from_the_start(controllers: str, brokers: str) -> Upgrade:
    without = [lacks_ids(spelled(release)) for release in (controllers, brokers)]
    says, expected = _documented_of(*without)
    return Upgrade(
        name=f"{brokers}-under-{controllers}",
        group="compatibility",
        controllers=controllers,
        brokers=brokers,
        says=says,
        expected=expected,
        acts=_killed(),
    )


def _documented_of(controllers_lack: bool, brokers_lack: bool) -> tuple[str, Expected]:
    """What the table of compatibility says of releases that have persistent ids or lack them."""
    if controllers_lack == brokers_lack:
        return "works, and switches", "switches"
    if controllers_lack:
        return "cannot be brought up", "never up"
    return "a broker that starts cannot be brought up", "never up"


def _documented() -> Iterator[Upgrade]:
    for release in (NEW, REFERENCE):
        yield Upgrade(
            name=f"documented-{OLD}-to-{release}",
            group="documented",
            controllers=OLD,
            brokers=OLD,
            says="the old master is elected, and all have what they had",
            expected="keeps all",
            replaced=TOPOLOGY.controllers + TOPOLOGY.replicas,
            length=LONG_S,
            acts=(*_cleared(release), *_without_epochs(release)),
        )


def _without_epochs(release: str) -> Iterator[Act]:
    slaves = Who(part="slave", count=-1)
    yield Act(id="slaves", f="stop", when=When(after="new", at=5), who=slaves)
    yield Act(id="master", f="stop", when=When(after="slaves"), who=Who(part="master"))
    brokers = Who(nodes=_named("b"))
    yield Act(id="epochs", f=REMOVE_EPOCHS, when=When(after="master"), who=brokers)
    as_new = {RELEASE: release}
    yield Act(id="first", f="start", when=When(after="epochs"), who=Who(of="master"), args=as_new)
    rest = When(after="first", at=12)  # by then it is elected
    yield Act(id="rest", f="start", when=rest, who=Who(of="slaves"), args=as_new)


def _rolling() -> Iterator[Upgrade]:
    for older, newer in pairwise(MISSING):
        for before, after in ((older, newer), (newer, older)):
            yield Upgrade(
                name=f"rolling-{before}-to-{after}",
                group="rolling",
                controllers=before,
                brokers=before,
                replaced=len(_named("")),
                length=ROLLING_S,
                acts=tuple(_one_by_one(after)),
            )


def _one_by_one(release: str) -> Iterator[Act]:
    before = ""
    for node in _named(""):
        yield Act(
            id=f"to-{node}",
            f=REPLACE_RELEASE,
            when=When(after=before, at=STEP_S),
            who=Who(nodes=(node,)),
            args={RELEASE: release.removeprefix(PREFIX)},
        )
        before = f"to-{node}"
