"""Commands on histories that are stored: ``maxq check`` and ``maxq export``."""

import shlex
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from maxq.checkers.judgement.piecewise import dealt
from maxq.harness.cli.given.asked import flat
from maxq.harness.cli.given.budget import Budget, BudgetType, MemoryType
from maxq.harness.cli.given.param_types import (
    EXPLAIN_OPTION,
    FAIL_ON_OPTION,
    PLUGIN_OPTION,
    TRY_FIX_OPTION,
    VERBOSE_OPTION,
    Name,
    Names,
)
from maxq.harness.cli.given.sections import Sectioned
from maxq.harness.cli.given.spark_types import SparkSetting, SparkSize
from maxq.harness.cli.given.ticker import Ticker
from maxq.harness.cli.histories.known_models import consistency_models, known_models
from maxq.harness.cli.histories.several import (
    FIRST_S,
    How,
    check_several,
    is_several,
    kept,
    say_assumed,
    say_state,
)
from maxq.harness.cli.show import show, without
from maxq.harness.contracts.terminal import echo
from maxq.harness.run import piecewise, rejudge, stored_run
from maxq.harness.run.process.passes import Passes
from maxq.harness.run.rejudge import FORMATS, JudgedFile, stored_history
from maxq.harness.run.run_plan import workloads
from maxq.harness.run.several.judging import Together
from maxq.harness.run.stored_run import Judged
from maxq.histories import aliases
from maxq.histories.lines.foreign import FORMATS as FOREIGN
from maxq.histories.op import HistoryError
from maxq.histories.store import StoredRun, is_run, is_table, write_whole
from maxq.spark_checkers.masters import LOCAL, wrong
from maxq.spark_checkers.session import Conf, Hear, need, spark_context, unheard

TOGETHER = 256  # runs, at most, that are judged in the same jobs of Spark
HERE, SPARK = ENGINES = ("here", "spark")
ELLE_JSON = "elle-json"  # a format of elle-cli's, for --model


NO_EXAMPLE = ("nothing is known to be invalid", "no small part was found that is invalid by itself")
HISTORY = click.argument("run", type=click.Path(exists=True, path_type=Path))
TRUNCATED = click.option(
    "--allow-truncated",
    is_flag=True,
    help="of a damaged history, or a table of which parts are missing or cannot be read, take what "
    "precedes that",
)
FIRST = (
    *("workload", "model", "consistency", "format_", "engine", "minimal", "power", "explain"),
    *("fail_on", "allow_truncated", "verbose", "as_json"),
)
EPILOG = """
\b
Examples:
  maxq check runs/latest
  maxq check runs/latest --minimal small
  maxq check runs/campaigns/nightly
  maxq check history.edn --workload queue
  maxq check history.edn --model list-append --consistency serializable
"""


