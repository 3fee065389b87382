"""The first and the last operation of a history: what a verdict will rest on, and that it ended."""

from typing import Any

import msgspec
import pytest

from maxq.histories.grounds import KINDS, RUN, SAID, Ground, conclusion, declaration, declared
from maxq.histories.history import History, wellformed
from maxq.histories.op import HistoryError, Op
from maxq.histories.text import decode_fields, encode_op, op_of_fields

GROUNDS: tuple[Ground, ...] = (("recovery",), ("final-read", 0, "b0", None), ("broker", "b0-0"))


def numbered(*ops: Op) -> History:
    return History(msgspec.structs.replace(op, index=n, time=n) for n, op in enumerate(ops))


def test_what_is_declared_is_read_again() -> None:
    assert declared(declaration(GROUNDS)) == GROUNDS
    assert declared(declaration(())) == ()


def test_it_is_read_again_from_a_file() -> None:
    [written] = numbered(declaration(GROUNDS))
    assert declared(op_of_fields(decode_fields(encode_op(written)))) == GROUNDS


def test_every_kind_is_explained() -> None:
    assert set(SAID) == set(KINDS)
    assert declared(declaration([(kind,) for kind in KINDS])) == tuple((kind,) for kind in KINDS)


@pytest.mark.parametrize(
    "value",
    [None, 7, {}, {"grounds": None}, {"grounds": 7}, {"grounds": [7]}, {"grounds": [[]]},
     {"grounds": [["hearsay", 1]]}],
)  # fmt: skip
def test_what_is_no_list_of_grounds_is_refused(value: Any) -> None:
    with pytest.raises(HistoryError, match="value of 3"):
        declared(Op("info", RUN, RUN, value, index=3))


@pytest.mark.parametrize("stopped", [False, True])
def test_a_history_knows_its_begin_and_its_end(stopped: bool) -> None:
    send = Op("invoke", 0, "send", [["send", 0, 1]])
    history = numbered(declaration(GROUNDS), send, conclusion(stopped=stopped))
    begun, ended = history.run
    assert (begun, ended) == (history[0], history[2])
    assert ended is not None
    assert ended.value == {"stopped": stopped}
    assert wellformed(history) == []


def test_neither_is_an_operation_of_a_client_or_of_the_nemesis() -> None:
    history = numbered(declaration(GROUNDS), conclusion(stopped=False))
    assert (history.clients, history.nemesis, history.open_faults) == ((), (), ())


def test_a_history_that_was_cut_has_no_end_and_a_foreign_one_no_begin() -> None:
    assert numbered(declaration(GROUNDS)).run[1] is None
    assert numbered(Op("invoke", 0, "send")).run == (None, None)
