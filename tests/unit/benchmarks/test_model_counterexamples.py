"""What is planted in models comes down to few calls, that are invalid alone."""

from itertools import islice

from benchmarks.model_counterexamples import reduced, requests
from maxq.checkers.linearizability.minimal import ENOUGH
from maxq.checkers.models.catalogue import models
from maxq.harness.cli.given.budget import Budget


def test_the_first_of_each_model_are_small() -> None:
    known, seen = models(), set()
    for request, one in islice(requests(1000, 7), 0, 36, 4):
        found = reduced(request, one, known[request.model], Budget())
        assert found.alone, request
        assert found.length <= ENOUGH, (found.length, request)
        seen.add(request.model)
    assert len(seen) > 4
