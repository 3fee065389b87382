"""The hunt's tables, as Markdown: what was run, what was found, what was met, what was reached."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from maxq.harness.experiments.hunt import run_matrix
from maxq.harness.experiments.hunt.by_mode import decisions_in, evidence_in, without_logs
from maxq.harness.experiments.hunt.decisions import Decision
from maxq.harness.experiments.hunt.hunt import Entry, Hunt
from maxq.harness.known.known import UNCLASSIFIED, Known
from maxq.harness.known.naming import known_by, known_in
from maxq.harness.schedule.options import MODES

HOLE = "**never**"
FOLDERS = dict(zip(MODES, ("hunt", "hunt-pairs"), strict=True))  # of the store
WITHOUT = "without controllers"
SHOWN_MAX = 20  # of the pairs that were not met


def folder_of(mode: str, layout: str) -> str:
    """The folder of such hunts, in the store."""
    return FOLDERS[mode] + f"-{layout}" * bool(layout)


def markdown(hunt: Hunt) -> str:
    """All tables."""
    entries = hunt.entries()
    runs = [e for e in entries if not e.error]
    without = f" {WITHOUT}" if hunt.mode == MODES[1] else ""
    laid = f", brokers in containers ({hunt.layout})" if hunt.layout else ""
    lines = [f"# The hunt on RocketMQ {hunt.release}{without}{laid}", ""]
    lines += _preface(hunt, entries, runs)
    lines += ["", "## What was run", "", *_table(_run_head(hunt), _by_profile(hunt, runs))]
    lines += [
        "",
        "## What was found",
        "",
        *FOUND_SAYS,
        "",
        *_untied(runs),
        *_table(FOUND, _found(runs)),
    ]
    lines += [
        "",
        "## Causes seen in logs",
        "",
        *CAUSES_SAY,
        "",
        *_table(CAUSES, _causes(hunt, runs)),
    ]
    lines += ["", "## Pairs of values", "", *_pairs(hunt, runs)]
    rows = decisions_in(hunt.mode)
    lines += ["", "## Rows of the decision tables", "", *_reached(rows, runs), ""]
    head = ("row", "", "times", *(_runs_with(hunt, value) for value in hunt.matrix.dealt), FIRST)
    lines += [*_table(head, [_decision(hunt, row, runs) for row in rows]), ""]
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    texts = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(t.replace('|', '/') for t in row)} |" for row in texts]


def _preface(hunt: Hunt, entries: Sequence[Entry], runs: Sequence[Entry]) -> list[str]:
    dates = sorted({e.date for e in entries})
    when = f", {dates[0]} to {dates[-1]}" if dates else ""
    left = len(hunt.missing())
    hours = sum(e.seconds for e in runs) / 3600
    beside = max((e.job.beside for e in runs), default=1)
    reported = [
        f"{len(runs)} runs in {hunt.environment}{when}: {hours:.1f} hours of clusters, at most "
        f"{beside} at once. A fresh cluster each, at most {run_matrix.BOUNDS.faults[1]} faults, at "
        f"most {max(run_matrix.RATES.values())} operations a second of the queue's clients."
    ]
    late = sum(bool(e.late) for e in runs)
    if late:
        reported.append(f"In {late} of them the harness itself was too late to judge liveness.")
    if len(entries) > len(runs):
        reported.append(f"{len(entries) - len(runs)} runs did not come up:")
        reported += [f"{n} times {error}" for error, n in Counter(_why(e) for e in entries).items()
                 if error]  # fmt: skip
    if left:
        reported.append(f"Not finished: {left} of {hunt.of} runs are missing.")
    return "\n\n".join(reported).splitlines()


def _why(entry: Entry) -> str:
    return entry.error.partition("\n")[0][:120]


DEALT = {run_matrix.BACK_END: "controllers", run_matrix.SLAVE_READ: "slaves are read from"}


def _run_head(hunt: Hunt) -> tuple[str, ...]:
    return ("profile", DEALT[hunt.matrix.factor], "runs", "hours", "operations", "acknowledged",
            "valid", "invalid", "unknown")  # fmt: skip


def _by_profile(hunt: Hunt, runs: Sequence[Entry]) -> Iterator[list[str]]:
    for profile in hunt.matrix.shares:
        for value in hunt.matrix.dealt:
            mine = [e for e in runs if (e.profile, _dealt(hunt, e)) == (profile, value)]
            if mine:
                yield [profile, value, *_sums(mine)]
    yield ["all", "", *_sums(runs)]


def _dealt(hunt: Hunt, entry: Entry) -> str:
    return entry.job.row[hunt.matrix.factor]


def _sums(runs: Sequence[Entry]) -> list[str]:
    verdicts = Counter(str(e.verdict) for e in runs)
    return [
        f"{len(runs)}",
        f"{sum(e.seconds for e in runs) / 3600:.1f}",
        f"{sum(e.operations for e in runs)}",
        f"{sum(e.acknowledged for e in runs)}",
        *(f"{verdicts[word]}" for word in ("True", "False", "unknown")),
    ]


# What was found.

FOUND = ("class", "anomaly", "what it is", "promised", "in runs", "first in run", "again")
FOUND_SAYS = (
    "Each anomaly by its signature. Where it is not promised that there is none, it is measured. "
    "`first in run`: how many runs it took until it was seen. Commands are for the store's folder.",
)
UNTIED = (
    "{} of the runs were recorded by a version that took lines of known causes from anywhere in a "
    "run's logs. It did not ask whether they fit an anomaly's broker, bytes and time. Of these "
    "runs only what needs no logs is classified."
)


class Sight(NamedTuple):
    """An anomaly of one class, and where it was seen."""

    is_: str
    signature: str
    what: str
    promised: bool


def sights(runs: Sequence[Entry]) -> dict[Sight, list[int]]:
    """In which runs each anomaly was seen, counted from 1; the classes in order."""
    seen: dict[Sight, list[int]] = {}
    for count, entry in enumerate(runs, start=1):
        for promised, found in ((True, entry.broken), (False, entry.measured)):
            for signature in found:
                for what in _labels(entry, signature):
                    known = known_by(what)
                    is_ = known.class_ if known else UNCLASSIFIED
                    seen.setdefault(Sight(is_, signature, what, promised), []).append(count)
    return dict(sorted(seen.items(), key=lambda item: (item[0].is_ != UNCLASSIFIED, item[0])))


def _untied(runs: Sequence[Entry]) -> list[str]:
    count = sum(e.labels is None and bool(e.broken or e.measured) for e in runs)
    return [UNTIED.format(count), ""] if count else []


def _labels(entry: Entry, signature: str) -> Iterable[str]:
    """What the anomalies of a signature are, each once; empty: unknown."""
    if entry.labels is None:
        return [without_logs(signature, entry.target, entry.profile)]
    return entry.labels.get(signature) or [""]


def _found(runs: Sequence[Entry]) -> Iterator[list[str]]:
    for sight, where in sights(runs).items():
        first = runs[where[0] - 1]
        promised = "yes" if sight.promised else "measured"
        yield [sight.is_, sight.signature, sight.what, promised, f"{len(where)}", f"{where[0]}",
               f"`maxq replay {place(first)} --times 10`"]  # fmt: skip


def place(entry: Entry) -> str:
    """A run's folder, as from the folder that was given as the store."""
    return str(Path(folder_of(entry.job.mode, entry.job.layout), entry.run))


