"""Campaigns: many runs from one small file, within a budget, resumed where they were cut off.

A campaign file is TOML: a name, a budget, and cells. Every list in a cell is a choice; a cell is
all combinations of its choices, each one run::

    name = "nightly"
    budget = "6h"

    [[cell]]
    env = ["docker", "local"]
    nemesis = ["kill", "kill,partition,change-address"]
    seeds = 3                       # this many; or a list of seeds
    expect = "valid"

    [[cell]]
    mutant = ["ack_without_replicas"]
    expect = "invalid S6"           # some anomaly of this claim

    [[cell]]
    seeds = 20
    expect = "nothing left"         # the harness is killed (-9) at a random moment

Each run is a process of its own, ``maxq test``; what it ends with is a line of the campaign's
journal, synced before the next run begins. Source: Jepsen's test-all; JUnit XML as Surefire's.
"""

import itertools
import json
import math
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from maxq.harness.environments.leaks import gone, left_of
from maxq.harness.experiments.campaign_cases import VALID, Done, Job, junit
from maxq.harness.experiments.engine import JOURNAL, SPENT, run_missing
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.experiments.overview.occasions import Occasions
from maxq.harness.experiments.overview.page import write_index
from maxq.harness.experiments.overview.power_sample import Powers, called_in_run
from maxq.harness.run import plugins
from maxq.harness.run.process.workers import end_all, end_with_parent
from maxq.harness.schedule.format import Seed
from maxq.histories.store import JOURNAL as HISTORY
from maxq.histories.store import write_whole

NOTHING_LEFT = "nothing left"
JUNIT, RUNS = "junit.xml", "runs"
RUN_TIMEOUT_S = 1800.0  # beyond the time limit of the run itself
UNKNOWN = 2  # the exit code
LEAVE_S = 15.0  # after a kill of the harness everything must be gone within this
KILL_S = (0.3, 40.0)  # when it strikes, from the start of the harness
BUILT_IN = Path(__file__).parent / "campaigns"
RUNS_MAX = 100_000  # of a campaign
FOUND_MAX = 10  # kinds of findings of a run that its line in the journal keeps

Choices = Annotated[tuple[str, ...], Meta(min_length=1)]
Seeds = Annotated[int, Meta(ge=1, le=RUNS_MAX)] | Annotated[tuple[Seed, ...], Meta(min_length=1)]
# It names a folder of the store; `\Z`, since `$` would let an end of line pass.
FolderName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.+-]*\Z", max_length=100)]


class CampaignError(ValueError):
    """A campaign file that cannot be run; says where and why."""


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Choices, of which each combination is a run. Names are those of the command line."""

    env: Choices = ("auto",)
    workload: Choices = ("queue,lock,registration",)
    nemesis: Choices = ("kill,partition,change-address",)
    profile: Choices = ("safe",)
    timing: Choices = ("fast",)
    mutant: Choices = ("",)
    time_limit: Choices = ("60s",)
    options: tuple[str, ...] = ()  # more words for every run
    seeds: Seeds = 1
    expect: str = VALID

    @property
    def every_seed(self) -> Sequence[int]:
        """The seeds of each combination."""
        return range(1, self.seeds + 1) if isinstance(self.seeds, int) else self.seeds

    @property
    def choices(self) -> dict[str, Sequence[str]]:
        """What is combined, by the option of the command line."""
        return {
            "--env": self.env,
            "--workload": self.workload,
            "--nemesis": self.nemesis,
            "--profile": self.profile,
            "--timing": self.timing,
            "--mutant": self.mutant,
            "--time-limit": self.time_limit,
        }

    @property
    def count(self) -> int:
        """How many runs it is."""
        return math.prod(map(len, self.choices.values())) * len(self.every_seed)


class Campaign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A campaign file. The budget is a duration such as ``2h``; empty: none."""

    name: FolderName
    cell: Annotated[tuple[Cell, ...], Meta(min_length=1)]
    budget: str = ""


def built_in() -> list[tuple[str, str]]:
    """The campaigns that come with Max-Q, each with what its file says first."""
    found = []
    for path in sorted(BUILT_IN.glob("*.toml")):
        comment = itertools.takewhile(
            lambda line: line.startswith("#"), path.read_text().split("\n")
        )
        text = " ".join(line.lstrip("# ") for line in comment)
        found.append((path.stem, text.partition(" `maxq")[0].removesuffix(".")))
    return found


