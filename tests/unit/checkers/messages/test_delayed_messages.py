"""Delayed messages: too early, never, and not while their master is gone."""

from typing import Any

import msgspec
import pytest
from history_recorder import SECOND_NS
from pair_histories import Told

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.messages.delayed import Delayed
from maxq.histories.fault_facts import AWAIT_RECOVERY
from maxq.histories.observed import (
    OBSERVE_REPLICA,
    READ_DELAYED,
    SEND_DELAYED,
    ReplicaView,
    encoded,
)
from maxq.histories.op import NEMESIS

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
    """What senders and readers did, at given times."""

    def send(self, at: float, value: int, delay_s: int, **more: Any) -> None:  # type: ignore[override]
        self.now = at
        ext = {"node": "b0", **more}
        sent = [value, delay_s * 1000]
        self.op(more.pop("op_type", "ok"), 1, SEND_DELAYED, sent, sent, **ext)

    def reads(self, at: float, *values: int, queue: int = 0, **more: Any) -> None:
        self.now = at
        self.op("ok", 2, READ_DELAYED, queue, list(values), **{"node": "b0", **more})

    def all_read(self, at: float) -> None:
        """Every queue is read to its end, and has nothing new."""
        for queue in range(QUEUES):
            self.reads(at + queue / 100, queue=queue, end=True)

    def recovered(self, at: float) -> None:
        self.now = at
        self.begin("nemesis", AWAIT_RECOVERY, "end")
        self.end("info", "nemesis", AWAIT_RECOVERY, {"ok": True})

    def ends(self, at: float) -> "Clients":
        self.recovered(at)
        self.all_read(at + 11)
        return self


def judge(r: Clients, **more: Any) -> Verdict:
    return Delayed().check(r.history, msgspec.structs.replace(CONTEXT, **more))


def names(verdict: Verdict) -> list[tuple[str, str]]:
    return [(a.claim, a.name) for a in verdict.anomalies]


def test_what_comes_in_time_is_kept() -> None:
    r = Clients()
    r.send(1, 0, 5)
    r.reads(6.2, 0)
    assert judge(r.ends(10)).of("kept") == ("E1", "E2")


def test_what_comes_before_its_time_is_early() -> None:
    r = Clients()
    r.send(1, 0, 5)
    r.reads(5.9, 0)
    verdict = judge(r.ends(10))
    assert names(verdict) == [("E2", "delayed-early")]
    assert verdict.of("broken") == ("E2",)


def test_where_a_clock_was_set_wrong_nothing_is_early() -> None:
    r = Clients()
    r.act(0.5, "bump-clock", "b0-0")
    r.send(1, 0, 5)
    r.reads(3, 0)
    assert judge(r.ends(10)).of("broken") == ()


def test_what_nobody_has_ever_read_is_lost() -> None:
    r = Clients()
    r.send(1, 0, 5)
    assert names(judge(r.ends(10))) == [("E1", "delayed-lost")]


@pytest.mark.parametrize("kind", ["info", "fail"])
def test_what_was_not_acknowledged_may_be_lost(kind: str) -> None:
    r = Clients()
    r.send(1, 0, 5)
    r.reads(6.2, 0)
    r.now = 2
    r.op(kind, 1, SEND_DELAYED, [1, 1000], [1, 1000])  # type: ignore[arg-type]
    assert judge(r.ends(10)).of("kept") == ("E1", "E2")


@pytest.mark.parametrize("gap", [False, True])
def test_without_a_whole_last_read_a_loss_is_unknown(gap: bool) -> None:
    """A queue that was not read to its end, or a part that the broker had deleted."""
    r = Clients()
    r.send(1, 0, 5)
    r.reads(2, queue=1, end=True)
    r.recovered(10)
    r.reads(21, queue=0, end=True)
    if gap:
        r.reads(22, queue=1, end=True, gap=True)
    assert "E1" in judge(r).of("not judged")


def masterless(*, until: float = 60, read_at: float | None = None) -> Clients:
    """The master of b0 is dead from 10 s on; a message of it is due at 11 s."""
    r = Clients()
    r.all_read(0.5)
    r.send(1, 0, 10)
    r.act(10, "kill", "b0-0")
    if read_at is not None and read_at < 42:
        r.reads(read_at, 0, queue=1)
    r.all_read(42)
    if read_at is not None and read_at > 42:
        r.reads(read_at, 0, queue=1)
    r.act(until, "start", "b0-0")
    r.act(until + 1, "pause", "n0")
    r.act(until + 2, "resume", "n0")
    return r


def test_what_an_acting_slave_does_not_send_on_is_late() -> None:
    """It is there at last, since its master is back; and once."""
    r = masterless(read_at=62)
    assert names(judge(r.ends(70))) == [("E1", "delayed-late")]
    assert names(judge(masterless().ends(70))) == [("E1", "delayed-late")]


