"""``maxq check FILE --model NAME``: any history, judged by a model."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from maxq.checkers.models.judged import KeyJudged, ModelJudged, judge
from maxq.harness.cli.given.budget import Budget
from maxq.harness.cli.histories.known_models import known_models
from maxq.harness.cli.show import WIDTH, wrapped
from maxq.harness.contracts.terminal import coloured, echo, echo_drawn, one_line, table
from maxq.harness.run import plugins
from maxq.harness.run.rejudge import open_file
from maxq.histories.history import History, wellformed
from maxq.histories.lines.foreign import FORMATS, HEAD, READERS, format_of
from maxq.histories.op import HistoryError
from maxq.histories.store import open_run

ROWS_MAX = 12
COLUMNS = (("key", 2), ("calls", 1), ("found", 10))
EXIT_CODES: dict[object, int] = {True: 0, False: 1, "unknown": 2}


def check_by_model(
    path: Path, name: str, budget: Budget, format_: str | None, *, as_json: bool, verbose: bool
) -> int:
    """Judge a history by a model, print the verdict, and return its exit code."""
    history = _history(path, format_)
    # Times say nothing here: what counts is the order of the history.
    broken = [b for b in wellformed(history) if not b.warning and b.rule != "W8"]
    started = time.monotonic()
    judged = judge(known_models()[name], history, budget.begun())
    seconds = time.monotonic() - started
    if not any(key.calls for key in judged.keys):
        seen = ", ".join(sorted({op.f for op in history.clients})[:8]) or "none"
        raise HistoryError(
            f"{path.name}: no operation that {name} knows; its operations are: {seen}"
        )
    if as_json:
        click.echo(msgspec.json.encode(_document(path, judged, broken, seconds)))
    else:
        _show(path, judged, [b.text for b in broken], seconds, verbose=verbose)
    return 2 if broken and judged.valid is True else EXIT_CODES[judged.valid]


def _history(path: Path, format_: str | None) -> History:
    if path.is_dir():
        return open_run(path).history
    if format_ is None:
        with path.open("rb") as file:
            format_ = format_of(file.read(HEAD))
        if not format_:
            raise HistoryError(
                f"{path.name} is of no format that is known: --format {', '.join(FORMATS)}"
            )
    if format_ in READERS:
        return History(READERS[format_](path))
    return open_file(path).history


def _document(
    path: Path, judged: ModelJudged, broken: Sequence[Any], seconds: float
) -> dict[str, Any]:
    return {
        "file": str(path),
        "model": judged.model,
        "valid": judged.valid if not broken or judged.valid is False else "unknown",
        "malformed": [b.text for b in broken],
        "seconds": round(seconds, 3),
        "keys": [
            {"key": _plain(k.key), "calls": k.calls, **k.decided._asdict()} for k in judged.keys
        ],
    }


def _plain(key: Any) -> Any:
    return sorted(map(repr, key)) if isinstance(key, frozenset) else key


def headline(judged: ModelJudged) -> str:
    """The verdict in a sentence."""
    bad, open_ = judged.of(False), judged.of("unknown")
    calls, keys = sum(key.calls for key in judged.keys), len(judged.keys)
    what = f"{calls:,} calls" if keys == 1 else f"{calls:,} calls on {keys:,} keys"
    if bad:
        which = "" if keys == 1 else f": those on {len(bad):,} of the keys have no legal order"
        return f"INVALID: {what} are not linearizable as {judged.model}{which}."
    if open_:
        which = "" if keys == 1 else f" for {len(open_):,} of the keys"
        return f"unknown: whether {what} are linearizable as {judged.model} is not known{which}: " \
               "the budget was used up (--budget)."  # fmt: skip
    return f"valid: {what} are linearizable as {judged.model}."


def _show(
    path: Path, judged: ModelJudged, broken: Sequence[str], seconds: float, *, verbose: bool
) -> None:
    echo(wrapped(f"verdict: {headline(judged)}"))
    found = [*judged.of(False), *judged.of("unknown")]
    if found:
        shown = found if verbose else found[:ROWS_MAX]
        echo_drawn(table(COLUMNS, map(_cells, shown), width=WIDTH, colour=coloured()))
        if len(found) > len(shown):
            echo(f"  ... and {len(found) - len(shown)} more keys; -v shows all")
    if broken:
        echo(wrapped(f"malformed: {len(broken)} operations, so nothing is called valid; the first: "
                     f"{broken[0]}"))  # fmt: skip
    means = sorted({key.decided.by for key in judged.keys})
    counted = ", ".join(f"{sum(k.decided.by == by for k in judged.keys):,} by {by}" for by in means)
    echo(f"decided: keys: {counted}; in {seconds:.2f} s")
    plugged = "".join(f" --plugin {module}" for module in plugins.modules())
    echo(one_line(f"repeat:  maxq check {path} --model {judged.model}{plugged}"))


def _cells(key: KeyJudged) -> list[tuple[str, str]]:
    name = "(one object)" if key.key is None else str(key.key)
    text = f"{key.decided.name}: {key.decided.why}"
    return [(name, ""), (f"{key.calls:,}", ""), (text, "")]
