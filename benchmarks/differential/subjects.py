"""What is compared: models, with small histories that suit them."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import NamedTuple

import numpy as np

from benchmarks.differential import asked, clients, rules
from benchmarks.differential.asked import again, once
from benchmarks.differential.oracle import Ask, drawn, exhaustive, said
from maxq.checkers.linearizability.calls import (
    FAILED,
    NOTHING,
    OK,
    OPEN,
    Calls,
    CallsMaker,
    Row,
)
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.judge import by_search, decide
from maxq.checkers.linearizability.model import Model
from maxq.checkers.linearizability.search import in_breadth
from maxq.checkers.models.kv import KeyValue
from maxq.checkers.models.leases import Fencing, Lease
from maxq.checkers.models.locks import Mutex, RwLock, Semaphore
from maxq.checkers.models.logs.kafka import Kafka
from maxq.checkers.models.logs.log import Log
from maxq.checkers.models.queues import FifoQueue, Queue
from maxq.checkers.models.registers import CasRegister, MultiRegister, Register, StrictCasRegister
from maxq.checkers.models.sets import Counter as CounterModel
from maxq.checkers.models.sets import GrowSet, UniqueIds
from maxq.checkers.models.snapshots import Bank, LongFork
from maxq.checkers.models.total import SetFull, TotalQueue

INFO = (0.0, 0.15, 0.35)
WRONG = (0.0, 0.1, 0.3)
Made = Callable[[Random, float, float], Calls]  # of a share without an answer, and a wrong one


class Subject(NamedTuple):
    """A model, its histories and who says what is legal; whether the fast test decides every one of
    them, and whether a search may be asked."""

    model: Model
    made: Made
    always: bool = False
    legal: Callable[[Model, Calls], rules.Verdict] = exhaustive
    search: bool = True


def _asked(
    model: Model, ask: Callable[[], Ask], *, always: bool = False, fails: float = 0.0
) -> Subject:
    return Subject(
        model,
        lambda random, info, wrong: _drawn(model, ask(), random, (info, wrong, fails)),
        always,
    )


def _drawn(model: Model, ask: Ask, random: Random, shares: tuple[float, float, float]) -> Calls:
    info, wrong, fails = shares
    length = random.choice((0, 1, 2, *[9] * 30))
    calls = drawn(ask, model, random, info=info, wrong=wrong, length=length, fails=fails)
    return spoilt(calls, random) if random.random() < wrong else calls


def spoilt(calls: Calls, random: Random) -> Calls:
    """The same with one call that failed, though others may see what it did, or with two answers
    that changed places."""
    ok = np.flatnonzero(calls.outcome == OK).tolist()
    if random.random() < 0.5 and ok:
        outcome = calls.outcome.copy()
        outcome[random.choice(ok)] = FAILED
        return calls._replace(outcome=outcome)
    kind = random.choice(ok) if ok else 0
    same = [at for at in ok if calls.kind[at] == calls.kind[kind]]
    result = calls.result.copy()
    if len(same) > 1:
        one, two = random.sample(same, 2)
        result[[one, two]] = result[[two, one]]
    return calls._replace(result=result)


def _clients(model: Model, kinds: tuple[str, ...], permits: int = 1) -> Subject:
    return Subject(
        model,
        lambda random, info, wrong: clients.clients(model, kinds, permits, random, info, wrong),
    )


def _locked(random: Random, info: float, wrong: float) -> Calls:
    return clients.locked(random, info=info, wrong=wrong)


def _snapshots(random: Random, info: float, wrong: float) -> Calls:
    """Single writes and reads of three keys, all at one time."""
    maker, keys = CallsMaker(), ("x", "y", "z")
    order = random.sample(range(3), 3)
    for at, key in enumerate(keys):
        maker.add(Row(None, "write", (key, at)), at, 100 + at,
                  OPEN if random.random() < info else OK, at)  # fmt: skip
    for at in range(3, 6):
        seen = order[: random.randrange(4)]
        pairs = frozenset(
            (k, n if (n in seen) != (random.random() < wrong) else None) for n, k in enumerate(keys)
        )
        maker.add(Row(None, "read", result=pairs), at, 100 + at, OK, at)
    return maker.done()


def _balances(random: Random, info: float, wrong: float) -> Calls:
    maker, held = CallsMaker(), [4, 4]
    for at in range(6):
        lost = random.random() < info
        if random.random() < 0.5:
            moved = random.randrange(3)
            held = [held[0] - moved, held[1] + moved]
            maker.add(Row(None, "transfer"), 2 * at, 2 * at + 1, OPEN if lost else OK, at)
            continue
        seen = [n + (random.random() < wrong) for n in held]
        pairs = None if lost else frozenset(zip("ab", seen, strict=True))
        maker.add(Row(None, "read", result=pairs), 2 * at, 2 * at + 1, OPEN if lost else OK, at)
    return maker.done()


TRIED_AGAIN: Mapping[str, tuple[Model, Callable[[], Ask]]] = {
    "register": (Register(), lambda: asked.register(once(), swaps=False)),
    "cas-register": (CasRegister(), lambda: asked.register(once(), swaps=True)),
    "strict-cas-register": (StrictCasRegister(), lambda: asked.register(once(), swaps=True)),
    "fifo-queue": (FifoQueue(), lambda: asked.queue(once())),
    "queue": (Queue(), lambda: asked.queue(once())),
    "log": (Log(), lambda: asked.log(once(), unsaid=0.3)),
    "multi-register": (MultiRegister(), lambda: asked.registers(once())),
    "kv": (KeyValue(), lambda: asked.text(once())),
    "set": (GrowSet(), lambda: asked.growing(once())),
    "counter": (CounterModel(), lambda: asked.counter(once())),
    "unique-ids": (UniqueIds(), asked.ids),
}


SUBJECTS: Mapping[str, Subject] = {
    "register": _asked(Register(), lambda: asked.register(once(), swaps=False), always=True),
    "register, values again": _asked(Register(), lambda: asked.register(again(), swaps=False)),
    "register, initial value written": _asked(
        Register(), lambda: asked.register(asked.or_nothing(once()), swaps=False)
    ),
    "cas-register": _asked(CasRegister(), lambda: asked.register(once(), swaps=True), always=True),
    "cas-register, values again": _asked(
        CasRegister(), lambda: asked.register(again(), swaps=True)
    ),
    "strict-cas-register": _asked(
        StrictCasRegister(), lambda: asked.register(once(), swaps=True)
    ),
    "strict-cas-register, values again": _asked(
        StrictCasRegister(), lambda: asked.register(again(), swaps=True)
    ),
    "fifo-queue": _asked(FifoQueue(), lambda: asked.queue(once()), always=True),
    "fifo-queue, values again": _asked(FifoQueue(), lambda: asked.queue(again())),
    "fifo-queue, little taken": _asked(FifoQueue(), lambda: asked.queue(once(), puts=0.85)),
    "queue": _asked(Queue(), lambda: asked.queue(once()), always=True),
    "queue, values again": _asked(Queue(), lambda: asked.queue(again())),
    "log": _asked(Log(), lambda: asked.log(once()), always=True),
    "log, appends again": _asked(Log(), lambda: asked.log(again()), always=True),
    "log, offsets not said": _asked(Log(), lambda: asked.log(once(), unsaid=0.3)),
    "multi-register": _asked(MultiRegister(), lambda: asked.registers(again())),
    "kv": _asked(KeyValue(), lambda: asked.text(once())),
    "kv, parts again": _asked(KeyValue(), lambda: asked.text(again())),
    "set": _asked(GrowSet(), lambda: asked.growing(once()), always=True),
    "set, elements again": _asked(GrowSet(), lambda: asked.growing(again())),
    "counter": _asked(CounterModel(), lambda: asked.counter(once())),
    "unique-ids": _asked(UniqueIds(), lambda: asked.ids(), always=True),
    "mutex": Subject(Mutex(), _locked),
    "mutex, clients go on": _clients(Mutex(), ("acquire",)),
    "rw-lock": _clients(RwLock(), ("acquire-read", "acquire-read", "acquire-write")),
    "semaphore of one": _clients(Semaphore(), ("acquire",)),
    "semaphore of two": _clients(Semaphore(), ("acquire",), 2),
    "fencing": Subject(Fencing(), clients.fenced),
    "lease": Subject(Lease(), lambda random, info, _: clients.leased(random, info), True,
                     lambda _, calls: not clients.overlap(calls), search=False),
    "long-fork": Subject(LongFork(), _snapshots, True, search=False),
    "long-fork, written again": Subject(LongFork(), rules.forks, True, rules.one_order, False),
    "bank": Subject(Bank(), _balances, search=False),
    "total-queue, values again": Subject(TotalQueue(), rules.queued, True, rules.total, False),
    "set-full, elements again": Subject(SetFull(), rules.grown, True, rules.kept, False),
    "kafka": Subject(Kafka(), partial(rules.logged, again=False), True, rules.in_order, False),
    "kafka, sent again": Subject(
        Kafka(), partial(rules.logged, again=True), True, rules.in_order, False
    ),
    **{
        f"{name}, failed and tried again": _asked(model, ask, fails=0.25)
        for name, (model, ask) in TRIED_AGAIN.items()
    },
}  # fmt: skip


class Compared(NamedTuple):
    """Whether a history is legal, whether the fast test decided it, and what is wrong with what was
    said of it: empty if nothing."""

    legal: rules.Verdict
    fast: Decided | None
    wrong: str = ""


def never() -> bool:
    """A budget without an end."""
    return False


def compared(subject: Subject, calls: Calls) -> Compared:
    """What the fast test, the dispatch and the search say, beside what every order says."""
    model = subject.model
    legal, fast = subject.legal(model, calls), model.fast(calls)
    found = {"fast test": fast, "dispatch": decide(model, calls, never)}
    if subject.search:
        found["search"] = by_search(model, calls, never)
        found["search in breadth"] = by_search(model, calls, never, in_breadth)
    for who, one in found.items():
        if one is not None and one.valid not in (legal, "unknown"):
            return Compared(legal, fast, f"{who}: {one} of {said(calls)}")
        settled = subject.search or subject.always or legal is False
        if one is not None and one.valid == "unknown" != legal and settled:
            return Compared(legal, fast, f"{who}: {one} of {said(calls)}")
    return Compared(legal, fast)


def history(name: str, number: int) -> Calls:
    """The history of a subject with a number."""
    random = Random(f"{name} {number}")
    return SUBJECTS[name].made(random, INFO[number % len(INFO)], random.choice(WRONG))


FEATURES: Mapping[str, Callable[[Model, Calls], bool]] = {
    "empty": lambda _, calls: not calls.size,
    "repeated values": lambda model, calls: _repeats(model, calls),
    "initial value written": lambda _, calls: bool(
        np.any(calls.of("write") & (calls.argument == NOTHING))
    ),
    "effect of a failed call seen": lambda model, calls: _aborted(model, calls),
    "failed cas": lambda _, calls: bool(np.any(calls.of("cas") & (calls.outcome == FAILED))),
    "nothing taken": lambda _, calls: bool(
        np.any(calls.of("enqueue")) and not np.any(calls.of("dequeue") & (calls.outcome == OK))
    ),
    "open acquire proven": lambda _, calls: (
        bool(np.any(calls.of("release"))) and clients.proven(calls)
    ),
    "retried append": lambda model, calls: (
        bool(np.any(calls.of("poll", "end"))) and _repeats(model, calls)
    ),
}


def _effects(model: Model, calls: Calls, *outcomes: int) -> Counter[object]:
    changed = Counter[object]()
    for call in said(calls):
        if call.kind not in model.reads and call.outcome in outcomes:
            changed.update(set(model.brings(call)))
    return changed


def _repeats(model: Model, calls: Calls) -> bool:
    if not np.any(calls.of("write", "cas", "enqueue", "append", "add")):
        return False
    return max(_effects(model, calls, OK, OPEN).values(), default=0) > 1


def _aborted(model: Model, calls: Calls) -> bool:
    failed = set(_effects(model, calls, FAILED)) - set(_effects(model, calls, OK, OPEN))
    shown = itertools.chain.from_iterable(
        model.shows(call) for call in said(calls) if call.outcome == OK
    )
    return bool(failed & set(shown))
