"""Small histories of consumer offsets that every master keeps, edited a little or not at all."""

from random import Random
from typing import Any

import msgspec

from maxq.checkers.core.api import Context
from maxq.histories.grounds import CONSUMER_OFFSET
from maxq.histories.history import History
from maxq.histories.observed import FINAL, ControllerView, SetView, encoded
from maxq.histories.op import NEMESIS, Op

SECOND_NS = 1_000_000_000
CLIENTS, OBSERVER = 3, 90
CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1"), "b1": ("b1-0", "b1-1")}, recovery_ns=20 * SECOND_NS
)
ASKING = msgspec.structs.replace(
    CONTEXT, grounds=tuple((CONSUMER_OFFSET, thread) for thread in range(CLIENTS))
)


class _Writer:
    """Writes a history down; what was committed is known to every master, as it should be."""

    def __init__(self, rnd: Random) -> None:
        self.ops: list[Op] = []
        self._rnd = rnd
        self._now = 0
        self._epochs = dict.fromkeys(("b0", "b1")[: rnd.choice((1, 1, 2))], 1)
        self._offsets: dict[int, int] = {}  # by key
        self._process = list(range(CLIENTS))  # by thread
        self._open: dict[int, tuple[str, Any, int]] = {}  # by thread; and what is answered

    def add(self, kind: Any, process: int | str, f: str, value: Any, **ext: Any) -> None:
        self._now += self._rnd.randrange(3) * SECOND_NS // 2
        at = len(self.ops)
        self.ops.append(Op(kind, process, f, value, None, at, self._now, ext or None))

    def pause(self) -> None:
        self._now += self._rnd.choice((5, 20, 31, 40, 70)) * SECOND_NS

    def look(self) -> None:
        """A controller says who leads."""
        sets = {name: self._view(name) for name in self._epochs}
        self.add("invoke", OBSERVER, "observe-controller", {"node": "c0"})
        told = encoded(ControllerView(node="c0", sets=sets))
        self.add("ok", OBSERVER, "observe-controller", told)

    def _view(self, name: str) -> SetView:
        epoch = self._epochs[name]
        replicas = {str(n): f"{name}-{n}:1" for n in (1, 2)}
        master = 1 + epoch % 2
        return SetView(
            master=master,
            master_address=replicas[str(master)],
            master_epoch=epoch,
            sync_state_set=(1, 2),
            sync_state_set_epoch=epoch,
            replicas=replicas,
        )

    def fail_over(self) -> None:
        if self._rnd.random() < 0.7:
            self.look()
        self._epochs[self._rnd.choice(sorted(self._epochs))] += 1
        self.look()

    def fault(self) -> None:
        for f in ("kill", "start"):
            self.add("info", NEMESIS, f, None)
            self.add("info", NEMESIS, f, {"b0-0": {"holds": True}})

    def recovered(self) -> None:
        self.add("info", NEMESIS, "await-recovery", None)
        found = {"cluster": {"holds": True, "after_ms": 0}}
        self.add("info", NEMESIS, "await-recovery", found)

    def last(self) -> None:
        """Each thread asks a last time; an answer may be missing."""
        for thread in range(CLIENTS):
            for key in [key for key in self._offsets if key % CLIENTS == thread] or [thread]:
                asked = {FINAL: thread}
                self.add("invoke", 100 + thread, "fetch-offset", key, **asked)
                kind = self._rnd.choices(("ok", "fail"), (20, 1))[0]
                told = [key, self._offsets.get(key, 0)] if kind == "ok" else key
                self.add(kind, 100 + thread, "fetch-offset", told, **asked)

    def client(self) -> None:
        thread = self._rnd.randrange(CLIENTS)
        if thread in self._open:
            self._answer(thread)
        else:
            self._ask(thread)
            if self._rnd.random() < 0.85:
                self._answer(thread)

    def _ask(self, thread: int) -> None:
        process = self._process[thread]
        keys = [key for key in self._offsets if key % CLIENTS == thread]
        if keys and self._rnd.random() < 0.55:
            key = self._rnd.choice(keys)
            self._open[thread] = "fetch-offset", key, self._offsets[key]
            self.add("invoke", process, "fetch-offset", key)
        else:
            offset = self._offsets.get(process, 0) + 1
            self._offsets[process] = offset
            self._open[thread] = "commit-offset", [process, offset], offset
            self.add("invoke", process, "commit-offset", [process, offset])

    def _answer(self, thread: int) -> None:
        f, value, offset = self._open.pop(thread)
        process = self._process[thread]
        kind = self._rnd.choices(("ok", "info", "fail"), (20, 1, 1))[0]
        key = value if f == "fetch-offset" else value[0]
        name = sorted(self._epochs)[key % len(self._epochs)]
        broker = self._view(name).master_address
        if kind == "ok":
            self.add(kind, process, f, [key, offset], broker=broker)
        else:
            self.add(kind, process, f, value)
        if kind == "info":
            self._process[thread] += CLIENTS


