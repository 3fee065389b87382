"""What there is to know of each kind of fault, for whoever reads a history: one table.

A row says which act of the nemesis strikes, which acts heal it, and what it does to a node
meanwhile. Readers (checkers, reports, schedules of past runs) ask the table and name no acts of
their own. How a fault is performed is no business of theirs, nor of this module.

Whom an act concerns is in the history: its completion maps each node to what was done there, with
the proof. A fault lasts on each of its nodes until a heal of its kind that names the node, or names
none, is complete. A kind that `passes` is over with its own completion. A kind that neither passes
nor has heals leaves its nodes in a state of which nobody can say when it is over.

A run whose faults are not all built in declares the facts of the others with its grounds, in the
first operation of its history (``histories.grounds``); `Kinds` is the built-in table with those
added. So the history is judged and drawn alike by whoever does not have the code of the fault. An
act of which neither tells anything is *unknown*: what depends on undisturbed time is not judged.

Names of other harnesses: `start`, `resume`, `reset-clock` and the acts of Jepsen's packages
(`start-partition`, `bump-clock`, `check-clock-offsets`) mean here what they mean there. Whether an
unknown act strikes or heals is taken from its name (`_HEALS`), which decides how it is paired and
drawn, and nothing else.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec

# Acts that readers mean one by one.
KILL, RESTART, PAUSE, WIPE = "kill", "restart", "pause", "wipe"
POWER_LOSS, CHANGE_IP = "power-loss", "change-ip"
INSPECT, AWAIT_RECOVERY, LAST_LOOK = "inspect", "await-recovery", "last-look"
ELECT_MASTER, CHANGE_LEADER = "elect-master", "change-controller-leader"

Effect = Literal[
    "down",  # the process is gone
    "held",  # the process is stopped and goes on later
    "cut",  # packets between pairs of nodes are dropped; the proof says from whom
    "moved",  # it has another address
    "disk",  # its disk is slow, frozen, full or wrong
    "slow",  # its packets take longer
    "degraded",  # it runs, and something else of it does not work
    "clock",  # its wall clock is wrong, by which nothing of a cluster goes
    "order",  # controllers were ordered to elect
    "none",  # nothing that a promise depends on
]
Kind = Literal["fault", "heal", "question"]

GONE: tuple[Effect, ...] = ("down", "held")  # says nothing, and everybody may notice that
DOUBTFUL: tuple[Effect, ...] = ("moved", "disk", "slow", "degraded")  # may work or not
HARMLESS: tuple[Effect, ...] = ("clock", "order", "none")

# For kinds without a colour of their own, and for unknown acts.
_STRANGE = ("#E9A0C8", "#C3E9A0", "#D8D8B0", "#B0D8D0", "#D0B0C0")
_COLOR = re.compile(r"#[0-9A-Fa-f]{6}")
# What heals, by its last word: start, resume, heal, stop-partition; but `start-…` begins a
# partition, or bad packets, in Jepsen's packages.
_HEALS = re.compile(r"(start|stop|resume|heal|reset|restore)(-.*)?")
_BEGINS = re.compile(r"start-.*")


class FaultFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What there is to know of a kind of fault.

    Args:
        strikes: the act that begins it.
        effect: what it does to each node that its completion names.
        heals: the acts that end it; none: any act that heals and names the node, as far as one
            must be found.
        passes: whether it is over with its own completion.
        question: whether it is no fault: it asks a sound cluster something, or orders something of
            it that any operator may.
        looks: whether its proof says how the cluster is, rather than that the act took place.
        closing: whether a run ends with such acts, so that what clients read between them is read
            after the last fault.
        loses_unsynced: whether disks lose what was not synced.
        may_end_by: arguments with which it may end its node, or not.
        strength: arguments that say how strong it is, not whom it strikes.
        color: of its band in reports (``#RRGGBB``): a light tint, since it lies over plots in both
            themes.
    """

    strikes: str
    effect: Effect
    heals: tuple[str, ...] = ()
    passes: bool = False
    question: bool = False
    looks: bool = False
    closing: bool = False
    loses_unsynced: bool = False
    may_end_by: tuple[str, ...] = ()
    strength: tuple[str, ...] = ()
    color: str = ""

    @property
    def harmless(self) -> bool:
        """Whether no node is worse for it."""
        return self.question or self.effect in HARMLESS

    @property
    def bounded(self) -> bool:
        """Whether it can be said when it is over."""
        return self.passes or bool(self.heals)

    @property
    def silences(self) -> bool:
        """Whether a node says nothing from its completion until a heal."""
        return self.effect in GONE and bool(self.heals)


