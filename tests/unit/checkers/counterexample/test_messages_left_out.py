"""A history without some messages."""

from typing import Any

from maxq.checkers.counterexample.messages import messages_of, without
from maxq.histories.op import Op, OpType


def op(kind: OpType, f: str, value: Any) -> Op:
    return Op(type=kind, process=1, f=f, value=value)


SEND = [op("invoke", "send", [["send", 0, "a"]]), op("ok", "send", [["send", 0, [7, "a"]]])]
POLL = op("ok", "poll", [["poll", {0: [[7, "a"], [8, "b"]], 1: [[0, "a"]], 2: []}]])


def test_a_message_is_known_by_queue_and_value() -> None:
    assert messages_of([*SEND, POLL]) == [("0", "'a'"), ("0", "'b'"), ("1", "'a'")]


def test_a_message_that_is_gone_was_never_sent_nor_seen() -> None:
    left = without([*SEND, POLL], {("0", "'a'")})
    assert [o.value for o in left] == [[["poll", {0: [[8, "b"]], 1: [[0, "a"]], 2: []}]]]


def test_a_queue_of_which_nothing_is_left_is_not_said_to_be_empty() -> None:
    (left,) = without([POLL], {("0", "'a'"), ("0", "'b'"), ("1", "'a'")})
    assert left.value == [["poll", {2: []}]]


def test_a_transaction_keeps_what_is_left_of_it() -> None:
    txn = op("ok", "txn", [["send", 0, [1, "a"]], ["send", 1, [2, "b"]]])
    assert [o.value for o in without([txn], {("0", "'a'")})] == [[["send", 1, [2, "b"]]]]
    assert without([txn], {("0", "'a'"), ("1", "'b'")}) == []


def test_what_is_no_message_stays_as_it_is() -> None:
    others = [op("ok", "acquire", 3), op("ok", "poll", "odd"), op("invoke", "poll", [["poll"]]),
              op("ok", "poll", [["poll", {0: "odd", 1: [["odd"]]}], 5])]  # fmt: skip
    assert without(others, {("0", "'a'")}) == others
