"""What each run of the hunt is: under which profile, with which controllers, with which faults.

Profiles and controllers come in blocks of forty runs, so that each block has the shares that are
wanted, in a drawn order. The other factors of a run come from the covering array first, then from
drawn rows, of which the one is taken that has most of what was met least. Everything is a pure
function of the run's number and of what the runs before it met.

A pair of values counts as met only if its faults struck a node: a schedule may end before.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from itertools import combinations
from typing import NamedTuple

from maxq.harness.contracts.environment import Capability
from maxq.harness.contracts.keyed_draws import Keyed
from maxq.harness.contracts.target import Profile
from maxq.harness.sampling.draw import Bounds, draw
from maxq.harness.sampling.factors import (
    FACTORS,
    INSTEAD,
    KINDS,
    Row,
    array_row,
    covering_array,
    possible,
    row_of,
)
from maxq.harness.schedule.format import Act, Schedule
from maxq.harness.targets.rocketmq.releases import BACK_ENDS
from maxq.histories.fault_facts import BUILT_IN, Effect

# Of forty runs: 35 %, 35 %, 15 %, and 15 % between the last two; half of each with either.
SHARES: dict[Profile, int] = {
    "P-SAFE": 14,
    "P-ALL": 14,
    "P-UNCLEAN": 6,
    "P-NUM": 3,
    "P-DEFAULT": 3,
}
BACK_END, PROFILE = "back-end", "profile"
LENGTH_MS = (240_000, 300_000)
FAULTS = (3, 6)
# Of what JVMs on two cores take: the simulator's levels but for the highest, which is 60.
RATES = {"none": 0, "trickle": 2, "normal": 10, "saturating": 40}
BOUNDS = Bounds(rates=RATES, faults=FAULTS, in_turn=True)
CANDIDATES = 24  # drawn rows of which one is taken
KIND_OF: dict[Effect | None, str] = {  # of faults; what kills or ends is known by its victims
    "held": "hang",
    "cut": "cut",
    "address": "move",
    "order": "order",
    "clock": "clock",
    "disk": "disk",
    "slow": "link-delay",
}
ENDING = frozenset(value for kind in ("crash", "whole-stop") for value in FACTORS[kind]) - {"off"}

Pair = tuple[str, str, str, str]  # factor, value, factor, value


class Trial(NamedTuple):
    """Under which profile a run is, with which controllers."""

    profile: Profile
    back_end: str


@cache
def _block(block: int) -> tuple[Trial, ...]:
    """Forty trials in a drawn order. An odd share's odd trial goes to one back end and the other in
    turn."""
    trials: list[tuple[str, Trial]] = []
    for profile, share in SHARES.items():
        for place in range(share):
            back_end = BACK_ENDS[(place + (block + (profile == "P-NUM")) * share) % len(BACK_ENDS)]
            trials.append((f"{profile} {place}", Trial(profile, back_end)))
    names = Keyed("hunt").shuffled([name for name, _ in trials], "deal", block)
    by_name = dict(trials)
    return tuple(by_name[name] for name in names)


def trial_of(number: int) -> Trial:
    """Of a run, by its number."""
    block, place = divmod(number, sum(SHARES.values()))
    return _block(block)[place]


def array_size() -> int:
    """How many runs the covering array takes."""
    return len(covering_array())


def row_for(number: int, met: Mapping[Pair, int], capabilities: Collection[Capability]) -> Row:
    """The factors of a run, with its profile and its back end.

    Args:
        number: of the run; the first ones have the rows of the covering array.
        met: how often each pair of values was met so far.
        capabilities: of the environment.
    """
    trial = trial_of(number)
    if number < array_size():
        return _row(array_row(number), trial, capabilities)
    rows = [
        _row(row_of(2 * (number * CANDIDATES + n) + 1), trial, capabilities)
        for n in range(CANDIDATES)
    ]
    return max(rows, key=lambda row: sum(1 / (1 + met.get(p, 0)) for p in sorted(pairs_of(row))))


def _row(row: Row, trial: Trial, capabilities: Collection[Capability]) -> Row:
    return possible({**row, PROFILE: trial.profile, BACK_END: trial.back_end}, capabilities)


def script_for(number: int, row: Row, *, length_ms: int = 0) -> Schedule:
    """The schedule of a run: four to five minutes, and at most six faults.

    Args:
        number: of the run, which keys every draw.
        row: its factors.
        length_ms: of the main part; 0: drawn.
    """
    length = length_ms or Keyed("hunt").between(*LENGTH_MS, "length", number)
    return draw(number, row, length_ms=length, bounds=BOUNDS)


# What was met.


def kind_of(act: Act) -> str:
    """The kind of the fault that an act begins; empty: it begins none."""
    if act.f in ENDING:
        return "whole-stop" if act.who.nodes else "crash"
    return KIND_OF.get(BUILT_IN.effect(act.f), "")


def met_row(row: Row, performed: Schedule) -> Row:
    """A run's factors as they came: a kind of fault that struck no node was off.

    Args:
        row: as drawn.
        performed: the schedule with what its acts came to.
    """
    struck = {
        kind_of(act)
        for act in performed.acts
        if act.done is not None and (act.done.nodes or BUILT_IN.effect(act.f) == "order")
    }
    return {name: "off" if name in KINDS and name not in struck else v for name, v in row.items()}


def pairs_of(row: Mapping[str, str]) -> set[Pair]:
    """The pairs of values that a run meets, the back end's among them."""
    return {(a, row[a], b, row[b]) for a, b in combinations(sorted(row), 2)}


def pairs_met(rows: Iterable[Mapping[str, str]]) -> Counter[Pair]:
    """How often each pair was met."""
    return Counter(pair for row in rows for pair in pairs_of(row))


def every_pair(capabilities: Collection[Capability]) -> frozenset[Pair]:
    """The pairs that can be met where nothing but these capabilities is there."""
    values = {BACK_END: BACK_ENDS, **{name: _possible(name, capabilities) for name in FACTORS}}
    return frozenset(
        (a, x, b, y)
        for a, b in combinations(sorted(values), 2)
        for x in values[a]
        for y in values[b]
    )


def _possible(name: str, capabilities: Collection[Capability]) -> tuple[str, ...]:
    return tuple(
        value
        for value in FACTORS[name]
        if (name, value) not in INSTEAD or INSTEAD[name, value][0] in capabilities
    )
