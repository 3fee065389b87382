"""Brokers with a share of a disk: what each has of it, and what is gone of it (B9, B10, B13)."""

from typing import Any

import pytest
from history_recorder import Recorder
from profiles import under

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.messages.durability import Durability
from maxq.checkers.messages.retention import Retention
from maxq.checkers.messages.shares import HELD, Shares
from maxq.histories.observed import OBSERVE_DISK, OBSERVE_REPLICA

FILE = 100
SHARE = {"part": 0.5, "threshold": 0.8, "every-ms": 1000, "first-ms": 1000, "file-bytes": FILE,
         "ahead": 0, "reserved-ms": 3_600_000}  # fmt: skip
DISK = 2500  # so 1000 at rest
PAIR: dict[str, tuple[str, ...]] = {"b0": ("b0-0", "b0-1"), "b1": ("b1-0", "b1-1")}


class Looks(Recorder):
    """Observers who look at brokers; each operation takes a second, and so does what follows."""

    def look(self, node: str, start: int, end: int, queues: int = 0, **share: Any) -> "Looks":
        value = {
            "node": node, "set": node[:2], "used": end - start + queues, "made": end + queues,
            "start": start, "end": end, "partition": DISK, "share": SHARE | share,
        }  # fmt: skip
        self.op("ok", 9, OBSERVE_DISK, {"node": node}, value)
        return self

    def says(self, node: str, end: int, *, leads: bool = False) -> "Looks":
        value: dict[str, Any] = {
            "node": node, "set": node[:2], "address": f"{node}:1", "id": None, "leads": leads,
            "epochs": [], "end": end, "confirmed": None,
        }  # fmt: skip
        self.op("ok", 8, OBSERVE_REPLICA, {"node": node}, value)
        return self

    def copied(self, end: int) -> "Looks":
        return self.says("b0-0", end, leads=True).says("b0-1", end)

    @property
    def verdict(self) -> Verdict:
        return Shares().check(self.history, Context(broker_sets=PAIR))

    @property
    def found(self) -> list[str]:
        return [a.name for a in self.verdict.anomalies]


def at_rest() -> Looks:
    """A broker that has deleted, and has what it may."""
    return Looks().look("b0-0", 0, 900).look("b0-0", 500, 1500).copied(1500)


@pytest.mark.parametrize(
    ("start", "end", "right"),
    [(500, 1500, True), (500, 1600, True), (600, 1700, True), (0, 1500, False)],
)
def test_a_broker_has_what_it_may_at_rest_what_it_made_and_a_file(
    start: int, end: int, right: bool
) -> None:
    looks = at_rest().look("b0-0", start, end)
    for _ in range(3):
        looks.look("b0-0", start, end)
    assert looks.found == ([] if right else ["share-exceeded"] * len(looks.found))
    assert bool(looks.found) != right
    assert ("B9" in looks.verdict.of("kept")) == right


def test_queues_count() -> None:
    looks = at_rest()
    for _ in range(4):
        looks.look("b0-0", 500, 1500, queues=300)
    assert set(looks.found) == {"share-exceeded"}


def test_what_a_slave_has_not_copied_may_stay_and_is_counted() -> None:
    looks = Looks().look("b0-0", 0, 900).look("b0-0", 500, 1500).says("b0-1", 510)
    looks.says("b0-0", 2500, leads=True)
    for _ in range(3):
        looks.look("b0-0", 500, 2500)
    assert looks.found == []
    assert looks.verdict.counts[HELD] > 0


def test_before_its_first_cleaning_nothing_is_asked_of_a_broker() -> None:
    late = {"first-ms": 60_000}
    looks = Looks().copied(2000)
    for _ in range(5):
        looks.look("b0-0", 0, 2000, **late)
    assert looks.found == []
    assert looks.verdict.of("no occasion") == ("B9", "B10")