def test_what_it_sends_on_is_kept() -> None:
    assert judge(masterless(read_at=30).ends(70)).of("kept") == ("E1", "E2")


@pytest.mark.parametrize(
    "more",
    [
        {"broker_sets": {"b0": ("b0-0", "b0-1", "b0-2"), "b1": ("b1-0", "b1-1")}},
        {"broker_sets": {"b0": ("b0-0", "b0-1")}},
        {"recovery_ns": 60 * SECOND_NS},
        {"settings": {**(CONTEXT.settings or {}), "broker:minInSyncReplicas": "1",
                      "broker:enableAutoInSyncReplicas": "true"}},
        {"settings": {**(CONTEXT.settings or {}), "broker:enableRemoteEscape": "false"}},
        {"settings": {**(CONTEXT.settings or {}), "broker:enableSlaveActingMaster": "false"}},
    ],
    ids=[
        *("of three", "no other set", "within the bound", "one log is enough"),
        *("nothing escapes", "nobody acts"),
    ],
)  # fmt: skip
def test_where_nothing_is_sure_nobody_is_blamed(more: dict[str, Any]) -> None:
    assert judge(masterless(read_at=62).ends(70), **more).of("broken") == ()


def again(*, killed_at: float = 60, read_at: float = 64, before: float = 63) -> Clients:
    """What was delivered at 3 s is there again, after its master was killed."""
    r = Clients()
    r.send(1, 0, 1)
    r.reads(3, 0)
    r.act(killed_at, "kill", "b0-0")
    r.reads(before, queue=1, end=True)
    r.reads(read_at, 0, queue=1)
    r.act(70, "start", "b0-0")
    return r.ends(80)


def test_what_was_remembered_everywhere_is_not_delivered_again() -> None:
    assert names(judge(again())) == [("E5", "delayed-again")]


def test_a_master_that_does_not_hear_a_name_server_may_deliver_for_itself() -> None:
    """A slave acts for it and delivers too; what the master stored shows once it is back."""
    r = Clients()
    r.send(1, 0, 1)
    r.now = 2
    r.begin(NEMESIS, "start-partition", "cut", who={"nodes": ["b0-0"]})
    r.end("info", NEMESIS, "start-partition", {"b0-0": {"from": ["n0"], "holds": True}})
    r.reads(3, 0)
    r.reads(40, queue=1, end=True)
    r.act(60, "stop-partition", "b0-0")
    r.reads(64, 0, queue=1)
    r.act(70, "kill", "b0-0")
    r.act(72, "start", "b0-0")
    assert judge(r.ends(80)).of("broken") == ()


@pytest.mark.parametrize(("resumed_at", "broken"), [(60, ()), (4, ("E5",))])
def test_a_broker_that_was_paused_may_store_what_was_sent_before(
    resumed_at: float, broken: tuple[str, ...]
) -> None:
    """A slave had sent it on, and got no answer."""
    r = Clients()
    r.send(1, 0, 1)
    r.act(2, "pause", "b1-0")
    r.act(2.5, "kill", "b0-0")
    r.act(3, "start", "b0-0")
    if resumed_at < 10:
        r.act(resumed_at, "resume", "b1-0")
        r.act(5, "kill", "b0-0")
        r.act(6, "start", "b0-0")
    r.reads(7, 0)
    r.reads(50, queue=1, end=True, node="b1")
    if resumed_at > 10:
        r.act(resumed_at, "resume", "b1-0")
    r.reads(64, 0, queue=1, node="b1")
    r.act(70, "kill", "b0-0")
    r.act(72, "start", "b0-0")
    assert judge(r.ends(80)).of("broken") == broken


def test_what_a_slave_could_not_know_yet_may_come_again() -> None:
    assert judge(again(killed_at=20)).of("broken") == ()


def test_what_may_have_been_there_before_proves_nothing() -> None:
    """Its queue was last read to the end before all had written it down."""
    r = Clients()
    r.send(1, 0, 1)
    r.reads(2.9, queue=1, end=True)
    r.reads(3, 0)
    r.act(60, "kill", "b0-0")
    r.reads(64, 0, queue=1)
    r.act(70, "start", "b0-0")
    verdict = judge(r.ends(80))
    assert (verdict.of("broken"), "E5" in verdict.of("kept")) == ((), True)


def test_a_new_reader_reads_all_again() -> None:
    r = Clients()
    r.send(1, 0, 1)
    r.reads(3, 0)
    r.act(60, "kill", "b0-0")
    r.now = 64
    r.op("ok", 12, READ_DELAYED, 0, [0], node="b0")
    r.act(70, "start", "b0-0")
    assert judge(r.ends(80)).of("broken") == ()


def test_odd_values_are_unreadable_and_no_crash() -> None:
    r = Clients()
    r.op("ok", 1, SEND_DELAYED, "x", "x")
    assert judge(r).of("broken") == ()


# What no slave had a copy of.


