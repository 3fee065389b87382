"""Max-Q inside a pytest project: the fixture `maxq` runs a cluster under faults and judges it.

    def test_no_acknowledged_message_is_lost(maxq):
        assert maxq.run(workload="queue", nemesis=["kill", "change-address"], time_limit="20s")

What comes back is true only if the run is valid; unknown is a failure as well, since nothing is
proved, unless the test says `allow_unknown=True`. What a profile does not promise breaks nothing
and is measured (`.lost`, `.measured`); `fail_on="loss"` fails on it all the same.

A test that fails ends with a section for each of its runs: the verdict, the three worst findings in
a line each, the page, and the command that repeats it. Wrong arguments raise, and name the nearest
right ones.

What an argument does not say is taken from `--maxq-env`, `--maxq-seed`, `--maxq-store`,
`--maxq-plugin`, then from `maxq_env` and so on of the ini file, then from `maxq test`. Run folders
are under pytest's own temporary folder unless a store is named; each worker of xdist has its own,
and many may share one store.

Rules for those who edit this. Every pytest of an environment with Max-Q in it loads this file, so
it imports nothing but pytest; all the rest is imported when a test runs a cluster.
"""

from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import pytest

if TYPE_CHECKING:
    from maxq.checkers.core.api import Anomaly, Status
    from maxq.harness.run.stored_run import Judged

