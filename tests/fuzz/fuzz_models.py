"""Histories of odd values for every model: each is judged, or refused in the project's own words.

The operations are the model's, the values anything that a history may hold: nil where a list is
wanted, a map for a number, 1 beside true and 1.0. Drawn from the number of the history alone.
"""

import traceback
from collections.abc import Iterator
from random import Random
from typing import Any

from maxq.checkers.linearizability.model import Model
from maxq.checkers.models.catalogue import models
from maxq.checkers.models.intake import Intake
from maxq.checkers.models.judged import judge
from maxq.histories.edn import Keyword
from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op

LOOKS = 300  # at the budget, of a search
ATOMS: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, -1, 1.0, 0.5, 1e300, 2**63, -(10**30), "", "x", "1", "\0",
    Keyword("ok"), (1, 2), frozenset({1, (2,)}), frozenset(),
)  # fmt: skip
PARTS = ("r", "w", "append", "send", "poll", "read", "write", "x", Keyword("r"), 1, None)
NAMES = (
    "read", "write", "cas", "add", "generate", "enqueue", "dequeue", "drain", "transfer", "txn",
    "acquire", "release", "acquire-read", "acquire-write", "renew", "get", "put", "append", "poll",
    "send", "assign", "subscribe", "broadcast", "lock", "",
)  # fmt: skip
KEPT = (Intake(), Intake(independent=True), Intake(ignored=NAMES), Intake(initial=0))
EXT = ("key", "permits", "ttl-ms", "margin-ms", "rebalance-log", "seek-to-beginning?", "start-ts")


def value(rng: Random, deep: int = 3) -> Any:
    kind = rng.randrange(10 if deep else 5)
    if kind < 5:
        return rng.choice(ATOMS)
    if kind < 7:
        return [value(rng, deep - 1) for _ in range(rng.randrange(4))]
    if kind == 7:
        return {str(rng.choice("ab12")): value(rng, deep - 1) for _ in range(rng.randrange(3))}
    if kind == 8:  # a transaction, almost
        return [[rng.choice(PARTS), value(rng, 1), value(rng, 2)] for _ in range(rng.randrange(3))]
    return [rng.randrange(3), value(rng, 1)]


def ops(rng: Random, names: tuple[str, ...]) -> Iterator[Op]:
    """Invocations and completions, each after its own."""
    waiting: dict[int, str] = {}
    usual = [value(rng) for _ in range(3)]
    for at in range(rng.randrange(2, 14)):
        process = rng.randrange(3)
        f = waiting.pop(process, None)
        kind = "invoke" if f is None else rng.choice(("ok", "ok", "ok", "fail", "info"))
        f = rng.choice(names) if f is None else f
        if kind == "invoke":
            waiting[process] = f
        said = rng.choice(usual) if rng.randrange(3) else value(rng)
        ext = {rng.choice(EXT): value(rng, 1) for _ in range(rng.randrange(3) // 2)}
        yield Op(type=kind, process=process, f=f, value=said, index=at,  # type: ignore[arg-type]
                 time=at * 1_000_000, ext=ext or None, error=value(rng, 1))  # fmt: skip


def of_model(number: int) -> tuple[Model, History, Intake]:
    """A history, the model that it is for, and what is said beside it."""
    rng = Random(f"odd/{number}")
    model = rng.choice([*models().values()])
    known = tuple(name for name in NAMES if name in (type(model).__doc__ or ""))
    names = known if known and rng.randrange(4) else NAMES
    return model, History(ops(rng, names)), rng.choice(KEPT)


def odd(number: int) -> str:
    """What went wrong with a history; empty: it was judged, or refused."""
    model, history, how = of_model(number)
    looks = iter(range(LOOKS))
    try:
        judge(model, history, lambda: next(looks, None) is None, how=how)
    except HistoryError:
        return ""
    except ValueError as error:
        return "" if "--initial" in str(error) else traceback.format_exc()
    except Exception:
        return f"{model.name}, history {number}: {traceback.format_exc(limit=-3)}"
    return ""
