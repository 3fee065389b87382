"""Runs as commands make them: options, folder, environment, progress, results.

Everything here is about this machine and this process; what happens in a run is `lifecycle`. While
a run goes on its process holds a lock on the run's folder, so that no other process writes its
results.
"""

import fcntl
import os
import platform
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec

from maxq.checkers.availability.recovery import Recovery, recoveries
from maxq.checkers.core.api import Context, Valid
from maxq.checkers.counterexample.of_anomaly import Counterexample
from maxq.checkers.judgement import runner, summary
from maxq.checkers.judgement.digest import Row, digest, faults_in_short, known_lines
from maxq.checkers.judgement.runner import Results
from maxq.checkers.power.power import Power, power_of, power_rows
from maxq.harness.contracts.plugins import layouts, with_plugins
from maxq.harness.contracts.terminal import echo, pasted
from maxq.harness.known.naming import Naming, naming_of
from maxq.harness.report.evidence import Evidence
from maxq.harness.run import execute, judging, plugins, provenance
from maxq.harness.run.execute import planned, run_in_world
from maxq.harness.run.explained import Explained
from maxq.harness.run.files import result_file
from maxq.harness.run.judging import absent
from maxq.harness.run.lifecycle import ZERO_WALL_MS
from maxq.harness.run.process import room
from maxq.harness.run.process.progress import Progress
from maxq.harness.run.run_context import ENDED_FOR, LASTED, RunContext
from maxq.harness.run.run_plan import workloads
from maxq.harness.schedule import fixes
from maxq.harness.schedule.fixes import ToTry
from maxq.harness.schedule.format import SCHEDULE, encode
from maxq.harness.schedule.from_history import as_performed
from maxq.harness.schedule.generated import command_of
from maxq.harness.schedule.options import (
    Ops,
    Options,
)
from maxq.histories.aliases import renamed
from maxq.histories.op import HistoryError
from maxq.histories.store import (
    CONFIG,
    JOURNAL,
    Run,
    RunStore,
    StoredRun,
    config_of_folder,
    open_run,
    write_whole,
)


