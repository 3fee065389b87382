"""What clients were answered while nothing that they asked for succeeded: measured, not judged.

A period without success lies between two operations of one kind that were `ok`. It is as long as
its own failures show: from the first one's begin, or the success before it, to the last one's end.
So time in which nobody asked for anything is none. Sends and polls are looked at by broker set
where a run has several: of other kinds a failure does not say which one it asked. Times are ns of
the history's clock.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.core.api import Answer, Context, Stretch, Verdict
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.histories.grounds import FINAL_READ, PROBE, declared
from maxq.histories.history import History
from maxq.histories.observed import (
    ACQUIRE,
    APPLY_ID,
    COMMIT_OFFSET,
    END_TRANSACTION,
    FETCH_OFFSET,
    NOT_GRANTED,
    READ_DELAYED,
    READ_ORDERED,
    READ_TRANSACTIONS,
    SEND_DELAYED,
    SEND_DELAYED_ALONE,
    SEND_HALF,
    SEND_ORDERED,
)
from maxq.histories.op import Op

if TYPE_CHECKING:
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

KINDS = frozenset((
    "send", "poll", ACQUIRE, APPLY_ID, COMMIT_OFFSET, FETCH_OFFSET, SEND_DELAYED,
    SEND_DELAYED_ALONE, READ_DELAYED, SEND_ORDERED, READ_ORDERED, SEND_HALF, END_TRANSACTION,
    READ_TRANSACTIONS,
))  # fmt: skip
BY_SET = frozenset(("send", "poll"))
LENGTH_NS_MIN = 1_000_000_000  # of a stretch that is reported
STRETCHES_MAX, NAMED_MAX = 20, 2  # the longest of a kind; its most frequent answers
SHARE_MIN = 0.01  # of what failed, for an answer that is named beside another one
GIST_MAX = 60  # characters of a remark
SERVED = frozenset((NOT_GRANTED, "offset-moved"))  # right answers of a cluster that works
UNASKED = frozenset(("nothing-assigned", "place-unknown", "no-such-operation", "no-client"))
# Codes that say nothing without their remark.
VAGUE = re.compile(r"SYSTEM_ERROR|SYSTEM_BUSY|RESPONSE_\d+")
WORDS: Mapping[str, str] = {
    "timeout": "no answer in time",
    "TimeoutError": "no answer in time",
    "connection-lost": "connection lost",
    "ConnectionLost": "connection lost",
    "not-sent": "no connection",
    "NotSent": "no connection",
    "no-route": "no route to a broker",
    "not-writable": "not writable by the route",
    "not-readable": "not readable by the route",
    "bad-answer": "an answer that cannot be read",
}
_CLAUSE = re.compile(r"[,;:(\n]|\. |\d{1,3}(?:\.\d{1,3}){3}")
_NUMBER = re.compile(r"\d+")


class Done(NamedTuple):
    """A completion: by which answer it failed; None: it was a success."""

    at: int
    at_ns: int
    begun_ns: int
    answer: str | None


class Answers(KeyedChecker):
    """The checker. Its keys are a kind of operation and a broker set, empty where there is one."""

    name = "answers"
    claims: tuple[str, ...] = ()
    reads = KINDS

    def prepare(self, history: History, context: Context) -> Mapping[int, str]:
        """The broker set of each queue; none where there is one set."""
        begun = history.run[0]
        of_keys = [g for g in (declared(begun) if begun else ()) if g[0] in (PROBE, FINAL_READ)]
        found: dict[int, str] = {key: name for _, key, name, *_ in of_keys}
        return found if len(set(found.values())) > 1 else {}

    def sift(self, rows: "Rows", chosen: "Ints", known: Mapping[int, str]) -> "Ints":
        from maxq.checkers.availability import send_columns  # numpy, for those who have columns

        return send_columns.failing(rows, chosen, _served, known, LENGTH_NS_MIN)

    def rows(
        self, event: Event, known: Mapping[int, str]
    ) -> Iterator[tuple[tuple[str, str], Done]]:
        op, begun = event.op, event.begun
        if op.type == "invoke" or begun is None or begun.time < 0:
            return
        answer = None if op.type == "ok" else answer_of(op.error)
        if answer in UNASKED:
            return
        done = Done(op.index, op.time, begun.time, None if answer in SERVED else answer)
        yield (op.f, _set(op, begun.value, known)), done

    def judge(
        self, key: tuple[str, str], rows: Sequence[Done], known: object, more: object = None
    ) -> tuple[Stretch, ...]:
        found: list[Stretch] = []
        failed: list[Done] = []
        since_ns = 0
        for row in rows:
            if row.answer is not None:
                failed.append(row)
                continue
            found += _stretch(key, failed, since_ns)
            failed, since_ns = [], row.at_ns
        found += _stretch(key, failed, since_ns)
        longest = sorted(found, key=lambda s: s.from_ns - s.until_ns)[:STRETCHES_MAX]
        return tuple(sorted(longest, key=lambda s: s.from_ns))

    def conclude(
        self,
        history: History,
        context: Context,
        known: object,
        results: Mapping[tuple[str, str], tuple[Stretch, ...]],
    ) -> Verdict:
        each = (stretch for _, found in sorted(results.items()) for stretch in found)
        return Verdict(checker=self.name, stretches=tuple(each))


def _served(error: object) -> bool:
    """Whether an operation that was not `ok` was served all the same."""
    return answer_of(error) in SERVED


def _set(op: Op, value: object, known: Mapping[int, str]) -> str:
    """The broker set that was asked, as far as it matters and is known: a success says it."""
    if not known or op.f not in BY_SET:
        return ""
    match (op.ext or {}).get("node"), value:
        case str(name), _:
            return name
        case None, [["send", int(key), *_]] | (("send", int(key), *_),) if op.type != "ok":
            return known.get(key, "")
    return ""


def _stretch(key: tuple[str, str], failed: Sequence[Done], since_ns: int) -> list[Stretch]:
    """What failed between two successes, if that is long enough."""
    if not failed:
        return []
    from_ns = max(since_ns, min(row.begun_ns for row in failed))
    until_ns = max(row.at_ns for row in failed)
    if until_ns - from_ns < LENGTH_NS_MIN:
        return []
    by_name: dict[str, list[Done]] = {}
    for row in failed:
        by_name.setdefault(str(row.answer), []).append(row)
    most = sorted(by_name.items(), key=lambda each: (-len(each[1]), each[0]))[:NAMED_MAX]
    most = [most[0], *(each for each in most[1:] if len(each[1]) >= SHARE_MIN * len(failed))]
    answers = [Answer(name=name, count=len(rows), first_ns=rows[0].at_ns, last_ns=rows[-1].at_ns)
               for name, rows in most]  # fmt: skip
    return [Stretch(
        f=key[0], set=key[1], from_ns=from_ns, until_ns=until_ns,
        first=failed[0].at, last=failed[-1].at, failed=len(failed),
        answers=tuple(sorted(answers, key=lambda a: (a.first_ns, a.name))),
    )]  # fmt: skip


def answer_of(error: object) -> str:
    """The name of what a client was answered, or of what came instead of an answer.

    Args:
        error: of an operation: a word, or a word and what else was said.
    """
    name, said = (error, "") if isinstance(error, str) else ("", "")
    if isinstance(error, list | tuple) and error:
        name, said = str(error[0]), str(error[1]) if len(error) > 1 else ""
    name = name.partition(":")[0]
    if VAGUE.fullmatch(name) and (gist := _gist(said)):
        return f"'{gist}'"
    return WORDS.get(name, name or "no reason given")


def _gist(remark: str) -> str:
    """The first clause of a remark, without what differs from one answer to the next."""
    for clause in _CLAUSE.split(remark):
        if text := _NUMBER.sub("N", clause).strip(" .'\""):
            return text[:GIST_MAX]
    return ""
