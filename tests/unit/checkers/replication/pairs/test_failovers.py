"""Fail-overs, counted: who acted, who came back, what came from another broker set."""

from pair_histories import Told

from maxq.checkers.core.api import Context
from maxq.checkers.judgement.runner import check_all
from maxq.checkers.judgement.summary import acting
from maxq.checkers.replication.pairs.failovers import Failovers
from maxq.histories.observed import (
    COMMIT_OFFSET,
    FETCH_OFFSET,
    READ_DELAYED,
    READ_TRANSACTIONS,
    SEND_DELAYED,
    SEND_HALF,
)
from maxq.histories.op import OpType

NONE = {"acted": 0, "acting-ms": 0, "returned": 0}


def counted(r: Told) -> dict[str, int]:
    return Failovers().check(r.history, Context()).counts


def failed_over() -> Told:
    r = Told()
    r.says(1, "b0-1", acting=False)
    r.op("ok", 1, SEND_DELAYED, [7, 2000], [7, 2000], node="b0")
    r.op("ok", 1, SEND_DELAYED, [8, 2000], [8, 2000], node="b0")
    r.op("fail", 1, SEND_DELAYED, [9, 2000], None, node="b0")
    r.op("ok", 2, SEND_HALF, [1, "commit", "soon"], [1, "commit", "soon"], node="b0")
    for at in (12, 13, 14.5):
        r.says(at, "b0-1", acting=True)
    r.op("ok", 3, READ_DELAYED, 2, [7, 9], node="b1")
    r.op("ok", 3, READ_DELAYED, 0, [7, 8], node="b0")
    r.op("ok", 4, READ_TRANSACTIONS, 2, [1], node="b1")
    r.says(16, "b0-0", acting=False, isolated=True)
    r.says(17, "b0-1", acting=True)
    r.says(18, "b0-0", acting=False, isolated=False)
    r.says(19, "b0-1", acting=False)
    r.says(25, "b0-1", acting=True)
    return r


def test_each_time_a_slave_acted_and_what_moved_is_counted() -> None:
    assert counted(failed_over()) == {
        "acted": 2, "acting-ms": 5000, "returned": 1,
        "delayed-moved": 1, "delayed-moved-twice": 1,
        "transactions-moved": 1, "transactions-moved-twice": 0,
    }  # fmt: skip


def test_a_master_that_is_asked_what_its_slave_took_is_counted_once_a_return() -> None:
    """Not where the master took a commit since, nor where a commit has no answer."""

    def asked(*commits: tuple[OpType, str], before: bool = False) -> int:
        r = Told()
        r.says(1, "b0-1", acting=True)
        for op_type, node in commits:
            r.op(op_type, 1, COMMIT_OFFSET, [1, 5], [1, 5], broker=f"{node}:1")
        r.says(2, "b0-0", acting=False, isolated=True)
        if not before:
            r.says(3, "b0-0", acting=False, isolated=False)
        for _ in range(2):
            r.op("ok", 1, FETCH_OFFSET, 1, [1, 5], broker="b0-0:1")
        return counted(r)["returned-offsets"]

    assert asked(("ok", "b0-1")) == 1
    assert asked(("ok", "b0-1"), before=True) == 0
    assert asked(("ok", "b0-1"), ("ok", "b0-0")) == 0
    assert asked(("ok", "b0-1"), ("info", "b0-1"), ("ok", "b0-0")) == 0
    assert asked(("ok", "b0-0"), ("fail", "b0-1")) == 0


def test_what_was_not_sent_is_not_counted() -> None:
    r = Told()
    r.says(1, "b0-1", acting=False)
    assert counted(r) == NONE


def test_it_is_said_in_words() -> None:
    def said(r: Told) -> str:
        return acting(check_all(r.history, [Failovers()], Context()))

    assert said(failed_over()) == (
        "2 times a slave acted for its master, 5.0 s in all; 1 time a master came back into its "
        "group; 1 delayed message (1 from their own set as well) and 1 transaction came from "
        "another broker set meanwhile"
    )
    assert said(Told()) == ""
