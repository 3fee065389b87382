"""Locks: a model that grants by leases is never accused; both checks equal their naive twins."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.checkers.core.api import Context
from maxq.checkers.evidence.observations import NEVER
from maxq.checkers.locks.lease_key import Grant, hold_ends, overlaps, too_soon
from maxq.checkers.locks.locks import REQUEST_NS, Locks
from maxq.checkers.locks.ordered import Read, _besides
from maxq.histories.history import History
from maxq.histories.op import Op

S = 1_000_000_000
LEASE, CLIENT_LEASE = 10, 5  # seconds
CONTEXT = Context(lock_lease_ns=LEASE * S, client_lease_ns=CLIENT_LEASE * S)
LOOSE = Context(
    lock_lease_ns=LEASE * S, client_lease_ns=CLIENT_LEASE * S,
    settings={"broker:lockInStrictMode": "false"},
)  # fmt: skip

TIMES = st.integers(0, 30)
SPANS = st.lists(st.tuples(st.integers(0, 3), TIMES, st.integers(0, 6)))  # process, begin, length


@st.composite
def grants(draw: st.DrawFn) -> list[Grant]:
    """Any grants at all; a process's own follow one another."""
    found: list[Grant] = []
    for process in range(draw(st.integers(1, 4))):
        now = draw(TIMES)
        for _ in range(draw(st.integers(0, 4))):
            inv = now + draw(st.integers(0, 4))
            ret = inv + draw(st.integers(0, 12))
            now = ret + draw(st.integers(1, 3))  # a release comes after its grant
            released = draw(st.one_of(st.just(NEVER), st.just(now)))
            lost = draw(st.one_of(st.just(NEVER), st.just(now + 1)))
            found.append(Grant(process, inv, ret, len(found), released, lost))
    return found


@settings(max_examples=300, deadline=None)
@given(grants(), st.integers(1, 12))
def test_grants_too_soon_equal_their_naive_twin(drawn: list[Grant], apart: int) -> None:
    """L1: a later grant is accused if and only if some pair of it is."""

    def legal(a: Grant, b: Grant) -> bool:
        """Whether there are instants at which both may have been granted."""
        return any(
            abs(t - u) >= apart
            or (t <= u and a.released_ns <= u)
            or (u <= t and b.released_ns <= t)
            for t in range(a.inv_ns, a.ret_ns + 1)
            for u in range(b.inv_ns, b.ret_ns + 1)
        )

    def wrong(a: Grant, b: Grant) -> bool:
        return a.process != b.process and not legal(a, b)

    ordered = sorted(drawn, key=lambda g: (g.ret_ns, g.at))
    found = too_soon(drawn, apart)
    assert {f.b.at for f in found} == {b.at for a, b in combinations(ordered, 2) if wrong(a, b)}
    assert all(wrong(f.a, f.b) for f in found)


@settings(max_examples=300, deadline=None)
@given(grants(), st.integers(1, 8))
def test_overlaps_equal_their_naive_twin(drawn: list[Grant], lease: int) -> None:
    """L2."""
    holds = sorted(
        (g for g in drawn if hold_ends(g, lease) > g.ret_ns), key=lambda g: (g.ret_ns, g.at)
    )
    naive = {
        b.at
        for a, b in combinations(holds, 2)
        if a.process != b.process and b.ret_ns < hold_ends(a, lease)
    }
    found, gap = overlaps(drawn, lease)
    assert {f.b.at for f in found} == naive
    assert (gap is not None and gap < 0) == bool(naive)


@settings(max_examples=300, deadline=None)
@given(
    grants(), st.lists(st.tuples(st.integers(1, 4), TIMES, st.integers(0, 6))), st.integers(1, 8)
)
def test_reads_beside_a_holder_equal_their_naive_twin(
    drawn: list[Grant], spans: list[tuple[int, int, int]], lease: int
) -> None:
    """L10."""
    reads = [Read(p, inv, inv + for_ns, n) for n, (p, inv, for_ns) in enumerate(spans)]
    holds = [g for g in drawn if hold_ends(g, lease) > g.ret_ns]
    naive = {
        read.at
        for read in reads
        for g in holds
        if g.process != read.process
        and g.ret_ns <= read.inv_ns
        and read.ret_ns <= hold_ends(g, lease)
    }
    found = list(_besides(drawn, reads, lease))
    assert {read.at for _, read in found} == naive
    assert all(g.process != read.process for g, read in found)


