"""The workload that floods one broker set, and what is seen of brokers' disks meanwhile."""

from generator_simulation import after, simulate

from maxq.harness.client.disk_use import disk_view
from maxq.harness.generators import delay, reserve, time_limit
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.shares import SHARE_BYTES
from maxq.histories.observed import SEND_FLOOD
from maxq.workloads.flood import BODY_BYTES, QUIET_MAX, SENDERS, Sends

MS_NS = 1_000_000
OPTIONS = Options(environment="simulated", seed=1, workload=("flood",), profile="P-SYNC",
                  controllers=0, broker_sets=2, replicas=2, layout="crossed-2")  # fmt: skip


def test_the_first_set_is_flooded_and_others_get_a_few() -> None:
    gen = time_limit(20_000 * MS_NS, reserve((SENDERS, delay(MS_NS, Sends(3)))))
    ops = simulate(gen, concurrency=SENDERS, complete=after(MS_NS, "ok")).invocations
    assert {op.f for op in ops} == {SEND_FLOOD}
    assert [op.value[1] for op in ops] == list(range(len(ops)))
    sent = [op.value[0] for op in ops]
    assert (sent.count(1), sent.count(2)) == (QUIET_MAX, QUIET_MAX)
    assert sent.count(0) * BODY_BYTES > 10 * SHARE_BYTES


def test_quiet_sets_stay_within_their_share() -> None:
    assert QUIET_MAX * BODY_BYTES < 0.5 * SHARE_BYTES


def test_a_broker_has_the_share_of_its_settings_in_each_environment() -> None:
    shares = OPTIONS.shares
    assert set(shares) == {"b0-0", "b0-1", "b1-0", "b1-1"}
    assert {(s.threshold, s.every_ms, s.first_ms, s.ahead) for s in shares.values()} == {
        (0.8, 1000, 1000, 0)
    }
    assert round(shares["b0-0"].part * (1 << 40)) == SHARE_BYTES
    java = Options(**{f: getattr(OPTIONS, f) for f in OPTIONS.__struct_fields__}
                   | {"target": "rocketmq:5.5.0",
                      "keys": {"broker:replicasPerDiskPartition": "4"}})  # fmt: skip
    assert {(s.part, s.first_ms, s.ahead) for s in java.shares.values()} == {(0.25, 60_000, 2)}


def test_files_of_log_and_queues_count_and_no_others() -> None:
    sizes = {
        f"commitlog/{200:020d}": 100, f"commitlog/{300:020d}": 100, "checkpoint": 4096,
        f"consumequeue/T/0/{40:020d}": 20, f"consumequeue/T/1/{0:020d}": 20,
        "index/20261130": 420, "commitlog/watermark.tmp": 7,
    }  # fmt: skip
    view = disk_view("b0-0", "b0", sizes, 10_000, OPTIONS.shares["b0-0"])
    assert (view.used, view.made, view.start, view.end) == (240, 400 + 60 + 20, 200, 400)
    assert disk_view("b0-0", "b0", {}, 1, view.share).used == 0
