"""Epochs and ids: a registry watched by observers whose questions overlap is never accused; one
planted mistake of a registry is."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.checkers.availability.availability import Availability
from maxq.checkers.core.api import Context
from maxq.checkers.evidence.eras import eras_of
from maxq.checkers.evidence.reigns import unrest_of
from maxq.checkers.locks.locks import Locks
from maxq.checkers.replication.broker_ids import BrokerIds
from maxq.checkers.replication.epochs import Epochs
from maxq.checkers.replication.replicas import Replicas
from maxq.histories.history import History
from maxq.histories.observed import ControllerView, EpochView, ReplicaView, SetView, encoded
from maxq.histories.op import Op

IDS = (1, 2, 3)
CONTEXT = Context(broker_sets={"b0": ("b0-1", "b0-2", "b0-3")})


class Registry:
    """One broker set as controllers agree on it, and its brokers."""

    def __init__(self) -> None:
        self.epoch = self.number = 0
        self.master: int | None = None
        self.members: tuple[int, ...] = ()
        self.leads: dict[int, int] = {}  # id -> the epoch in which it believes that it leads
        self.nodes = {i: i for i in IDS}  # id -> whose it is

    def elect(self, broker_id: int, *, keep_epoch: bool = False, outside: bool = False) -> bool:
        allowed = not self.members or broker_id in self.members
        if allowed == outside:
            return False
        self.master, self.members = broker_id, (broker_id,)
        self.epoch += not keep_epoch
        self.number += 1
        self.leads[broker_id] = self.epoch  # who led before may go on in its own epoch
        return True

    def alter(self, members: tuple[int, ...], *, keep_number: bool = False) -> bool:
        new = tuple(sorted({*members, self.master or 1}))
        if self.master is None or new == self.members:
            return False
        self.members = new
        self.number += not keep_number
        return True

    def view(self) -> dict[str, Any]:
        held = SetView(
            master=self.master, master_address="x:1", master_epoch=self.epoch,
            sync_state_set=self.members, sync_state_set_epoch=self.number,
            replicas={str(i): f"x{i}:1" for i in IDS},
        )  # fmt: skip
        return encoded(ControllerView(node="c0", sets={"b0": held}))

    def broker(self, broker_id: int) -> dict[str, Any]:
        epoch = self.leads.get(broker_id, 0)
        return encoded(ReplicaView(
            node=f"b0-{self.nodes[broker_id]}", set="b0", address=f"x{broker_id}:1", id=broker_id,
            leads=epoch > 0, epochs=(EpochView(epoch, 0, 9),) if epoch else (), end=9,
            confirmed=None,
        ))  # fmt: skip


class Watch:
    """A registry and four observers, each asking one question at a time."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.ops: list[Op] = []
        self.asking: dict[int, Any] = {}  # process -> the answer, once it is decided

    def add(self, kind: Any, process: int, value: Any) -> None:
        f = "observe-controller" if process < 3 else "observe-replica"
        self.ops.append(Op(kind, process, f, value, None, len(self.ops), len(self.ops)))

    def look(self, process: int) -> None:
        """Begin; decide the answer; end: one step of a question."""
        if process not in self.asking:
            self.asking[process] = None
            self.add("invoke", process, {"node": f"c{process}"})
        elif self.asking[process] is None:
            self.asking[process] = self.answer(process)
        else:
            self.add("ok", process, self.asking.pop(process))

    def answer(self, process: int) -> dict[str, Any]:
        if process < 3:
            return self.registry.view()
        return self.registry.broker(IDS[len(self.ops) % 3])

    def ask(self, process: int) -> None:
        """One whole question, after what was open."""
        while process in self.asking:
            self.look(process)
        for _ in range(3):
            self.look(process)

    @property
    def history(self) -> History:
        return History(self.ops)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["look", "look", "look", "elect", "alter"]),
        st.integers(0, 4),
        st.sets(st.sampled_from(IDS)),
    ),
    max_size=60,
)


def watched(steps: list[tuple[str, int, set[int]]], watch: Watch | None = None) -> Watch:
    watch = watch or Watch()
    for what, n, members in steps:
        if what == "look":
            watch.look(n)
        elif what == "elect":
            watch.registry.elect(IDS[n % 3])
        else:
            watch.registry.alter(tuple(members))
    return watch


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_a_registry_that_is_right_is_never_accused(steps: list[Any]) -> None:
    watch = watched(steps)
    for checker in (Epochs(), BrokerIds()):
        verdict = checker.check(watch.history, CONTEXT)
        assert verdict.valid is not False, [a.story for a in verdict.anomalies]