def _question(f: str, *, looks: bool = False, closing: bool = False) -> FaultFacts:
    return FaultFacts(
        strikes=f, effect="none", passes=True, question=True, looks=looks, closing=closing
    )


BUILT_IN_FACTS: tuple[FaultFacts, ...] = (
    FaultFacts(strikes=KILL, effect="down", heals=("start",), color="#E9A4A0"),
    FaultFacts(strikes="terminate", effect="down", heals=("start",), color="#E8C39A"),
    FaultFacts(
        strikes=POWER_LOSS, effect="down", heals=("start",), loses_unsynced=True, color="#B7A6D9"
    ),
    FaultFacts(strikes=RESTART, effect="down", passes=True, color="#D9C79A"),
    # Whose store is gone is another node, whenever it comes back.
    FaultFacts(strikes=WIPE, effect="down"),
    FaultFacts(strikes=PAUSE, effect="held", heals=("resume",), color="#C5A0E9"),
    FaultFacts(
        strikes="start-partition",
        effect="cut",
        heals=("stop-partition",),
        strength=("reset",),
        color="#A0E9C9",
    ),
    FaultFacts(
        strikes=CHANGE_IP,
        effect="moved",
        heals=("restore-ip",),
        strength=("stays",),
        color="#A0C8E9",
    ),
    FaultFacts(
        strikes="start-disk-fault",
        effect="disk",
        heals=("stop-disk-fault",),
        may_end_by=("full", "frozen"),
        strength=("full", "frozen", "sync_ms"),
        color="#C9B8A8",
    ),
    FaultFacts(
        strikes="start-delay",
        effect="slow",
        heals=("stop-delay",),
        strength=("ms",),
        color="#A0E0E9",
    ),
    FaultFacts(
        strikes="bump-clock",
        effect="clock",
        heals=("reset-clock",),
        strength=("offset_ms", "drift_ppm"),
        color="#E9DCA0",
    ),
    FaultFacts(strikes="order-election", effect="order", passes=True),
    FaultFacts(strikes="apply-ids", effect="none", passes=True, strength=("count",)),
    _question(INSPECT),
    _question("check-clock-offsets"),
    _question(AWAIT_RECOVERY, looks=True),
    _question(ELECT_MASTER, closing=True),
    _question(CHANGE_LEADER, closing=True),
    _question(LAST_LOOK, looks=True, closing=True),
)


