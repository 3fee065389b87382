"""S8c: an epoch begins at one byte, on whoever holds it."""

from cluster_recorder import Cluster, set_view
from profiles import under

from maxq.checkers.core.api import Verdict
from maxq.checkers.replication.epochs import Epochs


def judge(*lists: tuple[tuple[int, int, int], ...]) -> Verdict:
    """Brokers of a set say one after the other what epochs they have."""
    r = Cluster()
    for _ in range(2):
        r.controllers(set_view(1, 3, 1, 1, 2))
    r.broker("b0-0", 1, (1, 0, 10), leads=True)
    for n, epochs in enumerate(lists, 1):
        r.broker(f"b0-{n}", n + 1, *epochs)
    return Epochs().check(r.history, under("P-NUM"))


def test_lists_that_agree_are_evidence_whatever_they_hold() -> None:
    verdict = judge(((1, 0, 5),), ((1, 0, 7), (2, 7, 9)), ((2, 7, 20),), ())
    assert verdict.valid is True
    assert "S8c" in verdict.claims
    assert verdict.counts["begins-compared"] == 3


def test_one_answer_is_no_evidence() -> None:
    assert "S8c" not in judge().claims


def test_an_epoch_that_begins_at_two_bytes_is_told_once() -> None:
    verdict = judge(((1, 0, 5), (2, 5, 9)), ((1, 3, 9),), ((1, 4, 9),))
    assert verdict.valid is False
    [found] = verdict.anomalies
    assert found.signature == "S8c/epoch-starts-differ"
    assert found.detail == {"set": "b0", "epoch": 1, "starts": [0, 3], "nodes": ["b0-0", "b0-2"]}
    assert "begins at byte 0 by b0-0" in found.story