def read_campaign(path: Path) -> Campaign:
    """Read a campaign file; a bare name is one that comes with Max-Q.

    Raises:
        CampaignError: it is none.
    """
    if not path.exists() and (BUILT_IN / f"{path}.toml").exists():
        path = BUILT_IN / f"{path}.toml"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in BUILT_IN.glob("*.toml")))
        raise CampaignError(f"no campaign {path}; there are: {known}") from None
    try:
        found = msgspec.convert(_with_lists(tomllib.loads(data.decode())), Campaign)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CampaignError(f"{path}: line {line}: not UTF-8: {error.reason}") from None
    except (ValueError, RecursionError) as error:  # also of an integer with too many digits
        raise CampaignError(f"{path}: {error}") from None
    if (count := sum(cell.count for cell in found.cell)) > RUNS_MAX:
        raise CampaignError(f"{path}: {count:,} runs, more than {RUNS_MAX:,}")
    for cell in found.cell:
        words = cell.expect.split()
        if cell.expect not in (VALID, NOTHING_LEFT) and words[:1] != ["invalid"]:
            raise CampaignError(
                f"{path}: expect = {cell.expect!r}; known: {VALID}, invalid CLAIM, {NOTHING_LEFT}"
            )
    return found


def _with_lists(plain: dict[str, Any]) -> dict[str, Any]:
    """A file's content, in which a choice that is one text is a list of it."""
    cells = plain.get("cell")
    for cell in cells if isinstance(cells, list) else ():
        for key, value in cell.items() if isinstance(cell, dict) else ():
            if isinstance(value, str) and key != "expect":
                cell[key] = [value]
    return plain


def jobs_of(campaign: Campaign) -> list[Job]:
    """Every run of a campaign, in the order of the file."""
    made: list[Job] = []
    for number, cell in enumerate(campaign.cell, start=1):
        choices = cell.choices
        for combination in itertools.product(*choices.values()):
            chosen = [(k, v) for k, v in zip(choices, combination, strict=True) if v]
            varied = [v for (_, v), options in zip(chosen, choices.values(), strict=False)
                      if len(options) > 1]  # fmt: skip
            words = tuple(word for pair in chosen for word in pair) + cell.options
            for turn, seed in enumerate(cell.every_seed):
                name = " ".join([f"{number}.", cell.expect, *varied, f"seed {seed}"])
                made.append(Job(name=name, words=words, seed=seed, expect=cell.expect,
                                asked=turn == 0))  # fmt: skip
    return made


class Runs:
    """The runs of a campaign, done and to be done.

    Args:
        campaign: what to run.
        folder: the campaign's own; holds journal, JUnit file and runs.
    """

    def __init__(self, campaign: Campaign, folder: Path) -> None:
        self.jobs = jobs_of(campaign)
        self._name = campaign.name
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        before = {d.name: d for d in resumed(folder / JOURNAL, Done)}
        self._done = {job.name: before[job.name] for job in self.jobs if job.name in before}

    def done(self) -> list[Done]:
        """What is done, in the order of the file."""
        return [self._done[job.name] for job in self.jobs if job.name in self._done]

    def next(self) -> Job | None:
        """The next that is not done, or is at work; None: all are done."""
        return next((job for job in self.jobs if job.name not in self._done), None)

    def run(self, *, budget_ns: int | None, say: Callable[[str], None]) -> None:
        """Run what is not done yet, and write the JUnit file after each run.

        Args:
            budget_ns: no run begins after so long; None: no limit.
            say: called with a line for each run.
        """
        for done in self.done():
            say(f"done before: {done.name}")
        perform = partial(perform_job, store=self._folder / RUNS)
        for job, result in run_missing(
            lambda _: self.next(), perform, self._folder, inline=True, budget_ns=budget_ns
        ):
            self._done[job.name] = result
            append(self._folder / JOURNAL, result)
            self._write()
            word = "passed" if result.passed else f"FAILED: {result.why}"
            say(f"{result.seconds:6.1f} s  {job.name}: {word}")
        if self.next() is not None:
            say(SPENT)
        self._write()
        if (self._folder / RUNS).is_dir():
            write_index(self._folder / RUNS, self._name)

    def _write(self) -> None:
        write_whole(self._folder / JUNIT, junit(self._name, self.jobs, self._done))


