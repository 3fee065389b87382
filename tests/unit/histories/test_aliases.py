"""What older versions wrote is read under today's names, by whoever reads names."""

from pathlib import Path

import pyarrow as pa
import pytest

from maxq.checkers.judgement.names import ANOMALIES as FOUND
from maxq.harness.cli.given.param_types import Faults
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.experiments.scenarios.scenario import names, scenario_of
from maxq.harness.run.replay import options_for
from maxq.harness.schedule.format import decode
from maxq.histories import fault_facts
from maxq.histories.aliases import (
    ACTS,
    ANOMALIES,
    EFFECTS,
    FAULTS,
    GROUNDS,
    OPERATIONS,
    SCHEDULES,
    current,
    renamed,
)
from maxq.histories.fault_facts import BUILT_IN, FaultFacts
from maxq.histories.grounds import KINDS, declaration, declared
from maxq.histories.jepsen import encode_edn
from maxq.histories.jsonl import JournalWriter, read_jsonl
from maxq.histories.lines.by_line import read_edn_history
from maxq.histories.op import NEMESIS, Op, Process
from maxq.histories.tables import events_table, ops_from_events
from maxq.nemeses.catalogue import acts, fault_names

OLD = [
    *((NEMESIS, old, new) for old, new in ACTS.items()),
    *((3, old, new) for old, new in OPERATIONS.items()),
]


def test_today_has_every_name_that_stands_for_an_older_one() -> None:
    assert set(ACTS.values()) <= acts().keys()
    assert set(FAULTS.values()) <= set(fault_names())
    assert set(ANOMALIES.values()) <= FOUND.keys()
    assert set(GROUNDS.values()) <= set(KINDS)
    assert set(SCHEDULES.values()) <= set(names())
    assert set(EFFECTS.values()) <= {facts.effect for facts in BUILT_IN.facts}


@pytest.mark.parametrize(("process", "old", "new"), OLD)
def test_a_stored_operation_has_todays_name(
    process: Process, old: str, new: str, tmp_path: Path
) -> None:
    op = Op("info", process, old, None, None, 0, 0)
    with JournalWriter(tmp_path / "history.jsonl") as journal:
        journal.append(op)
    (tmp_path / "history.edn").write_bytes(encode_edn([op]))
    table: pa.Table = events_table([op], run_id="t/1")
    stored = [
        read_jsonl(tmp_path / "history.jsonl")[0],
        read_edn_history(tmp_path / "history.edn"),
        ops_from_events(table),
    ]
    assert [op.f for (op,) in stored] == [new, new, new]


def test_an_act_is_one_of_the_nemesis_only(tmp_path: Path) -> None:
    """A client's operation that happens to be called as an act was is its workload's affair."""
    op = Op("invoke", 3, "terminate", None, None, 0, 0)
    with JournalWriter(tmp_path / "history.jsonl") as journal:
        journal.append(op)
    assert read_jsonl(tmp_path / "history.jsonl")[0][0].f == "terminate"


def test_a_stored_schedule_is_performed_under_todays_names() -> None:
    script = decode(
        b'{"item": "header", "options": {"calm": true, "nemesis": '
        b'["kill-then-readdress"]}, "known": '
        b'{"bad": "rocketmq:5.5.0", "good": "reference", "shows": ["O1/place-forgotten"]}}\n'
        b'{"item": "act", "id": "m", "f": "change-ip", "when": {"at": 3}}\n'
        b'{"item": "act", "id": "r", "f": "restore-ip", "when": {"after": "m", "at": 3}}\n'
        b'{"item": "act", "id": "s", "f": "terminate", "when": {"after": "r", "at": 3}}\n'
    )
    assert [act.f for act in script.acts] == ["change-address", "restore-address", "stop"]
    assert script.header.known is not None
    assert script.header.known.shows == ("O1/consumer-offset-regressed",)
    assert options_for(script).nemesis == ("kill-then-change-address",)
    assert options_for(script).constant_latency


def test_an_older_flag_is_todays() -> None:
    flag = Faults(fault_names())
    assert flag.convert("kill,readdress", None, None) == ("kill", "change-address")
    assert flag.convert("readdress-then-kill", None, None) == ("change-address-then-kill",)


def test_an_older_scenario_is_todays() -> None:
    assert scenario_of("places_lost_at_election").name == "consumer_offsets_lost_at_election"


def test_a_journal_goes_on_under_todays_names(tmp_path: Path) -> None:
    append(tmp_path / "journal.jsonl", {"O1/place-forgotten": ["terminate", 1, None]})
    [line] = resumed(tmp_path / "journal.jsonl", dict[str, list[str | int | None]])
    assert line == {"O1/consumer-offset-regressed": ["stop", 1, None]}


def test_declared_facts_have_todays_effect() -> None:
    declared = [{"strikes": "shift", "effect": "moved", "heals": ["unshift"]}]
    assert fault_facts.read(declared) == (
        FaultFacts(strikes="shift", effect="address", heals=("unshift",)),
    )


def test_declared_grounds_have_todays_kind() -> None:
    begun = declaration([("place", 0), ("recovery",)])
    assert declared(begun) == (("consumer-offset", 0), ("recovery",))


def test_what_is_no_older_name_stays() -> None:
    assert current("S6/lost-tail") == "S6/lost-tail"
    assert renamed({"a": [1, 2.5, None, "a change-ip of c1"]}) == {
        "a": [1, 2.5, None, "a change-ip of c1"]
    }


def test_todays_names_are_nobodys_alias() -> None:
    table = {**ACTS, **OPERATIONS, **FAULTS, **EFFECTS, **ANOMALIES, **SCHEDULES, **GROUNDS}
    assert not table.keys() & set(table.values())
