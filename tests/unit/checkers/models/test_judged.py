"""A history of several keys: one that takes long does not hide another one."""

from maxq.checkers.models.judged import LOOKS_FIRST, judge
from maxq.checkers.models.queues import Queue
from maxq.histories.history import History
from maxq.histories.op import Op

MANY = 24


def test_a_key_that_takes_long_does_not_keep_another_from_being_judged() -> None:
    """Of key 0 so many values are put in, twice each, that no search ends; key 1 is empty."""
    done: list[tuple[int, str, str, int | None, int]]
    done = [(n, kind, "enqueue", n // 2, 0) for kind in ("invoke", "ok") for n in range(MANY)]
    done += [(0, "invoke", "dequeue", None, 0), (0, "ok", "dequeue", MANY, 0)]
    done += [(1, "invoke", "dequeue", None, 1), (1, "ok", "dequeue", 7, 1)]
    history = History(
        Op(type=kind, process=process, f=f, value=value, index=at, ext={"key": key})  # type: ignore[arg-type]
        for at, (process, kind, f, value, key) in enumerate(done)
    )
    looks = iter(range(2 * LOOKS_FIRST))
    judged = judge(Queue(), history, lambda: next(looks, None) is None)
    assert {key.key: key.decided.valid for key in judged.keys} == {0: "unknown", 1: False}
    assert judged.valid is False
    assert judged.counterexample is not None
    assert judged.counterexample.key == 1
