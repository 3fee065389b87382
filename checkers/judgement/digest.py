"""The first screen of a verdict: each finding in a row of plain words.

How many, when, who had acknowledged and in which epoch, and which fault is blamed. Terminal, page,
index of runs, JUnit and pytest all show these rows, so that all say the same. Pure; times are ns
of the history.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from maxq.checkers.core.api import Anomaly, Harm
from maxq.checkers.core.titles import TITLES, titled
from maxq.checkers.evidence.acts import Act, acts_of
from maxq.checkers.evidence.harms import symptom_of
from maxq.checkers.evidence.story import concerns
from maxq.checkers.judgement.cuts import in_short
from maxq.checkers.judgement.phrases import said
from maxq.checkers.judgement.runner import Results
from maxq.checkers.judgement.stretches import ANSWERS
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_REPLICA
from maxq.histories.op import Op

NODES_MAX = 3  # nodes that a row names
ROWS_MAX, FAULTS_MAX = 50, 1000  # rows of a digest; faults that are named
NO_FAULT = "no fault came before"
ELSEWHERE = "no fault that came before struck its brokers or controllers"
NO_TIME = "when it began is unknown, and so which fault came before"
ACKNOWLEDGED_BY = "acknowledged by "
NOT_PROMISED = "not promised"
WRONG_FIRST = frozenset(("acknowledged-uncopied",))  # later operations only show it
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}:\d{1,5}\b")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, or several of one kind.

    `number` is the first one's in ``results.findings``, from 1; `found` how many anomalies it
    counts; `what` and `who` are words for people. `fault` names what is blamed, or, where nothing
    is (`blamed`), the last fault before it; of several that are blamed it is the one that made it
    certain, and so many are `earlier`. `found` counts out of `of` occasions, of a loss out of all
    acknowledged messages; 0 where their number is unknown. `after` says which election took a loss
    away. `seen_ns` is when the first of it was there. Times are -1 where none is known, and the end
    also where not all of it was reported. `known` says in words what is known of it.
    """

    number: int
    what: str
    claims: tuple[str, ...]
    broken: bool
    found: int
    of: int = 0
    start_ns: int = -1
    end_ns: int = -1
    seen_ns: int = -1
    who: str = ""
    nodes: tuple[str, ...] = ()
    epoch: int | None = None
    fault: str = NO_FAULT
    fault_ns: int = -1
    blamed: bool = False
    earlier: int = 0
    after: str = ""
    known: tuple[str, ...] = ()

    @property
    def when(self) -> str:
        """``58.47 s to 61.65 s``; empty where unknown."""
        if self.start_ns < 0:
            return ""
        first, last = self.start_ns / 1e9, self.end_ns / 1e9
        if self.end_ns < 0:
            return f"from {first:.2f} s on"
        return f"{first:.2f} s" if last - first < 0.01 else f"{first:.2f} s to {last:.2f} s"

    @property
    def share(self) -> str:
        """``of 1,624 acknowledged``, and whether it breaks nothing; empty if all is unknown."""
        unit = "acknowledged" if self.lost else "cases"
        of = f"of {self.of:,} {unit}" if self.of else ""
        return "; ".join(part for part in (of, "" if self.broken else NOT_PROMISED) if part)

    @property
    def lost(self) -> bool:
        """Whether it is a loss of acknowledged messages."""
        return self.who.startswith(ACKNOWLEDGED_BY)

    @property
    def cause(self) -> str:
        """The fault with its moment, and whether it is blamed or only came before."""
        if self.fault in (NO_FAULT, ELSEWHERE, NO_TIME):
            return self.fault
        at = f" at {self.fault_ns / 1e9:.2f} s" if self.fault_ns >= 0 else ""
        more = f", and {self.earlier} earlier" if self.earlier else ""
        before = "" if self.blamed else "none is blamed; the last before: "
        return f"{before}{self.fault}{at}{more}"

    def text(self) -> str:
        """The row as one line."""
        about = [part for part in (self.share, self.who, self.when) if part]
        cause = f"{'blamed: ' if self.blamed else ''}{self.cause}"
        return "; ".join([self.what, *about, cause, *self.known])


def unknown(anomaly: Anomaly) -> str:
    """Of nothing anything is known."""
    return ""


