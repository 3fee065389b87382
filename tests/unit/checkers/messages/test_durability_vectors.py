"""Vectors of the log workload: what Jepsen's checker says, but for docs/spec/checkers.md 2.3."""

from collections.abc import Callable
from typing import Any

import pytest
from history_recorder import Recorder

from maxq.checkers.core.api import Context, Valid, Verdict
from maxq.checkers.messages.durability import Durability

Build = Callable[[Recorder], Any]


def _judge(*steps: Build) -> Verdict:
    recorder = Recorder()
    for step in steps:
        step(recorder)
    return Durability().check(recorder.history, Context())


def S(p: int, v: int, o: int | None = None, **kw: Any) -> Build:  # noqa: N802 (the table's word)
    return lambda r: r.send(p, v, o, **kw)


def P(p: int, *messages: tuple[int | None, int], **kw: Any) -> Build:  # noqa: N802
    return lambda r: r.poll(p, *messages, **kw)


def txn(p: int, *micro: list[Any], op_type: Any = "ok") -> Build:
    """A transaction; its invocation has the same shape with nothing known."""
    begun = [m if m[0] == "send" and type(m[2]) is int else _bare(m) for m in micro]
    return lambda r: r.op(op_type, p, "txn", begun, list(micro))


def _bare(micro: list[Any]) -> list[Any]:
    return ["send", micro[1], micro[2][1]] if micro[0] == "send" else ["poll"]


def sent(v: int, o: int, key: int = 0) -> list[Any]:
    return ["send", key, [o, v]]


def polled(key: int, *messages: tuple[int, int]) -> list[Any]:
    return ["poll", {key: [list(m) for m in messages]}]


THREE = (S(0, 10, 0), S(0, 11, 1), S(0, 12, 2))
ALL = ((0, 10), (1, 11), (2, 12))
LOST = {"lost-write": 1, "unseen": 1}

VECTORS: list[tuple[str, tuple[Build, ...], Valid, dict[str, int]]] = [
    ("K1", (S(0, 10, 0), S(0, 11, 1), P(1, (0, 10), (1, 11))), True, {}),
    ("K2", (S(0, 10, 0), S(0, 11, 5), P(1, (0, 10), (5, 11))), True, {}),
    ("K3", (*THREE, P(1, (0, 10), (2, 12))), False, {**LOST, "int-poll-skip": 1}),
    (
        "K4",
        (S(0, 10, 0), S(1, 11, op_type="info"), S(0, 12, 2), P(2, (0, 10), (2, 12))),
        True,
        {},
    ),
    (
        "K5",
        (
            S(0, 10, 0),
            txn(1, sent(11, 1), sent(13, 3), op_type="info"),
            S(0, 12, 2),
            P(2, (0, 10), (2, 12), (3, 13)),
        ),
        False,
        {"lost-write": 1, "int-poll-skip": 1, "int-send-skip": 1},
    ),
    (
        "K6",
        (S(0, 10, 0), S(1, 11, 0), P(2, (0, 10))),
        False,
        {"inconsistent-offsets": 1, **LOST},
    ),
    (
        "K7",
        (S(0, 10, 0), P(1, (0, 10), (1, 10))),
        False,
        {"duplicate": 1, "int-nonmonotonic-poll": 1},
    ),
    ("K8", (S(0, 10, op_type="fail"), P(1, (0, 10))), False, {"G1a": 1}),
    ("K9", (*THREE, P(1, (0, 10)), P(1, (2, 12)), P(2, *ALL)), False, {"poll-skip": 1}),
    ("K10", (S(0, 10, 0), P(1, (0, 10)), P(1, (0, 10))), False, {"nonmonotonic-poll": 1}),
    (
        "K11",
        (S(0, 10, 0), P(1, (0, 10)), lambda r: r.assign(1, 0, seek=True), P(1, (0, 10))),
        True,
        {},
    ),
    (
        "K12",
        (
            *(S(0, 10, 0), P(1, (0, 10))),
            *(lambda r: r.assign(1, 1), lambda r: r.assign(1, 0)),
            P(1, (0, 10)),
        ),
        True,
        {},
    ),
    (
        "K13",
        (
            *(S(0, 10, 0), P(1, (0, 10))),
            *(lambda r: r.crash(1), lambda r: r.assign(4, 0, seek=True)),
            P(4, (0, 10)),
        ),
        True,
        {},
    ),
    (
        "K14",
        (*THREE, P(1, (0, 10), (2, 12), **{"rebalance-log": [{"keys": [0]}]}), P(2, *ALL)),
        True,
        {},
    ),
    (
        "K15",
        (S(0, 10, 0), S(0, 11, 1), P(1, (1, 11), (0, 10))),
        False,
        {"int-nonmonotonic-poll": 1},
    ),
    ("K16", (txn(0, sent(10, 0), polled(0, (0, 10))),), False, {"precommitted-read": 1}),
    ("K18", (P(1, (0, 99)),), False, {"phantom": 1}),
    (
        "K19",
        (
            *(S(0, 10, 0), P(1, (0, 11), op_type="fail")),
            *(S(0, 11, op_type="info"), P(2, (0, 10))),
        ),
        False,
        {"inconsistent-offsets": 1},
    ),
    ("K20", (S(0, 10, op_type="info"), P(1, (0, 10))), True, {}),
    (
        "K21",
        (
            *(S(0, 10, 0), S(1, 11, 1), S(1, 12, 2), P(2, (0, 10))),
            P(2, (1, 11), (2, 12), (3, 11), op_type="fail"),
            P(0, (0, 10), (2, 12)),
        ),
        False,
        {
            "duplicate": 1,
            "hidden-loss": 1,
            "int-nonmonotonic-poll": 1,
            "int-poll-skip": 1,
            "nonmonotonic-send": 1,
            "poll-skip": 1,
            "unseen": 1,
        },
    ),
    (
        "K22",
        (S(0, 10, 1), S(0, 11, 0), P(1, (0, 11), (1, 10))),
        False,
        {"nonmonotonic-send": 1},
    ),
    (
        "K23",
        (txn(0, sent(10, 1), sent(11, 0)), P(1, (0, 11), (1, 10))),
        False,
        {"int-nonmonotonic-send": 1},
    ),
    (
        "K24",
        (txn(0, sent(10, 0), sent(12, 2)), S(1, 11, 1), P(2, *ALL)),
        True,
        {"int-send-skip": 1},
    ),
    # Upstream says false. Nobody has proved a loss, so ours is unknown, never valid.
    ("K25", (S(0, 10, 0), S(0, 11, 1), P(1, (0, 10))), "unknown", {"unseen": 1}),
    (
        "K26",
        (
            *(S(0, 10, 0), S(0, 11, 1), P(1, (0, 10))),
            *(P(1, (1, 11), op_type="fail"), P(1, (1, 11))),
        ),
        True,
        {},
    ),
    ("K27", (S(0, 10, None), P(1, (None, 10))), True, {}),
]
TOTALS = {"keys", "sent", "acknowledged", "lost", "gone", "never-read", "proven", "read",
          "ends-confirmed"}  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "valid", "found"), [v[1:] for v in VECTORS], ids=[v[0] for v in VECTORS]
)
def test_vector(steps: tuple[Build, ...], valid: Valid, found: dict[str, int]) -> None:
    verdict = _judge(*steps)

    assert {n: c for n, c in verdict.counts.items() if n not in TOTALS} == found
    assert verdict.valid == valid
    assert bool(verdict.reason) or valid != "unknown"


