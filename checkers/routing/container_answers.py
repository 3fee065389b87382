"""Containers: a broker is added once, removed whole, and no neighbour notices.

Each guest is one register that operators set: it is there, it is not, or nobody knows. An answer
must be the one that fits: an addition of who is there is refused (B1), a removal of who is not
there is 211 (B2). What is seen right after an answer must fit it too: who was added is listed and
answers (B3), who was removed is neither (B4), and an addition that failed leaves nothing (B6). A
container that was ended comes back without its guest (B7). Neighbours stay listed meanwhile (B5).
A guest that was added has the messages that it had, and nobody else's (B11), also where its store
was taken to another container meanwhile.

Judged are answers while nothing happens to the brokers of the container, and nothing has happened
to a name server for as long as a recovery takes: brokers have to come back to one that was away. A
guest of which an answer is missing, or whose container may or may not have ended meanwhile, is
unknown until the next answer says what it is. That neighbours' requests succeed meanwhile is
judged with everything else that clients do.

Source: RIP-31; docs/spec/acting-master.md 2. Claims: B1 to B7, B11.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.observations import listed, shaped
from maxq.checkers.evidence.quiescence import Spans, Undisturbed
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.fault_facts import FAIL_STORE, TAMPERS
from maxq.histories.history import History
from maxq.histories.observed import ADD_BROKER, REMOVE_BROKER
from maxq.histories.op import HistoryError, Op

SUCCESS, UNKNOWN = 0, 211  # a container's answers
OPEN, REFUSED = "open", "refused"
SOON_NS = 5_000_000_000  # containers wait for a registration for 18 s and longer


class _Asked(msgspec.Struct):
    broker: str
    moved: bool = False


class _Answered(msgspec.Struct, kw_only=True):
    broker: str
    code: int
    remark: str
    listed: dict[str, tuple[str, ...]]
    ports: dict[str, str]
    beside: tuple[str, ...]
    clash: str | None = None
    held: tuple[str, ...] | None = None


class Request(NamedTuple):
    """A request about a guest, by the indices of its operations. `said` is None of one without an
    answer, which may have been carried out; `moved`: an addition that had it removed elsewhere, and
    its store brought along."""

    f: str
    begun: int
    at: int
    begun_ns: int
    took_ns: int
    moved: bool
    said: _Answered | None


class Guest(NamedTuple):
    """What a guest is before a request: there, not there, or unknown (None). `ended`: the act that
    took its container, since it was seen last; `failed`: the last addition that failed since."""

    there: bool | None = False
    ended: Fault | None = None
    failed: int = -1
    seen: Request | None = None


class Containers:
    """The checker. See the module's text."""

    name = "containers"
    claims = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B11")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            case = _judge(history, context.recovery_ns)
        except HistoryError as error:
            return unreadable(self, error)
        return rule(self, history, context, case)


def requests_of(history: History) -> dict[str, list[Request]]:
    """What was asked of each guest, in order.

    Raises:
        HistoryError: a value has another shape.
    """
    found = defaultdict[str, list[Request]](list)
    for op in history.of_f(ADD_BROKER, REMOVE_BROKER):
        if not op.is_client or op.type == "fail":
            continue
        if op.type == "invoke":
            if history.pair_index(op) < 0:
                asked = shaped(op.value, _Asked, op.index)
                request = Request(op.f, op.index, op.index, op.time, 0, asked.moved, None)
                found[asked.broker].append(request)
            continue
        found[shaped(op.value, _Asked, op.index).broker].append(_request(history, op))
    return {guest: sorted(every, key=lambda r: r.begun) for guest, every in found.items()}


def _request(history: History, op: Op) -> Request:
    said = shaped(op.value, _Answered, op.index) if op.type == "ok" else None
    begun = history.pair_index(op)
    asked = history[begun]
    moved = shaped(asked.value, _Asked, begun).moved
    return Request(op.f, begun, op.index, asked.time, op.time - asked.time, moved, said)


