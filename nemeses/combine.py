"""Faults in an order: B strikes within a while of A's start or end.

Chance seldom kills a slave three seconds after a partition has made it the only one in sync; such
bugs need two faults, close together, in one order. Where the heal of one comes due while the other
one is in force, whose heal goes before it, it comes right after that (`nemeses.heals`): a node that
is killed under a cut is started when the cut is healed. Times are ns.
"""

from random import Random

from harness.contracts.cluster import FaultPackage
from harness.contracts.outcome import Client, Fail, Outcome
from harness.generators import lift
from histories.op import Op
from nemeses.fault import QUIET_NS, Ask, Fault, pace
from nemeses.heals import place

WINDOW_NS = 20_000_000_000
ROUNDS = 12  # each drawn by itself, before the schedule repeats


class Several:
    """Nemeses as one: each operation goes to whose it is."""

    def __init__(self, *faults: Fault) -> None:
        self._by_f: dict[str, Client] = {f: fault.nemesis for fault in faults for f in fault.fs}

    async def open(self) -> None:
        for nemesis in dict.fromkeys(self._by_f.values()):
            await nemesis.open()

    async def invoke(self, op: Op) -> Outcome:
        nemesis = self._by_f.get(op.f)
        return Fail(["no-such-fault", op.f]) if nemesis is None else await nemesis.invoke(op)

    async def close(self) -> None:
        for nemesis in dict.fromkeys(self._by_f.values()):
            await nemesis.close()


def ordered(
    first: Fault,
    second: Fault,
    rng: Random,
    *,
    window_ns: int = WINDOW_NS,
    quiet_ns: int = QUIET_NS,
) -> FaultPackage:
    """`first`, then `second` within a while of its start or its end.

    Args:
        first: strikes first.
        second: strikes after it, while it holds or when it is over.
        rng: draws start or end, and how long after it.
        window_ns: the longest while.
        quiet_ns: between the last heal and the next strike.
    """
    steps: list[tuple[int, Ask]] = []
    for number in range(ROUNDS):
        steps += _round(first, second, number, rng, window_ns=window_ns, quiet_ns=quiet_ns)
    ends = sorted((second, first), key=_healed)
    return FaultPackage(
        name=f"{first.name}-then-{second.name}",
        needs=first.needs | second.needs,
        generator=pace(steps, quiet_ns),
        final_generator=lift([dict(fault.end) for fault in ends]),
        nemesis=Several(first, second),
        facts=(*first.facts, *second.facts),
        fs=first.fs | second.fs,
    )


def _healed(fault: Fault) -> int:
    """Which heal of the order ends it."""
    return place(str(fault.end["f"]))


def _round(
    first: Fault, second: Fault, number: int, rng: Random, *, window_ns: int, quiet_ns: int
) -> list[tuple[int, Ask]]:
    """One strike of each with its heal, as (wait, operation)."""
    after_ns = rng.choice((0, first.hold_ns)) + rng.randrange(window_ns)
    spans = [(0, first.hold_ns, first), (after_ns, after_ns + second.hold_ns, second)]
    moments = [(at, fault.rounds[number % len(fault.rounds)][0]) for at, _, fault in spans]
    early, late = sorted(spans, key=lambda span: _healed(span[2]))
    meanwhile = early[0] <= late[1] < early[1]
    moments += [(early[1], early[2].end), (early[1] if meanwhile else late[1], late[2].end)]
    steps: list[tuple[int, Ask]] = []
    before_ns = -quiet_ns
    for at_ns, what in sorted(moments, key=lambda moment: moment[0]):
        steps.append((at_ns - before_ns, what))
        before_ns = at_ns
    return steps
