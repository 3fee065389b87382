"""``maxq check FILE --model NAME``: any history, judged by a model."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from maxq.checkers.judgement.settled import Settled, settled
from maxq.checkers.linearizability.model import SHOWN_FIRST
from maxq.checkers.linearizability.search import OVER_BUDGET
from maxq.checkers.linearizability.space import Over
from maxq.checkers.models.intake import Intake
from maxq.checkers.models.judged import KeyJudged, ModelJudged, judge
from maxq.checkers.models.registers import CasRegister
from maxq.checkers.models.transactions import TransactionModel
from maxq.checkers.transactions.judged import Asked as AskedOf
from maxq.harness.cli.given.budget import Budget
from maxq.harness.cli.given.ticker import Ticker
from maxq.harness.cli.histories import by_transactions, counterexample
from maxq.harness.cli.histories.coming import Coming
from maxq.harness.cli.histories.exchange import Answer, answer_of
from maxq.harness.cli.histories.known_models import known_models
from maxq.harness.cli.show import WIDTH, wrapped
from maxq.harness.contracts.terminal import coloured, echo, echo_drawn, one_line, pasted, table
from maxq.harness.run import plugins
from maxq.harness.run.rejudge import stored_history
from maxq.histories.edn import to_edn
from maxq.histories.edn_read import read_edn
from maxq.histories.history import History, wellformed
from maxq.histories.lines.foreign import WANTED
from maxq.histories.lines.packed import PackedOps
from maxq.histories.lines.sessions import from_completions
from maxq.histories.op import HistoryError, without_cycles
from maxq.histories.store import StoredRun

ROWS_MAX, EXAMPLE_MAX = 12, 20
PHANTOM = "phantom"
EARLY = (PHANTOM, "future-read")  # a value that may have been there at the beginning
ANY = "any"  # first value: whatever was there
FIRST_S = 3.0  # until it is said how far it has come
COLUMNS = (("key", 2), ("calls", 1), ("found", 10))
EXIT_CODES: dict[object, int] = {True: 0, False: 1, "unknown": 2}


class Asked(NamedTuple):
    """What is judged, and how: the file's format (empty: found from its first bytes), and whether
    the readable part of a damaged history will do; of transactions also by which consistency
    model, and what may be assumed of keys."""

    path: Path
    model: str
    budget: Budget
    kind: str = ""
    allow_truncated: bool = False
    minimal: Path | None = None  # where a counterexample is written
    consistency: str = ""
    keys: str = ""
    elle_cli: Path | None = None  # the jar whose verdict is wanted also
    independent: str = ""  # "yes", "no", or found out
    initial: str = ""  # as EDN
    ignore: str = ""  # names, divided by commas

    def repeat(self) -> str:
        """The command that does it again."""
        words = ["maxq", "check", str(self.path), "--model", self.model]
        words += ["--format", self.kind] if self.kind else []
        words += ["--consistency", self.consistency] if self.consistency else []
        words += ["--keys", self.keys] if self.keys else []
        words += ["--allow-truncated"] if self.allow_truncated else []
        words += ["--minimal", str(self.minimal)] if self.minimal else []
        words += ["--elle-cli", str(self.elle_cli)] if self.elle_cli else []
        for name in ("independent", "initial", "ignore"):
            words += [f"--{name}", getattr(self, name)] if getattr(self, name) else []
        if self.budget != Budget():
            words += ["--budget", str(self.budget)]
        for module in plugins.modules():
            words += ["--plugin", module]
        return shlex.join(words)

    def intake(self) -> Intake:
        """What is said of the history beside its model.

        Raises:
            HistoryError: the first value is no EDN.
        """
        try:
            forms = [SHOWN_FIRST] if self.initial == ANY else list(read_edn(self.initial))
        except HistoryError as error:
            raise HistoryError(f"--initial {self.initial!r:.100}: {error}") from None
        if self.initial and len(forms) != 1:
            raise HistoryError(f"--initial wants one value, not {self.initial!r:.100}")
        return Intake(
            None if not self.independent else self.independent == "yes",
            frozenset(filter(None, self.ignore.split(","))), forms[0] if forms else None,
        )  # fmt: skip


def check_by_model(asked: Asked, *, as_json: bool, verbose: bool) -> int:
    """Judge a history by a model, print the verdict, and return its exit code."""
    coming, over = Coming(asked.path, asked.budget.seconds), asked.budget.begun()
    # Nothing here holds cycles, and to look for them takes longer than a large history itself.
    with without_cycles(), Ticker(coming.line, first_s=FIRST_S):
        stored, said = _said(asked, coming, over)
    if not any(op.is_client for op in said.history):
        raise HistoryError(f"{asked.path.name} has no operations; {WANTED}")
    return _printed(asked, stored, said, as_json=as_json, verbose=verbose)


def _said(asked: Asked, coming: Coming, over: Over) -> tuple[StoredRun, "Said"]:
    stored = stored_history(
        asked.path, kind=asked.kind, allow_truncated=asked.allow_truncated, progress=coming.read,
        held=PackedOps,
    )  # fmt: skip
    count = len(stored.history)
    coming.goes_on(f"pairing {count:,} events")
    history = _with_invocations(stored.history, asked)
    stored = msgspec.structs.replace(stored, history=settled(history))
    history = stored.history
    # Times say nothing here: what counts is the order of the history.
    broken = [b for b in wellformed(history) if not b.warning and b.rule != "W8"]
    coming.goes_on(f"judging {count:,} events by {asked.model}")
    # Whose answer is whose may be wrong in one that breaks the rules: it is not judged.
    judged = ModelJudged(model=asked.model, keys=()) if broken else _judged(asked, stored, over)
    known = broken or any(key.calls for key in judged.keys)
    if not known and (names := {op.f for op in history if op.is_client}):
        seen = ", ".join(sorted(names)[:8])
        raise HistoryError(
            f"{asked.path.name}: no operation that {asked.model} knows; its operations are: {seen}"
        )
    malformed = [f"{b.rule} at op {b.index}: {b.text}" for b in broken]
    return stored, Said(judged, malformed, coming.seconds(), history)


def _printed(asked: Asked, stored: StoredRun, said: "Said", *, as_json: bool, verbose: bool) -> int:
    written = _write(asked, said)
    elle = _answer(asked, said)
    if as_json:
        beside = {"elle_cli": elle._asdict()} if elle else {}
        found = msgspec.json.encode({**_document(asked, said), **beside}, enc_hook=str)  # keywords
        echo(msgspec.json.format(found, indent=2).decode())
    else:
        if stored.report.damage:
            echo(
                f"the history is damaged: {stored.report.damage}; judged are the first "
                f"{stored.report.count:,} events",
                err=True,
            )
        _show(asked, said, verbose=verbose)
        if elle:
            echo(wrapped(f"elle-cli: {elle.beside(said.valid, asked.model)}"))
    if written:
        echo(f"written: {', '.join(map(str, written))}", err=as_json)
    return EXIT_CODES[said.valid]


def _with_invocations(history: History, asked: Asked) -> History:
    """The same; of completions alone, transactions.

    Raises:
        HistoryError: nothing can be said of completions alone.
    """
    types = {op.type for op in history if op.is_client}
    if not types or "invoke" in types:
        return history
    if isinstance(known_models()[asked.model], TransactionModel):
        return History(from_completions(history.clients))
    raise HistoryError(
        f"{asked.path.name} has completions and no invocations: {asked.model} needs to know when "
        "each operation began"
    )


def _judged(asked: Asked, stored: StoredRun, over: Over) -> ModelJudged:
    model = known_models()[asked.model]
    if (asked.consistency or asked.keys) and not isinstance(model, TransactionModel):
        raise HistoryError(f"--consistency and --keys are for transactions, not for {asked.model}")
    try:
        return judge(
            model, stored.history, over, AskedOf(asked.consistency, asked.keys), asked.intake(),
        )  # fmt: skip
    except HistoryError:
        raise
    except ValueError as error:
        raise HistoryError(f"{asked.path.name}: {error}") from None


class Said(NamedTuple):
    """What came of it. Of a history that breaks the rules nothing is known: whose answer is whose
    may be wrong."""

    judged: ModelJudged
    malformed: Sequence[str]
    seconds: float
    history: History

    @property
    def valid(self) -> bool | Literal["unknown"]:
        """The verdict."""
        return "unknown" if self.malformed else self.judged.valid

    @property
    def example(self) -> KeyJudged | None:
        """The key of the counterexample."""
        return self.judged.counterexample


def _answer(asked: Asked, said: Said) -> Answer | None:
    """What elle-cli says of the same, if that was asked for."""
    if asked.elle_cli is None:
        return None
    found = said.judged.transactions
    return answer_of(asked.elle_cli, asked.model, said.history, asked.budget.seconds,
                     found.consistency if found else "")  # fmt: skip


def _write(asked: Asked, said: Said) -> tuple[Path, ...]:
    """Write the counterexample, where there is one and it was asked for."""
    if asked.minimal is None:
        return ()
    key = said.example
    if key is None or key.smallest is None:
        echo("no counterexample is written: nothing is known to be invalid", err=True)
        return ()
    about = counterexample.About(
        model=asked.model, headline=headline(said), why=_reason(key), of=key.calls,
        steps=_steps(said, key),
        command=_again(asked, said, asked.minimal / counterexample.JOURNAL),
    )  # fmt: skip
    return counterexample.write(counterexample.part_of(said.history, key), asked.minimal, about)


def _again(asked: Asked, said: Said, path: Path) -> str:
    """The command that judges the counterexample, as what the whole was taken for."""
    independent = "yes" if said.judged.independent else asked.independent
    again = Asked(path, asked.model, Budget(), consistency=asked.consistency, keys=asked.keys,
                  independent=independent, initial=asked.initial)  # fmt: skip
    return again.repeat()


def _reason(key: KeyJudged) -> str:
    decided = key.decided if key.smallest is None else key.smallest.decided
    return f"{decided.name}: {decided.why}"


def _steps(said: Said, key: KeyJudged) -> Sequence[str]:
    """Of a cycle of transactions: why each precedes the next one."""
    reason, judged = _reason(key), said.judged.transactions
    cycles = judged.anomalies if judged else ()
    return next((c.lines for c in cycles if f"{c.name}: {c.why}" == reason), ())


def _document(asked: Asked, said: Said) -> dict[str, Any]:
    return {
        "file": str(asked.path),
        "model": asked.model,
        "valid": said.valid,
        "verdict": headline(said),
        "malformed": said.malformed,
        "seconds": round(said.seconds, 3),
        "keys": [
            {
                "key": _plain(k.key),
                "calls": k.calls,
                **k.decided._asdict(),
                "minimal": k.smallest.begins if k.smallest else None,
            }
            for k in said.judged.keys
        ],
        "independent": said.judged.independent,
        "unanswered": said.judged.open,
        "left_out": said.judged.passed,
        "settled": Settled.of(said.history),
        "transactions": said.judged.transactions,
        "repeat": asked.repeat(),
    }


def _plain(key: Any) -> Any:
    return sorted(map(repr, key)) if isinstance(key, frozenset) else key


def headline(said: Said) -> str:
    """The verdict in a sentence."""
    judged = said.judged
    if said.malformed:
        asked = sum(op.is_client and op.type == "invoke" for op in said.history)
        return (f"unknown: whether {asked:,} operations are {known_models()[judged.model].are} "
                f"{judged.model} cannot be said: the history breaks the rules of histories: "
                f"{said.malformed[0]} ({len(said.malformed):,} breaches).")  # fmt: skip
    if judged.transactions is not None:
        return by_transactions.headline(judged.transactions, judged.model)
    are = known_models()[judged.model].are
    bad, open_ = judged.of(False), judged.of("unknown")
    calls, keys = sum(key.calls for key in judged.keys), len(judged.keys)
    of_keys = f"{keys:,} {'independent ' if judged.independent else ''}keys"
    what = f"{calls:,} calls" if keys == 1 else f"{calls:,} calls on {of_keys}"
    if judged.why:
        return f"unknown: whether {what} are {are} {judged.model} cannot be said: {judged.why}."
    if bad:
        which = "" if keys == 1 else f": those on {len(bad):,} of the keys are not"
        return f"INVALID: {what} are not {are} {judged.model}{which}."
    if open_:
        which = "" if keys == 1 else f" for {len(open_):,} of the keys"
        over = open_[0].decided.name == OVER_BUDGET
        why = "the budget was used up (--budget)" if over else open_[0].decided.why
        return f"unknown: whether {what} are {are} {judged.model} is not known{which}: {why}."
    return f"valid: {what} are {are} {judged.model}."


def _show(asked: Asked, said: Said, *, verbose: bool) -> None:
    echo(wrapped(f"verdict: {headline(said)}"))
    judged = said.judged
    if said.malformed:
        _show_end(asked, judged, said.history)
        return
    if judged.transactions is not None:
        for line in by_transactions.lines(judged.transactions, verbose=verbose):
            echo(line)
        echo(f"decided: in {said.seconds:.2f} s")
        if (key := said.example) is not None and key.smallest is not None:
            count = len(key.smallest.begins)
            on = len(key.smallest.keys)
            what = f", with what is on {on:,} key{'s' * (on > 1)}" if on else ""
            echo(f"minimal: {count:,} of {key.calls:,} transactions suffice{what}{_stopped(key)}")
        if not asked.initial and may_have_begun_otherwise(judged):
            echo("if keys began with what was read of them first: --initial any")
        _show_end(asked, judged, said.history)
        return
    found = [] if judged.why else [*judged.of(False), *judged.of("unknown")]
    if found and not (said.example and len(judged.keys) == 1):
        shown = found if verbose else found[:ROWS_MAX]
        echo_drawn(table(COLUMNS, map(_cells, shown), width=WIDTH, colour=coloured()))
        if len(found) > len(shown):
            echo(f"  ... and {len(found) - len(shown)} more keys; -v shows all")
    if said.example:
        _show_example(said, said.example, verbose=verbose)
    if not asked.initial and (value := first_value(said)) is not None:
        several = [key for key in found if key.decided.name in EARLY][1:]
        echo("if registers began with what was read of them first: --initial any" if several else
             f"if {value} is what the register began with: --initial {value}")  # fmt: skip
    means = sorted({key.decided.by for key in judged.keys})
    counted = ", ".join(f"{sum(k.decided.by == by for k in judged.keys):,} by {by}" for by in means)
    unanswered = f"; {judged.open:,} calls were never answered" if judged.open else ""
    echo(f"decided: keys: {counted}; in {said.seconds:.2f} s{unanswered}")
    _show_end(asked, judged, said.history)


def _show_end(asked: Asked, judged: ModelJudged, history: History) -> None:
    if known := Settled.of(history):
        echo(wrapped(f"settled: {known.said()}"))
    if judged.passed:
        others = ", ".join(f"{count:,} {f}" for f, count in sorted(judged.passed.items()))
        echo(wrapped(f"left out: operations that {judged.model} does not know: {others}"))
    echo(one_line(f"repeat:  {pasted(asked.repeat())}"))


def may_have_begun_otherwise(judged: ModelJudged) -> bool:
    """Whether registers in transactions showed what nobody wrote."""
    model, found = known_models()[judged.model], judged.transactions
    registers = isinstance(model, TransactionModel) and not model.lists
    return registers and found is not None and any(a.name == PHANTOM for a in found.anomalies)


def first_value(said: Said) -> str | None:
    """What a register may have begun with: a value that was seen, and that nobody wrote."""
    known = known_models()[said.judged.model]
    key = said.example
    if not isinstance(known, CasRegister) or key is None or key.decided.name not in EARLY:
        return None
    shown = [said.history.completion(said.history[at]) for at in key.decided.witness]
    value = next((op.value for op in shown if op is not None), None)
    if said.judged.independent and isinstance(value, list):
        value = value[-1]
    if isinstance(value, list) and value:
        value = value[0]  # what a compare-and-set replaced
    return to_edn(value) if isinstance(value, int | str) else None


def _show_example(said: Said, key: KeyJudged, *, verbose: bool) -> None:
    part = counterexample.part_of(said.history, key)
    count = len(part.pairs)
    on = "" if key.key is None else f" on key {key.key}"
    are = "is illegal by itself" if count == 1 else "are illegal by themselves"
    echo(wrapped(f"counterexample: {count:,} of the {key.calls:,} operations{on} {are}: "
                 f"{_reason(key)}{_stopped(key)}"))  # fmt: skip
    rows = counterexample.cells(part)
    shown = rows if verbose or count <= EXAMPLE_MAX else rows[:EXAMPLE_MAX]
    echo_drawn(table(counterexample.COLUMNS, shown, width=WIDTH, colour=coloured()))
    if len(shown) < count:
        echo(f"  ... and {count - len(shown):,} more operations; -v shows all")


def _stopped(key: KeyJudged) -> str:
    stopped = key.smallest is not None and key.smallest.stopped
    return " (the budget ended the search for fewer: --budget)" if stopped else ""


def _cells(key: KeyJudged) -> list[tuple[str, str]]:
    name = "(one object)" if key.key is None else str(key.key)
    text = f"{key.decided.name}: {key.decided.why}"
    return [(name, ""), (f"{key.calls:,}", ""), (text, "")]
