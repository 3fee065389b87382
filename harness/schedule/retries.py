"""Producers that try another broker, as RocketMQ's do: a generator around the queue's calls.

RocketMQ's producer tries up to ``retryTimesWhenSendFailed`` times again, each time a queue of
another broker set than the last (another queue, where there is but one), within one call and
``sendMsgTimeout``. Here each try is an operation of its own, of another value: a message that an
earlier try may have stored is `info` at its own queue, so that no copy is a phantom or comes twice.
Ext ``retry`` says which try it is, and the lower `VALUE_BITS` of a value which message.

No try follows an answer that the message is stored (FLUSH_SLAVE_TIMEOUT and others), nor a
time-out, which has used up the time. With latency fault tolerance a producer keeps away from a
broker set for a while that failed or was slow, as long as another one is left. Times are ns.
Source: RocketMQ 5.5.0 ``DefaultMQProducerImpl.sendDefaultImpl``, ``MQFaultStrategy``.
"""

from collections.abc import Mapping

import msgspec

from maxq.harness.contracts.cluster import Retries
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.histories.observed import RETRY
from maxq.histories.op import Op

SEND = "send"
VALUE_BITS = 44  # of a message's number; above them stands the number of the try
STORED = frozenset(("FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"))
TIMEOUT = "timeout"
MS = 1_000_000
# From this latency on (ms), for so long (ms): ``latencyMax`` and ``notAvailableDuration``.
SHUNNED_MS = (
    (15_000, 30_000), (5000, 10_000), (3000, 6000), (1800, 5000), (550, 2000),
)  # fmt: skip
FAILED_MS = 10_000  # the latency that a failure counts as


class Again(msgspec.Struct, frozen=True):
    """A try that is due: on which thread, what for, and the queue of the try before."""

    thread: int
    key: int
    value: int
    number: int
    ext: Mapping[str, object]


class Retrying(msgspec.Struct, frozen=True):
    """What `gen` does, and tries again. `begun` is when each thread's send was; `shunned`, until
    when a thread keeps away from a broker set, by its number."""

    gen: Generator
    how: Retries
    again: tuple[Again, ...] = ()
    begun: Mapping[int, int] = {}
    shunned: Mapping[tuple[int, int], int] = {}

    def op(self, ctx: Context) -> Step | None:
        for at, due in enumerate(self.again):
            if ctx.free_bits >> due.thread & 1:
                left = (*self.again[:at], *self.again[at + 1 :])
                return self._try(ctx, due), msgspec.structs.replace(self, again=left)
        step = self.gen.op(ctx)
        if step is None:
            return (PENDING, self) if self.again else None
        op, gen = step
        after = self if gen is self.gen else msgspec.structs.replace(self, gen=gen)
        if self.shunned and isinstance(op, Op) and op.f == SEND:
            [[f, key, value]] = op.value
            key = self._free(ctx.roster.positions[op.process], key, op.time)
            op = msgspec.structs.replace(op, value=[[f, key, value]])
        return op, after

    def _try(self, ctx: Context, due: Again) -> Op:
        key = self._free(due.thread, self.how.elsewhere[due.key], ctx.time)
        value = [[SEND, key, due.value | due.number << VALUE_BITS]]
        process, ext = ctx.roster.processes[due.thread], {**due.ext, RETRY: due.number}
        return Op("invoke", process, SEND, value, time=ctx.time, ext=ext)

    def _free(self, thread: int, key: int, now: int) -> int:
        """This queue, or one of another set, if the thread keeps away from this one's."""
        other = key
        for _ in self.how.elsewhere:
            if self.shunned.get((thread, self.how.homes[other]), 0) <= now:
                return other
            other = self.how.elsewhere[other]
        return key

    def update(self, ctx: Context, event: Op) -> Generator:
        gen = self.gen.update(ctx, event)
        after = self if gen is self.gen else msgspec.structs.replace(self, gen=gen)
        if event.f != SEND:
            return after
        thread = ctx.roster.positions[event.process]
        if event.type == "invoke":
            begun = {**self.begun, thread: event.time}
            return msgspec.structs.replace(after, begun=begun)
        return after._completed(thread, event)

    def _completed(self, thread: int, event: Op) -> "Retrying":
        [[_, key, value]] = event.value
        failed, quick = _said(event)
        after = self
        if self.how.avoids:
            took_ms = (event.time - self.begun.get(thread, event.time)) // MS
            for_ms = shunned_ms(FAILED_MS if failed else took_ms)
            until = {(thread, self.how.homes[key]): event.time + for_ms * MS}
            after = msgspec.structs.replace(self, shunned={**self.shunned, **until})
        ext = {name: said for name, said in (event.ext or {}).items() if name == "size"}
        number = (event.ext or {}).get(RETRY, 0) + 1
        if not (failed and quick) or number > self.how.count:
            return after
        message = value & (1 << VALUE_BITS) - 1
        due = Again(thread, key, message, number, ext)
        return msgspec.structs.replace(after, again=(*after.again, due))


def _said(event: Op) -> tuple[bool, bool]:
    """Whether a send failed for its producer, and whether there is time for another try."""
    name = event.error[0] if isinstance(event.error, list | tuple) else event.error
    return event.type != "ok" and name not in STORED, name != TIMEOUT


def shunned_ms(latency_ms: int) -> int:
    """For how long a producer keeps away from who took so long."""
    return next((away for least, away in SHUNNED_MS if latency_ms >= least), 0)
