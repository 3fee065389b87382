"""Topics that an operator makes during a run: a generator around the queue's calls.

What would be sent to a topic goes to the queue that stands in for its own one until it is made.
What did not succeed for certain is tried again, as an operator would, each time as an operation of
its own with ext ``retry``. Times are ns.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.histories.observed import CREATE_TOPIC, RETRY
from maxq.histories.op import Op

SEND = "send"
RETRY_NS = 1_000_000_000


class Again(msgspec.Struct, frozen=True):
    """A topic that is to be made, from when on, by which thread, and which try that is."""

    due: int
    thread: int
    value: Mapping[str, Any]
    number: int


class Gated(msgspec.Struct, frozen=True):
    """What `gen` does. `instead` are the keys of topics that are not made yet, each with the one
    that is sent to meanwhile."""

    gen: Generator
    instead: Mapping[int, int]
    again: tuple[Again, ...] = ()

    def op(self, ctx: Context) -> Step | None:
        for at, due in enumerate(self.again):
            if ctx.time >= due.due and ctx.free_bits >> due.thread & 1:
                left = (*self.again[:at], *self.again[at + 1 :])
                process = ctx.roster.processes[due.thread]
                made = Op("invoke", process, CREATE_TOPIC, due.value, time=ctx.time,
                          ext={RETRY: due.number})  # fmt: skip
                return made, msgspec.structs.replace(self, again=left)
        step = self.gen.op(ctx)
        if step is None:
            return (PENDING, self) if self.again else None
        op, gen = step
        after = self if gen is self.gen else msgspec.structs.replace(self, gen=gen)
        if isinstance(op, Op) and op.f == SEND:
            [[f, key, value]] = op.value
            if key in self.instead:
                op = msgspec.structs.replace(op, value=[[f, self.instead[key], value]])
        return op, after

    def update(self, ctx: Context, event: Op) -> Generator:
        gen = self.gen.update(ctx, event)
        after = self if gen is self.gen else msgspec.structs.replace(self, gen=gen)
        if event.f != CREATE_TOPIC or event.type == "invoke":
            return after
        if event.type == "ok":
            left = {k: v for k, v in self.instead.items() if k != event.value["key"]}
            return msgspec.structs.replace(after, instead=left)
        number = (event.ext or {}).get(RETRY, 0) + 1
        thread = ctx.roster.positions[event.process]
        due = Again(event.time + RETRY_NS, thread, event.value, number)
        return msgspec.structs.replace(after, again=(*self.again, due))
