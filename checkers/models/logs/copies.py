"""Values that were sent to a log more than once, told apart by their offsets.

A producer that was refused, or not answered, may send the same value again. Each copy has an offset
of its own: that with which its send was acknowledged, or one at which the value was polled. Where
several sends may be of such an offset, each choice of one is a *reading* of the history. What
failed sent nothing, if another send of the same value did not fail.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Any, NamedTuple

from maxq.checkers.linearizability.calls import FAILED, OK, Call

SEND, POLL, TXN, ASSIGN = "send", "poll", "txn", "assign"
Message = tuple[Any, Any]  # a key and a value


class Part(NamedTuple):
    """A message that was sent or polled; its offset may be None: not known."""

    f: str
    key: Any
    offset: int | None
    value: Any


class Copy(NamedTuple):
    """One of several equal values: that at an offset, or of a send that nobody polled."""

    value: Any
    offset: int | None
    send: int = -1

    def __str__(self) -> str:
        return str(self.value) if self.offset is None else f"{self.value} (offset {self.offset})"


class _Way(NamedTuple):
    """Which copy an offset shows, and which copy a send without an offset of its own is, by its
    begin."""

    offsets: dict[int | None, Copy]
    sends: dict[int, Copy]

    def named(self, call: Call, part: Part) -> Copy | None:
        """The copy that a part is of; None: of none, since it failed."""
        if part.f == POLL:
            return self.offsets[part.offset]
        if call.outcome == FAILED:
            return None
        return self.sends.get(call.begun) or self.offsets[part.offset]


class _Copies:
    """The sends of one value to one key, and the offsets at which it was polled."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.sends: list[tuple[Call, int | None]] = []
        self.shown: set[int | None] = set()

    @property
    def several(self) -> bool:
        """Whether it was sent again, and not in vain each time."""
        return len(self.sends) > 1 and any(call.outcome != FAILED for call, _ in self.sends)

    def ways(self) -> Iterator[_Way]:
        """Every way to say whose copies were polled. Of more offsets than there are sends one send
        has several; so has the only one there is."""
        done = [(call, offset) for call, offset in self.sends if call.outcome != FAILED]
        own: dict[int | None, Copy] = {
            o: Copy(self._value, o) for c, o in done if c.outcome == OK and o is not None
        }
        others = [c.begun for c, o in done if c.outcome != OK or o is None]
        strange = sorted(self.shown - own.keys(), key=lambda o: -1 if o is None else o)
        if not others:
            yield _Way({**own, **dict.fromkeys(strange, next(iter(own.values())))}, {})
            return
        first = strange[: len(others)]
        for chosen in permutations(others, len(first)):
            found: dict[int | None, Copy] = {o: Copy(self._value, o) for o in first}
            more = dict.fromkeys(strange[len(first) :], found[first[0]]) if first else {}
            sends = {n: Copy(self._value, None, n) for n in others}
            sends.update(zip(chosen, found.values(), strict=True))
            yield _Way({**own, **found, **more}, sends)


def readings(every: Sequence[Call]) -> Iterator[Sequence[Call]]:
    """The same calls under each reading: each value is sent once."""
    copies = {message: mine for message, mine in _copies(every).items() if mine.several}
    if not copies:
        yield every
        return
    for ways in product(*(mine.ways() for mine in copies.values())):
        named = dict(zip(copies, ways, strict=True))
        yield [_renamed(call, named) for call in every]


def _copies(every: Sequence[Call]) -> dict[Message, _Copies]:
    """Those of each value that was sent again."""
    seen: set[Message] = set()
    found: dict[Message, _Copies] = {}
    for call in every:
        for f, key, _, value in call.result or ():
            if f == SEND and (key, value) in seen:
                found.setdefault((key, value), _Copies(value))
            elif f == SEND:
                seen.add((key, value))
    for call in every if found else ():
        for f, key, offset, value in call.result or ():
            mine = found.get((key, value))
            if mine is not None and f == SEND:
                mine.sends.append((call, offset))
            elif mine is not None:
                mine.shown.add(offset)
    return found


def _renamed(call: Call, named: dict[Message, _Way]) -> Call:
    parts: list[Part] = []
    for part in map(Part._make, call.result or ()):
        way = named.get((part.key, part.value))
        name = part.value if way is None else way.named(call, part)
        parts += [part._replace(value=name)] if way is None or name is not None else []
    return call._replace(result=tuple(parts)) if call.result else call
