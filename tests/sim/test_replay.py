"""Repetition: of a simulated run exactly, of what was never scheduled as it was recorded."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from maxq.checkers.evidence.faults import faults
from maxq.harness.cli.main import run_cli
from maxq.harness.experiments.simulate import Simulated, simulated
from maxq.harness.run.replay import options_for, script_of
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.format import SCHEDULE, Act, Call, Header, Schedule, When, Who, encode
from maxq.harness.schedule.from_history import main_part
from maxq.harness.schedule.options import Options
from maxq.histories.op import Op
from maxq.histories.store import RunStore

SECOND_NS = 1_000_000_000
OPTIONS: dict[str, Any] = {
    "workload": ["queue"], "profile": "P-ALL", "controllers": 1, "broker_sets": 1, "replicas": 1,
    "concurrency": 6,
}  # fmt: skip
WRITTEN = Schedule(
    header=Header(length=8.0, seed=5, options=OPTIONS),
    calls=(
        *(Call(id=f"s{n}", at=n / 8, thread=2 + n % 4, value=[n % 2, 0, n]) for n in range(60)),
        *(Call(id=f"p{n}", at=n / 4, thread=n % 2, f="poll") for n in range(30)),
    ),
    acts=(
        Act(id="k", f="kill", when=When(at=2.0), who=Who(part="broker")),
        Act(id="k.h", f="start", when=When(after="k", at=1.0), who=Who(of="k")),
    ),
)


def history(folder: Path) -> bytes:
    return (folder / "history.jsonl").read_bytes()


def newest(store: Path) -> Path:
    return (store / "latest").resolve()


def maxq(*argv: object) -> int:
    return run_cli([str(a) for a in argv])


@pytest.fixture(scope="module")
def performed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of the written schedule."""
    store = tmp_path_factory.mktemp("performed")
    (store / "mine.jsonl").write_bytes(encode(WRITTEN))
    assert maxq("replay", store / "mine.jsonl", "--store", store) == 0
    return newest(store)


def test_a_simulated_run_repeats_exactly(performed: Path, tmp_path: Path) -> None:
    """`maxq replay RUN`: byte for byte, and so does its repetition."""
    assert maxq("replay", performed, "--store", tmp_path / "one") == 0
    again = newest(tmp_path / "one")
    assert maxq("replay", again, "--store", tmp_path / "two") == 0
    assert history(performed) == history(again) == history(newest(tmp_path / "two"))
    assert history(performed).count(b"\n") > 150
    other = msgspec.structs.replace(WRITTEN, header=Header(length=8.0, seed=6, options=OPTIONS))
    (tmp_path / "other.jsonl").write_bytes(encode(other))
    assert maxq("replay", tmp_path / "other.jsonl", "--store", tmp_path / "three") == 0
    assert history(newest(tmp_path / "three")) != history(performed), "a check that can fail"


def test_a_run_keeps_its_schedule_with_what_acts_came_to(performed: Path) -> None:
    script, options = script_of(performed)
    assert options is not None
    assert options.scripted
    assert [(a.id, a.when, a.who) for a in script.acts] == [
        (a.id, a.when, a.who) for a in WRITTEN.acts
    ]
    k, heal = (a.done for a in script.acts)
    assert k is not None
    assert heal is not None
    assert (k.at, k.nodes) == (2.0, {"b0-0": "broker"})
    assert 3.0 <= heal.at < 3.5
    assert script.calls == WRITTEN.calls
    config = (performed / "config.json").read_text()
    assert "schedule" in config


def test_the_repetition_of_a_run_with_a_seeded_bug_has_that_bug(tmp_path: Path) -> None:
    script = msgspec.structs.replace(WRITTEN, acts=())
    (tmp_path / "mine.jsonl").write_bytes(encode(script))
    words = ("--mutant", "ack_before_write", "--store", tmp_path)
    maxq("replay", tmp_path / "mine.jsonl", *words)
    first = newest(tmp_path)
    maxq("replay", first, "--store", tmp_path)
    second = newest(tmp_path)
    assert first != second
    assert b"ack_before_write" in history(first)
    assert history(first) == history(second)


