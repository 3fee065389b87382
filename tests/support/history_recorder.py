"""Writes down small histories for tests of checkers: one call, one whole operation."""

from typing import Any

from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op, OpType

SECOND_NS = 1_000_000_000


class Recorder:
    """Operations run one after another; `begin` and `end` let them overlap."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    @property
    def history(self) -> History:
        return History(self.ops)

    def begin(self, process: int | str, f: str, value: Any, **ext: Any) -> int:
        op_type: OpType = "info" if process == NEMESIS else "invoke"
        return self._add(op_type, process, f, value, ext)

    def end(self, op_type: OpType, process: int | str, f: str, value: Any, **ext: Any) -> int:
        return self._add(op_type, process, f, value, ext)

    def op(self, op_type: OpType, process: int, f: str, begun: Any, value: Any, **ext: Any) -> int:
        self.begin(process, f, begun)
        return self.end(op_type, process, f, value, **ext)

    def send(
        self,
        process: int,
        value: int,
        offset: int | None = None,
        op_type: OpType = "ok",
        *,
        key: int = 0,
        **ext: Any,
    ) -> int:
        """Send one message; returns the completion's index."""
        begun = [["send", key, value]]
        done = begun if op_type != "ok" and offset is None else [["send", key, [offset, value]]]
        return self.op(op_type, process, "send", begun, done, **ext)

    def poll(
        self,
        process: int,
        *messages: tuple[int | None, int | str],
        op_type: OpType = "ok",
        key: int = 0,
        **ext: Any,
    ) -> int:
        """Poll `messages` of one key, as (offset, value); returns the completion's index."""
        polled = {key: [list(message) for message in messages]}
        return self.op(op_type, process, "poll", [["poll"]], [["poll", polled]], **ext)

    def assign(self, process: int, *keys: int, seek: bool = False) -> int:
        ext = {"seek-to-beginning?": True} if seek else {}
        self.begin(process, "assign", list(keys), **ext)
        return self.end("ok", process, "assign", list(keys), **ext)

    def crash(self, process: int) -> int:
        return self.op("info", process, "crash", None, None)

    def fault(self, f: str, **nodes: bool) -> int:
        """One action of the nemesis, with proof for each node or without."""
        self.begin(NEMESIS, f, "one")
        return self.end(
            "info", NEMESIS, f, {node: {"holds": holds} for node, holds in nodes.items()}
        )

    def _add(
        self, op_type: OpType, process: int | str, f: str, value: Any, ext: dict[str, Any]
    ) -> int:
        at = len(self.ops)
        op = Op(op_type, process, f, value, None, at, at * SECOND_NS, ext or None)
        self.ops.append(op)
        return at
