"""The worked examples of docs/plugins.md, named where that says, run and judged."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from flap_fault import FACTS, FLAP
from register_checker import REGISTER as CHECKER
from register_checker import LastWrite
from register_workload import REGISTER
from spread_layout import SPREAD

from maxq.checkers.core.api import Context
from maxq.checkers.evidence.acts import acts_of
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.quiescence import Lull, lulls
from maxq.checkers.judgement.runner import Results
from maxq.harness.cli.given.asked import asked_from
from maxq.harness.contracts.plugins import current, install, restored
from maxq.harness.contracts.target import containers, plan
from maxq.harness.experiments.overview.entries import entries
from maxq.harness.experiments.simulate import Campaign, drawn, simulated
from maxq.harness.run import judging
from maxq.harness.run.replay import late, options_for, repeat, script_of
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.format import ScheduleError, decode
from maxq.harness.schedule.options import Options
from maxq.histories.fault_facts import BUILT_IN
from maxq.histories.grounds import RUN
from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op
from maxq.nemeses import catalogue

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
LINES_MAX = 100


@pytest.fixture(scope="module")
def named() -> Iterator[None]:
    with restored():
        install(current().with_workload(REGISTER).with_checker(CHECKER))
        catalogue.register(FLAP)
        yield
        catalogue.forget("flap")


def run(folder: Path, seed: int, *, workload: tuple[str, ...] = ("queue", "register")) -> Judged:
    options = Options(
        environment="simulated",
        seed=seed,
        workload=workload,
        nemesis=("flap", "kill"),
        time_limit_ns=20_000_000_000,
    )
    return run_test(options, folder, quiet=True)


@pytest.fixture(scope="module")
def together(named: None, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """A run with all of them."""
    return run(tmp_path_factory.mktemp("together"), 1)


@pytest.fixture(scope="module")
def alone(named: None, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """A run with the fault beside what is built in."""
    return run(tmp_path_factory.mktemp("alone"), 2, workload=("queue",))


def test_the_examples_run_together(together: Judged) -> None:
    verdicts = {v.checker: v for v in together.results.verdicts}
    assert together.results.valid is True, together.results
    assert verdicts["register"].counts["reads"] > 50
    flaps = [f for f in faults(together.stored.history) if f.f == "start-flap"]
    assert len(flaps) >= 2
    assert all(f.holds for f in flaps)


def answers_on_the_living(results: Results) -> int:
    """How often an undisturbed broker was due to be listed (N6)."""
    return results.counts["routes:answers-on-the-living"]


def test_time_after_a_flap_that_has_healed_is_judged(together: Judged) -> None:
    history, results = together.stored.history, together.results
    flaps = [f for f in faults(history) if f.f == FACTS.strikes]
    assert len(lulls_after(history, flaps[0].begun)) > len(flaps)
    assert results.of("not judged") == ()
    assert {"S13", "S14", "N6"} <= set(results.of("kept"))

    before = history.filter(lambda op: op.index < flaps[0].begun or op.process == RUN)
    until_the_first = judging.judge(together.options, before)
    assert answers_on_the_living(results) > answers_on_the_living(until_the_first)


def lulls_after(history: History, index: int) -> list[Lull]:
    return [lull for lull in lulls(history) if lull.time.at > index]


def test_a_flap_that_the_run_does_not_declare_is_unknown(together: Judged) -> None:
    silent = History(
        msgspec.structs.replace(op, value={"grounds": op.value["grounds"]}) if at == 0 else op
        for at, op in enumerate(together.stored.history.ops)
    )
    results = judging.judge(together.options, silent)
    assert results.valid == "unknown"
    assert {"S13", "S14", "N6"} <= set(results.of("not judged"))
    assert "performed start-flap (op " in results.whys[0]
    assert "docs/plugins.md" in results.advice[0]


READ_BACK = """
import json, sys
from pathlib import Path
from maxq.harness.report.bands import actions
from maxq.harness.run.stored_run import judge_stored