def perform_job(job: Job, store: Path) -> Done:
    """Run one job in a process of its own."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "maxq.harness.cli.main", "test", *job.words]
    command += [word for module in plugins.modules() for word in ("--plugin", module)]
    command += ["--seed", str(job.seed), "--store", str(store)]
    killed = job.expect == NOTHING_LEFT
    done = _killed(command, store, job) if killed else _judged(command, job)
    if job.asked and job.expect == VALID and done.passed:
        done = msgspec.structs.replace(done, power=called_in_run(Path(done.run)))
    return msgspec.structs.replace(done, seconds=round(time.monotonic() - begun, 1))


def _done(job: Job, code: int, *, why: str = "", **printed: Any) -> Done:
    return Done(name=job.name, passed=not why, exit_code=code, seconds=0.0, why=why, **printed)


def _judged(command: Sequence[str], job: Job) -> Done:
    """How a run ended, by what it printed."""
    with _started([*command, "--json"]) as process:
        try:
            out, err = process.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()  # a request to end may not be heard any more
            process.communicate()
            return _done(job, process.returncode, why=f"not over after {RUN_TIMEOUT_S:.0f} s")
    code = process.returncode
    try:
        printed: Mapping[str, Any] = json.loads(out)
    except ValueError:
        return _done(job, code, why=f"exit {code}: {err.strip()[-500:]}")
    accused = sorted({a["claim"] for a in printed["anomalies"]})
    if job.expect == VALID:
        why = "" if code == 0 else f"exit {code}: {printed['verdict']}"[:500]
    else:
        wanted = job.expect.split()[1:]
        missed = [claim for claim in wanted if claim not in accused]
        why = "" if code == 1 and not missed else f"exit {code}, accused: {accused}"
    run, verdict, repeat = (str(printed[k]) for k in ("run", "verdict", "repeat"))
    found = "\n".join(str(row["text"]) for row in printed["first"][:FOUND_MAX])
    lost = str(printed["lost_in_words"]) if printed["acknowledged"] else ""
    claims = {str(c["claim"]): str(c["status"]) for c in printed["claims"]}
    return _done(job, code, why=why, run=run, said=verdict, lost=lost, found=found, repeat=repeat,
                 claims=claims)  # fmt: skip


def _killed(command: Sequence[str], store: Path, job: Job) -> Done:
    """Kill the harness at a random moment: everything must go, and what it recorded be judged."""
    at_s = Random(f"{job.name}/{job.seed}").uniform(*KILL_S)
    with _started(command) as process:
        try:
            process.communicate(timeout=at_s)
            return _done(job, process.returncode, why=f"it was over before {at_s:.1f} s")
        except subprocess.TimeoutExpired:
            left = left_of(process.pid)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    stayed = gone([left], LEAVE_S)
    if stayed:
        why = f"after {LEAVE_S:.0f} s there was left: {', '.join(stayed)}"
        return _done(job, -signal.SIGKILL, why=why)
    run = (store / "latest").resolve()
    if not (run / HISTORY).exists():  # killed so soon: nothing is recorded, and nothing known
        return _done(job, UNKNOWN, run=str(run))
    check = [sys.executable, "-m", "maxq.harness.cli.main", "check", str(run)]
    done = subprocess.run(check, capture_output=True, text=True)
    judged = done.returncode in (0, 1, 2)
    why = "" if judged else f"killed at {at_s:.1f} s; check: exit {done.returncode}: {done.stderr}"
    return _done(job, done.returncode, run=str(run), why=why)


@contextmanager
def _started(command: Sequence[str]) -> "Iterator[subprocess.Popen[str]]":
    """A process that does not outlive the block, nor this process: it is killed, and a killed run
    leaves nothing."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=end_with_parent,
    )
    try:
        yield process
    except BaseException:
        end_all([process.pid], partial(_kill, process))
        raise


def _kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def table(done: Sequence[Done]) -> str:
    """What came of a campaign, a line a run."""
    lines = []
    for d in done:
        lines.append(f"{'passed' if d.passed else 'FAILED':8}{d.seconds:8.1f} s  {d.name}")
        lines += [f"{'':20}{text}" for text in (d.said, d.lost) if text]
    passed = sum(d.passed for d in done)
    powers, occasions = Powers(), Occasions()
    for d in done:
        powers.add(d.power)
        occasions.add(d.claims)
    lines += [*occasions.lines(), *([powers.line()] if powers.runs else [])]
    return "\n".join([*lines, f"{passed} of {len(done)} passed"])
