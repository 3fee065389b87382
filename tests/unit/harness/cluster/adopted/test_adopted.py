"""What of a cluster is a run's own, and may be deleted."""

import pytest

from maxq.harness.cluster.adopted.adopted import is_own


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