@click.command(cls=Sectioned, epilog=EPILOG, first=FIRST)
@HISTORY
@TRUNCATED
@click.option(
    "--engine",
    type=Name(ENGINES, older=aliases.ENGINES),
    default=None,
    help="here, the default: on this machine; spark, for histories that take it too long",
)
@click.option(
    "--master",
    default=LOCAL,
    show_default=True,
    help="where Spark's tasks run: on this machine, or spark://HOST:PORT, yarn, k8s://HOST:PORT",
)
@click.option(
    "--driver-memory", metavar="SIZE", type=SparkSize(), help="what Spark's driver may take, as 4g"
)
@click.option(
    "--executor-memory", metavar="SIZE", type=SparkSize(), help="what each executor may take, as 2g"
)
@click.option(
    "--conf",
    metavar="KEY=VALUE",
    type=SparkSetting(),
    multiple=True,
    help="a setting of Spark, such as spark.local.dir=/big; repeatable",
)
@click.option(
    "--memory",
    type=MemoryType(),
    default=None,
    help="how much memory judging here may take, such as 2GB; longer histories wait in files in "
    "TMPDIR",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="how many processes judge here; each may take --memory",
)
@click.option(
    "--debug", is_flag=True, help="print what Spark wrote as well, and the traces of a failure"
)
@click.option(
    "--workload",
    type=Names(workloads, "NAME,..."),
    multiple=True,
    help="what clients did, if RUN is a file",
)
@click.option(
    "--model",
    type=Name(known_models, "NAME"),
    help="judge only whether the history is linearizable by this model (`maxq list models`)",
)
@click.option(
    "--budget",
    type=BudgetType(),
    default=Budget(),
    show_default="60s, and half of the free memory",
    help="time and memory for --model, reading included; over it the verdict is unknown",
)
@click.option(
    "--format",
    "format_",
    type=Name(FOREIGN),
    help="the file's format, for --model; by default found from its first bytes",
)
@click.option(
    "--minimal",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="write the smallest part that is INVALID by itself, for each kind of anomaly; with "
    "--model also a diagram",
)
@click.option(
    "--consistency",
    type=Name(consistency_models, "MODEL"),
    help="what transactions promise, such as serializable or snapshot-isolation; by default the "
    "strongest that the history allows",
)
@click.option(
    "--keys",
    type=Name(lambda: ("sequential", "linearizable")),
    help="what each register of rw-register promises by itself",
)
@click.option(
    "--independent",
    type=Name(lambda: ("yes", "no")),
    help="for --model: whether values are Jepsen's independent [key value]; by default found out",
)
@click.option(
    "--initial",
    metavar="VALUE",
    help="for --model: what a register begins with, as EDN, such as 0 (default: nil); any: what "
    "was read of it first and nobody wrote",
)
@click.option(
    "--ignore",
    metavar="NAME,...",
    default="",
    help="for --model: operations that the model does not know and that change nothing",
)
@click.option(
    "--elle-cli",
    metavar="JAR",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="with --model: also run elle-cli (java -jar JAR), and print both verdicts",
)
@PLUGIN_OPTION
@FAIL_ON_OPTION
@EXPLAIN_OPTION
@TRY_FIX_OPTION
@VERBOSE_OPTION
@click.option(
    "--power",
    is_flag=True,
    help="plant wrong answers in the run, and count how many are caught; takes a minute",
)
@click.option(
    "--verdicts",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="of several runs, write the verdicts as tables (Parquet), a row a claim and a row a fault",
)
@click.option("--json", "as_json", is_flag=True, help="print the verdict as JSON")
def check(run: Path, allow_truncated: bool, as_json: bool, verbose: bool, **given: Any) -> int:
    """Judge a stored run again, or a history that another tool recorded.

    RUN is a run's folder, a history of Jepsen (.edn), a journal (.jsonl) or a table: a .parquet
    file, or a folder of them. With --model it may also be elle-cli's JSON, or a log of Jepsen.
    Of a dataset (`maxq compact`), a campaign's folder or a store all runs are judged, in a line
    each. In a run's folder the new verdict replaces the stored one, unless the run is still under
    way or its history is damaged.
    """
    if given["model"]:
        from maxq.harness.cli.histories.by_model import Asked, check_by_model

        _refuse_beside_model(given)
        asked = Asked(
            run, given["model"], given["budget"], given["format_"] or "", allow_truncated,
            given["minimal"], given["consistency"] or "", given["keys"] or "", given["elle_cli"],
            given["independent"] or "", given["initial"] or "", given["ignore"],
        )  # fmt: skip
        return check_by_model(asked, as_json=as_json, verbose=verbose)
    for name in ("elle_cli", "independent", "initial", "ignore"):
        if given[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} is for --model")
    judge, named = _judge_of(given), flat(given["workload"])
    if is_several(run):
        return check_several(run, _together_of(given, judge), named,
                             {**given, "as_json": as_json, "verbose": verbose,
                              "allow_truncated": allow_truncated})  # fmt: skip
    if given["verdicts"]:
        raise click.UsageError("--verdicts is of several runs: of one there is --json")
    judged: Judged | JudgedFile
    if run.is_dir() and not is_table(run):
        if named and is_run(run):
            raise click.UsageError("--workload is for files: a run's folder says what it was")
        more = [name for name in ("power", "explain") if given[name]]
        judged = _check_run(run, judge, allow_truncated=allow_truncated, more=more)
    else:
        if given["power"]:
            raise click.UsageError("--power is for a run's folder, which has its settings")
        if not named:
            raise click.UsageError(
                f"--workload is needed for a file or a table: {', '.join(workloads())}"
            )
        judged = _check_file(run, named, judge, allow_truncated=allow_truncated)
    judged = msgspec.structs.replace(judged, fail_on=given["fail_on"] or "")
    written = _write_minimal(judged, given["minimal"], named) if given["minimal"] else []
    if given["explain"]:
        if not isinstance(judged, Judged):
            raise click.UsageError("--explain is for a run's folder: a file cannot be repeated")
        judged = explained(judged)
    if given["tries"]:
        if not isinstance(judged, Judged):
            raise click.UsageError("--try-fix is for a run's folder: a file cannot be repeated")
        judged = with_fixes(judged, given["tries"])
    show(judged, as_json=as_json, verbose=verbose)
    for line in written:
        echo(line, err=as_json)
    return judged.exit_code


