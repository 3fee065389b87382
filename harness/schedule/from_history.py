"""The schedule of a run that is over: what each act came to, and every operation as it was begun.

A run keeps its schedule, with what its acts came to (`as_performed`). Its history is a schedule as
well, which does the same again: each operation at its time, each fault on the nodes that it struck
(`as_recorded`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from maxq.checkers.evidence.acts import Act as Past
from maxq.checkers.evidence.acts import paired
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.quiescence import MEMBERSHIP
from maxq.harness.contracts.plugins import current
from maxq.harness.schedule.format import (
    READ,
    SEND,
    TURN,
    Act,
    Call,
    Done,
    Header,
    Schedule,
    When,
    Who,
    seconds,
)
from maxq.harness.schedule.options import (
    APPLICANTS,
    COMMITTERS,
    DELAYED,
    DELAYED_ALONE,
    FLUSH,
    LOCKERS,
    ORDERED,
    SPARES,
    TRANSACTIONS,
    Options,
)
from maxq.harness.schedule.shares import FLOOD
from maxq.histories.fault_facts import ELECT_MASTER, INSPECT, NOBODY, RELEASE
from maxq.histories.history import History
from maxq.histories.observed import (
    ACQUIRE,
    APPLY_ID,
    COMMIT_OFFSET,
    COMMIT_ORDERED,
    CREATE_TOPIC,
    END_TRANSACTION,
    FETCH_OFFSET,
    ORDERED_KEYS,
    PROBED,
    READ_DELAYED,
    READ_ORDERED,
    READ_TRANSACTIONS,
    RENEW,
    RETRY,
    SEND_DELAYED,
    SEND_DELAYED_ALONE,
    SEND_FLOOD,
    SEND_HALF,
    SEND_ORDERED,
)
from maxq.histories.observed import RELEASE as UNLOCK
from maxq.histories.op import Op
from maxq.workloads.flood import SENDERS as FLOODERS
from maxq.workloads.observe import THREADS as OBSERVERS
from maxq.workloads.queue import homes_of

DIGITS = 9
ENDING = "end/"  # of the requests of final heals and elections
WORKLOAD_OF = {
    **dict.fromkeys((ACQUIRE, RENEW, UNLOCK), "lock"),
    **dict.fromkeys((APPLY_ID, *MEMBERSHIP), "registration"),
    **dict.fromkeys((COMMIT_OFFSET, FETCH_OFFSET), "offsets"),
    **dict.fromkeys((SEND_DELAYED, READ_DELAYED), "delayed"),
    SEND_DELAYED_ALONE: "delayed-alone",
    **dict.fromkeys((SEND_ORDERED, READ_ORDERED, COMMIT_ORDERED), "ordered"),
    **dict.fromkeys((SEND_HALF, END_TRANSACTION, READ_TRANSACTIONS), "transactions"),
    SEND_FLOOD: FLOOD,
}  # fmt: skip


def as_performed(script: Schedule, history: History) -> Schedule:
    """A schedule with what its acts came to."""
    begun = main_part(history)
    done = {str(fault.request): _done(fault, begun) for fault in faults(history)}
    acts = tuple(msgspec.structs.replace(act, done=done.get(act.id)) for act in script.acts)
    return msgspec.structs.replace(script, acts=acts)


def _done(fault: Fault, begun: int) -> Done:
    result = fault.result if isinstance(fault.result, dict) else {}
    nodes = {
        str(node): str(what.get("role", "")) if isinstance(what, dict) else ""
        for node, what in result.items()
        if node != NOBODY
    }
    return Done(at=_since(fault.begun_ns, begun), nodes=nodes)


def main_part(history: History) -> int:
    """When (ns) the main part of a run began: at its first operation after the inspection."""
    inspected = [op.index for op in history.nemesis if op.f == INSPECT]
    after = inspected[-1] if inspected else -1
    return next((op.time for op in history.ops[after + 1 :]), 0)


def _since(time_ns: int, begun: int) -> float:
    return round(seconds(max(time_ns - begun, 0)), DIGITS)


def as_recorded(history: History, options: Options) -> Schedule:
    """A run without a schedule as one: the operations and faults of its main part."""
    begun = main_part(history)
    end = begun + options.time_limit_ns
    calls: list[Call] = []
    firsts, total = layout(options)
    for op in history.clients:
        probes = (op.ext or {}).get(PROBED)  # every run has its own, at its end
        if op.type == "invoke" and begun <= op.time < end and not probes:
            calls += _call(op, begun, int(op.process) % total, firsts)
    acts = [
        recorded
        for number, act in enumerate(_acts(history, begun, end), start=1)
        for recorded in _recorded(act, f"f{number}", begun, end)
    ]
    acts.sort(key=lambda act: act.when.at)
    header = Header(
        name="recorded",
        length=seconds(options.time_limit_ns),
        seed=options.seed,
        options={**differing(options), "nemesis": list(options.nemesis)},
    )
    return Schedule(header=header, calls=tuple(calls), acts=tuple(acts))


def differing(options: Options) -> dict[str, Any]:
    """What of the options is not as ever, as plain values; neither seed nor length, which a header
    has of its own."""
    usual = msgspec.to_builtins(Options(environment="", seed=options.seed))
    found = msgspec.to_builtins(options)
    if options.settings().sync_flush:  # which follows from the faults asked for, not from acts
        found["keys"] = {FLUSH: "SYNC_FLUSH", **options.keys}
    left_out = ("seed", "time_limit_ns", "scripted", "scheduled", "nemesis", "rate", "lull_ns",
                "interval_ns", "files", "lasted_ns", "ended_for", "later", "changed")  # fmt: skip
    return {k: v for k, v in found.items() if v != usual[k] and k not in left_out}


def layout(options: Options) -> tuple[dict[str, int], int]:
    """The first thread of each workload of a run, and how many threads there are."""
    counts = {
        "queue": options.concurrency,
        "lock": LOCKERS,
        "registration": SPARES + APPLICANTS,
        "offsets": COMMITTERS,
        "delayed": DELAYED,
        "delayed-alone": DELAYED_ALONE,
        "ordered": ORDERED,
        "transactions": TRANSACTIONS,
        FLOOD: FLOODERS,
        **{name: kind.threads for name, kind in current().workloads.items()},
        "probe": len(homes_of(range(options.broker_sets), options.topics_probed)),
        "observe": OBSERVERS,
    }
    firsts: dict[str, int] = {}
    total = 0
    for name, count in counts.items():
        if name in options.workload or name in ("probe", "observe"):
            firsts[name] = total
            total += count
    return firsts, total


def _call(op: Op, begun: int, thread: int, firsts: Mapping[str, int]) -> list[Call]:
    at = _since(op.time, begun)
    if op.f == SEND:
        if RETRY in (op.ext or {}):
            return []  # made anew when the try before it fails
        [[_, key, value]] = op.value
        size = (op.ext or {}).get("size", 0)
        return [Call(id=f"s{value}", at=at, thread=thread, f=SEND, value=[key, size, value])]
    if op.f == CREATE_TOPIC:
        again = (op.ext or {}).get(RETRY)  # made anew when the try before it fails
        made = Call(id=f"c{op.index}", at=at, thread=thread, f=CREATE_TOPIC, value=op.value)
        return [] if again else [made]
    if op.f == READ:
        return [Call(id=f"p{op.index}", at=at, thread=thread, f=READ)]
    workload = WORKLOAD_OF.get(op.f)
    if workload == "lock" and type(op.value) is int and op.value >= ORDERED_KEYS:
        workload = "ordered"
    if workload is None:
        return []  # an observer's, who goes on as ever; or an assignment, made anew when needed
    at_thread = thread - firsts[workload]
    return [Call(id=f"t{op.index}", at=at, thread=at_thread, f=TURN, workload=workload)]


def _acts(history: History, begun: int, end: int) -> list[Past]:
    """What was done in the main part: faults with their heals, and ordered elections."""
    every = faults(history)
    orders = [Past(fault=f, healed={}) for f in every if f.f == ELECT_MASTER and not _ending(f)]
    found = [act for act in (*paired(every), *orders) if begun <= act.fault.begun_ns < end]
    return sorted(found, key=lambda act: act.begun)


def _recorded(past: Past, name: str, begun: int, end: int) -> Iterator[Act]:
    """A fault on the nodes that it struck, at its time, and its heals; of one family by their ids.
    A heal that had more to heal is one act for each fault that it ended."""
    fault = past.fault
    if fault.f == ELECT_MASTER:
        yield _ordered(fault, name, begun)
        return
    struck = _struck(fault)
    if fault.nodes and not struck:
        return  # no node could be struck
    yield _act(fault, name, begun, struck)
    if fault.passes:
        return
    heals: dict[int, list[str]] = {}
    by_index = {heal.begun: heal for heal in past.healed.values() if not heal.changes_address
                or fault.changes_address}  # fmt: skip
    for node, heal in past.healed.items():
        if heal.begun in by_index and heal.begun_ns < end and not _ending(heal):
            heals.setdefault(heal.begun, []).append(node)
    for number, (at, nodes) in enumerate(sorted(heals.items())):
        healing = _act(by_index[at], f"{name}.h{number or ''}", begun, sorted(nodes))
        if fault.effect == "cut":
            healing = msgspec.structs.replace(healing, who=Who(of=name))
        yield healing


def _ending(fault: Fault) -> bool:
    """Whether it belongs to the end of a run, which every run has of its own."""
    return str(fault.request).startswith(ENDING)


def _struck(fault: Fault) -> Sequence[str]:
    return [node for node in fault.nodes if node != NOBODY]


def _ordered(fault: Fault, name: str, begun: int) -> Act:
    """An election that was ordered, of who was elected then."""
    done = _done(fault, begun)
    args: dict[str, Any] = {"refusable": True}
    if struck := _struck(fault):
        args["replica"] = int(struck[0].rpartition("-")[2])
    return Act(id=name, f=fault.f, when=When(at=done.at), args=args, done=done)


def _act(fault: Fault, name: str, begun: int, nodes: Sequence[str]) -> Act:
    result = fault.result if isinstance(fault.result, dict) else {}
    strength = fault.facts.strength if fault.facts is not None else ()
    # Of a heal the table has no strength; a start may be one as another release.
    kept = (*strength, *((RELEASE,) if fault.may_start else ()))
    args: dict[str, Any] = {k: v for k, v in fault.args.items() if k in kept}
    cut = fault.effect == "cut"
    if cut:
        args["grudge"] = {
            str(to): sorted(map(str, what.get("from", ())))
            for to, what in result.items()
            if isinstance(what, dict)
        }
        args["reset"] = any(isinstance(w, dict) and w.get("reset") for w in result.values())
    if fault.changes_address:
        args["restart"] = any(isinstance(w, dict) and w.get("stopped") for w in result.values())
    return Act(
        id=name,
        f=fault.f,
        when=When(at=_done(fault, begun).at),
        who=Who(nodes=() if cut else tuple(nodes)),
        args={k: v for k, v in args.items() if v or type(v) in (int, float)},  # of a bit, 0 is one
        done=_done(fault, begun),
    )
