"""Observers of a small cluster whose words are written down at times that a test sets."""

from typing import Any

from cluster_recorder import Cluster, broker
from history_recorder import SECOND_NS

from maxq.histories.op import NEMESIS, Op


class Timed(Cluster):
    """Everything is written down at the time that was set last, in seconds."""

    now = 0.0

    def at(self, seconds: float) -> "Timed":
        self.now = seconds
        return self

    def _add(self, op_type: Any, process: Any, f: str, value: Any, ext: dict[str, Any]) -> int:
        index = len(self.ops)
        time = round(self.now * SECOND_NS)
        self.ops.append(Op(op_type, process, f, value, None, index, time, ext or None))
        return index

    def lives(self, n: int, *, leads: bool = False, epoch: int = 1) -> int:
        """Broker n of b0 answers; its id is n + 1. A master does twice, and has more each time."""
        asked, first = {"node": f"b0-{n}"}, -1
        for end in (len(self.ops), len(self.ops) + 1) if leads else (9,):
            value = broker(f"b0-{n}", n + 1, (epoch, 0, end), leads=leads)
            at = self.op("ok", 8, "observe-replica", asked, value)
            first = at if first < 0 else first
        return first

    def recovered(self, holds: bool, after_ms: int, *, late: Any = None, **crashed: int) -> int:
        found = {"holds": holds, "after_ms": after_ms, "crashed": crashed}
        self.begin(NEMESIS, "await-recovery", None)
        ext = {} if late is None else {"late-ms": late}
        return self.end("info", NEMESIS, "await-recovery", {"cluster": found}, **ext)
