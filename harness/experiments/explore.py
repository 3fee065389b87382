"""Random schedules on real machines: the seeds of the simulator, one run after the other.

Each seed takes a row of the covering array in turn. What came of a run is a line of a journal, so
that the same command goes on where one was cut off; the runs themselves are in the store, like
every other.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from maxq.checkers.core.api import Valid
from maxq.harness.experiments.engine import JOURNAL, run_missing
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.run import plugins, provenance
from maxq.harness.run.execute import drawn_in
from maxq.harness.run.process.signals import Stop
from maxq.harness.run.replay import options_for, signatures
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.sampling.draw import draw
from maxq.harness.sampling.factors import array_row, possible
from maxq.harness.schedule.format import SEND, Schedule, digest_of
from maxq.harness.schedule.reductions import family

FOLDER = "explored"  # of a store: the journal's


class Explored(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one seed. `how` names environment, target and releases; `digest` is of the
    schedule and `source` of the harness; `row` holds the factors that were drawn, `claims` what
    became of each."""

    seed: int
    how: dict[str, str]
    digest: str
    source: str
    row: dict[str, str]
    valid: Valid = "unknown"
    found: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    claims: dict[str, str] = {}
    acknowledged: int = 0
    faults: int = 0
    run: str = ""

    def line(self) -> str:
        """In a line, but for the verdict."""
        seen = ", ".join([*self.found, *self.doubts])
        text = f"{self.acknowledged} acknowledged, {self.faults} faults  {self.run}  {seen}"
        return text.rstrip()


class Exploration:
    """The runs of some seeds, done and to be done.

    Args:
        store: where the runs go.
        seeds: which.
        environment: where the nodes run.
        length_ms: of each main part; 0: drawn.
        target: of what; empty: the reference.
        releases: of single components or nodes.
        base_image: of the docker engine.
    """

    def __init__(
        self,
        store: Path,
        seeds: Sequence[int],
        *,
        environment: str,
        length_ms: int = 0,
        target: str = "",
        releases: Mapping[str, str] | None = None,
        base_image: str = "",
    ) -> None:
        self.seeds = tuple(seeds)
        self.folder = store / FOLDER
        self._store = store
        self._environment = environment
        self._length_ms = length_ms
        self._more: dict[str, object] = {"target": target} if target else {}
        self._more |= {"releases": dict(releases)} if releases else {}
        self._context = RunContext(base_image=base_image, stop=Stop(at_once=True))
        self._how = {"environment": environment, "target": target, **(releases or {})}
        self._source = provenance.digest() + plugins.digest()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._all = resumed(self.folder / JOURNAL, Explored)
        self._digests = {e.seed: digest_of(self._drawn(e.seed)[1]) for e in self._all}

    def done(self) -> list[Explored]:
        """What came of each seed that is done, in their order."""
        asked = set(self.seeds)
        mine = {e.seed: e for e in self._all if e.seed in asked and self._is_done(e)}
        return [mine[seed] for seed in self.seeds if seed in mine]

    def forget(self) -> None:
        """Begin anew."""
        (self.folder / JOURNAL).unlink(missing_ok=True)
        self._all = []

    def run(self, say: Callable[[Explored], None]) -> None:
        """Run the seeds that are not done yet.

        Args:
            say: called with each.

        Raises:
            KeyboardInterrupt: a run was interrupted, and does not count.
            Exception: a run failed, as `maxq.harness.run.stored_run.run_test`.
        """
        left: Iterator[int] = iter(sorted({*self.seeds} - {e.seed for e in self.done()}))

        def next_seed(_: Collection[int]) -> int | None:
            return next(left, None)

        for _, explored in run_missing(next_seed, self._explored, self.folder, inline=True):
            self._digests[explored.seed] = explored.digest
            self._all.append(explored)
            append(self.folder / JOURNAL, explored)
            say(explored)

    def _is_done(self, before: Explored) -> bool:
        same = (before.how, before.source) == (self._how, self._source)
        return same and before.digest == self._digests[before.seed]

    def _drawn(self, seed: int) -> tuple[dict[str, str], Schedule]:
        row = possible(array_row(seed), drawn_in(self._environment))
        return row, draw(seed, row, length_ms=self._length_ms)

    def _explored(self, seed: int) -> Explored:
        row, script = self._drawn(seed)
        options = options_for(script, self._environment, **self._more)
        context = msgspec.structs.replace(self._context, script=script)
        judged = run_test(options, self._store, quiet=True, context=context)
        return self._entry(seed, row, script, judged)

    def _entry(
        self, seed: int, row: Mapping[str, str], script: Schedule, judged: Judged
    ) -> Explored:
        return Explored(
            seed=seed,
            how=self._how,
            digest=digest_of(script),
            source=self._source,
            row=dict(row),
            valid=judged.results.valid,
            found=tuple(signatures(judged)),
            doubts=tuple(judged.results.whys),
            claims={claim: v.status for claim, v in judged.results.claims.items()},
            acknowledged=judged.stored.history.totals[SEND, "ok"],
            faults=len({family(act) for act in script.acts}),
            run=str(judged.stored.path),
        )
