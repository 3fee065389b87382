"""What a run declares that its verdict will rest on, by how it is set up."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from maxq.harness.run.grounds import NEW, grounds_of, older
from maxq.harness.schedule.options import COMMITTERS, Options
from maxq.histories.grounds import (
    BROKER,
    CONSUMER_OFFSET,
    CONTROLLER,
    FINAL_READ,
    LOCK,
    NAMESRV,
    PROBE,
    RECOVERY,
    REPLICA_LOG_READ,
    declaration,
    declared,
)
from maxq.workloads.queue import QUEUES

PLAIN = Options(environment="simulated", seed=1, workload=("queue",))


def options(**more: Any) -> Options:
    return msgspec.structs.replace(PLAIN, **more)


def kinds(asked: Options) -> Counter[str]:
    return Counter(ground[0] for ground in grounds_of(asked))


def test_a_run_of_one_set_of_three() -> None:
    assert kinds(PLAIN) == {
        RECOVERY: 1,
        PROBE: QUEUES,
        FINAL_READ: QUEUES,
        REPLICA_LOG_READ: 3,
        CONTROLLER: 3,
        NAMESRV: 1,
        BROKER: 3,
    }
    assert (FINAL_READ, 0, "b0", None) in grounds_of(PLAIN)
    assert (BROKER, "b0-2") in grounds_of(PLAIN)


def test_every_queue_of_every_set_has_a_key_of_its_own() -> None:
    found = grounds_of(options(broker_sets=2))
    probed = [ground[1:] for ground in found if ground[0] == PROBE]
    assert probed == [(n, "b0" if n < QUEUES else "b1") for n in range(2 * QUEUES)]
    assert [g[1:3] for g in found if g[0] == FINAL_READ] == probed


@pytest.mark.parametrize(
    ("workload", "more"),
    [
        (("queue",), {FINAL_READ: QUEUES}),
        (("lock",), {LOCK: QUEUES}),
        (("offsets",), {CONSUMER_OFFSET: COMMITTERS}),
        (("registration",), {}),
        (("queue", "lock"), {FINAL_READ: QUEUES, LOCK: QUEUES}),
    ],
)
def test_what_a_workload_adds(workload: tuple[str, ...], more: dict[str, int]) -> None:
    found = kinds(options(workload=workload))
    assert {k: found[k] for k in (FINAL_READ, LOCK, CONSUMER_OFFSET) if found[k]} == more
    assert (found[RECOVERY], found[PROBE]) == (1, QUEUES), "of every run"


def test_brokers_that_clients_start_and_stop_are_asked_for_nothing() -> None:
    assert kinds(options(workload=("registration",)))[BROKER] == 3


def test_at_the_end_every_replica_may_be_read() -> None:
    read = [g for g in grounds_of(options(ending="each-replica")) if g[0] == FINAL_READ]
    assert read == [(FINAL_READ, key, "b0", f"b0-{n}") for key in range(QUEUES) for n in range(3)]


def test_the_logs_of_a_target_without_ids_are_no_ground() -> None:
    found = kinds(options(target="rocketmq:5.1.0", environment="local"))
    assert found + Counter({REPLICA_LOG_READ: 3}) == kinds(PLAIN)
    assert kinds(options(target="rocketmq:5.1.1", environment="local")) == kinds(PLAIN)


def test_what_an_older_version_did_is_a_part_of_it() -> None:
    asked = options(workload=("queue", "lock", "offsets"))
    left = older(grounds_of(asked))
    assert {g[0] for g in grounds_of(asked)} - {g[0] for g in left} == NEW
    assert set(left) < set(grounds_of(asked))


def test_what_is_declared_is_what_the_history_says() -> None:
    asked = options(workload=("queue", "lock", "offsets"), ending="each-replica", broker_sets=2)
    assert declared(declaration(grounds_of(asked))) == grounds_of(asked)
    assert len(set(grounds_of(asked))) == len(grounds_of(asked))