def _judge(history: History, settle_ns: int) -> Case:
    acts = [act for act in faults(history) if act.kind != "question"]
    times, case = Undisturbed(acts), Case(counts={"requests": 0})
    cuts = Undisturbed(act for act in acts if act.cuts)
    settled = partial(_settled, settle_ns)
    judged, asked = defaultdict[str, int](int), requests_of(history)
    answers = [r.said for every in asked.values() for r in every if r.said is not None]
    namesrvs = frozenset(ns for said in answers for ns in said.listed)
    for name, requests in sorted(asked.items()):
        case.counts["requests"] += len(requests)
        guest, beside = Guest(), _beside(requests)
        ends = [act for act in acts if beside.intersection(act.nodes) and _may_end(act)]
        for wrong in _stores(name, requests, [a for a in ends if _may_take(a)]):
            judged["B11"] += 1
            case.found += [] if wrong is None else [wrong]
        stays = not any(request.moved for request in requests)
        for request in requests:
            near = beside if stays or request.said is None else frozenset(request.said.beside)
            known, heard = times.of(namesrvs, near), cuts.of(near | namesrvs, cuts.named)
            home = beside if stays else _home(guest)
            guest = _after_acts(guest, [a for a in ends if home.intersection(a.nodes)], request)
            quiet = _quiet(times.of(near | namesrvs), request) and settled(known, request)
            if quiet and _fails(guest, request):
                # Whoever it needs may have kept it: controllers too, who are in no answer.
                quiet = settled(times.of(times.named), request)
            if request.said is not None and quiet:
                # Who has lost its group, or its controllers, leaves name servers by itself.
                before = guest.seen
                calm = before is not None and all(
                    settled(each, before, request.at) for each in (known, heard)
                )
                found = [*_broken(name, guest, request, request.said, calm=calm)]
                if before is not None and calm:
                    found += _unlisted(times, name, before, request, request.said)
                for claim, wrong in found:
                    judged[claim] += 1
                    case.found += [] if wrong is None else [wrong]
            guest = _after(guest, request)
    case.judged = dict(judged)
    return case


def _beside(requests: Sequence[Request]) -> frozenset[str]:
    """The brokers of the guest's container, where an answer says them."""
    return frozenset(node for r in requests if r.said is not None for node in r.said.beside)


def _home(guest: Guest) -> frozenset[str]:
    """The brokers of the container that a guest was seen in last; empty if that is not known."""
    seen = guest.seen
    return frozenset(() if seen is None or seen.said is None else seen.said.beside)


def _may_end(act: Fault) -> bool:
    """Whether an act may have ended or started a container; to remove a neighbour does neither."""
    if act.f in (ADD_BROKER, REMOVE_BROKER, FAIL_STORE):
        return False
    return act.may_start or act.effect == "down"


def _may_take(act: Fault) -> bool:
    """Whether an act may have taken messages of a store that had them."""
    return act.f in TAMPERS or not act.known or act.kinds.loses_unsynced(act.f)


def _stores(
    name: str, requests: Sequence[Request], takes: Sequence[Fault]
) -> Iterator[Found | None]:
    """What each reading of a guest's messages shows."""
    before, since = frozenset[str](), -1
    for request in requests:
        said = request.said
        if said is None or said.held is None:
            continue
        if any(since < act.begun < request.at for act in takes):
            before = frozenset()
        others = [m for m in said.held if m.rpartition("/")[0] != name]
        missing = sorted(before.difference(said.held))
        if others:
            why = f"was added, and has a message that was sent to another broker: {others[0]!r:.80}"
            yield _found(("B11", "neighbours-message"), name, request, why)
        elif missing:
            why = f"was added on its store, and no longer has a message that it had: {missing[0]}"
            yield _found(("B11", "guest-message-lost"), name, request, why)
        else:
            yield None
        before, since = frozenset(said.held), request.at


def _quiet(times: Spans, request: Request) -> bool:
    """Whether nothing happened to certain nodes while a request was under way."""
    span = times.at(request.begun)
    return span is not None and span.holds(request.begun, request.at)