def offset_case(seed: int) -> tuple[History, Context]:
    """One of them: up to two hundred operations, and no edit, or some. In every fourth run clients
    ask a last time, and its verdict rests on that."""
    rnd = Random(seed)
    writer = _Writer(rnd)
    writer.look()
    for _ in range(rnd.randrange(20, 70)):
        choose = rnd.random()
        if choose < 0.7:
            writer.client()
        elif choose < 0.84:
            writer.pause()
        elif choose < 0.98:
            writer.fail_over() if rnd.random() < 0.5 else writer.look()
        else:
            writer.fault()
    asks = seed % 4 == 0
    if asks:
        writer.recovered()
        writer.last()
    writer.look()
    for _ in range(rnd.choice((0, 1, 2, 4))):
        rnd.choice(_EDITS)(writer.ops, rnd)
    return History(writer.ops), ASKING if asks else CONTEXT


def _changed(ops: list[Op], rnd: Random, kinds: tuple[str, ...], kind: str, **to: Any) -> None:
    such = [at for at, op in enumerate(ops) if op.f in kinds and op.type == kind]
    if such:
        at = rnd.choice(such)
        ops[at] = msgspec.structs.replace(ops[at], **to)


_BOTH = ("commit-offset", "fetch-offset")


def _less(ops: list[Op], rnd: Random) -> None:
    """What is asked for last is not there."""
    such = [at for at, op in enumerate(ops) if op.f == "fetch-offset" and op.type == "ok"
            and isinstance(op.value, list)]  # fmt: skip
    for at in such[-rnd.randrange(1, 6) :]:
        key, offset = ops[at].value
        ops[at] = msgspec.structs.replace(
            ops[at], value=[key, max(0, offset - rnd.randrange(1, 4))]
        )


def _other_broker(ops: list[Op], rnd: Random) -> None:
    ext = rnd.choice((None, {"broker": "b0-1:1"}, {"broker": "far:1"}, {"broker": 7}))
    _changed(ops, rnd, _BOTH, "ok", ext=ext)


def _other_time(ops: list[Op], rnd: Random) -> None:
    time = rnd.choice((-1, 0, rnd.randrange(1 + ops[-1].time)))
    _changed(ops, rnd, _BOTH, rnd.choice(("ok", "invoke")), time=time)


def _other_key(ops: list[Op], rnd: Random) -> None:
    _changed(ops, rnd, _BOTH, "ok", value=[rnd.randrange(CLIENTS), rnd.randrange(9)])


def _unasked(ops: list[Op], rnd: Random) -> None:
    _changed(ops, rnd, _BOTH, "invoke", process=rnd.randrange(20, 23))


def _far(ops: list[Op], rnd: Random) -> None:
    value = rnd.choice(([0, -1], [0, True], [0, 1 << 70], "far", None))
    _changed(ops, rnd, _BOTH, "ok", value=value)


def _wiped(ops: list[Op], rnd: Random) -> None:
    _changed(ops, rnd, ("start",), "info", f="wipe")


_EDITS = (
    _less, _less, _less, _less, _less, _other_broker, _other_broker, _other_time, _other_key,
    _unasked, _far, _wiped,
)  # fmt: skip
