"""What a random run may differ in, and which combinations of two values a campaign has met.

A factor is one choice with a few values. Bugs mostly need two values together, so a covering array
lists few runs in which every pair of values of any two factors is met; what is not in the array is
drawn at random. Source: Cohen, Dalal, Fredman, Patton, "The AETG system" (1997), its greedy way.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from itertools import combinations

import msgspec

from maxq.harness.contracts.environment import Capability
from maxq.harness.contracts.keyed_draws import Keyed
from maxq.harness.sampling.lone_faults import LONE, lone_values

# Values of a factor, the usual one first: it is drawn as often as all others together, but where
# faults' shapes and clients' ways are concerned, of which bugs need now one, now another.
FACTORS: dict[str, tuple[str, ...]] = {
    "profile": ("P-SAFE", "P-ALL", "P-NUM", "P-DEFAULT", "P-UNCLEAN"),
    "flush": ("sync", "async"),
    "heartbeat": ("3000", "1500", "6000"),
    "files": ("large", "small"),
    "topology": ("3c-3r", "3c-2r", "1c-3r", "3c-3r-2n", "3c-3r-2s", "3e-3r", "3c-5r"),
    # What a fail-over does to locks, to offsets, to delayed and to half messages shows only where
    # there are such. Registration wipes stores, after which offsets and deliveries are not judged.
    "workload": (
        "queue+lock+offsets+delayed",
        "queue+lock+ordered+delayed",
        "queue+lock+transactions+offsets",
        "queue+delayed+delayed-alone+transactions+offsets",
        "queue+lock+registration",
    ),
    "first-load": ("normal", "none", "trickle", "saturating"),
    "load": ("changing", "steady"),
    "payload": ("small", "mixed", "large"),
    "clients": ("routed", "pinned", "all-pinned"),
    "crash": ("kill", "off", "stop", "restart", "power-loss"),
    "hang": ("off", "pause"),
    "cut": ("both", "off", "in", "out"),
    "cut-shape": ("isolate", "split", "link", "role"),
    "cut-packets": ("silent", "reset"),
    "cut-clients": ("both", "with", "against"),
    "move": ("off", "live", "restart"),
    "order": ("off", "on"),
    "aim": ("any", "brokers", "controllers"),
    "victims": ("role", "last", "several"),
    "pace": ("mixed", "apart", "dense", "nested"),
    "trigger": ("time", "event"),
    "heal": ("whole", "parts"),
    "whole-stop": ("off", "kill", "power-loss"),
    "durations": ("mixed", "any", "short", "long", "lasting"),
    "clock": ("off", "jump", "drift"),
    "disk": ("off", "slow", "frozen", "full"),
    "link-delay": ("off", "on"),
    "epochs": ("off", "removed"),
    "learner": ("off", "on"),
    "retention": ("off", "trim"),
    # Switches of RIP-31, RIP-32 and of controllers; the usual value is as the profile has it.
    "acting": ("off", "on"),
    "shown": ("on", "off"),
    "escape": ("on", "off"),
    "pre-online": ("on", "off"),
    "push": ("off", "on"),
    "role-push": ("on", "off"),
    "old-requests": ("off", "on"),
    "slave-read": ("on", "off"),
    "lock-mode": ("as-profile", "loose"),
    "from-last-file": ("off", "on"),
    "topics": ("before", "by-sending"),
    "raft-log": ("whole", "snapshots"),
    "pulls": ("short", "held"),
}
# Kinds of faults: some are felt alone, the others change what those come to.
FELT = ("crash", "hang", "cut", "whole-stop")
KINDS = (*FELT, "move", "order", "clock", "disk", "link-delay", "epochs")
EVEN = frozenset((
    "workload", "first-load", "payload", "clients", "cut-shape", "cut-clients", "aim", "victims",
    "durations",
))  # fmt: skip
# Where power or a disk is lost, or a fault is alone, so many of a hundred rows promise to keep what
# is acknowledged, and have a load that shows it: else a loss shows nothing.
PROMISING = 80
PROMISES: dict[str, tuple[str, ...]] = {
    "profile": ("P-SAFE", "P-ALL"), "flush": ("sync",), "from-last-file": ("off",),
    "first-load": ("normal",), "load": ("steady",), "payload": ("small", "mixed"),
}  # fmt: skip
FEW = 80  # of a hundred rows that are not of the array
FEWS_PACES = ("mixed", "apart", "dense", "nested", "nested", "nested")
FEW_MORE = 3  # kinds beside the first, fewer than that
CANDIDATES = 24  # of which the best becomes the next row
TURN = 4  # of so many seeds one takes a row of the array

Row = dict[str, str]
Pair = tuple[str, str, str, str]  # factor, value, factor, value


class Coverage(msgspec.Struct, frozen=True):
    """How many pairs of values were met, of how many."""

    met: int
    of: int
    missing: tuple[Pair, ...]


def pairs_of(row: Mapping[str, str]) -> set[Pair]:
    """The pairs that a run meets."""
    return {(a, row[a], b, row[b]) for a, b in combinations(sorted(FACTORS), 2)}


@cache
def every_pair() -> frozenset[Pair]:
    """All pairs that there are."""
    return frozenset(
        (a, x, b, y)
        for a, b in combinations(sorted(FACTORS), 2)
        for x in FACTORS[a]
        for y in FACTORS[b]
    )


def coverage(rows: Iterable[Mapping[str, str]]) -> Coverage:
    """Which pairs some runs have met."""
    met: set[Pair] = set()
    for row in rows:
        met |= pairs_of(row)
    missing = sorted(every_pair() - met)
    return Coverage(len(every_pair() & met), len(every_pair()), tuple(missing))


@cache
def covering_array() -> tuple[Row, ...]:
    """Few rows that meet every pair."""
    left = set(every_pair())
    rows: list[Row] = []
    while left:
        missing, draws = sorted(left), Keyed("array")
        candidates = [_candidate(missing, left, draws, len(rows), n) for n in range(CANDIDATES)]
        best = max(candidates, key=lambda row: len(pairs_of(row) & left))
        left -= pairs_of(best)
        rows.append(best)
    return tuple(rows)


def _candidate(
    missing: list[Pair], left: set[Pair], draws: Keyed, number: int, attempt: int
) -> Row:
    """A row that begins with a pair that is missing and takes of each other factor, in a drawn
    order, the value that meets most of what is missing, which is given in order and as a set."""
    key = (number, attempt)
    a, x, b, y = missing[draws.below(len(missing), "pair", *key)]
    row: Row = {a: x, b: y}
    others = [name for name in FACTORS if name not in row]
    for name in draws.shuffled(others, "order", *key):
        row[name] = max(FACTORS[name], key=lambda value: _gain(left, row, name, value))
    return row


def _gain(left: set[Pair], row: Row, name: str, value: str) -> int:
    met = 0
    for other, theirs in row.items():
        pair = (name, value, other, theirs) if name < other else (other, theirs, name, value)
        met += pair in left
    return met


# What takes the place of a value where an environment cannot do it.
INSTEAD: dict[tuple[str, str], tuple[Capability, str]] = {
    ("crash", "power-loss"): (Capability.POWER_LOSS, "kill"),
    ("whole-stop", "power-loss"): (Capability.POWER_LOSS, "kill"),
    ("move", "live"): (Capability.CHANGE_ADDRESS, "off"),
    ("move", "restart"): (Capability.CHANGE_ADDRESS, "off"),
    ("clock", "jump"): (Capability.CLOCK, "off"),
    ("clock", "drift"): (Capability.DRIFT, "jump"),
    ("disk", "slow"): (Capability.DISK, "off"),
    ("disk", "frozen"): (Capability.DISK, "off"),
    ("disk", "full"): (Capability.DISK, "off"),
    ("link-delay", "on"): (Capability.DELAY, "off"),
}


def possible(row: Row, capabilities: Collection[Capability]) -> Row:
    """A row as an environment of these capabilities can run it."""
    return {name: _possible(name, value, capabilities) for name, value in row.items()}


def _possible(name: str, value: str, capabilities: Collection[Capability]) -> str:
    instead = INSTEAD.get((name, value))
    if instead is None or instead[0] in capabilities:
        return value
    return _possible(name, instead[1], capabilities)


def array_row(number: int) -> Row:
    """A row of the covering array, round and round."""
    rows = covering_array()
    return rows[number % len(rows)]


def row_of(seed: int) -> Row:
    """The values of a seed's run: of each four seeds one takes a row of the covering array in turn,
    one has a lone fault, of kinds in turn, and two are drawn."""
    turn, place = divmod(seed, TURN)
    if place == 0:
        return array_row(turn)
    row = drawn_row(seed)
    if place > 1:
        return row
    alone = {**row, **dict.fromkeys(KINDS, "off"), **lone_values(seed, turn)}
    return _promising(Keyed(seed), alone)


def drawn_row(seed: int) -> Row:
    """The values of a drawn run. More than half of these have few kinds of faults: where all are on
    at once they hide one another's consequences. Source: Groce et al., "Swarm Testing" (2012)."""
    draws = Keyed(seed)
    row = {}
    for name, values in FACTORS.items():
        usual = name not in EVEN and draws.below(2, "factor", name, "usual") == 0
        row[name] = values[0] if usual else values[draws.below(len(values), "factor", name)]
    return _promising(draws, _few(draws, row) if draws.chance(FEW, "few") else row)


