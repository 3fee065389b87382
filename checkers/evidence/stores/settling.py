"""What happened to sends that were not answered, by the logs of the replicas at rest.

A send without an answer may have taken effect or not. Where every member's log was read whole after
the last heal, it often shows which: *committed* if the message is in all of these logs, *absent* if
it is in no log that was read of any replica. Nothing is said

* of a set whose logs were read before its last send was over, or whose members are not known;
* *absent* of a call that was never over, since its client may try again; of one whose message a
  poll showed; where a log does not begin at its first byte, since messages may have been deleted;
  and where a member was not read.

The facts stand beside what was recorded (`RESOLVED` in a completion's `ext`): the operation stays
one without an answer, and who judges takes of it what is sound for its claim.

Source: docs/spec/checkers.md 5.1.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from maxq.checkers.core.elements import elements_of
from maxq.checkers.core.keyed import Event
from maxq.histories.history import History
from maxq.histories.observed import REPLICA_LOG
from maxq.histories.op import ABSENT, COMMITTED, RESOLVED

MESSAGES = ("send", "poll", "txn")
Message = tuple[int, Any]  # key and value; whoever sends uses a value once


class Unanswered(NamedTuple):
    """A send without an answer: its completion, or its invocation where it was never over."""

    key: int
    value: Any
    at: int
    over: bool


class ReadLog(NamedTuple):
    """A replica's log as it was read: the replica's id, whether no epoch is missing, the byte at
    which it begins, before which index the reading had not begun, and which of the messages that
    are sought it has."""

    id: int | None
    complete: bool
    start: int
    read_at: int
    held: Collection[Message]


class Logs(NamedTuple):
    """The logs of a set, which ids are members, since when all is healed, and whether no message
    was deleted for its age."""

    read: Sequence[ReadLog]
    members: Collection[int]
    healed: int
    undeleted: bool


def unanswered_of(event: Event) -> Iterator[Unanswered]:
    """The messages of a send that was not answered."""
    op = event.op
    if op.f == "send" and (op.type == "info" or event.open):
        for e in elements_of(op, event.begun):
            yield Unanswered(e.key, e.value, op.index, not event.open)


def settle(
    unsure: Sequence[Unanswered], sent: Sequence[int], logs: Logs
) -> tuple[tuple[int, str], ...]:
    """Which sends of a set became known, by index, and as what.

    Args:
        unsure: the sends without an answer.
        sent: when others were over, by index.
        logs: what was read.
    """
    if not unsure:
        return ()
    of_members = [
        log
        for log in logs.read
        if log.id in logs.members and log.complete and log.read_at > logs.healed
    ]
    last = max((*sent, *(u.at for u in unsure)))
    if not of_members or last > min(log.read_at for log in logs.read):
        return ()
    whole = logs.undeleted and all(not log.start for log in of_members)
    every = whole and {log.id for log in of_members} == {*logs.members}
    found = []
    for u in sorted(unsure, key=lambda u: u.at):
        message = u.key, u.value
        if all(message in log.held for log in of_members):
            found.append((u.at, COMMITTED))
        elif every and u.over and not any(message in log.held for log in logs.read):
            found.append((u.at, ABSENT))
    return tuple(found)


def with_resolved(history: History, known: Mapping[int, str]) -> History:
    """A history with what became known beside its completions; of a history that goes on after its
    logs were read, and of messages that were polled, nothing is said to be absent."""
    asked = [op.index for op in history.of_f(REPLICA_LOG) if op.type == "invoke"]
    goes_on = any(op.index > min(asked, default=0) for op in history.of_f(*MESSAGES))
    polled = {
        (e.key, e.value)
        for op in history.of_f("poll", "txn")
        if op.is_client and op.type != "invoke"
        for e in elements_of(op, history.invocation(op))
        if e.kind == "polled"
    }
    marks = {}
    for index, what in known.items():
        op = history[index]
        seen = {(e.key, e.value) for e in elements_of(op, history.invocation(op))} & polled
        if op.type == "info" and not (what == ABSENT and (goes_on or seen)):
            marks[index] = what
    return History(
        msgspec.structs.replace(op, ext={**(op.ext or {}), RESOLVED: marks[op.index]})
        if op.index in marks else op
        for op in history
    )  # fmt: skip
