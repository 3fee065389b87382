"""In which order faults are healed: cuts first, then pauses, then addresses, then starts.

A broker of RocketMQ that is stopped or started under a cut waits for name servers and controllers
that do not answer, until it is killed or late. One nemesis does everything in a run, so that the
cut is not healed meanwhile either: with JVMs a cut of 5 s lasted for half a minute or longer.

So no other heal is done while a cut is in force, and of several that are due the first in the order
is. No heal is brought forward: a cut that ended with the start of a node killed 2 s before would be
too short for an election. It is due within 5 s anyway, and the node stays down, or at its other
address, for as much longer. A start waits for no address that is not due yet: a node can start at
any. The history has each heal as the operation of its own fault. A strike waits for the heal of a
cut that is due already, and for nothing else: what a fault does under a cut is what a run is for.
Times are ns.
"""

from collections.abc import Sequence

import msgspec

from harness.contracts.generator import PENDING, Context, Generator, Step
from harness.generators import EMPTY
from harness.generators.flow import replaced, soonest, updated
from harness.generators.lift import Source, lift
from histories.op import Op
from nemeses.partition import START, STOP

HEALS: dict[str, frozenset[str]] = {
    "stop-disk-fault": frozenset({"start-disk-fault"}),
    "stop-delay": frozenset({"start-delay"}),
    "reset-clock": frozenset({"bump-clock"}),
    "stop-partition": frozenset({"start-partition"}),
    "resume": frozenset({"pause"}),
    "restore-ip": frozenset({"change-ip"}),
    # A disk that takes nothing may have ended its node.
    "start": frozenset({"kill", "terminate", "power-loss", "start-disk-fault"}),
}
PLACES = {f: place for place, f in enumerate(HEALS)}
NO_PLACE = -1  # of a strike, and of the heal of a fault that is not known here


def place(f: str) -> int:
    """Which heal of the order an operation is; `NO_PLACE` where it is none."""
    return PLACES.get(f, NO_PLACE)


class InOrder(msgspec.Struct, frozen=True):
    """The soonest operation of any fault, but of heals only those whose turn it is. `cut`: whether
    one is in force. A fault that cuts must heal that before any other heal of its own (`ordered`).
    """

    gens: tuple[Generator, ...]
    cut: bool = False

    def op(self, ctx: Context) -> Step | None:
        steps = [gen.op(ctx) for gen in self.gens]
        heals = [op for op in map(_operation, steps) if op is not None and place(op.f) != NO_PLACE]
        ready: list[Step | None] = [
            (PENDING, gen) if self._waits(_operation(step), heals) else step
            for gen, step in zip(self.gens, steps, strict=True)
        ]
        chosen = soonest(ready, (1,) * len(ready), ctx.rng)
        if chosen is None:
            return None
        # Those that are not chosen are not moved: their answers are thrown away.
        at, step = chosen
        gens = replaced(self.gens, at, step[1])
        left = tuple(g for g, s in zip(gens, ready, strict=True) if s is not None)
        return step[0], InOrder(left, self.cut)

    def _waits(self, op: Op | None, heals: Sequence[Op]) -> bool:
        """Whether it is not the turn of an operation."""
        if op is None:
            return False
        due = [heal for heal in heals if heal.time <= op.time]
        if place(op.f) == NO_PLACE:
            return any(heal.f == STOP for heal in due)
        cut_off = self.cut and place(op.f) > place(STOP)
        return cut_off or any(place(heal.f) < place(op.f) for heal in due)

    def update(self, ctx: Context, event: Op) -> Generator:
        after = updated(self.gens, ctx, event)
        cut = event.f == START if event.f in (START, STOP) else self.cut
        return self if after is self.gens and cut is self.cut else InOrder(after, cut)


def _operation(step: Step | None) -> Op | None:
    return step[0] if step is not None and isinstance(step[0], Op) else None


def in_order(*sources: Source) -> Generator:
    """What several faults do, side by side, with their heals in order."""
    return InOrder(tuple(map(lift, sources))) if sources else EMPTY
