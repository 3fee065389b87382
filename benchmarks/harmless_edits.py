"""Edits of a correct history after which it is correct still; each says why.

An edit takes operations and gives others, or None where the history has nothing to be edited so.
Indices are given anew. What an edit takes away is evidence: a claim may then have no occasion, or
not be judged, but nobody may be blamed.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow.parquet as pq

from maxq.harness.run.rejudge import encode_jsonl
from maxq.histories.history import History
from maxq.histories.jsonl import read_jsonl
from maxq.histories.lines.whole_table import read_parquet
from maxq.histories.observed import NOT_GRANTED
from maxq.histories.op import Op
from maxq.histories.parquet import open_table
from maxq.histories.tables import events_table

Ops = Sequence[Op]
Edit = Callable[[Ops, Random], Ops | None]
MESSAGES = ("send", "poll", "txn")
NEW_PROCESS = 50_000_000
NEW_VALUE = 1 << 50
GROUP_ROWS = 7


def renumbered(ops: Ops) -> tuple[Op, ...]:
    """The same, with indices from 0 on and times that do not fall."""
    found, time = [], -1
    for index, op in enumerate(ops):
        time = max(time, op.time)
        found.append(msgspec.structs.replace(op, index=index, time=time))
    return tuple(found)


def _chosen(rng: Random, found: list[int]) -> int | None:
    return rng.choice(found) if found else None


def _where(ops: Ops, keep: Callable[[Op], bool]) -> list[int]:
    return [at for at, op in enumerate(ops) if keep(op)]


def _seen(ops: Ops) -> set[Any]:
    """Values that some answered poll, or store, shows."""
    found: set[Any] = set()
    for op in ops:
        if op.type == "ok" and op.f in ("poll", "txn"):
            for micro in op.value:
                if micro[0] == "poll" and len(micro) > 1:
                    found |= {v for messages in micro[1].values() for _, v in messages}
        elif op.type == "ok" and op.f == "replica-log":
            found |= {v for _, _, v in op.value["records"]}
    return found


def _sent(op: Op) -> list[Any]:
    """The values of an invocation of a send or a transaction."""
    return [m[2] for m in op.value if m[0] == "send"]


def _without(ops: Ops, gone: set[int]) -> Ops:
    return [op for at, op in enumerate(ops) if at not in gone]


def _pair(ops: Ops, at: int) -> int:
    """The position of the other half of an operation; -1: none."""
    history = History(ops)
    return history.pair_index(ops[at])


def drop_open_invocation(ops: Ops, rng: Random) -> Ops | None:
    """What never completed, and of which nothing was seen, may never have been begun."""
    history, seen = History(ops), _seen(ops)
    able = _where(
        ops,
        lambda op: (
            op.is_client
            and op.type == "invoke"
            and history.completion(op) is None
            and not (op.f in ("send", "txn") and seen.intersection(_sent(op)))
        ),
    )
    at = _chosen(rng, able)
    return None if at is None else _without(ops, {at})


def unsure_send(ops: Ops, rng: Random) -> Ops | None:
    """An acknowledged send without its answer promises less; its client goes on as another."""
    at = _chosen(rng, _where(ops, lambda op: op.f == "send" and op.type == "ok" and not op.ext.get(
        "probe") if op.ext else False))  # fmt: skip
    if at is None:
        return None
    done = ops[at]
    begun = ops[_pair(ops, at)]
    lost = Op("info", done.process, "send", begun.value, ["timeout"], time=done.time)
    later = [
        msgspec.structs.replace(op, process=NEW_PROCESS) if op.process == done.process else op
        for op in ops[at + 1 :]
    ]
    return [*ops[:at], lost, *later]


def unseen_send_failed(ops: Ops, rng: Random) -> Ops | None:
    """A send of unknown outcome that nobody saw may as well have failed."""
    seen, history = _seen(ops), History(ops)
    able = [
        at for at, op in enumerate(ops)
        if op.f == "send" and op.is_client and op.type == "info"
        and (begun := history.invocation(op)) is not None and not seen.intersection(_sent(begun))
    ]  # fmt: skip
    at = _chosen(rng, able)
    if at is None:
        return None
    return [*ops[:at], msgspec.structs.replace(ops[at], type="fail"), *ops[at + 1 :]]


def drop_failed(ops: Ops, rng: Random) -> Ops | None:
    """What a client tried and what certainly did not happen need not have been tried."""
    able = _where(
        ops,
        lambda op: (
            op.is_client
            and op.type == "fail"
            and not op.f.startswith("observe")
            and not (op.ext or {}).get("probe")
        ),
    )
    at = _chosen(rng, able)
    return None if at is None else _without(ops, {at, _pair(ops, at)})


def _after_poll(ops: Ops, rng: Random) -> int | None:
    return _chosen(rng, _where(ops, lambda op: op.f == "poll" and op.type == "ok"))


def empty_poll(ops: Ops, rng: Random) -> Ops | None:
    """A reader may ask once more and be given nothing."""
    at = _after_poll(ops, rng)
    if at is None:
        return None
    done = ops[at]
    [[_, shown]] = done.value
    nothing = [["poll", {key: [] for key in shown}]]
    ext = {k: v for k, v in (done.ext or {}).items() if k in ("broker", "node")}
    more = [
        Op("invoke", done.process, "poll", [["poll"]], time=done.time),
        Op("ok", done.process, "poll", nothing, time=done.time, ext=ext),
    ]
    return [*ops[: at + 1], *more, *ops[at + 1 :]]


def split_poll(ops: Ops, rng: Random) -> Ops | None:
    """What one poll gives two may give, one after the other."""
    able = _where(
        ops,
        lambda op: (
            op.f == "poll"
            and op.type == "ok"
            and len(op.value) == 1
            and any(len(m) > 1 for m in op.value[0][1].values())
        ),
    )
    at = _chosen(rng, able)
    if at is None:
        return None
    done = ops[at]
    [[_, shown]] = done.value
    [(key, messages)] = shown.items()
    cut = rng.randrange(1, len(messages))
    first, second = ([["poll", {key: part}]] for part in (messages[:cut], messages[cut:]))
    ext = {k: v for k, v in (done.ext or {}).items() if k in ("broker", "node")}
    more = [
        Op("ok", done.process, "poll", first, time=done.time, ext=ext),
        Op("invoke", done.process, "poll", [["poll"]], time=done.time),
        msgspec.structs.replace(done, value=second),
    ]
    return [*ops[:at], *more, *ops[at + 1 :]]


def shift_times(ops: Ops, rng: Random) -> Ops | None:
    """The clock begins anywhere."""
    by = rng.randrange(1, 10**12)
    return [msgspec.structs.replace(op, time=op.time + by) for op in ops]


def rename_processes(ops: Ops, rng: Random) -> Ops | None:
    """Numbers of processes are names."""
    names = sorted({op.process for op in ops if isinstance(op.process, int)})
    others = [n + 7 for n in names]
    rng.shuffle(others)
    new: dict[int | str, int] = dict(zip(names, others, strict=True))
    return [
        msgspec.structs.replace(op, process=new[op.process]) if op.is_client else op for op in ops
    ]


def _swapped(ops: Ops, rng: Random, able: Callable[[Op, Op], bool]) -> Ops | None:
    """Two neighbours of different clients change places, and keep the times of the places."""
    found = [
        at for at in range(len(ops) - 1)
        if ops[at].is_client and ops[at + 1].is_client
        and ops[at].process != ops[at + 1].process and able(ops[at], ops[at + 1])
    ]  # fmt: skip
    at = _chosen(rng, found)
    if at is None:
        return None
    a, b = ops[at], ops[at + 1]
    one, other = (
        msgspec.structs.replace(b, time=a.time),
        msgspec.structs.replace(a, time=b.time),
    )
    return [*ops[:at], one, other, *ops[at + 2 :]]


def swap_invocations(ops: Ops, rng: Random) -> Ops | None:
    """Which of two was begun first says nothing while neither is over."""
    return _swapped(ops, rng, lambda a, b: a.type == b.type == "invoke")


def swap_completions(ops: Ops, rng: Random) -> Ops | None:
    """Which of two concurrent ones of different keys was over first says nothing."""
    return _swapped(
        ops,
        rng,
        lambda a, b: "invoke" not in (a.type, b.type) and _keys(a).isdisjoint(_keys(b)),
    )


def _keys(op: Op) -> set[Any]:
    match op.value:
        case int(key) | [int(key), _]:
            return {key}
        case [["send", key, _]]:
            return {key}
        case [["poll", dict(shown)]]:
            return set(shown)
    return {op.f.partition("-")[0]}


def begin_earlier(ops: Ops, rng: Random) -> Ops | None:
    """An operation of a client that was begun before another one was over, and not after, is only
    less ordered."""
    return _swapped(
        ops, rng, lambda a, b: a.type != "invoke" and b.type == "invoke" and b.f in MESSAGES
    )


def end_later(ops: Ops, rng: Random) -> Ops | None:
    """The same of one that ends after another was begun."""
    return _swapped(
        ops,
        rng,
        lambda a, b: a.type == "ok" and a.f in MESSAGES and b.type == "invoke" and b.f in MESSAGES,
    )


def repeat_answer(ops: Ops, rng: Random) -> Ops | None:
    """Who is asked again at once answers the same."""
    able = _where(ops, lambda op: op.f.startswith("observe-") and op.type == "ok")
    at = _chosen(rng, able)
    if at is None:
        return None
    done = ops[at]
    asked = msgspec.structs.replace(ops[_pair(ops, at)], process=NEW_PROCESS, time=done.time)
    again = msgspec.structs.replace(done, process=NEW_PROCESS)
    return [*ops[: at + 1], asked, again, *ops[at + 1 :]]


def drop_answer(ops: Ops, rng: Random) -> Ops | None:
    """Who is not asked says nothing."""
    able = _where(ops[: len(ops) // 2], lambda op: op.f.startswith("observe-") and op.type == "ok")
    at = _chosen(rng, able)
    return None if at is None else _without(ops, {at, _pair(ops, at)})


def other_fields(ops: Ops, rng: Random) -> Ops | None:
    """Fields that nobody knows are kept, and mean nothing."""
    at = _chosen(rng, _where(ops, lambda op: op.is_client and op.error is None))
    if at is None:
        return None
    noted = msgspec.structs.replace(ops[at], ext={**(ops[at].ext or {}), "note": rng.random()})
    return [*ops[:at], noted, *ops[at + 1 :]]


def other_errors(ops: Ops, rng: Random) -> Ops | None:
    """Why a client's operation failed is for people."""
    return [
        msgspec.structs.replace(op, error=["other", str(rng.random())])
        if op.is_client
        and op.error is not None
        and op.error != NOT_GRANTED
        and not op.f.startswith("observe")
        else op
        for op in ops
    ]


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {k: _mapped(v, change) for k, v in value.items()}
    if isinstance(value, list):
        return [_mapped(v, change) for v in value]
    return change(value)


