"""What a random run of pairs may differ in: brokers without controllers.

A row of such a run is a row of `maxq.harness.sampling.factors` with each value put into the domain
that pairs have. Every value of that domain has one that is put into it, so the covering array meets
every pair of values here as well.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import combinations

from maxq.harness.sampling.factors import (
    FACTORS,
    TURN,
    Coverage,
    Pair,
    Row,
    covering_array,
    pairs_of,
    row_of,
)

# What takes the place of a value; of a value that is not named, itself.
INSTEAD: dict[str, dict[str, str]] = {
    "profile": {
        "P-SAFE": "P-SYNC", "P-ALL": "P-SYNC", "P-NUM": "P-AUTO", "P-DEFAULT": "P-ASYNC",
        "P-UNCLEAN": "P-AUTO",
    },
    "topology": {
        "3c-3r": "2r-2s", "3c-2r": "2r-2s-plain", "1c-3r": "3r-2s", "3c-3r-2n": "2r-2s-2n",
        "3c-3r-2s": "3r-2s", "3e-3r": "2r-3s-2n",
        "3c-5r": "3r-2s",
    },
    "workload": {"queue+lock+registration": "queue+ordered+delayed+transactions+offsets"},
    # Nobody who ever writes is of use where the first epoch can end before it has a record.
    "first-load": {"none": "trickle"},
    "order": {"on": "off"},
    "aim": {"any": "pairs", "brokers": "returns", "controllers": "returns"},
    "learner": {"on": "off"},
    "retention": {"trim": "off"},
    "role-push": {"off": "on"},
    "epochs": {"removed": "off"},
    "raft-log": {"snapshots": "whole"},
}  # fmt: skip


LOST, POWER = "power-loss", ("crash", "whole-stop")


def pair_row(seed: int) -> Row:
    """The values of a seed's run of pairs."""
    turn, place = divmod(seed, TURN)
    if place == 0:
        return pair_array()[turn % len(pair_array())]
    return pair_values(row_of(seed))


@cache
def pair_array() -> tuple[Row, ...]:
    """Rows that meet every pair of values that there is: those with controllers, and a few more, as
    what loses its power syncs, whatever its row says."""
    rows = [pair_values(row) for row in covering_array()]
    usual = pair_values({name: values[0] for name, values in FACTORS.items()})
    while missing := pair_coverage(rows).missing:
        row, given = dict(usual), dict[str, str]()
        for a, x, b, y in missing:
            wanted = {**given, a: x, b: y}
            if given.items() <= wanted.items() and pair_values(wanted) == wanted:
                given = wanted
        rows.append({**row, **given})
    return tuple(rows)


def pair_values(row: Mapping[str, str]) -> Row:
    """A row of runs with controllers, with each value put into the domain that pairs have. What
    loses its power syncs: else a pair's logs differ, and no slave of it copies ever again."""
    values = {name: INSTEAD.get(name, {}).get(value, value) for name, value in row.items()}
    synced = {"flush": "sync"} if any(values.get(of) == LOST for of in POWER) else {}
    return {**values, **(synced if "flush" in values else {})}


@cache
def every_pair() -> frozenset[Pair]:
    """All pairs of values that there are in runs of pairs."""
    values = {name: {pair_values({name: v})[name] for v in of} for name, of in FACTORS.items()}
    return frozenset(
        (a, x, b, y)
        for a, b in combinations(sorted(FACTORS), 2)
        for x in values[a]
        for y in values[b]
        if pair_values({a: x, b: y}) == {a: x, b: y}
    )


def pair_coverage(rows: Iterable[Mapping[str, str]]) -> Coverage:
    """Which pairs of values some runs of pairs have met."""
    met: set[Pair] = set()
    for row in rows:
        met |= pairs_of(row)
    every = every_pair()
    return Coverage(len(met & every), len(every), tuple(sorted(every - met)))
