"""A checker of a plug-in may judge nothing less than all operations: then they are held."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from history_recorder import Recorder

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.claim import Claim
from maxq.checkers.evidence.verdicts import Case, rule
from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.plugins import CheckerKind, current, install, restored
from maxq.harness.run import piecewise, rejudge
from maxq.histories.history import History
from maxq.histories.jsonl import JournalWriter
from maxq.histories.parquet import encode_parquet

WORDS = ("--workload", "queue", "-v")


class EachSend:
    """Counts sends, of which nothing is held where a history is judged in pieces."""

    name = "each-send"
    claims: tuple[str, ...] = ("X1",)

    def check(self, history: History, context: Context) -> Verdict:
        sends = sum(op.f == "send" and op.type == "ok" for op in history.clients)
        return rule(self, history, context, Case(judged={"X1": sends}, counts={"sends": sends}))


KIND = CheckerKind(
    checker=EachSend(),
    about="sends",
    claims=(Claim(id="X1", promise="a send", source="this test", grounds=(), checker="each-send"),),
    anomalies={},
    workloads=("queue",),
)


@pytest.fixture(autouse=True)
def named() -> Iterator[None]:
    with restored():
        install(current().with_checker(KIND))
        yield


@pytest.fixture(params=["jsonl", "parquet"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    recorder = Recorder()
    for offset in range(3):
        recorder.send(0, 10 + offset, offset)
    recorder.poll(1, (0, 10), (1, 11), (2, 12))
    path = tmp_path / f"history.{request.param}"
    if request.param == "parquet":
        path.write_bytes(encode_parquet(recorder.ops, run_id="r"))
        return path
    with JournalWriter(path) as writer:
        for op in recorder.ops:
            writer.append(op)
    return path


def counted(path: Path, judge: piecewise.JudgeSource) -> int:
    with piecewise.source_of(path, allow_truncated=False) as source:
        judged = judge(source, rejudge.checkers_for(["queue"]), rejudge.CONTEXT)
    return judged.results.counts["each-send:sends"]


def test_it_sees_all_operations(file: Path) -> None:
    assert counted(file, piecewise.by_columns) == 3


def test_it_needs_no_spark(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert counted(file, partial(piecewise.on_spark, master="local[1]")) == 3
    assert "checker each-send of a plug-in takes all operations at once: judged here" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("bound", [("--memory", "2GB"), ("--jobs", "2")])
def test_what_bounds_a_judgement_in_pieces_is_refused(
    file: Path, bound: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["check", str(file), *WORDS]) == 0
    assert "X1" in capsys.readouterr().out
    assert run_cli(["check", str(file), *WORDS, *bound]) == 254
    assert "takes all operations at once: leave out --memory and --jobs" in capsys.readouterr().err
