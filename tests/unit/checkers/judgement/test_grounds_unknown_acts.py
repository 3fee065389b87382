"""An act of unknown effect: no claim that needs undisturbed time is judged."""

from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from cluster_recorder import set_view
from history_recorder import SECOND_NS, Recorder
from lock_service_histories import alone, expired, given_back, silent_member
from ordered_histories import (
    LOOSE,
    forgotten,
    two_brokers,
)
from pair_histories import (
    delivered,
    joined,
    masterless,
    parted,
    refused_offset,
    rejoined,
    returned,
    slave_asked,
    unread,
)
from route_histories import (
    apart,
    never_relisted,
    not_writable,
    restarted_without,
    silent_listed,
    writable,
    wrong_shown,
)
from test_availability import CONTEXT, back, headless, silent, struck
from test_consumer_offsets import failed_over
from test_delayed_messages import CONTEXT as DELAYS
from test_delayed_messages import CROSSED, again, escaped
from test_master_addresses import MOVED_AT, Seen, view
from test_needless_elections import replaced
from test_replicas import FIRST, SECOND, SENT, log, run, stored
from test_routes import SLAVE_AS_MASTER, Led, killed, lives_on
from test_service import Probing
from test_shared_processes import CONTEXT as CONTAINED
from test_shared_processes import taken_along, unlisted
from test_write_availability import master_killed

from maxq.checkers.availability.availability import Availability
from maxq.checkers.availability.service import Service
from maxq.checkers.core.api import Checker, ClaimVerdict, Context, Status, Verdict
from maxq.checkers.core.claims import CLAIMS
from maxq.checkers.core.promises import ACTS, MODE, PAIR, SHOWS
from maxq.checkers.evidence.active_faults import State
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.observations import NEVER
from maxq.checkers.evidence.quiescence import (
    Standstills,
    Undisturbed,
    after_last_heal,
    at_rest,
    lulls,
    unknown_acts,
)
from maxq.checkers.judgement.grounds import DECLARE
from maxq.checkers.judgement.runner import check_all
from maxq.checkers.locks.lock_service import LockService
from maxq.checkers.locks.locks import Locks
from maxq.checkers.locks.ordered import Ordered
from maxq.checkers.messages.consumer_offsets import Offsets
from maxq.checkers.messages.delayed import Delayed
from maxq.checkers.replication.pairs.acting import Acting
from maxq.checkers.replication.pairs.acting_service import ActingService
from maxq.checkers.replication.pairs.delay_progress import DelayProgress
from maxq.checkers.replication.pairs.pair_offsets import PairOffsets
from maxq.checkers.replication.pairs.pre_online import PreOnline
from maxq.checkers.replication.pairs.rejoining import Rejoining
from maxq.checkers.replication.replicas import Replicas
from maxq.checkers.routing.acting_routes import ActingRoutes
from maxq.checkers.routing.listings import Listings
from maxq.checkers.routing.routes import Routes
from maxq.checkers.routing.shared_processes import SharedProcesses
from maxq.checkers.routing.silent_brokers import SilentBrokers
from maxq.histories.fault_facts import GONE, Effect, FaultFacts
from maxq.histories.grounds import conclusion, declaration
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op

UNDISTURBED = [claim.id for claim in CLAIMS if claim.undisturbed]
STRANGE = "hold-breath"
OF_PAIRS = ("N12",)  # and of nothing else
ACTING_PAIR = {need.key: need.value for need in (ACTS, SHOWS)} | {MODE: PAIR}
CONTEXTS = {
    "L3": LOOSE, "L4": LOOSE, "B8": CONTAINED, "B14": CONTAINED,
    "B12": msgspec.structs.replace(DELAYS, **CROSSED),
}  # fmt: skip


def performed(f: str, node: str = "b9-9") -> list[Op]:
    """An act on a node that no claim is about, asked for and completed."""
    value = {node: {"holds": True}}
    return [Op("info", NEMESIS, f, "one"), Op("info", NEMESIS, f, value)]


def history(*ops: Op) -> History:
    return History([msgspec.structs.replace(op, index=at) for at, op in enumerate(ops)])


def after_a_strange_act(r: Recorder) -> History:
    """The same history after an unknown act."""
    return history(*performed(STRANGE), *r.ops)


def declared(r: Recorder, effect: Effect) -> History:
    """The same, the act's facts being declared: it is over with its completion."""
    facts = FaultFacts(strikes=STRANGE, effect=effect, passes=True)
    whole = (declaration((), [facts]), *performed(STRANGE), *r.ops, conclusion(stopped=False))
    return history(*whole)


# Of each claim a history that breaks it.


def refused() -> Recorder:
    r = Probing()
    for second in range(11, 36):
        r.probe(second, "refused")
    return r.waited()


def left_out() -> Recorder:
    r = back(struck(), members=(1, 2))
    r.at(51).controllers(set_view(1, 5, 1, 1, 2))
    return r


