"""A broker's share of its partition, over many looks: B9 and B10 for all histories of writes.

Each look follows writes of a few files at most, as many as a look may take. Sizes are bytes.
"""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from maxq.reference.broker.store.retention import HOUR_MS, LogFile, Rules, Seen, Verdict, judge
from maxq.reference.records import PhyOffset

FILE, BATCH = 100, 5
TOTALS = st.integers(20 * FILE, 60 * FILE)
SHARES = st.floats(0.2, 0.99)


class Log:
    """A broker's log, and its queues, which do not shrink here."""

    def __init__(self, rules: Rules, total: int, queues: int) -> None:
        self.rules, self.total, self.queues = rules, total, queues
        self.files: list[LogFile] = []
        self._end = 0
        self.now_ms = 0

    @property
    def own(self) -> int:
        return len(self.files) * FILE + self.queues

    @property
    def most(self) -> float:
        return self.rules.share * self.rules.share_forcibly_at * self.total

    def write(self, count: int) -> None:
        for _ in range(count):
            self.files.append(LogFile(start=PhyOffset(self._end), modified_ms=self.now_ms))
            self._end += FILE

    def seen(self, *, used: float, held_from: int) -> Seen:
        return Seen(
            now_ms=self.now_ms, hour=0, used=used, held_from=PhyOffset(held_from), own=self.own,
            total=self.total,
        )  # fmt: skip

    def look(self, *, used: float = 50, held_from: int = 1 << 60) -> Verdict:
        seen = self.seen(used=used, held_from=held_from)
        verdict = judge(self.rules, seen, self.files, full=False)
        if verdict.start is not None:
            self.files = [f for f in self.files if f.start >= verdict.start]
        return verdict


@st.composite
def logs(draw: st.DrawFn) -> Log:
    share, total = draw(SHARES), draw(TOTALS)
    rules = Rules(share=share, batch_max=BATCH, reserved_ms=draw(st.integers(1, 80)) * HOUR_MS)
    return Log(rules, total, queues=draw(st.integers(0, round(share * total * 0.8) // 2)))


@given(logs(), st.lists(st.tuples(st.integers(0, BATCH), st.integers(0, 9)), max_size=40))
def test_a_broker_keeps_to_its_share_and_no_less(log: Log, looks: list[tuple[int, int]]) -> None:
    """Between two looks at 0.8 of the share and what was written since; the oldest went first; and
    nothing younger than its retention went that did not have to."""
    for count, hours in looks:
        log.now_ms += hours * HOUR_MS
        log.write(count)
        before, own = log.files, log.own
        assert own <= max(log.most, log.queues + FILE) + count * FILE
        log.look()
        gone = before[: len(before) - len(log.files)]
        assert before[len(gone) :] == log.files
        young = [f for f in gone if log.now_ms < f.modified_ms + log.rules.reserved_ms]
        if young:
            assert log.own + FILE > log.most
        if not gone and len(before) > 1:
            assert own <= log.most


@given(logs(), st.integers(0, 30), st.floats(0, 100), st.integers(0, 3000), st.integers(0, 90))
def test_no_neighbour_and_no_slave_is_harmed(
    log: Log, count: int, used: float, held_from: int, hours: int
) -> None:
    """How full the partition is decides about sends alone; what is held stays; what is beyond the
    share then is said."""
    log.write(count)
    log.now_ms += hours * HOUR_MS
    verdicts = [
        judge(log.rules, log.seen(used=at, held_from=held_from), log.files, full=False)
        for at in (used, 0.0)
    ]
    assert msgspec.structs.replace(verdicts[0], full=False) == verdicts[1]
    verdict = log.look(used=used, held_from=held_from)
    assert verdict.start is None or verdict.start <= held_from
    assert (verdict.beyond > 0) == (log.own > log.most)
