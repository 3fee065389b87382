"""One fault of a random run: whom it strikes, when, for how long, and how it is healed.

`maxq.harness.sampling.draw` says how many there are, and of which kinds. Every draw is keyed by the
number of the fault and by what it is for. Times are drawn in milliseconds.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.keyed_draws import Keyed
from maxq.harness.contracts.target import Node
from maxq.harness.sampling.factors import Row
from maxq.harness.sampling.lone_faults import LONE, MISSED, MISSED_OF_PAIRS
from maxq.harness.schedule.format import EVERYBODY, Act, When, Who
from maxq.histories.fault_facts import KILL, REMOVE_EPOCHS, RESET_CONNECTIONS


class Pace(NamedTuple):
    """How close together faults are: how many of a hundred begin while the one before is in force,
    when what was before is over, or much later; how many strike the last victim once more, or all
    of a role."""

    overlap: int
    at_once: int
    rested: int
    again: int
    role: int = 0


SHORTEST_MS = 200
LEASE_MS = 10_000  # of a queue's lock, which is the longest time-out in `fast`
HOLDS = ("hold", "second part")  # what lasts where faults shall last: beyond the bound for recovery
LASTING_MS = (32_000, 60_000)
LASTING = {"mixed": 20, "lasting": 100}  # how many of a hundred do
REST_MS = (22_000, 40_000)  # without a fault: beyond the bound for recovery
# Apart, what a fault leads to is seen before the next; dense, a fault meets what is not over yet.
NESTED = "nested"
PACES = {
    "mixed": Pace(30, 15, 15, 0),
    "apart": Pace(0, 0, 75, 0),
    "dense": Pace(75, 45, 0, 35),
    NESTED: Pace(0, 10, 15, 30, 20),  # of the fault that others strike within
    LONE: Pace(0, 0, 100, 0),
}
INNER = Pace(50, 10, 0, 35, 15)  # of those others
DENSE_GAP_MS = 5_000
JUMP_MS = (100, 3_600_000)  # how far a clock is off
DRIFT_PPM = (1_000, 200_000)  # far beyond a quartz's: a minute must show what a month would
# What a slow disk or a slow way takes: at times longer than any call waits for its answer, so that
# what was done comes back as unknown.
SLOW_MS, SLOWER_MS = (20, 3_000), (3_000, 6_000)
SLOWER = 40  # of a hundred
EVENTS = ("new-epoch", "set-grew", "set-shrank", "set-whole", "healed")
EVENTS_OF_PAIRS = ("healed",)
AFTER_EVENT_MS = 5_000
PAIRS = "pairs"  # an aim: there are no controllers
RETURNS = "returns"  # another one, of pairs: masters that go and return (`returns`)
# Whom faults strike, by what a run's faults aim at.
VICTIMS = {
    "any": ("master", "master", "master", "slave", "sync-state-set-slave", "controller-leader",
            "controller", "namesrv"),
    "brokers": ("master", "master", "slave", "sync-state-set-slave", "broker"),
    # Without a new master now and then controllers have nothing to decide.
    "controllers": ("controller-leader", "controller-leader", "controller", "controller", "master"),
    PAIRS: ("master", "master", "master", "slave", "acting-master", "smallest-slave", "namesrv",
            "broker"),
}  # fmt: skip
VICTIMS[RETURNS] = VICTIMS[PAIRS]
COUNTS = (2, 2, EVERYBODY)  # of several
ELECTED = ("slave", "slave", "sync-state-set-slave", "master")  # by an operator's order
LINKS = (("master", "controllers"), ("master", "slave"), ("slave", "controllers"),
         ("brokers", "namesrvs"), ("master", "controller-leader"),
         ("controller-leader", "controllers"))  # fmt: skip
LINKS_OF_PAIRS = (("master", "slave"), ("brokers", "namesrvs"), ("master", "namesrvs"))
# Of connections that are reset: brokers that lost theirs must be listed again.
RESET = (("brokers", "namesrvs"), ("brokers", "namesrvs"))
RESETS_ONLY = 50  # of a hundred cuts by resets
BRIDGED = 25  # of a hundred cuts in two: one node hears both halves
UNLABELLED = ("master", "master", "slave", "sync-state-set-slave", "broker")
OVER_AT_ONCE = frozenset(("order", "clock"))  # kinds within which nothing can strike
# Who goes down together.
EXTENTS = ("everybody", "brokers", "controllers", "some", "some")
GAP_MS = (1, 2_000)  # between two that come back
STRAGGLERS = (0, 0, 1, 1, 2)  # who come back much later


class Fault:
    """One fault of a run and its heal.

    Args:
        draws: of the run.
        row: its factors.
        number: which fault it is.
        before: the id of the act that it may count from.
        nodes: whom faults may strike.
        within: it strikes while another one is in force.
    """

    def __init__(
        self,
        draws: Keyed,
        row: Row,
        number: int,
        before: str,
        nodes: Sequence[Node],
        *,
        within: bool = False,
    ) -> None:
        self._draws = draws
        self._row = row
        self._number = number
        self._before = before
        self._nodes = tuple(nodes)
        self._pace = INNER if within else PACES[row["pace"]]
        self._within = within
        self._soon = within or row["pace"] in ("dense", NESTED)

    @property
    def _pairs(self) -> bool:
        """Whether the cluster has no controllers."""
        return self._row["aim"] in (PAIRS, RETURNS)

    @property
    def _lone(self) -> bool:
        return self._row["pace"] == LONE

    @property
    def _links(self) -> tuple[tuple[str, str], ...]:
        return LINKS_OF_PAIRS if self._pairs else LINKS

    def _key(self, *what: int | str) -> tuple[int | str, ...]:
        return ("fault", self._number, *what)

    # When.

    def _duration(self, *what: int | str) -> int:
        """How long something lasts (ms)."""
        if self._lone and what[0] in ("down", *HOLDS):
            return self._draws.between(*LASTING_MS, *self._key("length", *what))
        longest = max(int(self._row["heartbeat"]), LEASE_MS)
        lasting = LASTING.get(self._row["durations"], 0) if what[0] in HOLDS else 0
        if self._draws.chance(lasting, *self._key("lasting", *what)):
            return self._draws.between(*LASTING_MS, *self._key("length", *what))
        long_share = {"short": 0, "long": 100}.get(self._row["durations"], 33)
        if self._draws.chance(long_share, *self._key("long", *what)):
            return self._draws.between(longest, 2 * longest, *self._key("length", *what))
        bound = longest // 4 if self._row["durations"] == "short" else 2 * longest
        return self._draws.log_uniform(SHORTEST_MS, bound, *self._key("length", *what))

    def _when(self) -> When:
        gap = self._gap()
        if not self._before:
            return When(at=gap / 1000)
        waits = self._row["trigger"] == "event" and not self._within
        if waits and self._draws.chance(60, *self._key("event")):
            events = EVENTS_OF_PAIRS if self._pairs else EVENTS
            after = self._draws.choice(events, *self._key("which event"))
            delay = self._draws.below(AFTER_EVENT_MS, *self._key("delay"))
            return When(after=after, at=delay / 1000)
        return When(after=self._before, at=gap / 1000)

    def _gap(self) -> int:
        """How long it waits (ms)."""
        how, pace = self._draws.below(100, *self._key("how soon")), self._pace
        if how < pace.at_once:
            return 0
        if how < pace.at_once + pace.rested:
            return self._draws.between(*REST_MS, *self._key("rest"))
        if self._soon:
            return self._draws.log_uniform(SHORTEST_MS, DENSE_GAP_MS, *self._key("gap"))
        return self._duration("gap")

    @property
    def overlapped(self) -> bool:
        """Whether the next one begins while this one may be in force."""
        return self._draws.chance(self._pace.overlap, "overlap", self._number)

    # Whom.

    def _who(self) -> Who:
        if self._lone:
            missed = MISSED_OF_PAIRS if self._pairs else MISSED
            return Who(part=self._draws.choice(missed, *self._key("missed")))
        how = self._row["victims"]
        if self._before and self._draws.chance(self._pace.again, *self._key("again")):
            return Who(part="last-victim")
        if how == "last" and self._before and self._draws.chance(60, *self._key("last")):
            last = ("last-victim", "last-rejoined")
            return Who(part=self._draws.choice(last, *self._key("which last")))
        part = self._draws.choice(VICTIMS[self._row["aim"]], *self._key("part"))
        if self._draws.chance(self._pace.role, *self._key("role of")):
            part = "controller" if part.startswith("controller") else "broker"
            return Who(part=part, count=EVERYBODY)
        if how == "several" and self._draws.chance(60, *self._key("several")):
            part = "controller" if part.startswith("controller") else "broker"
            count = self._draws.choice(COUNTS, *self._key("count"))
            return Who(part=part, count=count)
        return Who(part=part)

    # What.

    def of(self, kind: str) -> list[Act]:
        """A fault of a kind, with its heals."""
        match kind:
            case "crash":
                return self._crash()
            case "whole-stop":
                return self.stop(self._draws.choice(EXTENTS, *self._key("extent")))
            case "hang":
                strike = Act(id=self._id(), f="pause", when=self._when(), who=self._who())
                return [strike, *self._heals("resume")]
            case "cut" if self._resets_only:
                return [self._reset()]
            case "cut":
                return [self._cut(), *self._heals("stop-partition", whole=True)]
            case "order":
                who = Who(part=self._draws.choice(ELECTED, *self._key("elected")))
                return [Act(id=self._id(), f="order-election", when=self._when(), who=who)]
            case "clock":
                return [self._machine("bump-clock", self._clock()), *self._heals("reset-clock")]
            case "disk":
                return self._disk()
            case "epochs":
                return self._unlabelled()
            case "link-delay":
                args = {"ms": self._slowness()}
                return [self._machine("start-delay", args), *self._heals("stop-delay")]
        return self._move()

    def _id(self, *what: int | str) -> str:
        return ".".join((f"f{self._number}", *map(str, what)))

    def _crash(self) -> list[Act]:
        f = self._row["crash"]
        strike = Act(id=self._id(), f=f, when=self._when(), who=self._who())
        return [strike] if f == "restart" else [strike, *self._heals("start")]

    def _move(self) -> list[Act]:
        args = {"restart": True} if self._row["move"] == "restart" else {}
        strike = Act(
            id=self._id(), f="change-address", when=self._when(), who=self._who(), args=args
        )
        return [strike, *self._heals("restore-address", args=args)]

    def _machine(self, f: str, args: dict[str, Any]) -> Act:
        """A fault of machines."""
        return Act(id=self._id(), f=f, when=self._when(), who=self._who(), args=args)

    def _clock(self) -> dict[str, Any]:
        sign = self._draws.choice((-1, 1), *self._key("sign"))
        if self._row["clock"] == "jump":
            return {"offset_ms": sign * self._draws.log_uniform(*JUMP_MS, *self._key("jump"))}
        return {"drift_ppm": sign * self._draws.log_uniform(*DRIFT_PPM, *self._key("drift"))}

    def _disk(self) -> list[Act]:
        kind = self._row["disk"]
        args: dict[str, Any] = {kind: True}
        if kind == "slow":
            args = {"sync_ms": self._slowness()}
        acts = [self._machine("start-disk-fault", args), *self._heals("stop-disk-fault")]
        if kind != "slow":
            # Who has ended for want of a disk is started again, as by whoever watches over nodes.
            again = When(after=acts[-1].id, at=self._duration("down") / 1000)
            acts.append(Act(id=self._id("s"), f="start", when=again, who=Who(of=self._id())))
        return acts

    def _unlabelled(self) -> list[Act]:
        """Brokers come back without their epoch files, as in the upgrade to 5.1.1."""
        part = self._draws.choice(UNLABELLED, *self._key("unlabelled"))
        who = Who(part=part, count=EVERYBODY if part == "broker" else 1)
        strike = Act(id=self._id(), f=KILL, when=self._when(), who=who)
        soon = When(after=strike.id, at=GAP_MS[0] / 1000)
        gone = Act(id=self._id("e"), f=REMOVE_EPOCHS, when=soon, who=Who(of=strike.id))
        back = When(after=gone.id, at=self._duration("hold") / 1000)
        return [strike, gone, Act(id=self._id("h"), f="start", when=back, who=Who(of=strike.id))]

    def _slowness(self) -> int:
        slower = self._draws.chance(SLOWER, *self._key("slower"))
        return self._draws.log_uniform(*(SLOWER_MS if slower else SLOW_MS), *self._key("slow"))

    def _cut(self) -> Act:
        args: dict[str, Any] = {}
        shape, ways = self._row["cut-shape"], self._row["cut"]
        who = self._who()
        if shape == "link":
            near, far = self._draws.choice(self._links, *self._key("link"))
            who = Who(part="broker" if near == "brokers" else near)
            args["from"] = far
        elif shape == "role":
            # One node from all of a role.
            other = "brokers" if self._pairs else "controllers"
            roles = ("brokers", other, *(["namesrvs"] if who.part != "namesrv" else []))
            args["from"] = self._draws.choice(roles, *self._key("role"))
        elif shape == "split":
            some, others = self._halves()
            who, args["from"] = Who(nodes=some), others
        if ways != "both":
            args["ways"] = ways
        if self._row["cut-packets"] == "reset":
            args["reset"] = True
        if self._row["cut-clients"] != "both" and shape in ("isolate", "split"):
            args["clients"] = self._row["cut-clients"]
        return Act(id=self._id(), f="start-partition", when=self._when(), who=who, args=args)

    @property
    def _resets_only(self) -> bool:
        """Whether connections are reset in the place of a cut, and nothing is cut."""
        resets = self._row["cut-packets"] == "reset"
        return resets and self._draws.chance(RESETS_ONLY, *self._key("resets only"))

    def _reset(self) -> Act:
        near, far = self._draws.choice((*self._links, *RESET), *self._key("link"))
        who = Who(part="broker" if near == "brokers" else near)
        return Act(id=self._id(), f=RESET_CONNECTIONS, when=self._when(), who=who,
                   args={"from": far})  # fmt: skip

    def _heals(
        self, f: str, *, whole: bool = False, args: dict[str, Any] | None = None
    ) -> list[Act]:
        """The end of the fault, whole or in two parts, the rest sooner or later than the first."""
        of = self._id()
        after = When(after=of, at=self._duration("hold") / 1000)
        if whole or self._row["heal"] == "whole":
            return [Act(id=self._id("h"), f=f, when=after, who=Who(of=of), args=args or {})]
        first, rest = Who(of=of, share="first"), Who(of=of, share="rest")
        begin, end = self._draws.choice(((first, rest), (rest, first)), *self._key("shares"))
        half = Act(id=self._id("h1"), f=f, when=after, who=begin, args=args or {})
        then = When(after=half.id, at=self._duration("second part") / 1000)
        return [half, Act(id=self._id("h2"), f=f, when=then, who=end, args=args or {})]

    def _halves(self) -> tuple[tuple[str, ...], list[str]]:
        """The cluster in two parts, whatever its nodes are; now and then one hears both."""
        names = self._draws.shuffled([n.name for n in self._nodes], *self._key("halves"))
        size = self._draws.between(1, len(names) - 1, *self._key("half"))
        near, far = names[:size], names[size:]
        if len(far) > 1 and self._draws.chance(BRIDGED, *self._key("bridge")):
            far = far[1:]
        return tuple(near), far

    # Many at once.

    def stop(self, extent: str) -> list[Act]:
        """Some or all go down in one instant, and come back in another order, with gaps."""
        nodes = self._stopped(extent)
        strike = Act(id=self._id(), f=self._row["whole-stop"], when=self._when(),
                     who=Who(nodes=tuple(n.name for n in nodes)))  # fmt: skip
        acts, after, wait = [strike], strike.id, self._duration("down")
        order = self._order(nodes)
        late = len(order) - self._draws.choice(STRAGGLERS, *self._key("stragglers"))
        for place, node in enumerate(order):
            if place and place >= late:
                wait = self._duration("second part", node)
            acts.append(Act(id=self._id(node), f="start", when=When(after=after, at=wait / 1000),
                            who=Who(nodes=(node,))))  # fmt: skip
            after = acts[-1].id
            wait = self._draws.log_uniform(*GAP_MS, *self._key("gap", node))
        return acts

    def _stopped(self, extent: str) -> list[Node]:
        roles = {"brokers": Role.BROKER, "controllers": Role.CONTROLLER}
        match extent:
            case "everybody":
                return [*self._nodes]
            case "some":
                some = [n for n in self._nodes
                        if self._draws.chance(50, *self._key("some", n.name))]  # fmt: skip
                return some or [*self._nodes]
        return [n for n in self._nodes if roles[extent] in n.roles] or [*self._nodes]

    def _order(self, nodes: Sequence[Node]) -> list[str]:
        """In which they come back: role after role, or anyhow."""
        names = self._draws.shuffled([n.name for n in nodes], *self._key("order"))
        if self._draws.chance(50, *self._key("anyhow")):
            return names
        roles = self._draws.shuffled([role.value for role in Role], *self._key("roles"))
        of = {n.name: n.role.value for n in nodes}
        return sorted(names, key=lambda name: roles.index(of[name]))
