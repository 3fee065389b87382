"""The operations of a round of `queue` as rows have them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from maxq.workloads.generated.clients.queue import POLL, SEND, TXN, Draft, Queues
from maxq.workloads.generated.columns.rows import FAIL, INFO, OK, Flags, Ints, Ops
from maxq.workloads.generated.nodes.cluster import EPOCH_BYTES, MESSAGE_BYTES
from maxq.workloads.queue import QUEUES

F = ("send", "txn", "poll", "assign")
REFUSED = '["SYSTEM_ERROR","in-sync replicas not enough: 1 < 2"]'
NO_ANSWER = '["FLUSH_SLAVE_TIMEOUT","replicas did not acknowledge in time"]'
NO_POLL = '["ConnectionRefusedError","nobody listens there"]'


class Answered(NamedTuple):
    """Completions: values, and other fields."""

    value: list[str]
    ext: list[str]


def texts_of(q: Queues, d: Draft, elected: int) -> Ops:
    """All columns; `elected`: when a new master was, or -1."""
    begun = _begun(q, d)
    done = Answered(list(begun), [""] * len(begun))
    masters = _masters(q, d)
    _acknowledged(q, d, elected, done, masters)
    _shown(q, d, done, masters)
    error = [""] * len(begun)
    for i in np.flatnonzero(d.type == FAIL).tolist():
        error[i] = NO_POLL if d.f[i] == POLL else REFUSED
    for i in np.flatnonzero(d.type == INFO).tolist():
        error[i] = NO_ANSWER
    f = [F[c] for c in d.f.tolist()]
    none = [""] * len(f)
    return Ops(d.inv, d.ret, d.type, q.processes(d), f, begun, done.value, none, done.ext, error)


def _masters(q: Queues, d: Draft) -> list[tuple[str, str]]:
    """By set: who answers before the cut, and who after it."""
    found = []
    for s in q.cluster.sets:
        now = s.addresses[s.master]
        was = s.addresses[s.before_election()] if s.number == d.struck else now
        found.append((was, now))
    return found


def _begun(q: Queues, d: Draft) -> list[str]:
    columns = (d.f, d.key, d.key2, d.value, d.thread)
    begun = []
    for f, k, k2, v, t in zip(*(c.tolist() for c in columns), strict=True):
        if f == SEND:
            begun.append(f'[["send",{k},{v}]]')
        elif f == POLL:
            begun.append('[["poll"]]')
        elif f == TXN:
            begun.append(f'[["send",{k},{v}],["send",{k2},{v + 1}]]')
        else:
            begun.append(f"[{','.join(map(str, range(t, q.keys, q.readers)))}]")
    for i in range(len(d.thread) - len(d.shots), len(d.thread)):
        shot = q.shot(d, i)
        if shot is not None and shot.polls:
            begun[i] = f'[["send",{shot.key},{int(d.value[i])}],["poll"]]'
    return begun


def _acknowledged(
    q: Queues, d: Draft, elected: int, done: Answered, masters: Sequence[tuple[str, str]]
) -> None:
    """Of sends and transactions."""
    heads = [[f'"broker":"{a}",' for a in both] for both in masters]
    tails = [f'"node":"{s.name}"' for s in q.cluster.sets]
    byte, late = _positions(q, d, elected), _where(d)
    of = d.records[:, 4]
    answered = (of >= 0) & (d.type[of] == OK)
    sent = answered & (d.f[of] == SEND)
    columns = (d.records[sent, n].tolist() for n in range(1, 5))
    for k, o, v, i, at, by in zip(*columns, byte[sent].tolist(), late[sent].tolist(), strict=True):
        done.value[i] = f'[["send",{k},[{o},{v}]]]'
        done.ext[i] = f'{heads[k // QUEUES][by]}"byte":{at},{tails[k // QUEUES]}'
    parts: dict[int, dict[int, tuple[int, int]]] = {}
    values, more = d.value.tolist(), answered & ~sent
    columns = (d.records[more, n].tolist() for n in range(1, 5))
    for k, o, v, i, by in zip(*columns, late[more].tolist(), strict=True):
        parts.setdefault(i, {})[v - values[i]] = (k, o)
        done.ext[i] = heads[k // QUEUES][by] + tails[k // QUEUES]
    for i, both in parts.items():
        texts = [f'["send",{k},[{o},{values[i] + n}]]' for n, (k, o) in sorted(both.items())]
        shot = q.shot(d, i)
        if shot is not None and shot.polls:
            k, o = both[0]
            texts.append(f'["poll",{{"$map":[[{k},[[{o},{values[i]}]]]]}}]')
        done.value[i] = f"[{','.join(texts)}]"


def _where(d: Draft) -> Flags:
    """Of each record whether the new master has taken it."""
    late: Flags = (d.records[:, 1] // QUEUES == d.struck) & (d.records[:, 0] > d.cut)
    return late


def _positions(q: Queues, d: Draft, elected: int) -> Ints:
    """The byte of each record in its set's log."""
    found = np.empty(len(d.records), np.int64)
    home = d.records[:, 1] // QUEUES
    for s, start in enumerate(q.bytes):
        mine = home == s
        found[mine] = start + MESSAGE_BYTES * np.arange(np.count_nonzero(mine))
        if s == d.struck:
            found[mine] += EPOCH_BYTES * (d.records[mine, 0] > elected)
    return found


def _shown(q: Queues, d: Draft, done: Answered, masters: Sequence[tuple[str, str]]) -> None:
    """Of polls."""
    polls: Ints = np.flatnonzero((d.f == POLL) & (d.type == OK))
    late = (d.key // QUEUES == d.struck) & (d.lin > d.cut)
    for k in range(q.keys):
        held, s = q.carried[k].tolist(), k // QUEUES
        first = int(q.ends[k]) - len(held)
        texts = [f"[{o},{v}]" for o, v in enumerate(held, first)]
        for n in [n for n, v in enumerate(held) if v < 0] if q.texts else ():
            texts[n] = q.message(first + n, held[n])
        hidden = q.hidden[k]
        for i in polls[d.key[polls] == k].tolist():
            a, b = int(d.from_[i]), int(d.to[i])
            if i in d.edits:
                shown = [q.message(o, v) for o, v in d.edits[i]]
            elif hidden:
                shown = [texts[o - first] for o in range(a, b) if o not in hidden]
            else:
                shown = texts[a - first : b - first]
            done.value[i] = f'[["poll",{{"$map":[[{k},[{",".join(shown)}]]]}}]]'
            end = "" if shown or a != b else f'"end":{{"$map":[[{k},{b}]]}},'
            done.ext[i] = f'"broker":"{masters[s][bool(late[i])]}",{end}"node":"b{s}"'
