"""A run as its schedule says: inspection, calls and acts, the heals, and how it ends."""

from itertools import pairwise
from typing import Any

from generator_simulation import after, simulate
from test_run_plan import workload

from maxq.harness.contracts.cluster import Workload
from maxq.harness.run.run_plan import Composed, elect, steps
from maxq.harness.schedule.format import Act, Call, Header, Schedule, When, decode, encode
from maxq.harness.schedule.options import Options
from maxq.histories.fault_facts import BUILT_IN
from maxq.histories.op import NEMESIS, Op

SECOND_NS = 1_000_000_000
SHARES = ((0,), (1,))
ENDING = ("queue-final", "await-level", "elect-master", "observe-final", "last-look")


def composed() -> Composed:
    """The queue with two readers and two writers, locks, observers."""
    queue = workload("queue", 4)
    return Composed(
        [
            Workload(
                name="queue", threads=4, generator=queue.generator,
                final_generator=queue.final_generator, client=queue.client, topics={},
                shares=SHARES,
            ),
            workload("lock", 2, final=False),
            workload("observe", 1),
        ]
    )  # fmt: skip


def played(script: Schedule, *, stop_after: int | None = None, **more: Any) -> list[Op]:
    options = Options(environment="simulated", seed=1, workload=("queue", "lock"),
                      time_limit_ns=5 * SECOND_NS, replicas=3, **more)  # fmt: skip
    asked = [0]

    def stopped() -> bool:
        asked[0] += 1
        return stop_after is not None and asked[0] > stop_after

    made = composed()
    source = steps(options, made, decode(encode(script)), BUILT_IN, stopped=stopped)
    seen = simulate(source, concurrency=made.concurrency, complete=after(SECOND_NS // 10))
    return seen.invocations


SCRIPT = Schedule(
    header=Header(length=5.0),
    calls=(
        Call(id="s0", at=1.0, thread=2, value=[0, 0, 0]),
        Call(id="p0", at=1.0, thread=0, f="poll"),
        Call(id="t0", at=2.0, thread=1, f="turn", workload="lock"),
        Call(id="s1", at=9.0, thread=2, value=[0, 0, 1]),
    ),
    acts=(
        Act(id="k", f="kill", when=When(at=0.5)),
        Act(id="p", f="pause", when=When(at=1.5)),
        Act(id="late", f="kill", when=When(after="p", at=60.0)),
    ),
)


def test_a_run_does_what_its_schedule_says_and_nothing_else() -> None:
    ops = [op for op in played(SCRIPT) if not op.f.startswith("observe")]
    inspected = ops[0].time + SECOND_NS // 10
    main = [(op.f, op.process, (op.time - inspected) / SECOND_NS) for op in ops[1:7]]
    assert ops[0].f == "inspect"
    assert main[:4] == [
        ("kill", NEMESIS, 0.5), ("assign", 0, 1.0), ("send", 2, 1.0), ("poll", 0, 1.1),
    ]  # fmt: skip
    assert main[4:] == [("pause", NEMESIS, 1.5), ("lock", 5, 2.0)]


def test_what_is_due_after_the_time_limit_is_not_done_but_all_is_healed() -> None:
    ops = [op for op in played(SCRIPT) if op.f != "observe"]
    fs = [op.f for op in ops]
    assert fs.count("kill") == 1
    assert fs.count("send") == 1
    assert fs[-8:] == [*("resume", "start", "await-recovery"), *ENDING]
    assert [op.value for op in ops[-8:-6]] == ["end/resume", "end/start"]


def test_observers_go_on_as_ever() -> None:
    """Also while all that is left is beyond the time limit, and everybody else is only busy."""
    assert sum(op.f == "observe" for op in played(SCRIPT)) > 40


def test_a_request_to_stop_ends_the_main_part_and_nothing_else() -> None:
    ops = played(SCRIPT, stop_after=8)
    assert sum(op.f == "observe" for op in ops) < 12
    assert [op.f for op in ops][-8:] == [
        "resume", "start", "await-recovery", *ENDING,
    ]  # fmt: skip


def test_at_the_end_each_replica_leads_and_is_read() -> None:
    """S9: what one replica has, the others have, as consumers see it."""
    ops = played(SCRIPT, ending="each-replica")
    told = [(op.f, op.value) for op in ops if op.f != "observe"]
    assert told.pop() == ("last-look", None)
    tail = told[-9:-3]
    assert [f for f, _ in tail] == ["elect-master", "queue-final"] * 3
    assert [value for f, value in tail if f == "elect-master"] == ["end/0", "end/1", "end/2"]
    asked = [op.ext for op in ops if op.f == "elect-master"]
    assert asked == [{"args": {"replica": n}} for n in range(3)]
    assert elect(2) == {"f": "elect-master", "value": "end/2", "args": {"replica": 2}}
    [last] = [op for op in played(SCRIPT) if op.f == "elect-master"]
    assert last.ext == {"args": {"replica": "other", "refusable": True}}, "once all is read"


def test_at_the_very_end_controllers_lead_in_turn_while_observers_ask() -> None:
    ops = played(SCRIPT, ending="each-replica")
    changes = [op for op in ops if op.f == "change-controller-leader"]
    assert [op.value for op in changes] == ["end/0", "end/1", "end/2"]
    assert all(op.process == NEMESIS for op in changes)
    drained = max(op.time for op in ops if op.f == "queue-final")
    before, *after = [
        sum(op.f == "observe" and begin < op.time <= end for op in ops)
        for begin, end in pairwise([drained, *(op.time for op in changes), ops[-1].time])
    ]
    assert changes[0].time - drained > 20 * SECOND_NS, "everybody could tell whoever leads"
    assert before > 20
    assert min(after) > 2, "each that leads is asked"
    lonely = played(SCRIPT, ending="each-replica", controllers=1)
    assert not [op for op in lonely if op.f == "change-controller-leader"], "nobody else can lead"


def test_a_schedule_may_be_of_nothing() -> None:
    fs = [op.f for op in played(Schedule(header=Header(length=5.0))) if op.f != "observe"]
    assert fs == ["inspect", "await-recovery", *ENDING]
