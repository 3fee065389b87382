"""What is printed of transactions that were judged (``maxq check FILE --model list-append``)."""

from collections.abc import Iterator

from maxq.checkers.transactions.judged import Anomaly, Judged
from maxq.harness.cli.show import wrapped

SHOWN_MAX = 4  # anomalies that are told whole


def headline(judged: Judged, model: str) -> str:
    """The verdict in a sentence."""
    what = f"{judged.transactions:,} transactions of {model}"
    if judged.valid is False:
        names = ", ".join(a.name for a in judged.anomalies if a.forbidden)
        return f"INVALID: {what} are not {judged.consistency}: {names}."
    if judged.valid == "unknown":
        return f"unknown: whether {what} are {judged.consistency} is not known: {judged.unknown}."
    return f"valid: {what} are {judged.consistency}."


def lines(judged: Judged, *, verbose: bool) -> Iterator[str]:
    """What follows the verdict."""
    for at, anomaly in enumerate(judged.anomalies):
        yield from _anomaly(anomaly, whole=verbose or at < SHOWN_MAX)
    if judged.broken:
        yield wrapped(f"broken:  {', '.join(judged.broken)}, and what includes one of them")
    if judged.kept:
        names = ", ".join(judged.kept)
        yield wrapped(f"kept:    {names}, and what these include: nothing was found against them")
    counts = ", ".join(f"{count:,} {kind}" for kind, count in judged.dependencies.items())
    yield f"edges:   {counts}"


def _anomaly(anomaly: Anomaly, *, whole: bool) -> Iterator[str]:
    count = f" ({anomaly.count:,} times)" if anomaly.count > 1 else ""
    allowed = "" if anomaly.forbidden else ", which this model allows"
    yield wrapped(f"  {anomaly.name}{count}{allowed}: {anomaly.why}", 6)
    if whole:
        for line in anomaly.lines:
            yield wrapped(f"      {line}", 11)
