"""The table of what readers know of faults: names, heals, effects, colours, and declared kinds."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from maxq.histories.fault_facts import (
    BUILT_IN,
    BUILT_IN_FACTS,
    TAMPERS,
    FaultFacts,
    Kind,
    complaint,
    plain,
    read,
)
from maxq.histories.grounds import declaration, declared
from maxq.histories.history import History
from maxq.histories.lines.whole_table import read_parquet
from maxq.histories.op import NEMESIS, Op
from maxq.histories.parquet import encode_parquet
from maxq.histories.text import decode_fields, encode_op, op_of_fields

FLAP = FaultFacts(strikes="begin-flap", effect="cut", heals=("end-flap",), color="#9AD9D3")
HALT = FaultFacts(
    strikes="stop-all",
    effect="held",
    heals=("resume", "thaw"),
    may_end_by=("x",),
    strength=("x", "y"),
)
GROUNDS = (("recovery",), ("broker", "b0-0"))


def test_each_act_is_in_one_row_and_strikes_or_heals() -> None:
    strikes = [facts.strikes for facts in BUILT_IN_FACTS]
    heals = {heal for facts in BUILT_IN_FACTS for heal in facts.heals}
    assert len(set(strikes)) == len(strikes)
    assert heals.isdisjoint(strikes)
    assert not any(facts.passes and facts.heals for facts in BUILT_IN_FACTS)
    for facts in BUILT_IN_FACTS:
        assert (facts.question or BUILT_IN.kind(facts.strikes) == "fault") is True
        assert all(BUILT_IN.kind(heal) == "heal" for heal in facts.heals)
        assert set(facts.may_end_by) <= set(facts.strength)


@pytest.mark.parametrize(
    ("f", "kind"),
    [
        # Ours, and of Jepsen's packages.
        *((f, "fault") for f in ("kill", "stop", "pause", "start-partition", "restart")),
        *((f, "heal") for f in ("start", "resume", "stop-partition", "reset-clock")),
        *((f, "question") for f in ("inspect", "check-clock-offsets", "elect-master")),
        # Of others, by their names alone.
        *((f, "heal") for f in ("heal", "heal-all", "stop-bitflip", "reset", "restore-x")),
        *((f, "fault") for f in ("start-bitflip", "strobe-clock", "partition", "stopped")),
    ],
)
def test_what_an_act_is(f: str, kind: Kind) -> None:
    assert BUILT_IN.kind(f) == kind
    assert BUILT_IN.heals(f) is (kind == "heal")


@pytest.mark.parametrize("f", ["stop-all", "heal", "strobe-clock", ""])
def test_nothing_but_its_kind_is_known_of_an_unknown_act(f: str) -> None:
    assert not BUILT_IN.knows(f)
    assert (BUILT_IN.of(f), BUILT_IN.effect(f), BUILT_IN.ended_by(f)) == (None, None, ())
    assert not BUILT_IN.harmless(f)
    assert not BUILT_IN.may_start(f)
    assert BUILT_IN.color(f) == BUILT_IN.color(f) != BUILT_IN.color("kill")


def test_what_is_asked_of_the_table() -> None:
    ended = [facts.strikes for facts in BUILT_IN.ended_by("start")]
    stores = ["wipe", "copy-store", "cut-file", "flip-bit"]
    assert ended == ["kill", "stop", "power-loss", "remove-broker", "fail-store", *stores]
    assert set(stores) == TAMPERS
    assert BUILT_IN.starting == ("start",)
    names = [f for facts in BUILT_IN_FACTS for f in (facts.strikes, *facts.heals)]
    may_start = {f for f in names if BUILT_IN.may_start(f)}
    assert may_start == {
        *("start", "restart", "replace-release", "change-settings", "add-broker"),
        *("change-address", "restore-address"),
    }
    assert {f for f in names if BUILT_IN.loses_unsynced(f)} == {"power-loss"}
    harmless = {f for f in names if BUILT_IN.harmless(f) and BUILT_IN.kind(f) != "question"}
    assert harmless == {"bump-clock", "reset-clock", "order-election", "apply-ids"}
    assert all(f.bounded for f in BUILT_IN_FACTS)


def test_declared_kinds_stand_beside_the_built_in_ones() -> None:
    kinds = BUILT_IN.with_((FLAP, HALT))
    assert (kinds.of("begin-flap"), kinds.effect("stop-all")) == (FLAP, "held")
    assert (kinds.kind("begin-flap"), kinds.kind("end-flap")) == ("fault", "heal")
    assert kinds.kind("stop-all") == "fault", "whatever its name suggests"
    assert [facts.strikes for facts in kinds.ended_by("resume")] == ["pause", "stop-all"]
    assert kinds.color("begin-flap") == "#9AD9D3"
    assert kinds.with_(()) is kinds
    assert not BUILT_IN.knows("begin-flap")


def test_what_a_run_declares_counts_more_than_what_is_built_in_later() -> None:
    kinds = BUILT_IN.with_([FaultFacts(strikes="kill", effect="held", heals=("revive",))])
    assert (kinds.effect("kill"), kinds.kind("revive")) == ("held", "heal")
    assert [facts.strikes for facts in kinds.ended_by("start")][:2] == ["stop", "power-loss"]
    assert "kill" not in [facts.strikes for facts in kinds.ended_by("start")]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (FLAP, ""),
        (HALT, ""),
        (FaultFacts(strikes="kill", effect="down"), "kill is built in"),
        (FaultFacts(strikes="start", effect="down"), "start is built in"),
        (FaultFacts(strikes="x", effect="cut", heals=("x",)), "x strikes and heals"),
        (FaultFacts(strikes="x", effect="cut", heals=("kill",)), "kill strikes, and cannot heal"),
        (FaultFacts(strikes="x", effect="clock", color="red"), "color 'red' is not #RRGGBB"),
        (FaultFacts(strikes="x", effect="cut"), "x has no end"),
        (FaultFacts(strikes="x", effect="disk", passes=True), ""),
        (FaultFacts(strikes="x", effect="none"), ""),
        (FaultFacts(strikes="x", effect="odd"), "no effect 'odd'"),  # type: ignore[arg-type]
    ],
)
def test_which_facts_may_be_declared(facts: FaultFacts, why: str) -> None:
    assert complaint(facts).startswith(why)
    assert bool(complaint(facts)) is bool(why)


def run(*facts: FaultFacts) -> History:
    ops = (declaration(GROUNDS, facts), Op("info", NEMESIS, "begin-flap", None))
    return History(msgspec.structs.replace(op, index=n, time=n) for n, op in enumerate(ops))


def test_a_history_declares_its_kinds_beside_its_grounds() -> None:
    begun = run(FLAP, HALT)[0]
    assert declared(begun) == GROUNDS, "who knows of grounds only reads past them"
    assert run(FLAP, HALT).kinds.facts == (*BUILT_IN_FACTS, FLAP, HALT)
    assert run()[0].value == {"grounds": [list(ground) for ground in GROUNDS]}
    assert run().kinds is BUILT_IN
    assert History([]).kinds is BUILT_IN


def test_they_are_read_again_from_a_file(tmp_path: Path) -> None:
    history = run(FLAP, HALT)
    written = op_of_fields(decode_fields(encode_op(history[0])))
    assert History([written]).kinds == history.kinds

    path = tmp_path / "history.parquet"
    path.write_bytes(encode_parquet(history.ops, run_id="queue/1"))
    assert History(read_parquet(path)).kinds == history.kinds


@pytest.mark.parametrize(
    ("values", "left"),
    [
        (None, ()),
        (7, ()),
        ([{"strikes": "x"}, *plain([FLAP])], (FLAP,)),
        ([{"strikes": "x", "effect": "of a later version"}], ()),
        ([{**plain([FLAP])[0], "of a later version": 1}], (FLAP,)),
    ],
)
def test_what_cannot_be_read_is_left_out(values: Any, left: tuple[FaultFacts, ...]) -> None:
    assert read(values) == left


def test_a_colour_from_a_file_is_a_colour() -> None:
    kinds = BUILT_IN.with_([msgspec.structs.replace(FLAP, color='#fff" onload="x')])
    assert kinds.color("begin-flap") == BUILT_IN.color("begin-flap")
