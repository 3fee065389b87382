"""Schedules as runs: options out of headers, the schedule of a folder, how often is how often."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from maxq.harness.run import replay
from maxq.harness.run.replay import Rate, options_for, other_seed, repeat, script_of, with_seed
from maxq.harness.run.run_context import RunContext
from maxq.harness.schedule.format import (
    SCHEDULE,
    Act,
    Call,
    Done,
    Header,
    Load,
    Schedule,
    ScheduleError,
    Who,
    encode,
)
from maxq.harness.schedule.from_history import (
    as_performed,
    as_recorded,
    differing,
    layout,
    main_part,
)
from maxq.harness.schedule.options import FLUSH, Options
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, HistoryError, Op
from maxq.histories.store import CONFIG

SECOND_NS = 1_000_000_000
SENDS = Schedule(
    header=Header(length=12.5, seed=9, options={"workload": ["queue"], "profile": "P-ALL"}),
    loads=(Load(id="l", until=10.0, rate=2.0), Load(id="r", until=10.0, rate=1.0, f="poll")),
    acts=(Act(id="k", f="kill"), Act(id="s", f="start"), Act(id="j", f="kill")),
)


@pytest.mark.parametrize(("times", "told"), [(1, [1]), (2, [1]), (5, [1])])
def test_one_of_several_repetitions_that_is_interrupted_is_none_and_the_last(
    times: int, told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    def run_test(*_: Any, context: RunContext, **__: Any) -> Any:
        begun.append(len(begun) + 1)
        context.stop.number = 2 * (len(begun) == min(times, 2))
        return begun[-1]

    monkeypatch.setattr(replay, "run_test", run_test)
    made = Options(environment="local", seed=1)
    runs: Any = repeat(SENDS, made, Path(), times=times, quiet=True, context=RunContext())
    assert list(runs) == told
    assert len(begun) == min(times, 2)


# A rate and what it may be.


@pytest.mark.parametrize(
    ("hits", "runs", "low", "high"),
    [
        (0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0),
        (1, 20, 0.0089, 0.2361), (90, 100, 0.8256, 0.9448), (0, 0, 0.0, 1.0), (1, 1, 0.2065, 1.0),
    ],
)  # fmt: skip
def test_wilsons_interval(hits: int, runs: int, low: float, high: float) -> None:
    assert Rate(hits, runs).interval == pytest.approx((low, high), abs=5e-5)
    assert 0.0 <= Rate(hits, runs).interval[0] <= Rate(hits, runs).interval[1] <= 1.0


def test_a_rate_in_words() -> None:
    assert str(Rate(5, 10)) == "5 of 10 (24% to 76%)"
    assert str(Rate(0, 20)) == "0 of 20 (0% to 16%)"


# Options.


def test_a_header_says_how_the_run_is_set_up() -> None:
    options = options_for(SENDS)
    assert (options.environment, options.seed, options.profile) == ("simulated", 9, "P-ALL")
    assert options.time_limit_ns == 12_500_000_000
    assert options.workload == ("queue",)
    assert options.nemesis == ("kill", "start")
    assert options.scripted
    assert options.scheduled == {"poll": 10, "queue": 30, "send": 20}
    assert options.context().ok_ops_min == {"poll": 1, "send": 1}
    busy = msgspec.structs.replace(options, scheduled={"send": 1000})
    assert busy.context().ok_ops_min == {"send": 30}
    assert options_for(Schedule(acts=())).nemesis == ("none",)


def test_what_a_command_says_goes_before_the_header() -> None:
    docker = msgspec.structs.replace(SENDS, header=Header(options={
        "workload": ["queue"], "environment": "docker", "mutant": "ack_before_write"}))  # fmt: skip
    assert options_for(docker).environment == "docker"
    assert options_for(docker, "local").environment == "local"
    assert options_for(docker).mutant == "ack_before_write"
    assert options_for(docker, mutant="").mutant == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"profil": "P-ALL"}, "header: no option 'profil', did you mean profile"),
        ({"profile": "P-SAVE"}, r"header: Invalid enum value 'P-SAVE'"),
        ({"replicas": "three"}, r"header: Expected `int`, got `str` - at `\$.replicas`"),
        ({"workload": ["quue"]}, "header: no workload 'quue', did you mean queue"),
        ({"mutant": "ack_before_wrote"}, "no mutant 'ack_before_wrote', did you mean ack_before_w"),
        ({"workload": ["lock"]}, "l: the run has no workload 'queue', it has: lock"),
        ({"pinned": 11}, "header: more threads are pinned than there are"),
    ],
)
def test_a_header_that_sets_nothing_up_is_refused(given: dict[str, Any], said: str) -> None:
    header = msgspec.structs.replace(SENDS.header, options={"workload": ["queue"], **given})
    with pytest.raises(ScheduleError, match=said):
        options_for(msgspec.structs.replace(SENDS, header=header))


def test_other_repetitions_have_other_seeds_and_the_same_schedule() -> None:
    seeds = [other_seed(9, n) for n in range(50)]
    assert seeds[0] == 9
    assert len(set(seeds)) == 50
    assert 0 <= other_seed(2**63 - 1, 40) < 2**63
    again = with_seed(SENDS, 44)
    assert again.header.seed == 44
    assert with_seed(again, 9) == SENDS


# Folders and files.


def test_a_file_has_a_schedule_and_no_options(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_bytes(encode(SENDS))
    assert script_of(tmp_path / "mine.jsonl") == (SENDS, None)
    with pytest.raises(ScheduleError, match=r"schedule.jsonl: No such file"):
        script_of(tmp_path)


def folder_of(path: Path, **more: Any) -> Path:
    (path / SCHEDULE).write_bytes(encode(SENDS))
    options = Options(environment="local", seed=9, workload=("queue",), **more)
    config = msgspec.json.encode({"options": msgspec.to_builtins(options)})
    (path / CONFIG).write_bytes(config)
    (path / "history.jsonl").write_bytes(b"")
    return path


def test_a_folder_has_both(tmp_path: Path) -> None:
    script, options = script_of(folder_of(tmp_path))
    assert script == SENDS
    assert options is not None
    assert options.environment == "local"
    (tmp_path / CONFIG).unlink()
    assert script_of(tmp_path) == (SENDS, None), "whoever keeps schedules in a folder"


def test_a_seeded_bug_of_the_run_is_in_the_schedule_of_its_folder(tmp_path: Path) -> None:
    """A campaign names its mutant beside its schedules: the repetition would be of no bug."""
    script, _ = script_of(folder_of(tmp_path, mutant="ack_before_write"))
    assert options_for(script).mutant == "ack_before_write"
    assert script.acts == SENDS.acts


def test_a_folder_with_a_broken_config_is_refused(tmp_path: Path) -> None:
    (folder_of(tmp_path) / CONFIG).write_text('{"options": {"seed": "nine"}}')
    with pytest.raises(HistoryError, match=r"config.json: options"):
        script_of(tmp_path)


# What is written down of a run that is over.


def op(type_: Any, process: int | str, f: str, value: Any, at: float, **ext: Any) -> Op:
    return Op(type_, process, f, value, None, -1, round(at * SECOND_NS), ext or None)


def history_of(*ops: Op) -> History:
    return History([msgspec.structs.replace(o, index=n) for n, o in enumerate(ops)])


HOLDS = {"holds": True}
ASKED = Options(environment="simulated", seed=5, time_limit_ns=10 * SECOND_NS,
                workload=("queue", "lock"), concurrency=10)  # fmt: skip
LATER = 5 + layout(ASKED)[1]  # the second process of thread 5
RUN = history_of(
    op("info", NEMESIS, "inspect", None, 0.5),
    op("info", NEMESIS, "inspect", {"b0-0": HOLDS}, 0.75),
    op("invoke", 0, "assign", [0], 1.0),
    op("ok", 0, "assign", [0], 1.0),
    op("invoke", 0, "poll", [["poll"]], 1.25),
    op("invoke", LATER, "send", [["send", 1, 7]], 1.5, size=900),
    op("ok", LATER, "send", [["send", 1, [0, 7]]], 1.6),
    op("info", NEMESIS, "kill", "one", 2.0),
    op("info", NEMESIS, "kill", {"b0-1": {"holds": True, "role": "master"}}, 2.5),
    op("ok", 0, "poll", [["poll", {0: []}]], 2.6),
    op("invoke", 10, "acquire", {"key": 1}, 3.0),
    op("ok", 10, "acquire", {"key": 1}, 3.1),
    op("info", NEMESIS, "start-partition", "link", 4.0),
    op("info", NEMESIS, "start-partition",
       {"c0": {"holds": True, "from": {"b0-0": 3, "n0": 1}, "reset": True, "role": "x"}}, 4.5),
    op("info", NEMESIS, "stop-partition", None, 6.0),
    op("info", NEMESIS, "stop-partition", {"c0": HOLDS}, 6.5),
    op("info", NEMESIS, "await-recovery", None, 7.0),
    op("info", NEMESIS, "await-recovery", {"cluster": HOLDS}, 7.5),
    op("invoke", 1, "poll", [["poll"]], 11.5),
    op("ok", 1, "poll", [["poll", {0: []}]], 11.6),
)  # fmt: skip


def test_a_run_as_the_schedule_that_does_the_same_again() -> None:
    """Times count from the main part; what comes after the time limit is not of it."""
    assert main_part(RUN) == SECOND_NS
    written = as_recorded(RUN, ASKED)
    assert written.calls == (
        Call(id="p4", at=0.25, thread=0, f="poll"),
        Call(id="s7", at=0.5, thread=5, f="send", value=[1, 900, 7]),
        Call(id="t10", at=2.0, thread=0, f="turn", workload="lock"),
    )
    cut = {"grudge": {"c0": ["b0-0", "n0"]}, "reset": True}
    assert [(a.id, a.f, a.when.at, a.who, a.args) for a in written.acts] == [
        ("f1", "kill", 1.0, Who(nodes=("b0-1",)), {}),
        ("f2", "start-partition", 3.0, Who(), cut),
        ("f2.h", "stop-partition", 5.0, Who(of="f2"), {}),
    ]
    assert written.acts[0].done == Done(at=1.0, nodes={"b0-1": "master"})
    assert written.header.seed == 5
    assert written.header.length == 10.0
    assert written.header.options == {
        "environment": "simulated", "workload": ("queue", "lock"), "nemesis": [*ASKED.nemesis],
    }  # fmt: skip
    assert options_for(written).workload == ASKED.workload
    assert options_for(written).nemesis == ASKED.nemesis, "so nodes are set up the same"


def test_locks_of_ordered_queues_are_asked_for_by_the_workload_ordered() -> None:
    ops = [msgspec.structs.replace(op, value=1000) if op.f == "acquire" else op for op in RUN.ops]
    asked = msgspec.structs.replace(ASKED, workload=("queue", "ordered"))
    turns = [call for call in as_recorded(History(ops), asked).calls if call.f == "turn"]
    assert turns == [Call(id="t10", at=2.0, thread=0, f="turn", workload="ordered")]


def test_what_struck_no_node_is_no_act_of_the_schedule() -> None:
    ops = list(RUN.ops)
    nobody = {"nobody": {"holds": True, "reason": "nobody to kill"}}
    at = next(n for n, op in enumerate(ops) if op.f == "kill" and isinstance(op.value, dict))
    ops[at] = msgspec.structs.replace(ops[at], value=nobody)
    written = as_recorded(History(ops), ASKED)
    assert [act.f for act in written.acts] == ["start-partition", "stop-partition"]


def test_a_schedule_with_what_its_acts_came_to() -> None:
    ops = list(RUN.ops)
    ops[7] = msgspec.structs.replace(ops[7], value="k")
    done = as_performed(SENDS, History(ops))
    assert [act.done for act in done.acts] == [Done(at=1.0, nodes={"b0-1": "master"}), None, None]
    assert msgspec.structs.replace(done, acts=SENDS.acts) == SENDS


def test_what_of_the_options_is_not_as_ever() -> None:
    assert differing(Options(environment="", seed=3)) == {}
    odd = Options(environment="docker", seed=3, rate=7, replicas=2, keys={"broker:a": "1"},
                  time_limit_ns=5, nemesis=("kill",), pinned=1,
                  mutant="ack_before_write")  # fmt: skip
    assert differing(odd) == {
        "environment": "docker", "replicas": 2, "keys": {"broker:a": "1"}, "pinned": 1,
        "mutant": "ack_before_write",
    }  # fmt: skip


def test_brokers_that_synced_since_power_might_fail_sync_again() -> None:
    """It followed from ``--nemesis power``, and a schedule has acts instead."""
    for keys, flush in (({}, "SYNC_FLUSH"), ({FLUSH: "ASYNC_FLUSH"}, "ASYNC_FLUSH")):
        asked = msgspec.structs.replace(ASKED, nemesis=("power",), keys=keys)
        again = options_for(as_recorded(RUN, asked))
        assert again.keys == {FLUSH: flush}
        assert again.settings().keys == {FLUSH: flush}


def test_where_the_threads_of_each_workload_begin() -> None:
    every = Options(environment="", seed=1, concurrency=7)
    firsts = {"queue": 0, "lock": 7, "registration": 11, "probe": 15, "observe": 17}
    assert layout(every)[0] == firsts
    some = msgspec.structs.replace(every, workload=("lock", "offsets"), broker_sets=2)
    assert layout(some)[0] == {"lock": 0, "offsets": 4, "probe": 8, "observe": 12}