def test_how_often_is_told_of_many_repetitions(
    performed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first has the schedule's own seed, the others their own."""
    short = msgspec.structs.replace(
        WRITTEN, header=Header(length=2.5, seed=5, options=OPTIONS), acts=WRITTEN.acts[:1]
    )
    (tmp_path / "mine.jsonl").write_bytes(encode(short))
    assert maxq("replay", tmp_path / "mine.jsonl", "--times", 3, "--store", tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["1", "2", "3"]
    assert lines[3] == "no anomaly in 3 runs: 0 of 3 (0% to 56%)"
    seeds = [script_of(path)[0].header.seed for path in RunStore(tmp_path).root.rglob("2*Z*")
             if (path / SCHEDULE).exists()]  # fmt: skip
    assert len(set(seeds)) == 3
    assert 5 in seeds


# Without a schedule.

FREE = Options(
    environment="simulated", seed=3, time_limit_ns=25 * SECOND_NS,
    workload=("queue", "lock", "registration"), rate=20.0, concurrency=6,
    nemesis=("kill", "partition", "pause", "change-address", "stop", "restart", "power"),
)  # fmt: skip


def struck(judged: Judged) -> list[tuple[str, str, float]]:
    """What was done in the main part, to whom and when (s); not the heals with which it ends."""
    begun = main_part(judged.stored.history)
    return sorted(
        (f.f, node, (f.begun_ns - begun) / SECOND_NS)
        for f in faults(judged.stored.history)
        for node in f.nodes
        if 0 <= f.begun_ns - begun < FREE.time_limit_ns - SECOND_NS // 10 and node != "nobody"
    )


def test_a_run_that_nobody_scheduled_is_written_down_and_done_again(tmp_path: Path) -> None:
    """Every fault at its time on whom it struck, every message once more; then exactly."""
    free = run_test(FREE, tmp_path, quiet=True)
    assert free.results.valid is True
    script, options = script_of(free.stored.path)
    assert options == FREE
    assert not FREE.scripted
    again = _repeated(script, tmp_path)
    assert again.results.valid is True, again.results
    before, after = struck(free), struck(again)
    assert len(before) > 8
    assert {f for f, _, _ in before} >= {"kill", "start-partition", "change-address", "power-loss"}
    assert [(f, node) for f, node, _ in before] == [(f, node) for f, node, _ in after]
    # What one heal ended is ended by one after the other.
    assert all(abs(one - other) < 0.1 for (_, _, one), (_, _, other) in zip(
        before, after, strict=True))  # fmt: skip
    assert again.options.settings().keys["broker:flushDiskType"] == "SYNC_FLUSH"
    assert sent(again) >= sent(free) * 0.95
    third = _repeated(script_of(again.stored.path)[0], tmp_path)
    assert history(third.stored.path) == history(again.stored.path)


def sent(judged: Judged) -> int:
    return sum(op.f == "send" and op.type == "invoke" for op in judged.stored.history.ops)


def _repeated(script: Schedule, store: Path) -> Judged:
    return run_test(options_for(script), store, quiet=True, context=RunContext(script=script))


# With less in it.


def until(run: Simulated, second: float) -> list[Op]:
    """What happened before a time of the main part, but for the observers, who ask as they go."""
    begun = main_part(run.history)
    return [op for op in run.history.ops if op.time < begun + second * SECOND_NS]


def test_without_one_late_message_all_that_was_before_is_as_it_was() -> None:
    calls = tuple(c for c in WRITTEN.calls if c.id != "s50")
    fewer = msgspec.structs.replace(WRITTEN, calls=calls)
    whole, less = (simulated(s, options_for(WRITTEN)) for s in (WRITTEN, fewer))
    at = 50 / 8
    assert until(whole, at) == until(less, at)
    assert len(until(whole, at)) > 100
    values = [
        {op.value[0][2] for op in run.history.ops if op.f == "send" and op.type == "invoke"}
        for run in (whole, less)
    ]
    assert values[0] - values[1] == {50}
    assert values[1] < values[0]


def test_without_an_early_message_the_rest_is_sent_when_it_was() -> None:
    """Draws are keyed by what they are for: all other messages have their times and threads."""
    calls = tuple(c for c in WRITTEN.calls if c.id != "s3")
    fewer = msgspec.structs.replace(WRITTEN, calls=calls, acts=())
    whole = msgspec.structs.replace(WRITTEN, acts=())
    seen = [
        {
            op.value[0][2]: (op.time - main_part(run.history), op.process)
            for op in run.history.ops
            if op.f == "send" and op.type == "invoke"
        }
        for run in (simulated(s, options_for(s)) for s in (whole, fewer))
    ]
    assert seen[0].pop(3)
    assert seen[0] == seen[1]


def test_a_main_part_is_as_long_as_its_schedule_says() -> None:
    """A cluster that hangs until the end hangs until the end, although nobody can do anything."""
    hang = tuple(
        Act(id=part, f="pause", when=When(at=0.5), who=Who(part=part, count=-1))
        for part in ("broker", "controller", "namesrv")
    )
    late = Act(id="h", f="resume", when=When(at=60.0))
    script = Schedule(header=Header(length=6.0, options=OPTIONS), acts=(*hang, late))
    run = simulated(script, options_for(script))
    begun = main_part(run.history)
    healed = next(op.time for op in run.history.nemesis if op.f == "resume")
    assert 5.9 <= (healed - begun) / SECOND_NS < 9  # observers that hang are waited for
    assert run.performed.acts[-1].done is None


# What cannot be done.


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (Act(id="d", f="start-disk-fault", who=Who(part="master")),
         "local cannot do disk, which act d (start-disk-fault) needs"),
        (Act(id="k", f="kill", who=Who(nodes=("b0-0", "b7-3"))),
         "act k (kill) concerns b7-3, which is not"),
        (Act(id="k", f="murder"), "k: no act 'murder'; there are: "),
        (Act(id="k", f="kill", who=Who(part="mastre")), "k: no part 'mastre'; there are: "),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_by_name(
    act: Act, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = msgspec.structs.replace(WRITTEN, acts=(act,))
    (tmp_path / "mine.jsonl").write_bytes(encode(script))
    code = maxq("replay", tmp_path / "mine.jsonl", "--env", "local", "--store", tmp_path)
    err = capsys.readouterr().err
    assert code == 254, err
    assert said in err
    assert "Traceback" not in err
