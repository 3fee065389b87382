"""S11b: while nobody sends, no epoch of any replica grows."""

import pytest
from cluster_recorder import Cluster

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.replication.idle_log_growth import LATER, WRITES, Idle
from maxq.histories.op import OpType

GROWN = (("b0-0", True, 113), ("b0-0", True, 226))


def judge(r: Cluster) -> Verdict:
    return Idle().check(r.history, Context())


def said(r: Cluster, *ends: tuple[str, bool, int]) -> Cluster:
    """What brokers say of epoch 1, one after another: who, whether it leads, where it ends."""
    for node, leads, end in ends:
        r.broker(node, 1, (1, 0, end), leads=leads)
    return r


def test_a_log_that_grows_although_nobody_sends() -> None:
    verdict = judge(said(Cluster(), ("b0-0", True, 0), ("b0-1", False, 100),
                         ("b0-0", True, 113), ("b0-1", False, 226)))  # fmt: skip
    [found] = verdict.anomalies
    assert found.signature == "S11b/written-by-nobody"
    assert found.detail == {
        "set": "b0", "epoch": 1, "start": 0, "node": "b0-1", "bytes": [113, 226]
    }  # fmt: skip


def test_one_that_was_deposed_may_have_more_of_an_epoch_all_the_time() -> None:
    """As on RocketMQ 5.3.3, where it did not come back: its log was cut by nobody."""
    verdict = judge(
        said(Cluster(), ("b0-0", True, 113), ("b0-1", False, 226), ("b0-1", False, 226))
    )
    assert (verdict.valid, verdict.of("kept")) == (True, ("S11b",))


def test_the_record_that_begins_an_epoch_is_nobodys() -> None:
    """Also while slaves have a part of it."""
    verdict = judge(said(Cluster(), ("b0-1", False, 60), ("b0-0", True, 113), ("b0-1", False, 113)))
    assert (verdict.valid, verdict.of("kept")) == (True, ("S11b",))


@pytest.mark.parametrize("op_type", ["ok", "fail", "info"])
def test_between_sends_logs_may_grow_and_before_and_after_not(op_type: OpType) -> None:
    """A send of which nobody knows the outcome may be written at any time after it."""
    before = said(Cluster(), *GROWN)
    before.send(0, 1, None, op_type)
    assert judge(before).of("broken") == ("S11b",)

    between = said(Cluster(), GROWN[0])
    between.send(0, 1, None, op_type)
    assert judge(said(between, GROWN[1])).of("broken") == ()

    after = Cluster()
    after.send(0, 1, None, op_type)
    verdict = judge(said(after, *GROWN))
    assert verdict.of("broken", "no occasion") == ("S11b",)
    assert bool(verdict.of("broken")) is (op_type != "info")


def test_a_send_that_never_completed_may_be_written_at_any_time() -> None:
    r = Cluster()
    r.begin(0, "send", [["send", 0, 1]])
    assert judge(said(r, *GROWN)).of("no occasion") == ("S11b",)


@pytest.mark.parametrize("f", sorted(WRITES - LATER - {"send"}))
def test_other_clients_write_as_well(f: str) -> None:
    """Up to their answers, and no later."""
    between = said(Cluster(), GROWN[0])
    between.op("ok", 0, f, [1], [1])
    assert judge(said(between, GROWN[1])).of("broken") == ()

    after = Cluster()
    after.op("ok", 0, f, [1], [1])
    assert judge(said(after, *GROWN)).of("broken") == ("S11b",)


@pytest.mark.parametrize("f", sorted(LATER - {"read-transactions"}))
@pytest.mark.parametrize("op_type", ["ok", "fail"])
def test_brokers_write_more_of_what_waits_with_them(f: str, op_type: OpType) -> None:
    """Delayed messages are written again when they are due, and half messages when producers are
    asked about them. Before the first of them nobody writes."""
    after = Cluster()
    after.op(op_type, 0, f, [1], [1])
    assert judge(said(after, *GROWN)).of("no occasion") == ("S11b",)

    before = said(Cluster(), *GROWN)
    before.op(op_type, 0, f, [1], [1])
    assert judge(before).of("broken") == ("S11b",)


def test_where_transactions_are_read_brokers_may_write_from_the_set_up_on() -> None:
    """They ask about its half message, and write it anew each time."""
    r = said(Cluster(), *GROWN)
    r.op("ok", 0, "read-transactions", 0, [])
    assert judge(r).of("broken") == ()
