"""The engines say the same: every verdict, anomaly, story and count, however tables are cut."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from engine_cases import Case, cases_of_tests, judged_locally, random_cases
from engines import LAYOUTS, judged_on_spark
from spark_fixture import spark

from maxq.checkers.judgement.runner import Results
from maxq.harness.run.stored_run import run_test
from maxq.harness.schedule.options import Options

__all__ = ("spark",)  # the fixture; pytest finds it here

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
SECONDS_NS = 1_000_000_000
CHECKERS = ("durability", "locks", "broker-ids", "epochs", "replicas", "availability", "routes")
MUTANTS = (
    "ack_before_write", "ack_without_replicas", "address_under_two_ids", "elect_keeps_epoch",
    "lock_without_quorum", "new_id_each_start",
)  # fmt: skip


def simulated(folder: Path, mutant: str) -> Case:
    """A short run of a cluster whose master is killed."""
    options = Options(
        environment="simulated",
        seed=3,
        nemesis=("kill",),
        time_limit_ns=8 * SECONDS_NS,
        rate=20.0,
        mutant=mutant,
    )
    judged = run_test(options, folder, quiet=True)
    return Case(judged.stored.history, options.context())


@pytest.fixture(scope="module")
def all_cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    folder = tmp_path_factory.mktemp("runs")
    runs = {f"run.{name}": simulated(folder, name) for name in ("", *MUTANTS)}
    return {**cases_of_tests(), **random_cases(), **runs}


@pytest.fixture(scope="module")
def expected(all_cases: dict[str, Case]) -> dict[str, Results]:
    return judged_locally(all_cases)


def test_the_cases_are_of_every_kind(expected: dict[str, Results]) -> None:
    """Otherwise agreement would say little."""
    verdicts = [v for results in expected.values() for v in results.verdicts]
    valid = Counter((v.checker, v.valid) for v in verdicts)
    for checker in CHECKERS:
        assert min(valid[checker, kind] for kind in (True, False, "unknown")) > 0, checker
    names = Counter(a.name for v in verdicts for a in v.anomalies)
    assert len(names) > 25, names
    assert any(results.breaches for results in expected.values())
    assert any(v.reason.startswith("W9") for v in verdicts)
    assert any(v.reason.startswith("W10") for v in verdicts)
    assert not [v.reason for v in verdicts if "the checker crashed" in v.reason]


@pytest.mark.parametrize(("number", "partitions", "groups"), LAYOUTS)
def test_both_engines_agree_on_every_case(
    spark: Any,
    tmp_path: Path,
    all_cases: dict[str, Case],
    expected: dict[str, Results],
    number: int,
    partitions: int,
    groups: int,
) -> None:
    mine = {name: all_cases[name] for name in sorted(all_cases)[number :: len(LAYOUTS)]}
    got = judged_on_spark(spark, tmp_path, mine, partitions=partitions, groups=groups)

    assert got.keys() == mine.keys()
    for name, found in got.items():
        assert found == expected[name], name