def digest(
    history: History, results: Results, known: Callable[[Anomaly], str] = unknown
) -> tuple[Row, ...]:
    """All findings, what is broken first, then losses, the greatest first.

    Args:
        history: that was judged, or what findings are about of it.
        results: what was found.
        known: says of an anomaly what is known of it; empty: nothing.
    """
    found = results.findings
    if not found:
        return ()
    acts = acts_of(history)
    names = brokers_by_address(history)
    anomalies = [a for v in results.verdicts for a in v.anomalies]
    rows = []
    for numbers in _alike(found):
        first = found[numbers[0]]
        ours = [a for a in anomalies if any(_of(a, found[n]) for n in numbers)]
        if first.lost:
            row = _loss(acts, first, numbers[0] + 1, results.lost.acknowledged)
            seen_as = [a for a in anomalies if symptom_of(a, first)]
            rows.append(msgspec.structs.replace(row, known=_known(seen_as, known)))
            continue
        judged = [results.claims[c] for c in first.claims if c in results.claims]
        total = max((verdict.found.get(first.kind, 0) for verdict in judged), default=0)
        occasions = max((verdict.occasions for verdict in judged), default=0)
        row = _row(history, acts, names, [found[n] for n in numbers], ours,
                   numbers[0] + 1, total, occasions)  # fmt: skip
        rows.append(msgspec.structs.replace(row, known=_known(ours, known)))
    return tuple(sorted(rows, key=lambda row: (not row.broken, row.number)))[:ROWS_MAX]


def _known(anomalies: Sequence[Anomaly], known: Callable[[Anomaly], str]) -> tuple[str, ...]:
    """What is known of a row's anomalies, of how many of them if not of all."""
    said = Counter(text for a in anomalies if (text := known(a)))
    of = len(anomalies)
    return tuple(text if n == of else f"{n:,} of {of:,} {text}" for text, n in said.most_common())


def known_lines(rows: Sequence[Row]) -> Iterator[str]:
    """What is known of findings, each text once, with the claims that it is about."""
    about: dict[str, set[str]] = {}
    for row in rows:
        for text in row.known:
            about.setdefault(text, set()).update(row.claims)
    for text, claims in about.items():
        ours = [claim for claim in TITLES if claim in claims]  # the gravest first
        graver_first = [*ours, *sorted(claims.difference(ours))]
        yield f"known: {text.removeprefix('known: ')}: {titled(graver_first)}"


def faults_in_short(history: History) -> list[str]:
    """The faults that were injected, each in a few words with its moment."""
    return [
        f"{in_short(act)} at {_struck(act) / 1e9:.2f} s"
        for act in acts_of(history)
        if act.fault.facts is None or not act.fault.facts.harmless
    ][:FAULTS_MAX]


