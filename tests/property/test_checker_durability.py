"""Durability against histories that are correct by construction, and with one planted anomaly.

A small model of a log makes the histories: sends overlap, some are never answered and take effect
late or never, offsets have gaps, consumers read at their own pace, and one drain reads everything.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.checkers.core.api import Checker, Context, Verdict
from maxq.checkers.core.stats import Stats
from maxq.checkers.judgement.piecewise.by_columns import judge_batches
from maxq.checkers.judgement.piecewise.dealt import Request
from maxq.checkers.judgement.runner import check_all
from maxq.checkers.messages.durability import ALLOWED, CLAIMS, Durability
from maxq.histories.columns.outline import batches_of
from maxq.histories.history import History, wellformed
from maxq.histories.op import Op, OpType
from maxq.histories.tables import events_table

CONCURRENCY = 5
NAMES = {*CLAIMS, *ALLOWED}
ORDER = {"poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll"}


class Cluster:
    """The model: what is in each log, and who is doing what."""

    def __init__(self, keys: int) -> None:
        self.ops: list[Op] = []
        self.logs: list[list[tuple[int, int]]] = [[] for _ in range(keys)]
        self.process = list(range(CONCURRENCY))  # by thread
        self.pending: dict[int, tuple[int, int]] = {}  # thread -> key and value it is sending
        self.late: list[tuple[int, int]] = []  # sends without an answer
        self.acked: list[tuple[int, int, int]] = []  # key, value, offset
        self.position: dict[tuple[int, int], int] = {}  # consumer's process and key
        self.value = 0

    def add(self, op_type: OpType, process: int, f: str, value: Any, **ext: Any) -> None:
        at = len(self.ops)
        self.ops.append(Op(op_type, process, f, value, None, at, at, ext or None))

    def append(self, key: int, value: int, gap: int) -> int:
        log = self.logs[key]
        offset = (log[-1][0] + 1 if log else 0) + gap
        log.append((offset, value))
        return offset

    def begin_send(self, thread: int, key: int) -> None:
        self.value += 1
        self.pending[thread] = (key, self.value)
        self.add("invoke", self.process[thread], "send", [["send", key, self.value]])

    def end_send(self, thread: int, answer: str, gap: int) -> None:
        key, value = self.pending.pop(thread)
        process = self.process[thread]
        if answer == "ok":
            offset = self.append(key, value, gap)
            self.acked.append((key, value, offset))
            self.add("ok", process, "send", [["send", key, [offset, value]]])
        elif answer == "fail":
            self.add("fail", process, "send", [["send", key, value]])
        else:
            self.late.append((key, value))
            self.process[thread] += CONCURRENCY
            self.add("info", process, "send", [["send", key, value]])

    def send(self, key: int, answer: str) -> None:
        """One more send, by a thread that is free afterwards."""
        if 0 in self.pending:
            self.end_send(0, "ok", 0)
        self.begin_send(0, key)
        self.end_send(0, answer, 0)

    def poll(self, thread: int, key: int, count: int) -> bool:
        process = self.process[thread]
        at = self.position.get((process, key), 0)
        got = self.logs[key][at : at + count]
        self.position[process, key] = at + len(got)
        self.add("invoke", process, "poll", [["poll"]])
        log = self.logs[key]
        more = at + len(got) < len(log)
        end = {} if more else {"end": {key: log[-1][0] + 1 if log else 0}}
        self.add("ok", process, "poll", [["poll", {key: [list(m) for m in got]}]], **end)
        return more

    def drain(self, count: int) -> None:
        self.process[3] += CONCURRENCY
        process, keys = self.process[3], list(range(len(self.logs)))
        seek = {"seek-to-beginning?": True}
        self.add("invoke", process, "assign", keys, **seek)
        self.add("ok", process, "assign", keys, **seek)
        for key in keys:
            while self.poll(3, key, count):
                pass


STEPS = st.tuples(
    st.sampled_from(["send", "send", "ok", "ok", "info", "fail", "late", "poll", "poll"]),
    st.integers(0, 4),
    st.integers(0, 3),
)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A cluster after its run, before the drain; threads 0 to 2 send, 3 and 4 poll."""
    cluster = Cluster(draw(st.integers(1, 2)))
    gaps = draw(st.booleans())
    for what, a, b in [
        ("send", 0, 0),
        ("ok", 0, 0),
        *draw(st.lists(STEPS, min_size=8, max_size=50)),
    ]:
        thread, key, gap = a % 3, b % len(cluster.logs), b if gaps else 0
        if what == "send" and thread not in cluster.pending:
            cluster.begin_send(thread, key)
        elif what in ("ok", "info", "fail") and thread in cluster.pending:
            cluster.end_send(thread, what, gap)
        elif what == "late" and cluster.late:
            cluster.append(*cluster.late.pop(), gap)
        elif what == "poll":
            cluster.poll(3 + a % 2, key, b)
    return cluster


