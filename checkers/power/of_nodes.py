"""Wrong answers of nodes to observers: controllers, brokers and name servers; and nodes that are
not there, or do not serve."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec

from maxq.checkers.core.api import Context
from maxq.checkers.evidence.acts import acts_of
from maxq.checkers.power.wrong import (
    Changes,
    Plant,
    Wrong,
    answers,
    edited,
    waited,
    with_value,
)
from maxq.histories.fault_facts import AWAIT_RECOVERY
from maxq.histories.history import History
from maxq.histories.observed import (
    OBSERVE_CONTROLLER,
    OBSERVE_REPLICA,
    OBSERVE_ROUTE,
    PROBE_READ,
    PROBED,
)
from maxq.histories.op import Op

NOWHERE = "203.0.113.9:10911"
WAIT_NS = 5_000_000_000  # beyond the bound: a run notices by then
FAR = 1 << 30  # bytes beyond any log of a run


class Gone(NamedTuple):
    """A broker's process was killed: between two indices it did not run."""

    node: str
    begun: int
    until: int
    was: str  # its role


def _gone(history: History, context: Context) -> Iterator[Gone]:
    nodes = {node for names in context.broker_sets.values() for node in names}
    for act in acts_of(history):
        if act.effect == "down" and act.fault.ended is not None:
            for node in sorted(nodes.intersection(act.nodes)):
                proof = act.fault.result.get(node)
                role = str(proof.get("role", "")) if isinstance(proof, dict) else ""
                until = min(act.over(node), len(history.ops) and history.ops[-1].index)
                yield Gone(node, act.fault.ended, until, role)


def _during(gone: Gone, begun: Op, op: Op) -> bool:
    return gone.begun < begun.index and op.index < gone.until


def _ids(history: History) -> dict[str, int]:
    """The id of each broker, as it said itself last."""
    return {
        str(op.value.get("node")): op.value["id"]
        for _, op in answers(history, OBSERVE_REPLICA)
        if op.value.get("id") is not None
    }


def _sets(history: History, context: Context) -> Iterator[tuple[Op, str, dict[str, Any]]]:
    """What controllers said of the sets that are struck."""
    for _, op in answers(history, OBSERVE_CONTROLLER):
        for name, view in op.value.get("sets", {}).items():
            if name in context.broker_sets:
                yield op, name, view


def _of_set(op: Op, name: str, **fields: Any) -> Changes:
    view = op.value["sets"][name]
    return {op.index: with_value(op, edited(op.value, ("sets", name), {**view, **fields}))}


def _back(field: str, history: History, context: Context) -> Iterator[Plant]:
    """A number that only grows is one less than in the answer before."""
    seen: dict[str, int] = {}
    for op, name, view in _sets(history, context):
        number = view[field]
        if seen.get(name) == number and number > 0:
            yield Plant(op.index, partial(_of_set, op, name, **{field: number - 1}))
        seen[name] = number


def _unaware(history: History, context: Context) -> Iterator[Plant]:
    """Asked after a broker led in a new epoch, a controller answers as it did before."""
    before: dict[str, dict[str, Any]] = {}
    asked = {op.index: begun.index for begun, op in answers(history, OBSERVE_CONTROLLER)}
    leads = [(op.index, op.value.get("set"), op.value["epochs"][-1][0])
             for _, op in answers(history, OBSERVE_REPLICA)
             if op.value.get("leads") and op.value.get("epochs")]  # fmt: skip
    for op, name, view in _sets(history, context):
        epoch, old = view["master_epoch"], before.get(name)
        known = [at for at, of, led in leads if of == name and led == epoch]
        if old and old["master_epoch"] < epoch and known and known[0] < asked[op.index]:
            yield Plant(op.index, partial(_of_set, op, name, **old))
        if not old or old["master_epoch"] == epoch or (known and known[0] < asked[op.index]):
            before[name] = view


def _other_master(history: History, context: Context) -> Iterator[Plant]:
    for op, name, view in _sets(history, context):
        others = [n for n in view["replicas"] if int(n) != view["master"]]
        if view["master"] is not None and others:
            chosen = min(others)
            address = view["replicas"][chosen]
            yield Plant(op.index, partial(_of_set, op, name, master=int(chosen),
                                          master_address=address))  # fmt: skip


def _outsider_elected(history: History, context: Context) -> Iterator[Plant]:
    """The master of a new epoch was in no set that controllers reported of the epoch before."""
    of_epoch: dict[tuple[str, int], list[Op]] = {}
    masters: dict[tuple[str, int], int] = {}
    for op, name, view in _sets(history, context):
        of_epoch.setdefault((name, view["master_epoch"]), []).append(op)
        if view["master"] is not None:
            masters[name, view["master_epoch"]] = view["master"]
    for (name, epoch), master in masters.items():
        before = of_epoch.get((name, epoch - 1), [])
        if before:
            yield Plant(of_epoch[name, epoch][0].index, partial(_never_in, before, name, master))


