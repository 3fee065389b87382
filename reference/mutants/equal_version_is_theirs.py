"""A returning master that takes a slave's offsets where their version is not older than its own.

A version moves with one commit in some hundred, so two slaves have the same one: what the slave
that acted gave is overwritten by what the next one last copied. Breaks P4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership import returning
from maxq.reference.broker.store.topics import Tables
from maxq.reference.mutants import diverged, replaced
from maxq.reference.wire.route import DataVersion

FAMILY = "pre-online"
CLAIM = "P4"
SOURCE = "RocketMQ compares versions and takes equal ones (docs/spec/acting-master.md 5)"

Table = dict[str, dict[int, int]]


@contextmanager
def mutant() -> Iterator[None]:
    """Keep the own table if its version is later, else take theirs."""
    honest, merge = returning.merged, Tables.merge_offsets
    given: list[Table] = []

    def merged(mine: Table, theirs: Table) -> Table:
        given[:] = [theirs]
        return honest(mine, theirs)

    def merge_offsets(self: Tables, table: Table, version: DataVersion) -> None:
        mine = self.offset_version
        newer = (mine.state_version, mine.counter) > (version.state_version, version.counter)
        found = self.offsets if newer else {**self.offsets, **given[0]}
        if found != table:
            diverged(__name__)
        merge(self, found, version)

    with (
        replaced(returning, "merged", merged),
        replaced(Tables, "merge_offsets", merge_offsets),
    ):
        yield
