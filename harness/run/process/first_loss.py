"""The first sign in a run that an acknowledged message was lost: another one has its place.

It ends a run on a cluster that is somebody's: more faults would lose more. Pure, and no verdict:
that is for the checkers, by all that was read. They also find losses of which there was no sign.
That a log ends before a message is none: a new master shows less than it has for a while.
"""

from collections.abc import Iterator
from typing import Any

from maxq.histories.op import Op


class FirstLoss:
    """What was acknowledged, by queue and offset."""

    def __init__(self) -> None:
        self._acknowledged: dict[tuple[str, int], Any] = {}

    def take(self, op: Op) -> str:
        """What an operation of the workload queue shows, in a sentence; empty: no loss."""
        if op.type != "ok" or op.f not in ("send", "poll"):
            return ""
        return next(self._shown(op), "")

    def _shown(self, op: Op) -> Iterator[str]:
        """What has the place of another one."""
        for word, *said in op.value:
            if word == "send":
                key, (offset, value) = said
                before = self._acknowledged.setdefault((str(key), offset), value)
                if before != value:
                    yield f"{_at(key, offset, before)}, and later {value} was"
            for key, messages in said[0].items() if word == "poll" and said else ():
                for offset, value in messages:
                    before = self._acknowledged.get((str(key), offset), value)
                    if before != value:
                        yield f"{_at(key, offset, before)}, and {value} was read there"


def _at(key: Any, offset: int, value: Any) -> str:
    return f"message {value} of queue {key} was acknowledged at offset {offset}"