class Judged(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A stored run and its verdict.

    `explained` is what trying said of its findings, where that was asked for. `trouble` is what
    went wrong besides, of our own. `report` is where the report is;
    `unreported` why there is none, which changes no verdict. `measured` are the recoveries from
    faults where `stored.history` holds only a part. `fail_on`: of which measurements the exit code
    is 1 (`maxq.checkers.judgement.summary.FAIL_ON`). `power`: how much the verdict could have
    called, where that was asked for. `counterexamples` show some of the anomalies by themselves.
    `tried`: what trying said of the settings that would have kept what was lost, in lines.
    `short`: why the run had to end before its time, so that it is not all that was asked for.
    """

    stored: StoredRun
    options: Options
    results: Results
    explained: tuple[Explained, ...] = ()
    trouble: Exception | None = None
    report: Path | None = None
    unreported: Exception | None = None
    measured: tuple[Recovery, ...] | None = None
    fail_on: str = ""
    power: tuple[Power, ...] = ()
    counterexamples: tuple[Counterexample, ...] = ()
    tried: tuple[str, ...] = ()
    short: str = ""

    @property
    def recoveries(self) -> Sequence[Recovery]:
        """How long it took after each fault until messages were taken again."""
        found = recoveries(self.stored.history) if self.measured is None else self.measured
        if self.options.pair:  # its master may have another address: it is no other broker
            return [msgspec.structs.replace(r, failed_over=False) for r in found]
        return found

    @property
    def context(self) -> Context:
        """What the checkers knew beside the history."""
        return judging.context_as_found(self.options, self.stored.report)

    @cached_property
    def _naming(self) -> Naming:
        return naming_of(
            self.stored.path,
            self.stored.history,
            targets=self.options.targets,
            profile=self.options.profile,
            settings=self.context.settings or {},
            zero_wall_ms=self.stored.config.get(ZERO_WALL_MS),
            pair=self.options.pair,
        )

    @cached_property
    def rows(self) -> Sequence[Row]:
        """Its findings in plain words, the gravest first."""
        return digest(self.stored.history, self.results, self._naming)

    @cached_property
    def known(self) -> Sequence[str]:
        """What is known of its findings, and of times without success, a line each."""
        return (*known_lines(self.rows), *self._naming.of_answers(self.results.stretches))

    @property
    def failed_on(self) -> dict[str, int]:
        """The measured anomalies that `fail_on` names."""
        return summary.fails_on(self.results, self.fail_on)

    @property
    def absent(self) -> Sequence[str]:
        """The claims that cannot be judged on the run's target."""
        return absent(self.options)

    @property
    def repeat(self) -> str:
        """The command line that repeats the run."""
        own = self.options.repeat(self.stored.path)
        return command_of(self.stored.config) or with_plugins(
            own, self.stored.config.get("plugins") or {}
        )

    @property
    def to_try(self) -> ToTry | None:
        """How to find out which settings would have kept what was lost, where that was not tried; a
        seeded bug is no matter of settings."""
        if self.tried or self.options.mutant:
            return None
        return fixes.to_try(self.options, self.results.lost, self.stored.path)

    @property
    def exit_code(self) -> int:
        """A violation comes before a failure of ours, and that before any other verdict."""
        valid: Valid = False if self.failed_on else self.results.valid
        valid = "unknown" if self.short and valid is True else valid
        return runner.exit_code([valid], crashed=self.trouble is not None)

    @property
    def commit(self) -> str:
        """The harness's commit, as far as the run knows it."""
        config = self.stored.config
        dirty = " (changed)" if config.get("dirty") else ""
        return f"{config.get('commit') or config.get('version') or 'unknown'}{dirty}"

    def to_file(self) -> dict[str, Any]:
        """What is stored of it (`maxq.harness.run.files.result_file`)."""
        said = summary.headline(self.results, self.context)
        results = {**self.results.to_json(), "verdict": said, "repeat": self.repeat}
        results["schema"] = result_file.SCHEMA
        results["target"] = self.options.running
        results["first"] = [{**msgspec.to_builtins(r), "text": r.text()} for r in self.rows]
        results["faults"] = faults_in_short(self.stored.history)
        results["recoveries"] = msgspec.to_builtins(list(self.recoveries))
        if self.explained:
            results["explained"] = msgspec.to_builtins(list(self.explained))
        if self.tried:
            results["tried"] = list(self.tried)
        if self.power:
            results["power"] = power_rows(self.power)
        if self.counterexamples:
            results["counterexamples"] = [c.to_json() for c in self.counterexamples]
        return results

    def save(self, *, whole: bool) -> None:
        """Store the verdict; `whole`: the history as a table as well."""
        run, results = Run(self.stored.path), self.to_file()
        if whole:
            run.save_results(self.stored.history.ops, results)
        else:
            run.save_verdict(results)

    def with_all_operations(self, *, allow_truncated: bool) -> "Judged":
        """The same, its history read whole: who judged it in pieces kept little of it."""
        history = open_run(self.stored.path, allow_truncated=allow_truncated).history
        stored = msgspec.structs.replace(self.stored, history=history)
        return msgspec.structs.replace(self, stored=stored)

    def with_counterexamples(self) -> "Judged":
        """The same, with what suffices of an invalid history."""
        checkers = judging.checkers_of(self.options)
        found = judging.counterexamples_of(
            self.stored.history, self.results, checkers, self.context
        )
        return msgspec.structs.replace(self, counterexamples=found)

    def with_power(self) -> "Judged":
        """The same, with wrong answers planted in its history, and called or not."""
        checkers = judging.checkers_of(self.options)
        return msgspec.structs.replace(
            self,
            power=tuple(
                power_of(self.stored.history, checkers, self.context, clock=time.process_time)
            ),
        )

    def with_report(self) -> "Judged":
        """The same, its report written beside its results if that is possible."""
        # Many say a verdict, few draw it.
        from maxq.harness.report.writing import write_report
        from maxq.harness.run.process.node_logs import with_logs

        try:
            evidence = with_logs(self._evidence(), self.stored.path)
            report = write_report(evidence, self.stored.path)
        except Exception as error:  # a page is no evidence: nothing else may fail with it
            return msgspec.structs.replace(self, unreported=error)
        return msgspec.structs.replace(self, report=report)

    def _evidence(self) -> Evidence:
        journal, doubts = self.stored.report, []
        if journal.damage:
            doubts.append(f"The history is damaged, and judged up to there: {journal.damage}")
        elif not journal.complete:
            doubts.append("The run did not end properly; it is judged as far as it was recorded.")
        if self.trouble is not None:
            doubts.append(f"Max-Q itself failed: {type(self.trouble).__name__}: {self.trouble}")
        return Evidence(
            history=self.stored.history,
            results=self.results,
            rows=self.rows,
            known=self.known,
            context=self.context,
            options=self.options,
            config=self.stored.config,
            run=str(self.stored.path),
            commit=self.commit,
            doubts=tuple(doubts),
            explained=tuple(line for one in self.explained for line in one.lines()),
            tried=self.tried,
            to_try=self.to_try,
            power=self.power,
            recoveries=self.recoveries,
            counterexamples=self.counterexamples,
        )


def run_test(
    options: Options,
    root: Path,
    *,
    quiet: bool,
    verbose: bool = False,
    context: RunContext | None = None,
) -> Judged:
    """Perform a run in a folder of its own, judge it, store its verdict and write its report.
    `quiet`: it says nothing; `verbose`: it says every act.

    Raises:
        Exception: there was no run, or it ended too early, and what was recorded until then breaks
            no promise. Its notes say where the run is and how to repeat it.
    """
    context = context or RunContext()
    if said := room.warning(options, root, room.free(root)):
        echo(said, err=True)
    script = context.script or planned(options)
    context = msgspec.structs.replace(context, script=script)
    run = RunStore(root.resolve()).create("+".join(options.workload), datetime.now(UTC))
    with held(run.path):
        try:
            run.save_config(config_of(options))
            write_whole(run.path / SCHEDULE, encode(script))
            with Progress(options, quiet=quiet, verbose=verbose) as progress:
                context = msgspec.structs.replace(context, progress=progress)
                run_in_world(options, run, context, partial(_is_valid, run.path))
                progress.say("checking")
            judged = judge_stored(run.path).with_counterexamples()
            judged = msgspec.structs.replace(judged, short=context.stop.short)
        except BaseException as error:
            _save_failure(run, error)
            judged_early = _of_a_full_store(run, error) or _violation(run, error)
            if judged_early is None:
                again = with_plugins(options.repeat(run.path), plugins.loaded())
                error.add_note(f"run:     {run.path}\nrepeat:  {pasted(again)}")
                raise
            return judged_early
        try:
            write_whole(run.path / SCHEDULE, encode(as_performed(script, judged.stored.history)))
            judged.save(whole=True)
        except OSError as error:
            if room.is_full(error):
                echo(f"{room.FILLED}: the verdict is not stored", err=True)
                return msgspec.structs.replace(judged, short=room.FILLED)
            return msgspec.structs.replace(judged, trouble=error)
        return judged.with_report()


def run_up(options: Options, root: Path, context: RunContext) -> None:
    """Start a cluster in a folder of its own and keep it up until interrupted."""
    run = RunStore(root.resolve()).create("up", datetime.now(UTC))
    run.save_config(config_of(options))
    with Progress(options, quiet=False) as progress:
        execute.run_up(options, run, msgspec.structs.replace(context, progress=progress))


def _is_valid(path: Path) -> bool:
    return judge_stored(path).results.valid is True


def _save_failure(run: Run, error: BaseException) -> None:
    """The results of a run that failed: unknown, and why."""
    with suppress(OSError):  # maybe that is why
        text = f"{type(error).__name__}: {error}"
        run.save_verdict({"valid": "unknown", "error": text})


def _violation(run: Run, error: BaseException) -> Judged | None:
    """The verdict on a run that ended too early, if it is invalid all the same."""
    if not isinstance(error, Exception) or not (run.path / JOURNAL).exists():
        return None
    with suppress(HistoryError, OSError):
        judged = judge_stored(run.path)
        if judged.results.valid is False:
            judged = msgspec.structs.replace(judged, trouble=error).with_counterexamples()
            judged.save(whole=False)
            return judged.with_report()
    return None


def _of_a_full_store(run: Run, error: BaseException) -> Judged | None:
    """The verdict on a run whose store had no room left for all of it: by what it has."""
    if not room.is_full(error) or not (run.path / JOURNAL).exists():
        return None
    with suppress(HistoryError):
        judged = judge_stored(run.path, allow_truncated=True)
        echo(f"{room.FILLED}: judged is what was recorded until then", err=True)
        judged = msgspec.structs.replace(judged, short=room.FILLED).with_counterexamples()
        with suppress(OSError):
            judged.save(whole=False)
        return judged.with_report()
    return None


def judge_stored(path: Path, *, allow_truncated: bool = False) -> Judged:
    """Judge a stored run, also one whose harness was killed.

    Raises:
        HistoryError: the history is unreadable, or the options are.
    """
    stored = open_run(path, allow_truncated=allow_truncated)
    options = options_of(stored)
    return Judged(stored=stored, options=options, results=judging.judge_stored(options, stored))


def options_of(stored: StoredRun) -> Options:
    """How a stored run was set up.

    Raises:
        HistoryError: that is unknown.
    """
    return _options(stored.config, stored.path)


def options_of_folder(path: Path) -> Options:
    """The same of a run whose history is not read.

    Raises:
        HistoryError: that is unknown.
    """
    return _options(config_of_folder(path), path)


def _options(config: Mapping[str, Any], path: Path) -> Options:
    if not config:
        raise HistoryError(f"no {CONFIG} in {path.name}: how was the run set up?")
    try:
        options = msgspec.convert(renamed(config.get("options")), Options)
        lasted = msgspec.convert(config.get(LASTED, 0), Ops)
        ended_for = msgspec.convert(config.get(ENDED_FOR, ""), str)
        options = msgspec.structs.replace(options, lasted_ns=lasted, ended_for=ended_for)
    except msgspec.ValidationError as error:
        raise HistoryError(f"{CONFIG}: options: {error}") from None
    _known("workload", options.workload, workloads(), config)
    _known("layout", [options.layout] if options.layout else (), layouts(), config)
    return options


def _known(
    word: str, names: Iterable[str], known: Collection[str], config: Mapping[str, Any]
) -> None:
    """Whether these are here, and not of a plug-in that is not.

    Raises:
        HistoryError: one is not.
    """
    for name in names:
        if name not in known:
            origin = config.get("plugins", {}).get(f"{word} {name}", "")
            came = f", which came with {origin}" if origin else ""
            raise HistoryError(f"{CONFIG}: unknown {word} {name!r}{came}; known: "
                               f"{', '.join(known)}")  # fmt: skip


def missing_plugins(config: Mapping[str, Any]) -> list[str]:
    """What a run had that was not Max-Q's own and is not here, with where it was from; of its
    faults nothing is missing, as their facts are stored."""
    had = config.get("plugins") or {}
    return [f"{what} ({origin})" for what, origin in had.items()
            if what not in plugins.loaded() and not what.startswith("nemesis ")]  # fmt: skip


@contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold a run's folder for the length of a block; whether it was free."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:  # a file system without locks
            pass
        yield True
    finally:
        os.close(fd)


def config_of(options: Options) -> dict[str, Any]:
    """What a run's folder says of how the run is set up."""
    return {
        "options": msgspec.to_builtins(options),
        **provenance.identity(),
        "python": sys.version.split()[0],
        "kernel": platform.release(),
        "start_wall": datetime.now(UTC).isoformat(),
        "start_monotonic_ns": time.monotonic_ns(),  # node logs are stamped by the same clock
        "repeat": with_plugins(options.command(), plugins.loaded()),
        **({"plugins": plugins.loaded()} if plugins.loaded() else {}),
    }
