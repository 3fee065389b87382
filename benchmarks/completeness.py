"""Complete before valid: what becomes of a verdict when its history says less?

Run as ``python -m benchmarks.completeness``. Some short simulated runs are recorded, and their
histories judged again and again, each time with something missing:

- cut behind every line but the last: never valid, nor invalid if the whole one is not;
- without one of the grounds that the run declared (`maxq.histories.grounds`), its answers taken
  out or turned into `info`: no claim that rests on it is kept;
- with one answer turned into `info`: no claim is broken, unless the history was invalid before; a
  claim that was broken is so no more only if that operation was evidence of every anomaly of it;
  nor is a claim judged that was not;
- with many answers turned into `info`, all of one kind or here and there: no claim is broken,
  unless the history was invalid before.

Answers are never taken out: a message that no client sent would be a phantom. The process whose
answer is missing is retired, and its later operations belong to another one, as in a run. Not so in
the workload lock, where a process is the name by which a client holds its locks.

Prints a table, and everything that is not so. Exit code: 1 if anything is, else 0.
"""

import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import click
import msgspec

from benchmarks.recording import Recorded, record, small
from maxq.checkers.core.api import ClaimVerdict, Status
from maxq.checkers.core.claims import CLAIMS
from maxq.checkers.judgement.runner import Results
from maxq.harness.run.process import workers
from maxq.harness.schedule.options import Options
from maxq.histories.fault_facts import AWAIT_RECOVERY
from maxq.histories.grounds import (
    BROKER,
    CONSUMER_OFFSET,
    CONTROLLER,
    FINAL_READ,
    LOCK,
    NAMESRV,
    PROBE,
    RECOVERY,
    REPLICA_LOG_READ,
    RUN,
    Ground,
    declared,
)
from maxq.histories.history import History
from maxq.histories.observed import (
    ACQUIRE,
    FETCH_OFFSET,
    FINAL,
    OBSERVE_CONTROLLER,
    OBSERVE_REPLICA,
    OBSERVE_ROUTE,
    PROBE_READ,
    RELEASE,
    RENEW,
    REPLICA_LOG,
)
from maxq.histories.op import Op

LOST = "answer-lost"
MIXES, SHARES = 40, (0.02, 0.1, 0.3, 0.6)
LOCKING = frozenset((ACQUIRE, RENEW, RELEASE))
ASKED = {CONTROLLER: OBSERVE_CONTROLLER, NAMESRV: OBSERVE_ROUTE, BROKER: OBSERVE_REPLICA}
# How much each word says against a run; what a run does not promise says nothing.
GRAVITY: dict[Status, int] = {"broken": 2, "not judged": 1}

FAULTS = ("kill", "partition")
HISTORIES: dict[str, Options] = {
    "valid": small(seed=1, seconds=12, workload=("queue",), nemesis=FAULTS),
    "losses": small(
        seed=1, seconds=12, workload=("queue",), nemesis=FAULTS, mutant="ack_without_replicas"
    ),
    "locks": small(seed=1, seconds=12, workload=("lock",), nemesis=FAULTS),
    "places": small(seed=1, seconds=8, workload=("queue", "offsets"), nemesis=("kill",)),
    "measured": small(
        seed=1, seconds=12, workload=("queue",), nemesis=FAULTS, profile="P-DEFAULT"
    ),
    "ids": small(
        seed=1, seconds=12, workload=("queue", "registration"), nemesis=("kill", "change-address")
    ),
    "each": small(seed=2, seconds=8, workload=("queue",), nemesis=FAULTS, ending="each-replica"),
    "power": small(seed=3, seconds=12, workload=("queue",), nemesis=("power", "pause")),
}  # fmt: skip


class Tried(msgspec.Struct, frozen=True):
    """How often a history was judged with something missing, and what was wrong then."""

    name: str
    valid: bool | str
    lines: int
    cuts: int = 0
    grounds: int = 0
    answers: int = 0
    mixes: int = 0
    wrong: tuple[str, ...] = ()


# Cuts.


def cuts_of(history: History, *, last: int, sampled: int) -> list[int]:
    """Some lengths to which a history can be cut: the last ones, and a sample of the others."""
    early = range(max(0, len(history) - last))
    chosen = Random(len(history)).sample(early, min(sampled, len(early)))
    return [*sorted(chosen), *range(len(early), len(history))]