def _settled(settle_ns: int, times: Spans, first: Request, until: int = -1) -> bool:
    """Whether nothing happened to them from so long before a request until its end, or until a
    later operation."""
    span = times.at(first.begun)
    if span is None or not span.holds(first.begun, max(first.at, until)):
        return False
    return span.at < 0 or first.begun_ns - span.at_ns >= settle_ns


def _fails(guest: Guest, request: Request) -> bool:
    """Whether it is an addition that did not come about, of who can be added. One that is refused
    soon after a restart has not waited for anybody."""
    said = request.said
    if guest.ended is not None and request.took_ns < SOON_NS:
        return False
    adds = request.f == ADD_BROKER and not guest.there
    return adds and said is not None and said.code != SUCCESS and said.clash is None


def _after_acts(guest: Guest, ends: Sequence[Fault], request: Request) -> Guest:
    """The guest before a request, after what happened to its container since the last one."""
    if request.moved and request.said is not None:  # it was removed before it was added
        return Guest(there=False)
    since = -1 if guest.seen is None else guest.seen.begun
    for act in ends:
        if act.begun > request.at or (act.ended is not None and act.ended < since):
            continue
        surely = act.done and act.ended is not None and act.ended < request.begun
        if surely and (act.brings_down or (act.passes and act.may_start)) and act.begun > since:
            guest = guest._replace(there=False, ended=act)
        elif not (surely and guest.ended is not None):  # a start of what was ended changes nothing
            guest = guest._replace(there=None, ended=None)
    return guest


def _after(guest: Guest, request: Request) -> Guest:
    """The guest after a request."""
    said = request.said
    if said is None:
        return Guest(there=None, seen=request)
    if said.code == SUCCESS:
        return Guest(there=request.f == ADD_BROKER, seen=request)
    if request.f == REMOVE_BROKER:
        there = False if said.code == UNKNOWN else None
        return guest._replace(there=there, seen=request)
    failed = request.at if said.clash is not None else guest.failed
    there = guest.there if said.clash is not None or guest.there is not False else None
    return guest._replace(there=there, failed=failed, seen=request)


def _broken(
    name: str, guest: Guest, request: Request, said: _Answered, *, calm: bool
) -> Iterator[tuple[str, Found | None]]:
    """Each claim that a request could show broken, with what it found; `calm`: nothing but it can
    have taken anybody off the name servers' lists since the request before."""
    adds, done = request.f == ADD_BROKER, said.code == SUCCESS
    if guest.there is None:
        return
    if adds and guest.there:
        yield "B1", _twice(name, guest, request, said, calm=calm)
    elif adds and said.clash is not None:
        if not done:
            yield "B6", _residue(name, request, said)
    elif adds:
        yield from _added(name, guest, request, said)
    elif guest.there:
        if done:
            yield "B4", _left(name, request, said)
        elif said.code == UNKNOWN:
            why = "could not be removed, though it was there: " + said.remark
            yield "B4", _found(("B4", "removed-in-name-only"), name, request, why)
    elif guest.ended is not None:
        yield "B7", _survivor(name, guest, request, said) if done else None
    else:
        why = f"was removed with code {said.code}, though it was not there"
        known = (
            None if said.code == UNKNOWN else _found(("B2", "absent-removed"), name, request, why)
        )
        yield "B2", known


def _added(
    name: str, guest: Guest, request: Request, said: _Answered
) -> Iterator[tuple[str, Found | None]]:
    """An addition of who was not there."""
    if said.code == SUCCESS:
        away = [ns for ns, nodes in sorted(said.listed.items()) if name not in nodes]
        silent = [f"{port} port" for port, met in sorted(said.ports.items()) if met != OPEN]
        why = f"was added, and right after it no answer came at its {listed(silent)}"
        if away:
            why = f"was added, and right after it {listed(away)} did not list it"
        broken = bool(away or silent)
        yield "B3", _found(("B3", "added-in-name-only"), name, request, why) if broken else None
        if guest.failed >= 0:
            yield "B6", None
        if guest.ended is not None:
            yield "B7", None
        return
    if guest.ended is not None:
        yield "B7", _survivor(name, guest, request, said)
    elif guest.failed >= 0:
        why = f"could not be added after an addition that failed: {said.remark}"
        yield "B6", _found(("B6", "no-room-after-failure"), name, request, why, guest.failed)
    else:
        why = f"could not be added, though it was not there: {said.remark}"
        yield "B3", _found(("B3", "added-in-name-only"), name, request, why)


