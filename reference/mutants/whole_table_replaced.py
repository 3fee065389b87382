"""A returning master that puts its slave's offsets over its own, whatever they say.

A slave copies offsets every ten seconds or so, so what the master had on its own disk is often the
later one: groups are sent back to what they had read before. Breaks P5.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership import returning
from maxq.reference.mutants import diverged, replaced

FAMILY = "pre-online"
CLAIM = "P5"
SOURCE = "RocketMQ: putAll of the slave's table (docs/spec/acting-master.md 5)"

Table = dict[str, dict[int, int]]


@contextmanager
def mutant() -> Iterator[None]:
    """The slave is right."""
    honest = returning.merged

    def merged(mine: Table, theirs: Table) -> Table:
        found = {**mine, **theirs}
        if found != honest(mine, theirs):
            diverged(__name__)
        return found

    with replaced(returning, "merged", merged):
        yield
