"""Transactions: what is committed comes, elsewhere if its master is gone; and nothing else does."""

from typing import Any

import msgspec
import pytest
from history_recorder import SECOND_NS
from pair_histories import Told

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.messages.half_messages import HalfMessages
from maxq.histories.fault_facts import AWAIT_RECOVERY
from maxq.histories.observed import END_TRANSACTION, READ_TRANSACTIONS, SEND_HALF

QUEUES = 2
CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1"), "b1": ("b1-0", "b1-1")},
    settings={
        "broker:enableControllerMode": "false", "broker:brokerRole": "SYNC_MASTER",
        "broker:inSyncReplicas": "2", "broker:minInSyncReplicas": "2",
        "broker:enableSlaveActingMaster": "true", "broker:enableRemoteEscape": "true",
    },
)  # fmt: skip


class Clients(Told):
    """What producers and readers did, at given times."""

    def half(
        self,
        at: float,
        value: int,
        decision: str = "commit",
        when: str = "silent",
        kind: Any = "ok",
    ) -> None:
        self.now = at
        sent = [value, decision, when]
        self.op(kind, 1, SEND_HALF, sent, sent, node="b0")

    def ended(self, at: float, value: int, kind: Any = "ok") -> None:
        self.now = at
        self.op(kind, 1, END_TRANSACTION, [value, "commit"], [value, "commit"], node="b0")

    def reads(self, at: float, *values: int, queue: int = 0, process: int = 2, **more: Any) -> None:
        self.now = at
        self.op("ok", process, READ_TRANSACTIONS, queue, list(values), node="b0", **more)

    def all_read(self, at: float) -> None:
        """Every queue is read to its end, and has nothing new."""
        for queue in range(QUEUES):
            self.reads(at + queue / 100, queue=queue, end=True)

    def ends(self, at: float) -> "Clients":
        self.now = at
        self.begin("nemesis", AWAIT_RECOVERY, "end")
        self.end("info", "nemesis", AWAIT_RECOVERY, {"ok": True})
        self.all_read(at + 21)
        return self


def judge(r: Clients, **more: Any) -> Verdict:
    return HalfMessages().check(r.history, msgspec.structs.replace(CONTEXT, **more))


def names(verdict: Verdict) -> list[tuple[str, str]]:
    return [(a.claim, a.name) for a in verdict.anomalies]


def test_what_is_committed_and_comes_is_kept() -> None:
    r = Clients()
    r.half(1, 0, when="soon")
    r.ended(1.1, 0)
    r.half(2, 1)
    r.half(3, 2, "roll-back")
    r.reads(6, 0, 1)
    assert judge(r.ends(10)).of("kept") == ("E6", "E7", "E8", "E9")


@pytest.mark.parametrize(
    ("ended", "killed", "found"),
    [
        (True, False, ("E6", "commit-lost")),
        (True, True, ("E6", "commit-lost")),
        (False, False, ("E7", "half-unsettled")),
        (False, True, ("E4", "half-lost")),
    ],
)
def test_what_is_committed_and_never_comes_is_lost(
    ended: bool, killed: bool, found: tuple[str, str]
) -> None:
    r = Clients()
    r.half(1, 0)
    if ended:
        r.ended(2, 0)
    if killed:
        r.act(3, "kill", "b0-0")
        r.act(5, "start", "b0-0")
    assert names(judge(r.ends(10))) == [found]


@pytest.mark.parametrize("kind", ["info", "fail"])
def test_what_was_not_acknowledged_need_not_come(kind: str) -> None:
    r = Clients()
    r.half(1, 0, kind=kind)
    assert judge(r.ends(10)).of("broken", "not judged") == ()


@pytest.mark.parametrize("decision", ["roll-back", "none"])
def test_what_is_not_committed_must_not_come(decision: str) -> None:
    r = Clients()
    r.half(1, 0, decision)
    r.reads(6, 0)
    assert names(judge(r.ends(10))) == [("E8", "uncommitted-delivered")]


def test_what_was_refused_must_not_come_and_what_is_unsure_may() -> None:
    r = Clients()
    r.half(1, 0, kind="fail")
    r.half(2, 1, kind="info")
    r.reads(6, 0, 1)
    assert names(judge(r.ends(10))) == [("E8", "uncommitted-delivered")]