def test_a_broker_that_was_held_could_not_clean() -> None:
    looks = at_rest()
    looks.fault("pause", **{"b0-0": True})
    for _ in range(4):
        looks.look("b0-0", 500, 2500)
    assert looks.found == []
    looks.fault("resume", **{"b0-0": True})
    assert looks.look("b0-0", 500, 2500).found == []


def flooded() -> Looks:
    """One set is beyond its share; b1-0 leads the other one."""
    return Looks().look("b0-0", 300, 1500).says("b1-0", 200, leads=True)


def test_no_file_of_a_quiet_broker_goes() -> None:
    looks = flooded().look("b1-0", 0, 200).look("b1-0", 0, 300).says("b1-0", 300, leads=True)
    assert looks.verdict.of("kept") == ("B10",)
    gone = flooded().look("b1-0", 0, 200).look("b1-0", 200, 300).says("b1-0", 300, leads=True)
    assert gone.found == ["deleted-within-share"]


def test_a_slave_may_begin_its_log_anew() -> None:
    gone = flooded().look("b1-1", 0, 200).look("b1-1", 200, 300).says("b1-1", 300)
    assert gone.found == []
    assert flooded().look("b1-1", 0, 200).look("b1-1", 100, 300).found == ["deleted-within-share"]


@pytest.mark.parametrize("why", ["old", "clock", "restart", "beyond"])
def test_a_file_may_go_for_another_reason(why: str) -> None:
    looks = flooded().look("b1-0", 0, 200)
    reserved = {"reserved-ms": 1000} if why == "old" else {}
    if why == "clock":
        looks.fault("bump-clock", **{"b1-0": True})
    elif why == "restart":
        looks.fault("restart", **{"b1-0": True})
    looks.look("b1-0", 100, 1300 if why == "beyond" else 300, **reserved)
    assert looks.says("b1-0", 300, leads=True).found == []


def test_what_was_decided_to_go_goes_file_by_file() -> None:
    """RocketMQ deletes one each 100 ms, also once it is within its share."""
    looks = flooded().look("b1-0", 0, 1100).look("b1-0", 200, 1100).look("b1-0", 500, 1100)
    assert looks.says("b1-0", 1100, leads=True).found == []
    late = looks.look("b1-0", 600, 1100).says("b1-0", 1100, leads=True)
    assert late.found == ["deleted-within-share"]


def reread(looks: Looks, first: int) -> dict[str, str]:
    """The verdicts on what the last reader of queue 0 was given, from an offset on; of messages at
    offsets 0 to 9, each of 100 bytes of the log of b0."""
    looks.assign(1, 0, seek=True)
    looks.poll(1, *((at, 100 + at) for at in range(first, 10)))
    looks.poll(1, end={0: 10})
    verdicts = [c.check(looks.history, under("P-SAFE")) for c in (Durability(), Retention())]
    return {v.claim: v.status for c in verdicts for v in c.claim_verdicts
            if v.claim in ("S6", "B13")}  # fmt: skip


def sent() -> Looks:
    looks = Looks().look("b0-0", 0, 100)
    for offset in range(10):
        looks.send(0, 100 + offset, offset, node="b0", byte=100 * offset)
    return looks


def test_what_a_share_has_no_room_for_is_no_loss() -> None:
    looks = sent().look("b0-0", 400, 1500)
    assert reread(looks, 4) == {"S6": "kept", "B13": "kept"}


def test_what_is_behind_is_promised() -> None:
    looks = sent().look("b0-0", 400, 1500)
    assert reread(looks, 5) == {"S6": "broken", "B13": "broken"}


def test_a_quiet_broker_has_all_that_it_took() -> None:
    assert reread(sent().look("b0-0", 0, 1000), 0) == {"S6": "kept", "B13": "kept"}
    gone = sent().look("b0-0", 0, 300).look("b0-0", 100, 1000)
    assert reread(gone, 1) == {"S6": "broken", "B13": "broken"}