CAUSES = ("in the logs", "what it does", "in runs", "with its harm", "first in run")
CAUSES_SAY = (
    "Causes of what is known, as nodes' logs show them, whether a run came to harm by them or not. "
    "A broker that never starts again leaves a run unknown, and its cause stands here alone.",
)


def _causes(hunt: Hunt, runs: Sequence[Entry]) -> Iterator[list[str]]:
    for name in evidence_in(hunt.mode):
        mine = [known for known in known_in(hunt.mode) if known.shown == name]
        where = [n for n, entry in enumerate(runs, start=1) if name in entry.evidence]
        if where:
            whats = "; ".join(dict.fromkeys(known.what for known in mine))
            harmed = _harmed([runs[n - 1] for n in where], mine)
            yield [name, whats, f"{len(where)}", harmed, f"{where[0]}"]


def _harmed(runs: Sequence[Entry], mine: Sequence[Known]) -> str:
    """In how many runs a cause fits some anomaly; and in how many that is unknown."""
    whats = {known.what for known in mine}
    signatures = {signature for known in mine for signature in known.signatures}
    harmed, unknown = 0, 0
    for entry in runs:
        found = [*entry.broken, *entry.measured]
        reported = {what for signature in found for what in _labels(entry, signature)}
        harmed += not whats.isdisjoint(reported)
        untied = entry.labels is None and whats.isdisjoint(reported)
        unknown += untied and not signatures.isdisjoint(found)
    return f"{harmed}, unknown in {unknown}" if unknown else f"{harmed}"


