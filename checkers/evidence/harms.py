"""One loss once: anomalies that are the same harm are one finding, with its symptoms beneath it.

Acknowledged messages that one broker lost in one term by one election, or one restart, are one
harm, however many they are; an offset that then holds another message, a replica without it, or a
reader that passes over it are symptoms of the same. Anomalies of any other kind are one finding
for each claim, name and broker set.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from maxq.checkers.core.api import Anomaly, Harm, Verdict
from maxq.checkers.evidence.culprit import Blame, Chronicle, Lost
from maxq.checkers.evidence.story import Storyteller, when
from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op

SENT = 3  # elements of what a send says of a message: what, key, value
LOCATED_MAX = 10_000  # lost messages whose sends are looked at; of the others nobody is blamed
OPS_MAX = 2_000  # indices that a harm keeps, to know its symptoms by
# What a loss looks like from elsewhere.
SYMPTOMS = frozenset(
    (
        *("lost-write", "lost-tail", "truncation", "inconsistent-offsets", "missing-in-replica"),
        *("poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll"),
        *("member-behind-confirmed", "log-diverged", "slave-ahead-of-master"),
    )
)
# What a message that one saw and another did not is a symptom of, if only a loss explains it.
BY_READERS = frozenset(("poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll"))
Group = tuple[str, str, int | None, int | None, tuple[int, ...]]


def losses(history: History, writers: Mapping[int, Sequence[str]]) -> tuple[Harm, ...]:
    """The harms that lost acknowledged messages, the greatest first.

    Args:
        history: whole, or with the operations that are `located`.
        writers: indices of the sends whose messages are lost, and by what anomalies of the
            operations that shows, as ``S6 lost-write``.
    """
    if not writers:
        return ()
    try:
        known = Chronicle(history)
    except HistoryError:  # whoever judges these answers says so
        known = None
    groups: dict[Group, list[int]] = {}
    blames: dict[Group, Blame] = {}
    looked_at = frozenset(located(writers))
    for at in sorted(writers):
        blame = None
        if known is not None and at in looked_at:
            blame = _blame(history, known, at)
        key: Group = ("", "", None, None, ())
        if blame is not None:
            fatal = None if blame.fatal is None else blame.fatal.epoch
            acts = tuple(act.begun for act in blame.every)
            key = _set(history[at]), blame.node, blame.epoch, fatal, acts
            blames[key] = blame
        groups.setdefault(key, []).append(at)
    teller = Storyteller(history)
    harms = []
    for key, lost in groups.items():
        harm = _harm(history, teller, key, lost, blames.get(key))
        shown = Counter(name for at in lost for name in writers[at])
        harms.append(msgspec.structs.replace(harm, symptoms=dict(sorted(shown.items()))))
    return tuple(sorted(harms, key=lambda h: (-h.lost, h.ops)))


def located(writers: Iterable[int]) -> list[int]:
    """The sends of lost messages that are looked at: the first ones."""
    return sorted(writers)[:LOCATED_MAX]


def _blame(history: History, known: Chronicle, at: int) -> Blame | None:
    try:
        op = history[at]
    except KeyError:
        return None
    ext = op.ext or {}
    byte = ext.get("byte")
    return known.blame(
        Lost(at, _set(op), str(ext.get("broker", "")), byte if isinstance(byte, int) else None)
    )


def _set(op: Op) -> str:
    return str((op.ext or {}).get("node", ""))


def _harm(
    history: History, teller: Storyteller, key: Group, lost: list[int], blame: Blame | None
) -> Harm:
    name, node, epoch, fatal, acts = key
    count = len(lost)
    looked_at = lost if blame is not None else []
    ends = [op for at in (*looked_at[:1], *looked_at[-1:]) if (op := _found(history, at))]
    first, last = (ends[0].time, ends[-1].time) if ends else (-1, -1)
    return Harm(
        kind="loss",
        title=f"{count:,} acknowledged {'message' if count == 1 else 'messages'} lost"
              + (f" by {node or 'a broker'}" if name else ""),
        story=_story(teller, ends, count, name, blame),
        set=name, node=node, epoch=epoch, elected=fatal, lost=count, acts=acts,
        ops=tuple(lost[:OPS_MAX]), values=_values(history, looked_at[:OPS_MAX]),
        first_ns=first, last_ns=last,
    )  # fmt: skip


def _values(history: History, writers: Sequence[int]) -> tuple[Any, ...]:
    """What sends carried, as far as they are known and carry one message each."""
    found = []
    for op in (_found(history, at) for at in writers):
        if op is None or not isinstance(op.value, list):
            continue
        for _, _, sent in (m for m in op.value if len(m) == SENT):
            found.append(sent[1] if isinstance(sent, list) else sent)
    return tuple(found)


def _found(history: History, at: int) -> Op | None:
    try:
        return history[at]
    except KeyError:
        return None


def _story(
    teller: Storyteller, ends: Sequence[Op], count: int, name: str, blame: Blame | None
) -> str:
    if blame is None or not ends:
        return "Their sends are not among the operations that were kept to tell of."
    who = blame.node or str((ends[0].ext or {}).get("broker", "a broker"))
    led = "" if blame.epoch is None else f", master of {name} in epoch {blame.epoch},"
    span = f"from {_moment(ends[0])} to {_moment(ends[-1])}" if count > 1 else _moment(ends[0])
    them = "them" if count > 1 else "it"
    text = f"{who}{led} acknowledged {them} {span}. "
    fatal = blame.fatal
    if fatal is not None:
        whom = fatal.elected or "another broker"
        seen = teller.moment(fatal.high)
        if ends[0].index > fatal.high:
            text += f"{whom} was master by then, elected in epoch {fatal.epoch}{seen}: "
            text += f"what a deposed master takes is cut off when it follows {whom}. "
        else:
            again = "again, " if whom == blame.node else ""
            again += "meanwhile, " if ends[-1].index > fatal.high else ""
            text += f"{whom} was elected {again}in epoch {fatal.epoch}{seen}, with a log that "
            text += f"ends before {them}. "
    elif blame.acts:
        text += f"Its log has {them} no more, although no later epoch begins before {them}. "
    return text + _causes(teller, blame)


def _moment(op: Op) -> str:
    return f"{when(op).removeprefix('at ')} (op {op.index})"


def _causes(teller: Storyteller, blame: Blame) -> str:
    before = [teller.act(act) for act in blame.risen if act not in blame.acts]
    rise = f"It had become master by the {'; and the '.join(before)}. " if before else ""
    if not blame.acts:
        return f"{rise}Nothing that was done to it or to controllers afterwards explains the loss."
    told = [teller.act(act) for act in blame.acts]
    return f"{rise}Blamed: the {'; and the '.join(told)}."


# Findings of all checkers.


def findings(verdicts: Sequence[Verdict], claims: Mapping[str, str]) -> tuple[Harm, ...]:
    """What a run did to its users, each once.

    Args:
        verdicts: of all checkers; their `harms` are the losses.
        claims: the status of each claim; anomalies of others than broken and unpromised ones are
            no findings.
    """
    harms = [h for v in verdicts for h in v.harms]
    symptoms: list[Counter[str]] = [Counter() for _ in harms]
    stories: list[list[str]] = [[] for _ in harms]
    rest: dict[tuple[str, str, str], list[Anomaly]] = {}
    totals: dict[str, int] = {}
    for verdict in verdicts:
        totals |= {n: c for n, c in verdict.counts.items() if n not in totals}
        for anomaly in verdict.anomalies:
            if claims.get(anomaly.claim) not in ("broken", "not promised"):
                continue
            owner = _owner(anomaly, harms)
            if owner is None:
                key = anomaly.claim, anomaly.name, str(anomaly.detail.get("set", ""))
                rest.setdefault(key, []).append(anomaly)
            else:
                own = f"{anomaly.claim} {anomaly.name}"
                symptoms[owner][own] += own not in harms[owner].symptoms
                stories[owner].append(anomaly.claim)
    told = [
        msgspec.structs.replace(
            harm,
            symptoms=_whole(harm.symptoms, symptoms[n], totals, alone=len(harms) == 1),
            at_least=_partly(symptoms[n], symptoms, totals) if len(harms) > 1 else (),
            broken=any(claims.get(c) == "broken" for c in _claims_of(harm, stories[n])),
            claims=_claims_of(harm, stories[n]),
        )
        for n, harm in enumerate(harms)
    ]
    return (*told, *_others(rest, totals, claims))


def _claims_of(harm: Harm, told: Iterable[str]) -> tuple[str, ...]:
    """The claims that a loss breaks: by what is known of each of its messages, as of many losses
    not every message is reported, and by its reported anomalies."""
    own = (name.partition(" ")[0] for name in harm.symptoms)
    return tuple(dict.fromkeys((*told, *own)))


def _owner(anomaly: Anomaly, harms: Sequence[Harm]) -> int | None:
    """The loss of which an anomaly is a symptom."""
    if anomaly.name not in SYMPTOMS:
        return None
    for number, harm in enumerate(harms):
        if symptom_of(anomaly, harm):
            return number
    if anomaly.name in BY_READERS:
        return None
    within = [n for n, h in enumerate(harms) if h.lost > OPS_MAX and _between(anomaly.ops, h)]
    return within[0] if len(within) == 1 else None


def symptom_of(anomaly: Anomaly, harm: Harm) -> bool:
    """Whether an anomaly is about some of the messages that a loss took."""
    value = anomaly.detail.get("value")
    told = value is not None and value in harm.values
    return anomaly.name in SYMPTOMS and (told or not set(anomaly.ops).isdisjoint(harm.ops))


def _between(ops: Iterable[int], harm: Harm) -> bool:
    return any(at > harm.ops[-1] for at in ops)


def _whole(
    counted: Mapping[str, int], told: Counter[str], totals: Mapping[str, int], *, alone: bool
) -> dict[str, int]:
    """All symptoms of a loss. Those of other checkers are as many as were told; where there is one
    loss it has also those that nobody told of."""
    more = {
        s: max(n, totals.get(s.partition(" ")[2], 0)) if alone else n for s, n in told.items() if n
    }
    return dict(sorted({**counted, **more}.items()))


def _partly(
    mine: Counter[str], every: Sequence[Counter[str]], totals: Mapping[str, int]
) -> tuple[str, ...]:
    """The symptoms of which others exist that nobody told of."""
    return tuple(
        name
        for name, n in mine.items()
        if n and sum(of[name] for of in every) < totals.get(name.partition(" ")[2], 0)
    )


def _others(
    rest: Mapping[tuple[str, str, str], Sequence[Anomaly]],
    totals: Mapping[str, int],
    claims: Mapping[str, str],
) -> Iterator[Harm]:
    sets = Counter((claim, name) for claim, name, _ in rest)
    for (claim, name, of), found in rest.items():
        alone = sets[claim, name] == 1
        count = max(len(found), totals.get(name, 0)) if alone else len(found)
        first = found[0]
        yield Harm(
            kind=name,
            title=f"{claim} {name}" + (f" in {of}" if of else ""),
            story=first.story,
            claims=(claim,),
            broken=claims.get(claim) == "broken",
            set=of,
            acts=first.acts,
            ops=tuple(dict.fromkeys(at for a in found for at in a.ops))[:OPS_MAX],
            values=tuple(dict.fromkeys(v for a in found for v in _concerned(a)))[:OPS_MAX],
            symptoms={f"{claim} {name}": count},
        )


def _concerned(anomaly: Anomaly) -> Sequence[Any]:
    """The messages that an anomaly is about, where it names some."""
    detail = anomaly.detail
    values = detail["values"] if "values" in detail else [detail.get("value")]
    return [v for v in values if isinstance(v, int | str)] if isinstance(values, list) else []


def plain(harms: Sequence[Harm]) -> list[dict[str, Any]]:
    """Harms for JSON."""
    return [msgspec.to_builtins(h, str_keys=True) for h in harms]


def charged(harms: Iterable[Harm]) -> dict[int, int]:
    """How many messages each act is charged with, by the index of its begin; -1: none was blamed.
    Of several that a loss is blamed on it is the last, which made it certain, so that each message
    is charged once."""
    found: Counter[int] = Counter()
    for harm in harms:
        if harm.lost:
            found[harm.acts[-1] if harm.acts else -1] += harm.lost
    return dict(found)
