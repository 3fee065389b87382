"""An operation in words: what was asked of whom, and what came of it.

A value of another shape than the documented one is left to the JSON beside these words.
"""

from collections.abc import Callable, Mapping
from typing import Any

from maxq.checkers.judgement.cuts import described, links_of
from maxq.harness.report.markup import short
from maxq.histories import observed
from maxq.histories.fault_facts import CHANGE_ADDRESS
from maxq.histories.op import Op

# What becomes of a transaction, and how brokers learn it (`maxq.workloads.transactions`).
DECISIONS: Mapping[str, str] = {
    observed.COMMIT: "commit", observed.ROLL_BACK: "roll back", observed.OPEN: "stay open",
}  # fmt: skip
ENDS: Mapping[str, str] = {
    "soon": "at once", "late": "late", "silent": "when asked",
    "dies": "when another producer is asked",
}  # fmt: skip
ASKED_MAX, NAMED_MAX = 160, 4  # characters; messages or members that are named
SAID_MAX = 3 * ASKED_MAX


def spoken(op: Op) -> str:
    """What an operation is, in a line; empty where there is nothing to say beside its kind."""
    try:
        said = (WORDS[op.f](op) if op.f in WORDS else "") if op.is_client else _act(op)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return ""
    return short(said, SAID_MAX)


def _act(op: Op) -> str:
    """An action of the nemesis: what was done, and to whom."""
    if not isinstance(op.value, dict):
        return f"{op.f} begins"
    return f"{op.f}: {described(links_of(op.value)) or ', '.join(map(str, op.value))}"


def _send(op: Op) -> str:
    said = []
    for _, key, sent in op.value[:NAMED_MAX]:
        where = f" at offset {sent[0]}" if isinstance(sent, list) else ""
        said.append(f"message {sent[1] if isinstance(sent, list) else sent} to queue {key}{where}")
    return "send " + ", ".join(said)


def _poll(op: Op) -> str:
    if op.type == "invoke":
        return "read"
    read = [part[1] for part in op.value if part[0] == "poll" and len(part) > 1]
    found = []
    for queues in read:
        for key, messages in queues.items():
            if messages:
                first, last = messages[0][0], messages[-1][0]
                span = f"offset {first}" if first == last else f"offsets {first} to {last}"
                found.append(f"{span} of queue {key}")
    return "read " + (", ".join(found[:NAMED_MAX]) or "nothing")


def _lock(words: str) -> Callable[[Op], str]:
    return lambda op: f"{words} the lock of queue {op.value}"


def _apply(op: Op) -> str:
    given = f": id {op.value['id']}" if "id" in op.value else ""
    return f"applicant {op.value['code']} asks for an id in broker set {op.value['set']}{given}"


def _controller(op: Op) -> str:
    who = f"ask controller {op.value['node']}"
    sets = op.value.get("sets", {}) if op.type == "ok" else {}
    said = [
        f"{name}: master id {view['master']}, epoch {view['master_epoch']}, SyncStateSet "
        + " ".join(map(str, view["sync_state_set"]))
        for name, view in list(sets.items())[:NAMED_MAX]
    ]
    return "; ".join([who, *said])


def _replica(op: Op) -> str:
    who, v = f"ask broker {op.value['node']}", op.value
    if op.type != "ok":
        return who
    epoch = f" in epoch {v['epochs'][-1][0]}" if v["epochs"] else ""
    confirmed = "" if v["confirmed"] is None else f", confirmed to {v['confirmed']}"
    role = "master" if v["leads"] else "slave"
    if v.get("isolated") is True:
        role = "isolated"
    elif v.get("acting") is True:
        role = "slave, acts for its master"
    number = "" if v["id"] is None else f"id {v['id']}, "
    return f"{who}: {number}{role}{epoch}, log ends at {v['end']}{confirmed}"


def _route(op: Op) -> str:
    who = f"ask name server {op.value['node']}"
    sets: Mapping[str, Any] = op.value.get("sets", {}) if op.type == "ok" else {}
    return "; ".join([who, *(f"{name}: ids {' '.join(ids)}" for name, ids in sets.items())])


def _log(op: Op) -> str:
    v = op.value
    if op.type != "ok" or "epoch" not in v:
        return f"read the log of {v['node']}"
    return f"log of {v['node']}: epoch {v['epoch']} is bytes {v['start']} to {v['end']}"


def _disk(op: Op) -> str:
    v = op.value
    if op.type != "ok" or "used" not in v:
        return f"look at the files of {v['node']}"
    return f"files of {v['node']}: {v['used']} bytes, its log from byte {v['start']} on"


def _commit(whose: str) -> Callable[[Op], str]:
    def said(op: Op) -> str:
        key, offset = op.value
        return f"commit offset {offset} of {whose} {key}"

    return said


def _fetch(op: Op) -> str:
    if op.type != "ok":
        return f"ask how far group {op.value} has read"
    key, offset = op.value
    return f"group {key} has read to offset {offset}"


def _send_ordered(op: Op) -> str:
    key, message = op.value
    return f"send message {message} to queue {key}"


def _flood(op: Op) -> str:
    queue, message = op.value
    whose = "a quiet set" if queue else "the flooded set"
    return f"send message {message} to {whose}" + _at_set(op)


