"""Small histories of replicas' stores, copies of one log, edited a little or not at all."""

import hashlib
from random import Random
from typing import Any

import msgspec
from cluster_recorder import Cluster, set_view

from maxq.checkers.core.api import Context
from maxq.histories.history import History
from maxq.histories.observed import DIGEST_BYTES, REPLICA_LOG, ReplicaLog
from maxq.histories.op import Op

CONTEXT = Context(broker_sets={"b0": ("b0-0", "b0-1", "b0-2"), "b1": ("b1-0", "b1-1")})
RECORD_BYTES = 24_000  # several in a block, and blocks end inside of them
SETS, QUEUES = (("b0", 3), ("b1", 2)), 2
Message = tuple[int, int, int]


def replica_case(seed: int) -> tuple[History, Context]:
    """Sends to one or two broker sets, a fault, and what is in each store after it."""
    rnd = Random(f"replicas/{seed}")
    r = Cluster()
    logs: dict[str, list[tuple[int, Message]]] = {}
    sets = SETS[: rnd.randint(1, 2)]
    for first, (name, _) in enumerate(sets):
        logs[name] = _sent(r, rnd, name, 10 * first)
    r.fault("kill", **{"b0-1": True})
    r.fault("start", **{"b0-1": True})
    for name, replicas in sets:
        shorter = rnd.randrange(replicas) if rnd.random() < 0.4 else -1
        outside = shorter if rnd.random() < 0.8 else -1
        members = (n + 1 for n in range(replicas) if n != outside)
        r.controllers(set_view(2, 4, None, *members), of=name)
        for number in range(replicas):
            # Who stands beside the set may be behind it, and others may then have more.
            held = (
                logs[name][: rnd.randint(1, len(logs[name]))] if number == shorter else logs[name]
            )
            for piece in pieces(name, number, held, begin=0):
                r.store(piece)
                if rnd.random() < 0.05:
                    r.store(piece)  # read twice
    ops = list(r.history.ops)
    if rnd.random() < 0.6:
        rnd.choice(_EDITS)(ops, rnd)
    return History(ops), CONTEXT


def _sent(r: Cluster, rnd: Random, name: str, first_key: int) -> list[tuple[int, Message]]:
    log: list[tuple[int, Message]] = []
    ends = dict.fromkeys(range(first_key, first_key + QUEUES), 0)
    epoch, answered = 1, rnd.choice((name, None))
    for value in range(rnd.randint(2, 14)):
        epoch += rnd.random() < 0.2
        key = rnd.choice([*ends])
        number = 1000 * first_key + value
        if rnd.random() < 0.2:  # whether it took effect nobody said
            r.send(key % 2, number, key=key, op_type="info")
            if rnd.random() < 0.5:
                continue
            log.append((epoch, (key, ends[key], number)))
            ends[key] += 1
            continue
        log.append((epoch, (key, ends[key], number)))
        if answered is None:
            r.send(key % 2, number, ends[key], key=key)
        else:
            r.send(key % 2, number, ends[key], key=key, node=answered, epoch=epoch)
        ends[key] += 1
    return log


def pieces(
    name: str, number: int, held: list[tuple[int, Message]], *, begin: int
) -> list[ReplicaLog]:
    """The epochs of a replica that holds some messages, from one of them on."""
    epochs = sorted({epoch for epoch, _ in held})
    found = []
    for epoch in epochs:
        at = [i for i, (e, _) in enumerate(held) if e == epoch]
        data = b"".join(_bytes(held[i][1][2]) for i in at)
        blocks = [data[b : b + DIGEST_BYTES] for b in range(0, len(data), DIGEST_BYTES)]
        found.append(
            ReplicaLog(
                node=f"{name}-{number}", set=name, id=number + 1, epoch=epoch,
                start=(begin + at[0]) * RECORD_BYTES, end=(begin + at[-1] + 1) * RECORD_BYTES,
                last=epoch == epochs[-1],
                digests=tuple(hashlib.sha256(b).hexdigest() for b in blocks),
                records=tuple(held[i][1] for i in at),
            )
        )  # fmt: skip
    return found


def _bytes(seed: int) -> bytes:
    return hashlib.sha256(str(seed).encode()).digest() * (RECORD_BYTES // 32)


# Edits.


def _log(ops: list[Op], rnd: Random) -> tuple[int, dict[str, Any]]:
    at = rnd.choice([at for at, op in enumerate(ops) if op.f == REPLICA_LOG and op.type == "ok"])
    return at, dict(ops[at].value)


def _put(ops: list[Op], at: int, value: dict[str, Any]) -> None:
    ops[at] = msgspec.structs.replace(ops[at], value=value)


def _record(ops: list[Op], rnd: Random) -> None:
    """One record is missing, is another, stands twice, or holds what is no number."""
    at, value = _log(ops, rnd)
    records = [list(record) for record in value["records"]]
    chosen = rnd.randrange(len(records))
    key, offset, held = records[chosen]
    new: list[list[Any]] = rnd.choice(
        ([], [[key, offset, held + 1]], [[key, offset + 1, held]], [[key, offset, held]] * 2,
         [[key, offset, "corrupt:ff"]], [[key, offset, -3]])
    )  # fmt: skip
    records[chosen : chosen + 1] = new
    _put(ops, at, value | {"records": records})


def _digest(ops: list[Op], rnd: Random) -> None:
    at, value = _log(ops, rnd)
    digests = list(value["digests"])
    digests[rnd.randrange(len(digests))] = "ff"
    if rnd.random() < 0.2:
        digests.append("ff")  # more than its length allows
    _put(ops, at, value | {"digests": digests})


def _field(ops: list[Op], rnd: Random) -> None:
    at, value = _log(ops, rnd)
    name, other = rnd.choice(
        (("last", not value["last"]), ("id", 9), ("epoch", value["epoch"] + 1), ("end", "odd"),
         ("start", value["start"] + RECORD_BYTES), ("node", 'b"0'), ("begun", value["start"]))
    )  # fmt: skip
    _put(ops, at, value | {name: other})


def _send(ops: list[Op], rnd: Random) -> None:
    """What was acknowledged is another message, or no message at all."""
    at = rnd.choice([at for at, op in enumerate(ops) if op.f == "send" and op.type == "ok"])
    [[word, key, [offset, value]]] = ops[at].value
    other: list[Any] = rnd.choice(
        ([offset, value + 1], [offset + 50, value], [None, value], [offset, "x"], [offset])
    )
    ops[at] = msgspec.structs.replace(ops[at], value=[[word, key, other]])


_EDITS = (_record, _record, _digest, _field, _send)