def _never_in(before: list[Op], name: str, member: int) -> Changes:
    changes: dict[int, Op] = {}
    for op in before:
        left = [m for m in op.value["sets"][name]["sync_state_set"] if m != member]
        changes |= _of_set(op, name, sync_state_set=left)
    return changes


def _wrong_address(history: History, context: Context) -> Iterator[Plant]:
    for op, name, view in _sets(history, context):
        for number in sorted(view["replicas"]):
            replicas = {**view["replicas"], number: NOWHERE}
            yield Plant(op.index, partial(_of_set, op, name, replicas=replicas))


def _moved_epoch(history: History, context: Context) -> Iterator[Plant]:
    for _, op in answers(history, OBSERVE_REPLICA):
        epochs = op.value.get("epochs") or []
        if len(epochs) > 1 and epochs[-1][1] < epochs[-1][2]:
            (a, b, end), (c, start, d) = epochs[-2:]
            moved = [*epochs[:-2], [a, b, end + 1], [c, start + 1, d]]
            yield Plant(op.index, partial(_of_replica, op, epochs=moved))


def _of_replica(op: Op, **fields: Any) -> Changes:
    return {op.index: with_value(op, {**op.value, **fields})}


def _empty_member(history: History, context: Context) -> Iterator[Plant]:
    members = {(name, number) for _, name, view in _sets(history, context)
               for number in view["sync_state_set"]}  # fmt: skip
    for _, op in answers(history, OBSERVE_REPLICA):
        known = op.value.get("set"), op.value.get("id")
        if known in members and not op.value.get("leads") and op.value.get("end"):
            empty = {"epochs": [], "end": 0, "confirmed": 0}
            yield Plant(op.index, partial(_of_replica, op, **empty))


def _reads_ahead(history: History, context: Context) -> Iterator[Plant]:
    for _, op in answers(history, OBSERVE_REPLICA):
        mine = op.value.get("set") in context.broker_sets and op.value.get("epochs")
        if mine and not op.value.get("leads") and op.value.get("confirmed") is not None:
            *before, last = op.value["epochs"]
            ahead = op.value["end"] + FAR
            epochs = [*before, [last[0], last[1], ahead]]
            fields = {"confirmed": ahead, "end": ahead, "epochs": epochs}
            yield Plant(op.index, partial(_of_replica, op, **fields))


def _kept(history: History, context: Context, *, master: bool) -> Iterator[Plant]:
    """As long as a broker is dead, controllers go on to report it as it was."""
    ids, seen = _ids(history), list(_sets(history, context))
    asked = {op.index: begun.index for begun, op in answers(history, OBSERVE_CONTROLLER)}
    for gone in _gone(history, context):
        name, number = gone.node.rpartition("-")[0], ids.get(gone.node)
        if number is None or (gone.was == "master") is not master:
            continue
        views = [(op, view) for op, n, view in seen if n == name]
        before = [view for op, view in views if op.index < gone.begun]
        inside = [op for op, _ in views if gone.begun < asked[op.index] and op.index < gone.until]
        if inside and before and number in before[-1]["sync_state_set"]:
            yield Plant(inside[0].index, partial(_as_before, inside, name, before[-1]))


def _as_before(ops: list[Op], name: str, view: dict[str, Any]) -> Changes:
    changes: dict[int, Op] = {}
    for op in ops:
        changes |= _of_set(op, name, **view)
    return changes


def _left_out(history: History, context: Context) -> Iterator[Plant]:
    """From the last heal on a slave is in no SyncStateSet that controllers report."""
    since = _healed(history)
    seen = [(op, name, view) for op, name, view in _sets(history, context) if op.index > since]
    last = {name: view for _, name, view in seen}
    for name, view in last.items():
        for number in view["sync_state_set"]:
            if number != view["master"]:
                ops = [op for op, n, _ in seen if n == name]
                yield Plant(ops[-1].index, partial(_never_again, history, context, ops, name,
                                                   number))  # fmt: skip


def _never_again(
    history: History, context: Context, ops: list[Op], name: str, number: int
) -> Changes:
    changes = _never_in(ops, name, number)
    return waited(history, _healed(history), context.recovery_ns + WAIT_NS, changes)


def _healed(history: History) -> int:
    """The index from which on everything is healed, and was waited for."""
    heals = [heal.ended or 0 for act in acts_of(history) for heal in act.healed.values()]
    waits = [op.index for op in history.nemesis if op.f == AWAIT_RECOVERY]
    return max((*heals, *waits), default=-1)


def _routes(history: History, context: Context) -> Iterator[tuple[Op, Op, str, dict[str, str]]]:
    for begun, op in answers(history, OBSERVE_ROUTE):
        for name, known in op.value.get("sets", {}).items():
            if name in context.broker_sets:
                yield begun, op, name, known


def _route(op: Op, name: str, known: dict[str, str]) -> Changes:
    return {op.index: with_value(op, edited(op.value, ("sets", name), known))}