def _write_minimal(judged: Judged | JudgedFile, folder: Path, named: Sequence[str]) -> list[str]:
    """Write what suffices; a line for each."""
    from maxq.harness.cli.histories.minimal import write

    if not judged.counterexamples:
        echo(f"{folder}: nothing is written: {NO_EXAMPLE[judged.results.valid is False]}", err=True)
        return []
    try:
        found = write(judged.stored, judged.counterexamples, folder)
    except FileExistsError as error:
        raise click.UsageError(f"--minimal: {error.filename} is there already") from None
    more = "".join(f" --workload {name}" for name in named)
    return [
        f"minimal: {c.length:,} operation{'' if c.length == 1 else 's'} for {c.anomaly.name} "
        f"({c.anomaly.claim}){without(c)}: maxq check {shlex.quote(str(path))}{more}"
        for c, path in found
    ]


def _refuse_beside_model(given: dict[str, Any]) -> None:
    """What a model does not ask for is refused, and not passed over."""
    beside = {
        "--workload": given["workload"], "--power": given["power"], "--explain": given["explain"],
        "--fail-on": given["fail_on"], "--engine": given["engine"], "--try-fix": given["tries"],
        "--memory": given["memory"], "--jobs": given["jobs"] > 1, "--verdicts": given["verdicts"],
    }  # fmt: skip
    if wrong := [name for name, value in beside.items() if value]:
        raise click.UsageError(f"{wrong[0]} is for claims: --model judges by a model alone")


def explained(judged: Judged) -> Judged:
    """The same, the causes of its findings tried, with progress for people."""
    if not judged.results.findings:
        return judged
    try:
        from maxq.harness.experiments.explain import with_causes

        return with_causes(judged, lambda text: echo(f"explain: {text}", err=True))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def with_fixes(judged: Judged, tries: int, base_image: str = "") -> Judged:
    """The same, other settings tried where something was lost or clients waited, with progress for
    people; stored, if the run is whole."""
    from maxq.harness.experiments.losses import Losses

    found = Losses.of_run(judged, base_image=base_image, tries=tries)
    with Ticker(lambda: f"trying settings; now: {found.to_try() or 'done'}") as ticker:
        found.run(ticker.say)
    judged = msgspec.structs.replace(judged, tried=tuple(filter(None, found.advice())))
    if not judged.tried or not judged.stored.report.complete:
        return judged
    judged.save(whole=False)
    return judged.with_report()


def _judge_of(given: dict[str, Any]) -> piecewise.JudgeSource:
    """Who judges a history, as the options say."""
    if why := wrong(given["master"]):
        raise click.UsageError(f"--master: {why}")
    conf = _conf(given)
    if given["engine"] != SPARK:
        if conf:
            raise click.UsageError("Spark is configured with --engine spark")
        return partial(piecewise.by_columns, memory=given["memory"] or 0, jobs=given["jobs"])
    if given["memory"] or given["jobs"] > 1:
        name = "memory" if given["memory"] else "jobs"
        raise click.UsageError(f"--{name} is for judging here: leave it out, or --engine spark")
    need(given["master"])  # before a journal is read for it
    return partial(piecewise.on_spark, master=given["master"], words=_words(given), conf=conf)


def _together_of(given: dict[str, Any], judge: piecewise.JudgeSource) -> How:
    """Who judges several."""
    if given["engine"] != SPARK:
        return How(nullcontext(lambda asked: [judge(*each) for each in asked]), 1)
    return How(_on_spark(given["master"], _words(given), _conf(given)), TOGETHER)


def _words(given: dict[str, Any]) -> Hear:
    """Who hears what Spark wrote."""
    return partial(echo, err=True) if given["debug"] else unheard


def _conf(given: dict[str, Any]) -> dict[str, str]:
    """The configuration of Spark that was asked for."""
    named = {f"spark.{of}.memory": given[f"{of}_memory"] for of in ("driver", "executor")}
    return {**{key: value for key, value in named.items() if value}, **dict(given["conf"])}


@contextmanager
def _on_spark(master: str, words: Hear, conf: Conf) -> Iterator[Together]:
    """In one session, which begins where something is judged."""
    with ExitStack() as stack:

        def together(asked: Sequence[piecewise.Asked]) -> list[dealt.Judged]:
            stack.enter_context(spark_context(master, words, conf))  # or the one that is there
            return piecewise.together_on_spark(asked, master=master, words=words)

        yield together


def _check_run(
    run: Path, judge: piecewise.JudgeSource, *, allow_truncated: bool, more: Collection[str]
) -> Judged:
    """Judge a run; `more`: its `power`, or to `explain` it later, which take all operations."""
    with stored_run.held(run.resolve()) as ended:
        passes = Passes()
        with Ticker(passes.line, first_s=FIRST_S):
            judged = piecewise.judge_run(run, judge, allow_truncated=allow_truncated, passes=passes)
        if "power" in more or ("explain" in more and judged.results.findings):
            judged = judged.with_all_operations(allow_truncated=allow_truncated)
        judged = judged.with_power() if "power" in more else judged
        judged = judged.with_counterexamples()
        found = judged.stored.report
        say_state(judged.stored, ended=ended)
        if ended and not found.complete and not found.damage:
            echo("the run did not end properly; judged as far as it was recorded", err=True)
        return kept(judged, ended)


