"""Offsets of pairs: what a master that returns knows, and a slave that acts."""

import pickle
from collections.abc import Callable

import msgspec
import pytest
from history_recorder import SECOND_NS, Recorder
from pair_histories import Offsets, returned, slave_asked

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.keyed import events_of
from maxq.checkers.replication.pairs.pair_offsets import PairOffsets
from maxq.histories.history import History
from maxq.histories.op import Op

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1")},
    eviction_ns=6 * SECOND_NS,
    settings={"broker:enableSlaveActingMaster": "true", "broker:enableControllerMode": "false"},
)


def judge(r: Recorder, context: Context = CONTEXT) -> Verdict:
    return PairOffsets().check(r.history, context)


def test_a_master_that_returns_as_it_should_keeps_all() -> None:
    assert judge(returned()).of("kept") == ("P4", "P5")


@pytest.mark.parametrize(
    ("knows", "found"),
    [
        (1, [("P4", "acting-offset-lost")]),
        (0, [("P4", "acting-offset-lost"), ("P5", "written-offset-lost")]),
    ],
)
def test_a_master_that_knows_less_is_blamed(knows: int, found: list[tuple[str, str]]) -> None:
    assert sorted((a.claim, a.name) for a in judge(returned(knows=knows)).anomalies) == found


def test_a_slave_that_was_struck_meanwhile_may_have_given_nothing() -> None:
    verdict = judge(returned(knows=1, strikes="b0-1"))
    assert "P4" in verdict.of("no occasion")
    assert "P5" in verdict.of("kept")


@pytest.mark.parametrize("other", ["n0", "b0-1"])
def test_a_master_that_was_cut_off_from_a_name_server_must_know_what_a_slave_took(
    other: str,
) -> None:
    r = Offsets()
    r.says(0.5, "b0-0", acting=False)
    r.cut(15, "b0-0", other)
    r.says(19, "b0-1", acting=True)
    r.commits(20, 2, "b0-1")
    r.lists(21, "1")
    r.act(25, "stop-partition", "b0-0")
    r.says(40, "b0-0", acting=False, isolated=False)
    r.fetches(45, 1, "b0-0")
    claims = [a.claim for a in judge(r).anomalies]
    assert claims == (["P4"] if other == "n0" else []), "from its slave it can take nothing"


@pytest.mark.parametrize("committed_at", [20.2, 20.8, 31])
def test_a_commit_counts_while_the_master_is_away(committed_at: float) -> None:
    """A client with an old route commits at the slave even when its master is back, and nobody asks
    the slave again, whatever else is done to the master then."""
    r = Offsets()
    r.says(0.5, "b0-0", acting=False)
    r.act(10, "kill", "b0-0")
    r.says(15, "b0-1", acting=True)
    steps: dict[float, Callable[[], object]] = {
        20.5: lambda: r.act(20.5, "start", "b0-0"),
        30.0: lambda: r.act(30, "bump-clock", "b0-0"),
        committed_at: lambda: r.commits(committed_at, 2, "b0-1"),
    }
    for at in sorted(steps):
        steps[at]()
    r.says(40, "b0-0", acting=False, isolated=False)
    r.fetches(45, 1, "b0-0")
    assert [a.claim for a in judge(r).anomalies] == (["P4"] if committed_at < 20.5 else [])


@pytest.mark.parametrize("online_at", [25, 90])
def test_an_offset_counts_at_the_master_once_that_is_online(online_at: float) -> None:
    verdict = judge(returned(knows=1, online_at=online_at))
    assert ("P4" in verdict.of("broken")) is (online_at == 25)


@pytest.mark.parametrize(
    ("target", "written_at", "judged"),
    [
        ("reference", 7, True),
        ("reference", 8, False),
        ("rocketmq", 4, True),
        ("rocketmq", 7, False),
    ],
)
def test_an_offset_that_was_just_committed_may_not_be_written(
    target: str, written_at: float, judged: bool
) -> None:
    context = msgspec.structs.replace(CONTEXT, target=target)
    verdict = judge(returned(knows=0, written_at=written_at), context)
    assert "P5" in verdict.of("broken" if judged else "no occasion")


def test_where_offsets_are_written_at_other_times_p5_is_left_out() -> None:
    by_hand = ("broker:flushConsumerOffsetInterval",)
    context = msgspec.structs.replace(CONTEXT, by_hand=by_hand)
    assert "P5" in judge(returned(knows=0), context).of("no occasion")


def as_rocketmq(op: Op) -> Op:
    """The same answer of a broker that does not say whether it is isolated."""
    if op.f != "observe-replica" or op.type != "ok":
        return op
    value = {k: v for k, v in op.value.items() if k not in ("acting", "isolated")}
    return msgspec.structs.replace(op, value=value)


def test_a_master_that_does_not_say_so_is_online_once_it_is_listed() -> None:
    r = returned(knows=1)
    r.ops[:] = map(as_rocketmq, r.ops)
    assert "P4" in judge(r).of("broken")
    r = returned(knows=1, online_at=90)
    r.ops[:] = map(as_rocketmq, r.ops)
    assert "P4" in judge(r).of("no occasion")


def test_what_a_slave_had_the_time_to_copy_must_be_there() -> None:
    assert judge(slave_asked()).of("kept") == ("P6",)
    [found] = judge(slave_asked(knows=0)).anomalies
    assert (found.claim, found.name) == ("P6", "copied-offset-lost")
    assert found.detail == {"key": 3, "committed": 1, "fetched": 0, "node": "b0-1"}


def test_a_slave_that_was_ended_since_has_written_it_or_is_not_judged() -> None:
    assert "P6" in judge(slave_asked(knows=0, back=True)).of("no occasion")


@pytest.mark.parametrize("committed_at", [14, 16])
def test_a_commit_counts_once_it_is_old(committed_at: float) -> None:
    verdict = judge(slave_asked(knows=0, committed_at=committed_at))
    assert ("P6" in verdict.of("broken")) is (committed_at == 14)


@pytest.mark.parametrize("node", ["b0-0", "b0-1", "n0"])
def test_a_commit_counts_only_in_undisturbed_time(node: str) -> None:
    assert "P6" in judge(slave_asked(knows=0, strikes=node)).of("no occasion")


def test_rocketmqs_slaves_have_more_time() -> None:
    context = msgspec.structs.replace(CONTEXT, target="rocketmq:5.5.0")
    assert "P6" in judge(slave_asked(knows=0), context).of("no occasion")


def test_a_value_of_another_shape_is_not_judged() -> None:
    r = returned()
    r.op("ok", 3, "fetch-offset", 3, ["3", 1], broker="b0-0:1")
    assert judge(r).of("not judged") == PairOffsets.claims


def test_the_history_is_read_as_it_was() -> None:
    """A commit without its invocation counts for nothing."""
    r = slave_asked(knows=0)
    ops = [op for op in r.ops if not (op.f == "commit-offset" and op.type == "invoke")]
    renumbered = [msgspec.structs.replace(op, index=at) for at, op in enumerate(ops)]
    assert "P6" in PairOffsets().check(History(renumbered), CONTEXT).of("no occasion")


def test_what_keys_must_know_can_be_carried_elsewhere() -> None:
    r = slave_asked(knows=0)
    known = PairOffsets().prepare(r.history, CONTEXT)
    rows = [row for event in events_of(r.history, PairOffsets.reads)
            for _, row in PairOffsets().rows(event, known)]  # fmt: skip
    elsewhere = pickle.loads(pickle.dumps(known))
    assert PairOffsets().judge(3, rows, elsewhere) == PairOffsets().judge(3, rows, known)
