"""The page of a counterexample: what overlaps, what is open, and nothing that runs."""

import re
from itertools import combinations
from random import Random

from maxq.harness.report.examples.counterexample import Example, page
from maxq.harness.report.examples.diagram import Bar, steps


def bar(process: str, begun: int, ended: int | None, **given: str) -> Bar:
    fields = {"asked": "write 1", "answered": "ok", "times": "-", "outcome": "ok", **given}
    return Bar(process=process, begun=begun, ended=ended, shown=False, **fields)


def drawn(*bars: Bar, why: str = "stale-read: old") -> str:
    return page(Example(model="register", headline="INVALID: 3 calls", why=why, of=9,
                        command="maxq check x --model register", bars=bars))  # fmt: skip


def test_bars_overlap_exactly_where_no_order_is_known() -> None:
    random = Random(7)
    for _ in range(200):
        places = random.sample(range(40), 12)
        pairs = [sorted(pair) for pair in zip(places[::2], places[1::2], strict=True)]
        bars = [bar(str(n), first, last if random.random() < 0.8 else None)
                for n, (first, last) in enumerate(pairs)]  # fmt: skip
        at = steps(bars)
        for one, two in combinations(sorted(bars, key=lambda b: b.begun), 2):
            apart = one.ended is not None and one.ended < two.begun
            assert (one.ended is not None and at[one.ended] < at[two.begun]) == apart


def test_an_operation_without_an_answer_has_no_right_edge() -> None:
    text = drawn(bar("0", 0, 1), bar("1", 2, None, outcome="info", answered="no answer: info"))
    assert len(re.findall(r'<rect [^>]*class="bar ok"', text)) == 1
    path = re.search(r'<path d="M(\d+) \d+H(\d+)V\d+H(\d+)" class="open"', text)
    assert path is not None
    assert path[1] == path[3] > path[2]
    assert ">no answer<" in text


def test_nothing_that_a_history_says_can_run() -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=alert(1)> \u202e'
    text = drawn(bar(evil, 0, 1, asked=evil, answered=evil, times=evil), why=evil)
    assert "<script" not in text
    assert "<img" not in text
    assert "\u202e" not in text
    assert "script-src 'sha256-" in text.replace("&#x27;", "'")


def test_every_word_has_room_in_its_bar() -> None:
    long = "append " + "x" * 15
    text = drawn(*(bar("0", 2 * n, 2 * n + 1, asked=long) for n in range(4)))
    wide = [float(w) for w in re.findall(r'<rect [^>]*width="([0-9.]+)"[^>]*class="bar', text)]
    assert min(wide) >= 7 * len(long)
