"""Anomalies in words: each transaction, each dependency, and why."""

from collections.abc import Sequence

import numpy as np

from maxq.checkers.transactions.columns import Transactions
from maxq.checkers.transactions.cycles import Cycle, Step
from maxq.checkers.transactions.findings import named, said, word
from maxq.checkers.transactions.graph import COMMIT, KINDS, NONE, PROCESS, REALTIME, RW, WR

STEPS_MAX = 12  # of a cycle that is told whole


def told(t: Transactions, cycle: Cycle, *, lists: bool) -> tuple[str, ...]:
    """The lines of a cycle: its transactions, then why each comes before the next."""
    steps = cycle.steps
    shown = steps[:STEPS_MAX]
    names = {step.txn: f"T{n + 1}" for n, step in enumerate(steps)}
    if not steps:
        return ("every order of the versions was tried, and each has a cycle",)
    lines = [f"{names[step.txn]} = {said(t, step.txn, lists)}" for step in shown]
    for at, step in enumerate(shown):
        after = steps[(at + 1) % len(steps)].txn
        one, two = names[step.txn], names[after]
        lines.append(f"{one} < {two} ({KINDS[step.kind]}): "
                     + _why(t, step, (one, two), after, lists=lists))  # fmt: skip
    if len(steps) > len(shown):
        lines.append(f"... and {len(steps) - len(shown)} more steps back to T1")
    if cycle.forced:
        lines.append("where nobody read which version comes later, the other order has a cycle too")
    return tuple(lines)


def short(t: Transactions, cycle: Cycle) -> str:
    """A cycle in a line."""
    if not cycle.steps:
        return "no serial order explains what was read"
    names = [named(t, step.txn) for step in cycle.steps]
    ways = [
        f" -{KINDS[step.kind]}-> {name}"
        for step, name in zip(cycle.steps, [*names[1:], names[0]], strict=True)
    ]
    if len(ways) > STEPS_MAX:
        ways = [*ways[:STEPS_MAX], f" ... {len(ways) - STEPS_MAX} more steps"]
    return names[0] + "".join(ways)


def _why(t: Transactions, step: Step, names: Sequence[str], after: int, *, lists: bool) -> str:
    one, two = names
    if step.txn >= t.size:
        return f"{one} is what was there before all"
    wrote = "appended" if lists else "wrote"
    if step.kind == PROCESS:
        return f"process {int(t.process[step.txn])} ran {one} before {two}"
    if step.kind == COMMIT:
        read, seen_there = step.made, word(None if step.seen == NONE else t.value_of(step.seen))
        return (f"{one} also wrote key {word(t.key_of(read))}, and {named(t, _owner(t, read))}, "
                f"which sees {one}, read {seen_there} there, of {two}")  # fmt: skip
    if step.kind == REALTIME:
        return (f"{one} was over (op {int(t.ended[step.txn])}) before {two} began "
                f"({named(t, after)})")  # fmt: skip
    known = step.made if step.seen == NONE else step.seen
    key = word(t.key_of(known))
    seen = "nothing" if step.seen == NONE else word(t.value_of(step.seen))
    made = "" if step.made == NONE else word(t.value_of(step.made))
    if step.kind == WR:
        return f"{two} read {seen} in key {key}, which {one} {wrote}"
    if step.kind == RW:
        what = f"read key {key} before anything was there" if step.seen == NONE else \
            f"read key {key} at {seen}"  # fmt: skip
        return f"{one} {what}, and {two} {wrote} {made}, which comes later"
    return f"{one} {wrote} {seen} to key {key}, and {two} {wrote} {made}, which comes later"


def _owner(t: Transactions, part: int) -> int:
    return int(np.searchsorted(t.first, part, side="right")) - 1
