"""Transactions on lists and on registers: judged whole, by what depends on what.

All keys are one object. `step` is how transactions answer one at a time, as for every other model;
judged they are by their anomalies (`maxq.checkers.transactions`), since search ends where they
overlap, and since most databases promise less than that.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from maxq.checkers.linearizability.calls import OPEN, Call, Row, calls_of
from maxq.checkers.linearizability.model import SHOWN_FIRST, Model, State
from maxq.checkers.models import readings
from maxq.checkers.models.shapes import frozen
from maxq.checkers.transactions.columns import READ, Transactions, transactions_of, with_first_shown
from maxq.checkers.transactions.judged import Asked, Judged, judge_lists, judge_registers
from maxq.checkers.transactions.levels import NAMES
from maxq.histories.history import History
from maxq.histories.op import Op


class TransactionModel(Model):
    """What a model of transactions adds: it judges a whole history, and by a consistency model.

    Operations: `txn` [[f key value] …].
    """

    write = ""
    lists = False
    initial: State = frozenset()
    levels = NAMES

    def columns(
        self, history: History, passed: Callable[[Op, Op | None], None] = lambda begun, ended: None
    ) -> Transactions:
        """The transactions of a history; operations that are none are given to `passed`.

        Raises:
            HistoryError: a transaction has another shape.
        """
        return transactions_of(history, self.write, lists=self.lists, passed=passed)

    def begun_with_all(self, initial: Any, txns: Transactions) -> Transactions:
        """The transactions on keys that begin so (`begun_with`).

        Raises:
            ValueError: their keys begin with nil.
        """
        if initial is SHOWN_FIRST and not self.lists:
            return with_first_shown(txns)
        self.begun_with(initial, calls_of(()))
        return txns

    def judge(self, txns: Transactions, asked: Asked, over: Any) -> Judged:
        """Judge transactions.

        Raises:
            ValueError: the consistency model cannot be said of them.
        """
        judge = judge_lists if self.lists else judge_registers
        return readings.judged(judge, txns, asked, over)

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        parts = ended.value if ended is not None and ended.type == "ok" else begun.value
        if isinstance(parts, list) and all(isinstance(p, list) and len(p) == 3 for p in parts):
            yield Row(None, "txn", frozen([[str(p[0]), p[1], p[2]] for p in parts]))

    def step(self, state: State, call: Call) -> Iterator[State]:
        have: dict[Any, Any] = dict(state)  # type: ignore[call-overload]
        for name, key, value in call.argument:
            if name == READ:
                if call.outcome != OPEN and (value or self._nothing) != have.get(
                    key, self._nothing
                ):
                    return
            else:
                have[key] = (*have.get(key, ()), value) if self.lists else value
        yield frozenset(have.items())

    @property
    def _nothing(self) -> Any:
        return () if self.lists else None


class ListAppend(TransactionModel):
    """Lists that are appended to and read whole: `append` k v, `r` k (the completion has the list).

    A value that was appended to a key again is judged where all readings of it agree.
    """

    name = "list-append"
    about = "transactions that append to lists and read them (Elle): anomalies, --consistency"
    write, lists = "append", True


class RwRegister(TransactionModel):
    """Registers that are written and read: `w` k v, `r` k (the completion has the value).

    A value that was written to a key again is judged where all readings of it agree.
    """

    name = "rw-register"
    about = "transactions that write and read registers (Elle, AWDIT): anomalies, --consistency"
    write = "w"
