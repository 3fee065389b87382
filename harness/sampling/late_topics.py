"""When topics of the workload queue come into being during a run, and what is sent to them then.

Half of all sends go to the topic that is there from the beginning; the others to the later ones, to
each from its own drawn moment on. Keys are numbered as `maxq.workloads.queue` does. Times are
seconds of the main part.
"""

from collections.abc import Iterator, Sequence

from maxq.harness.contracts.keyed_draws import Keyed
from maxq.harness.contracts.target import plan
from maxq.harness.schedule.format import SEND, Call, Load
from maxq.harness.schedule.options import Options
from maxq.histories.observed import CREATE_TOPIC
from maxq.workloads.queue import QUEUES, topics_of

FIRST, LAST = 50, 750  # between these thousandths of the main part each moment is drawn


def moments(options: Options, length: float, period: float = 0.0) -> list[float]:
    """When each topic but the first comes into being; where there are periods, at one's begin."""
    draws = Keyed(f"{options.seed}/topics")
    drawn = sorted(
        draws.between(FIRST, LAST, topic) * length / 1000 for topic in range(1, options.topics)
    )
    return [round(at - at % period if period else at, 3) for at in drawn]


def keys_of(sets: int, topic: int) -> tuple[int, ...]:
    """The keys of a topic, by its number from 0 on, one on each broker set."""
    first = QUEUES * sets + (topic - 1) * sets if topic else 0
    return tuple(range(first, first + (sets if topic else QUEUES * sets)))


def late_loads(
    options: Options, length: float, period: float, rate: float, writers: tuple[int, ...]
) -> Iterator[Load]:
    """What is sent, `rate` messages a second in the end."""
    sets = options.broker_sets
    yield Load(id="send", until=length, rate=rate / 2, f=SEND, threads=writers,
               keys=keys_of(sets, 0))  # fmt: skip
    for number, at in enumerate(moments(options, length, period), start=1):
        yield Load(id=f"send-{number}", at=at, until=length, rate=rate / 2 / (options.topics - 1),
                   f=SEND, threads=writers, keys=keys_of(sets, number))  # fmt: skip


def creations(options: Options, length: float, writers: Sequence[int]) -> Iterator[Call]:
    """An operator's calls, one for each topic and broker set."""
    names = sorted({n.broker_set for n in plan(options.topology) if n.broker_set and not n.spare})
    topics = [*topics_of(options.topics)]
    for number, at in enumerate(moments(options, length), start=1):
        for key, name in zip(keys_of(len(names), number), names, strict=True):
            value = {"key": key, "topic": topics[number], "node": name}
            yield Call(id=f"topic{key}", at=at, thread=writers[key % len(writers)], f=CREATE_TOPIC,
                       value=value)  # fmt: skip
