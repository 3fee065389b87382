"""Pre-online: when a master that returns is shown."""

from typing import Any

import msgspec
import pytest
from history_recorder import SECOND_NS
from pair_histories import Offsets, Told, joined, parted, returned

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.replication.pairs.pre_online import PreOnline
from maxq.histories.observed import ReplicaView

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1")},
    eviction_ns=6 * SECOND_NS,
    settings={"broker:enableSlaveActingMaster": "true", "broker:enableControllerMode": "false"},
)


def judge(r: Told, context: Context = CONTEXT) -> Verdict:
    return PreOnline().check(r.history, context)


def test_a_master_that_returns_as_it_should_keeps_all() -> None:
    assert judge(returned()).of("kept") == ("P1", "P2")


@pytest.mark.parametrize(
    ("history", "found"),
    [
        ({"listed": True}, [("P1", "isolated-listed")]),
        ({"online_at": 90}, [("P2", "stays-isolated")]),
    ],
)
def test_what_is_wrong_is_blamed(history: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert sorted((a.claim, a.name) for a in judge(returned(**history)).anomalies) == found


def listed_at_once(
    *, asked_at: float = 18, namesrv: str = "", cut: bool = False, ends: str = "kill"
) -> Told:
    """A master dies at 15 s, and is listed after its start at 20 s although it is isolated. The
    name server did not list it at `asked_at`. `namesrv`: an act on it meanwhile; `cut`: it is cut
    off from the master meanwhile; `ends`: the act at 15 s."""
    r = Told()
    r.act(15, ends, "b0-0")
    if namesrv:
        r.act(16, namesrv, "n0")
    if cut:
        r.cut(16.2, "b0-0", "n0")
        r.act(16.4, "stop-partition", "b0-0")
    r.lists(asked_at, "1")
    r.act(20, "start" if ends == "kill" else "resume", "b0-0")
    r.lists(20.5, "0", "1")
    r.says(21, "b0-0", acting=False, isolated=True)
    r.act(40, "pause", "n0")
    return r


def test_a_dead_master_that_was_not_listed_is_blamed_for_what_lists_it_at_its_start() -> None:
    [found] = judge(listed_at_once()).anomalies
    assert (found.claim, found.name) == ("P1", "isolated-listed")


@pytest.mark.parametrize(
    "history",
    [{"asked_at": 15.5}, {"namesrv": "restart"}, {"cut": True},
     {"ends": "pause"}],
)  # fmt: skip
def test_a_dead_master_may_be_listed_by_what_it_had_sent(history: dict[str, Any]) -> None:
    assert "P1" in judge(listed_at_once(**history)).of("no occasion")


@pytest.mark.parametrize("end", [0, 1])
def test_a_slave_with_a_longer_log_holds_its_master_back(end: int) -> None:
    r = returned(online_at=90)
    at = next(n for n, op in enumerate(r.ops) if op.type == "ok" and op.value == _says(r, "b0-1"))
    slave = msgspec.convert(r.ops[at].value, ReplicaView)
    longer = msgspec.to_builtins(msgspec.structs.replace(slave, end=end))
    for n, op in enumerate(r.ops):
        if op.f == "observe-replica" and op.time == 25 * SECOND_NS and op.type == "ok":
            r.ops[n] = msgspec.structs.replace(op, value=longer)
    assert ("P2" in judge(r).of("broken")) is (end == 0)


def _says(r: Offsets, node: str) -> Any:
    return next(op.value for op in r.ops if op.type == "ok" and op.f == "observe-replica"
                and op.value["node"] == node)  # fmt: skip


def test_a_master_that_waits_for_a_slave_it_is_parted_from_is_blamed() -> None:
    verdict = judge(parted())
    assert [(a.claim, a.name) for a in verdict.anomalies] == [("P3", "waits-for-unreachable")]
    assert "P2" in verdict.of("no occasion")
    assert "P3" in judge(parted(online_at=70)).of("kept")


@pytest.mark.parametrize(
    "history",
    [{"others": ("b0-0", "n0")}, {"others": ("b0-1", "n0")}, {"others": ("client", "b0-1")},
     {"asked": False}],
)  # fmt: skip
def test_a_parted_master_may_wait_where_name_servers_are_cut_off_or_nobody_asked_the_slave(
    history: dict[str, Any],
) -> None:
    assert "P3" in judge(parted(**history)).of("no occasion")


@pytest.mark.parametrize("cut", [(), ("b0-0", "b0-1")])
def test_a_slave_that_is_listed_before_it_copies_is_blamed(cut: tuple[str, ...]) -> None:
    [found] = judge(joined(copying_at=15, cut=cut)).anomalies
    assert (found.claim, found.name) == ("P8", "uncopied-listed")
    assert "P8" in judge(joined(copying_at=11, cut=cut)).of("kept")


@pytest.mark.parametrize(
    "history",
    [{"listed_at": 99}, {"listed_at": 11}, {"masterless": True}, {"cut": ("b0-0", "n0")},
     {"cut": ("b0-1", "n0")}],
    ids=["never listed", "listed before it was not", "no master", "unseen master", "cut off"],
)  # fmt: skip
def test_a_slave_need_not_copy_where(history: dict[str, Any]) -> None:
    assert "P8" in judge(joined(**history)).of("no occasion")


def test_of_a_slave_that_does_not_say_whether_it_copies_nothing_is_known() -> None:
    r = joined()
    for at, op in enumerate(r.ops):
        if op.type == "ok" and op.f == "observe-replica":
            value = {k: v for k, v in op.value.items() if k != "copying"}
            r.ops[at] = msgspec.structs.replace(op, value=value)
    assert "P8" in judge(r).of("no occasion")
