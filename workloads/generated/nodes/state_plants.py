"""Anomalies of a cluster's state, planted into what observers are answered.

Each changes one answer of a sweep, or adds one, so that the state goes on as it was. None where
there is no place: the state does not allow it yet, or a checker would count it once only and it is
there already.
"""

from collections.abc import Callable, Mapping
from typing import Any

from maxq.histories.observed import APPLY_ID
from maxq.histories.op import Op
from maxq.workloads.generated.asked.marks import Mark
from maxq.workloads.generated.columns.rows import Act
from maxq.workloads.generated.nodes.cluster import (
    ANSWER_NS,
    ASK_NS,
    MESSAGE_BYTES,
    BrokerSet,
    Cluster,
    Sweep,
)

MOVED_BYTES = 16


class Told:
    """A sweep to be changed, and acts that are added behind it."""

    def __init__(self, cluster: Cluster, sweep: Sweep) -> None:
        self.cluster = cluster
        self.sweep = sweep
        self.more: list[Act] = []
        self.over = sweep.over

    def controller(self, of_set: BrokerSet) -> dict[str, Any]:
        """What the leader says of a set at last."""
        view: dict[str, Any] = self.sweep.value(self.sweep.controllers[1])["sets"][of_set.name]
        return view

    def by_controller(self, of_set: BrokerSet) -> Mark:
        """The mark of a change to that."""
        return Mark(-1, acts=(self.sweep.controllers[1],), set=of_set.name)

    def broker(self, of_set: BrokerSet, node: int) -> dict[str, Any]:
        """What a broker says."""
        return self.sweep.value(self.sweep.replicas[of_set.number, node])

    def by_broker(self, of_set: BrokerSet, node: int) -> Mark:
        """The mark of a change to that."""
        return Mark(-1, acts=(self.sweep.replicas[of_set.number, node],), set=of_set.name)

    def slaves(self, of_set: BrokerSet) -> list[int]:
        """Members that answered and do not lead, in the order in which they were asked; the master
        is asked after the first of all."""
        asked = sorted((at, n) for (s, n), at in self.sweep.replicas.items() if s == of_set.number)
        barred = {of_set.master} | of_set.down | of_set.learners
        return [n for _, n in asked if n not in barred]

    def once(self, *what: Any) -> bool:
        """Whether this is asked for the first time in the history."""
        first = what not in self.cluster.used
        self.cluster.used.add(what)
        return first


State = Callable[[Told], Mark | None]


def _epoch_went_back(told: Told) -> Mark | None:
    of_set = told.cluster.sets[0]
    view = told.controller(of_set)
    view |= {"master": None, "master_address": "", "master_epoch": of_set.state.epoch - 1}
    return told.by_controller(of_set)


def _set_went_back(told: Told) -> Mark | None:
    for of_set in told.cluster.sets:
        older = of_set.states[-2:-1]
        if older and older[0].epoch == of_set.state.epoch:
            told.controller(of_set).update(of_set.set_view(older[0]))
            return told.by_controller(of_set)
    return None


def _set_forked(told: Told) -> Mark | None:
    for of_set in told.cluster.sets:
        if told.once("era", of_set.name, of_set.state.set_epoch):
            view = told.controller(of_set)
            view["sync_state_set"] = [*view["sync_state_set"], told.cluster.strange_id()]
            return told.by_controller(of_set)
    return None


def _set_forgotten(told: Told) -> Mark | None:
    for of_set in told.cluster.sets:
        if told.once("forgotten", of_set.name):
            del told.sweep.value(told.sweep.controllers[1])["sets"][of_set.name]
            return told.by_controller(of_set)
    return None


def _two_masters(told: Told) -> Mark | None:
    for of_set in told.cluster.sets:
        for node in told.slaves(of_set):
            if told.once("leads", of_set.state.epoch, of_set.nodes[node]):
                told.broker(of_set, node)["leads"] = True
                return told.by_broker(of_set, node)
    return None


def _starts_differ(told: Told) -> Mark | None:
    for of_set in told.cluster.sets:
        for node in told.slaves(of_set):
            view = told.broker(of_set, node)
            if view["leads"] or not told.once("start", of_set.name, of_set.state.epoch):
                continue
            view["epochs"][-1][1] += MOVED_BYTES
            return told.by_broker(of_set, node)
    return None


def _behind(told: Told) -> Mark | None:
    for of_set in told.cluster.sets:
        asked = told.sweep.replicas[of_set.number, of_set.master]
        for node in told.slaves(of_set):
            if told.sweep.replicas[of_set.number, node] < asked:
                continue
            confirmed = told.broker(of_set, of_set.master)["confirmed"]
            view = told.broker(of_set, node)
            end = confirmed - MESSAGE_BYTES
            if end <= of_set.epochs[-1][1] or node + 1 not in of_set.state.members:
                continue
            if not told.once("era", of_set.name, of_set.state.set_epoch):
                continue
            view |= {"end": end, "confirmed": end}
            view["epochs"][-1][2] = end
            return told.by_broker(of_set, node)
    return None


