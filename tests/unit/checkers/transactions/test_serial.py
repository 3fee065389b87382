"""Orders in which one of two edges is so, against every order tried."""

from itertools import permutations
from random import Random

import numpy as np

from maxq.checkers.transactions.graph import WW, Edges
from maxq.checkers.transactions.serial import Choice, Solving

SIZE = 6
ORDERS = list(permutations(range(SIZE)))  # place of each vertex


def drawn_pair(random: Random) -> tuple[int, int, int, int, int]:
    one, two = random.sample(range(SIZE), 2)
    return one, two, WW, 0, 0


def test_choices_are_solved_as_trying_every_order_says() -> None:
    seen = {True: 0, False: 0}
    for number in range(500):
        random = Random(number)
        sure = [drawn_pair(random) for _ in range(random.randint(0, 3))]
        choices = [Choice(drawn_pair(random), drawn_pair(random)) for _ in range(14)]
        columns = np.array(sure, np.int64).reshape(len(sure), 5).T
        legal = any(
            all(at[s] < at[t] for s, t, *_ in sure)
            and all(at[a[0]] < at[a[1]] or at[b[0]] < at[b[1]] for a, b in choices)
            for at in ORDERS
        )
        proof = Solving(SIZE, Edges(*columns), choices, lambda: False).proof()
        assert proof.holds is legal, number
        seen[legal] += 1
    assert min(seen.values()) > 100, seen
    assert Solving(SIZE, Edges(*columns), choices, lambda: True).proof().holds is not True