def _twice(
    name: str, guest: Guest, request: Request, said: _Answered, *, calm: bool
) -> Found | None:
    """An addition of who is there: refused, and nothing changes."""
    first = -1 if guest.seen is None else guest.seen.at
    if said.code == SUCCESS:
        why = "was added, though it was there"
        return _found(("B1", "added-twice"), name, request, why, first)
    before = {} if guest.seen is None or guest.seen.said is None else guest.seen.said.listed
    gone = [ns for ns, nodes in sorted(said.listed.items())
            if calm and name in before.get(ns, ()) and name not in nodes]  # fmt: skip
    silent = said.clash is None and any(met != OPEN for met in said.ports.values())
    if not gone and not silent:
        return None
    what = f"{listed(gone)} did not list it any more" if gone else "it did not answer any more"
    why = f"was there, a second addition was refused, and right after it {what}"
    return _found(("B1", "added-twice"), name, request, why, first)


def _residue(name: str, request: Request, said: _Answered) -> Found | None:
    """What is left of an addition that failed."""
    held = [port for port, met in sorted(said.ports.items()) if met != REFUSED]
    shown = [ns for ns, nodes in sorted(said.listed.items()) if name in nodes]
    if not held and not shown:
        return None
    left = f"its {listed(held)} port is taken" if held else f"{listed(shown)} lists it"
    why = f"could not be added ({said.remark}), and right after it {left}"
    return _found(("B6", "failed-add-remains"), name, request, why)


def _left(name: str, request: Request, said: _Answered) -> Found | None:
    """What is left of a broker that was removed."""
    shown = [ns for ns, nodes in sorted(said.listed.items()) if name in nodes]
    held = [port for port, met in sorted(said.ports.items()) if met != REFUSED]
    if not held and not shown:
        return None
    left = f"{listed(shown)} lists it" if shown else f"its {listed(held)} port answers"
    return _found(("B4", "removed-in-name-only"), name, request, f"was removed, and then {left}")


def _survivor(name: str, guest: Guest, request: Request, said: _Answered) -> Found:
    act, before = ("", -1) if guest.ended is None else (guest.ended.f, guest.ended.begun)
    how = f"{act} of its container (op {before})"
    why = f"was in its container again after {how}, which starts with the brokers of its file alone"
    return _found(("B7", "added-survives"), name, request, why, before)


def _unlisted(
    times: Undisturbed, name: str, before: Request, request: Request, said: _Answered
) -> Iterator[tuple[str, Found | None]]:
    """Which neighbours a name server listed at the last request and does not list after this one,
    where nothing happened to them since."""
    if before.said is None:
        return
    for ns, nodes in sorted(said.listed.items()):
        others = [n for n in before.said.listed.get(ns, ()) if n in said.beside]
        span = times.of([*others, *said.listed]).at(before.begun)
        if span is None or not span.holds(before.begun, request.at):
            continue
        gone = [n for n in others if n not in nodes]
        what = "removed" if request.f == REMOVE_BROKER else "added"
        why = f"was to be {what}, and right after it {ns} did not list {listed(gone)} any more"
        wrong = _found(("B5", "neighbour-unlisted"), name, request, why, before.at)
        yield "B5", wrong if gone else None


def _found(what: tuple[str, str], name: str, request: Request, why: str, before: int = -1) -> Found:
    ops = tuple(op for op in (before, request.begun, request.at) if op >= 0)
    said = request.said
    detail = {
        "broker": name, "request": request.f, "code": None if said is None else said.code,
        "listed": {} if said is None else {ns: list(n) for ns, n in sorted(said.listed.items())},
        "ports": {} if said is None else dict(sorted(said.ports.items())),
    }  # fmt: skip
    return Found(*what, ops, f"Broker {name} {why} (op {request.at}).", detail)
