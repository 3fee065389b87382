"""Which settings are tried where something was lost, and in which order."""

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from maxq.checkers.judgement.lost import Lost
from maxq.harness.experiments.losses import Losses, Row, _source, with_rows_of_their_own
from maxq.harness.schedule.fixes import (
    ALL_SET,
    FEW,
    IN_PAIRS,
    SERVING_IN_PAIRS,
    WITH_CONTROLLERS,
    Fix,
    Trial,
    changed,
    next_fix,
    pairs,
    said_of_trials,
    singles,
    times,
    worth,
)
from maxq.harness.schedule.options import Options

SHIPPED = Options(environment="simulated", seed=1, profile="P-SHIPPED")
PAIR = Options(
    environment="simulated", seed=1, profile="P-SHIPPED", controllers=0, replicas=2,
    keys={"broker:brokerRole": "ASYNC_MASTER", "b0-0:flushDiskType": "ASYNC_FLUSH"},
)  # fmt: skip
ALL_ACK = Fix((("broker:allAckInSyncStateSet", "true"),))


def test_only_what_is_not_set_is_tried() -> None:
    assert [str(fix) for fix in singles(SHIPPED)] == [
        "flushDiskType=SYNC_FLUSH", "allAckInSyncStateSet=true", "minInSyncReplicas=2",
        "inSyncReplicas=2",
    ]  # fmt: skip
    safe = Options(environment="simulated", seed=1, profile="P-SAFE")
    assert ALL_ACK not in singles(safe)
    pool = Options(
        environment="simulated", seed=1, keys={"broker:transientStorePoolEnable": "true"}
    )
    assert str(singles(pool)[0]) == "transientStorePoolEnable=false"
    assert "brokerRole=SYNC_MASTER" in map(str, singles(PAIR))


def test_a_change_counts_for_every_node() -> None:
    """What one node has otherwise would undo it there."""
    found = changed(PAIR, Fix((("broker:flushDiskType", "SYNC_FLUSH"),)))
    assert found.keys == {"broker:brokerRole": "ASYNC_MASTER", "broker:flushDiskType": "SYNC_FLUSH"}
    assert found.seed == PAIR.seed


@given(st.sets(st.integers(0, 30)), st.booleans())
def test_every_single_change_is_tried_then_pairs_until_one_keeps_everything(
    keep: set[int], pair: bool
) -> None:
    """It ends, tries nothing twice, and stops only where something kept all or nothing is left."""
    options = PAIR if pair else SHIPPED
    tried: dict[Fix, bool] = {}
    alone = singles(options)
    while (fix := next_fix(alone, tried)) is not None:
        assert fix not in tried
        tried[fix] = len(tried) in keep
    assert list(tried)[: len(alone)] == alone
    if not any(tried.values()):
        assert len(tried) == len(alone) + len(list(pairs(alone)))


def test_what_was_not_judged_has_kept_nothing() -> None:
    kept = Lost(lost=0, acknowledged=9, gone=0, why="")
    assert Trial(fix="x", messages=(kept, kept)).kept
    for other in (Lost(), Lost(lost=1, acknowledged=9, gone=0, why=""),
                  Lost(lost=0, acknowledged=9, gone=2, why="")):  # fmt: skip
        assert not Trial(fix="x", messages=(kept, other)).kept


def test_advice_is_what_was_tried() -> None:
    lost = Lost(lost=3, acknowledged=90, gone=2, why="")
    kept = Lost(lost=0, acknowledged=80, gone=0, why="")
    lines = list(
        said_of_trials(
            "kill", [Trial(fix="a=1", messages=(kept,)), Trial(fix="b=2", messages=(lost,))]
        )
    )
    assert lines == [
        "The run of kill again, with other settings (1 of 2 kept everything):",
        "  kept  a=1  0 of 80 lost",
        "        b=2  3 of 90 lost, 2 shown and then gone",
    ]


def test_a_loss_without_trials_says_how_to_try(tmp_path: Path) -> None:
    """Nothing where nothing was lost; of the strongest settings there are none to try."""
    lost = Lost(lost=3, acknowledged=90, gone=0, why="")
    every = {key: value for settings in WITH_CONTROLLERS for key, value in settings}
    weak, strong = SHIPPED, msgspec.structs.replace(SHIPPED, keys=every)
    for given_, said in ((weak, "--try-fix 1 makes the run again with "), (strong, ALL_SET)):
        options = msgspec.structs.replace(given_, nemesis=("kill",))
        found = Losses(tmp_path, options)
        assert list(found.advice()) == []
        row = Row(fault="kill", repeat=options.command(), source=_source(), messages=lost)
        found._all[row.repeat] = row
        assert said in "".join(found.advice())


def test_each_change_is_of_settings_that_count() -> None:
    """A key that nobody knows would be tried in vain."""
    from maxq.harness.targets.known_keys import fault, value_fault

    for settings in (*WITH_CONTROLLERS, *IN_PAIRS, *SERVING_IN_PAIRS):
        for key, value in settings:
            assert fault(key) == value_fault(key, value) == ""


def test_a_few_lost_messages_may_have_been_kept_by_chance() -> None:
    one, many, gone = (
        Lost(lost=lost, acknowledged=900, gone=gone, why="")
        for lost, gone in ((1, 0), (FEW, 0), (0, 1))
    )
    assert [times(1, m) for m in (one, many, gone)] == [3, 1, 3]
    assert times(5, one) == 5


def test_where_nothing_was_lost_what_serves_clients_is_tried() -> None:
    """Of a pair; half as long is sooner, and a change that loses something is none."""
    kept = Lost(lost=0, acknowledged=80, gone=0, why="")
    waited = {"poll": 12_000.0, "send": 900.0}
    assert [str(fix) for fix in worth(PAIR, kept, waited)] == [
        "slaveReadEnable=true", "enableSlaveActingMaster=true and supportActingMaster=true",
    ]  # fmt: skip
    assert not worth(PAIR, kept, {"poll": 4_000.0})
    assert not worth(SHIPPED, kept, waited)
    lost = Lost(lost=3, acknowledged=80, gone=0, why="")
    assert worth(PAIR, lost, waited) == singles(PAIR)
    reads = Trial(fix="a=1", messages=(kept,), silent_ms=({"poll": 1_500.0},))
    other = Trial(fix="b=2", messages=(kept,), silent_ms=({"poll": 11_000.0},))
    assert reads.serves(waited) == ["poll"]
    assert not Trial(fix="a=1", messages=(lost,), silent_ms=({},)).serves(waited)
    assert list(said_of_trials("kill", [reads, other], waited)) == [
        "The run of kill again, with other settings (1 of 2 served clients sooner):",
        "  sooner  a=1  no read was answered for at most 1.5 s, and not for 12.0 s",
        "          b=2  clients waited as long",
    ]


def test_rows_of_their_own_come_after_all_faults() -> None:
    """Power is lost on real machines only where somebody asks for it."""
    local = msgspec.structs.replace(PAIR, environment="local", nemesis=("kill",))
    assert with_rows_of_their_own(local).nemesis == ("kill", "slaves-away-kill")
    simulated = msgspec.structs.replace(local, environment="simulated")
    assert with_rows_of_their_own(simulated).nemesis == (
        "kill", "slaves-away-kill", "slaves-away-power",
    )  # fmt: skip