def _ahead(told: Told) -> Mark | None:
    for of_set in told.cluster.sets:
        asked = told.sweep.replicas[of_set.number, of_set.master]
        for node in told.slaves(of_set):
            if told.sweep.replicas[of_set.number, node] > asked:
                continue
            if not told.once("ahead", of_set.nodes[node], of_set.state.epoch):
                continue
            view = told.broker(of_set, node)
            end = told.broker(of_set, of_set.master)["confirmed"] + MESSAGE_BYTES
            view |= {"end": end, "confirmed": end}
            view["epochs"][-1][2] = end
            return told.by_broker(of_set, node)
    return None


def _learner(told: Told) -> Mark | None:
    for of_set in told.cluster.sets:
        for node in of_set.learners:
            if told.once("learner", of_set.nodes[node], of_set.state.epoch):
                members = of_set.state.members
                of_set.change(members=(*members, node + 1))
                told.controller(of_set).update(of_set.set_view())
                of_set.change(members=members)
                return told.by_controller(of_set)
    return None


def _duplicate_id(told: Told) -> Mark | None:
    of_set, number = told.cluster.sets[0], told.cluster.strange_id()
    process = told.cluster.stranger()
    asked = {"set": of_set.name, "code": f"maxq-{process};{number}"}
    at = told.over + ASK_NS
    done = Op("ok", process, APPLY_ID, {**asked, "id": 1}, time=at + ANSWER_NS)
    told.more.append(Act(Op("invoke", process, APPLY_ID, asked, time=at), done))
    told.over = at + ANSWER_NS + 1
    return Mark(-1, acts=(len(told.sweep.acts),), set=of_set.name)


def _id_changed(told: Told) -> Mark | None:
    of_set = told.cluster.sets[0]
    slaves = told.slaves(of_set)
    if not slaves:
        return None
    told.broker(of_set, slaves[-1])["id"] = told.cluster.strange_id()
    return told.by_broker(of_set, slaves[-1])


def _listed_twice(told: Told) -> Mark | None:
    routes = told.sweep.value(told.sweep.route)["sets"]
    for of_set in told.cluster.sets:
        for node in told.slaves(of_set):
            if told.once("twice", of_set.nodes[node]):
                routes[of_set.name]["9"] = of_set.addresses[node]
                return Mark(-1, acts=(told.sweep.route,), set=of_set.name)
    return None


STATES: Mapping[str, State] = {
    "epoch-went-back": _epoch_went_back,
    "set-forgotten": _set_forgotten,
    "sync-state-set-went-back": _set_went_back,
    "sync-state-set-forked": _set_forked,
    "two-masters": _two_masters,
    "epoch-starts-differ": _starts_differ,
    "member-behind-confirmed": _behind,
    "slave-ahead-of-master": _ahead,
    "learner-in-set": _learner,
    "duplicate-id": _duplicate_id,
    "id-changed": _id_changed,
    "address-listed-twice": _listed_twice,
}
LATER = frozenset(("sync-state-set-went-back",))  # they need that a set has failed over


# At the end, after the recovery bound.


def _not_listed(told: Told) -> Mark | None:
    routes = told.sweep.value(told.sweep.route)["sets"]
    for of_set in told.cluster.sets:
        for node in told.slaves(of_set):
            if told.once("unlisted", of_set.nodes[node]):
                del routes[of_set.name][str(node + 1)]
                return Mark(-1, acts=(told.sweep.route,), set=of_set.name)
    return None


def _not_master(told: Told) -> Mark | None:
    routes = told.sweep.value(told.sweep.route)["sets"]
    for of_set in told.cluster.sets:
        if told.once("no master", of_set.name):
            del routes[of_set.name]["0"]
            return Mark(-1, acts=(told.sweep.route,), set=of_set.name)
    return None


def _elsewhere(told: Told) -> Mark | None:
    for of_set in told.cluster.sets:
        for node in told.slaves(of_set):
            if told.once("elsewhere", of_set.nodes[node]):
                told.controller(of_set)["replicas"][str(node + 1)] = "198.18.250.9:10911"
                return told.by_controller(of_set)
    return None


def written_by_nobody(told: Told) -> Mark | None:
    """Bytes in a slave's log, before any client sends."""
    for of_set in told.cluster.sets:
        for node in told.slaves(of_set):
            if told.once("written", of_set.name):
                view = told.broker(of_set, node)
                view["end"] += MESSAGE_BYTES
                view["epochs"][-1][2] += MESSAGE_BYTES
                return told.by_broker(of_set, node)
    return None


def ghost(told: Told) -> Mark | None:
    """An id that nobody ever had, in the last answer of all."""
    of_set, number = told.cluster.sets[0], told.cluster.strange_id()
    told.controller(of_set)["replicas"][str(number)] = f"198.18.251.{number % 256}:10911"
    return told.by_controller(of_set)


SETTLED: Mapping[str, State] = {
    "living-broker-not-listed": _not_listed,
    "master-not-listed": _not_master,
    "known-elsewhere": _elsewhere,
}
