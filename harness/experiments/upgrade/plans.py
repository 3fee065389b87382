"""The upgrades that are tried: what is documented of each, and the schedule that tries it.

Five groups. *compatibility*: brokers of one release under controllers of another, from the start
or once the controllers were replaced and their data cleared, as the documentation of persistent
broker ids tells. *documented*: its whole upgrade, with the epoch files deleted, while clients write
and while they do not (``quiet``). *alone*: a master without controllers, which gets controllers and
empty slaves. *rolling*: neighbouring releases, up and down, one node after the other under load; of
these nobody says anything. *name servers*: masters and slaves without controllers under name
servers that know no acting masters and such that do, with `compatibleWithOldNameSrv` and without.
Sources: RocketMQ's docs, persistent_unique_broker_id (upgrade plan, compatibility); deploy (upgrade
considerations); RIP-32 (compatibility, migration).
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Literal

import msgspec

from maxq.harness.contracts.target import Profile, Topology, plan
from maxq.harness.schedule.format import READ, Act, Header, Load, Schedule, When, Who
from maxq.harness.targets.rocketmq.releases import MISSING, PREFIX, REFERENCE, lacks_ids, spelled
from maxq.histories.fault_facts import (
    KILL,
    PAUSE,
    READ_LOG,
    RELEASE,
    REMOVE_EPOCHS,
    REPLACE_RELEASE,
    RESTART,
)

Group = Literal["compatibility", "documented", "alone", "rolling", "name-servers"]
# What a cluster does: another master takes over when one dies, or none does; who restarts stays
# away; it never comes up; all that was acknowledged is there at the end, and it serves; a slave
# acts for its master until that is back, or none does.
Expected = Literal[
    "switches", "no switch", "stays away", "never up", "keeps all", "acts", "does not act", ""
]

OLD, NEW = "5.1.0", "5.1.1"  # the last release without persistent broker ids, the first with them
LATER = "5.5.0"  # the newest of which Maven Central has every component
BEFORE = "4.9.7"  # its name server knows no acting masters
COMPATIBLE = "broker:compatibleWithOldNameSrv"
TOPOLOGY = Topology(namesrvs=1, controllers=3, broker_sets=1, replicas=3)
PAIR = Topology(namesrvs=1, controllers=0, broker_sets=1, replicas=2)
PAIR_PROFILE: Profile = "P-SYNC"
AWAY_S = 25.0  # of a killed master: longer than any election
# Acts on a master: it is killed and started, then paused and resumed.
GONE, BACK, HELD, RELEASED = "kill", "back", "pause", "resume"
STEP_S = 5.0  # between two replacements
# Of the main part; a JVM of two busy cores may need half a minute to come up.
SHORT_S, WHOLE_S, LONG_S, ROLLING_S, PAIR_S = 40.0, 100.0, 120.0, 240.0, 110.0
# After which time a master is paused whose process has started anew, and for how long.
SILENT_AFTER_S, SILENT_S = 30.0, 15.0
RATE, READS = 30.0, 4.0
QUIET_S, RESUMED_S = 6.0, 75.0  # clients of a quiet upgrade write until then, and from then on
DOWN_S, QUIET_DOWN_S = 4.0, 10.0  # when the controllers are shut down


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """One upgrade: `controllers` and `brokers` are the releases in the beginning, `says` is what is
    documented (empty: nothing), in short `expected`; `replaced` is how many nodes become another
    release. Clients of a `quiet` one write before and after it. One that begins `alone` has no
    controllers at first. One with `namesrvs` never has any; that is the release of its name
    servers, which are of the controllers' otherwise."""

    name: str
    group: Group
    brokers: str
    controllers: str = ""
    namesrvs: str = ""
    keys: dict[str, str] = {}
    says: str = ""
    expected: Expected = ""
    replaced: int = 0
    length: float = SHORT_S
    quiet: bool = False
    alone: bool = False
    acts: tuple[Act, ...] = ()

    @property
    def reads_logs(self) -> bool:
        """Whether it says where logs ended before, so that it can be said what they have now."""
        return any(act.f == READ_LOG for act in self.acts)

    @property
    def pair(self) -> bool:
        """Whether its brokers are masters and slaves without controllers."""
        return not self.controllers

    @property
    def topology(self) -> Topology:
        return PAIR if self.pair else TOPOLOGY

    def profiles(self, asked: Iterable[Profile]) -> tuple[Profile, ...]:
        """Those under which it is run, of those that are asked for: brokers without controllers
        have profiles of their own."""
        return (PAIR_PROFILE,) if self.pair else tuple(asked)

    @property
    def releases(self) -> dict[str, str]:
        """As a run's options have them."""
        found = {"namesrv": spelled(self.namesrvs or self.controllers)}
        if not self.pair:
            found["controller"] = spelled(self.controllers)
        return {**found, "broker": spelled(self.brokers)}

    def schedule(self, profile: str) -> Schedule:
        """What is run, under a profile such as ``P-SAFE``."""
        options: dict[str, Any] = {
            "workload": ["queue"],
            "profile": profile,
            "releases": self.releases,
            "controllers": self.topology.controllers,
            "replicas": self.topology.replicas,
            **({"alone": True} if self.alone else {}),
            **({"keys": self.keys} if self.keys else {}),
        }
        header = Header(name=f"upgrade {self.name}", length=self.length, options=options)
        # A master of 5.5.0 whose slave was pulled from never comes back, whatever name servers are.
        reads = [] if self.pair else [Load(id="r", f=READ, until=self.length, rate=READS)]
        return Schedule(header=header, loads=(*self._writes(), *reads), acts=self.acts)

    def _writes(self) -> Iterator[Load]:
        if not self.quiet:
            yield Load(id="w", until=self.length, rate=RATE)
            return
        yield Load(id="w", until=QUIET_S, rate=RATE)
        yield Load(id="v", at=RESUMED_S, until=self.length, rate=RATE)


