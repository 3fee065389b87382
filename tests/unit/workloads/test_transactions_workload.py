"""The transactions workload: what producers decide, when they end it, what their journal says."""

import asyncio

from generator_simulation import after, simulate

from maxq.harness.generators import delay, reserve, time_limit
from maxq.harness.schedule.options import TRANSACTIONS
from maxq.histories.observed import END_TRANSACTION, LATE_NS, SEND_HALF
from maxq.workloads import transactions
from maxq.workloads.transactions import KINDS, Journal, Produces

MS_NS = 1_000_000


def produced(kind: str = "ok") -> list[tuple[int, str, list[object]]]:
    producers = ((1, delay(10 * MS_NS, Produces(n))) for n in range(transactions.PRODUCERS))
    gen = time_limit(20_000 * MS_NS, reserve(*producers))
    ops = simulate(gen, concurrency=transactions.PRODUCERS, complete=after(MS_NS, kind)).invocations
    return [(op.time, op.f, op.value) for op in ops]


def test_messages_are_unique_and_of_every_kind() -> None:
    sent = [value for _, f, value in produced() if f == SEND_HALF]
    assert len({value[0] for value in sent}) == len(sent) > 100
    assert {(value[1], value[2]) for value in sent} == set(KINDS)


def test_what_is_stored_is_ended_soon_late_or_never() -> None:
    begun = {value[0]: (at, value) for at, f, value in produced() if f == SEND_HALF}
    ends = {value[0]: (at, value[1]) for at, f, value in produced() if f == END_TRANSACTION}
    for number, (at, decision) in ends.items():
        sent_at, (_, decided, when) = begun[number]
        assert (decision, when in ("soon", "late")) == (decided, True)
        assert (at - sent_at >= LATE_NS) == (when == "late")
    assert {begun[number][1][2] for number in ends} == {"soon", "late"}


def test_what_is_not_stored_is_not_ended() -> None:
    assert {f for _, f, _ in produced("fail")} == {SEND_HALF}


def test_a_journal_tells_what_is_late_only_when_it_is_known() -> None:
    async def ask() -> None:
        journal = Journal()
        journal.begin("a", "commit", "silent")
        journal.begin("b", "commit", "late")
        assert [journal.decided(key) for key in "abc"] == ["commit", "none", "none"]

    asyncio.run(ask())


def test_a_run_counts_its_threads() -> None:
    """A history of a run is dealt out by how many threads each workload has."""
    assert TRANSACTIONS == transactions.READERS + transactions.PRODUCERS
