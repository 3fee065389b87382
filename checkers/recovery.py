"""How long a cluster needs after a fault until it takes messages again: measured, not judged.

For a fault on a broker it is the time from the completed fault to the first `ok` send to that
broker's set that was invoked after it; for any other node, to any set. Where another broker answers
than before, the set has failed over. Times are ns of the history's clock.
"""

from collections.abc import Sequence

import msgspec

from checkers.faults import Fault, faults
from histories.history import History
from histories.op import Op

STRIKES = frozenset({"kill", "power-loss"})


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """One fault and what came after.

    `after_ns` is None where no send succeeded any more; how much that says depends on `sent_ns`,
    the time that sends were still begun after the fault, which is short near the end of a run.
    """

    f: str
    node: str
    part: str  # what the node was when it was hit
    at_ns: int
    after_ns: int | None
    sent_ns: int
    failed_over: bool


def recoveries(history: History) -> list[Recovery]:
    """The recovery from every fault that takes a node away, in order of the faults."""
    sends = [op for op in history.clients if op.f == "send" and op.type == "ok"]
    until_ns = max(
        (op.time for op in history.clients if op.f == "send" and op.type == "invoke"), default=0
    )
    found = []
    for fault in faults(history):
        if fault.f in STRIKES and fault.ended is not None and isinstance(fault.result, dict):
            found += [_recovery(history, fault, node, sends, until_ns) for node in fault.nodes]
    return found


def _recovery(
    history: History, fault: Fault, node: str, sends: Sequence[Op], until_ns: int
) -> Recovery:
    part = str(fault.result[node].get("role", ""))
    broker_set = node.rpartition("-")[0]  # b0-1 is a replica of b0; n0 and c0 are of no set
    mine = [s for s in sends if not broker_set or (s.ext or {}).get("node") == broker_set]
    struck = fault.ended if fault.ended is not None else fault.begun
    after = next((s for s in mine if _begun(history, s) > struck), None)
    before = next((s for s in reversed(mine) if s.index < struck), None)
    at_ns = fault.ended_ns if fault.ended_ns is not None else fault.begun_ns
    moved = before is not None and after is not None and _broker(before) != _broker(after)
    return Recovery(
        f=fault.f,
        node=node,
        part=part,
        at_ns=at_ns,
        after_ns=None if after is None else after.time - at_ns,
        sent_ns=max(until_ns - at_ns, 0),
        failed_over=bool(broker_set) and moved,
    )


def _begun(history: History, op: Op) -> int:
    begun = history.invocation(op)
    return op.index if begun is None else begun.index


def _broker(op: Op) -> object:
    return (op.ext or {}).get("broker")
