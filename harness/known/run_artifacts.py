"""What a run leaves behind, as the counters of decisions read it: its history and its nodes' logs.

A log is a list of events: what one of RocketMQ's own loggers wrote, with the first lines of the
trace that follows it. Times are of the day, as the log has them (``18:55:59.966``), by one clock
for all nodes of a machine. Controllers that agree by jRaft apply every request, each of them, and
so write every decision, and again when they start again; of those that agree by DLedger only the
one that leads writes, once.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from maxq.harness.contracts.target import Profile
from maxq.histories.history import History

LOG = "node.log"
APPLIED = "process event: term"  # and the term, the index and the request's code
LOGGERS = (
    "RocketmqBroker", "RocketmqStore", "RocketmqController", "RocketmqNamesrv",
    "RocketmqTransaction",
)  # fmt: skip
TRACE_LINES = 6  # of each trace: the exception, what it says, and where it came from
TRACE_CHARS = 400
DAY_S = 86_400
_LINE = re.compile(r"(?P<at>\d\d:\d\d:\d\d\.\d{3}) \w+ +(?P<logger>\S+) - (?P<text>.*)")
BROKER, CONTROLLER, NAMESRV = (
    "b",
    "c",
    "n",
)  # as names of nodes begin; spares are brokers of another letter
SPARE = "r"


class Event(NamedTuple):
    """Something that a node wrote."""

    at: str
    text: str


def seconds(at: str) -> float:
    """The time of an event, since midnight."""
    hours, minutes, rest = at.split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(rest)


class RunArtifacts(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is over. `zero_wall_ms` is the wall clock at time 0 of its history, in ms since
    1970; None: unknown. A `pair` has no controllers. `settings` are the effective ones, by the keys
    of ``maxq.checkers.core.promises``; `back_end` is what controllers agree by."""

    logs: dict[str, tuple[Event, ...]]
    history: History
    profile: Profile
    settings: dict[str, str] = {}
    back_end: str = ""
    zero_wall_ms: int | None = None
    pair: bool = False

    def brokers(self) -> Iterator[tuple[Event, ...]]:
        """The logs of all brokers."""
        return (log for name, log in sorted(self.logs.items()) if name[0] in (BROKER, SPARE))

    def controllers(self) -> Iterator[tuple[Event, ...]]:
        """The logs of all controllers."""
        return (log for name, log in sorted(self.logs.items()) if name[0] == CONTROLLER)

    def namesrvs(self) -> Iterator[tuple[Event, ...]]:
        """The logs of all name servers."""
        return (log for name, log in sorted(self.logs.items()) if name[0] == NAMESRV)

    def decided(self, count: Callable[[Sequence[Event]], int]) -> int:
        """How many decisions of controllers there were, by a count of each one's log: of the one
        that has most where each of them writes all, else of all together."""
        counts = [count(list(once(log))) for log in self.controllers()]
        return max(counts, default=0) if self.back_end == "jraft" else sum(counts)


def once(log: Iterable[Event]) -> Iterator[Event]:
    """A controller's log without what it applied before: one that starts again goes through its
    Raft log once more, and with jRaft says of each request which one it is."""
    seen = set[str]()
    for event in log:
        if event.text.startswith(APPLIED):
            if event.text in seen:
                continue
            seen.add(event.text)
        yield event


def events(lines: Iterable[str]) -> Iterator[Event]:
    """What RocketMQ wrote, of the lines of a log. A trace behind nothing that is kept is an event
    of its own: so end processes whose start failed."""
    at, text, left = "", "", 0
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            if left:
                text += "\n" + line.rstrip()[:TRACE_CHARS]
                left -= 1
            continue
        if text:
            yield Event(at, text)
        kept = found["logger"] in LOGGERS
        at, text, left = found["at"], found["text"] if kept else "", TRACE_LINES
    if text:
        yield Event(at, text)


def read_logs(folder: Path) -> dict[str, tuple[Event, ...]]:
    """The logs of a run's nodes, by name; of its folder ``nodes``."""
    logs = {}
    for path in sorted(folder.glob(f"*/{LOG}")):
        with path.open(encoding="utf-8", errors="replace") as lines:
            logs[path.parent.name] = tuple(events(lines))
    return logs