Names = str | Iterable[str]  # of several
SHOWN_MAX = 3  # findings that a failed test names
UNJUDGED = {  # whether the test allows it
    False: "what is not judged fails a test; allow_unknown=True passes it",
    True: "what is not judged is allowed here",
}
RUNS = pytest.StashKey[list["Outcome"]]()
HELP = {
    "env": "where Max-Q's clusters run: auto, docker, local or simulated",
    "seed": "the seed of Max-Q's runs (default: a random one for each)",
    "store": "where Max-Q's run folders go (default: under pytest's temporary folder)",
    "plugin": "modules of workloads, faults and checkers of your own, joined by commas",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, on the command line and in the ini file."""
    group = parser.getgroup("maxq", "Max-Q: clusters under faults")
    for name, what in HELP.items():
        group.addoption(f"--maxq-{name}", dest=f"maxq_{name}", default=None, help=what)
        parser.addini(f"maxq_{name}", what, default="")


@pytest.fixture
def maxq(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "MaxQ":
    """Runs clusters under faults: `maxq.run(...)`."""
    return MaxQ(request.node, tmp_path_factory)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a failed test's runs; an assertion alone cannot, as pytest cuts what it prints."""
    report = yield
    if report.when == "call" and report.failed:
        runs = item.stash.get(RUNS, None) or []
        for number, outcome in enumerate(runs, start=1):
            title = "maxq" if len(runs) == 1 else f"maxq, run {number} of {len(runs)}"
            # Beside the traceback, where `--show-capture=no` does not hide it.
            add = getattr(report.longrepr, "addsection", None)
            if add is not None:
                add(title, outcome.text())
            else:
                report.sections.append((title, outcome.text()))
    return report


class Outcome:
    """A judged run. True if it is valid; if it is unknown, only where the test allows that; and
    false where something was measured that the test asked to fail on.

    `valid` is True, False or "unknown"; `claims` what became of each claim: kept, broken, not
    promised, no occasion, or not judged. `promised` are the claims that the run's settings make,
    `lost` how many acknowledged messages were lost of `acknowledged`, promised or not, and
    `shown_then_gone` how many a consumer saw that were not there any more. Both are None where that
    was not judged; `lost_not_judged` says why, or why there may be more. `measured` is what was
    found, by name, of claims that are not promised. `first` says of each finding, in a line, how
    many, when, where and by which fault. `anomalies` is what breaks a claim, each with its story,
    and `found` how many of each. `run` is the run's folder, `report` the page in it; `repeat` the
    command that repeats it; `to_try`, where something was lost, says which settings may have kept
    it and the command that tries them.
    """

    def __init__(self, judged: "Judged", *, allow_unknown: bool) -> None:
        from maxq.checkers.judgement import summary

        results = judged.results
        self.allow_unknown = allow_unknown
        self.valid: bool | Literal["unknown"] = results.valid
        self.headline: str = summary.headline(results, judged.context)
        self._word = summary.word(results)
        self.advice: tuple[str, ...] = results.advice
        self.first: tuple[str, ...] = tuple(row.text() for row in judged.rows)
        self.run: Path = judged.stored.path
        self.report: Path | None = judged.report
        self.repeat: str = judged.repeat
        self.to_try = judged.to_try
        self.commit: str = judged.commit
        self.trouble: Exception | None = judged.trouble
        self.short: str = judged.short
        self.failed_on: Mapping[str, int] = judged.failed_on
        self.lost: int | None = results.lost.lost
        self.acknowledged: int = results.lost.acknowledged
        self.shown_then_gone: int | None = results.lost.gone
        self.lost_not_judged: str = results.lost.why
        self.measured: Mapping[str, int] = summary.measured_names(results.claims)
        self.anomalies: tuple[Anomaly, ...] = results.broken
        self.claims: Mapping[str, Status] = {c: r.status for c, r in results.claims.items()}
        self.promised: tuple[str, ...] = tuple(
            claim for claim, status in self.claims.items() if status != "not promised"
        )
        # Of one name only so many are shown; the checker counted them all.
        self.found: dict[str, int] = {
            f"{claim} {name}": count
            for claim, verdict in results.claims.items()
            if verdict.status == "broken"
            for name, count in verdict.found.items()
        }

    def __bool__(self) -> bool:
        return (
            self.trouble is None
            and not self.short
            and not self.failed_on
            and (self.valid is True or (self.valid == "unknown" and self.allow_unknown))
        )

    def __repr__(self) -> str:
        """Short: beside an assertion; all else stands in the section below it."""
        return f"<maxq {self._word}>"

    def text(self) -> str:
        """What a failed test says of it: verdict, worst findings, page and command."""
        from maxq.harness.contracts.terminal import pasted, printable

        lines = [f"verdict: {self.headline}", *(f"  {line}" for line in self.advice)]
        lines += [f"  {row}" for row in self.first[:SHOWN_MAX]]
        if (more := len(self.first) - SHOWN_MAX) > 0:
            lines.append(f"  ... and {more} more finding{'' if more == 1 else 's'} on the page")
        if self.trouble is not None:
            lines.append(f"trouble: {type(self.trouble).__name__}: {self.trouble}")
        if self.short:
            lines.append(f"ended before its time: {self.short}")
        if self.failed_on:
            found = ", ".join(f"{n} {name}" for name, n in self.failed_on.items())
            lines.append(f"fails on what was measured, as asked by fail_on: {found}")
        if self.valid == "unknown":
            lines.append(UNJUDGED[self.allow_unknown])
        lines.append(f"page:    {self.report}" if self.report else f"run:     {self.run}")
        if self.to_try is not None:
            lines += [f"advice:  to try {self.to_try.what}:",
                      f"         {pasted(self.to_try.command)}"]  # fmt: skip
        return printable("\n".join([*lines, f"repeat:  {pasted(self.repeat)}"]))


class Arguments(TypedDict, total=False):
    """What a run may be given beside its workload, faults and length: options of `maxq test`.

    `env` is auto, docker, local or simulated; `set` a setting such as
    ``broker:flushDiskType=SYNC_FLUSH``, or several; `broker_conf` and `controller_conf` files of
    RocketMQ's settings; `interval` how long from a fault to the next one of its kind; `plugin` a
    module of workloads, faults or checkers, or several (those of installed plug-ins are there by
    themselves).
    """

    env: str | None
    profile: str | None
    mutant: str | None
    seed: int | None
    timing: str | None
    rate: float | None
    concurrency: int | None
    controllers: int | None
    namesrvs: int | None
    embedded_controllers: bool | None
    broker_sets: int | None
    replicas: int | None
    learners: int | None
    target: str | None
    base_image: str | None
    broker_conf: Path | str | None
    controller_conf: Path | str | None
    set: Names | None
    interval: str | None
    plugin: Names | None


class MaxQ:
    """Runs clusters for one test. `runs` are the runs so far."""

    def __init__(self, item: pytest.Item, folders: pytest.TempPathFactory) -> None:
        self._item, self._folders = item, folders
        self.runs: list[Outcome] = item.stash.setdefault(RUNS, [])

    def run(
        self,
        workload: Names | None = None,
        nemesis: Names | None = None,
        time_limit: str | None = None,
        *,
        store: Path | str | None = None,
        allow_unknown: bool = False,
        fail_on: str = "",
        **more: Unpack[Arguments],
    ) -> Outcome:
        """Perform a run and judge it. Arguments are those of `maxq test`, and so are defaults.

        Args:
            workload, nemesis: a name, names joined by commas, or several names.
            time_limit: with its unit, such as ``"20s"``.
            more: as `Arguments` has them.
            store: where the run's folder goes.
            allow_unknown: whether an unknown verdict passes.
            fail_on: ``loss``, ``stale`` or ``any``: fail also on what the settings do not promise
                against.

        Raises:
            ValueError, TypeError: an argument is wrong; names the nearest right ones.
            EnvironmentUnavailable, MissingCapability, SetupFailed: there was no run to judge.
            KeyboardInterrupt: it was interrupted; the run was judged first if it could be.
        """
        from maxq.harness.python_api import run as run_api

        __tracebackhide__ = True
        named = {"workload": workload, "nemesis": nemesis, "time_limit": time_limit, **more}
        known = [*run_api.ARGUMENTS, "store", "allow_unknown", "fail_on"]
        run_api.refuse((n for n in more if n not in known), known)
        given = {name: value for name, value in named.items() if value is not None}
        given.setdefault("env", self._chosen("env"))
        given.setdefault("seed", self._chosen("seed"))
        if modules := self._chosen("plugin"):
            given.setdefault("plugin", modules.split(","))
        live = self._item.config.getoption("capture") == "no"
        folder = Path(store) if store is not None else self._folder()
        judged, interrupted = run_api.perform(given, folder, quiet=not live, fail_on=fail_on)
        outcome = Outcome(judged, allow_unknown=allow_unknown)
        self.runs.append(outcome)
        if interrupted:
            raise KeyboardInterrupt(f"maxq: interrupted; {outcome.headline}, run {outcome.run}")
        return outcome

    def _chosen(self, name: str) -> str | None:
        """An option of the command line, else of the ini file."""
        config = self._item.config
        chosen: Any = config.getoption(f"maxq_{name}")
        return chosen if chosen is not None else config.getini(f"maxq_{name}") or None

    def _folder(self) -> Path:
        config = self._item.config
        text, stored = config.getoption("maxq_store"), config.getini("maxq_store")
        if text is not None:
            return Path(config.invocation_params.dir, text)
        if stored:
            return Path(config.rootpath, stored)
        return self._folders.mktemp("maxq")