def _send_delayed(op: Op) -> str:
    message, delay_ms = op.value
    return f"send message {message}, to come after {delay_ms / 1000:g} s" + _at_set(op)


def _send_half(op: Op) -> str:
    message, decision, when = op.value
    how = "" if decision == observed.OPEN else f" {ENDS[when]}"
    return f"send half message {message}, to {DECISIONS[decision]}{how}" + _at_set(op)


def _end(op: Op) -> str:
    message, decision = op.value
    return f"{DECISIONS[decision]} transaction {message}"


def _at_set(op: Op) -> str:
    return f", at broker set {op.ext['node']}" if op.ext and "node" in op.ext else ""


def _read(op: Op) -> str:
    if op.type != "ok":
        return f"read queue {op.value}"
    found = op.value
    if not found:
        return "read nothing"
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    return "read " + ", ".join(f"message {m}" for m in found[:NAMED_MAX]) + more + _at_set(op)


def _probe(op: Op) -> str:
    v = op.value
    return f"read message {v['value']} back at offset {v['offset']} of queue {v['key']}"


def _topic(words: str) -> Callable[[Op], str]:
    def said(op: Op) -> str:
        known = op.value.get("known")
        some = f": {', '.join(n for n, has in known.items() if has) or 'nobody'}" if known else ""
        return f"{words} topic {op.value['topic']}, broker set {op.value['node']}{some}"

    return said


def _node(words: str) -> Callable[[Op], str]:
    def said(op: Op) -> str:
        given = f" with id {op.value['id']}" if "id" in op.value else ""
        return f"broker {op.value['node']} {words}{given}"

    return said


WORDS: Mapping[str, Callable[[Op], str]] = {
    "send": _send,
    "poll": _poll,
    observed.ACQUIRE: _lock("acquire"),
    observed.RENEW: _lock("renew"),
    observed.RELEASE: _lock("release"),
    observed.APPLY_ID: _apply,
    observed.JOIN: _node("joins"),
    observed.LEAVE: _node("leaves"),
    "kill-broker": _node("is killed"),
    CHANGE_ADDRESS: _node("gets another address"),
    observed.WIPE: _node("loses its store, on purpose"),
    observed.COMMIT_OFFSET: _commit("group"),
    observed.FETCH_OFFSET: _fetch,
    observed.SEND_DELAYED: _send_delayed,
    observed.SEND_DELAYED_ALONE: _send_delayed,
    observed.READ_DELAYED: _read,
    observed.SEND_HALF: _send_half,
    observed.END_TRANSACTION: _end,
    observed.READ_TRANSACTIONS: _read,
    observed.SEND_ORDERED: _send_ordered,
    observed.READ_ORDERED: _read,
    observed.COMMIT_ORDERED: _commit("queue"),
    observed.PROBE_READ: _probe,
    observed.CREATE_TOPIC: _topic("make"),
    observed.FIND_TOPIC: _topic("who knows"),
    observed.OBSERVE_CONTROLLER: _controller,
    observed.OBSERVE_REPLICA: _replica,
    observed.OBSERVE_ROUTE: _route,
    observed.OBSERVE_DISK: _disk,
    observed.SEND_FLOOD: _flood,
    observed.REPLICA_LOG: _log,
}

# What each kind of operation is, where its name stands alone.
MEANS: Mapping[str, str] = {
    "send": "a producer sends a message",
    "poll": "a consumer reads",
    observed.ACQUIRE: "a client asks for a queue's lock",
    observed.RENEW: "its holder prolongs a lock",
    observed.RELEASE: "its holder gives a lock back",
    observed.APPLY_ID: "an applicant asks for a broker id",
    observed.JOIN: "a broker comes up",
    observed.LEAVE: "a broker goes",
    observed.COMMIT_OFFSET: "a consumer group commits how far it is",
    observed.FETCH_OFFSET: "a consumer group asks how far it was",
    observed.SEND_DELAYED: "a producer sends a delayed message",
    observed.SEND_DELAYED_ALONE: "a producer sends a delayed message to a topic of one broker set",
    observed.READ_DELAYED: "a consumer reads messages that were delayed",
    observed.SEND_HALF: "a producer begins a transaction",
    observed.END_TRANSACTION: "a producer commits or rolls back",
    observed.READ_TRANSACTIONS: "a consumer reads messages that were committed",
    observed.SEND_ORDERED: "a producer sends a message that is to be read in order",
    observed.READ_ORDERED: "the holder of a queue's lock reads it",
    observed.COMMIT_ORDERED: "the holder of a queue's lock commits how far it is",
    observed.OBSERVE_CONTROLLER: "an observer asks a controller",
    observed.OBSERVE_REPLICA: "an observer asks a broker",
    observed.OBSERVE_ROUTE: "an observer asks a name server",
    observed.OBSERVE_DISK: "an observer looks at what a broker's files take",
    observed.SEND_FLOOD: "a producer floods a broker set, or sends to a quiet one beside it",
    observed.REPLICA_LOG: "a replica's log is read from its disk",
    observed.CREATE_TOPIC: "an operator makes a topic on a broker set",
    observed.FIND_TOPIC: "the brokers of a set are asked for a topic",
    observed.PROBE_READ: "a probe is read back after the last heal",
}