def listed_dead() -> Recorder:
    r = killed()
    r.at(19).route(id0="b0-0:1", id2="b0-1:1")
    return r


def left_off() -> Recorder:
    r = lives_on()
    r.at(42).route(id0="b0-0:1")
    r.at(43).lives(1)
    return r


def listed_as_slave() -> Recorder:
    r = Led()
    for second in (1, 22):
        r.asked(second, **SLAVE_AS_MASTER)
    r.at(30).controllers()
    return r


def displaced() -> Recorder:
    r = Led()
    r.asked(1, id0="b0-0:1", id1="b0-1:1")
    for second in (22, 23):
        r.asked(second, id0="b0-0:1", id1="b0-1:1")
    r.asked(24, **SLAVE_AS_MASTER)
    r.at(30).controllers()
    return r


def known_elsewhere() -> Recorder:
    r = Seen()
    r.at(MOVED_AT - 3).goes_on(MOVED_AT, view("b0-0:1"))
    r.fault("change-address", **{"b0-0": True})
    r.address = "x:1"
    r.goes_on(MOVED_AT + 30, view("b0-0:1"))
    return r


def another_list() -> Recorder:
    r = run()
    stored(r, 0)
    r.store(log(1, 1, 0, FIRST, SENT[0], last=False))
    r.store(log(1, 3, len(FIRST), SECOND, SENT[1]))
    return r


def lacking() -> Recorder:
    r = run()
    stored(r, 0)
    r.store(log(1, 1, 0, FIRST, SENT[0]))
    return r


BROKEN: dict[str, tuple[Callable[[], Recorder], Checker]] = {
    "S2b": (known_elsewhere, Routes()),
    "S8b": (another_list, Replicas()),
    "S9": (lacking, Replicas()),
    "S13": (refused, Service()),
    "S13b": (headless, Availability()),
    "S13d": (master_killed, Availability()),
    "S14": (left_out, Availability()),
    "S14b": (lambda: silent(""), Availability()),
    "S18": (replaced, Availability()),
    "A1": (lambda: masterless((19, "b0-1", False)), Acting()),
    "A2": (lambda: masterless((19, "b0-2", True)), Acting()),
    "A3": (lambda: masterless((40, "b0-1", True)), Acting()),
    "A5": (unread, ActingService()),
    "A6": (refused_offset, ActingService()),
    "A11": (lambda: rejoined(*[50] * 8), Rejoining()),
    "P1": (lambda: returned(listed=True), PreOnline()),
    "P2": (lambda: returned(online_at=90), PreOnline()),
    "P3": (parted, PreOnline()),
    "P7": (lambda: delivered({"1": (2, 1)}), DelayProgress()),
    "P8": (joined, PreOnline()),
    "P4": (lambda: returned(knows=1), PairOffsets()),
    "P5": (lambda: returned(knows=0), PairOffsets()),
    "P6": (lambda: slave_asked(knows=0), PairOffsets()),
    "N2": (writable, ActingRoutes()),
    "N4": (silent_listed, SilentBrokers()),
    "N5": (listed_dead, Routes()),
    "N6": (left_off, Routes()),
    "N7": (never_relisted, Listings()),
    "N8": (not_writable, ActingRoutes()),
    "N9": (apart, Listings()),
    "N10": (listed_as_slave, Routes()),
    "N11": (restarted_without, Listings()),
    "N12": (wrong_shown, SilentBrokers()),
    "N13": (displaced, Routes()),
    "L3": (forgotten, Locks()),
    "L4": (two_brokers, Ordered()),
    "L6": (silent_member, LockService()),
    "L7": (alone, LockService()),
    "L8": (expired, LockService()),
    "L9": (given_back, LockService()),
    "O1": (failed_over, Offsets()),
    "B8": (unlisted, SharedProcesses()),
    "B12": (lambda: escaped("b2"), Delayed()),
    "B14": (taken_along, SharedProcesses()),
    "E5": (again, Delayed()),
}


def test_every_claim_that_needs_undisturbed_time_has_its_history() -> None:
    assert set(BROKEN) == set(UNDISTURBED)


def verdict(claim: str, of: History) -> ClaimVerdict:
    _, checker = BROKEN[claim]
    context = msgspec.structs.replace(CONTEXT, purpose=(), eviction_ns=6 * SECOND_NS)
    if claim in OF_PAIRS:
        context = msgspec.structs.replace(context, settings=ACTING_PAIR)
    return check_all(of, [checker], CONTEXTS.get(claim, context)).claims[claim]


@pytest.mark.parametrize("claim", UNDISTURBED)
def test_a_claim_is_not_judged_after_an_unknown_act(claim: str) -> None:
    r = BROKEN[claim][0]()
    assert verdict(claim, history(*r.ops)).status == "broken"

    found = verdict(claim, after_a_strange_act(r))
    assert found.status == "not judged"
    assert "the nemesis performed hold-breath (op 0), of unknown effect" in found.why
    assert DECLARE in found.advice
    assert found.why.count("hold-breath") == 1