# What was met.


def _pairs(hunt: Hunt, runs: Sequence[Entry]) -> Iterator[str]:
    every = hunt.matrix.every_pair(hunt.capabilities)
    met = set(run_matrix.pairs_met(e.met for e in runs)) & every
    array = sum(e.job.number < hunt.matrix.array_size for e in runs)
    yield (
        f"{len(met)} of {len(every)} pairs that this environment can have were met, by faults that "
        f"struck; {array} runs are of the covering array's {hunt.matrix.array_size} rows."
    )
    missing = sorted(every - met)
    if missing:
        named = ", ".join(f"`{a}={x} with {b}={y}`" for a, x, b, y in missing[:SHOWN_MAX])
        more = f", and {len(missing) - SHOWN_MAX} more" if len(missing) > SHOWN_MAX else ""
        yield ""
        yield f"Not met: {named}{more}."


# What was reached.

FIRST = "first in run"
NAMES = {"dledger": "DLedger", "jraft": "jRaft"}


def _runs_with(hunt: Hunt, value: str) -> str:
    if hunt.matrix.factor == run_matrix.BACK_END:
        return f"runs with {NAMES[value]}"
    return "runs that read slaves" if value == "on" else "runs that do not"


def reached(row: Decision, runs: Sequence[Entry]) -> list[int]:
    """In which runs a row was seen to be reached, counted from 1."""
    return [n for n, entry in enumerate(runs, start=1) if entry.decisions.get(row.id)]


def _reached(rows: Sequence[Decision], runs: Sequence[Entry]) -> Iterator[str]:
    seen = [row for row in rows if row.seen is not None]
    holes = [row.id for row in seen if not reached(row, runs)]
    yield (
        f"Of {len(rows)} rows {len(rows) - len(seen)} are not visible from outside; of "
        f"the {len(seen)} others {len(seen) - len(holes)} were reached. What was never reached is "
        f"a hole of the hunt, not a pass."
    )
    if holes:
        yield ""
        yield f"Holes: {', '.join(f'`{hole}`' for hole in holes)}."


def _decision(hunt: Hunt, row: Decision, runs: Sequence[Entry]) -> list[str]:
    if row.seen is None:
        return [row.id, row.says, f"not visible: {row.why}", "", "", ""]
    where = reached(row, runs)
    if not where:
        return [row.id, row.says, HOLE, "0", "0", ""]
    times = sum(e.decisions.get(row.id, 0) for e in runs)
    by = Counter(_dealt(hunt, runs[n - 1]) for n in where)
    return [row.id, row.says, f"{times}", *(f"{by[v]}" for v in hunt.matrix.dealt), f"{where[0]}"]