def test_k3_tells_all_fields() -> None:
    """Fields of docs/spec/checkers.md 2.2, operations that prove it, and a story."""
    verdict = _judge(*THREE, P(1, (0, 10), (2, 12)))

    by_name = {a.name: a for a in verdict.anomalies}
    lost = by_name["lost-write"]
    assert (lost.claim, lost.signature, lost.ops) == ("S6", "S6/lost-write", (3, 7))
    assert lost.detail == {
        "key": 0,
        "value": 11,
        "offset": 1,
        "index": 1,
        "writer": 3,
        "max-read-index": 2,
        "max-read": 7,
    }
    skip = by_name["int-poll-skip"]
    assert skip.detail == {"key": 0, "values": [10, 12], "delta": 2, "skipped": [11], "op": 7}
    assert "acknowledged value 11 of queue 0 at offset 1, at 3.000 s (op 3)" in lost.story


def crossing(*ends: list[list[Any]]) -> Recorder:
    """Transactions that overlap: of each what it did."""
    recorder = Recorder()
    for p, done in enumerate(ends):
        recorder.begin(p, "txn", [_bare(micro) for micro in done])
    for p, done in enumerate(ends):
        recorder.end("ok", p, "txn", done)
    return recorder


def test_k17_transactions_that_poll_each_other_are_named() -> None:
    first = [sent(10, 0), polled(1, (0, 20))]
    second = [sent(20, 0, key=1), polled(0, (0, 10))]
    verdict = Durability().check(crossing(first, second).history, Context())

    assert verdict.valid is False
    (found,) = (a for a in verdict.anomalies if a.claim == "S10")
    assert (found.signature, found.ops) == ("S10/G1c", (2, 3))
    assert found.detail == {"key": 0, "cycle": [[2, 0], [3, 1]]}
    assert "op 3 polled what op 2 sent to queue 0, op 2 polled what op 3 sent to" in found.story
    # Where one of them polls nothing there is no circle.
    verdict = Durability().check(crossing(first, second[:1]).history, Context())
    assert "G1c" not in verdict.counts


def test_a_circle_of_three_goes_over_one_queue_too() -> None:
    rest = [[sent(n, n), polled(0, ((n + 1) % 3, (n + 1) % 3))] for n in range(3)]
    verdict = Durability().check(crossing(*rest).history, Context())
    assert "G1c" in verdict.counts
    (found,) = (a for a in verdict.anomalies if a.name == "G1c")
    assert found.ops == (3, 4, 5)


def test_queues_that_hold_two_transactions_in_two_orders_are_counted() -> None:
    """An append to two logs is no transaction of theirs, which is why upstream allows it."""
    recorder = crossing([sent(10, 0), sent(20, 1, key=1)], [sent(11, 1), sent(21, 0, key=1)])
    recorder.poll(2, (0, 10), (1, 11))
    recorder.poll(2, (0, 21), (1, 20), key=1)
    verdict = Durability().check(recorder.history, Context())
    assert verdict.valid is True
    assert verdict.counts["G0"] == 1
    assert not verdict.anomalies


def test_a_message_cannot_be_read_before_it_is_sent() -> None:
    verdict = _judge(P(1, (0, 10)), S(0, 10, 0))
    assert verdict.valid is False
    assert {a.signature for a in verdict.anomalies} == {"S10/G1c-realtime"}