judged = judge_stored(Path(sys.argv[1]))
colors = actions(judged.stored.history).colors
assert not any("flap" in name for name in sys.modules)
print(json.dumps([judged.results.to_json(), colors]))
"""


def test_a_stored_run_needs_no_code_of_its_fault(alone: Judged) -> None:
    """A process without the module judges and colours it by its stored facts."""
    done = subprocess.run(
        [sys.executable, "-c", READ_BACK, str(alone.stored.path)],
        cwd=DOCS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    results, colors = json.loads(done.stdout)
    assert results == json.loads(json.dumps(alone.results.to_json()))
    assert (results["valid"], colors[FACTS.strikes]) == (True, FACTS.color)
    assert FACTS.color != BUILT_IN.color(FACTS.strikes)


def flaps(judged: Judged) -> list[tuple[str, bool]]:
    """What was done of the fault, and whether it was proven."""
    return [(f.f, f.holds) for f in faults(judged.stored.history) if "flap" in f.f]


def test_a_run_with_it_is_replayed_to_the_byte(alone: Judged, tmp_path: Path) -> None:
    """Also as performed: the same acts on the same nodes."""
    for performed in (False, True):
        script, _ = script_of(alone.stored.path, performed=performed)
        [again] = repeat(script, options_for(script), tmp_path, times=1, quiet=True,
                         context=RunContext())  # fmt: skip
        assert flaps(again) == flaps(alone)
        journals = [(one.stored.path / "history.jsonl").read_bytes() for one in (alone, again)]
        assert performed or journals[0] == journals[1]
        assert late(script, again) == []


def test_seeds_draw_it_beside_their_own_faults(named: None, tmp_path: Path) -> None:
    """By `maxq simulate`, whose workers know it; without it a seed means what it meant."""
    script = drawn(3)
    mine = [act for act in script.acts if "flap" in act.f]
    assert mine
    assert script.acts[: -len(mine)] == tuple(a for a in script.acts if a not in mine)
    campaign = Campaign(tmp_path, jobs=2, length_ms=20_000)
    told = list(campaign.run(range(3, 5)))
    assert [(t.found, t.error) for t in told] == [({}, "")] * 2
    catalogue.forget("flap")
    assert drawn(3).acts == script.acts[: -len(mine)]
    catalogue.register(FLAP)


def test_its_final_heal_leaves_a_partition_as_it_is(named: None, tmp_path: Path) -> None:
    """Each heal ends what it names: the flap first, the partition when its own heal comes."""
    script = decode(OVERLAPPING.encode())
    done = simulated(script, options_for(script, "simulated"))
    assert done.results.valid is True, done.results
    [cut] = [act for act in acts_of(done.history) if act.f == "start-partition"]
    [flap] = [act for act in acts_of(done.history) if act.f == FACTS.strikes]
    assert flap.begun > cut.begun
    assert max(flap.over(n) for n in flap.nodes) < min(cut.over(n) for n in cut.nodes)


OVERLAPPING = """\
{"item": "header", "length": 14, "options": {"workload": ["queue"]}}
{"item": "load", "id": "w", "until": 14, "rate": 10}
{"item": "load", "id": "r", "f": "poll", "until": 14, "rate": 5}
{"item": "act", "id": "c", "f": "start-partition", "when": {"at": 2}, "who": {"nodes": ["b0-2"]}}
{"item": "act", "id": "f", "f": "start-flap", "when": {"at": 4}, "who": {"part": "master"}}
{"item": "act", "id": "g", "f": "stop-flap", "when": {"at": 5}}
{"item": "act", "id": "h", "f": "stop-partition", "when": {"at": 9}, "who": {"of": "c"}}
"""


def test_the_example_checker_can_fail() -> None:
    def history(read: int | None, write: str = "ok") -> History:
        ops = [
            Op("invoke", 1, "write", 4, index=0, time=0),
            Op("ok", 1, "write", 4, index=1, time=1),
            Op("invoke", 1, "write", 6, index=2, time=2),
            Op(write, 1, "write", 6, index=3, time=3),  # type: ignore[arg-type]
        ]
        if write == "ok":
            ops += [
                Op("invoke", 1, "read", None, index=4, time=4),
                Op("ok", 1, "read", read, index=5, time=5),
            ]
        return History(ops)

    assert LastWrite().check(history(6), Context()).valid is True
    stale = LastWrite().check(history(4), Context())
    assert (stale.valid, [a.name for a in stale.anomalies]) == (False, ["stale-read"])
    assert LastWrite().check(history(None), Context()).valid is False
    assert LastWrite().check(history(None, "info"), Context()).valid == "unknown"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_an_example_is_short_and_the_page_names_it(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MAX
    assert f"examples/{path.name}" in (DOCS / "plugins.md").read_text()


def spread(folder: Path, mode: str) -> Judged:
    """A run of the example layout."""
    given = {
        "environment": "simulated", "seed": 3, "workload": ("queue",),
        "nemesis": ("kill",), "layout": "spread", "mode": mode, "time_limit": 20_000_000_000,
        "concurrency": 6, "mutant": None, "target": "reference", "timing": "fast", "keys": (),
    }  # fmt: skip
    return run_test(asked_from(given), folder, quiet=True)


@pytest.mark.parametrize(("mode", "brokers"), [("pair", 2), ("controllers", 3)])
def test_brokers_of_the_example_layout_fall_together(
    mode: str, brokers: int, tmp_path: Path
) -> None:
    with restored():
        install(current().with_layout(SPREAD))
        judged = spread(tmp_path, mode)
        together = [set(c.brokers) for c in containers(plan(judged.options.topology))]
    assert judged.results.valid is True, judged.results
    assert (judged.options.replicas, len(together)) == (brokers, 3)
    kills = [set(f.nodes) for f in faults(judged.stored.history) if f.f == "kill"]
    assert kills
    for struck in kills:
        assert [c for c in together if c & struck and not c <= struck] == []


def test_a_run_of_a_layout_that_is_not_here_says_so(tmp_path: Path) -> None:
    with restored():
        install(current().with_layout(SPREAD))
        run = spread(tmp_path, "pair").stored.path
        assert script_of(run, performed=True)[1] is not None
    with pytest.raises(HistoryError, match="unknown layout 'spread'; known: crossed-2,"):
        script_of(run, performed=True)
    with pytest.raises(ScheduleError, match="header: no layout 'spread'; known: crossed-2,"):
        options_for(drawn(3, pairs=True), layout="spread")
    [entry] = entries(tmp_path)
    assert entry.settings["layout"] == "spread"


def test_workers_of_simulate_know_the_layout(tmp_path: Path) -> None:
    words = ("simulate", "--plugin", "spread_layout", "--layout", "spread", "--mode", "pair",
             "--seeds", "0..1", "--jobs", "2", "--length", "5s", "--store", tmp_path)  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "maxq.harness.cli.main", *map(str, words)],
        cwd=DOCS / "examples",
        env={**os.environ, "PYTHONPATH": str(DOCS.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "verdicts: 2 valid" in done.stdout
    assert (tmp_path / "simulated" / "reference-pairs-spread").is_dir()