def uncopied(*ends: tuple[str, int], byte: int | None = 100, read: bool = False) -> Clients:
    """A message at a byte of the log; its master is dead from 5 s to 10 s, when slaves say where
    their logs end."""
    r = Clients()
    r.send(1, 0, 3, **({} if byte is None else {"byte": byte}))
    r.act(5, "kill", "b0-0")
    for node, end in ends:
        r.now = 7
        view = ReplicaView(
            node=node, set="b0", address=f"{node}:1", id=None, leads=False, epochs=(), end=end,
            confirmed=None,
        )  # fmt: skip
        r.op("ok", 9, OBSERVE_REPLICA, {"node": node}, encoded(view))
    r.act(10, "start", "b0-0")
    if read:
        r.reads(12, 0)
    return r.ends(30)


ALONE: dict[str, Any] = {
    "settings": {**(CONTEXT.settings or {}), "broker:brokerRole": "ASYNC_MASTER"}
}


def test_what_its_master_alone_had_comes_after_its_return() -> None:
    verdict = judge(uncopied(("b0-1", 100)), **ALONE)
    assert verdict.of("broken") == ("E3",)
    assert names(verdict) == [("E3", "uncopied-lost")]
    assert verdict.anomalies[0].detail["byte"] == 100
    kept = judge(uncopied(("b0-1", 100), read=True), **ALONE)
    assert "E3" in kept.of("kept")


@pytest.mark.parametrize(
    ("r", "sets"),
    [
        (uncopied(("b0-1", 101)), 2),
        (uncopied(), 2),
        (uncopied(("b0-1", 100), byte=None), 2),
        (uncopied(("b0-1", 100)), 3),
        (uncopied(("b0-1", 100), ("b0-2", 101)), 3),
    ],
    ids=["copied", "nobody says", "no place", "one of two says", "one of two has it"],
)
def test_what_a_slave_may_have_had_is_lost_as_any_other(r: Clients, sets: int) -> None:
    nodes = tuple(f"b0-{n}" for n in range(sets))
    more = {**ALONE, "broker_sets": {"b0": nodes, "b1": ("b1-0", "b1-1")}}
    assert names(judge(r, **more)) == [("E1", "delayed-lost")]
    assert "E3" in judge(r, **more).of("no occasion")


def test_what_was_acknowledged_later_or_under_controllers_is_another_matter() -> None:
    r = uncopied(("b0-1", 100))
    settings = {"broker:enableControllerMode": "true"}
    assert names(judge(r, settings=settings)) == [("E1", "delayed-lost")]
    late = Clients()
    late.ops = r.ops[2:-4]  # without the send, and before the end
    late.ops = [msgspec.structs.replace(op, index=at) for at, op in enumerate(late.ops)]
    late.send(12, 0, 3, byte=100)
    assert names(judge(late.ends(30), **ALONE)) == [("E1", "delayed-lost")]


def test_a_run_that_was_cut_short_says_nothing_of_it() -> None:
    r = uncopied(("b0-1", 100))
    r.ops = r.ops[:-4]
    assert "E3" in judge(r, **ALONE).of("not judged")


CROSSED = {
    "broker_sets": {f"b{n}": (f"b{n}-0", f"b{n}-1") for n in range(3)},
    "containers": {"k0": ("b0-0", "b2-1"), "k1": ("b0-1", "b1-0"), "k2": ("b1-1", "b2-0")},
}


def escaped(to: str, *, begun: float = 0) -> Clients:
    """b0's master goes at 30 s, and a message of it comes from another set."""
    r = Clients()
    if begun:
        r.act(begun, "pause", "b1-0")
        r.act(begun + 1, "resume", "b1-0")
    r.send(28, 0, 10)
    r.now = 30
    r.begin(NEMESIS, "kill", "k")
    r.end("info", NEMESIS, "kill", {"b0-0": {"holds": True}, "b2-1": {"holds": True}})
    r.reads(40, 0, node=to)
    r.act(50, "start", "b0-0")
    return r


@pytest.mark.parametrize(("to", "status"), [("b1", "kept"), ("b2", "broken")])
def test_a_slave_prefers_the_master_beside_it(to: str, status: str) -> None:
    verdict = judge(escaped(to), **CROSSED)
    assert "B12" in verdict.of(status)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "r",
    [escaped("b0"), escaped("b2", begun=20)],
    ids=["its own set", "the master beside it has just come back"],
)
def test_nothing_is_said_of_what_others_may_have_stored(r: Clients) -> None:
    assert "B12" in judge(r, **CROSSED).of("no occasion")


def test_without_another_set_elsewhere_there_is_no_choice() -> None:
    two = {"broker_sets": CONTEXT.broker_sets,
           "containers": {"k0": ("b0-0", "b1-1"), "k1": ("b0-1", "b1-0")}}  # fmt: skip
    assert "B12" in judge(escaped("b1"), **two).of("no occasion")
