"""Crashes at points of flows of brokers without controllers, a sample; and bugs they find."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from maxq.harness.experiments.crash_points.flows import Outcome, perform, record
from maxq.harness.experiments.crash_points.pair_flows import ASYNC, PAIR_FLOWS
from maxq.harness.simulation.crash_points import Crash, crashes
from maxq.reference.broker.client_calls import sends
from maxq.reference.broker.client_calls.acknowledgement import MakeAnswer
from maxq.reference.broker.escape import delayed_escape
from maxq.reference.broker.replication.plain.plain_events import Bounds, SlaveEffect
from maxq.reference.broker.replication.plain.plain_master import PlainLink, PlainMaster
from maxq.reference.broker.replication.plain.plain_slave import PlainSlave
from maxq.reference.records import PhyOffset
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.frame import Frame

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
SAMPLE = 8  # crashes of a flow; `python -m benchmarks.crash_points --mode pair` has them all
POINTS_MIN = {  # a flow of fewer points was not watched
    "pair-first-copy": 90, "pair-first-copy-master": 70, "pair-acting": 12,
    "pair-acting-over": 20, "pair-return": 40, "pair-escape-delayed": 15,
    "pair-escape-delayed-target": 12, "pair-escape-half": 20, "pair-escape-half-target": 60,
}  # fmt: skip
SYNCED = sorted(POINTS_MIN)


def outcomes(name: str, chosen: list[Crash]) -> list[Outcome]:
    return [perform(PAIR_FLOWS[name], crash) for crash in chosen]


@pytest.mark.parametrize("name", SYNCED)
def test_a_set_that_syncs_is_whole_after_a_crash_anywhere(name: str) -> None:
    """A8, A9, S8: by a kill and by a loss of power; nothing that was acknowledged is missing."""
    chosen = Random(f"sample/{name}").sample(crashes(record(PAIR_FLOWS[name])), SAMPLE)
    assert [o for o in outcomes(name, chosen) if o.verdict != "whole"] == []


@pytest.mark.parametrize("name", SYNCED)
def test_a_set_that_does_not_sync_is_whole_or_held_back_by_name(name: str) -> None:
    """A9: whoever lost what others have overwrites none of them; after a kill nothing is lost."""
    name += ASYNC
    chosen = Random(f"sample/{name}").sample(crashes(record(PAIR_FLOWS[name])), SAMPLE)
    for outcome in outcomes(name, chosen):
        assert outcome.verdict in ("whole", "held-back"), outcome
        if outcome.crash.loss == "kill":
            assert outcome.verdict == "whole", outcome


@pytest.mark.parametrize("name", sorted(PAIR_FLOWS))
def test_a_flow_is_watched_and_the_same_each_time(name: str) -> None:
    points = record(PAIR_FLOWS[name])
    assert points == record(PAIR_FLOWS[name])
    assert len(points) >= POINTS_MIN[name.removesuffix(ASYNC)]
    kinds = {p.kind for p in points}
    assert {"send", "receive"} <= kinds
    if name.removesuffix(ASYNC) == "pair-first-copy":
        assert {"create", "write", "rename", "sync", "sync-dir"} <= kinds


def test_a_pair_that_never_asks_who_is_longer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave that takes its master for the longer one in any case, as RocketMQ's: what its master
    has lost and written anew, the slave has otherwise. A master on its way back would see it."""
    honest = PlainSlave._on_bounds

    def on_bounds(self: PlainSlave, now_ns: int, event: Bounds) -> list[SlaveEffect]:
        end = PhyOffset(max(event.end, self.end))
        changed: Any = Bounds(link=event.link, start=event.start, end=end)
        return honest(self, now_ns, changed)

    monkeypatch.setattr(PlainSlave, "_on_bounds", on_bounds)
    flow = PAIR_FLOWS["pair-first-copy-master" + ASYNC]
    flow = replace(flow, keys={**flow.keys, "skipPreOnline": "true"})
    lost = next(c for c in crashes(record(flow)) if c.loss == "power-all")
    outcome = perform(flow, lost)
    assert outcome.verdict == "broken"
    assert "differs from another of its set" in outcome.why


def test_a_master_that_sends_what_is_not_on_its_disk_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It syncs before it answers, and its slaves have what it loses with the power."""
    honest = PlainMaster._sendable

    def to_the_end(self: PlainMaster, link: PlainLink) -> int:
        counted, self.counted = self.counted, self.end
        try:
            return honest(self, link)
        finally:
            self.counted = counted

    monkeypatch.setattr(PlainMaster, "_sendable", to_the_end)
    flow = PAIR_FLOWS["pair-return"]
    unsynced = [
        c for c in crashes(record(flow))
        if (c.moment, c.loss, c.point.kind) == ("before", "power-all", "sync")
        and "commitlog" in c.point.what
    ]  # fmt: skip
    found = [o for c in unsynced if (o := perform(flow, c)).verdict == "broken"]
    assert found
    assert "stays out: " in found[0].why


def test_progress_that_is_remembered_before_the_target_has_it_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E1: a slave for which what is on its way is delivered."""
    monkeypatch.setattr(delayed_escape, "reached", lambda next_offset, first_held: next_offset)
    flow = PAIR_FLOWS["pair-escape-delayed-target"]
    points = record(flow)
    written = next(p.number for p in points if p.kind == "write" and "commitlog" in p.what)
    put = next(c for c in crashes(points) if c.point.number == written and c.moment == "before")
    outcome = perform(flow, put)
    assert outcome.verdict == "broken"
    assert "b0-1 is at 1, and nobody has taken 0" in outcome.why


def test_a_target_that_answers_before_it_has_synced_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E1: what the slave moved there is lost with the target's power."""

    def at_once(
        config: object, store: object, me: object, end: PhyOffset, answer: MakeAnswer[Frame]
    ) -> Frame:
        return answer(ResponseCode.SUCCESS, "")

    monkeypatch.setattr(sends, "kept", at_once)
    flow = PAIR_FLOWS["pair-escape-delayed-target"]
    points = record(flow)
    unsynced = next(
        c for c in crashes(points)
        if (c.moment, c.loss, c.point.kind) == ("before", "power-all", "sync")
        and "commitlog" in c.point.what
    )  # fmt: skip
    outcome = perform(flow, unsynced)
    assert outcome.verdict == "broken"
    assert "what waits is settled" in outcome.why
