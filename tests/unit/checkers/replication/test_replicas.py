"""S8, S8b, S9: stores against one another, and against what was acknowledged."""

import hashlib
from typing import Any

import pytest
from cluster_recorder import Cluster, set_view
from profiles import under

from maxq.checkers.core.api import Anomaly, Context, Verdict
from maxq.checkers.replication.replicas import Replicas
from maxq.histories.history import History
from maxq.histories.observed import DIGEST_BYTES, ReplicaLog
from maxq.histories.op import NEMESIS, Op

CONTEXT = Context(broker_sets={"b0": ("b0-0", "b0-1", "b0-2")})
K = DIGEST_BYTES


def judge(r: Cluster, context: Context = CONTEXT) -> Verdict:
    return Replicas().check(r.history, context)


def only(r: Cluster) -> Anomaly:
    verdict = judge(r)
    assert verdict.valid is False
    [found] = verdict.anomalies
    assert found.signature == f"{found.claim}/{found.name}"
    return found


def digests(data: bytes) -> tuple[str, ...]:
    return tuple(hashlib.sha256(data[i : i + K]).hexdigest() for i in range(0, len(data), K))


def log(
    n: int, epoch: int, start: int, data: bytes, *records: tuple[int, int, Any], last: bool = True
) -> ReplicaLog:
    """One epoch of the replica with id n + 1."""
    return ReplicaLog(
        node=f"b0-{n}", set="b0", id=n + 1, epoch=epoch, start=start, end=start + len(data),
        last=last, digests=digests(data), records=records,
    )  # fmt: skip


