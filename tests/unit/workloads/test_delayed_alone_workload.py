"""The workload of delayed messages of a topic that one broker set has."""

from generator_simulation import after, simulate

from maxq.harness.generators import delay, reserve, time_limit
from maxq.harness.schedule.options import DELAYED_ALONE
from maxq.histories.observed import SEND_DELAYED_ALONE
from maxq.workloads.delayed import DELAYS_MS, Sends
from maxq.workloads.delayed_alone import SENDERS

MS_NS = 1_000_000


def test_messages_are_unique_and_of_every_delay() -> None:
    sends = delay(10 * MS_NS, Sends(0, f=SEND_DELAYED_ALONE, of=SENDERS))
    gen = time_limit(2000 * MS_NS, reserve((1, sends)))
    ops = simulate(gen, concurrency=1, complete=after(MS_NS, "ok")).invocations
    assert {op.f for op in ops} == {SEND_DELAYED_ALONE}
    assert [op.value[0] for op in ops] == list(range(len(ops)))
    assert {op.value[1] for op in ops} == set(DELAYS_MS)


def test_a_run_counts_its_threads() -> None:
    assert DELAYED_ALONE == SENDERS
