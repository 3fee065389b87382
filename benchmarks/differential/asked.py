"""What clients ask of an object, and what it answers: an `Ask` for each model."""

import itertools
from collections.abc import Callable, Hashable
from random import Random

from benchmarks.differential.oracle import REFUSED, Ask
from maxq.checkers.linearizability.calls import Row

Values = Callable[[Random], int]


def once() -> Values:
    """Each value once."""
    count = itertools.count(1)
    return lambda random: next(count)


def again() -> Values:
    """One of three values."""
    return lambda random: random.randrange(1, 4)


def or_nothing(values: Values) -> Callable[[Random], int | None]:
    """The same, and sometimes what a register holds at the beginning."""
    return lambda random: None if random.random() < 0.3 else values(random)


def register(values: Callable[[Random], int | None], *, swaps: bool) -> Ask:
    """A register, with compare-and-set if it `swaps`."""

    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        value, kind = values(random), random.random()
        if kind < 0.45:
            return Row(None, "read", result=state), state
        if swaps and kind < 0.6:
            old = random.randrange(1, 4)
            if old != state:
                return Row(None, "cas", old, REFUSED, value), state
        if swaps and kind < 0.75 and state is not None:
            return Row(None, "cas", state, other=value), value
        return Row(None, "write", value), value

    return ask


def queue(values: Values, puts: float = 0.5) -> Ask:
    """Of which a share of the calls put something in."""

    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        inside: tuple[Hashable, ...] = state  # type: ignore[assignment]
        value = values(random)
        if random.random() < puts:
            return Row(None, "enqueue", value), (*inside, value)
        if not inside:
            return Row(None, "empty"), state
        return Row(None, "dequeue", result=inside[0]), inside[1:]

    return ask


def text(values: Values) -> Ask:
    """A text that mostly grows."""

    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        if random.random() < 0.5:
            return Row(None, "get", result=state), state
        part = f"<{values(random)}>"
        if random.random() < 0.05:
            return Row(None, "put", part), part
        return Row(None, "append", part), f"{state}{part}"

    return ask


def growing(values: Values) -> Ask:
    """A set that grows."""

    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        inside: frozenset[Hashable] = state  # type: ignore[assignment]
        if random.random() < 0.5:
            return Row(None, "read", result=state), state
        value = values(random)
        return Row(None, "add", value), inside | {value}

    return ask


def counter(values: Values) -> Ask:
    """A counter."""

    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        if random.random() < 0.5:
            return Row(None, "read", result=state), state
        value = random.choice((-1, 1, 2))
        return Row(None, "add", value), int(str(state)) + value

    return ask


def log(values: Values, unsaid: float = 0.0) -> Ask:
    """Of which a share of the appends is acknowledged without an offset."""

    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        inside: tuple[Hashable, ...] = state  # type: ignore[assignment]
        at, kind = random.randrange(len(inside) + 1), random.random()
        if kind < 0.5:
            value = values(random)
            at_end = None if random.random() < unsaid else len(inside)
            return Row(None, "append", value, at_end), (*inside, value)
        if at == len(inside):
            return Row(None, "end", at), state
        if kind < 0.75:
            return Row(None, "read", at, inside[at]), state
        shown = tuple(enumerate(inside))[at : at + random.randrange(1, 4)]
        return Row(None, "poll", at, shown), state

    return ask


def registers(values: Values) -> Ask:
    """Two of them; what they hold at the beginning shows when they are read first."""

    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        have: dict[str, int] = dict(state)  # type: ignore[call-overload]
        parts = []
        for key in random.choice((("x",), ("y",), ("x", "y"))):
            if random.random() < 0.5:
                parts.append(("r", key, have.setdefault(key, 7)))
            else:
                have[key] = values(random)
                parts.append(("w", key, have[key]))
        return Row(None, "txn", tuple(parts)), frozenset(have.items())

    return ask


def ids() -> Ask:
    """Numbers, of which a wrong one is given out twice."""

    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        given: frozenset[Hashable] = state  # type: ignore[assignment]
        value = len(given) if random.random() < 0.95 else random.randrange(4)
        return Row(None, "generate", result=value), given | {value}

    return ask