def _two_ids(history: History, context: Context) -> Iterator[Plant]:
    for _, op, name, known in _routes(history, context):
        if known:
            more = {**known, "99": next(iter(known.values()))}
            yield Plant(op.index, partial(_route, op, name, more))


def _without_role(history: History, context: Context, *, master: bool) -> Iterator[Plant]:
    for _, op, name, known in _routes(history, context):
        for role in sorted(known):
            if (role == "0") is master:
                left = {k: v for k, v in known.items() if k != role}
                yield Plant(op.index, partial(_route, op, name, left))


def _other_master_listed(history: History, context: Context) -> Iterator[Plant]:
    """A slave and its master have changed places."""
    for _, op, name, known in _routes(history, context):
        for role in sorted(known):
            if role != "0" and "0" in known:
                changed = {**known, "0": known[role], role: known["0"]}
                yield Plant(op.index, partial(_route, op, name, changed))


def _dead_listed(history: History, context: Context) -> Iterator[Plant]:
    ids, routes = _ids(history), list(_routes(history, context))
    said = [op.value for _, op in answers(history, OBSERVE_REPLICA)]
    addresses = {str(value.get("node")): value.get("address") for value in said}
    for gone in _gone(history, context):
        number, address = ids.get(gone.node), addresses.get(gone.node)
        for begun, op, name, known in routes if number is not None and address else ():
            if name == gone.node.rpartition("-")[0] and _during(gone, begun, op):
                listed = {**known, str(number): str(address)}
                if listed != known:
                    yield Plant(op.index, partial(_route, op, name, listed))


def _unserved(history: History, context: Context) -> Iterator[Plant]:
    """From the last heal on a queue takes no probe's message, and gives none back."""
    of_key: dict[Any, list[Op]] = {}
    for op in history.clients:
        if op.type == "invoke" or not (op.f == PROBE_READ or (op.ext or {}).get(PROBED)):
            continue
        begun = history.invocation(op)
        match begun.value if begun is not None else None:
            case {"key": int(key)} | [[_, int(key), *_]]:
                of_key.setdefault(key, []).append(op)
    for key, ops in of_key.items():
        others = [op.index for k, of in of_key.items() for op in of if k != key and op.type == "ok"]
        yield Plant(ops[0].index, partial(_fail, history, context, ops, max(others, default=-1)))


def _fail(history: History, context: Context, ops: list[Op], served: int) -> Changes:
    """Every try fails, and the last ones come after the bound: others were served before."""
    changes = {
        op.index: msgspec.structs.replace(op, type="fail", error="timeout")
        for op in ops
        if op.type == "ok"
    }
    last = history.invocation(ops[-1])
    since = min(max(served, _healed(history)), (ops[-1] if last is None else last).index - 1)
    return waited(history, since, context.recovery_ns + WAIT_NS, changes)


WRONGS = (
    Wrong(
        "a controller reports an older master epoch",
        ("S3", "S5"), "epochs", partial(_back, "master_epoch"),
    ),
    Wrong(
        "a controller does not know of an election that a broker knows of",
        ("S3b", "S3", "S4"), "epochs", _unaware,
    ),
    Wrong(
        "a controller reports an older SyncStateSet epoch",
        ("S4",), "epochs", partial(_back, "sync_state_set_epoch"),
    ),
    Wrong(
        "a controller reports another master of one epoch",
        ("S5", "S3", "S4"), "epochs", _other_master,
    ),
    Wrong(
        "the broker that is elected was in no SyncStateSet before",
        ("S7", "S4"), "epochs", _outsider_elected,
    ),
    Wrong("an epoch begins a byte later on one replica", ("S8c",), "epochs", _moved_epoch),
    Wrong("a member of the SyncStateSet says that it is empty", ("S9b",), "epochs", _empty_member),
    Wrong("a slave lets consumers read ahead", ("S10b",), "epochs", _reads_ahead),
    Wrong(
        "a killed slave stays in the SyncStateSet",
        ("S14b",), "availability", partial(_kept, master=False),
    ),
    Wrong(
        "a killed master stays master",
        ("S13b",), "availability", partial(_kept, master=True),
    ),
    Wrong("a slave is never in the SyncStateSet again", ("S14",), "availability", _left_out),
    Wrong("a controller has a false address of a broker", ("S2b",), "routes", _wrong_address),
    Wrong("a name server lists one address under two ids", ("N1",), "routes", _two_ids),
    Wrong("a name server lists a dead broker", ("N5",), "routes", _dead_listed),
    Wrong(
        "a name server leaves a slave out",
        ("N6",), "routes", partial(_without_role, master=False),
    ),
    Wrong(
        "a name server leaves the master out",
        ("N10",), "routes", partial(_without_role, master=True),
    ),
    Wrong("a name server lists a slave as the master", ("N13", "N10"), "routes",
          _other_master_listed),
    Wrong("a queue serves nobody after the last heal", ("S13",), "service", _unserved),
)  # fmt: skip
