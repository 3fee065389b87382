"""A counterexample as people read it: a table of operations, and files that are judged again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from maxq.checkers.counterexample.of_transactions import on_keys
from maxq.checkers.models.judged import KeyJudged
from maxq.harness.report.examples.counterexample import Example, page
from maxq.harness.report.examples.diagram import Bar
from maxq.harness.run.rejudge import encode_jsonl
from maxq.histories.history import History
from maxq.histories.jepsen import encode_edn
from maxq.histories.op import Op
from maxq.histories.store import write_whole

JOURNAL, EDN, PAGE = "history.jsonl", "history.edn", "counterexample.html"
WORD_MAX = 60  # characters of a value in a table


class Part(NamedTuple):
    """Some operations of a history, whole: each with its invocation and its completion."""

    pairs: tuple[tuple[Op, Op | None], ...]
    shown: frozenset[int]  # indices of invocations that show best what is wrong

    def ops(self) -> list[Op]:
        """All of them in order, numbered anew; `original-index` is the number that each had."""
        every = sorted((op for pair in self.pairs for op in pair if op), key=lambda op: op.index)
        return [
            msgspec.structs.replace(
                op, index=at, ext={"original-index": op.index, **(op.ext or {})}
            )
            for at, op in enumerate(every)
        ]  # fmt: skip


def part_of(history: History, key: KeyJudged) -> Part:
    """The operations of a key's counterexample."""
    if key.smallest is None:
        raise ValueError("a key that is not invalid has no counterexample")
    pairs = []
    for op in map(history.__getitem__, key.smallest.begins):
        unit = [op, *filter(None, (history.completion(op),))]
        begun, *ended = on_keys(unit, key.smallest.keys)
        pairs.append((begun, ended[0] if ended else None))
    return Part(tuple(pairs), frozenset(key.smallest.decided.witness))


COLUMNS = (("ops", 3), ("process", 2), ("time", 5), ("operation", 8), ("outcome", 6))


def cells(part: Part) -> list[list[tuple[str, str]]]:
    """A row for each operation, for a table with `COLUMNS`."""
    return [
        [(_indices(begun, ended), ""), (str(begun.process), ""), (_times(begun, ended), ""),
         (asked(begun), "bold red" if begun.index in part.shown else ""),
         (answered(begun, ended), "")]
        for begun, ended in part.pairs
    ]  # fmt: skip


def _indices(begun: Op, ended: Op | None) -> str:
    closed = ended is not None and ended.type != "info"
    return f"{begun.index}-{ended.index if closed and ended else ''}"


def _times(begun: Op, ended: Op | None) -> str:
    if begun.time < 0:
        return "-"
    closed = ended is not None and ended.type != "info"
    until = f"{ended.time / 1e9:.6f}" if closed and ended else "..."
    return f"{begun.time / 1e9:.6f}-{until} s"


def asked(begun: Op) -> str:
    """What an operation was to do."""
    key = (begun.ext or {}).get("key")
    words = [begun.f, *(_word(v) for v in (key, begun.value) if v is not None)]
    return " ".join(words)


def answered(begun: Op, ended: Op | None) -> str:
    """What came of it."""
    if ended is None or ended.type == "info":
        return "no answer: info" if ended else "no answer"
    if ended.type == "fail":
        why = f" {_word(ended.error)}" if ended.error else ""
        return f"failed{why}"
    return "ok" if ended.value == begun.value and ended.value is not None else \
        f"ok {_word(ended.value)}"  # fmt: skip


def _word(value: Any) -> str:
    if value is None:
        return "nil"
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=_plain).decode()
    return text if len(text) <= WORD_MAX else f"{text[:WORD_MAX]}… ({len(text)} characters)"


def _plain(value: Any) -> Any:
    return sorted(value, key=repr) if isinstance(value, frozenset) else str(value)


class About(NamedTuple):
    """What a page says about its counterexample."""

    model: str
    headline: str
    why: str
    of: int  # operations of the key
    command: str
    steps: Sequence[str] = ()  # the reason at length


def write(part: Part, folder: Path, about: About) -> tuple[Path, ...]:
    """Write the operations, in two forms, and a page; where they are.

    Raises:
        OSError: the folder does not take them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ops = part.ops()
    drawn = page(Example(
        model=about.model, headline=about.headline, why=about.why, of=about.of,
        command=about.command, bars=_bars(part), steps=about.steps,
    ))  # fmt: skip
    written = ((JOURNAL, encode_jsonl(ops)), (EDN, encode_edn(ops)), (PAGE, drawn.encode()))
    for name, data in written:
        write_whole(folder / name, data)
    return tuple(folder / name for name, _ in written)


def _bars(part: Part) -> Sequence[Bar]:
    return [
        Bar(
            process=str(begun.process), begun=begun.index,
            ended=None if ended is None or ended.type == "info" else ended.index,
            asked=asked(begun), answered=answered(begun, ended), times=_times(begun, ended),
            outcome="info" if ended is None else ended.type, shown=begun.index in part.shown,
        )
        for begun, ended in part.pairs
    ]  # fmt: skip