class Broker:
    """One lock, as a broker that is right keeps it; times in seconds."""

    def __init__(self) -> None:
        self.owner: int | None = None
        self.until = 0.0

    def ask(self, process: int, now: float) -> bool:
        if self.owner not in (None, process) and now <= self.until:
            return False
        self.owner, self.until = process, now + LEASE
        return True

    def release(self, process: int) -> None:
        if self.owner == process:
            self.owner = None


@st.composite
def runs(draw: st.DrawFn, *, forgets: bool = False) -> History:
    """Clients of one broker; each request takes effect at an instant, is answered or not."""
    broker = Broker()
    process = list(range(3))  # by thread
    free = [0.0] * 3
    events: list[tuple[float, int, Op]] = []
    effects: list[tuple[float, int, str, float, float, str]] = []
    for _ in range(draw(st.integers(3, 20))):
        thread = draw(st.integers(0, 2))
        f = draw(st.sampled_from(["acquire", "acquire", "renew", "release"]))
        inv = free[thread] + draw(st.integers(0, 30)) / 10 + 0.01
        at = inv + draw(st.integers(0, 15)) / 10
        ret = at + draw(st.integers(0, 15)) / 10 + 0.01
        kind = draw(st.sampled_from(["ok", "ok", "ok", "info"]))
        effects.append((at, process[thread], f, inv, ret, kind))
        free[thread] = ret
        if kind == "info":
            process[thread] += 3
    for at, who, f, inv, ret, kind in sorted(effects):
        if f == "release":
            broker.release(who)
            answer = kind
        else:
            if forgets:
                broker.owner = None
            answer = kind if broker.ask(who, at) or kind == "info" else "fail"
        begun = Op("invoke", who, f, 0, None, 0, round(inv * S))
        by = {"broker": "x:1"}
        done = Op(answer, who, f, 0, None, 0, round(ret * S), by)  # type: ignore[arg-type]
        events += [(inv, len(events), begun), (ret, len(events) + 1, done)]
    ordered = [op for _, _, op in sorted(events, key=lambda e: e[:2])]
    return History(
        Op(o.type, o.process, o.f, o.value, None, index, o.time, o.ext)
        for index, o in enumerate(ordered)
    )


@settings(max_examples=200, deadline=None)
@given(runs())
def test_a_broker_that_keeps_leases_is_never_accused(history: History) -> None:
    for context in (CONTEXT, LOOSE):
        verdict = Locks().check(history, context)
        assert not verdict.anomalies, [a.story for a in verdict.anomalies]


@settings(max_examples=200, deadline=None)
@given(runs(forgets=True))
def test_of_one_broker_that_is_not_strict_the_same_is_found(history: History) -> None:
    """L3 of one process accuses whom L1 accuses, of a broker that answers all."""
    strict, loose = (Locks().check(history, c) for c in (CONTEXT, LOOSE))
    found = {a.ops for a in loose.anomalies if a.claim == "L3"}
    assert found == {a.ops for a in strict.anomalies if a.claim == "L1"}


@settings(max_examples=200, deadline=None)
@given(runs(forgets=True))
def test_who_is_accused_was_granted_in_time_of_another(history: History) -> None:
    """A broker that forgets: each accusation names two ok grants of different processes."""
    for anomaly in Locks().check(history, CONTEXT).anomalies:
        a, b = (history[index] for index in anomaly.ops)
        assert (a.type, b.type) == ("ok", "ok")
        assert a.process != b.process
        assert abs(a.time - b.time) < LEASE * S - REQUEST_NS + 3 * S
