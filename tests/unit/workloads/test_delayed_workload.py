"""The delayed workload: who sends what, who reads what, and how a run reads on at the end."""

from generator_simulation import after, simulate

from maxq.harness.generators import delay, reserve, time_limit
from maxq.harness.schedule.options import DELAYED
from maxq.histories.observed import READ_DELAYED, SEND_DELAYED
from maxq.workloads import delayed
from maxq.workloads.delayed import DELAYS_MS, FINAL_NS, Sends
from maxq.workloads.following import FINAL_GAP_NS, Reads

MS_NS = 1_000_000


def test_messages_are_unique_and_of_all_levels() -> None:
    senders = ((1, delay(10 * MS_NS, Sends(n))) for n in range(delayed.SENDERS))
    gen = time_limit(5000 * MS_NS, reserve(*senders))
    ops = simulate(gen, concurrency=2, complete=after(MS_NS, "ok")).invocations
    assert {op.f for op in ops} == {SEND_DELAYED}
    values = [op.value[0] for op in ops]
    assert len(set(values)) == len(values) > 100
    assert {op.value[1] for op in ops} == set(DELAYS_MS)


def test_the_last_reader_reads_every_queue_in_turn_for_longer_than_the_longest_delay() -> None:
    gen = time_limit(FINAL_NS, reserve((1, Reads(READ_DELAYED, 4, gap_ns=FINAL_GAP_NS))))
    ops = simulate(gen, concurrency=1, complete=after(MS_NS, "ok")).invocations
    assert [op.f for op in ops] == [READ_DELAYED] * len(ops)
    assert [op.value for op in ops[:5]] == [0, 1, 2, 3, 0]
    assert ops[-1].time - ops[0].time > 2 * max(DELAYS_MS) * MS_NS
    assert len(ops) <= FINAL_NS // FINAL_GAP_NS + 1


def test_a_run_counts_its_threads() -> None:
    """A history of a run is dealt out by how many threads each workload has."""
    assert DELAYED == delayed.READERS + delayed.SENDERS
