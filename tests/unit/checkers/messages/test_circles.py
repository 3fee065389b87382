"""Circles of operations on queues: found by arrays and row by row, and exactly where there are any.

Each history has transactions in groups that overlap, so that each may poll what another of its
group has sent; logs are as they should be otherwise.
"""

import random
from collections import defaultdict
from itertools import pairwise

from both_ways import compared
from history_recorder import Recorder

from maxq.checkers.core.api import Context
from maxq.checkers.messages.durability import Durability
from maxq.histories.history import History

KEYS, GROUPS, SIZE, SEEDS = 3, 4, 3, 300
Pairs = set[tuple[int, int]]


def made(seed: int) -> tuple[History, Pairs, Pairs]:
    """A history, and by completions who polled whom, and whose message stands before whose."""
    rng = random.Random(seed)
    recorder = Recorder()
    recorder.assign(GROUPS * SIZE, 0)  # so that nobody is taken to have read from the start
    logs: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by key: value, writer
    polled, before = Pairs(), Pairs()
    value = 0
    for group in range(GROUPS):
        sends = []
        for process in range(SIZE):
            keys = rng.sample(range(KEYS), rng.choice((1, 1, 2)))
            sends.append({key: value + n for n, key in enumerate(keys)})
            value += len(keys)
            asked = [["send", k, v] for k, v in sends[-1].items()]
            recorder.begin(group * SIZE + process, "txn", [*asked, ["poll"]])
        first = len(recorder.ops)
        places: dict[tuple[int, int], int] = {}
        for writer, key in rng.sample([(n, k) for n, s in enumerate(sends) for k in s],
                                      sum(map(len, sends))):  # fmt: skip
            places[writer, key] = len(logs[key])
            logs[key].append((sends[writer][key], first + writer))
        for process, mine in enumerate(sends):
            done = [["send", k, [places[process, k], v]] for k, v in mine.items()]
            key = rng.randrange(KEYS)
            others = [(o, v, w) for o, (v, w) in enumerate(logs[key]) if w != first + process]
            if others and rng.random() < 0.8:
                offset, other, writer = others[-1]
                done.append(["poll", {key: [[offset, other]]}])
                polled.add((writer, first + process))
            recorder.end("ok", group * SIZE + process, "txn", done)
    for log in logs.values():
        before |= {(a, b) for (_, a), (_, b) in pairwise(log) if a != b}
    return recorder.history, polled, before


def circular(pairs: Pairs) -> bool:
    """By taking away whoever nobody comes before."""
    left = set(pairs)
    while left:
        targets = {b for _, b in left}
        more = {(a, b) for a, b in left if a in targets}
        if more == left:
            return True
        left = more
    return False


def test_circles_are_found_where_there_are_any() -> None:
    found = {True: 0, False: 0}
    for seed in range(SEEDS):
        history, polled, before = made(seed)
        counts = Durability().check(history, Context()).counts
        assert ("G1c" in counts) == circular(polled), seed
        assert ("G0" in counts) == circular(before), seed
        found["G1c" in counts] += 1
    assert min(found.values()) > SEEDS / 10, found


def test_arrays_say_the_same() -> None:
    found = compared(Durability(), ((made(seed)[0], Context()) for seed in range(SEEDS // 3)))
    assert found["sure"] > SEEDS / 3
    assert found["valid? False"] > SEEDS / 30