def test_a_committed_message_comes_once() -> None:
    r = Clients()
    r.half(1, 0)
    r.reads(6, 0)
    r.reads(7, 0, queue=1)
    assert names(judge(r.ends(10))) == [("E9", "committed-again")]


def test_who_begins_anew_reads_it_again() -> None:
    r = Clients()
    r.half(1, 0)
    r.reads(6, 0)
    r.reads(7, 0, process=12)
    assert "E9" in judge(r.ends(10)).of("kept")


def test_each_ended_broker_and_each_missing_answer_allow_one_more() -> None:
    r = Clients()
    r.half(1, 0)
    r.ended(2, 0, kind="info")
    r.act(3, "kill", "b0-0")
    r.act(4, "start", "b0-0")
    for at in (6, 7, 8):
        r.reads(at, 0)
    assert "E9" in judge(r.ends(10)).of("kept")


def test_what_lived_through_a_cut_or_a_silence_may_come_often() -> None:
    r = Clients()
    r.half(1, 0)
    r.act(3, "pause", "b1-0")
    r.act(4, "resume", "b1-0")
    for at in (6, 7, 8):
        r.reads(at, 0)
    assert "E9" in judge(r.ends(10)).of("no occasion")


@pytest.mark.parametrize(("sent_at", "broken"), [(9, ("E9",)), (7, ())])
def test_a_fault_excuses_nothing_once_no_slave_acts_for_it(
    sent_at: float, broken: tuple[str, ...]
) -> None:
    """Until 8 s after its heal one may act beside its master."""
    r = Clients()
    r.act(0.1, "pause", "b1-0")
    r.act(0.2, "resume", "b1-0")
    r.half(sent_at, 0)
    r.reads(sent_at + 5, 0)
    r.reads(sent_at + 6, 0)
    assert judge(r.ends(sent_at + 9)).of("broken") == broken


@pytest.mark.parametrize("gap", [False, True])
def test_without_a_whole_last_read_a_loss_is_unknown(gap: bool) -> None:
    r = Clients()
    r.half(1, 0)
    if gap:
        r.reads(5, queue=1, gap=True)
        assert judge(r.ends(10)).of("not judged") == ("E7",)
        return
    r.reads(5, queue=1, end=True)
    r.reads(40, queue=0, end=True)
    assert judge(r).of("not judged") == ("E7",)


def masterless(read_at: float, when: str = "silent") -> Clients:
    """The master of b0 is dead from 10 s on, and a transaction of it open."""
    r = Clients()
    r.all_read(0.5)
    r.half(1, 0, when=when)
    r.act(10, "kill", "b0-0")
    if read_at < 62:
        r.reads(read_at, 0, queue=1)
    r.all_read(62)
    if read_at > 62:
        r.reads(read_at, 0, queue=1)
    r.act(80, "start", "b0-0")
    r.act(81, "pause", "n0")
    r.act(82, "resume", "n0")
    return r.ends(90)


def test_what_an_acting_slave_does_not_move_is_late() -> None:
    assert names(judge(masterless(85))) == [("E7", "half-late")]


def test_what_it_moves_is_kept() -> None:
    assert "E7" in judge(masterless(30)).of("kept")


@pytest.mark.parametrize(
    "more",
    [
        {"broker_sets": {"b0": ("b0-0", "b0-1")}},
        {"recovery_ns": 60 * SECOND_NS},
        {"timing": "stock"},
    ],
    ids=["no other set", "within the bound", "asked later"],
)
def test_where_nothing_is_sure_nobody_is_late(more: dict[str, Any]) -> None:
    assert judge(masterless(85), **more).of("broken") == ()


def test_odd_values_are_unreadable_and_no_crash() -> None:
    for value in ("x", [1], [1, "perhaps", "soon"], ["x", "commit", "soon"]):
        r = Clients()
        r.op("ok", 1, SEND_HALF, value, value)
        assert judge(r).of("broken") == ()
        assert set(judge(r).of("not judged")) == set(HalfMessages.claims)