class Kinds(msgspec.Struct, frozen=True, dict=True):
    """A table of facts, to be asked by the names of acts. Of facts that name one act the last
    count."""

    facts: tuple[FaultFacts, ...]

    @cached_property
    def _by_strike(self) -> Mapping[str, FaultFacts]:
        return {facts.strikes: facts for facts in self.facts}

    @cached_property
    def _by_heal(self) -> Mapping[str, tuple[FaultFacts, ...]]:
        found: dict[str, tuple[FaultFacts, ...]] = {}
        for facts in self._by_strike.values():
            for heal in facts.heals:
                found[heal] = (*found.get(heal, ()), facts)
        return found

    @cached_property
    def starting(self) -> tuple[str, ...]:
        """The acts that start a node that is down."""
        return tuple(f for f, of in self._by_heal.items() if any(k.effect == "down" for k in of))

    def of(self, f: str) -> FaultFacts | None:
        """The kind that an act begins, or the question that it is; None: it heals, or is
        unknown."""
        return self._by_strike.get(f)

    def ended_by(self, f: str) -> tuple[FaultFacts, ...]:
        """The kinds that an act heals."""
        return self._by_heal.get(f, ())

    def knows(self, f: str) -> bool:
        """Whether anything is known of an act."""
        return f in self._by_strike or f in self._by_heal

    def heals(self, f: str) -> bool:
        """Whether an act heals; of an unknown one by its name."""
        if self.knows(f):
            return f not in self._by_strike
        return _HEALS.fullmatch(f) is not None and _BEGINS.fullmatch(f) is None

    def kind(self, f: str) -> Kind:
        """What an act is."""
        facts = self.of(f)
        if facts is not None and facts.question:
            return "question"
        return "heal" if self.heals(f) else "fault"

    def effect(self, f: str) -> Effect | None:
        """What an act does to a node; None: it heals, or is unknown."""
        facts = self.of(f)
        return None if facts is None else facts.effect

    def harmless(self, f: str) -> bool:
        """Whether no node is worse for an act, nor was for what it heals."""
        facts = self.of(f)
        if facts is not None:
            return facts.harmless
        return self.knows(f) and all(healed.harmless for healed in self.ended_by(f))

    def concerns(self, f: str, effect: Effect) -> bool:
        """Whether an act has an effect, or heals it."""
        return self.effect(f) == effect or any(k.effect == effect for k in self.ended_by(f))

    def may_start(self, f: str) -> bool:
        """Whether an act may start a process: to be moved may be to start anew."""
        facts = self.of(f)
        if facts is not None and facts.effect == "down":
            return facts.passes
        return f in self.starting or self.concerns(f, "moved")

    def loses_unsynced(self, f: str) -> bool:
        """Whether an act takes from disks what was not synced."""
        facts = self.of(f)
        return facts is not None and facts.loses_unsynced

    def color(self, f: str) -> str:
        """The colour of an act's band; without one of its own always the same of a few."""
        facts = self.of(f)
        if facts is not None and _COLOR.fullmatch(facts.color):
            return facts.color
        return _STRANGE[sum(map(ord, f)) % len(_STRANGE)]

    def with_(self, declared: Iterable[FaultFacts]) -> "Kinds":
        """The table with more kinds; what a run declared of an act counts more than what a later
        version has built in."""
        more = tuple(declared)
        return Kinds((*self.facts, *more)) if more else self


BUILT_IN = Kinds(BUILT_IN_FACTS)


def complaint(facts: FaultFacts) -> str:
    """Why nobody may declare these facts; empty where one may."""
    if facts.effect not in get_args(Effect):
        return f"no effect {facts.effect!r}; there are: {', '.join(get_args(Effect))}"
    if BUILT_IN.knows(facts.strikes):
        return f"{facts.strikes} is built in"
    if facts.strikes in facts.heals:
        return f"{facts.strikes} strikes and heals"
    if not facts.bounded and not facts.harmless:
        return f"nobody could say when {facts.strikes} is over: it needs heals, or passes"
    wrong = [heal for heal in facts.heals if BUILT_IN.of(heal) is not None]
    if wrong:
        return f"{wrong[0]} strikes, and cannot heal"
    if facts.color and not _COLOR.fullmatch(facts.color):
        return f"color {facts.color!r} is not #RRGGBB"
    return ""


def plain(facts: Sequence[FaultFacts]) -> list[dict[str, Any]]:
    """Facts as plain values of an operation."""
    return [msgspec.to_builtins(one) for one in facts]


def read(values: Any) -> tuple[FaultFacts, ...]:
    """Facts from an operation's value. What has another shape, as a later version may write it, is
    left out: its acts are unknown then, which every verdict says that depends on them."""
    found: list[FaultFacts] = []
    for value in values if isinstance(values, list | tuple) else ():
        try:
            found.append(msgspec.convert(value, FaultFacts))
        except msgspec.ValidationError:
            continue
    return tuple(found)
