"""The true state of a cluster, what its observers are answered, and what the nemesis does to it.

Broker sets of three replicas, three controllers of which ``c0`` leads, and one name server. A
replica that runs has the whole log at any time; so what a broker says of itself follows from how
far the log is at that moment, which its clients' model knows (`Ends`). A fail-over kills a master:
another member of the SyncStateSet is elected, the set grows as the others copy, the killed node is
started and becomes a member again. Times are ns, ends bytes of the commit log, ids from 1 on.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from maxq.histories.grounds import RUN
from maxq.histories.observed import (
    OBSERVE_CONTROLLER,
    OBSERVE_REPLICA,
    OBSERVE_ROUTE,
)
from maxq.histories.op import NEMESIS, Op
from maxq.workloads.generated.columns.rows import Act
from maxq.workloads.late_topics import TOPIC

REPLICAS, CONTROLLERS, OBSERVERS = 3, 3, 4
EPOCH_BYTES = 113  # of the record with which a master begins its epoch
MESSAGE_BYTES = 231
OUTAGE_NS = 1_500_000_000  # from the kill of a master until its successor takes messages
ASK_NS, ANSWER_NS = 20_000, 15_000  # from one question to the next; until its answer
READ_WRITE = 6
STRANGE_ID = 90  # from here on no broker has it
STRANGERS = 1_000_000  # processes of the thread of planted clients that come before
NAMESRV = "n0"
LEADER = "c0"
NOT_LEADER = ["CONTROLLER_NOT_LEADER", f"leader is {LEADER}"]

Ends = Callable[[int, int], int]  # number of a broker set, time -> end of its log


class State(NamedTuple):
    """What controllers hold of a set besides addresses."""

    master: int  # id
    epoch: int
    members: tuple[int, ...]  # ids, ascending
    set_epoch: int


class BrokerSet:
    """One broker set. `down` are nodes, by number; `states` all states so far, the last counts."""

    def __init__(self, number: int, first_machine: int, learners: int) -> None:
        self.number = number
        self.name = f"b{number}"
        count = REPLICAS + learners
        self.nodes = [f"{self.name}-{n}" for n in range(count)]
        self.addresses = [address(first_machine + n, 10911) for n in range(count)]
        self.learners = frozenset(range(REPLICAS, count))
        self.down: set[int] = set()
        self.epochs: list[tuple[int, int]] = [(1, 0)]
        self.states = [State(1, 1, tuple(range(1, REPLICAS + 1)), 3)]

    @property
    def state(self) -> State:
        """What controllers hold now."""
        return self.states[-1]

    @property
    def master(self) -> int:
        """The number of the node that leads."""
        return self.state.master - 1

    def change(self, **what: Any) -> None:
        """Enter the next state; each has a SyncStateSet epoch of its own."""
        self.states.append(self.state._replace(set_epoch=self.state.set_epoch + 1, **what))

    def elect(self, node: int, start: int) -> None:
        """Let another node lead, in an epoch that begins at a byte."""
        self.change(master=node + 1, epoch=self.state.epoch + 1, members=(node + 1,))
        self.epochs.append((self.state.epoch, start))

    def grow(self, but: int = -1) -> None:
        """Let every replica that runs be a member, but for one."""
        able = (n + 1 for n in range(REPLICAS) if n not in self.down and n != but)
        self.change(members=tuple(able))

    def before_election(self) -> int:
        """The number of the node that led in the epoch before."""
        now = self.state.epoch
        return next((s.master - 1 for s in reversed(self.states) if s.epoch < now), self.master)

    def successor(self) -> int:
        """Who is elected if the master goes."""
        others = [i - 1 for i in self.state.members if i - 1 not in self.down | {self.master}]
        return others[0]

    def set_view(self, state: State | None = None) -> dict[str, Any]:
        """What a controller answers."""
        s = state or self.state
        return {
            "master": s.master,
            "master_address": self.addresses[s.master - 1],
            "master_epoch": s.epoch,
            "sync_state_set": list(s.members),
            "sync_state_set_epoch": s.set_epoch,
            "replicas": {str(n + 1): a for n, a in enumerate(self.addresses)},
        }

    def replica_view(self, node: int, end: int) -> dict[str, Any]:
        """What a broker says of itself, with a log of such an end."""
        stops = [start for _, start in self.epochs[1:]] + [end]
        return {
            "node": self.nodes[node],
            "set": self.name,
            "address": self.addresses[node],
            "id": node + 1,
            "leads": node == self.master,
            "epochs": [
                [epoch, start, stop]
                for (epoch, start), stop in zip(self.epochs, stops, strict=True)
            ],
            "end": end,
            "confirmed": end,
        }

    def route(self) -> dict[str, str]:
        """What a name server answers."""
        up = [n for n in range(len(self.nodes)) if n not in self.down]
        return {("0" if n == self.master else str(n + 1)): self.addresses[n] for n in up}


def address(machine: int, port: int) -> str:
    """Of the machine of a number, from 1 on."""
    at = 16 * machine
    return f"198.18.{at >> 8}.{at & 255}:{port}"


class Sweep(NamedTuple):
    """One round of questions to every node, with positions in `acts`: controllers' answers (of the
    leader, first and last), brokers' by set and node, and the name server's."""

    acts: list[Act]
    controllers: tuple[int, int]
    replicas: dict[tuple[int, int], int]
    route: int
    over: int  # ns

    def value(self, at: int) -> dict[str, Any]:
        """What an answer says; changing it changes the answer."""
        done = self.acts[at].done
        assert_answer(done)
        found: dict[str, Any] = done.value  # type: ignore[union-attr]
        return found


def assert_answer(done: Op | None) -> None:
    """Raises:
    ValueError: a question has no answer."""
    if done is None or done.type != "ok":
        raise ValueError(f"no answer: {done}")


class Cluster:
    """All nodes.

    Args:
        sets: how many broker sets.
        learners: of each set.
        first_observer: the number of the first observer's process.
        step: how much a thread's number grows with each of its processes.
    """

    def __init__(self, sets: int, learners: int, first_observer: int, step: int) -> None:
        per_set = REPLICAS + learners
        first = 2 + CONTROLLERS
        self.sets = [BrokerSet(n, first + n * per_set, learners) for n in range(sets)]
        self.controllers = [f"c{n}" for n in range(CONTROLLERS)]
        self._first_observer = first_observer
        self._step = step
        self._asked = 0
        self._strange = 0
        self.used: set[tuple[Any, ...]] = set()  # what is planted already, where once is enough

    @property
    def brokers(self) -> list[str]:
        """The names of all."""
        return [node for s in self.sets for node in s.nodes]

    def strange_id(self) -> int:
        """An id that no broker has, another one each time."""
        self._strange += 1
        return STRANGE_ID + self._strange

    def stranger(self) -> int:
        """The process of a client that asks once."""
        self._strange += 1
        return self._step - 1 + self._step * (STRANGERS + self._strange)

    # Observers.

    def ask(self, f: str, node: str, at: int, answer: Any, *, refused: Any = None) -> Act:
        """One question to a node; without an answer it failed for a reason."""
        process = self._first_observer + self._asked % OBSERVERS
        self._asked += 1
        begun = Op("invoke", process, f, {"node": node}, time=at)
        if answer is None:
            return Act(begun, Op("fail", process, f, {"node": node}, refused, time=at + ANSWER_NS))
        return Act(begun, Op("ok", process, f, answer, time=at + ANSWER_NS))

    def ask_controllers(self, at: int) -> list[Act]:
        """All controllers, the leader last."""
        acts = [
            self.ask(OBSERVE_CONTROLLER, c, at + n * ASK_NS, None, refused=NOT_LEADER)
            for n, c in enumerate(self.controllers[1:])
        ]
        view = {"node": LEADER, "sets": {s.name: s.set_view() for s in self.sets}}
        leader_at = at + len(acts) * ASK_NS
        return [*acts, self.ask(OBSERVE_CONTROLLER, LEADER, leader_at, view)]

    def ask_replica(self, number: int, node: int, at: int, ends: Ends) -> Act:
        """One broker."""
        of_set = self.sets[number]
        if node in of_set.down:
            why = ["ConnectionRefusedError", of_set.addresses[node]]
            return self.ask(OBSERVE_REPLICA, of_set.nodes[node], at, None, refused=why)
        view = of_set.replica_view(node, ends(number, at + ANSWER_NS // 2))
        return self.ask(OBSERVE_REPLICA, of_set.nodes[node], at, view)

    def ask_route(self, at: int) -> Act:
        """The name server."""
        view = {
            "node": NAMESRV,
            "sets": {s.name: s.route() for s in self.sets},
            "perms": {TOPIC: {s.name: READ_WRITE for s in self.sets}},
        }
        return self.ask(OBSERVE_ROUTE, NAMESRV, at, view)

    def sweep(self, at: int, ends: Ends) -> Sweep:
        """Ask every node: controllers, of each set a slave, the master, the other slaves, the name
        server, and controllers again."""
        acts = self.ask_controllers(at)
        first = len(acts) - 1
        replicas: dict[tuple[int, int], int] = {}
        for s in self.sets:
            slaves = [n for n in range(len(s.nodes)) if n != s.master]
            for node in (slaves[0], s.master, *slaves[1:]):
                replicas[s.number, node] = len(acts)
                acts.append(self.ask_replica(s.number, node, at + len(acts) * ASK_NS, ends))
        route = len(acts)
        acts.append(self.ask_route(at + len(acts) * ASK_NS))
        acts += self.ask_controllers(at + len(acts) * ASK_NS)
        over = at + len(acts) * ASK_NS + ANSWER_NS
        return Sweep(acts, (first, len(acts) - 1), replicas, route, over)


# The nemesis.


def act(f: str, at: int, over: int, request: Any, proofs: Any, **asked: Any) -> Act:
    """An act of the nemesis."""
    ext = asked or None
    begun = Op("info", NEMESIS, f, request, time=at, ext=ext)
    return Act(begun, Op("info", NEMESIS, f, proofs, time=over, ext=ext))


def inspection(cluster: Cluster, at: int) -> Act:
    """The look at every broker with which a run begins."""
    sound = {node: {"holds": True, "mutant": "", "wanted": ""} for node in cluster.brokers}
    return act("inspect", at, at + 3_000_000, None, sound)


def killing(node: str, name: str, at: int, over: int, pid: int) -> Act:
    """The kill of a master."""
    proof = {"holds": True, "pid": pid, "code": -9, "port": "refused", "role": "master"}
    return act("kill", at, over, name, {node: proof}, who={"part": "master"})


def starting(node: str, name: str, at: int, over: int, pid: int) -> Act:
    """The start of a node that was killed."""
    proof = {"holds": True, "pid": pid, "code": None, "port": "open", "role": "broker"}
    return act("start", at, over, f"{name}.1", {node: proof}, who={"of": name})


def failing(node: str, name: str, at: int, over: int) -> Act:
    """A start after which the node has ended again."""
    proof = {"holds": False, "pid": 2, "code": 1, "port": "refused", "role": "broker"}
    return act("start", at, over, f"{name}.0", {node: proof}, who={"of": name})


def nobody(f: str, at: int) -> Act:
    """A heal at the end that finds nothing to heal."""
    proof = {"nobody": {"holds": True, "reason": f"nobody to {f}"}}
    return act(f, at, at + 1, f"end/{f}", proof)


def look(f: str, at: int, over: int, nodes: int, **found: Any) -> Act:
    """A look at all processes."""
    seen = {"holds": True, "crashed": {}, "excused": {}, "silent": [], "nodes": nodes, **found}
    return act(f, at, over, None, {"cluster": seen})


def ordering(of_set: BrokerSet, node: int, at: int, over: int) -> Act:
    """The order to make a node master, which it is by now."""
    s = of_set.state
    granted = {
        "set": of_set.name,
        "master": s.master,
        "master-epoch": s.epoch,
        "sync-state-set-epoch": s.set_epoch,
    }
    proof = {
        "holds": True,
        "id": node + 1,
        "answers": [0],
        "granted": granted,
        "elected": True,
        "role": "broker",
    }
    asked = {"args": {"replica": "other", "refusable": True}}
    return act("elect-master", at, over, "end/other", {of_set.nodes[node]: proof}, **asked)


def declared(grounds: Sequence[Sequence[Any]], at: int) -> Op:
    """The first operation of a history."""
    return Op("info", RUN, RUN, {"grounds": [list(g) for g in grounds]}, time=at)


def concluded(at: int) -> Op:
    """The last operation of a history."""
    return Op("info", RUN, RUN, {"stopped": False}, time=at)