def rename_values(ops: Ops, rng: Random) -> Ops | None:
    """Values of messages are names."""
    by = rng.randrange(1, 10**6) << 1
    kinds = (*MESSAGES, "probe", "replica-log")

    def change(value: Any) -> Any:
        # Of offsets, ends, ids and bytes none is so high in a small history.
        big = type(value) is int and value >= 1_000_000
        return value + by if big else value

    return [
        msgspec.structs.replace(op, value=_mapped(op.value, change)) if op.f in kinds else op
        for op in ops
    ]


def rename_addresses(ops: Ops, rng: Random) -> Ops | None:
    """The network may be another one."""
    net = f"10.{rng.randrange(256)}."

    def change(value: Any) -> Any:
        return value.replace("198.18.", net) if isinstance(value, str) else value

    return [
        msgspec.structs.replace(op, value=_mapped(op.value, change), ext=_mapped(op.ext, change))
        for op in ops
    ]


def _inserted(ops: Ops, rng: Random, *more: Op) -> Ops:
    """Operations of a new client side by side, somewhere in the first half."""
    at = rng.randrange(1, len(ops) // 2)
    timed = [msgspec.structs.replace(op, time=ops[at - 1].time) for op in more]
    return [*ops[:at], *timed, *ops[at:]]


def failed_send(ops: Ops, rng: Random) -> Ops | None:
    """Another client tries, and fails."""
    value = [["send", 0, NEW_VALUE]]
    return _inserted(
        ops,
        rng,
        Op("invoke", NEW_PROCESS, "send", value),
        Op("fail", NEW_PROCESS, "send", value, ["refused"]),
    )


def silent_reader(ops: Ops, rng: Random) -> Ops | None:
    """Another client is assigned a queue, and never reads."""
    ops_of = [Op("invoke", NEW_PROCESS, "assign", [0]), Op("ok", NEW_PROCESS, "assign", [0])]
    if not any(op.f == "assign" for op in ops):
        return None
    return _inserted(ops, rng, *ops_of)


def split_row_groups(ops: Ops, rng: Random) -> Ops | None:
    """A table is the same in however many row groups."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.parquet"
        with open_table(path) as out:
            table = events_table(renumbered(ops), run_id="edited")
            out.write_table(table, row_group_size=GROUP_ROWS)
        if pq.read_metadata(path).num_row_groups < 2:
            return None
        return read_parquet(path)


def through_journal(ops: Ops, rng: Random) -> Ops | None:
    """A journal keeps what it is given."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.jsonl"
        path.write_bytes(encode_jsonl(renumbered(ops)))
        return read_jsonl(path)[0]


EDITS: tuple[Edit, ...] = (
    drop_open_invocation,
    unsure_send,
    unseen_send_failed,
    drop_failed,
    empty_poll,
    split_poll,
    shift_times,
    rename_processes,
    swap_invocations,
    swap_completions,
    begin_earlier,
    end_later,
    repeat_answer,
    drop_answer,
    other_fields,
    other_errors,
    rename_values,
    rename_addresses,
    failed_send,
    silent_reader,
    split_row_groups,
    through_journal,
)


def edited(ops: Ops, rng: Random) -> Iterator[tuple[str, tuple[Op, ...] | None]]:
    """A history under each edit."""
    for edit in EDITS:
        found = edit(ops, rng)
        yield edit.__name__, None if found is None else renumbered(found)