def try_cuts(recorded: Recorded, lengths: Iterable[int]) -> Iterator[str]:
    """What is wrong with the verdicts on a history that was cut to these lengths."""
    whole = recorded.judged().valid
    for length in lengths:
        valid = recorded.judged(History(recorded.history.ops[:length])).valid
        if valid is True or (valid is False and whole is not False):
            yield f"cut to {length} of {len(recorded.history)} lines its verdict is {valid}"


# Less in a history.


def without(history: History, indices: Collection[int]) -> History:
    """A history without some operations, each taken out with its other half."""
    gone = {*indices, *(history.pair_index(history[index]) for index in indices)}
    return history.filter(lambda op: op.index not in gone)


def unanswered(history: History, indices: Collection[int]) -> History:
    """A history in which the outcome of some operations is unknown: their completions are `info`,
    and who asked was retired."""
    renamed: dict[int, int] = {}
    unused = max((int(op.process) for op in history.clients), default=0) + 1
    clients = {int(op.process) for op in history.clients if op.f in LOCKING}
    ops: list[Op] = []
    for op in history.ops:
        process = op.process
        if isinstance(process, int):
            op = msgspec.structs.replace(op, process=renamed.get(process, process))
        if op.index in indices:
            begun = history.invocation(op)
            value = None if begun is None else begun.value
            op = msgspec.structs.replace(op, type="info", value=value, error=LOST, ext=None)
            if isinstance(process, int) and process not in clients:
                renamed[process], unused = unused, unused + 1
        ops.append(op)
    return History(ops)


# Grounds.


def ticks_of(history: History, ground: Ground) -> list[list[int]]:
    """The completions that tick a ground off, in groups: without one of them it is not whole."""
    ended = [op.index for op in history.nemesis if op.f == AWAIT_RECOVERY]
    later = [op for op in history.clients if op.type != "invoke" and op.index > ended[0]]
    kind, *what = ground
    if kind == RECOVERY:
        return [ended[-1:]]
    if kind == LOCK:
        granted = [op for op in later if op.f == ACQUIRE and op.value == what[0]]
        granted = [op for op in granted if op.type == "ok"]
        first = [op.index for op in granted if op.process == granted[0].process]
        return [[op.index for op in granted], first]
    found = [op for op in later if _tells(history, op, kind, what)]
    if kind == REPLICA_LOG_READ:
        return [[op.index] for op in found]
    return [[op.index for op in found]]


def _tells(history: History, op: Op, kind: str, what: Sequence[Any]) -> bool:
    """Whether a completion is an answer of a kind of grounds."""
    begun = history.invocation(op)
    asked: Any = None if begun is None else begun.value
    ext = op.ext or {}
    if kind == FINAL_READ:
        return op.f == "poll" and what[0] in ext.get("end", {})
    if kind == PROBE:
        return op.f == PROBE_READ and asked["key"] == what[0]
    if kind == CONSUMER_OFFSET:
        return op.f == FETCH_OFFSET and ext.get(FINAL) == what[0]
    return op.f == ASKED.get(kind, REPLICA_LOG) and asked["node"] == what[0]


def try_grounds(recorded: Recorded) -> tuple[int, list[str]]:
    """How many grounds were taken away, and what is wrong with the verdicts without them."""
    history, wrong = recorded.history, list[str]()
    grounds = declared(history.ops[0])
    for ground in grounds:
        groups = ticks_of(history, ground)
        if not all(groups):
            wrong.append(f"nothing ticks {ground} off")
            continue
        for indices in groups:
            less = [without(history, indices)]
            less += [unanswered(history, indices)] if ground[0] != RECOVERY else []
            for how, part in zip(("taken out", "info"), less, strict=False):
                resting = _resting(recorded.judged(part), ground[0])
                kept = [r.claim for r in resting if r.status in ("kept", "no occasion")]
                if kept:
                    wrong.append(f"{ground}, {how} at {indices}: {', '.join(kept)} kept")
    return len(grounds), wrong


def _resting(results: Results, kind: str) -> list[ClaimVerdict]:
    """What became of the claims that rest on a kind of grounds."""
    return [results.claims[c.id] for c in CLAIMS if kind in c.grounds and c.id in results.claims]


# Answers.


def answers_of(history: History, sampled: int) -> list[int]:
    """Some answers of a history; all if it has no more."""
    completed = [op.index for op in history.clients if op.type in ("ok", "fail")]
    return sorted(Random(len(history)).sample(completed, min(sampled, len(completed))))


