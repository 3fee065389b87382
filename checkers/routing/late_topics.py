"""Topics that came into being during a run: measured, not judged.

That a topic is there shows a broker's answer, to an operator or to who sent there. A master has
forgotten it that tells a reader so who has read of it, or an observer after the last heal. That
breaks nothing that RocketMQ promises: slaves copy topics every ten seconds, and a fail-over before
that forgets them (docs/spec/controller-ha.md 6.4 (H17)). Its acknowledged messages are in the log
all the same, and are judged like any other (S6) once the topic is made again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.core.api import Context, MalformedError, Verdict
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.histories.history import History
from maxq.histories.observed import CREATE_TOPIC, FIND_TOPIC, FORGOTTEN_TOPIC, NEW_TOPIC

if TYPE_CHECKING:
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

MADE, FORGOTTEN = "made", "forgotten"  # what is counted, of topics on broker sets


class Seen(NamedTuple):
    """A topic was there on a broker set (None), or a master was asked: does it know it?"""

    at: int
    known: bool | None


class LateTopics(KeyedChecker):
    """The checker. Its keys are queues, one of each topic on each broker set."""

    name = "late-topics"
    claims: tuple[str, ...] = ()
    reads = frozenset(("send", "poll", CREATE_TOPIC, FIND_TOPIC))

    def prepare(self, history: History, context: Context) -> None:
        """Nothing."""

    def sift(self, rows: "Rows", chosen: "Ints", known: None) -> "Ints":
        topics = rows.is_of(chosen, CREATE_TOPIC, FIND_TOPIC)
        marked = rows.ext_has(chosen, NEW_TOPIC) | rows.ext_has(chosen, FORGOTTEN_TOPIC)
        return chosen[topics | marked]

    def rows(self, event: Event, known: None) -> Iterator[tuple[int, Seen]]:
        op, ext = event.op, event.op.ext or {}
        if op.f == "poll":
            if isinstance(key := ext.get(FORGOTTEN_TOPIC), int):
                yield key, Seen(op.index, known=False)
            return
        if op.type != "ok" or (op.f == "send" and NEW_TOPIC not in ext):
            return
        match op.f, op.value:
            case "send", [[_, int(key), *_]] | ((_, int(key), *_),):
                yield key, Seen(op.index, None)
            case "create-topic", {"key": int(key)}:
                yield key, Seen(op.index, None)
            case "find-topic", {"key": int(key), "master": str(master), "known": dict(those)}:
                yield key, Seen(op.index, bool(those.get(master)))
            case _:
                raise MalformedError(f"W9: value of {op.index} is no topic's: {op.value!r:.100}")

    def judge(
        self, key: int, rows: Sequence[Seen], known: None, more: object = None
    ) -> tuple[bool, bool]:
        """Whether the topic was made in the course of the run, and whether it was forgotten."""
        there = [row.at for row in rows if row.known is not False]
        end = next((row.at for row in rows if row.known is not None), rows[-1].at)
        missed = [row.at for row in rows if row.known is False]
        made = bool(there) and there[0] <= end
        return made, made and any(at > there[0] for at in missed)

    def conclude(
        self,
        history: History,
        context: Context,
        known: None,
        results: Mapping[int, tuple[bool, bool]],
    ) -> Verdict:
        made, forgotten = (sum(of[n] for of in results.values()) for n in range(2))
        return Verdict(checker=self.name, counts={MADE: made, FORGOTTEN: forgotten})
