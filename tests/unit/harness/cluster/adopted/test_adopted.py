"""What of a cluster is a run's own, and may be deleted; and whom faults may strike."""

from types import SimpleNamespace
from typing import Any

import pytest

from maxq.harness.cluster.adopted.adopted import Adopted, AdoptedNodes, is_own
from maxq.harness.contracts.cluster import Killable, Levelled
from maxq.harness.contracts.target import Settings, Topology
from maxq.harness.targets.reference import ReferenceTarget


@pytest.mark.parametrize(
    ("what", "own"),
    [
        ("topic maxq-1f-queue", True),
        ("topic maxq-trial", True),
        ("consumer group maxq", True),
        ("topic %RETRY%maxq", True),
        ("topic %DLQ%maxq-lock", True),
        ("topic orders", False),
        ("topic maxqueue", False),
        ("topic %RETRY%orders", False),
        ("consumer group maximum", False),
        ("setting maxq-x", False),
        ("role", False),
    ],
)
def test_topics_and_groups_of_runs_begin_with_their_prefix(what: str, own: bool) -> None:
    assert is_own(what) == own


def test_nobody_drops_packets_whom_no_fault_may_strike() -> None:
    nothing: Any = SimpleNamespace()
    settings = Settings(topology=Topology(broker_sets=1, replicas=3))
    grudge = {to: frozenset({"b0-0", "b0-1", "n0"} - {to}) for to in ("b0-0", "b0-1", "n0")}
    every = AdoptedNodes(nothing, nothing, settings, ())
    assert every.between(grudge) == grudge
    one = AdoptedNodes(nothing, nothing, settings, ["b0-1"])
    assert one.between(grudge) == {"b0-1": grudge["b0-1"]}
    assert [name for name in grudge if one.strikes(name)] == ["b0-1"]


def test_whoever_waits_for_level_replicas_waits_until_all_are_in_sync() -> None:
    """Others write to such a cluster, so its logs never have the same ends."""
    nowhere: Any = SimpleNamespace(name="nowhere", capabilities=frozenset())
    cluster = Adopted(
        nowhere, ReferenceTarget(), Settings(topology=Topology()), pids=dict, say=print
    )
    assert cluster.offers(Levelled).level == cluster.queries.whole
    assert cluster.offers(Killable) is cluster.processes
