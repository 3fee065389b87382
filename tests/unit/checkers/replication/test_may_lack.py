"""S9 where logs got old: what a member of the SyncStateSet may lack, and what not."""

from typing import Any

import pytest
from cluster_recorder import Cluster, set_view
from test_replicas import judge, log, run, stored

from maxq.checkers.core.api import Verdict
from maxq.histories.op import NEMESIS

X = 1 << 16  # the first young byte
FIRST, SECOND = b"a" * X, b"b" * 1000
ALL = (1, 2, 3)


class Old(Cluster):
    """Two acknowledged messages, of which the first one's file got old on the master, b0-0."""

    def __init__(self) -> None:
        super().__init__()
        self.sets(3, ALL)
        self.send(0, 10, 0, node="b0", epoch=1)
        self.send(0, 11, 1, node="b0", epoch=1)

    def sets(self, number: int, members: tuple[int, ...], master: int = 1, epoch: int = 1) -> None:
        self.controllers(set_view(epoch, number, master, *members))

    def trim(self) -> None:
        proof = {"holds": True, "start": 0, "aged-to": X, "files": 1, "young": [[0, 1]]}
        self.begin(NEMESIS, "trim", "t")
        self.end("info", NEMESIS, "trim", {"b0-0": proof})

    def seen(self, n: int, end: int) -> None:
        self.broker(f"b0-{n}", n + 1, (1, 0, end))

    def at_rest(self, *begin_later: int) -> "Old":
        """The stores; those of some replicas begin at the first young byte."""
        self.sets(9, ALL)
        for n in range(3):
            if n in begin_later:
                self.store(log(n, 1, X, SECOND, (0, 1, 11)))
            else:
                self.store(log(n, 1, 0, FIRST + SECOND, (0, 0, 10), (0, 1, 11)))
        return self


def lacking(r: Cluster) -> list[list[str]]:
    return [a.detail["nodes"] for a in judge(r).anomalies if a.claim == "S9"]


def test_the_broker_whose_log_got_old_may_lack_it() -> None:
    r = Old()
    r.seen(1, X + 500)
    r.sets(3, ALL)
    r.trim()
    r.sets(3, ALL)
    r.at_rest(0)
    verdict = judge(r)
    assert verdict.anomalies == ()
    assert verdict.counts["members-read"] == 3
    assert verdict.counts["messages-looked-up"] == 2


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_member_that_has_come_as_far_may_not(when: str) -> None:
    r = Old()
    if when == "before":
        r.seen(1, X + 500)
    r.sets(3, ALL)
    r.trim()
    r.sets(3, ALL)
    if when == "after":
        r.seen(1, X + 500)
    r.sets(4, (1, 2))
    r.at_rest(0, 1)
    assert lacking(r) == [["b0-1"]]


@pytest.mark.parametrize("why", ["outside", "unseen change", "nobody saw", "another store"])
def test_a_replica_that_may_have_begun_anew_may_lack_it(why: str) -> None:
    r = Old()
    r.sets(3, ALL)
    r.trim()
    if why == "outside":
        r.sets(4, (1, 3))
    if why != "nobody saw":
        r.seen(1, X + 500)
    r.sets(8 if why == "unseen change" else 5, ALL)
    if why == "another store":
        r.fault("kill", **{"b0-1": True})
        r.fault("wipe", **{"b0-1": True})
        r.fault("start", **{"b0-1": True})
    r.at_rest(0, 1)
    assert lacking(r) == []


def test_a_deposed_master_had_come_as_far_with_bytes_that_it_lost() -> None:
    """It was a member when it was seen, and none when the log of the next master got old."""
    r = Old()
    r.seen(1, X + 500)
    r.sets(4, (1, 3))
    r.trim()
    r.sets(5, ALL)
    r.at_rest(0, 1)
    assert lacking(r) == []


def test_a_log_that_begins_later_is_not_looked_into_where_none_got_old() -> None:
    r = run()
    for n in range(3):
        stored(r, n)
    assert judge(r).counts["members-read"] == 3
    s = Old().at_rest(1)
    assert judge(s).counts["members-read"] == 2


def parted(*logs: Any) -> Verdict:
    r = Cluster()
    for one in logs:
        r.store(one)
    return judge(r)


def later(n: int, data: bytes, *records: Any) -> Any:
    """Epoch 1, which began at 0, of a log that begins at byte X."""
    import msgspec

    return msgspec.structs.replace(log(n, 1, X, data, *records), begun=0)


def test_logs_of_one_epoch_are_compared_from_where_both_have_begun() -> None:
    """S8, by blocks where they lie alike, else by records."""
    whole = log(0, 1, 0, FIRST + SECOND, (0, 0, 10), (0, 1, 11))
    same = parted(whole, later(1, SECOND, (0, 1, 11)))
    assert (same.anomalies, same.counts["bytes-compared"]) == ((), len(SECOND))
    block = parted(whole, later(1, b"c" * 1000, (0, 1, 11)))
    assert [a.detail["offset"] for a in block.anomalies] == [X]
    short = parted(whole, later(1, SECOND[:500], (0, 1, 12)))
    assert [a.name for a in short.anomalies] == ["log-diverged"]
    assert parted(whole, later(1, SECOND[:500], (0, 1, 11))).anomalies == ()