def _judge(ops: list[Op]) -> Verdict:
    history = History(ops)
    assert wellformed(history) == []
    return Durability().check(history, Context())


def _found(verdict: Verdict) -> set[str]:
    return {name for name in verdict.counts if name in NAMES}


def _edited(ops: list[Op], edit: Callable[[int, list[Any]], list[Any]]) -> list[Op]:
    """Change what polls of each key returned."""
    done: list[Op] = []
    for op in ops:
        if op.f == "poll" and op.type == "ok":
            polled = {k: edit(k, messages) for k, messages in op.value[0][1].items()}
            op = msgspec.structs.replace(op, value=[["poll", polled]])
        done.append(op)
    return done


def _with_last(cluster: Cluster, key: int, value: int) -> list[Op]:
    """One more message at the end of a log, of which the model knows nothing."""
    cluster.append(key, value, 0)
    cluster.drain(3)
    return cluster.ops


@given(clusters(), st.integers(1, 4))
def test_a_correct_history_is_valid(cluster: Cluster, count: int) -> None:
    cluster.drain(count)

    verdict = _judge(cluster.ops)
    assert (verdict.valid, _found(verdict), verdict.anomalies) == (True, set(), ())


@given(clusters(), st.data())
def test_a_dropped_message_is_lost(cluster: Cluster, data: st.DataObject) -> None:
    cluster.drain(3)
    key, value, offset = data.draw(st.sampled_from(cluster.acked))
    ops = _edited(cluster.ops, lambda k, ms: [m for m in ms if (k, m[1]) != (key, value)])

    verdict = _judge(ops)
    kind = "lost-tail" if cluster.logs[key][-1] == (offset, value) else "lost-write"
    assert verdict.valid is False
    assert {kind} <= _found(verdict) <= {kind, "poll-skip", "int-poll-skip"}
    (lost,) = (a for a in verdict.anomalies if a.name == kind)
    assert (lost.detail["key"], lost.detail["value"]) == (key, value)


@given(clusters(), st.data())
def test_a_message_gone_from_the_final_log_is_lost_and_truncated(
    cluster: Cluster, data: st.DataObject
) -> None:
    """S6, S10: somebody had seen it, but it is not in the drain."""
    key, value, _ = data.draw(st.sampled_from(cluster.acked))
    seen = any(value in _values(op, key) for op in cluster.ops)
    before = len(cluster.ops)
    cluster.drain(3)
    after = _edited(
        cluster.ops[before:], lambda k, ms: [m for m in ms if (k, m[1]) != (key, value)]
    )

    verdict = _judge([*cluster.ops[:before], *after])
    assert verdict.valid is False
    assert ("truncation" in _found(verdict)) == seen
    lost = [a.detail["value"] for a in verdict.anomalies if a.name in ("lost-tail", "lost-write")]
    assert lost == [value]


def _values(op: Op, key: int) -> list[int]:
    if op.f != "poll" or op.type != "ok":
        return []
    return [v for _, v in op.value[0][1].get(key, [])]


@given(clusters(), st.data())
def test_a_second_copy_is_a_duplicate(cluster: Cluster, data: st.DataObject) -> None:
    key, value, offset = data.draw(st.sampled_from(cluster.acked))
    copy = cluster.append(key, value, 0)
    cluster.drain(3)

    verdict = _judge(cluster.ops)
    assert verdict.valid is False
    assert {"duplicate"} <= _found(verdict) <= {"duplicate", "nonmonotonic-send", *ORDER}
    (duplicate,) = (a for a in verdict.anomalies if a.name == "duplicate")
    assert duplicate.detail == {"key": key, "value": value, "count": 2, "offsets": [offset, copy]}


