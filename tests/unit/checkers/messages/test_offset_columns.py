"""Consumer offsets: the sweep equals a look at every pair, and arrays equal the sweep."""

from collections import Counter
from collections.abc import Iterator, Sequence

from both_ways import compared
from offset_histories import offset_case

from maxq.checkers.core.keyed import results_of
from maxq.checkers.messages.consumer_offsets import Completed, Kept, Offsets, _forgotten
from maxq.checkers.messages.copied_offsets import Circumstances, Copied, FailOver
from maxq.histories.observed import COMMIT_OFFSET, COPIED_NS, FETCH_OFFSET
from maxq.histories.op import HistoryError

SEEDS = 400


class EveryPair(Offsets):
    """The same check: each fetch is compared with each commit."""

    def judge(
        self, key: int, rows: Sequence[Completed], known: Circumstances, more: object = None
    ) -> Kept:
        commits = [row for row in rows if row.op.f == COMMIT_OFFSET and _by_master(known, row)]
        copied = [(c, when) for c in commits if (when := _copied(known, c)) is not None]
        kept = Kept([], 0, 0)
        for row in (row for row in rows if row.op.f == FETCH_OFFSET):
            before = [c for c in commits if c.op.index < row.begun]
            elsewhere = any(_may_be_another(known, c, row) for c in before[-1:])
            kept = kept._replace(elsewhere=kept.elsewhere + elsewhere)
            counted = [
                (c, when) for c, when in copied
                if when.at_ns < row.begun_ns and c.op.index < row.begun
            ]  # fmt: skip
            if not counted:
                continue
            last = max((c for c, _ in counted), key=lambda c: int(c.op.value[1]))
            judged = any(_failed_over(known, c, when.until, row.begun) for c, when in counted)
            kept = kept._replace(judged=kept.judged + judged)
            if row.op.value[1] < last.op.value[1]:
                kept.found.append(_forgotten(key, last, row))
        return kept


def _by_master(known: Circumstances, row: Completed) -> bool:
    """Some answer of its time names who took the note as master, or one of the two around that."""
    broker = str((row.op.ext or {}).get("broker"))
    masters = known.masters.get(known.sets.get(broker, ""))
    if masters is None:
        return True
    answers = list(zip(*masters, strict=True))
    before = [address for _, at, address in answers if at < row.begun][-1:]
    after = [address for begun, _, address in answers if begun > row.op.index][:1]
    during = [a for begun, at, a in answers if at >= row.begun and begun <= row.op.index]
    return broker in (*before, *during, *after)


def _copied(known: Circumstances, commit: Completed) -> Copied | None:
    for span in known.spans:
        at_ns = max(span.at_ns, commit.op.time) + COPIED_NS
        elected = any(e.at < span.at and e.until > commit.begun for e in known.elections)
        if at_ns < span.until_ns and not elected:
            return Copied(at_ns, span.until)
    return None


def _failed_over(known: Circumstances, commit: Completed, since: int, until: int) -> bool:
    return any(since <= f.at and f.until < until for f in _of(known, commit))


def _may_be_another(known: Circumstances, commit: Completed, fetch: Completed) -> bool:
    brokers = {(row.op.ext or {}).get("broker") for row in (commit, fetch)}
    met = (f.at < fetch.op.index and f.until > commit.begun for f in _of(known, commit))
    return len(brokers) > 1 or any(met)


def _of(known: Circumstances, commit: Completed) -> Iterator[FailOver]:
    home = known.sets.get(str((commit.op.ext or {}).get("broker")))
    names = {*known.sets.values()} if home is None else {home}
    return (f for f in known.fail_overs if names == {f.set})


def test_the_sweep_finds_and_counts_what_a_look_at_every_pair_does() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        history, context = offset_case(seed)
        known = Offsets().prepare(history, context)
        try:
            expected = results_of(EveryPair(), history, known)
        except HistoryError:
            continue
        assert results_of(Offsets(), history, known) == expected, seed
        for kept in expected.values():
            seen.update(found=len(kept.found), judged=kept.judged, elsewhere=kept.elsewhere)
    assert min(seen["found"], seen["judged"], seen["elsewhere"]) > SEEDS / 4, seen


def test_offsets_that_are_kept_or_nearly_so_are_judged_alike() -> None:
    """Of both kinds there are many, or agreement would say little."""
    found = compared(Offsets(), map(offset_case, range(SEEDS)))
    assert found["sure"] > SEEDS, found
    assert found["blamed"] > SEEDS / 5, found
    assert found["spared"] < found["sure"] / 20, found
    assert found["valid? True"] > SEEDS / 4, found
