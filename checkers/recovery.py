"""How long a cluster needs after a fault until it takes messages again, and what that cost it:
measured, not judged.

For a fault on a broker it is the time from the completed fault to the first `ok` send to that
broker's set that was invoked after it; for any other node, to any set. Where another broker answers
than before, the set has failed over. Times are ns of the history's clock. A message that was
acknowledged and lost is counted against the first fault that was complete after it.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec

from checkers.faults import Fault, faults
from checkers.log import MalformedError, read_log
from checkers.log_key import judge_key
from histories.history import History
from histories.op import Op

STRIKES = frozenset({"kill", "terminate", "restart", "power-loss"})
LOST = frozenset({"lost-write", "lost-tail"})


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """One fault and what came after.

    `after_ns` is None where no send succeeded any more; how much that says depends on `sent_ns`,
    the time that sends were still begun after the fault, which is short near the end of a run.
    """

    op: int  # index of the completed fault
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
    by_set: dict[str, list[Op]] = defaultdict(list)
    for s in sends:
        by_set[str((s.ext or {}).get("node"))].append(s)
    found = []
    for fault in faults(history):
        if fault.f in STRIKES and fault.ended is not None and isinstance(fault.result, dict):
            for node in fault.nodes:
                name = node.rpartition("-")[0]  # b0-1 is a replica of b0; n0 is of no set
                mine = by_set[name] if name else sends
                found.append(_recovery(history, fault, node, mine, until_ns))
    return found


def _recovery(
    history: History, fault: Fault, node: str, sends: Sequence[Op], until_ns: int
) -> Recovery:
    """`sends` are the ok ones to the node's set, in order of completion."""
    proof = fault.result.get(node)
    part = str(proof.get("role", "")) if isinstance(proof, dict) else ""
    struck = fault.ended if fault.ended is not None else fault.begun
    at = bisect_right(sends, struck, key=_index)
    before = sends[at - 1] if at else None
    late = (sends[i] for i in range(at, len(sends)))
    after = next((s for s in late if _begun(history, s) > struck), None)
    at_ns = fault.ended_ns if fault.ended_ns is not None else fault.begun_ns
    moved = before is not None and after is not None and _broker(before) != _broker(after)
    return Recovery(
        op=struck,
        f=fault.f,
        node=node,
        part=part,
        at_ns=at_ns,
        after_ns=None if after is None else after.time - at_ns,
        sent_ns=max(until_ns - at_ns, 0),
        failed_over=bool(node.rpartition("-")[0]) and moved,
    )


def _begun(history: History, op: Op) -> int:
    begun = history.invocation(op)
    return op.index if begun is None else begun.index


def _index(op: Op) -> int:
    return op.index


def _broker(op: Op) -> object:
    return (op.ext or {}).get("broker")


def losses(history: History) -> dict[int, int] | None:
    """How many acknowledged messages each strike cost, by the index of the completed strike.

    None where nobody can say: no reader stood at the confirmed end of a log after the last fault.
    What was lost without any strike after it is counted under -1.
    """
    try:
        log = read_log(history)
    except MalformedError:
        return None
    if not any(key.ends for key in log.keys.values()):
        return None
    strikes = sorted(f.ended for f in faults(history) if f.f in STRIKES and f.ended is not None)
    cost: Counter[int] = Counter(dict.fromkeys(strikes, 0))
    for key in log.keys.values():
        for finding in judge_key(key, log.proven).findings:
            if finding.name in LOST:
                after = bisect_right(strikes, finding.detail["writer"])
                cost[strikes[after] if after < len(strikes) else -1] += 1
    return dict(cost)
