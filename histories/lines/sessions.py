"""Transactions on registers of which only the order of each session is known: texts of AWDIT and of
Plume.

AWDIT: ``w key value`` and ``r key value`` a line, ``-----`` between transactions, ``=====`` between
sessions. Plume: ``w(key,value,session,transaction)`` and ``r(...)`` a line. All are numbers; every
key begins with 0, which need not be written.

Each transaction becomes an invocation and its completion, of a process for each session. That one
stands before another in the file says nothing, which `SESSIONS` in its `ext` tells who judges it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from maxq.histories.op import Held, HistoryError, Op, Progress

SESSIONS = "sessions-only"
_NUMBER = rb"-?[0-9]{1,18}"
AWDIT_HEAD = re.compile(rb"[rw] %b %b *(\r?\n|$)" % (_NUMBER, _NUMBER))
PLUME_HEAD = re.compile(rb"[rw]\(%b,%b,%b,%b\)" % (_NUMBER, _NUMBER, _NUMBER, _NUMBER))
_AWDIT = re.compile(r"([rw])\s+(-?[0-9]{1,18})\s+(-?[0-9]{1,18})")
_PLUME = re.compile(r"([rw])\(" + r",\s*".join([r"(-?[0-9]{1,18})"] * 4) + r"\)")
_TRANSACTION, _SESSION = re.compile(r"-{3,}"), re.compile(r"={3,}")
Part = list[str | int | None]  # whether it reads or writes, the key, and the value (None: nothing)
Transaction = tuple[int, list[Part], bool]  # its session, what it did, and if it committed
ABORTED = -1  # the number that Plume gives a transaction that did not
FIRST = 0  # what each key of a text of Plume begins with, whether somebody writes it or not


def read_awdit(path: Path, progress: Progress = lambda _: None, held: Held = tuple) -> Sequence[Op]:
    """The operations of a text of AWDIT.

    Raises:
        HistoryError: a line of it is none; with its number.
    """
    progress(path.stat().st_size)
    return held(_ops(_awdit(path)))


def read_plume(path: Path, progress: Progress = lambda _: None, held: Held = tuple) -> Sequence[Op]:
    """The operations of a text of Plume, or of IsoVista.

    Raises:
        HistoryError: a line of it is none; with its number.
    """
    progress(path.stat().st_size)
    return held(_ops(_plume(path)))


def from_completions(ops: Iterable[Op]) -> tuple[Op, ...]:
    """Transactions of which only the completions are known: each gets an invocation, and nothing is
    said of when that was."""
    found: list[Op] = []
    for op in ops:
        at, ext = len(found), {**(op.ext or {}), SESSIONS: True}
        found.append(replace(op, type="invoke", index=at, ext=ext))
        found.append(replace(op, index=at + 1))
    return tuple(found)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_bytes().decode(errors="replace").splitlines(), 1):
        if text := line.strip():
            yield number, text


def _awdit(path: Path) -> Iterator[Transaction]:
    session = 0
    parts: list[Part] = []
    for number, text in _lines(path):
        if match := _AWDIT.fullmatch(text):
            parts.append([match[1], int(match[2]), int(match[3])])
            continue
        ends = _SESSION.fullmatch(text)
        if not ends and not _TRANSACTION.fullmatch(text):
            raise _wrong(path, number, text, "r key value, w key value, ----- or =====")
        if parts:
            yield session, parts, True
        parts, session = [], session + bool(ends)
    if parts:
        yield session, parts, True


def _plume(path: Path) -> Iterator[Transaction]:
    found: dict[tuple[int, int], list[Part]] = {}
    for number, text in _lines(path):
        match = _PLUME.fullmatch(text)
        if match is None:
            raise _wrong(path, number, text, "r(key,value,session,transaction) or w(...)")
        key, value, session, transaction = map(int, match.groups()[1:])
        if session < 0:
            raise _wrong(path, number, text, "a session that is no negative number")
        found.setdefault((session, transaction), []).append([match[1], key, value])
    written = {
        key for (_, transaction), parts in found.items() for f, key, value in parts
        if f == "w" and value == FIRST and transaction != ABORTED
    }  # fmt: skip
    for (session, transaction), parts in found.items():
        for part in parts:
            if part[0] == "r" and part[2] == FIRST and part[1] not in written:
                part[2] = None
        yield session, parts, transaction != ABORTED


def _wrong(path: Path, number: int, text: str, wanted: str) -> HistoryError:
    return HistoryError(f"{path.name}: line {number}: {text!r:.100} is not {wanted}")


def _ops(transactions: Iterable[Transaction]) -> Iterator[Op]:
    for at, (session, parts, committed) in enumerate(transactions):
        asked = [[f, key, value if f == "w" else None] for f, key, value in parts]
        ext = {SESSIONS: True}
        yield Op("invoke", session, "txn", asked, index=2 * at, ext=ext)
        ended = "ok" if committed else "fail"
        yield Op(ended, session, "txn", list(parts), index=2 * at + 1)  # type: ignore[arg-type]