@pytest.mark.parametrize("claim", UNDISTURBED)
def test_it_is_judged_as_ever_where_the_run_declares_the_act(claim: str) -> None:
    r = BROKEN[claim][0]()
    assert verdict(claim, declared(r, "none")).status == "broken"


class _Says:
    """A checker that says the same of every claim."""

    name = "says"
    claims = tuple(claim.id for claim in CLAIMS)

    def __init__(self, status: Status) -> None:
        self._status = status

    def check(self, history: History, context: Context) -> Verdict:
        claim_verdicts = tuple(ClaimVerdict(claim=c, status=self._status) for c in self.claims)
        return Verdict(checker=self.name, claim_verdicts=claim_verdicts)


@pytest.mark.parametrize("status", ["kept", "no occasion", "broken", "not promised"])
def test_whatever_a_checker_says_it_is_not_kept(status: Status) -> None:
    """What was proven before the act stays broken, and what is not promised is measured."""
    results = check_all(after_a_strange_act(Recorder()), [_Says(status)], Context())
    clear = status in ("kept", "no occasion")
    assert results.of("not judged") == (
        tuple(c.id for c in CLAIMS if c.undisturbed) if clear else ()
    )
    assert set(results.of(status)) == {c.id for c in CLAIMS if not clear or not c.undisturbed}


def test_no_time_is_undisturbed_after_it() -> None:
    r = Recorder()
    r.fault(STRANGE, **{"b0-0": True})
    r.fault("stop-partition", **{"b0-0": True})
    r.fault("kill", **{"b0-1": True})
    for time in (after_last_heal(r.history), at_rest(r.history)):
        assert time.doubt == unknown_acts(r.history) != ""
    assert list(lulls(r.history)) == []
    assert [time.until for time in Undisturbed(faults(r.history)).of(["n0"])] == [0]
    assert Standstills(r.history).around(100) is None


@pytest.mark.parametrize("effect", ["cut", "disk", "none"])
def test_what_is_declared_is_what_it_says(effect: Effect) -> None:
    r = Recorder()
    facts = FaultFacts(strikes=STRANGE, effect=effect, heals=("breathe",))
    r._add("info", "run", "run", declaration((), [facts]).value, {})
    r.begin(NEMESIS, STRANGE, None)
    r.end("info", NEMESIS, STRANGE, {"b0-0": {"holds": True, "from": {"b0-1": 1}}})
    r.fault("breathe", **{"b0-0": True})
    r.fault("inspect", **{"b0-0": True})
    struck, healed = (time.state for time in lulls(r.history))
    assert bool(struck.cuts) is (effect == "cut")
    assert bool(struck.doubtful) is (effect == "disk")
    assert not healed.cuts
    assert not healed.doubtful
    assert unknown_acts(r.history) == ""
    assert Standstills(r.history).around(100) is not None


@pytest.mark.parametrize("effect", get_args(Effect))
def test_what_passes_disturbs_only_while_it_goes_on(effect: Effect) -> None:
    facts = FaultFacts(strikes=STRANGE, effect=effect, passes=True)
    h = history(declaration((), [facts]), *performed(STRANGE, "b0-0"), *performed("inspect"))
    [lull] = lulls(h)
    assert (lull.time.at, lull.state) == (2, State(frozenset(), frozenset(), frozenset()))
    for nodes, peers in ((["b0-0"], []), (["c0"], ["b0-0"])):
        found = [(time.at, time.until) for time in Undisturbed(faults(h)).of(nodes, peers)]
        whole = facts.harmless or (bool(peers) and effect in GONE)
        assert found == ([(-1, NEVER)] if whole else [(-1, 1), (2, NEVER)])
    assert [(time.at, time.until) for time in Undisturbed(faults(h)).of(["c0"])] == [(-1, NEVER)]
    assert Standstills(h).around(3) is not None


@pytest.mark.parametrize(
    "facts",
    [
        [{"strikes": STRANGE, "effect": "of a later version"}],
        [{"strikes": STRANGE}],
        [STRANGE],
        STRANGE,
    ],
)
def test_facts_of_another_shape_leave_an_act_unknown(facts: Any) -> None:
    r = Recorder()
    r._add("info", "run", "run", {"grounds": [], "faults": facts}, {})
    r.fault(STRANGE, **{"b0-0": True})
    assert "hold-breath (op 1)" in unknown_acts(r.history)


def test_several_acts_are_named_each_once() -> None:
    r = Recorder()
    for f in (*"abcdefg", "a", "kill"):
        r.fault(f, n0=True)
    assert (
        "a (op 0), b (op 2), c (op 4), d (op 6), e (op 8) and 2 more, of unknown"
        in unknown_acts(r.history)
    )
    assert after_last_heal(r.history).at_ns == (len(r.ops) - 1) * SECOND_NS
