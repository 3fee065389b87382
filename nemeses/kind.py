"""What a kind of fault is: its acts, whom each may concern, what each needs, and how it is drawn.

A kind is one value of `Kind`, in a module of its own: those of Max-Q are in `maxq.nemeses.kinds`.
It lists its acts, the strikes and the heals, each with the capabilities that it needs of an
environment, and gives the rounds in which it strikes in a run of ``maxq test``. The facts that
readers of histories need are apart, as data (`maxq.histories.fault_facts`).
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec

from maxq.harness.contracts.cluster import Part
from maxq.harness.contracts.environment import Capability, Role
from maxq.harness.contracts.target import Node
from maxq.harness.schedule.format import Who
from maxq.histories.fault_facts import FaultFacts
from maxq.nemeses.bag import Bag
from maxq.nemeses.stage import Stage, Told, Verb

T = TypeVar("T")
Args = Mapping[str, Any]
Fit = Callable[[str], bool]


def anybody(stage: Stage, args: Args) -> Fit:
    """Of no node it is known that the act cannot be done to it."""
    return lambda node: True


def running(stage: Stage, args: Args) -> Fit:
    """Nodes that run."""
    return stage.up


class ActKind(NamedTuple):
    """One act: a strike, or a heal.

    Args:
        f: its name in schedules and histories.
        needs: what the environment must be able to do.
        do: does it, as ``do(stage, act, nodes, args)``, and gives the proof of each node; `act` is
            the id of the act.
        fit: which nodes it can be done to now.
        back: it brings nodes back, and where a schedule names none, all that it fits.
        rejoins: nodes that it names are heard again.
        order: it strikes nobody: an order to controllers, or a question.
        alone: it strikes a broker, and not the process or the machine that it may share.
        complaint: what of its arguments can never be done; empty if there is nothing.
        also: what the environment must be able to do beside, for its arguments.
    """

    f: str
    needs: frozenset[Capability]
    do: Callable[[Stage, str, Sequence[str], Args], Awaitable[Told]]
    fit: Callable[[Stage, Args], Fit] = anybody
    back: bool = False
    rejoins: bool = False
    order: bool = False
    alone: bool = False
    complaint: Callable[[Args, Sequence[str]], str] = lambda args, nodes: ""
    also: Callable[[Args], frozenset[Capability]] = lambda args: frozenset()


def on_each(
    contract: type[T], make: Callable[[T, Args], Verb], *, alone: bool = False
) -> Callable[[Stage, str, Sequence[str], Args], Awaitable[Told]]:
    """An act that does the same to each node, to all at once.

    Args:
        contract: what it needs of the cluster.
        make: what it does, from that and the act's arguments.
        alone: it is done to each broker of a container, and not to all at once.
    """

    async def do(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
        each = stage.each_alone if alone else stage.each
        return await each(make(stage.cluster.offers(contract), args), nodes)

    return do


class Step(NamedTuple):
    """One act of a round. `wait` is how many seconds after the step before it is done, of the first
    one after the round before; `of` is the step whose victims it concerns, -1 if it has its own."""

    f: str
    wait: float = 0.0
    who: Who = Who()
    args: dict[str, Any] = {}
    of: int = -1


ACTED_S = 12.0  # many checks of half messages, after the 3 s until a slave acts
OF_CONTROLLERS: frozenset[Part] = frozenset(
    ("controller", "controller-leader", "sync-state-set-slave")
)


class Drawing(NamedTuple):
    """What a kind draws from: a stream of its own, and the cluster that it will strike. `by_name`:
    nodes know each other by the names of their machines, so that the address of any can change.
    `releases` are those that nodes run, by the names of their targets; `lacks` is what their
    environment cannot do, of what some rounds need and others do not."""

    rng: Random
    nodes: Sequence[Node]
    by_name: bool
    releases: Sequence[str] = ()
    lacks: Collection[Capability] = ()

    @classmethod
    def of(
        cls,
        key: str,
        nodes: Sequence[Node],
        *,
        by_name: bool,
        releases: Sequence[str] = (),
        lacks: Collection[Capability] = (),
    ) -> "Drawing":
        """A drawing whose stream is keyed."""
        return cls(Random(key), nodes, by_name, releases, lacks)

    @property
    def pair(self) -> bool:
        """Whether brokers are masters and slaves without controllers."""
        return not any(Role.CONTROLLER in n.roles for n in self.nodes)

    def bag(self, parts: Sequence[Part]) -> Bag[Part]:
        """A bag of the parts that some node of the cluster can play."""
        return Bag(self.rng, [p for p in parts if not (self.pair and p in OF_CONTROLLERS)])

    def holds(self, hold_s: float) -> Bag[float]:
        """A bag of how long (s) a strike lasts that takes a node away. Without controllers it is
        mostly longer: a slave that acts has to be asked, and brokers check half messages once in a
        while."""
        return Bag(self.rng, (hold_s, *3 * (ACTED_S,)) if self.pair else (hold_s,))

    def some(self, part: str, *, majority: bool) -> int:
        """A majority, or a minority of at least one, of the brokers or controllers."""
        names = [n for n in self.nodes if Role(part) in n.roles and not n.spare]
        half = len(names) // 2
        return half + 1 if majority else max(1, (len(names) - 1) // 2)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of fault.

    Args:
        name: what a run asks for.
        about: what it does to whom, in a line.
        acts: its strikes and heals.
        rounds: the rounds in which it strikes, without end: each a strike and its heals, in order;
            None for acts that only written schedules have.
        facts: of its acts that are not in the built-in table.
        asked_only: it is not among *all* faults.
        whole: a round that does not end within the run does not begin.
        stand_in: the kind that takes its place where an environment cannot do it; without one a run
            that asks for it is refused there.
    """

    name: str
    acts: tuple[ActKind, ...]
    about: str = ""
    rounds: Callable[[Drawing], Iterator[Sequence[Step]]] | None = None
    facts: tuple[FaultFacts, ...] = ()
    asked_only: bool = False
    whole: bool = False
    stand_in: str = ""

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset[Capability]().union(*(act.needs for act in self.acts))