@settings(max_examples=200, deadline=None)
@given(STEPS, STEPS, st.booleans())
def test_controllers_that_forgot_everything_are_never_accused_of_it(
    steps: list[Any], later: list[Any], at_once: bool
) -> None:
    """Numbers and ids begin anew; what was said before is compared with nothing."""
    watch = watched(steps)
    for process in range(3):
        watch.ask(process)
    asking = [*watch.asking]  # what was asked before is not answered after it
    watch.asking.clear()
    names = ("c0", "c1", "c2")
    for wiped in [names] if at_once else [(name,) for name in names]:
        for _ in range(2):  # begun, and completed
            proof = {name: {"holds": True} for name in wiped}
            watch.ops.append(
                Op("info", "nemesis", "wipe", proof, None, len(watch.ops), len(watch.ops))
            )
    for process in asking:
        watch.add("fail", process, {"node": "x"})
    watch.registry = Registry()
    watch.registry.nodes = {1: 2, 2: 3, 3: 1}
    watched(later, watch)
    watch.ask(0)

    found = Epochs().check(watch.history, CONTEXT)
    assert not found.anomalies, [a.story for a in found.anomalies]
    for checker in (BrokerIds(), Availability(), Replicas()):
        verdict = checker.check(watch.history, CONTEXT)
        assert verdict.valid is not False, [a.story for a in verdict.anomalies]
    wipes = eras_of(watch.history).wipes
    assert len(wipes) == (1 if at_once else 2), "two of three are most of them"
    assert not unrest_of(watch.history).led_by("b0", wipes[0].begun - 1, wipes[0].begun + 1)


@settings(max_examples=200, deadline=None)
@given(STEPS, st.sampled_from(["keep_epoch", "outside", "keep_number", "forget"]))
def test_a_planted_mistake_is_found_by_the_claim_that_it_breaks(
    steps: list[Any], mistake: str
) -> None:
    watch = watched(steps)
    r = watch.registry
    r.elect(r.members[0] if r.members else 1)
    r.alter((r.master or 1, 1 + (r.master or 1) % 3))
    watch.ask(0)
    outsider = next(i for i in IDS if i not in r.members)
    insider = next(i for i in r.members if i != r.master)
    if mistake == "keep_epoch":
        claims = {"S5"}
        assert r.elect(insider, keep_epoch=True)
    elif mistake == "outside":
        claims = {"S7"}
        assert r.elect(outsider, outside=True)
    elif mistake == "keep_number":
        claims = {"S4"}
        assert r.alter((outsider,), keep_number=True)
    else:
        claims = {"S3", "S4"}
        r.epoch, r.number = r.epoch - 1, r.number - 1
    watch.ask(0)

    verdict = Epochs().check(watch.history, CONTEXT)
    assert verdict.valid is False
    assert claims <= {a.claim for a in verdict.anomalies}


KEYS = ("node", "set", "id", "sets", "b0", "cluster", "holds", "code")
ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["b0", "b0-1", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.integers(0, 2),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
FS = (
    *("observe-controller", "observe-replica", "replica-log", "acquire", "renew", "release"),
    *("apply-id", "join", "wipe", "send", "await-recovery", "kill", "start", "leave"),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["invoke", "ok", "fail", "info"]),
            st.sampled_from([0, 1, 2, "nemesis"]),
            st.sampled_from(FS),
            ODD,
            st.integers(-1, 50),
        ),
        max_size=20,
    ),
    st.data(),
)
def test_no_checker_falls_over_an_odd_history(rows: list[Any], data: st.DataObject) -> None:
    """Shuffled operations of odd values are unknown, never a crash, whoever is asked."""
    ops = [
        Op(kind, process, f, value, None, index, time)
        for index, (kind, process, f, value, time) in enumerate(rows)
    ]
    shuffled = History(data.draw(st.permutations(ops)))
    for checker in (BrokerIds(), Epochs(), Locks(), Replicas(), Availability()):
        verdict = checker.check(shuffled, CONTEXT)
        assert verdict.valid in (True, False, "unknown")
