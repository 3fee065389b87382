"""Which known one an anomaly of a run is: one place for every command that says a verdict.

It is known only if its cause is where the anomaly is: the same target and the same signature prove
nothing. Where nodes' logs are not there, or the release is none of those in which it was seen, it
*may be* the known one; where they are and show no cause, nothing is said.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from maxq.checkers.core.api import Anomaly, Stretch
from maxq.harness.contracts.target import Profile
from maxq.harness.known import causes
from maxq.harness.known.causes import Traces
from maxq.harness.known.known import Known
from maxq.harness.known.known_findings import KNOWN
from maxq.harness.known.pairs.pair_causes import PAIR_TIES
from maxq.harness.known.pairs.pair_findings import PAIR_KNOWN
from maxq.harness.known.run_artifacts import Event, RunArtifacts, read_logs
from maxq.harness.schedule.options import MODES
from maxq.harness.targets.rocketmq.releases import release_of
from maxq.histories.history import History

TIES = {**causes.TIES, **PAIR_TIES}
_KNOWN = dict(zip(MODES, (KNOWN, PAIR_KNOWN), strict=True))


def known_in(mode: str) -> tuple[Known, ...]:
    """All that is known of runs of a mode, one of `maxq.harness.schedule.options.MODES`."""
    return _KNOWN[mode]


def known_by(what: str) -> Known | None:
    """The known anomaly of a label."""
    return next((known for known in (*KNOWN, *PAIR_KNOWN) if known.what == what), None)


def fits(run: Traces, cause: str, anomaly: Anomaly) -> bool:
    """Whether some trace of a cause explains an anomaly."""
    return any(TIES[cause](run, anomaly, harm) for harm in run.scene.harms(anomaly))


def known_as(anomaly: Anomaly, target: str, run: Traces) -> Known | None:
    """What an anomaly of a run is, if that is known.

    Args:
        anomaly: as a checker found it.
        target: of the run.
        run: its logs.
    """
    release = release_of(target) or ""
    rows = (k for k in known_in(MODES[run.pair]) if anomaly.signature in k.signatures)
    return next(
        (k for k in rows
         if release and k.covers(release) and (not k.shown or fits(run, k.shown, anomaly))), None
    )  # fmt: skip


class Naming:
    """Says of each anomaly of one run which known one it is; empty: none that is known.

    Args:
        targets: all that its nodes were.
        run: its logs and its history, which are read once they are needed.
    """

    def __init__(self, targets: Collection[str], run: Callable[[], RunArtifacts]) -> None:
        self._releases = [r for r in map(release_of, targets) if r is not None]
        self._run = run
        self._traces: Traces | None = None

    def __call__(self, anomaly: Anomaly) -> str:
        if not self._releases:  # of our reference nothing is known: what is found is mended
            return ""
        if self._traces is None:
            self._traces = Traces(self._run())
        run, perhaps = self._traces, ""
        for known in known_in(MODES[run.pair]):
            if anomaly.signature in known.signatures:
                covered = [known.covers(release) for release in self._releases]
                shown = not known.shown or fits(run, known.shown, anomaly)
                if shown and all(covered):
                    return known.said()
                if (shown or not run.logged) and any(covered):
                    perhaps = perhaps or known.said(sure=False)
        return perhaps

    def of_answers(self, stretches: Iterable[Stretch]) -> Iterator[str]:
        """What is known of times without success, each once, with the operation that failed."""
        failed = ((s.f, self(_unanswered(s, a.name))) for s in stretches for a in s.answers)
        named = (f"known: {f}: {text.removeprefix('known: ')}" for f, text in failed if text)
        yield from dict.fromkeys(named)


def _unanswered(stretch: Stretch, answer: str) -> Anomaly:
    """A time without success as what is looked up: its operation and an answer."""
    return Anomaly(
        claim=stretch.f,
        name=answer,
        signature=f"{stretch.f}/{answer}",
        ops=(stretch.first, stretch.last),
        story="",
        detail={"set": stretch.set, "from_ns": stretch.from_ns, "until_ns": stretch.until_ns},
    )


def naming_of(
    folder: Path,
    history: History,
    *,
    targets: Collection[str],
    profile: Profile,
    settings: Mapping[str, str],
    zero_wall_ms: int | None,
    pair: bool,
) -> Naming:
    """What names the anomalies of a stored run; arguments as `RunArtifacts` has them.

    Args:
        folder: of the run; what is left of its nodes' logs is in it.
        history: or the part of it that anomalies are about.
        targets: all that nodes were.
    """
    return Naming(
        targets,
        lambda: RunArtifacts(
            logs=_logs(folder / "nodes"),
            history=history,
            profile=profile,
            settings=dict(settings),
            zero_wall_ms=zero_wall_ms,
            pair=pair,
        ),
    )


@lru_cache(maxsize=1)
def _logs(folder: Path) -> dict[str, tuple[Event, ...]]:
    """A verdict is said several times: on the screen, in its folder and on a page."""
    return read_logs(folder)
