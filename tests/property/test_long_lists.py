"""Look-ups in lists that grow with a history say what slow ones would."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from maxq.checkers.availability.attempt_columns import Span, in_any
from maxq.histories.columns.rows import among

NUMBERS = st.integers(-5, 40)
SENDS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30)


@given(st.lists(st.builds(Span, NUMBERS, NUMBERS), max_size=8), SENDS)
def test_a_send_is_in_one_of_many_spans(spans: list[Span], sends: list[tuple[int, int]]) -> None:
    begun_ns, at = np.array(sends, np.int64).reshape(-1, 2).T
    slow = [any(s.since_ns <= b and a < s.until for s in spans) for b, a in sends]
    assert in_any(spans, begun_ns, at).tolist() == slow


@given(st.lists(NUMBERS, max_size=30), st.sets(NUMBERS, max_size=12))
def test_a_number_is_in_a_list_in_order(some: list[int], known: set[int]) -> None:
    ascending = np.array(sorted(known), np.int64)
    assert among(np.array(some, np.int64), ascending).tolist() == [n in known for n in some]