def try_answers(recorded: Recorded, indices: Iterable[int]) -> Iterator[str]:
    """What is wrong with the verdicts on a history, one of its answers turned into `info` each
    time."""
    whole = recorded.judged()
    for index in indices:
        op = recorded.history[index]
        less = recorded.judged(unanswered(recorded.history, [index]))
        for what in _worse_and_better(recorded.history, whole, less, index):
            yield f"without the {op.type} of {op.f} at op {index}: {what}"


def _worse_and_better(history: History, whole: Results, less: Results, index: int) -> Iterator[str]:
    if whole.valid is True and less.valid is False:
        yield "invalid"
    for claim, verdict in whole.claims.items():
        after = less.claims[claim]
        before, now = GRAVITY.get(verdict.status, 0), GRAVITY.get(after.status, 0)
        if now == GRAVITY["broken"] > before and whole.valid is not False:
            stories = [a.story for a in less.broken if a.claim == claim]
            yield f"{claim} is broken: {stories[:1]}"
        elif now < before and not _evident(history, whole, claim, index):
            yield f"{claim} was {verdict.status} ({verdict.why}) and is {after.status}"


def _evident(history: History, whole: Results, claim: str, index: int) -> bool:
    """Whether an operation is evidence of all that was found of a claim; not of one of which
    nothing was found."""
    of_op = {index, history.pair_index(history[index])}
    found = [a for a in whole.broken if a.claim == claim]
    completed = ({*a.ops, *(v for v in a.detail.values() if isinstance(v, int))} for a in found)
    return bool(found) and all(of_op & ops for ops in completed)


def mixes_of(history: History, count: int) -> Iterator[list[int]]:
    """Answers that are lost together: all of each kind, and so often some of all."""
    completed = [op for op in history.clients if op.type in ("ok", "fail")]
    for f in sorted({op.f for op in completed}):
        yield [op.index for op in completed if op.f == f]
    for number in range(count):
        share = SHARES[number % len(SHARES)]
        rng = Random(f"{len(history)}/{number}")
        yield [op.index for op in completed if rng.random() < share]


def try_mixes(recorded: Recorded, mixes: Iterable[Sequence[int]]) -> Iterator[str]:
    """What is wrong with the verdicts on a history that is not invalid, many of its answers turned
    into `info`."""
    for indices in mixes:
        less = recorded.judged(unanswered(recorded.history, set(indices)))
        if less.valid is False and recorded.judged().valid is not False:
            stories = [a.story for a in less.broken]
            yield f"without {len(indices)} answers, {indices[:4]} and so on: {stories[:1]}"


# The benchmark.


def attempt(name: str, *, answers: int, later: int = 0) -> Tried:
    """Record a history, of a seed so much later, and judge it with everything missing in turn."""
    options = HISTORIES[name]
    recorded = record(msgspec.structs.replace(options, seed=options.seed + later))
    history = recorded.history
    lengths, chosen = range(len(history)), answers_of(history, answers)
    mixes = list(mixes_of(history, MIXES))
    grounds, wrong = try_grounds(recorded)
    wrong += [*try_cuts(recorded, lengths), *try_answers(recorded, chosen)]
    wrong += try_mixes(recorded, mixes)
    wrong += [] if history.run[1] is not None else [f"the last operation is not one of {RUN}"]
    return Tried(
        name=name,
        valid=recorded.judged().valid,
        lines=len(history),
        cuts=len(lengths),
        grounds=grounds,
        answers=len(chosen),
        mixes=len(mixes),
        wrong=tuple(wrong),
    )


@click.command()
@click.option("--answers", default=400, show_default=True, help="that are tried of each history")
@click.option("--later", default=0, show_default=True, help="added to each history's seed")
@click.option("--processes", default=2, show_default=True)
def main(answers: int, later: int, processes: int) -> None:
    """Try everything and print what came of it."""
    begun, wrong = time.monotonic(), 0
    columns = ("verdict", "lines", "cuts", "grounds", "answers", "mixes", "violations")
    click.echo(f"{'history':10}" + "".join(f"{c:>11}" for c in columns))
    with workers.processes(processes) as pool:
        for t in pool.map(partial(attempt, answers=answers, later=later), HISTORIES):
            row = (t.valid, t.lines, t.cuts, t.grounds, t.answers, t.mixes, len(t.wrong))
            click.echo(f"{t.name:10}" + "".join(f"{c!s:>11}" for c in row))
            for line in t.wrong:
                click.echo(f"    {line}")
            wrong += len(t.wrong)
    click.echo(f"{wrong} violations, {time.monotonic() - begun:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
