"""A Raft log in memory: entries behind a snapshot. Indices begin at 1."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from maxq.reference.raft.message import Entry
from maxq.reference.records import invariant


@dataclass(slots=True)
class Log:
    """Entries `snapshot_index` + 1 … `last_index`, without a gap."""

    snapshot_index: int = 0
    snapshot_term: int = 0
    entries: list[Entry] = field(default_factory=list)

    @property
    def last_index(self) -> int:
        return self.snapshot_index + len(self.entries)

    @property
    def last_term(self) -> int:
        return self.entries[-1].term if self.entries else self.snapshot_term

    def term_at(self, index: int) -> int | None:
        """Term of an entry; None if the log does not hold it, also when it is compacted away."""
        if index == self.snapshot_index:
            return self.snapshot_term
        at = index - self.snapshot_index - 1
        return self.entries[at].term if 0 <= at < len(self.entries) else None

    def append(self, term: int, data: bytes) -> Entry:
        """Add a leader's new entry."""
        entry = Entry(term=term, index=self.last_index + 1, data=data)
        self.entries.append(entry)
        return entry

    def since(self, index: int, count_max: int) -> tuple[Entry, ...]:
        """Entries from `index` on, at most so many."""
        at = index - self.snapshot_index - 1
        return tuple(self.entries[at : at + count_max])

    def between(self, first: int, last: int) -> tuple[Entry, ...]:
        """Entries `first` … `last`."""
        return self.since(first, last - first + 1)

    def merge(self, entries: Sequence[Entry], *, committed: int) -> list[Entry]:
        """Take a leader's entries; returns those that are new, the first of which replaces
        everything behind it. What agrees already is left alone: a late, shorter append must not
        cut what a newer one has added."""
        for at, entry in enumerate(entries):
            if self.term_at(entry.index) == entry.term or entry.index <= self.snapshot_index:
                continue
            invariant(entry.index > committed, "what is committed stays", index=entry.index)
            del self.entries[entry.index - self.snapshot_index - 1 :]
            fresh = list(entries[at:])
            self.entries += fresh
            return fresh
        return []

    def retry_from(self, previous_index: int) -> int:
        """Where a leader whose entry before does not agree should try again: at the first entry of
        the disagreeing term, or behind the end."""
        if previous_index > self.last_index:
            return self.last_index + 1
        term = self.term_at(previous_index)
        index = previous_index
        while index > self.snapshot_index + 1 and self.term_at(index - 1) == term:
            index -= 1
        return max(index, 1)

    def compact(self, index: int) -> None:
        """Forget entries up to `index`, which a snapshot holds."""
        term = self.term_at(index)
        if term is None or index <= self.snapshot_index:
            return
        del self.entries[: index - self.snapshot_index]
        self.snapshot_index, self.snapshot_term = index, term

    def reset(self, index: int, term: int) -> None:
        """Begin anew behind a received snapshot. Entries behind it that agree with it are kept."""
        if self.term_at(index) == term:
            self.compact(index)
            return
        self.snapshot_index, self.snapshot_term, self.entries = index, term, []
