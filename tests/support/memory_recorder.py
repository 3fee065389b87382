"""A history in memory, for tests of the interpreter."""

import msgspec

from maxq.histories.op import Op


class MemoryRecorder:
    """A history in memory."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def append(self, op: Op) -> Op:
        op = msgspec.structs.replace(op, index=len(self.ops))
        self.ops.append(op)
        return op

    def tick(self, now_ns: int) -> None:
        """Nothing to write."""
