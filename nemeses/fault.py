"""What a fault is made of, and when it strikes: rounds of beginnings, a while, an end.

All packages of a run share one nemesis process, so faults are performed one after another, and no
package may keep that process busy while it waits: its waiting is a time at which its next operation
is due (`Pace`), and meanwhile others strike. A wait counts from the completion of the package's
last operation, when the fault was seen to hold. Times are ns.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harness.contracts.cluster import FaultPackage
from harness.contracts.environment import Capability
from harness.contracts.generator import PENDING, Context, Generator, Sleep, Step
from harness.contracts.outcome import Client
from harness.generators import lift, once
from histories.fault_facts import FaultFacts
from histories.op import NEMESIS, Op

QUIET_NS = 2_000_000_000  # before each strike of a fault that is alone
CROWDED_NS = 5_000_000_000  # so much longer for each other fault, or nothing ever works

Ask = Mapping[str, Any]  # an operation of a nemesis, as `lift` takes it


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault, whenever it strikes.

    `rounds` come in turn; each is one or more beginnings `hold_ns` apart, and then `end`. `facts`
    are of its kinds that are not built in; the run stores them (`histories.fault_facts`).
    """

    name: str
    needs: frozenset[Capability]
    rounds: tuple[tuple[Ask, ...], ...]
    hold_ns: int
    end: Ask
    nemesis: Client
    facts: tuple[FaultFacts, ...] = ()

    @property
    def fs(self) -> frozenset[str]:
        return frozenset(op["f"] for ops in (*self.rounds, (self.end,)) for op in ops)


class Pace(msgspec.Struct, frozen=True):
    """Operations over and over, each due a while after the one before it has ended.

    The first is due `first_ns` after the first question; `due_ns` is -1 until then. `awaited`: how
    many events of the operation under way are still to come, its beginning and its end.
    """

    steps: tuple[tuple[int, Generator], ...]  # wait, operation
    first_ns: int
    at: int = 0
    due_ns: int = -1
    awaited: int = 0

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if self.awaited or process is None:
            return PENDING, self
        if self.due_ns < 0:
            # A question changes nothing, so the clock can be started by an answer only: one that
            # keeps the nemesis for no time at all.
            started = msgspec.structs.replace(self, due_ns=ctx.time + self.first_ns)
            return Sleep(process, 0, ctx.time), started
        step = self.steps[self.at][1].op(ctx)
        if step is None or not isinstance(step[0], Op):
            return PENDING, self
        op = msgspec.structs.replace(step[0], time=max(step[0].time, self.due_ns))
        return op, msgspec.structs.replace(self, awaited=2)

    def update(self, ctx: Context, event: Op) -> Generator:
        if not self.awaited or event.process != NEMESIS:
            return self
        if self.awaited == 2:
            return msgspec.structs.replace(self, awaited=1)
        after = (self.at + 1) % len(self.steps)
        due_ns = event.time + self.steps[after][0]
        return msgspec.structs.replace(self, at=after, due_ns=due_ns, awaited=0)


def pace(steps: Sequence[tuple[int, Ask]], first_ns: int) -> Generator:
    """Operations over and over.

    Args:
        steps: how long after the end of the one before, and what.
        first_ns: how long before the first, where nothing is before it.
    """
    return Pace(tuple((wait_ns, lift(what)) for wait_ns, what in steps), first_ns)


def package(fault: Fault, *, first_ns: int = QUIET_NS, quiet_ns: int = QUIET_NS) -> FaultPackage:
    """A fault that strikes again and again.

    Args:
        fault: what strikes.
        first_ns: before the first strike.
        quiet_ns: between a heal and the next strike.
    """
    steps: list[tuple[int, Ask]] = []
    for begins in fault.rounds:
        waits = [quiet_ns, *[fault.hold_ns] * (len(begins) - 1)]
        steps += [*zip(waits, begins, strict=True), (fault.hold_ns, fault.end)]
    return FaultPackage(
        name=fault.name,
        needs=fault.needs,
        generator=pace(steps, first_ns),
        final_generator=once(fault.end),
        nemesis=fault.nemesis,
        facts=fault.facts,
        fs=fault.fs,
    )


def crowded(faults: int) -> int:
    """How long (ns) each of so many faults leaves the cluster alone after a heal."""
    return QUIET_NS + CROWDED_NS * (faults - 1)