def _check_file(
    path: Path, named: Sequence[str], judge: piecewise.JudgeSource, *, allow_truncated: bool
) -> JudgedFile:
    checkers = rejudge.checkers_for(named)
    with (
        rejudge.unpacked(path) as plain,
        piecewise.source_of(plain, allow_truncated=allow_truncated) as source,
    ):
        stored = rejudge.unread(path, source.report)
        say_state(stored)
        say_assumed(source.concurrency())
        passes = Passes()
        with Ticker(passes.line, first_s=FIRST_S):
            context = rejudge.context_of(source.report)
            judged = judge(source.with_progress(passes), checkers, context)
    stored = msgspec.structs.replace(stored, history=judged.history)
    found = rejudge.judged_file(stored, judged.results, named, judged.recoveries)
    return found.with_counterexamples(checkers)


@click.command()
@HISTORY
@TRUNCATED
@click.option("--format", "to", type=Name((*FORMATS, ELLE_JSON)), help="of the file")
@click.option(
    "--spark-job",
    "job",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="write no history, but a program for spark-submit that judges this one",
)
@click.option(
    "--model",
    type=Name(known_models, "NAME"),
    help="only this model's operations, as elle-cli takes them (--format elle-json or edn)",
)
@click.option(
    "--settled",
    is_flag=True,
    help="say beside each send without an answer whether it took effect (resolved: committed or "
    "absent), where the logs of all replicas show it",
)
@click.option("--key", metavar="KEY", help="of --model, where the history has several objects")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="the file; default: history.FORMAT here (elle-json: history.json)",
)
def export(
    run: Path,
    allow_truncated: bool,
    to: str | None,
    job: Path | None,
    model: str | None,
    key: str | None,
    settled: bool,
    output: Path | None,
) -> int:
    """Write the history of a run or a file as EDN (for Jepsen), JSON lines or Parquet.

    With --model it is for elle-cli, which judges it by: elle-cli --model NAME FILE.

    RUN may be whatever `maxq check --model` reads.
    """
    if job is not None:
        return _export_job(run, job)
    if to is None:
        raise click.UsageError("--format is needed, or --spark-job")
    stored = stored_history(run, allow_truncated=allow_truncated)
    run_id = f"{stored.path.parent.name}/{stored.path.name}" if run.is_dir() else run.stem
    say_state(stored)
    if settled:
        stored = _settled(stored)
    output = output or Path(f"history.{'json' if to == ELLE_JSON else to}")
    if model is None:
        if to == ELLE_JSON or key is not None:
            raise click.UsageError(f"{'--key' if key else to} needs --model")
        data, count = FORMATS[to](stored.history.ops, run_id), len(stored.history)
    else:
        data, count = _for_elle(stored, model, to, key)
    write_whole(output, data)
    echo(f"{output}: {count:,} operations")
    return 0


JOB = '''\
"""Judges a history on Spark: spark-submit [--master URL] THIS [options of `maxq check`].

The Python of the driver (PYSPARK_PYTHON) has Max-Q.
"""

import sys

from maxq.harness.cli.main import run_cli
from maxq.spark_checkers.jvm import SparkMissing
from maxq.spark_checkers.session import submitted

try:
    with submitted():
        code = run_cli(["check", {run!r}, "--engine", "spark", *sys.argv[1:]])
except SparkMissing as why:
    sys.exit(f"error: {{why}}")
sys.exit(code)
'''


def _export_job(run: Path, job: Path) -> int:
    """Write a program that judges a run where `spark-submit` runs it."""
    write_whole(job, JOB.format(run=str(run.resolve())).encode())
    python = shlex.quote(sys.executable)
    echo(f"run it: PYSPARK_PYTHON={python} spark-submit --master MASTER {shlex.quote(str(job))}")
    return 0


def _settled(stored: StoredRun) -> StoredRun:
    from maxq.checkers.judgement.settled import Settled
    from maxq.checkers.judgement.settled import settled as settle

    history = settle(stored.history)
    known = Settled.of(history)
    echo(f"settled: {known.said() if known else 'nothing'}", err=True)
    return msgspec.structs.replace(stored, history=history)


def _for_elle(stored: StoredRun, model: str, to: str, key: str | None) -> tuple[bytes, int]:
    from maxq.harness.cli.histories.exchange import WRITERS, exported

    if to not in WRITERS:
        raise click.UsageError(f"--model is for --format {' or '.join(WRITERS)}")
    try:
        return exported(model, to, stored.history, key)
    except ValueError as error:
        raise HistoryError(f"{stored.path.name}: {error}") from None
