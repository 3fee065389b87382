"""Stores of one set: copies of one log never part; one that was written to by itself does."""

import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.checkers.evidence.observations import Sighting
from maxq.checkers.replication.replica_logs import first_other_span, partings, stores_of
from maxq.histories.observed import DIGEST_BYTES, ReplicaLog

RECORD = 24 * 1024  # bytes of a message: several in a block, and blocks end inside of them
Message = tuple[int, int, int]


def written(seed: int) -> bytes:
    return hashlib.sha256(str(seed).encode()).digest() * (RECORD // 32)


class Log:
    """A log of messages, each of which one epoch wrote."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, Message]] = []
        self.next: dict[int, int] = {}

    def append(self, epoch: int, key: int) -> None:
        offset = self.next.get(key, 0)
        self.next[key] = offset + 1
        self.messages.append((epoch, (key, offset, len(self.messages))))

    def store(self, node: str, length: int, *, own_from: int | None = None) -> list[ReplicaLog]:
        """The first messages of the log; from one on the replica may have written its own."""
        held = [
            (epoch, (k, o, v + 1000 if own_from is not None and i >= own_from else v))
            for i, (epoch, (k, o, v)) in enumerate(self.messages[:length])
        ]
        epochs = sorted({epoch for epoch, _ in held})
        pieces = []
        for epoch in epochs:
            at = [i for i, (e, _) in enumerate(held) if e == epoch]
            data = b"".join(written(held[i][1][2]) for i in at)
            blocks = [data[b : b + DIGEST_BYTES] for b in range(0, len(data), DIGEST_BYTES)]
            piece = ReplicaLog(
                node=node, set="b0", id=1, epoch=epoch, start=at[0] * RECORD,
                end=(at[-1] + 1) * RECORD, last=epoch == epochs[-1],
                digests=tuple(hashlib.sha256(b).hexdigest() for b in blocks),
                records=tuple(held[i][1] for i in at),
            )  # fmt: skip
            pieces.append(piece)
        return pieces


def sighted(*stores: list[ReplicaLog]) -> list[Sighting[ReplicaLog]]:
    pieces = [p for store in stores for p in store]
    return [Sighting(2 * i, 2 * i + 1, 0, 0, p) for i, p in enumerate(pieces)]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log = Log()
    epoch = 1
    for more, key in draw(st.lists(st.tuples(st.booleans(), st.integers(0, 1)), min_size=3)):
        epoch += more
        log.append(epoch, key)
    return log


@settings(max_examples=60, deadline=None)
@given(logs(), st.data())
def test_copies_of_one_log_agree(log: Log, data: st.DataObject) -> None:
    """S8 and S8b: whatever their lengths."""
    lengths = st.integers(1, len(log.messages))
    drawn = [log.store(f"b0-{n}", data.draw(lengths)) for n in range(3)]
    stores = stores_of(sighted(*drawn))

    assert all(store.complete for store in stores)
    assert partings(stores)[0] == []
    assert all(first_other_span(a, b) is None for a in stores for b in stores)


@settings(max_examples=60, deadline=None)
@given(logs(), st.data())
def test_a_tail_of_its_own_is_found_where_it_begins(log: Log, data: st.DataObject) -> None:
    """S8: in its first epoch that both hold, at the block of the first other byte or before it."""
    count = len(log.messages)
    own_from = data.draw(st.integers(0, count - 1))
    whole = log.store("b0-0", count)
    other = log.store("b0-1", data.draw(st.integers(own_from + 1, count)), own_from=own_from)
    stores = stores_of(sighted(whole, other, log.store("b0-2", count)))

    found, compared = partings(stores)
    first = min(found, key=lambda p: p.offset)
    byte = own_from * RECORD
    assert compared > 0
    assert "b0-1" in (first.a.view.node, first.b.view.node)
    assert first.offset <= byte < first.offset + DIGEST_BYTES
    assert {p.b.view.node for p in found} | {p.a.view.node for p in found} <= {
        "b0-0",
        "b0-1",
        "b0-2",
    }
