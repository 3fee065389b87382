"""Several workloads on one range of threads, and the schedule of a whole run."""

from typing import Any

import msgspec
import pytest
from generator_simulation import after, simulate

from maxq.harness.contracts.cluster import Workload
from maxq.harness.generators import cycle, once
from maxq.harness.run.run_plan import Composed, steps
from maxq.harness.schedule.format import Header, Schedule
from maxq.harness.schedule.options import Options
from maxq.histories.fault_facts import AWAIT_RECOVERY, BUILT_IN, ELECT_MASTER
from maxq.histories.observed import COPIED_NS

SECOND_NS = 1_000_000_000


def workload(name: str, threads: int, *, final: bool = True) -> Workload:
    return Workload(
        name=name,
        threads=threads,
        generator=cycle(once({"f": name, "value": None})),
        final_generator=once({"f": f"{name}-final", "value": None}) if final else None,
        client=lambda thread: f"{name}/{thread}",  # type: ignore[arg-type, return-value]
        topics={name: threads},
    )


COMPOSED = Composed(
    [workload("queue", 3), workload("lock", 2, final=False), workload("observe", 1)]
)


def test_each_thread_has_the_client_of_its_workload() -> None:
    clients: list[Any] = [COMPOSED.client(thread) for thread in range(COMPOSED.concurrency)]
    assert clients == ["queue/0", "queue/1", "queue/2", "lock/0", "lock/1", "observe/0"]
    with pytest.raises(ValueError, match="thread 6"):
        COMPOSED.client(6)


def test_topics_are_of_all() -> None:
    assert COMPOSED.topics == {"queue": 3, "lock": 2, "observe": 1}


def test_before_a_quiet_fail_over_places_are_committed_and_everybody_looks_who_leads() -> None:
    """Observers are idle then: what they did not see an election may have been."""
    moves = msgspec.structs.replace(
        workload("offsets", 1), settling=once({"f": "settle", "value": None})
    )
    eyes = msgspec.structs.replace(workload("observe", 1), look=once({"f": "look", "value": None}))
    options = Options(environment="simulated", seed=1, workload=("offsets",),
                      time_limit_ns=SECOND_NS)  # fmt: skip
    composed = Composed([moves, eyes])
    script = Schedule(header=Header(length=1.0))
    source = steps(options, composed, script, BUILT_IN, stopped=lambda: False)
    seen = simulate(source, concurrency=2, complete=after(SECOND_NS // 10)).invocations
    fs = [op.f for op in seen]
    ending = fs[fs.index(AWAIT_RECOVERY) + 1 : fs.index("offsets-final")]
    assert ending == ["look", "settle", "look", ELECT_MASTER, "look"]
    committed, looked = (next(op.time for op in seen if op.f == f) for f in ("settle", "look"))
    assert looked < committed
    elected = next(op.time for op in seen if op.f == ELECT_MASTER)
    assert elected - committed > COPIED_NS
