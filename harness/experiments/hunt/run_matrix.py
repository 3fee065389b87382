"""What each run of the hunt is: under which profile, with which controllers, with which faults.

There is a matrix of runs with controllers and one of runs without them, of masters and slaves.
Profiles and controllers come in blocks of runs, so that each block has the shares that are wanted,
in a drawn order. The other factors of a run come from the covering array first, then from
drawn rows, of which the one is taken that has most of what was met least. Everything is a pure
function of the run's number and of what the runs before it met.

A pair of values counts as met only if its faults struck a node: a schedule may end before.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    drawn_row,
    possible,
)
from maxq.harness.sampling.pair_factors import pair_values
from maxq.harness.schedule.format import Act, Schedule
from maxq.harness.schedule.options import MODES
from maxq.harness.targets.rocketmq.releases import BACK_ENDS
from maxq.histories.fault_facts import BUILT_IN, REMOVE_BROKER, RESET_CONNECTIONS, Effect

BACK_END, PROFILE = "back-end", "profile"
SLAVE_READ = "slave-read"  # of pairs: whether consumers may read from slaves
# Of what JVMs on two cores take: the simulator's levels but for the highest, which is 60.
RATES = {"none": 0, "trickle": 2, "normal": 10, "saturating": 40}
BOUNDS = Bounds(rates=RATES, faults=(3, 6), in_turn=True)
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
    """Under which profile a run is, and which value of the factor that is dealt it has."""

    profile: Profile
    value: str


class Matrix:
    """What the runs of a hunt are.

    Args:
        shares: how many of each profile there are in a block of runs.
        factor: what is dealt beside profiles, of which half of each profile's runs have either
            value.
        dealt: the two values.
        length_ms: of a run's main part, at least and at most.
        values: of a drawn row, those that take their places.
    """

    def __init__(
        self,
        shares: Mapping[Profile, int],
        *,
        factor: str,
        dealt: Sequence[str],
        length_ms: tuple[int, int],
        values: Callable[[Row], Row] = lambda row: row,
    ) -> None:
        self.shares = shares
        self.factor, self.dealt = factor, tuple(dealt)
        self._length_ms = length_ms
        self._values = values
        self._block = cache(self._dealt)

    def _dealt(self, block: int) -> tuple[Trial, ...]:
        """A block of trials in a drawn order. An odd share's odd trial goes to one value and the
        other in turn."""
        trials: list[tuple[str, Trial]] = []
        for profile, share in self.shares.items():
            for place in range(share):
                turn = place + (block + (profile == "P-NUM")) * share
                trial = Trial(profile, self.dealt[turn % len(self.dealt)])
                trials.append((f"{profile} {place}", trial))
        names = Keyed("hunt").shuffled([name for name, _ in trials], "deal", block)
        by_name = dict(trials)
        return tuple(by_name[name] for name in names)

    def trial_of(self, number: int) -> Trial:
        """Of a run, by its number."""
        block, place = divmod(number, sum(self.shares.values()))
        return self._block(block)[place]

    @property
    def array_size(self) -> int:
        """How many runs the covering array takes."""
        return len(covering_array())

    def row_for(
        self, number: int, met: Mapping[Pair, int], capabilities: Collection[Capability]
    ) -> Row:
        """The factors of a run, with what it was dealt.

        Args:
            number: of the run; the first ones have the rows of the covering array.
            met: how often each pair of values was met so far.
            capabilities: of the environment.
        """
        trial = self.trial_of(number)
        if number < self.array_size:
            return self._row(array_row(number), trial, capabilities)
        rows = [
            self._row(drawn_row(number * CANDIDATES + n), trial, capabilities)
            for n in range(CANDIDATES)
        ]
        return max(
            rows, key=lambda row: sum(1 / (1 + met.get(p, 0)) for p in sorted(pairs_of(row)))
        )

    def _row(self, row: Row, trial: Trial, capabilities: Collection[Capability]) -> Row:
        dealt = {PROFILE: trial.profile, self.factor: trial.value}
        return possible({**self._values(row), **dealt}, capabilities)

    def script_for(
        self, number: int, row: Row, *, length_ms: int = 0, layout: str = ""
    ) -> Schedule:
        """The schedule of a run, with at most six faults.

        Args:
            number: of the run, which keys every draw.
            row: its factors.
            length_ms: of the main part; 0: drawn.
            layout: of brokers in containers, which are then added and removed as well.
        """
        length = length_ms or Keyed("hunt").between(*self._length_ms, "length", number)
        also, beside = (("containers",), (REMOVE_BROKER,)) if layout else ((), ())
        return draw(
            number, row, length_ms=length, bounds=BOUNDS, beside=beside, also=also, layout=layout
        )

    def every_pair(self, capabilities: Collection[Capability]) -> frozenset[Pair]:
        """The pairs that can be met where nothing but these capabilities is there."""
        values: dict[str, dict[str, None]] = {self.factor: dict.fromkeys(self.dealt)}
        for name, of in FACTORS.items():
            for value in of:
                if (name, value) not in INSTEAD or INSTEAD[name, value][0] in capabilities:
                    for taken, by in self._values({name: value}).items():
                        values.setdefault(taken, {})[by] = None
        return frozenset(
            (a, x, b, y)
            for a, b in combinations(sorted(values), 2)
            for x in values[a]
            for y in values[b]
        )


def _on_real_nodes(row: Row) -> Row:
    """The values of a run with controllers: epoch files are an operator's affair."""
    return {**row, "epochs": "off"}


def _pairs_on_real_nodes(row: Row) -> Row:
    """The values of a run of pairs. None is idle: it has few minutes."""
    values = pair_values(row)
    if values.get("first-load") == "none":
        values["first-load"] = "trickle"
    return values


# Of forty runs: 35 %, 35 %, 15 %, and 15 % between the last two; half of each with either.
CONTROLLERS = Matrix(
    {"P-SAFE": 14, "P-ALL": 14, "P-UNCLEAN": 6, "P-NUM": 3, "P-DEFAULT": 3},
    factor=BACK_END,
    dealt=BACK_ENDS,
    length_ms=(240_000, 300_000),
    values=_on_real_nodes,
)
# Shorter: RocketMQ's slaves have their tables 63 s after they start, and faults wait for that. A
# master of 5.5.0 does not come back from a slave that was read from: half of the runs must not.
PAIRS = Matrix(
    {"P-SYNC": 12, "P-AUTO": 4, "P-ASYNC": 4},
    factor=SLAVE_READ,
    dealt=("off", "on"),
    length_ms=(120_000, 150_000),
    values=_pairs_on_real_nodes,
)
MATRICES: dict[str, Matrix] = dict(zip(MODES, (CONTROLLERS, PAIRS), strict=True))


# What was met.


def kind_of(act: Act) -> str:
    """The kind of the fault that an act begins; empty: it begins none."""
    if act.f in ENDING:
        return "whole-stop" if act.who.nodes and not act.who.part else "crash"
    if act.f == RESET_CONNECTIONS:  # instead of a cut
        return "cut"
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
