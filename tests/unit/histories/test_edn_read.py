"""Vectors of numbers are read at once, and as one by one."""

import pytest

from maxq.histories.edn_read import read_edn

# Each as it is read at once, or not; and with a comma, which is a space, so that it never is.
TEXTS = (
    "[[1 2 3] [4 5 6]]", "[[0]]", "[[10 999999999999999999]]", "{:records [[0 1 2] [1 0 7]] :a 1}",
    "[[[1 2] [3 4]]]", "[[1 2] [007 4]]", "[[1 2] [3 12345678901234567890]]", "[[1  2] [3 4]]",
    "[[1 2][3 4]]", "[[1 2] [3 -4]]", "[[1 2] [3 4.5]]", "[[1 2] [3 nil]]", "[[] [1 2]]",
    "[[1 2] :a]", "[[1 2] [3 4] ]", "[[1N 2] [3 4]]",
)  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_as_one_by_one(text: str) -> None:
    (found,) = read_edn(text)
    (other,) = read_edn(text.replace(" ", " , "))
    assert repr(found) == repr(other)


def test_so_many_records_are_vectors_of_integers() -> None:
    text = " ".join(f"[{at % 3} {at} {at * 7}]" for at in range(1000))
    assert list(read_edn(f"[{text}]")) == [[[at % 3, at, at * 7] for at in range(1000)]]