def upgrades() -> tuple[Upgrade, ...]:
    """All of them, in the order of the page."""
    return (*_compatibility(), *_documented(), *_alone(), *_rolling(), *_name_servers())


def _killed(after: str = "", at: float = 5.0) -> tuple[Act, ...]:
    """The master dies, and is started once there was time for an election."""
    return (
        Act(id=GONE, f=KILL, when=When(after=after, at=at), who=Who(part="master")),
        Act(id=BACK, f="start", when=When(after=GONE, at=AWAY_S), who=Who(of=GONE)),
    )


def _cleared(release: str, at: float = DOWN_S) -> tuple[Act, ...]:
    """All controllers are shut down, their data cleared, and those of another release started."""
    all_of = Who(nodes=_named("c"))
    return (
        Act(id="down", f="stop", when=When(at=at), who=all_of),
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
    for before, after in ((OLD, NEW), (OLD, REFERENCE), (REFERENCE, REFERENCE), (REFERENCE, LATER)):
        for quiet in (False, True):
            yield Upgrade(
                name=f"documented-{before}-to-{after}{'-quiet' if quiet else ''}",
                group="documented",
                controllers=before,
                brokers=before,
                says="the old master is elected, and all have what they had",
                expected="keeps all",
                replaced=TOPOLOGY.controllers + TOPOLOGY.replicas,
                length=WHOLE_S,
                quiet=quiet,
                acts=(
                    *_cleared(after, QUIET_DOWN_S if quiet else DOWN_S),
                    *_without_epochs(before, after),
                ),
            )


def _without_epochs(before: str, after: str) -> Iterator[Act]:
    slaves = Who(part="slave", count=-1)
    yield Act(id="slaves", f="stop", when=When(after="new", at=5), who=slaves)
    yield Act(id="master", f="stop", when=When(after="slaves"), who=Who(part="master"))
    brokers = Who(nodes=_named("b"))
    yield Act(id="logs", f=READ_LOG, when=When(after="master"), who=brokers)
    # New controllers know no ids, and refuse brokers that have some.
    known = {} if lacks_ids(spelled(before)) else {"identity": True}
    yield Act(id="epochs", f=REMOVE_EPOCHS, when=When(after="logs"), who=brokers, args=known)
    yield from _master_first(after, "epochs", Who(of="master"), Who(of="slaves"))


def _master_first(release: str, before: str, master: Who, slaves: Who) -> Iterator[Act]:
    args = {RELEASE: release}
    yield Act(id="first", f="start", when=When(after=before), who=master, args=args)
    rest = When(after="first", at=12)  # by then it is elected
    yield Act(id="rest", f="start", when=rest, who=slaves, args=args)


def _alone() -> Iterator[Upgrade]:
    pairs = ((REFERENCE, REFERENCE), (OLD, REFERENCE), (REFERENCE, LATER), (LATER, LATER))
    for before, after in pairs:
        yield Upgrade(
            name=f"alone-{before}-to-{after}",
            group="alone",
            controllers=before,
            brokers=before,
            says="in place, with its data, the master first",
            expected="keeps all",
            replaced=TOPOLOGY.controllers + TOPOLOGY.replicas,
            length=WHOLE_S,
            alone=True,
            acts=tuple(_gets_controllers(after)),
        )


def _gets_controllers(release: str) -> Iterator[Act]:
    founder, *others = _named("b")
    controllers = Who(nodes=_named("c"))
    args = {RELEASE: release}
    yield Act(id="off", f="stop", when=When(at=AWAY_S), who=Who(nodes=(founder,)))
    yield Act(id="logs", f=READ_LOG, when=When(after="off"), who=Who(nodes=(founder,)))
    yield Act(id="new", f="start", when=When(after="logs"), who=controllers, args=args)
    yield from _master_first(release, "new", Who(of="off"), Who(nodes=tuple(others)))


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


def _name_servers() -> Iterator[Upgrade]:
    for namesrvs in (BEFORE, LATER, REFERENCE):
        for brokers in (REFERENCE, LATER):
            for compatible in (True, False):
                says, expected = _documented_under(namesrvs == BEFORE, compatible)
                yield Upgrade(
                    name=f"{brokers}-pair-under-{namesrvs}{'-compatible' if compatible else ''}",
                    group="name-servers",
                    namesrvs=namesrvs,
                    brokers=brokers,
                    says=says,
                    expected=expected,
                    length=PAIR_S,
                    keys={COMPATIBLE: str(compatible).lower()},
                    acts=(*_killed(at=8), *_silent()),
                )


def _documented_under(old: bool, compatible: bool) -> tuple[str, Expected]:
    """What RIP-32 says of brokers that let slaves act for their masters."""
    if old and compatible:
        return "works: old requests stand in for the new ones", "acts"
    if old:
        return "does not: the new requests are unknown to the name server", "does not act"
    if compatible:
        return "works: brokers may be upgraded before their name servers", "acts"
    return "works", "acts"


def _silent() -> tuple[Act, ...]:
    """The master is paused, so that its connections stay."""
    who = Who(nodes=("b0-0",))
    return (
        Act(id=HELD, f=PAUSE, when=When(after=BACK, at=SILENT_AFTER_S), who=who),
        Act(id=RELEASED, f="resume", when=When(after=HELD, at=SILENT_S), who=Who(of=HELD)),
    )
