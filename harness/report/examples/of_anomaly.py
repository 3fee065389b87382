"""The smallest part of a run's history that shows an anomaly by itself, drawn."""

from collections.abc import Mapping, Sequence

from maxq.checkers.counterexample.of_anomaly import Counterexample
from maxq.checkers.judgement.digest import named
from maxq.harness.report.examples.diagram import Bar, diagram
from maxq.harness.report.markup import Html, el
from maxq.harness.report.spoken import spoken
from maxq.harness.report.timescale import seconds
from maxq.histories.history import History
from maxq.histories.op import Op


def drawn(found: Counterexample, of: int, brokers: Mapping[str, str]) -> Html:
    """What suffices of a history with so many operations; `brokers` are names by address."""
    one = found.length == 1
    parts = [
        f"Of {of:,} operations {'this one' if one else f'these {found.length:,}'} suffice"
        f"{'s' if one else ''}: judged alone {'it is' if one else 'they are'} INVALID as well",
        ", and none of them can be left out. " if found.minimal and not one else ". ",
        f"{found.left_out:,} messages that play no part are left out of what they read, with their "
        "sends. " if found.left_out else "",
        "One lane a client; time goes to the right, not to scale. Bars overlap where neither "
        "operation was over before the other began; a dashed one had no answer.",
    ]  # fmt: skip
    return el(
        "div",
        el("p", "".join(parts), class_="note"),
        diagram(bars_of(found, brokers)),
        class_="suffices",
    )


def bars_of(found: Counterexample, brokers: Mapping[str, str]) -> Sequence[Bar]:
    """A bar for each whole operation."""
    history = History(found.ops)
    bars = []
    for op in found.ops:
        other = history.pair_index(op)
        if other < 0 or other > op.index:
            bars.append(_bar(op, history[other] if other >= 0 else None, found, brokers))
    return bars


def _bar(
    begun: Op, ended: Op | None, found: Counterexample, brokers: Mapping[str, str]
) -> Bar:  # fmt: skip
    answer = ended if ended is not None and (ended.type != "info" or not begun.is_client) else None
    asked = named(spoken(begun) or begun.f, brokers).removesuffix(" begins")
    cited = found.anomaly.cited
    return Bar(
        process=str(begun.process),
        begun=begun.index,
        ended=None if answer is None else answer.index,
        asked=asked,
        answered="" if ended is None else _answered(ended, asked, brokers),
        times=_times(begun, answer),
        outcome="info" if answer is None else "fail" if answer.type == "fail" else "ok",
        shown=begun.index in cited or (ended is not None and ended.index in cited),
    )


def _answered(ended: Op, asked: str, brokers: Mapping[str, str]) -> str:
    if ended.type == "fail":
        return f"failed: {ended.error}" if ended.error else "failed"
    if ended.is_client and ended.type == "info":
        return "no answer"
    more = named(spoken(ended), brokers)
    for known in (asked, asked.removeprefix("read the ")):
        more = more.removeprefix(known).lstrip(",; :")
    return more or "ok"


def _times(begun: Op, ended: Op | None) -> str:
    if begun.time < 0:
        return "at an unknown time"
    until = seconds(ended.time) if ended is not None and ended.time >= 0 else "..."
    return f"{seconds(begun.time)} to {until}"
