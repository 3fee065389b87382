"""``maxq export RUN --model NAME`` and ``maxq check RUN --model NAME --elle-cli JAR``.

Which operations of a history are a model's, as files that elle-cli takes; and its answer to them.
"""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

from maxq.checkers.linearizability.model import Model
from maxq.checkers.models.transactions import TransactionModel
from maxq.harness.cli.histories.known_models import known_models
from maxq.histories.history import History
from maxq.histories.jepsen import encode_edn
from maxq.histories.lines.elle import Pair, encode_elle_json, for_elle
from maxq.histories.lines.sessions import SESSIONS
from maxq.histories.op import HistoryError, Op

WRITERS: Mapping[str, Callable[[Sequence[Op]], bytes]] = {
    "elle-json": encode_elle_json, "edn": encode_edn,
}  # fmt: skip
# Our models by the names of elle-cli's, which take the same operations.
THEIRS: Mapping[str, str] = {
    **{name: name for name in ("bank", "cas-register", "counter", "list-append", "mutex")},
    **{name: name for name in ("rw-register", "set", "set-full")},
    "register": "cas-register",
}  # fmt: skip
# What elle-cli asks of the same operations where that is another question.
OTHERWISE: Mapping[str, str] = {
    "counter": "its counter only asks that reads lie between what was and what may be added",
    "set": "its set only asks that the last read has what was added",
}
KEYS_MAX = 1000  # files of one question
SECONDS_MIN = 60.0  # that a JVM gets, whatever the budget
NAMES_SHOWN = 8


def calls_of_model(name: str, history: History) -> dict[Any, list[Pair]]:
    """The calls on each key that a model knows, each with its completion.

    Raises:
        HistoryError: there is none, or one has not the model's shape.
    """
    model = known_models()[name]
    found: dict[Any, list[Pair]] = {}
    for pair in history.calls():
        for key in _keys(model, *pair):
            found.setdefault(key, []).append(pair)
    if not found:
        raise HistoryError(f"no operation that {name} knows")
    return found


def _keys(model: Model, begun: Op, ended: Op | None) -> list[Any]:
    """The objects that an operation is about."""
    if not isinstance(model, TransactionModel):
        return [row.key for row in model.read(begun, ended)]
    if (begun.ext or {}).get(SESSIONS):
        raise HistoryError("there is no order of real time in it, which elle-cli would assume")
    answered = ended is not None and isinstance(ended.value, list)
    txn = begun.f in ("", "txn") and (answered or isinstance(begun.value, list))
    return [None] if txn else []


def exported(name: str, form: str, history: History, key: str | None) -> tuple[bytes, int]:
    """One object's operations as a file for elle-cli, and how many there are.

    Raises:
        HistoryError: elle-cli has no such model; which object is not said; there is none.
        ValueError: a value is none that the format holds.
    """
    if name not in THEIRS:
        raise HistoryError(f"elle-cli has no model {name}; it has {', '.join(sorted(THEIRS))}")
    found = {str(k): pairs for k, pairs in calls_of_model(name, history).items()}
    key = next(iter(found)) if key is None and len(found) == 1 else key
    if key is None or key not in found:
        names = ", ".join(sorted(found)[:NAMES_SHOWN])
        more = f" and {len(found) - NAMES_SHOWN:,} more" if len(found) > NAMES_SHOWN else ""
        raise HistoryError(f"elle-cli takes one object at a time: --key {names}{more}")
    ops = for_elle(found[key])
    return WRITERS[form](ops), len(ops)


class Answer(NamedTuple):
    """What elle-cli says; `why` is what it says beside, where nothing came of it."""

    valid: bool | Literal["unknown"]
    why: str = ""

    def beside(self, ours: object, model: str) -> str:
        """Both verdicts in a line."""
        word = str(self.valid).lower()
        if self.valid == "unknown":
            return f"unknown{f': {self.why}' if self.why else ''}"
        if ours == "unknown":
            return f"{word}, where nothing is known here"
        if self.valid == ours:
            return f"{word}, as here"
        if model in OTHERWISE:
            return f"{word}, which is no contradiction: {OTHERWISE[model]}"
        return f"{word}: THE VERDICTS DIFFER, so one of the two checkers is wrong"


def answer_of(
    jar: Path, name: str, history: History, seconds: float, consistency: str = ""
) -> Answer:
    """What elle-cli says of a history, all its objects together.

    Args:
        jar: elle-cli, with what it needs.
        name: the model, by our name.
        history: the history.
        seconds: after which it is stopped; a minute at least.
        consistency: of transactions: the consistency model.
    """
    if name not in THEIRS:
        return Answer("unknown", f"it has no model {name}")
    try:
        found = calls_of_model(name, history)
    except HistoryError as error:
        return Answer("unknown", f"it was not asked: {error}")
    if len(found) > KEYS_MAX:
        return Answer("unknown", f"it was not asked: {len(found):,} objects are too many")
    with TemporaryDirectory(prefix="maxq-") as folder:
        files = []
        for number, pairs in enumerate(found.values()):
            files.append(Path(folder, f"{number}.json"))
            files[-1].write_bytes(encode_elle_json(for_elle(pairs)))
        more = ["--consistency-models", consistency] if consistency else []
        words = ["java", "-jar", str(jar), "--model", THEIRS[name], *more, *map(str, files)]
        return _run(words, len(files), max(seconds, SECONDS_MIN))


def _run(words: Sequence[str], files: int, seconds: float) -> Answer:
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace",
                              timeout=seconds, check=False)  # fmt: skip
    except OSError as error:
        return Answer("unknown", f"it did not start: {error}")
    except subprocess.TimeoutExpired:
        return Answer("unknown", f"it was not over in {seconds:g} s")
    said = [line.rpartition("\t")[2].strip() for line in done.stdout.splitlines() if "\t" in line]
    if len(said) != files or not {*said} <= {"true", "false", "unknown"}:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        first = lines[0].strip() if lines else "it said nothing"
        return Answer("unknown", f"exit code {done.returncode}: {first:.160}")
    if "false" in said:
        return Answer(False)
    return Answer("unknown" if "unknown" in said else True)
