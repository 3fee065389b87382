"""What logs at rest show of sends without an answer, and of which they show nothing."""

import random
from typing import Any

import msgspec
import pytest
from cluster_recorder import Cluster, set_view

from maxq.checkers.core.api import Context
from maxq.checkers.judgement.settled import settled
from maxq.checkers.models.catalogue import models
from maxq.checkers.models.judged import judge
from maxq.checkers.replication.replicas import Replicas
from maxq.histories.history import History
from maxq.histories.observed import ReplicaLog
from maxq.histories.op import RESOLVED, Op

CONTEXT = Context(broker_sets={"b0": ("b0-0", "b0-1", "b0-2")})
LOST, KEPT = 11, 12  # values of sends that nobody answered
HISTORIES = 300
Record = tuple[int, int, Any]


def run(*, members: tuple[int, ...] = (1, 2, 3), holds: bool = True) -> Cluster:
    """An acknowledged message, two that were not answered, and a fault that was healed."""
    r = Cluster()
    r.send(0, 10, 0, node="b0")
    r.fault("kill", **{"b0-1": True})
    r.send(0, LOST, op_type="info")
    r.send(1, KEPT, op_type="info")
    r.fault("start", **{"b0-1": holds})
    r.controllers(set_view(2, 4, 1, *members))
    return r


def stored(r: Cluster, n: int, *values: int, start: int = 0, whole: bool = True) -> None:
    """The log of a replica: one epoch of small messages."""
    records = tuple((0, at, value) for at, value in enumerate(values))
    r.store(ReplicaLog(
        node=f"b0-{n}", set="b0", id=n + 1, epoch=1, start=start, end=start + 100 * len(values),
        last=whole, digests=(f"{values}",) if values else (), records=records,
    ))  # fmt: skip


def resolved(r: Cluster) -> dict[int, str]:
    """By the value of the send."""
    marked = (op for op in settled(r.history) if (op.ext or {}).get(RESOLVED))
    return {op.value[0][2]: (op.ext or {})[RESOLVED] for op in marked if op.type == "info"}


def test_both_are_known_where_every_member_was_read() -> None:
    r = run()
    for n in range(3):
        stored(r, n, 10, KEPT)
    assert resolved(r) == {LOST: "absent", KEPT: "committed"}
    counts = Replicas().check(r.history, CONTEXT).counts
    assert counts["unanswered-sends"] == 2
    assert (counts["of-these-in-the-logs"], counts["of-these-in-no-log"]) == (1, 1)
    assert [op.type for op in settled(r.history)] == [op.type for op in r.history]


def _one_member(r: Cluster) -> None:
    stored(r, 0, 10, KEPT)


def _outsider_has_it(r: Cluster) -> None:
    for n in range(2):
        stored(r, n, 10, KEPT)
    stored(r, 2, 10, LOST)


def _begins_later(r: Cluster) -> None:
    for n in range(3):
        stored(r, n, 10, KEPT, start=5_000)


def _polled(r: Cluster) -> None:
    r.poll(3, (1, LOST))
    for n in range(3):
        stored(r, n, 10, KEPT)


def _goes_on(r: Cluster) -> None:
    for n in range(3):
        stored(r, n, 10, KEPT)
    r.poll(3, (0, 10))


@pytest.mark.parametrize(
    ("read", "members"),
    [
        (_one_member, (1, 2, 3)), (_outsider_has_it, (1, 2)), (_begins_later, (1, 2, 3)),
        (_polled, (1, 2, 3)), (_goes_on, (1, 2, 3)),
    ],
)  # fmt: skip
def test_nothing_is_called_absent_that_may_be_somewhere(
    read: Any, members: tuple[int, ...]
) -> None:
    r = run(members=members)
    read(r)
    assert resolved(r) == {KEPT: "committed"}


