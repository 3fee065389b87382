"""Of what is planted, a part that suffices is small and invalid alone."""

from benchmarks.counterexamples import ENOUGH, alone, histories, planted_in
from maxq.harness.run.judging import checkers_of, context_of, searching_in
from maxq.histories.history import History


def test_what_is_planted_comes_down_to_a_few_operations() -> None:
    names = set()
    for one in histories(45, seed=5):
        anomaly = planted_in(one)
        whole = History(one.ops)
        search = searching_in(whole, one.results, checkers_of(one.options), context_of(one.options))
        found = search.of(anomaly)
        assert found is not None, one.request
        assert found.anomaly is anomaly
        assert found.length <= ENOUGH, one.request
        assert found.minimal, one.request
        assert alone(one, found), one.request
        if not found.left_out:
            assert all(whole[op.index] == op for op in found.ops)
        names.add(anomaly.name)
    assert len(names) >= 9
