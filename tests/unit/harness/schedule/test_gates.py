"""Topics that an operator makes during a run: nothing is sent to one before it is made."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.harness.client.session import QueueName
from maxq.harness.contracts.cluster import Made
from maxq.harness.contracts.generator import Context, Generator, Roster
from maxq.harness.sampling.late_topics import keys_of
from maxq.harness.sampling.rounds import schedule_of
from maxq.harness.schedule.format import SEND
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.perform import queue_calls
from maxq.histories.observed import CREATE_TOPIC, RETRY
from maxq.histories.op import Op, OpType, Process
from maxq.workloads.queue import QUEUES, instead_of, topics_of

SECOND_NS = 1_000_000_000
STEP_NS = 20_000_000


def options_of(seed: int, sets: int, made: Made) -> Options:
    return Options(
        environment="simulated", seed=seed, workload=("queue",), nemesis=("none",), topics=4,
        topics_made=made, broker_sets=sets, time_limit_ns=10 * SECOND_NS, rate=30.0,
        concurrency=3,
    )  # fmt: skip


def performed(options: Options, outcomes: list[OpType]) -> list[Op]:
    """A run's operations, and completions of those that make topics: these end in turn as said,
    from the last one on `ok`."""
    names = [f"b{n}" for n in range(options.broker_sets)]
    queues = [QueueName(topic, b, q) for topic, count in topics_of(options.topics).items()
              for b in names for q in range(count)]  # fmt: skip
    script = schedule_of(options, 1)
    gen: Generator = queue_calls(script, 3, ((0,),), None, instead_of(queues))(0)
    processes, ends = [0, 1, 2], [*outcomes]
    seen: list[Op] = []
    for now in range(0, options.time_limit_ns, STEP_NS):
        positions: dict[Process, int] = {p: p % 3 for p in processes}
        ctx = Context(now, Random(1), Roster((0, 1, 2), tuple(processes), positions), 7, 7)
        step = gen.op(ctx)
        if step is None:
            continue
        op, after = step
        if not isinstance(op, Op) or op.time > now:
            continue
        assert isinstance(op.process, int)
        gen = after.update(ctx, op)
        seen.append(op)
        kind: OpType = (ends.pop(0) if ends else "ok") if op.f == CREATE_TOPIC else "ok"
        done = Op(kind, op.process, op.f, op.value, time=now + 1, ext=op.ext)
        seen.append(done)
        gen = gen.update(ctx, done)
        if kind == "info":
            processes[positions[op.process]] += 3
    return seen


@settings(max_examples=30)
@given(st.integers(0, 99), st.integers(1, 3), st.lists(st.sampled_from(["ok", "fail", "info"])))
def test_a_topic_is_sent_to_once_it_is_made_and_what_failed_is_tried_again(
    seed: int, sets: int, outcomes: list[OpType]
) -> None:
    made: set[int] = set()
    asked: dict[int, int] = {}
    for op in performed(options_of(seed, sets, "during"), outcomes):
        if op.f == CREATE_TOPIC:
            key = op.value["key"]
            if op.type == "invoke":
                assert (op.ext or {}).get(RETRY, 0) == asked.get(key, 0)
                asked[key] = asked.get(key, 0) + 1
                assert key not in made
            elif op.type == "ok":
                made.add(key)
        elif op.f == SEND and op.type == "invoke":
            [[_, key, _]] = op.value
            assert key < QUEUES * sets or key in made
    if not set(outcomes) - {"ok"}:
        assert asked == dict.fromkeys(range(QUEUES * sets, (QUEUES + 3) * sets), 1)


@given(st.integers(0, 9999), st.integers(1, 3), st.sampled_from(["by-sending", "during"]))
def test_topics_come_into_being_one_by_one_amid_the_run(seed: int, sets: int, made: Made) -> None:
    options = options_of(seed, sets, made)
    script = schedule_of(options, 1)
    first: dict[int, float] = {}
    for call in script.expanded():
        if call.f == SEND:
            first.setdefault(call.value[0], call.at)
    for topic in range(1, options.topics):
        begins = [first[key] for key in keys_of(sets, topic)]
        assert all(0.5 <= at <= 7.5 + 1 for at in begins)
        asked = [c.at for c in script.calls if c.value["key"] in keys_of(sets, topic)]
        assert len(asked) == (sets if made == "during" else 0)
        assert all(at <= min(begins) for at in asked)
    keys = [key for topic in range(options.topics) for key in keys_of(sets, topic)]
    assert keys == [*range((QUEUES + 3) * sets)]
