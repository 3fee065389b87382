"""S16: what no setting excuses, since one master led all the while or no fail-over explains it."""

from typing import Any

import pytest
from cluster_recorder import Cluster, set_view
from profiles import under

from maxq.checkers.core.api import Verdict
from maxq.checkers.messages.durability import Durability


class Led(Cluster):
    """Messages of one queue, answered by brokers of b0; `master` is who answers now."""

    master = 1

    def elected(self, master: int, epoch: int) -> "Led":
        """Controllers tell of a master, and clients go to him from now on."""
        self.controllers(set_view(epoch, epoch, master, 1, 2))
        self.master = master
        return self

    def put(self, value: int, offset: int) -> int:
        return self.send(0, value, offset, node="b0", broker=f"x{self.master}:1")

    def get(self, *messages: tuple[int, int], process: int = 1, **ext: Any) -> int:
        return self.poll(process, *messages, node="b0", broker=f"x{self.master}:1", **ext)


def judge(r: Led) -> Verdict:
    return Durability().check(r.history, under("P-DEFAULT"))


def lossy() -> Led:
    """Of three messages of one reign the second was never read."""
    r = Led().elected(1, 1)
    for value in (10, 11, 12):
        r.put(value, value - 10)
    r.get((0, 10), (2, 12))
    return r


def test_a_loss_while_one_master_leads() -> None:
    assert judge(lossy().elected(1, 1)).of("broken") == ("S16",)


@pytest.mark.parametrize("what", ["election", "untold", "no address", "power", "deposed"])
def test_what_excuses_a_loss(what: str) -> None:
    if what == "election":
        r = Led().elected(1, 1)
        r.put(10, 0)
        r.put(11, 1)
        r.elected(2, 2).put(12, 2)
        r.get((0, 10), (2, 12))
        r.elected(2, 2)
    elif what == "no address":
        r = Led().elected(1, 1)
        for value in (10, 11, 12):
            r.send(0, value, value - 10)
        r.poll(1, (0, 10), (2, 12))
        r.elected(1, 1)
    elif what == "deposed":  # all of it was answered by somebody who did not lead
        r = Led().elected(2, 2)
        r.master = 1
        for value in (10, 11, 12):
            r.put(value, value - 10)
        r.get((0, 10), (2, 12))
        r.elected(2, 2)
    elif what == "power":
        r = Led().elected(1, 1)
        r.put(10, 0)
        r.put(11, 1)
        r.fault("power-loss", b0=True)
        r.put(12, 2)
        r.get((0, 10), (2, 12))
        r.elected(1, 1)
    else:
        r = lossy()
    verdict = judge(r)
    assert verdict.counts["lost-write"] == 1
    assert verdict.of("broken") == ()


def overtaken() -> Led:
    """A reader follows the log of a master whose end is lost, and goes on where it was: the next
    master put other messages where it had been already."""
    r = Led().elected(1, 1)
    for value in (10, 11, 12):
        r.put(value, value - 10)
    r.get((0, 10), (1, 11), (2, 12))
    r.elected(2, 2)
    for value in (21, 22, 23):
        r.put(value, value - 20)
    return r


def test_who_had_gone_past_a_place_under_an_earlier_master_lost_nothing_there() -> None:
    r = overtaken()
    r.get((3, 23))
    verdict = judge(r.elected(2, 2))
    assert verdict.counts["lost-write"] == 2
    assert verdict.of("broken") == ()


def test_what_it_had_not_come_to_is_lost_all_the_same() -> None:
    r = overtaken()
    r.get(end={0: 4})
    verdict = judge(r.elected(2, 2))
    assert verdict.counts["lost-write"] == 2
    assert {a.claim: a.detail["value"] for a in verdict.anomalies if a.name == "lost-tail"} == {
        "S16": 23
    }


def test_who_begins_anew_and_goes_past_it_does_prove_a_loss() -> None:
    r = overtaken()
    r.assign(1, 0, seek=True)
    r.get((0, 10), (3, 23))
    assert judge(r.elected(2, 2)).of("broken") == ("S16",)


@pytest.mark.parametrize("keys", [(0,), (1,)])
def test_who_is_assigned_the_queue_again_goes_on_where_it_was(keys: tuple[int, ...]) -> None:
    """Only a seek, or to lose the queue in between, begins another reading."""
    r = Led().elected(1, 1)
    r.assign(1, 0, seek=True)
    for value in (10, 11, 12):
        r.put(value, value - 10)
    r.get((0, 10), (1, 11), (2, 12))
    r.elected(2, 2)
    for value in (21, 22, 23):
        r.put(value, value - 20)
    r.assign(1, *keys)
    r.get((3, 23))
    assert judge(r.elected(2, 2)).of("broken") == ()


def test_what_a_fail_over_cannot_bring_about_at_any_time() -> None:
    r = Led().elected(1, 1)
    r.put(10, 0)
    r.elected(2, 2).put(11, 1)
    r.get((0, 10), (1, 11), (2, 10))
    verdict = judge(r.elected(2, 2))
    assert verdict.of("broken") == ("S16",)
    assert "duplicate" in {a.name for a in verdict.anomalies if a.claim == "S16"}
