"""Several workloads on one range of threads, and the schedule of a whole run."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from harness.contracts.cluster import FaultPackage, Workload
from harness.generators import cycle, once
from harness.generators.simulate import after, simulate
from harness.run.run_plan import Composed, steps
from harness.schedule.options import Options
from histories.fault_facts import AWAIT_RECOVERY, ELECT_MASTER, INSPECT, LAST_LOOK
from histories.observed import AWAIT_LEVEL, COPIED_NS
from histories.op import NEMESIS

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


ENDING = ["queue-final", AWAIT_LEVEL, ELECT_MASTER, "observe-final", LAST_LOOK]
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


def fault(strike: str = "kill", heal: str = "start") -> FaultPackage:
    return FaultPackage(
        name=strike,
        needs=frozenset(),
        generator=once({"f": strike, "value": None}),
        final_generator=once({"f": heal, "value": None}),
        nemesis=None,  # type: ignore[arg-type]
        fs=frozenset({strike, heal}),
    )


def played(
    stop_after: int | None = None, faults: Sequence[FaultPackage] = (fault(),)
) -> list[tuple[str, int | str]]:
    options = Options(environment="simulated", seed=1, workload=("queue", "lock"),
                      time_limit_ns=SECOND_NS)  # fmt: skip
    asked = [0]

    def stopped() -> bool:
        asked[0] += 1
        return stop_after is not None and asked[0] > stop_after

    source = steps(options, COMPOSED, faults, stopped)
    seen = simulate(source, concurrency=COMPOSED.concurrency, complete=after(SECOND_NS // 10))
    return [(op.f, op.process) for op in seen.invocations]


def test_a_run_inspects_works_heals_recovers_reads_and_looks() -> None:
    ops = played()
    fs = [f for f, _ in ops]
    assert fs[0] == INSPECT
    assert fs[-4:] == ENDING[-4:]
    order = [fs.index(f) for f in ("queue", "start", AWAIT_RECOVERY, "queue-final")]
    assert order == sorted(order)
    assert {p for f, p in ops if f == "lock"} <= {3, 4}
    assert {p for f, p in ops if f == "queue"} <= {0, 1, 2}
    assert {p for f, p in ops if f in ("kill", "start", INSPECT)} == {NEMESIS}
    assert fs.count("queue") > 20


def test_all_faults_are_healed_in_order_whatever_the_order_of_the_packages() -> None:
    heals = {"kill": "start", "change-ip": "restore-ip", "start-partition": "stop-partition"}
    ops = [f for f, _ in played(faults=[fault(*pair) for pair in heals.items()])]
    assert [f for f in ops if f in heals.values()] == ["stop-partition", "restore-ip", "start"]
    assert ops.index("start") < ops.index(AWAIT_RECOVERY)
    assert [f for f, _ in played(faults=())].count(AWAIT_RECOVERY) == 1


def test_a_request_to_stop_ends_the_main_part_and_nothing_else() -> None:
    fs = [f for f, _ in played(stop_after=10)]
    assert fs.count("queue") < 10
    assert fs[-7:] == ["start", AWAIT_RECOVERY, *ENDING]


def test_before_a_quiet_fail_over_places_are_committed_and_everybody_looks_who_leads() -> None:
    """Observers are idle then: what they did not see an election may have been."""
    moves = msgspec.structs.replace(
        workload("offsets", 1), settling=once({"f": "settle", "value": None})
    )
    eyes = msgspec.structs.replace(workload("observe", 1), look=once({"f": "look", "value": None}))
    options = Options(environment="simulated", seed=1, workload=("offsets",),
                      time_limit_ns=SECOND_NS)  # fmt: skip
    composed = Composed([moves, eyes])
    source = steps(options, composed, (), lambda: False)
    seen = simulate(source, concurrency=2, complete=after(SECOND_NS // 10)).invocations
    fs = [op.f for op in seen]
    ending = fs[fs.index(AWAIT_RECOVERY) + 1 : fs.index("offsets-final")]
    assert ending == ["look", "settle", "look", ELECT_MASTER, "look"]
    committed, looked = (next(op.time for op in seen if op.f == f) for f in ("settle", "look"))
    assert looked < committed
    elected = next(op.time for op in seen if op.f == ELECT_MASTER)
    assert elected - committed > COPIED_NS
