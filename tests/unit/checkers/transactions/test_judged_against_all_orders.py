"""Verdicts on small histories of transactions, against the definition of each model.

``python -m benchmarks.differential`` does the same on many more.
"""

from collections import Counter
from random import Random

import pytest

from benchmarks.differential.transactions import KINDS, compared, judged
from benchmarks.differential.txn_oracle import in_a_row

COUNT = 60


@pytest.mark.parametrize("name", KINDS)
def test_they_say_what_the_definition_says(name: str) -> None:
    seen = Counter[object]()
    for number in range(COUNT):
        found = compared(name, number)
        assert not found.wrong
        seen[found.legal] += 1
    assert min(seen[True], seen[False]) > COUNT / 10, seen
    assert bool(seen[None]) is KINDS[name].again


@pytest.mark.parametrize("name", ["list-append, serializable", "rw-register, serializable"])
def test_what_a_serial_order_gave_is_never_blamed(name: str) -> None:
    """Bigger ones, of which no clock and no session says in which order it was."""
    for number in range(COUNT):
        random = Random(f"serial {number}")
        txns = in_a_row(random, lists=KINDS[name].lists, size=random.randint(8, 40))
        random.shuffle(txns)
        at = [txn._replace(process=n, begun=n, ended=len(txns) + n) for n, txn in enumerate(txns)]
        assert judged(KINDS[name], at).valid is True, number
