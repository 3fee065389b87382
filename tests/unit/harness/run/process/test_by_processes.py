"""Judged by several processes a table has the verdict that it has when every operation is held."""

from concurrent.futures import Executor
from pathlib import Path

import pytest
from engine_cases import Case, cases_of_tests, random_cases
from queue_histories import queue_history

from maxq.checkers.core.api import Context
from maxq.checkers.judgement.piecewise.by_columns import MEMORY
from maxq.checkers.judgement.piecewise.dealt import Judged, Request
from maxq.checkers.judgement.piecewise.memory import Memory
from maxq.checkers.judgement.runner import check_all
from maxq.harness.cli.main import run_cli
from maxq.harness.experiments.worker_pool import Inline
from maxq.harness.run.judging import every_checker
from maxq.harness.run.process import by_processes
from maxq.harness.run.process.by_processes import Workers, judge_table
from maxq.harness.run.process.workers import processes
from maxq.histories.op import HistoryError
from maxq.histories.parquet import files_of, open_table
from maxq.histories.tables import events_table

SHORT = Memory(aim=1_200, most=1 << 40)


def judged(
    case: Case, folder: Path, rows: int, memory: Memory = MEMORY, pool: Executor | None = None
) -> Judged:
    folder.mkdir()
    table = folder / "history.parquet"
    with open_table(table) as writer:
        writer.write_table(events_table(case.history.ops, run_id="r"), row_group_size=rows)
    shares: list[tuple[int, int]] = []
    noted = lambda done, of: shares.append((done, of))  # noqa: E731 - one line
    workers = Workers(pool or Inline(), 3, Known(memory), noted)
    found = judge_table(files_of(table), Request(every_checker(), case.context), workers)
    assert all(0 < done <= of for done, of in shares)
    return found


class Known:
    """Memory that does not change; other processes know it, too."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def __call__(self) -> Memory:
        return self.memory


@pytest.mark.parametrize(
    ("rows", "every", "memory", "held"),
    [(1_000, 6, MEMORY, 1 << 26), (7, 31, SHORT, 1), (1, 97, SHORT, 5_000)],
)
def test_every_case_is_judged_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    rows: int, every: int, memory: Memory, held: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(by_processes, "HELD_BYTES", held)
    cases = {**cases_of_tests(), **random_cases()}
    for number, name in enumerate(sorted(cases)[::every]):
        case = cases[name]
        expected = check_all(case.history, every_checker(), case.context)
        assert judged(case, tmp_path / str(number), rows, memory).results == expected, name


def test_processes_of_their_own_judge_alike(tmp_path: Path) -> None:
    cases = random_cases()
    with processes(2) as pool:
        for name in sorted(cases)[:1]:
            case = cases[name]
            expected = check_all(case.history, every_checker(), case.context)
            assert judged(case, tmp_path / name, 7, SHORT, pool).results == expected


def test_what_fits_into_no_memory_is_said(tmp_path: Path) -> None:
    case = Case(queue_history(1), Context())
    results = judged(case, tmp_path / "r", 1_000, Memory(aim=1_200, most=1)).results
    (durability,) = [v for v in results.verdicts if v.checker == "durability"]
    assert durability.valid == "unknown"
    assert "of memory to judge" in {c.why for c in durability.claim_verdicts}.pop()


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    table = tmp_path / "history.parquet"
    made = ["generate-history", "--workload", "queue", "--ops", "2000", "--out", str(tmp_path)]
    assert run_cli(made) == 0
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    workers = Workers(Inline(), 2, Known(MEMORY))
    with pytest.raises(HistoryError, match=r"rows 0 to .* checksum"):
        judge_table(files_of(table), Request(every_checker(), Context()), workers)