@given(clusters(), st.data())
def test_two_swapped_messages_are_out_of_order(cluster: Cluster, data: st.DataObject) -> None:
    cluster.send(0, "ok")
    cluster.send(0, "ok")
    cluster.drain(3)
    pairs = [
        (op.index, key, at)
        for op in cluster.ops
        if op.f == "poll" and op.type == "ok"
        for key, messages in op.value[0][1].items()
        for at in range(len(messages) - 1)
    ]
    index, key, at = data.draw(st.sampled_from(pairs))
    messages = cluster.ops[index].value[0][1][key]
    messages[at], messages[at + 1] = messages[at + 1], messages[at]

    verdict = _judge(cluster.ops)
    assert verdict.valid is False
    assert {"int-nonmonotonic-poll"} <= _found(verdict) <= ORDER


@given(clusters())
def test_a_message_of_nobody_is_a_phantom(cluster: Cluster) -> None:
    assert _found(_judge(_with_last(cluster, 0, 999))) == {"phantom"}


@given(clusters())
def test_a_failed_send_that_is_read_is_aborted(cluster: Cluster) -> None:
    cluster.send(0, "fail")
    assert _found(_judge(_with_last(cluster, 0, cluster.value))) == {"G1a"}


@given(clusters(), st.data())
def test_an_offset_that_changed_its_message(cluster: Cluster, data: st.DataObject) -> None:
    """S11, and S10 since somebody saw what is there no more."""
    key, value, offset = data.draw(st.sampled_from(cluster.acked))
    cluster.add("invoke", 1000, "poll", [["poll"]])
    cluster.add("ok", 1000, "poll", [["poll", {key: [[offset, "corrupt:ff"]]}]])
    cluster.drain(3)

    verdict = _judge(cluster.ops)
    assert {"inconsistent-offsets", "phantom"} <= _found(verdict)
    assert _found(verdict) <= {"inconsistent-offsets", "phantom", "truncation"}
    held = next(a for a in verdict.anomalies if a.name == "inconsistent-offsets")
    assert held.detail["values"] == [value, "corrupt:ff"]


SPOILS = st.lists(
    st.tuples(
        st.sampled_from(["drop", "vanish", "swap", "twice", "unread", "unsure", "failed", "moved"]),
        st.integers(0, 99),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=4,
)


def _spoilt(ops: list[Op], how: str, a: int, b: int) -> list[Op]:
    """One thing wrong with an operation, or with a message wherever it is shown."""
    of = ("send",) if how in ("unsure", "failed", "moved") else ("poll",)
    chosen = [n for n, op in enumerate(ops) if op.f in of and op.type == "ok"]
    shown = [(k, m) for op in ops for k, v in _polled(op) for m in v]
    if not chosen or not shown:
        return ops
    at = chosen[a % len(chosen)]
    if how == "vanish":  # every poll shows it no more
        lost = shown[a % len(shown)]
        return _edited(ops, lambda k, ms: [m for m in ms if (k, m) != lost])
    return [*ops[:at], _spoilt_op(ops[at], how, b), *ops[at + 1 :]]


def _polled(op: Op) -> list[tuple[int, list[Any]]]:
    return list(op.value[0][1].items()) if op.f == "poll" and op.type == "ok" else []


def _spoilt_op(op: Op, how: str, b: int) -> Op:
    if how in ("unsure", "failed"):
        kind: OpType = "info" if how == "unsure" else "fail"
        return msgspec.structs.replace(op, type=kind)
    if how == "moved":
        (_, key, (offset, value)) = op.value[0]
        return msgspec.structs.replace(op, value=[["send", key, [offset + b, value]]])
    if how == "unread":
        return msgspec.structs.replace(op, value=[["poll", {}]])
    polled = {key: [*messages] for key, messages in _polled(op)}
    for messages in polled.values():
        if messages:
            n = b % len(messages)
            one = messages.pop(n)
            messages[n:n] = [] if how == "drop" else [one, one] if how == "twice" else messages[n:n]
            if how == "swap":
                messages.append(one)
    return msgspec.structs.replace(op, value=[["poll", polled]])


@settings(max_examples=120, deadline=None)
@given(clusters(), SPOILS, st.integers(1, 4), st.sampled_from([3, 1_000]), st.integers(0, 2))
def test_arrays_find_of_few_messages_what_all_rows_say(
    cluster: Cluster, spoils: list[tuple[str, int, int]], count: int, rows: int, brokers: int
) -> None:
    for _ in range(count % 2 + 1):
        cluster.drain(count)
    ops = cluster.ops
    for spoil in spoils:
        ops = _spoilt(ops, *spoil)
    if brokers:  # who answered; where it was always the same one nothing excuses what is wrong
        ops = [_answered_by(op, f"b0-{op.index % brokers}") for op in ops]
    checkers: list[Checker] = [Durability(), Stats()]
    expected = check_all(History(ops), checkers, Context())

    table = events_table(ops, run_id="r")
    judged = judge_batches(batches_of(table, rows), Request(checkers, Context()))
    assert judged.results == expected


def _answered_by(op: Op, broker: str) -> Op:
    if op.type != "ok" or op.f not in ("send", "poll"):
        return op
    return msgspec.structs.replace(op, ext={**(op.ext or {}), "node": "b0", "broker": broker})


MESSAGES = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), max_size=4)
PLAIN = st.tuples(
    st.lists(st.tuples(st.sampled_from(["ok", "info"]), st.integers(0, 4)), max_size=5),
    st.lists(st.tuples(st.sampled_from(["ok", "fail", "info"]), MESSAGES), max_size=4),
)
Plain = tuple[list[tuple[Any, int]], list[tuple[Any, list[tuple[int, int]]]]]