FIRST = bytes(range(256)) * (K // 128)  # two whole blocks
SECOND = b"b" * 1000
SENT = ((0, 0, 10), (0, 1, 11))


def run(*, members: tuple[int, ...] = (1, 2, 3), holds: bool = True, f: str = "kill") -> Cluster:
    """Two acknowledged messages, a fault that was healed, and the SyncStateSet after it."""
    r = Cluster()
    r.send(0, 10, 0, node="b0", epoch=1)
    r.fault(f, **{"b0-1": True})
    r.send(0, 11, 1, node="b0", epoch=2)
    r.fault("start", **{"b0-1": holds})
    r.controllers(set_view(2, 4, 1, *members))
    return r


def stored(r: Cluster, n: int, tail: bytes = SECOND, *records: tuple[int, int, Any]) -> int:
    """A replica with two epochs; its messages are in the second."""
    r.store(log(n, 1, 0, FIRST, SENT[0], last=False))
    return r.store(log(n, 2, len(FIRST), tail, *(records or SENT[1:])))


def test_equal_stores_that_hold_everything_are_valid() -> None:
    r = run()
    for n in range(3):
        stored(r, n)

    verdict = judge(r)
    assert (verdict.valid, verdict.claims) == (True, ("S8", "S8b", "S9"))
    assert verdict.counts == {
        "replicas": 3,
        "pairs-compared": 4,
        "bytes-compared": 2 * (len(FIRST) + len(SECOND)),
        "epoch-lists-compared": 2,
        "messages-looked-up": 2,
        "members-read": 3,
    }


@pytest.mark.parametrize("labelled", [True, False])
def test_what_is_older_than_the_list_is_equal_below_an_equal_epoch_only(labelled: bool) -> None:
    """S8 says nothing of two logs that share no label; S9 looks messages up there, too."""
    r = run()
    for n, first in enumerate((FIRST, FIRST, b"?" + FIRST[1:])):
        r.store(log(n, 0, 0, first, SENT[0], last=False))
        epoch = 2 if labelled or n < 2 else 3
        r.store(log(n, epoch, len(first), SECOND, *SENT[1:]))
    verdict = judge(r)
    assert verdict.counts["messages-looked-up"] == 2
    assert [a.name for a in verdict.anomalies if a.claim == "S8"] == ["log-diverged"] * labelled


def test_a_shorter_log_is_the_beginning_of_the_longer() -> None:
    r = run()
    stored(r, 0)
    stored(r, 1, SECOND + b"more", (0, 1, 11), (0, 2, 12))
    stored(r, 2)
    assert judge(r).valid is True


def test_of_a_pair_it_says_nothing_of_epochs() -> None:
    r = run()
    stored(r, 0)
    r.store(log(1, 1, 0, FIRST[:K] + b"x" * K, last=True))
    settings = {"broker:enableControllerMode": "false"}
    verdict = judge(r, Context(broker_sets=CONTEXT.broker_sets, settings=settings))
    found = next(a for a in verdict.anomalies if a.claim == "S8")
    assert found.name == "log-diverged"
    assert "the logs of b0-0 and b0-1 differ. " in found.story
    assert "epoch " not in found.story
    assert "Two brokers" not in found.story


def test_a_block_that_differs_is_found_at_its_offset() -> None:
    """S8: whoever it is, also outside the set."""
    r = run(members=(1, 2))
    stored(r, 0)
    stored(r, 1)
    r.store(log(2, 1, 0, FIRST[:K] + b"x" * K + b"more", last=True))

    found = next(a for a in judge(r).anomalies)
    assert (found.claim, found.name) == ("S8", "log-diverged")
    assert found.detail == {
        "set": "b0",
        "epoch": 1,
        "start": 0,
        "nodes": ["b0-2", "b0-0"],
        "ends": [2 * K + 4, 2 * K],
        "offset": K,
        "at-start": False,
    }
    assert "The block at byte 65536 differs" in found.story
    assert "start of b0-1" in found.story or "kill of b0-1" in found.story


def test_the_last_digest_compares_only_at_one_end() -> None:
    r = run()
    stored(r, 0, SECOND + b"longest")
    stored(r, 1, b"c" * 1000)
    stored(r, 2, b"d" * 1000)
    found = only(r)
    assert found.detail["nodes"] == ["b0-1", "b0-2"]
    assert found.detail["offset"] == len(FIRST)


@pytest.mark.parametrize(
    ("shorter", "longer", "said"),
    [
        (((0, 1, 11), (0, 2, 12)), ((0, 1, 11), (0, 2, 99)), "values 99 and 12"),
        (((0, 1, 11), (0, 2, 12)), ((0, 1, 11),), "value 12 is only in the shorter log"),
        (
            ((0, 1, 11), (0, 3, 13)),
            ((0, 1, 11), (0, 2, 12), (0, 3, 13)),
            "value 12 is not in the shorter log",
        ),
    ],
)
def test_what_no_digest_covers_is_compared_by_its_records(
    shorter: Any, longer: Any, said: str
) -> None:
    r = run()
    stored(r, 0, SECOND + b"more", *longer)
    stored(r, 1, SECOND, *shorter)
    found = only(r)
    assert (found.name, found.detail["offset"]) == ("log-diverged", len(FIRST))
    assert said in found.story


def test_members_at_rest_have_one_list_of_epochs() -> None:
    """S8b; epochs without bytes, and bytes that only one holds, do not count."""
    r = run()
    stored(r, 0)
    r.store(log(1, 1, 0, FIRST, SENT[0], last=False))
    r.store(log(1, 3, len(FIRST), SECOND, SENT[1]))
    found = only(r)
    assert (found.claim, found.name) == ("S8b", "epochs-differ")
    assert found.detail["epochs"] == [
        [2, len(FIRST), len(FIRST) + 1000],
        [3, len(FIRST), len(FIRST) + 1000],
    ]

    r = run()
    stored(r, 0)
    r.store(log(1, 1, 0, FIRST, SENT[0], last=False))
    r.store(log(1, 2, len(FIRST), SECOND, SENT[1], last=False))
    r.store(log(1, 3, len(FIRST) + 1000, b"", last=False))
    r.store(log(1, 4, len(FIRST) + 1000, b"new"))
    assert judge(r).valid is True


def test_who_is_not_in_the_set_may_have_another_list() -> None:
    r = run(members=(1, 2))
    for n in (0, 1):
        stored(r, n)
    r.store(log(2, 1, 0, FIRST, SENT[0], last=False))
    r.store(log(2, 5, len(FIRST), b"own tail"))
    assert judge(r).valid is True


def test_an_acknowledged_message_that_a_member_lacks() -> None:
    """S9: who acknowledged it, and in which epoch, is told."""
    r = run()
    stored(r, 0)
    lacks = r.store(log(1, 1, 0, FIRST, SENT[0]))
    found = only(r)
    assert (found.claim, found.name) == ("S9", "missing-in-replica")
    assert found.ops == (3, 5, lacks)
    assert found.detail["nodes"] == ["b0-1"]
    assert "b0 in epoch 2 acknowledged" in found.story


def test_another_value_in_its_place_is_told() -> None:
    r = run()
    for n in range(3):
        stored(r, n, SECOND, (0, 1, 77))
    found = only(r)
    assert (found.name, found.detail["instead"]) == ("missing-in-replica", 77)
    assert found.detail["nodes"] == ["b0-0", "b0-1", "b0-2"]


@pytest.mark.parametrize("profile", ["P-NUM", "P-DEFAULT", "P-UNCLEAN"])
def test_where_nobody_promises_it_a_loss_is_measured(profile: Any) -> None:
    r = run()
    stored(r, 0)
    r.store(log(1, 1, 0, FIRST, SENT[0]))
    verdict = judge(r, under(profile, broker_sets=CONTEXT.broker_sets))
    assert (verdict.valid, verdict.claims) == (True, ("S8", "S8b"))
    assert verdict.counts["missing-in-replica"] == 1


def test_where_the_faults_suspend_it_a_loss_is_measured() -> None:
    """S9; stores that differ are wrong all the same (S8)."""
    r = run()
    stored(r, 0)
    r.store(log(1, 1, 0, FIRST, SENT[0]))
    unsynced = under("P-ALL", broker_sets=CONTEXT.broker_sets)
    assert judge(r, unsynced).valid is False
    dark = run(f="power-loss")
    stored(dark, 0)
    dark.store(log(1, 1, 0, FIRST, SENT[0]))
    verdict = judge(dark, unsynced)
    assert (verdict.valid, verdict.claims) == (True, ("S8", "S8b"))
    assert verdict.counts["missing-in-replica"] == 1
    [s9] = [each for each in verdict.claim_verdicts if each.claim == "S9"]
    assert s9.why == "it needs flushDiskType=SYNC_FLUSH (it is ASYNC_FLUSH)"
    dark.store(log(2, 1, 0, FIRST[:-1] + b"!", *SENT))
    differ = judge(dark, unsynced)
    assert (differ.valid, differ.of("broken")) == (False, ("S8",))


def test_a_member_of_which_an_epoch_was_not_read_accuses_nobody() -> None:
    r = run()
    stored(r, 0)
    r.store(log(1, 2, len(FIRST), SECOND, SENT[1]))  # its log may begin here
    r.store(log(2, 1, 0, FIRST, SENT[0], last=False))  # its last epoch was not read
    verdict = judge(r)
    assert (verdict.valid, verdict.counts["members-read"]) == (True, 1)


@pytest.mark.parametrize("why", ["no proof", "struck later", "never asked"])
def test_without_a_set_at_rest_nobody_is_a_member(why: str) -> None:
    r = run(holds=why != "no proof")
    if why == "struck later":
        r.begin(NEMESIS, "kill", "one")
    if why == "never asked":
        r.ops = r.ops[:-2]
    stored(r, 0)
    r.store(log(1, 1, 0, FIRST))
    verdict = judge(r)
    assert verdict.valid == "unknown"
    assert verdict.of("not judged") == ("S8b", "S9")
    assert "no acknowledged message could be looked up" in verdict.reason


def test_a_send_that_is_no_older_than_the_reading_is_not_looked_for() -> None:
    r = run()
    for n in range(3):
        stored(r, n)
    r.send(0, 12, 2)
    r.send(0, 13, None, "ok")
    assert judge(r).valid is True


def test_of_two_readings_the_later_counts_and_a_queue_s_set_is_known_by_its_records() -> None:
    r = Cluster()
    r.send(0, 10, 0)
    r.send(0, 11, 1)
    r.controllers(set_view(2, 4, 1, 1, 2))
    stored(r, 0)
    r.store(log(1, 1, 0, FIRST, last=False))
    stored(r, 1)
    assert judge(r).valid is True


def test_where_nothing_was_sent_nothing_can_be_missing() -> None:
    r = Cluster()
    r.controllers(set_view(2, 4, 1, 1, 2))
    for n in (0, 1):
        stored(r, n)
    verdict = judge(r, Context())
    assert (verdict.valid, verdict.claims) == (True, ("S8", "S8b"))


def test_one_store_proves_nothing() -> None:
    r = run()
    stored(r, 0)
    verdict = judge(r)
    assert verdict.valid == "unknown"
    assert "the stores of 1 replicas of b0 were read, 2 needed" in verdict.reason


def test_digests_that_do_not_fit_the_length_are_unknown() -> None:
    r = run()
    at = stored(r, 0)
    r.ops[at].value["digests"] = []
    assert judge(r).reason.startswith("W9")


def test_a_log_of_an_unnamed_replica_is_unreadable_and_no_error() -> None:
    history = History([Op("ok", 0, "replica-log", {"set": "b0"}, None, 0, 0)])
    verdict = Replicas().check(history, Context())
    assert verdict.of("not judged") == ("S8", "S8b", "S9")
    assert "value of 0 is no ReplicaLog" in str(verdict)
