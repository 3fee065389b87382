"""Locks: two clients never hold one queue's lock at a time, counted by leases.

Each key is a queue and judged alone (`lease_key`). A process is one client; after an `info` another
number, and so another client, goes on in its place. An `info` release may have given the lock back,
so it excuses; an `info` acquire may have been granted, and nobody relies on it.

Claims: L1, L2 (container-acting-master 8.5), in strict mode. No fault excuses: a broker that loses
its table in a restart must not vote until every lease that it may have given has run out.
"""

from collections import defaultdict
from collections.abc import Iterator

from checkers.api import Context, Verdict
from checkers.lease_key import Grant, Overlap, TooSoon, overlaps, too_soon
from checkers.ruling import Case, Found, rule, unreadable
from checkers.sightings import NEVER, begin_of
from checkers.story import when
from histories.history import History
from histories.observed import ACQUIRE, RELEASE, RENEW
from histories.op import HistoryError, Op
from histories.tables import node_of

REQUEST_NS = 2_000_000_000  # a broker's wait for its quorum: grants may be closer by that
ASKING = frozenset((ACQUIRE, RENEW))


class Locks:
    """The checker. See the module's text."""

    name = "locks"
    claims = ("L1", "L2")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            case = _judge(history, context)
        except HistoryError as error:
            return unreadable(self, error)
        return rule(self, history, context, case)


def grants_of(history: History) -> tuple[dict[int, list[Grant]], int]:
    """Every grant, by key and in order of completion; and how many have no known time.

    Raises:
        HistoryError: a value is no key.
    """
    grants: dict[int, list[Grant]] = defaultdict(list)
    released: dict[tuple[int, int], int] = {}  # key, process -> when it next asked to
    lost: dict[tuple[int, int], int] = {}
    untimed = 0
    for op in reversed(history.of_f(ACQUIRE, RENEW, RELEASE)):
        if not op.is_client:
            continue
        mine = (_key(history, op), int(op.process))
        if op.f == RELEASE and op.type == "invoke":
            released[mine] = op.time
        elif op.f in ASKING and op.type == "fail":
            lost[mine] = op.time
        elif op.f in ASKING and op.type == "ok":
            _, inv_ns = begin_of(history, op)
            if inv_ns < 0 or op.time < inv_ns:
                untimed += 1
                continue
            until = (released.get(mine, NEVER), lost.get(mine, NEVER))
            grants[mine[0]].append(Grant(mine[1], inv_ns, op.time, op.index, *until))
    return {key: found[::-1] for key, found in sorted(grants.items())}, untimed


def _key(history: History, op: Op) -> int:
    value = op.value
    if value is None and op.type != "invoke":
        begun = history.invocation(op)
        value = None if begun is None else begun.value
    if type(value) is not int:
        raise HistoryError(f"value of {op.index} is no key: {value!r:.100}")
    return value


def _judge(history: History, context: Context) -> Case:
    grants, untimed = grants_of(history)
    apart_ns = context.lock_lease_ns - REQUEST_NS
    case = Case()
    gaps: list[int] = []
    for key, of_key in grants.items():
        soon = too_soon(of_key, apart_ns)
        case.found += (_soon(history, key, f, apart_ns) for f in soon)
        both, gap = overlaps(of_key, context.client_lease_ns)
        case.found += (_overlap(history, key, f) for f in both)
        gaps += [] if gap is None else [gap]
    contended = sum(len({g.process for g in of_key}) > 1 for of_key in grants.values())
    case.judged = {"L1": contended, "L2": len(gaps)}
    case.counts = {
        "keys": len(grants),
        "keys-of-several-clients": contended,
        "grants": sum(map(len, grants.values())),
        "clients": len({g.process for of_key in grants.values() for g in of_key}),
        "without-time": untimed,
        "clock-margin-ns": 0,
    }
    if gaps:
        case.counts["hand-over-gap-ns-min"] = min(gaps)
    if not contended:
        case.doubts.append("no lock was granted to two clients, one after the other")
    if untimed:
        case.doubts.append(f"{untimed} grants whose time is not known")
    return case


def _soon(history: History, key: int, found: TooSoon, apart_ns: int) -> Found:
    a, b = found.a, found.b
    said = (
        f"The lock of queue {key} was granted to process {a.process} ({_told(history, a)}) and to "
        f"process {b.process} ({_told(history, b)}). The two grants are at most "
        f"{_s(found.apart_ns_max)} apart, must be {_s(apart_ns)} apart, and no release was asked "
        "for in between: a broker gave away a lock that it, or its quorum, had given already."
    )
    detail = {
        "key": key,
        "processes": [a.process, b.process],
        "apart-ns-max": found.apart_ns_max,
        "needed-ns": apart_ns,
    }
    return Found("L1", "granted-too-soon", (a.at, b.at), said, detail)


def _overlap(history: History, key: int, found: Overlap) -> Found:
    a, b = found.a, found.b
    said = (
        f"Processes {a.process} and {b.process} held the lock of queue {key} both for "
        f"{_s(found.for_ns)}: {a.process} relied on its grant ({_told(history, a)}), neither "
        f"released nor run out, when {b.process} was granted it ({_told(history, b)}). Both "
        "consume the queue, and its order is gone."
    )
    detail = {"key": key, "processes": [a.process, b.process], "for-ns": found.for_ns}
    return Found("L2", "lease-overlap", (a.at, b.at), said, detail)


def _told(history: History, grant: Grant) -> str:
    done = history[grant.at]
    return f"op {grant.at}, {', '.join(_facts(done))}"


def _facts(done: Op) -> Iterator[str]:
    yield f"{done.f} answered {when(done)}"
    node = node_of(done.ext or {})
    if node is not None:
        yield f"by {node}"


def _s(ns: int) -> str:
    return f"{ns / 1e9:.3f} s"