@settings(max_examples=400)
@given(PLAIN)
def test_lost_writes_equal_those_of_a_naive_twin(plain: Plain) -> None:
    """Any nonsense of sends and polls: exactly what docs/spec/checkers.md 2.1 to 2.3 say."""
    cluster = Cluster(1)
    sends, polls = plain
    for value, (op_type, offset) in enumerate(sends, 1):
        cluster.add("invoke", value, "send", [["send", 0, value]])
        cluster.add(op_type, value, "send", [["send", 0, [offset, value]]])
    for at, (op_type, messages) in enumerate(polls):
        cluster.add("invoke", 100 + at, "poll", [["poll"]])
        cluster.add(op_type, 100 + at, "poll", [["poll", {0: [list(m) for m in messages]}]])

    verdict = _judge(cluster.ops)
    anomalies = verdict.anomalies
    lost, hidden = _naive(sends, polls)
    assert {a.detail["value"] for a in anomalies if a.name == "lost-write"} == lost
    assert verdict.counts.get("hidden-loss", 0) == len(hidden)


def _naive(sends: Any, polls: Any) -> tuple[set[int], set[int]]:
    """Lost writes and hidden losses, by brute force."""
    read = {v for op_type, messages in polls if op_type == "ok" for _, v in messages}
    committed = {v for v, (t, _) in enumerate(sends, 1) if t == "ok" or v in read}
    seen = {(o, v) for v, (_, o) in enumerate(sends, 1) if v in committed}
    seen |= {message for _, messages in polls for message in messages}
    dense = sorted({o for o, _ in seen})

    def places(value: int) -> list[int]:
        return [dense.index(o) for o, v in seen if v == value]

    bound = max((min(places(v)) for v in read), default=-1)
    missing = [v for v in committed if v not in read]
    lost = {v for v in missing if max(places(v)) <= bound}
    return lost, {v for v in missing if min(places(v)) <= bound < max(places(v))}


@pytest.mark.parametrize("chunk", [1, 7])
def test_the_model_itself_drains_everything(chunk: int) -> None:
    cluster = Cluster(1)
    for _ in range(5):
        cluster.begin_send(0, 0)
        cluster.end_send(0, "ok", 1)
    cluster.drain(chunk)

    assert _judge(cluster.ops).counts["read"] == 5
    assert cluster.ops[-1].ext == {"end": {0: 10}}