def _alike(found: Sequence[Harm]) -> list[list[int]]:
    """Findings of one kind in one row; each loss has its own."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, harm in enumerate(found):
        key = (number,) if harm.lost else (harm.kind, harm.claims, harm.broken)
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def _of(anomaly: Anomaly, harm: Harm) -> bool:
    return (anomaly.name == harm.kind and anomaly.claim in harm.claims
            and str(anomaly.detail.get("set", "")) == harm.set)  # fmt: skip


def _loss(acts: Sequence[Act], harm: Harm, number: int, of: int) -> Row:
    plural = "message" if harm.lost == 1 else "messages"
    led = f", master of {harm.set} in epoch {harm.epoch}" if harm.epoch is not None else ""
    after = f"gone with the election of epoch {harm.elected}" if harm.elected is not None else ""
    row = Row(
        number=number,
        what=f"{harm.lost:,} acknowledged {plural} lost",
        claims=harm.claims,
        broken=harm.broken,
        found=harm.lost,
        of=of,
        start_ns=harm.first_ns,
        end_ns=harm.last_ns,
        seen_ns=harm.first_ns,
        who=f"{ACKNOWLEDGED_BY}{harm.node or 'a broker'}{led}",
        nodes=(harm.node,) if harm.node else (),
        epoch=harm.epoch,
        after=after,
    )
    return _caused(row, acts, acts, harm.acts, harm.first_ns)


def _row(
    history: History,
    acts: Sequence[Act],
    names: Mapping[str, str],
    harms: Sequence[Harm],
    anomalies: Sequence[Anomaly],
    number: int,
    total: int,
    occasions: int,
) -> Row:
    first = harms[0]
    times = [op.time for a in anomalies for op in _clients(history, a)]
    wrong_ns = max((op.time for a in anomalies[:1] for op in _clients(history, a)), default=-1)
    count = max(total, sum(sum(h.symptoms.values()) for h in harms))
    named = {n for a in anomalies for n in _named(a)}
    answered = {n for a in anomalies for n in _answered(history, a, names)} if not named else ()
    nodes = tuple(sorted(named or answered))
    epochs = [a.detail.get("epoch") for a in anomalies]
    epoch = epochs[0] if epochs and all(e == epochs[0] for e in epochs) else None
    answers = [f": {a.detail[ANSWERS]}" for a in anomalies if ANSWERS in a.detail]
    row = Row(
        number=number,
        what=said(first.kind, count) + "".join(answers[:1]),
        claims=first.claims,
        broken=first.broken,
        found=count,
        of=occasions if occasions > count else 0,
        start_ns=min(times, default=-1),
        end_ns=max(times, default=-1) if count <= len(anomalies) else -1,
        who=_example(history, anomalies, names, count)
        or ("" if named or not nodes else "answered by ") + _who(nodes, _sets(harms), epoch),
        nodes=nodes,
        epoch=epoch if isinstance(epoch, int) else None,
    )
    # What came before the first half of it alone cannot be all of its cause.
    seen_ns = row.start_ns if first.kind in WRONG_FIRST else max(row.start_ns, wrong_ns)
    row = msgspec.structs.replace(row, seen_ns=seen_ns)
    near = [act for act in acts if any(concerns(act, c, first.set) for c in first.claims)]
    return _caused(row, acts, near if not first.acts else acts, first.acts, row.seen_ns)


def _sets(harms: Sequence[Harm]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(h.set for h in harms if h.set))


def _example(
    history: History, anomalies: Sequence[Anomaly], names: Mapping[str, str], count: int
) -> str:
    """Who got what, where one thing was given to several; the first of them, of several."""
    if not anomalies:
        return ""
    first, more = anomalies[0], f"; and {count - 1:,} more" if count > 1 else ""
    owners = first.detail.get("owners")
    if isinstance(owners, list) and "id" in first.detail:
        to = " and ".join(str(owner) for owner in owners[:NODES_MAX])
        return f"id {first.detail['id']} of {first.detail.get('set')} to {to}{more}"
    if "processes" in first.detail and "key" in first.detail:
        given = [
            f"to client {op.process} by {broker}" if broker else f"to client {op.process}"
            for op in _clients(history, first)
            for broker in [_broker(op, names)]
        ]
        return f"queue {first.detail['key']}: {', '.join(given[:NODES_MAX])}{more}"
    return ""


def _who(nodes: Sequence[str], sets: Sequence[str], epoch: Any) -> str:
    of = _listed(nodes) if nodes else ""
    inside = f"broker set{'s' if len(sets) > 1 else ''} {_listed(sets)}" if sets else ""
    led = f"epoch {epoch}" if isinstance(epoch, int) else ""
    return ", ".join(part for part in (of, inside, led) if part)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NODES_MAX
    return ", ".join(names[:NODES_MAX]) + (f" and {more} more" if more > 0 else "")


def _clients(history: History, anomaly: Anomaly) -> list[Op]:
    """Its operations of clients whose time is known."""
    return [op for op in _ops(history, anomaly) if op.is_client and op.time >= 0]


def _ops(history: History, anomaly: Anomaly) -> list[Op]:
    found = []
    for at in anomaly.ops:
        try:
            found.append(history[at])
        except KeyError:
            continue
    return found


def _named(anomaly: Anomaly) -> list[str]:
    """The nodes that an anomaly says it is about."""
    detail = anomaly.detail
    named = detail.get("nodes", [detail["node"]] if "node" in detail else detail.get("owners", []))
    return [str(node) for node in named] if isinstance(named, list) else []


def _answered(history: History, anomaly: Anomaly, names: Mapping[str, str]) -> list[str]:
    """The brokers that answered its operations."""
    return [broker for op in _ops(history, anomaly) if (broker := _broker(op, names))]


def _broker(op: Op, names: Mapping[str, str]) -> str:
    address = str((op.ext or {}).get("broker", ""))
    return names.get(address, address)


def brokers_by_address(history: History) -> dict[str, str]:
    """The name of the broker at each address, as brokers said themselves."""
    found: dict[str, str] = {}
    for op in history.clients:
        if op.f == OBSERVE_REPLICA and op.type == "ok" and isinstance(op.value, dict):
            found[str(op.value.get("address"))] = str(op.value.get("node"))
    return found


def named(story: str, brokers: Mapping[str, str]) -> str:
    """A story with the names of brokers in the place of their addresses."""
    return _ADDRESS.sub(lambda match: brokers.get(match[0], match[0]), story)


def _caused(
    row: Row, acts: Sequence[Act], near: Sequence[Act], blamed: Sequence[int], at_ns: int
) -> Row:
    """The row with the faults that it is blamed on, else with the last one before of those `near`
    it."""
    by_begin = {act.begun: act for act in near}
    guilty = [by_begin[begun] for begun in blamed if begun in by_begin]
    if guilty:
        return msgspec.structs.replace(
            row, fault=in_short(guilty[-1]), fault_ns=_struck(guilty[-1]), blamed=True,
            earlier=len(guilty) - 1,
        )  # fmt: skip
    hurting = [act for act in acts if not act.fault.facts or not act.fault.facts.harmless]
    earlier = [act for act in hurting if 0 <= _struck(act) <= at_ns]
    before = [act for act in earlier if act.begun in by_begin]
    if not before:
        unknown_time = NO_TIME if hurting and at_ns < 0 else NO_FAULT
        return msgspec.structs.replace(row, fault=ELSEWHERE if earlier else unknown_time)
    last = max(before, key=_struck)
    return msgspec.structs.replace(row, fault=in_short(last), fault_ns=_struck(last))


def _struck(act: Act) -> int:
    """When it was seen to take effect, as stories say it."""
    return act.fault.begun_ns if act.fault.ended_ns is None else act.fault.ended_ns
