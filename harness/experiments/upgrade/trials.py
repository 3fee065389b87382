"""The runs of upgrades, done and to be done, and what was seen in each.

What a run showed is a line of a journal, so that a command that was cut off, or whose budget was
spent, goes on. A cluster that never comes up is an outcome like any other; that is said of a mixed
set where every process lived and answered, and not where an environment failed.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from maxq.checkers.core.api import ClaimVerdict
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.judgement.lost import Lost
from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import EnvironmentLost, EnvironmentUnavailable
from maxq.harness.contracts.target import Profile
from maxq.harness.experiments.engine import JOURNAL, run_missing
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.experiments.upgrade.logs import Before, Replica, measured, words
from maxq.harness.experiments.upgrade.pair_outcomes import PairOutcome, pair_outcome
from maxq.harness.experiments.upgrade.plans import AWAY_S, Expected, Upgrade, upgrades
from maxq.harness.run.process.signals import Stop
from maxq.harness.run.replay import options_for
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.format import SEND, digest_of
from maxq.histories.fault_facts import KILL, READ_LOG, RELEASE, RESTART

FAILED_MAX = 2  # runs of one upgrade that say nothing, until it is left
SEEN = "upgrade.txt"  # of the run's folder: what was seen, in words
TOO_SLOW = "the run was over before the master was paused and resumed: the machine is too slow"
ERROR_MAX = 300  # characters of why a cluster did not come up
Came = Literal["up", "never up", "failed"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be made."""

    name: str
    profile: Profile
    environment: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run. `recovered_ms` is from the kill or restart of a master until a send was
    acknowledged, None if none was; `struck` whether there was one. `replaced` counts nodes that
    proved to be of another release, of `asked`. `serves` is whether every queue took and returned a
    probe at the end. `after` counts what was acknowledged once the last node had been replaced;
    `logs` are those of all replicas, of upgrades that read them before; `pair` is what became of
    masters that were gone, of brokers without controllers."""

    job: Job
    digest: str
    date: str = ""
    came: Came = "up"
    after: int = 0
    messages: Lost = Lost()
    struck: bool = False
    recovered_ms: float | None = None
    replaced: int = 0
    asked: int = 0
    serves: bool = False
    logs: tuple[Replica, ...] = ()
    pair: PairOutcome | None = None
    found: tuple[str, ...] = ()
    run: str = ""
    error: str = ""

    @property
    def seen(self) -> str:
        """In words."""
        if self.came != "up":
            return self.came
        said = []
        if self.pair is not None:
            said.append(self.pair.words)
        elif self.struck:
            said.append(_after(self.recovered_ms))
        if self.asked:
            said.append(f"{self.replaced} of {self.asked} nodes replaced")
        lost = self.messages.said
        said.append(f"{lost}, {self.after:,} acknowledged afterwards" if self.logs else lost)
        said.append("Serves at the end" if self.serves else "Does not serve at the end")
        first, *others = [*said, *([words(self.logs)] if self.logs else [])]
        return ". ".join([first, *(f"{text[0].upper()}{text[1:]}" for text in others)])

    @property
    def _kept(self) -> bool:
        """Whether every node became another release, nothing is lost, logs are equal with all that
        they had, and the cluster serves."""
        whole = all(log.kept and log.equal for log in self.logs)
        return self.replaced == self.asked and self.serves and self.messages.lost == 0 and whole

    @property
    def _acts(self) -> bool:
        return self.pair is not None and self.pair.acts

    def shows(self, expected: Expected) -> bool:
        """Whether it is as documented."""
        up = self.came == "up"
        switched = self.recovered_ms is not None and self.recovered_ms < AWAY_S * 1000
        match expected:
            case "never up":
                return self.came == "never up"
            case "switches":
                return up and self.struck and switched
            case "no switch":
                return up and self.struck and not switched
            case "stays away":
                return up and self.struck and self.recovered_ms is None
            case "keeps all":
                return up and self._kept
            case "acts":
                return up and self._acts and self._kept
            case "does not act":
                return not self._acts and self.came != "failed"
        return False


def _after(ms: float | None) -> str:
    if ms is None:
        return "no send acknowledged after the master went"
    if ms >= AWAY_S * 1000:
        return f"no switch: the next send was acknowledged after {ms / 1000:.1f} s"
    return f"the next send was acknowledged after {ms / 1000:.1f} s"


def measure(job: Job, folder: Path) -> Entry:
    """Make a run, and say what was seen."""
    [upgrade] = [one for one in upgrades() if one.name == job.name]
    script = upgrade.schedule(job.profile)
    date = datetime.now(UTC).date().isoformat()
    entry = Entry(job=job, digest=digest_of(script), date=date)
    context = RunContext(script=script, stop=Stop(at_once=True))
    try:
        options = options_for(script, job.environment)
        judged = run_test(options, folder / "runs", quiet=True, context=context)
    except SetupFailed as error:
        return msgspec.structs.replace(entry, came="never up", error=f"{error}"[:ERROR_MAX])
    except (EnvironmentLost, EnvironmentUnavailable, OSError) as error:
        return msgspec.structs.replace(entry, came="failed", error=f"{error}"[:ERROR_MAX])
    found = judged_entry(entry, judged, upgrade)
    if why := unsaid(found, upgrade, judged.results.claims.get("S13")):
        found = msgspec.structs.replace(found, came="failed", error=why[:ERROR_MAX])
    (judged.stored.path / SEEN).write_text(f"{upgrade.name}: {found.seen}\n")
    return found


def unsaid(found: Entry, upgrade: Upgrade, service: ClaimVerdict | None) -> str:
    """Why a run does not say what came of an upgrade; empty: it does.

    Args:
        found: what it says.
        upgrade: of what.
        service: whether the cluster served at the end (S13).
    """
    if upgrade.pair and (found.pair is None or found.pair.paused is None):
        return TOO_SLOW
    if service is not None and service.status == "not judged":
        return f"whether the cluster serves was not judged: {service.why}"
    return ""


def judged_entry(entry: Entry, judged: Judged, upgrade: Upgrade) -> Entry:
    """What a run says."""
    history, results = judged.stored.history, judged.results
    ends = [r for r in judged.recoveries if r.f in (KILL, RESTART)]
    after = ends[0].after_ns if ends else None
    asked = [act for act in upgrade.acts if RELEASE in act.args]
    folder = judged.stored.path
    done = {str(fault.request): fault for fault in faults(history)}
    proven = {
        node
        for act in asked
        if act.id in done and isinstance(done[act.id].result, dict)
        for node, proof in done[act.id].result.items()
        if isinstance(proof, dict) and proof.get("to") and proof.get("holds")
    }
    service = results.claims.get("S13")
    # What controllers said before they were cleared has nothing to do with what they say later.
    forfeited = {claim for claim, ruled in results.claims.items() if ruled.forfeited}
    found = (*results.broken, *results.measured)
    replaced_ns = max((done[act.id].ended_ns or 0 for act in asked if act.id in done), default=0)
    return msgspec.structs.replace(
        entry,
        after=sum(op.time > replaced_ns for op in history if op.f == SEND and op.type == "ok"),
        messages=results.lost,
        struck=bool(ends),
        recovered_ms=None if after is None else after / 1e6,
        replaced=len(proven),
        asked=upgrade.replaced,
        serves=service is not None and service.status == "kept",
        pair=pair_outcome(history, done) if upgrade.pair else None,
        logs=measured(folder, _before(done, upgrade)) if upgrade.reads_logs else (),
        found=tuple(sorted({a.signature for a in found if a.claim not in forfeited})),
        run=str(folder),
    )


def _before(done: Mapping[str, Fault], upgrade: Upgrade) -> dict[str, Before]:
    """The log that each broker that was stopped had then."""
    acts = [act.id for act in upgrade.acts if act.f == READ_LOG and act.id in done]
    results = [done[name].result for name in acts if isinstance(done[name].result, dict)]
    return {
        node: Before(end=proof["end"], digest=proof["digest"])
        for result in results
        for node, proof in result.items()
        if isinstance(proof, dict) and "digest" in proof
    }


class Trials:
    """The runs of upgrades.

    Args:
        folder: of the journal and of the runs.
        names: of the upgrades that are asked for.
        profiles: under which each is run.
        environment: where.
        rounds: how often each.
    """

    def __init__(
        self,
        folder: Path,
        *,
        names: Sequence[str],
        profiles: Sequence[Profile],
        environment: str,
        rounds: int = 1,
    ) -> None:
        self.folder = folder
        self.rounds = rounds
        self.environment = environment
        folder.mkdir(parents=True, exist_ok=True)
        self._all = resumed(folder / JOURNAL, Entry)
        self._by_name = {one.name: one for one in upgrades()}
        self._jobs = [
            Job(name=name, profile=profile, environment=environment)
            for name in names
            for profile in self._by_name[name].profiles(profiles)
        ]
        self._digests = {
            job: digest_of(self._by_name[job.name].schedule(job.profile)) for job in self._jobs
        }

    def entries(self, name: str, profile: Profile) -> list[Entry]:
        """What is done of an upgrade as it is now."""
        job = Job(name=name, profile=profile, environment=self.environment)
        digest = self._digests.get(job) or digest_of(self._by_name[name].schedule(profile))
        return [e for e in self._all if e.job == job and e.digest == digest]

    @property
    def of(self) -> int:
        """How many runs are asked for."""
        return len(self._jobs) * self.rounds

    def undocumented(self) -> list[Entry]:
        """The runs of what is asked for that are not as documented."""
        return [
            e
            for job in self._jobs
            if (expected := self._by_name[job.name].expected)
            for e in self.entries(job.name, job.profile)
            if e.came != "failed" and not e.shows(expected)
        ]

    def missing(self) -> Iterator[Job]:
        """What is not done yet, in the order in which it should be."""
        for turn in range(self.rounds):
            for job in self._jobs:
                done = self.entries(job.name, job.profile)
                failed = sum(e.came == "failed" for e in done)
                if len(done) - failed <= turn and failed < FAILED_MAX:
                    yield job

    def run(self, *, budget_ns: int | None, say: Callable[[str], None]) -> bool:
        """Run what is missing, one cluster at a time; whether nothing is missing any more.

        Args:
            budget_ns: no run begins after so long; None: no limit.
            say: called with a line for each run.
        """

        def next_job(at_work: Collection[Job]) -> Job | None:
            return next((job for job in self.missing() if job not in at_work), None)

        perform = partial(measure, folder=self.folder)
        done = run_missing(next_job, perform, self.folder, inline=True, budget_ns=budget_ns)
        for job, entry in done:
            self._all.append(entry)
            append(self.folder / JOURNAL, entry)
            what = f"{entry.seen} {entry.error}".strip()
            say(f"{job.name} {job.profile}: {what}  {entry.run}".rstrip())
        return next(self.missing(), None) is None
