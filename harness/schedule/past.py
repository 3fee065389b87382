"""The schedule of a run that is over: what each act came to, and every operation as it was begun.

A run that was driven by a schedule keeps it, with what its acts resolved to. A run that was not
(its faults struck again and again, its clients drew as they went) is written down as the schedule
that does the same again: each operation at its time, each fault on the nodes that it struck.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from checkers.faults import Fault, faults
from checkers.story import QUESTIONS
from harness.options import APPLICANTS, FLUSH, LOCKERS, MOVERS, SPARES, Options
from harness.schedule.items import (
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
from histories.history import History
from histories.observed import COMMIT_PLACE, FETCH_PLACE, PROBED
from histories.op import Op
from workloads.observe import THREADS as OBSERVERS
from workloads.queue import QUEUES

DIGITS = 9
WORKLOAD_OF = {
    **dict.fromkeys(("acquire", "renew", "release"), "lock"),
    **dict.fromkeys(("apply-id", "join", "leave", "kill-broker", "readdress", "wipe"),
                    "registration"),
    **dict.fromkeys((COMMIT_PLACE, FETCH_PLACE), "offsets"),
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
        if node != "nobody"
    }
    return Done(at=_since(fault.begun_ns, begun), nodes=nodes)


def main_part(history: History) -> int:
    """When (ns) the main part of a run began: at its first operation after the inspection."""
    inspected = [op.index for op in history.nemesis if op.f == "inspect"]
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
        _act(fault, number, begun)
        for number, fault in enumerate(faults(history), start=1)
        if fault.f not in QUESTIONS and fault.begun_ns < end
    ]
    header = Header(
        name="recorded",
        length=seconds(options.time_limit_ns),
        seed=options.seed,
        options=differing(options),
    )
    return Schedule(header=header, calls=tuple(calls), acts=tuple(acts))


def differing(options: Options) -> dict[str, Any]:
    """What of the options is not as ever, as plain values; neither seed nor length, which a header
    has of its own."""
    usual = msgspec.to_builtins(Options(environment="", seed=options.seed))
    found = msgspec.to_builtins(options)
    if options.settings().sync_flush:  # which follows from the faults asked for, not from acts
        found["keys"] = {FLUSH: "SYNC_FLUSH", **options.keys}
    left_out = ("seed", "time_limit_ns", "scripted", "scheduled", "nemesis", "rate", "lull_ns")
    return {k: v for k, v in found.items() if v != usual[k] and k not in left_out}


def layout(options: Options) -> tuple[dict[str, int], int]:
    """The first thread of each workload of a run, and how many threads there are."""
    counts = {
        "queue": options.concurrency,
        "lock": LOCKERS,
        "registration": SPARES + APPLICANTS,
        "offsets": MOVERS,
        "probe": QUEUES * options.broker_sets,
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
        [[_, key, value]] = op.value
        size = (op.ext or {}).get("size", 0)
        return [Call(id=f"s{value}", at=at, thread=thread, f=SEND, value=[key, size, value])]
    if op.f == READ:
        return [Call(id=f"p{op.index}", at=at, thread=thread, f=READ)]
    workload = WORKLOAD_OF.get(op.f)
    if workload is None:
        return []  # an observer's, who goes on as ever; or an assignment, made anew when needed
    at_thread = thread - firsts[workload]
    return [Call(id=f"t{op.index}", at=at, thread=at_thread, f=TURN, workload=workload)]


def _act(fault: Fault, number: int, begun: int) -> Act:
    """A fault on the nodes that it struck, at its time."""
    result = fault.result if isinstance(fault.result, dict) else {}
    done = _done(fault, begun)
    args: dict[str, Any] = {}
    if fault.f == "start-partition":
        args["grudge"] = {
            str(to): sorted(map(str, what.get("from", ())))
            for to, what in result.items()
            if isinstance(what, dict)
        }
        args["reset"] = any(isinstance(w, dict) and w.get("reset") for w in result.values())
    if fault.f in ("change-ip", "restore-ip"):
        args["restart"] = any(isinstance(w, dict) and w.get("stopped") for w in result.values())
    nodes = () if fault.f in ("start-partition", "stop-partition") else tuple(done.nodes)
    return Act(
        id=f"f{number}",
        f=fault.f,
        when=When(at=done.at),
        who=Who(nodes=nodes),
        args={k: v for k, v in args.items() if v},
        done=done,
    )
