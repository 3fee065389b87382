"""What became of each element, by the words of the definition."""

from collections import Counter
from random import Random

import numpy as np

from maxq.checkers.linearizability.calls import NEVER
from maxq.checkers.linearizability.exact.elements import Elements


def fate(add: tuple[int, int], element: int, reads: list[tuple[int, int, set[int]]]) -> str:
    """Of one element; reads are (begun, ended, shown), ascending by their begins."""
    begun, ended = add
    after = [read for read in reads if read[1] > begun]
    known = min([ended, *(end for _, end, shown in after if element in shown)])
    last_shown = max((b for b, _, shown in after if element in shown), default=-1)
    last_absent = max((b for b, _, shown in after if element not in shown), default=-1)
    if last_absent > last_shown:
        return "lost" if last_absent > known else "never"
    if last_shown < 0:
        return "never"
    return "stale" if last_absent > known else "stable"


def test_each_element_has_its_fate() -> None:
    seen: Counter[str] = Counter()
    for number in range(600):
        random = Random(number)
        adds = sorted((b := random.randrange(0, 40, 2), random.choice((b + 7, NEVER)))
                      for _ in range(4))  # fmt: skip
        begins = sorted(random.sample(range(1, 60, 2), random.randrange(5)))
        reads = [(b, b + random.randrange(1, 25), {e for e in range(4) if random.random() < 0.6})
                 for b in begins]  # fmt: skip
        elements = Elements(*(np.array(c, np.int64) for c in zip(*adds, strict=True)))
        for begun, ended, shown in reads:
            twice = [*shown, *([min(shown)] if shown and number % 7 == 0 else [])]
            once = elements.read(begun, ended, np.array(twice, np.int64))
            assert once is (len(twice) == len(shown))
        fates = [fate(add, e, reads) for e, add in enumerate(adds)]
        seen.update(fates)
        lost, stale = elements.lost(), elements.stale()
        assert (lost.element if lost else -1) == (fates.index("lost") if "lost" in fates else -1)
        assert (stale.element if stale else -1) == (
            fates.index("stale") if "stale" in fates else -1
        )
        assert elements.stable().tolist() == [f in ("stable", "stale") for f in fates]
        for found in (lost, stale):
            if found is not None:
                assert found.element not in reads[found.absent][2]
                assert found.shown < 0 or found.element in reads[found.shown][2]
    assert min(seen[f] for f in ("lost", "never", "stale", "stable")) > 100, seen