def test_a_client_that_is_still_at_it_may_try_again() -> None:
    r = Cluster()
    r.begin(0, "send", [["send", 0, LOST]])
    r.controllers(set_view(2, 4, 1, 1, 2))
    for n in range(2):
        stored(r, n, 10)
    assert resolved(r) == {}


def _member_lacks_it(r: Cluster) -> None:
    stored(r, 0, 10, KEPT)
    stored(r, 1, 10)


def _epoch_missing(r: Cluster) -> None:
    stored(r, 0, 10, KEPT, whole=False)


def _sent_later(r: Cluster) -> None:
    stored(r, 0, 10, KEPT)
    r.send(0, 13, 2, node="b0")


def _heal_unknown(r: Cluster) -> None:
    stored(r, 0, 10, KEPT)


@pytest.mark.parametrize(
    ("read", "holds"),
    [(_member_lacks_it, True), (_epoch_missing, True), (_sent_later, True), (_heal_unknown, False)],
)
def test_nothing_is_said_of_logs_that_say_little(read: Any, holds: bool) -> None:
    r = run(holds=holds)
    read(r)
    assert resolved(r) == {}


def drawn(rng: random.Random) -> tuple[Cluster, set[int]]:
    """A run of a log with offsets, and which of its unanswered sends took effect."""
    r = Cluster()
    r.fault("kill", **{"b0-1": True})
    log: list[int] = []
    happened: set[int] = set()
    for value in range(rng.randint(2, 6)):
        if rng.random() < 0.5:
            r.send(value, value, len(log), node="b0")
            log.append(value)
            continue
        r.send(value, value, op_type="info")
        if rng.random() < 0.5:
            log.append(value)
            happened.add(value)
    shown = [(at, value) for at, value in enumerate(log) if rng.random() < 0.8]
    if shown:
        r.poll(20, *shown)
    r.fault("start", **{"b0-1": True})
    r.controllers(set_view(2, 4, 1, 1, 2))
    for n in rng.sample(range(3), rng.choice((2, 3))):
        stored(r, n, *log)
    return r, happened


def test_what_is_said_is_true() -> None:
    rng = random.Random(5)
    said = 0
    for _ in range(HISTORIES):
        r, happened = drawn(rng)
        for value, what in resolved(r).items():
            assert (what == "committed") == (value in happened)
            said += 1
    assert said > HISTORIES


def test_a_settled_verdict_is_that_of_a_history_which_says_so_itself() -> None:
    """By a model that searches: what is absent might as well have failed, and nothing more is
    concluded; so no verdict is stronger than with these operations replaced."""
    rng = random.Random(6)
    model = models()["register"]
    verdicts = set()
    for _ in range(HISTORIES):
        ops = [*_register(rng)]
        replaced = [_failed(op) if (op.ext or {}).get(RESOLVED) == "absent" else op for op in ops]
        plain = [msgspec.structs.replace(op, ext=None) for op in ops]
        own, other, less = (
            judge(model, History(each), lambda: False).valid for each in (ops, replaced, plain)
        )
        assert own in (other, "unknown")
        assert less is True or own is not True  # what is left out explains nothing any more
        verdicts.add((own, less))
    assert verdicts >= {(True, True), (False, False), (False, True)}


def _failed(op: Op) -> Op:
    return Op("fail", op.process, op.f, op.value, op.error, op.index, op.time)


def _register(rng: random.Random) -> list[Op]:
    ops: list[Op] = []
    for process in range(rng.randint(2, 5)):
        f = rng.choice(("write", "read"))
        value = rng.randrange(3)
        ops.append(Op("invoke", process, f, value if f == "write" else None, index=len(ops)))
        if f == "write" and rng.random() < 0.5:
            ext = {RESOLVED: rng.choice(("absent", "committed"))} if rng.random() < 0.7 else None
            ops.append(Op("info", process, f, value, index=len(ops), ext=ext))
        else:
            ops.append(Op("ok", process, f, value, index=len(ops)))
    return ops
