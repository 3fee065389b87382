"""The facts of each kind of fault that a reader of histories needs: one table.

A row names the act of the nemesis that strikes, the acts that heal it, and its effect on a node in
between. Checkers, reports and schedules of past runs query the table and list no acts of their own.
How a fault is performed is not part of it.

The history itself says which nodes an act concerns: its completion maps each node to what was done
there, with the proof. A fault lasts on each of its nodes until the completion of a heal of its kind
that names the node, or names none. A kind that `passes` ends with its own completion. A kind
without either has no known end.

A run declares the facts of its faults that are not built in, beside its evidence, in the first
operation of its history (``maxq.histories.grounds``). `Kinds` is the built-in table plus those
rows, so a stored run is judged and drawn the same without the code of its faults. An act in neither
is *unknown*: claims that depend on undisturbed time are not judged.

Histories of other harnesses: the acts of Jepsen's packages (`kill`, `start-partition`,
`bump-clock`, `check-clock-offsets`) have the same names here; but `stop`, which heals in some of
Jepsen's tests, ends processes. An unknown act is classified as fault or heal by its name
(`_HEALS`), for pairing and drawing only.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec

from maxq.histories.aliases import renamed

# Acts that readers refer to by name.
KILL, RESTART, PAUSE, WIPE = "kill", "restart", "pause", "wipe"
COPY_STORE, CUT_FILE, FLIP_BIT = "copy-store", "cut-file", "flip-bit"
REPLACE_RELEASE, RELEASE = "replace-release", "release"  # the act, and its argument
CHANGE_SETTINGS, SETTINGS = "change-settings", "settings"
REMOVE_EPOCHS = "remove-epochs"
TRIM = "trim"
FILL_DISK, FREE_DISK = "fill-disk", "free-disk"  # the whole partition, to refused sends
RESET_CONNECTIONS = "reset-connections"
BUMP_CLOCK = "bump-clock"
WIPE_WRITE, ADD_WRITE = "wipe-write", "add-write"
REMOVE_BROKER, ADD_BROKER = "remove-broker", "add-broker"  # of a container that goes on
FAIL_STORE = "fail-store"  # of one of its brokers, which ends by itself
NOBODY = "nobody"  # in the place of a node, in the completion of an act that struck none
READ_LOG = "read-log"
POWER_LOSS, CHANGE_ADDRESS = "power-loss", "change-address"
INSPECT, AWAIT_RECOVERY, LAST_LOOK = "inspect", "await-recovery", "last-look"
TRIAL = "try-clients"  # recorded where a client was refused before the run, which then is over
KNOW_TOPICS = "know-topics"  # whether slaves have copied the topics of a run before it begins
ELECT_MASTER, CHANGE_LEADER = "elect-master", "change-controller-leader"

Effect = Literal[
    "down",  # the process has ended
    "held",  # the process is suspended
    "cut",  # packets between pairs of nodes are dropped; the proof names the sources
    "address",  # the node has another address
    "disk",  # the disk is slow, frozen, full or faulty
    "slow",  # packets of the node are delayed, or lost and sent again
    "degraded",  # the node runs and is impaired in another way
    "clock",  # the wall clock is wrong; a cluster of ours depends on none (`felt`)
    "order",  # controllers were ordered to elect
    "none",  # no claim depends on it
]
Kind = Literal["fault", "heal", "question"]

GONE: tuple[Effect, ...] = ("down", "held")  # the node is silent, and others can notice
DOUBTFUL: tuple[Effect, ...] = ("address", "disk", "slow", "degraded")  # it may or may not work
HARMLESS: tuple[Effect, ...] = ("clock", "order", "none")

# For kinds without a colour of their own, and for unknown acts.
_STRANGE = ("#E9A0C8", "#C3E9A0", "#D8D8B0", "#B0D8D0", "#D0B0C0")
_COLOR = re.compile(r"#[0-9A-Fa-f]{6}")
# Heals by their first word: start, resume, heal, stop-partition. But `start-…` begins a partition,
# or bad packets, in Jepsen's packages.
_HEALS = re.compile(r"(start|stop|resume|heal|reset|restore)(-.*)?")
_BEGINS = re.compile(r"start-.*")

# Afterwards a store is not what its node has left there. Not so without its epoch files: a broker
# must make that good, so nothing is excused by it, and it ends with its own completion.
TAMPERS = frozenset((WIPE, COPY_STORE, CUT_FILE, FLIP_BIT))


class FaultFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts of one kind of fault.

    Args:
        strikes: the act that begins it.
        effect: on each node that its completion names.
        heals: the acts that end it. Without any, and unless it passes, acts are paired with the
            next heal that names the node.
        passes: whether it ends with its own completion.
        question: whether it is no fault but an observation, or an operator's ordinary command.
        looks: whether its proof describes the cluster, rather than the act.
        closing: whether it belongs to the end of a run: reads between such acts count as reads
            after the last fault.
        loses_unsynced: whether disks lose unsynced data.
        may_end_by: arguments with which it may end the node's process.
        felt: its effect is harmless, but not to these nodes: they may not work until a heal, such
            as RocketMQ's, which measure time by their wall clocks.
        strength: arguments that define how strong it is and between whom, not which nodes it
            strikes.
        color: of its band in reports (``#RRGGBB``): a light tint, since it lies over plots in both
            themes.
        short: what it is called where there is little room; by default as the act that strikes.
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
    felt: bool = False
    strength: tuple[str, ...] = ()
    color: str = ""
    short: str = ""

    @property
    def harmless(self) -> bool:
        """Whether it leaves every node sound."""
        return self.question or (self.effect in HARMLESS and not self.felt)

    @property
    def doubtful(self) -> bool:
        """Whether its nodes may or may not work."""
        return self.effect in DOUBTFUL or self.felt

    @property
    def bounded(self) -> bool:
        """Whether its end is known."""
        return self.passes or bool(self.heals)

    @property
    def silences(self) -> bool:
        """Whether a node is silent from its completion until a heal."""
        return self.effect in GONE and bool(self.heals)


def _question(f: str, *, looks: bool = False, closing: bool = False) -> FaultFacts:
    return FaultFacts(
        strikes=f, effect="none", passes=True, question=True, looks=looks, closing=closing
    )


BUILT_IN_FACTS: tuple[FaultFacts, ...] = (
    FaultFacts(strikes=KILL, effect="down", heals=("start",), color="#E9A4A0"),
    FaultFacts(strikes="stop", effect="down", heals=("start",), color="#E8C39A"),
    FaultFacts(
        strikes=POWER_LOSS,
        effect="down",
        heals=("start",),
        loses_unsynced=True,
        color="#B7A6D9",
        short="power loss",
    ),
    FaultFacts(strikes=RESTART, effect="down", passes=True, color="#D9C79A"),
    FaultFacts(
        strikes=REPLACE_RELEASE,
        effect="down",
        passes=True,
        strength=(RELEASE,),
        color="#A8C9A0",
    ),
    FaultFacts(strikes=CHANGE_SETTINGS, effect="down", passes=True, color="#A8BFC9"),
    # A container that starts has every broker of its file.
    FaultFacts(
        strikes=REMOVE_BROKER,
        effect="down",
        heals=(ADD_BROKER, "start"),
        color="#E4B7C4",
        short="removed",
    ),
    FaultFacts(
        strikes=FAIL_STORE,
        effect="down",
        heals=(ADD_BROKER, "start"),
        color="#D99FB1",
        short="store failed",
    ),
    # What they do to a store lasts; its node is down until it is started, and maybe afterwards.
    FaultFacts(strikes=WIPE, effect="down", heals=("start",)),
    FaultFacts(strikes=COPY_STORE, effect="down", heals=("start",), strength=("from",)),
    FaultFacts(strikes=CUT_FILE, effect="down", heals=("start",), strength=("path", "to", "at")),
    FaultFacts(strikes=FLIP_BIT, effect="down", heals=("start",), strength=("path", "bit", "at")),
    FaultFacts(strikes=REMOVE_EPOCHS, effect="degraded", passes=True, strength=("identity",)),
    # The files are old, and the broker works on: what it deletes then it may delete.
    FaultFacts(strikes=TRIM, effect="degraded", passes=True, color="#D6C3B4"),
    # Every connection of the time before is gone, and may be made anew at once.
    FaultFacts(
        strikes=RESET_CONNECTIONS,
        effect="degraded",
        passes=True,
        strength=("from",),
        color="#E9DFA0",
        short="resets",
    ),
    # Of each broker of a set; clients may find no way to it.
    FaultFacts(
        strikes=WIPE_WRITE,
        effect="degraded",
        heals=(ADD_WRITE,),
        strength=("from",),
        color="#D0C4E4",
        short="not writable",
    ),
    FaultFacts(strikes=PAUSE, effect="held", heals=("resume",), color="#C5A0E9"),
    FaultFacts(
        strikes="start-partition",
        effect="cut",
        heals=("stop-partition",),
        strength=("reset",),
        color="#A0E9C9",
        short="cut",
    ),
    FaultFacts(
        strikes=CHANGE_ADDRESS,
        effect="address",
        heals=("restore-address",),
        strength=("stays",),
        color="#A0C8E9",
        short="new address",
    ),
    FaultFacts(
        strikes="start-disk-fault",
        effect="disk",
        heals=("stop-disk-fault",),
        may_end_by=("full", "frozen", "misread"),
        strength=("full", "frozen", "sync_ms", "misread", "bit"),
        color="#C9B8A8",
        short="disk fault",
    ),
    FaultFacts(
        strikes=FILL_DISK,
        effect="disk",
        heals=(FREE_DISK,),
        color="#D9C8A0",
        short="disk filled",
    ),
    FaultFacts(
        strikes="start-delay",
        effect="slow",
        heals=("stop-delay",),
        strength=("ms", "jitter_ms", "kb_s", "ways", "ports", "from"),
        color="#A0E0E9",
        short="delay",
    ),
    FaultFacts(
        strikes="start-packet-loss",
        effect="slow",
        heals=("stop-packet-loss",),
        strength=("percent", "ways", "ports", "from"),
        color="#9FC7B8",
        short="packet loss",
    ),
    FaultFacts(
        strikes=BUMP_CLOCK,
        effect="clock",
        heals=("reset-clock",),
        strength=("offset_ms", "drift_ppm"),
        color="#E9DCA0",
        short="clock",
    ),
    FaultFacts(strikes="order-election", effect="order", passes=True),
    FaultFacts(strikes="apply-ids", effect="none", passes=True, strength=("count",)),
    _question(INSPECT),
    _question(TRIAL),
    _question(READ_LOG),
    _question("check-clock-offsets"),
    _question(AWAIT_RECOVERY, looks=True),
    _question(ELECT_MASTER, closing=True),
    _question(CHANGE_LEADER, closing=True),
    _question(LAST_LOOK, looks=True, closing=True),
    _question(KNOW_TOPICS, looks=True),
)


class Kinds(msgspec.Struct, frozen=True, dict=True):
    """A table of facts, queried by the names of acts. Of two rows for one act the last one
    counts."""

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
        """The acts that start the process of a node that is down."""
        down = (f for f, of in self._by_heal.items() if any(k.effect == "down" for k in of))
        return tuple(f for f in down if f != ADD_BROKER)

    def of(self, f: str) -> FaultFacts | None:
        """The kind that an act begins, or the question that it is; None: it heals, or is
        unknown."""
        return self._by_strike.get(f)

    def ended_by(self, f: str) -> tuple[FaultFacts, ...]:
        """The kinds that an act heals."""
        return self._by_heal.get(f, ())

    def knows(self, f: str) -> bool:
        """Whether an act is in the table."""
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
        """Whether an act leaves every node sound, and so did what it heals."""
        facts = self.of(f)
        if facts is not None:
            return facts.harmless
        return self.knows(f) and all(healed.harmless for healed in self.ended_by(f))

    def concerns(self, f: str, effect: Effect) -> bool:
        """Whether an act has an effect, or heals it."""
        return self.effect(f) == effect or any(k.effect == effect for k in self.ended_by(f))

    def may_start(self, f: str) -> bool:
        """Whether an act may start a node: a change of address may be a restart."""
        facts = self.of(f)
        if facts is not None and facts.effect == "down":
            return facts.passes
        return f in (*self.starting, ADD_BROKER) or self.concerns(f, "address")

    def loses_unsynced(self, f: str) -> bool:
        """Whether disks lose unsynced data by an act."""
        facts = self.of(f)
        return facts is not None and facts.loses_unsynced

    def color(self, f: str) -> str:
        """The colour of an act's band; without one of its own always the same of a few."""
        facts = self.of(f)
        if facts is not None and _COLOR.fullmatch(facts.color):
            return facts.color
        return _STRANGE[sum(map(ord, f)) % len(_STRANGE)]

    def with_(self, declared: Iterable[FaultFacts]) -> "Kinds":
        """The table with more rows. What a run declared overrides what a later version has built
        in."""
        more = tuple(declared)
        return Kinds((*self.facts, *more)) if more else self


BUILT_IN = Kinds(BUILT_IN_FACTS)


def complaint(facts: FaultFacts) -> str:
    """Why a run may not declare these facts; empty where it may."""
    if facts.effect not in get_args(Effect):
        return f"no effect {facts.effect!r}; there are: {', '.join(get_args(Effect))}"
    if BUILT_IN.knows(facts.strikes):
        return f"{facts.strikes} is built in"
    if facts.strikes in facts.heals:
        return f"{facts.strikes} strikes and heals"
    if not facts.bounded and not facts.harmless:
        return f"{facts.strikes} has no end: it needs heals, or passes"
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
    """Facts from an operation's value. Rows of another shape, as a later version may write, are
    left out; their acts are unknown then."""
    found: list[FaultFacts] = []
    for value in values if isinstance(values, list | tuple) else ():
        try:
            found.append(msgspec.convert(renamed(value), FaultFacts))
        except msgspec.ValidationError:
            continue
    return tuple(found)
