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


def _offset(words: str) -> Callable[[Op], str]:
    def said(op: Op) -> str:
        key, offset = op.value if isinstance(op.value, list) else (op.value, None)
        return f"{words} of queue {key}" + ("" if offset is None else f": {offset}")

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
    observed.COMMIT_OFFSET: _offset("commit the consumer offset"),
    observed.FETCH_OFFSET: _offset("fetch the consumer offset"),
    observed.OBSERVE_CONTROLLER: _controller,
    observed.OBSERVE_REPLICA: _replica,
    observed.OBSERVE_ROUTE: _route,
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
    observed.OBSERVE_CONTROLLER: "an observer asks a controller",
    observed.OBSERVE_REPLICA: "an observer asks a broker",
    observed.OBSERVE_ROUTE: "an observer asks a name server",
    observed.REPLICA_LOG: "a replica's log is read from its disk",
    observed.PROBE_READ: "a probe is read back after the last heal",
}
