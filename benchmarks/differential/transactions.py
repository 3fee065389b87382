"""Small histories of transactions, judged by each consistency model and by its definition."""

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from benchmarks.differential import txn_oracle as oracle
from benchmarks.differential.txn_oracle import Txn
from maxq.checkers.models.transactions import ListAppend, RwRegister
from maxq.checkers.transactions.judged import Asked, Judged

INFO = (0.0, 0.15, 0.35)
READINGS_MAX = 256  # ways to read repeated values, above which unknown will do
ORDERS = {"strong-session-": "process", "strict-": "realtime", "strong-": "realtime", "": ""}
SERIAL, SNAPSHOT = "serializable", "snapshot-isolation"
WEAK = ("read-committed", "read-atomic", "causal")


class Kind(NamedTuple):
    """Which transactions, by which model; `again`: their values are written more than once;
    `sessions`: nothing is known but the order of each process."""

    lists: bool
    level: str
    again: bool = False
    sessions: bool = False


def _kinds() -> Mapping[str, Kind]:
    found = {}
    for lists in (True, False):
        levels = [SERIAL, f"strong-session-{SERIAL}", "strict-serializable",
                  SNAPSHOT, f"strong-session-{SNAPSHOT}", f"strong-{SNAPSHOT}"]  # fmt: skip
        every = [Kind(lists, level) for level in (*levels, *(() if lists else WEAK[1:]))]
        every.append(Kind(lists, WEAK[0]))
        every += [] if lists else [
            Kind(lists, level, sessions=True) for level in (*WEAK, SNAPSHOT, SERIAL)
        ]  # fmt: skip
        for kind in [*every, *(one._replace(again=True) for one in every)]:
            name = f"{'list-append' if lists else 'rw-register'}, {kind.level}"
            name += ", sessions" if kind.sessions else ""
            found[name + (", values again" if kind.again else "")] = kind
    return found


KINDS = _kinds()


def history(name: str, number: int) -> list[Txn]:
    """The transactions of a kind with a number."""
    kind, random = KINDS[name], Random(f"{name} {number}")
    size = random.randint(2, 7 if kind.level in WEAK else 5 if SNAPSHOT in kind.level else 6)
    return oracle.drawn(random, lists=kind.lists, info=INFO[number % 3], size=size,
                        again=kind.again)  # fmt: skip


def legal(kind: Kind, txns: list[Txn]) -> bool:
    """Whether transactions that wrote each value once keep the model, by its definition."""
    prefix = next(p for p in ORDERS if kind.level.startswith(p))
    order = "process" if kind.sessions else ORDERS[prefix]
    if kind.level == WEAK[0] and not kind.sessions:
        return any(oracle.committed(some, lists=kind.lists) for some in oracle.chosen(txns))
    if kind.level in WEAK:
        return any(oracle.by_axioms(some, kind.level) for some in oracle.chosen(txns))
    explains = oracle.snapshots if SNAPSHOT in kind.level else oracle.serializable
    return explains(txns, lists=kind.lists, order=order)


def judged(kind: Kind, txns: list[Txn]) -> Judged:
    """Our verdict."""
    model = ListAppend() if kind.lists else RwRegister()
    columns = model.columns(oracle.history_of(txns, sessions=kind.sessions))
    return model.judge(columns, Asked(kind.level), lambda: False)


class Compared(NamedTuple):
    """Whether a history keeps the model under every reading (None: under some), and what is wrong
    with our verdict: empty if nothing."""

    legal: bool | None
    wrong: str = ""


def compared(name: str, number: int) -> Compared:
    """Our verdict beside the definition. What all readings agree on has to be said, and nothing
    that no reading says; a history in which nothing depends on anything tests nothing."""
    kind, txns = KINDS[name], history(name, number)
    found, verdicts, count = judged(kind, txns), set(), 0
    for count, reading in enumerate(oracle.readings(txns, lists=kind.lists), 1):
        if count <= READINGS_MAX:
            verdicts.add(legal(kind, reading))
    nothing = found.unknown.startswith("no transaction depends")
    open_ = len(verdicts) > 1 or count > READINGS_MAX
    right = found.valid in verdicts or (
        found.valid == "unknown" and (open_ or (nothing and True in verdicts))
    )
    if found.valid is False:
        right = verdicts == {False}
        right = right and any(a.forbidden and a.lines for a in found.anomalies)
    one = None if len(verdicts) > 1 else True in verdicts
    return Compared(one, "" if right else f"{found} of {txns}, by readings {verdicts}")
