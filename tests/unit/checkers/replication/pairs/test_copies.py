"""Copies: what a slave said after an acknowledgement proves that it lacked the message, or not."""

import msgspec
import pytest
from history_recorder import Recorder

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.replication.pairs.copies import Copies
from maxq.harness.contracts.target import Settings, Topology
from maxq.harness.targets.reference import effective
from maxq.histories.observed import OBSERVE_REPLICA, ReplicaView, encoded


def context(replicas: int = 2, profile: str = "P-SYNC") -> Context:
    topology = Topology(controllers=0, broker_sets=1, replicas=replicas)
    settings = msgspec.convert({"topology": topology, "profile": profile}, Settings)
    nodes = tuple(f"b0-{n}" for n in range(replicas))
    return Context(settings=effective(settings), profile=profile, broker_sets={"b0": nodes})


def said(r: Recorder, node: str, end: int, *, leads: bool = False) -> int:
    view = ReplicaView(
        node=node,
        set="b0",
        address=f"{node}:1",
        id=None,
        leads=leads,
        epochs=(),
        end=end,
        confirmed=None,
    )
    return r.op("ok", 9, OBSERVE_REPLICA, {"node": node}, encoded(view))


def judge(r: Recorder, of: Context | None = None) -> Verdict:
    return Copies().check(r.history, of or context())


def acked(r: Recorder, value: int, byte: int) -> int:
    return r.send(0, value, value, node="b0", broker="b0-0:1", byte=byte)


def test_a_slave_that_ends_before_an_acknowledged_message_lacked_it() -> None:
    r = Recorder()
    acked(r, 0, 100)
    at = acked(r, 1, 200)
    said(r, "b0-0", 300, leads=True)
    seen = said(r, "b0-1", 200)
    verdict = judge(r)
    [found] = verdict.anomalies
    assert (found.claim, found.name) == ("A8", "acknowledged-uncopied")
    assert found.ops == (at, seen)
    assert found.detail["ends"] == {"b0-1": 200}
    assert verdict.of("broken") == ("A8",)


def test_what_was_asked_before_the_acknowledgement_proves_nothing() -> None:
    r = Recorder()
    begun = r.begin(9, OBSERVE_REPLICA, {"node": "b0-1"})
    acked(r, 0, 100)
    view = ReplicaView(
        node="b0-1",
        set="b0",
        address="b0-1:1",
        id=None,
        leads=False,
        epochs=(),
        end=100,
        confirmed=None,
    )
    r.end("ok", 9, OBSERVE_REPLICA, encoded(view))
    assert begun == 0
    assert "A8" in judge(r).of("no occasion")
    said(r, "b0-1", 101)
    assert "A8" in judge(r).of("kept")


def test_of_three_one_may_lack_it() -> None:
    r = Recorder()
    acked(r, 0, 100)
    said(r, "b0-1", 100)
    said(r, "b0-2", 101)
    assert "A8" in judge(r, context(3)).of("kept")
    said(r, "b0-2", 90)  # it got shorter: its store is another one
    assert "A8" in judge(r, context(3)).of("no occasion")


@pytest.mark.parametrize(("profile", "found"), [("P-AUTO", 1), ("P-ASYNC", 0)])
def test_settings_that_promise_no_copies_are_measured(profile: str, found: int) -> None:
    r = Recorder()
    acked(r, 0, 100)
    said(r, "b0-1", 100)
    verdict = judge(r, context(profile=profile))
    assert verdict.of("not promised") == ("A8",)
    assert len(verdict.anomalies) == found


def test_a_message_that_a_slave_acknowledged_is_blamed() -> None:
    r = Recorder()
    acked(r, 0, 100)
    said(r, "b0-0", 300, leads=True)
    said(r, "b0-1", 300)
    assert judge(r).of("kept") == ("A4", "A8")
    at = r.send(0, 1, 1, node="b0", broker="b0-1:1", byte=300)
    [found] = [a for a in judge(r).anomalies if a.claim == "A4"]
    assert (found.name, found.ops) == ("slave-took-message", (at,))


def test_a_master_that_has_just_started_and_does_not_lead_yet_is_no_slave() -> None:
    """It has lost its power, and what it had not synced; its slave has all."""
    r = Recorder()
    acked(r, 0, 100)
    said(r, "b0-1", 200)
    said(r, "b0-0", 50)
    assert judge(r).of("kept") == ("A4", "A8")