def loses_stores(row: Mapping[str, str]) -> bool:
    """Whether a run's faults take the power of machines, or their disks."""
    return "power-loss" in (row["crash"], row["whole-stop"]) or row["disk"] != "off"


def _promising(draws: Keyed, row: Row) -> Row:
    """The same; where stores may be lost, or a fault is alone, mostly with settings that promise to
    keep them."""
    asked = loses_stores(row) or row["pace"] == LONE
    if not asked or not draws.chance(PROMISING, "promising"):
        return row
    kept = {name: draws.choice(values, "promise", name) for name, values in PROMISES.items()}
    return {**row, **kept}


def _few(draws: Keyed, row: Row) -> Row:
    """The same with one kind of fault that is felt, and few others."""
    first = draws.choice(FELT, "felt")
    others = draws.shuffled([kind for kind in KINDS if kind not in (first, "order")], "kinds")
    on = {first, *others[: draws.below(FEW_MORE, "how many")]}
    few = {}
    for kind in KINDS:
        values = [v for v in FACTORS[kind] if v != "off"]
        few[kind] = draws.choice(values, "on", kind) if kind in on else "off"
    # No fault: it has controllers decide something while the others are in force.
    few["order"] = draws.choice(FACTORS["order"], "on", "order")
    return {**row, **few, "pace": draws.choice(FEWS_PACES, "few's pace")}
