"""How long a cluster needs after a fault until it takes messages again: measured, not judged.

For a fault on brokers it is the time from the completed fault to the first `ok` send to one of
their sets that was invoked after it; for one on other nodes only, to any set. Where another broker
answers than before, the set has failed over. Times are ns of the history's clock. What was lost is
charged to acts by ``maxq.checkers.evidence.harms``: each message to one act, or to none.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from maxq.checkers.core.api import Context
from maxq.checkers.core.keyed import Alone, Event, results_of
from maxq.checkers.evidence.acts import acts_of
from maxq.checkers.evidence.faults import Fault
from maxq.checkers.evidence.observations import listed
from maxq.histories.fault_facts import NOBODY
from maxq.histories.history import History

if TYPE_CHECKING:
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """One fault and what came after.

    `act` is the index at which it began, `op` that of its completion; `node` lists the nodes that
    it struck, and `part` what they were then, where that is one. `after_ns` is None where no send
    succeeded any more; how much that says depends on `sent_ns`, the time that sends were still
    begun after the fault, which is short near the end of a run.
    """

    act: int
    op: int
    f: str
    node: str
    part: str
    at_ns: int
    after_ns: int | None
    sent_ns: int
    failed_over: bool


class SendSeen(NamedTuple):
    """A send: its completion (`ok` or not), or its invocation while open."""

    at: int
    begun: int
    at_ns: int
    begun_ns: int
    ok: bool
    broker: object


class Around(NamedTuple):
    """The sends to one broker set around each strike: the last ok one before, the first after."""

    before: dict[int, SendSeen]
    after: dict[int, SendSeen]
    until_ns: int  # when the last send was begun


class Recoveries(Alone):
    """A measurement, made like a check: the sends of each broker set around the strikes."""

    name = "recoveries"
    reads = frozenset(("send",))

    def prepare(self, history: History, context: Context) -> tuple[int, ...]:
        return tuple(sorted({f.ended for f in _strikes(history) if f.ended is not None}))

    def sift(self, rows: "Rows", chosen: "Ints", known: tuple[int, ...]) -> "Ints":
        from maxq.checkers.availability import send_columns  # numpy, for those who have columns

        return send_columns.around(rows, chosen, known) if known else chosen[:0]

    def rows(self, event: Event, known: tuple[int, ...]) -> Iterator[tuple[str, SendSeen]]:
        op, begun = event.op, event.begun
        if not known or (op.type == "invoke" and not event.open):
            return
        first = op if begun is None else begun
        ext = op.ext or {}
        broker, ok = ext.get("broker"), op.type == "ok"
        yield str(ext.get("node")), SendSeen(op.index, first.index, op.time, first.time, ok, broker)

    def judge(
        self, key: str, rows: Sequence[SendSeen], known: tuple[int, ...], more: object = None
    ) -> Around:
        return sends_around(rows, known)


def sends_around(sends: Sequence[SendSeen], strikes: Sequence[int]) -> Around:
    """Look up the sends around each strike; both in order of index."""
    ok = [s for s in sends if s.ok]
    before: dict[int, SendSeen] = {}
    after: dict[int, SendSeen] = {}
    for struck in strikes:
        at = bisect_right(ok, struck, key=_at)
        if at:
            before[struck] = ok[at - 1]
        late = (ok[i] for i in range(at, len(ok)))
        first = next((s for s in late if s.begun > struck), None)
        if first is not None:
            after[struck] = first
    return Around(before, after, max((s.begun_ns for s in sends), default=0))


def _at(s: SendSeen) -> int:
    return s.at


def recoveries(history: History) -> list[Recovery]:
    """The recovery from every fault that takes a node away, in order of the faults."""
    check = Recoveries()
    strikes = check.prepare(history, Context())
    return recovered(history, results_of(check, history, strikes) if strikes else {})


def recovered(history: History, sets: Mapping[str, Around]) -> list[Recovery]:
    """The same, of sends already looked up by broker set."""
    until_ns = max((around.until_ns for around in sets.values()), default=0)
    found = []
    for fault in _strikes(history):
        # b0-1 is a replica of b0; n0 is of no set.
        names = {name for node in fault.nodes if (name := node.rpartition("-")[0])}
        mine = [around for key, around in sets.items() if key in names or not names]
        found.append(_recovery(fault, mine, until_ns))
    return found


def _strikes(history: History) -> list[Fault]:
    found = (act.fault for act in acts_of(history))
    return [f for f in found if f.ended is not None and _struck(f)]


def _struck(fault: Fault) -> list[str]:
    return [node for node in fault.nodes if node != NOBODY]


def _recovery(fault: Fault, sets: Sequence[Around], until_ns: int) -> Recovery:
    nodes = _struck(fault)
    proofs = [fault.result.get(node) for node in nodes]
    parts = {str(proof.get("role", "")) for proof in proofs if isinstance(proof, dict)}
    struck = fault.ended if fault.ended is not None else fault.begun
    before = max((a.before[struck] for a in sets if struck in a.before), key=_at, default=None)
    after = min((a.after[struck] for a in sets if struck in a.after), key=_at, default=None)
    at_ns = fault.ended_ns if fault.ended_ns is not None else fault.begun_ns
    moved = before is not None and after is not None and before.broker != after.broker
    return Recovery(
        act=fault.begun,
        op=struck,
        f=fault.f,
        node=listed(nodes),
        part=parts.pop() if len(parts) == 1 else "",
        at_ns=at_ns,
        after_ns=None if after is None else after.at_ns - at_ns,
        sent_ns=max(until_ns - at_ns, 0),
        failed_over=any("-" in node for node in nodes) and moved,
    )
