"""S3b: what controllers, brokers and orders to elect show fits one order of states."""

import random

from cluster_recorder import Cluster, set_view, table

from maxq.checkers.core.api import Anomaly, Context
from maxq.checkers.evidence.observations import SetSighting
from maxq.checkers.replication.epochs import Epochs
from maxq.checkers.replication.registry.one_register import not_one_register
from maxq.histories.observed import SetView

REFERENCE = Context(target="reference")
HISTORIES = 2_000


def found(r: Cluster, context: Context = REFERENCE) -> list[Anomaly]:
    return [a for a in Epochs().check(r.history, context).anomalies if a.claim == "S3b"]


def led(epoch: int) -> Cluster:
    """A set whose second broker says that it leads in an epoch."""
    r = Cluster()
    r.controllers(set_view(1, 3, 1, 1, 2))
    r.broker("b0-1", 2, (1, 0, 10), (epoch, 10, 20), leads=True)
    return r


def test_an_answer_from_before_what_a_broker_knew_is_told() -> None:
    r = led(2)
    last = r.controllers(set_view(1, 3, 1, 1, 2), node="c1")
    (one,) = found(r)
    assert (one.signature, one.ops) == ("S3b/answers-not-linearizable", (3, last))
    assert one.detail == {
        "set": "b0", "of": "master epoch", "epochs": [2, 1], "nodes": ["b0-1", "c1"],
    }  # fmt: skip
    assert "b0-1 knew master epoch 2 in op 3. After that c1 was asked" in one.story
    # Whose controllers promise no more than their own order is not judged by it.
    assert not found(r, Context(target="rocketmq:5.5.0"))


def test_an_answer_that_began_before_may_be_older() -> None:
    r = Cluster()
    r.controllers(set_view(1, 3, 1, 1, 2))
    r.begin(9, "observe-controller", {"node": "c0"})
    r.broker("b0-1", 2, (1, 0, 10), (2, 10, 20), leads=True)
    r.end("ok", 9, "observe-controller", table(set_view(1, 3, 1, 1, 2)))
    assert not found(r)


def test_a_slave_that_has_an_epoch_says_nothing() -> None:
    r = Cluster()
    r.broker("b0-1", 2, (1, 0, 10), (2, 10, 20))
    r.controllers(set_view(1, 3, 1, 1, 2))
    assert not found(r)


def test_an_election_without_a_change_is_told() -> None:
    """S4 compares the sets and the masters of one SyncStateSet epoch, and these are equal."""
    r = Cluster()
    r.controllers(set_view(1, 3, 1, 1, 2))
    r.controllers(set_view(2, 3, 1, 1, 2))
    (one,) = found(r)
    assert "both of one SyncStateSet epoch" in one.story
    assert one.detail["epochs"] == [1, 2]


def test_a_later_change_has_no_lower_master_epoch() -> None:
    r = Cluster()
    r.begin(9, "observe-controller", {"node": "c0"})
    r.controllers(set_view(1, 4, 1, 1, 2), process=7)
    r.end("ok", 9, "observe-controller", table(set_view(2, 3, 2, 2)))
    (one,) = found(r)
    assert "a later change was made on top of an earlier election" in one.story


def view(epoch: int) -> SetView:
    return set_view(epoch, 1, None, 1)


def test_small_histories_are_judged_as_by_every_pair() -> None:
    rng = random.Random(7)
    stale = 0
    for _ in range(HISTORIES):
        places = rng.sample(range(40), 2 * rng.randint(1, 8))
        pairs = [sorted(places[n : n + 2]) for n in range(0, len(places), 2)]
        seen = [
            SetSighting(begun, at, 0, 0, "c0", view(begun // 10 + rng.randrange(4)))
            for begun, at in pairs
        ]
        wrong = any(
            a.at < b.begun and a.view.master_epoch > b.view.master_epoch for a in seen for b in seen
        )
        told, _ = not_one_register("b0", seen, [], [])
        assert bool(told) == wrong, seen
        stale += wrong
        for one in told:
            newer, older = (next(s for s in seen if s.at == op) for op in one.ops)
            assert newer.at < older.begun
            assert newer.view.master_epoch > older.view.master_epoch
    assert HISTORIES / 10 < stale < HISTORIES * 9 / 10
