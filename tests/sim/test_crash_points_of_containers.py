"""Crashes at points of flows of containers, a sample; and bugs they find."""

import asyncio
from random import Random

import pytest

from maxq.harness.experiments.crash_points.arena import NotWhole
from maxq.harness.experiments.crash_points.container_flows import ASYNC, CONTAINER_FLOWS
from maxq.harness.experiments.crash_points.flows import perform, record
from maxq.harness.simulation.crash_points import crashes
from maxq.reference.container.inner import Inner
from maxq.reference.container.server import Container

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
SAMPLE = 10  # crashes of a flow; `python -m benchmarks.crash_points --mode container` has them all
POINTS_MIN = {  # a flow of fewer points was not watched
    "container-start": 150, "container-add-new": 50, "container-add-old": 40,
    "container-add-refused": 12, "container-remove": 12, "container-retention": 30,
    "container-escape-delayed": 15, "container-escape-half": 80,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(POINTS_MIN))
def test_containers_whose_brokers_sync_are_whole_after_a_crash_anywhere(name: str) -> None:
    chosen = Random(f"sample/{name}").sample(crashes(record(CONTAINER_FLOWS[name])), SAMPLE)
    found = [perform(CONTAINER_FLOWS[name], crash) for crash in chosen]
    assert [outcome for outcome in found if outcome.verdict != "whole"] == []


@pytest.mark.parametrize("name", sorted(n for n in POINTS_MIN if n + ASYNC in CONTAINER_FLOWS))
def test_others_are_whole_or_held_back_by_name(name: str) -> None:
    name += ASYNC
    for crash in Random(f"sample/{name}").sample(crashes(record(CONTAINER_FLOWS[name])), SAMPLE):
        outcome = perform(CONTAINER_FLOWS[name], crash)
        held = crash.loss != "kill" and outcome.verdict == "held-back"
        assert held or outcome.verdict == "whole", outcome


@pytest.mark.parametrize("name", sorted(CONTAINER_FLOWS))
def test_a_flow_is_watched_and_the_same_each_time(name: str) -> None:
    points = record(CONTAINER_FLOWS[name])
    assert points == record(CONTAINER_FLOWS[name])
    assert len(points) >= POINTS_MIN[name.removesuffix(ASYNC)]
    assert {"send", "receive"} <= {point.kind for point in points}


def test_what_a_failed_addition_leaves_behind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that can never be added again."""
    honest = Container._on_end

    def on_end(self: Container, inner: Inner) -> None:
        honest(self, inner)
        if inner.failure is not None:
            self._registry.admit(inner.file.member)

    monkeypatch.setattr(Container, "_on_end", on_end)
    with pytest.raises(NotWhole, match="b1-1 is added"):
        record(CONTAINER_FLOWS["container-add-refused"])


def test_a_removal_that_breaks_the_container_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Inner.end

    def fail() -> None:
        raise RuntimeError("a callback of the container")

    async def end(self: Inner) -> None:
        await honest(self)
        asyncio.get_running_loop().call_soon(fail)

    monkeypatch.setattr(Inner, "end", end)
    with pytest.raises(NotWhole, match="k0 failed: RuntimeError: a callback"):
        record(CONTAINER_FLOWS["container-remove"])
