"""The oracle's view of one controller process: Raft's safety, and what the registry decides.

Raft: one leader a term; what is committed at an index is the same everywhere and for ever; a leader
has everything that is committed (leader completeness); anyone who has applied up to an index has
the same state. Registry: see `facts.Facts.decided`.

The digest of a state is the sum of those of its broker sets, so a command pays for the one set that
it names. Every `WHOLE_EVERY` commands the sum is made again: a command might have changed another.

Source: Ongaro and Ousterhout, figure 3; docs/spec/controller-ha.md 6.3.
"""

from hashlib import blake2b

import msgspec

from maxq.harness.simulation.loop import SimLoop
from maxq.harness.simulation.oracle.facts import Facts, Registered
from maxq.harness.simulation.oracle.log import DIGEST_BYTES
from maxq.reference.controller.registry import BrokerSet, Command, Registry
from maxq.reference.controller.server import Controller
from maxq.reference.raft.core import Core

WHOLE_EVERY = 256
SUM_MAX = 1 << 8 * DIGEST_BYTES

_set_of = msgspec.msgpack.Decoder(Command).decode


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def _sum(known: BrokerSet) -> int:
    """The digest of a broker set, as a number."""
    return int.from_bytes(_digest(msgspec.msgpack.encode(known)), "big")


class ControllerView:
    """One process of a controller."""

    def __init__(self, facts: Facts, name: str, loop: SimLoop, node: Controller) -> None:
        self._facts = facts
        self._name = name
        self._loop = loop
        self._node = node
        self._machine = node._machine
        self._core: Core | None = None
        self._commit = 0
        self._applied = 0  # by Raft, the newest whose state was judged
        self._led_term = 0
        self._registry: Registry | None = None  # whose digest these are
        self._sums: dict[str, int] = {}  # by broker set
        self._state = 0
        self._watch_commands()

    def look(self) -> None:
        """Judge what has changed since the last look."""
        raft = self._node._raft
        core = self._core
        if core is None:
            if raft is None or raft._core is None:
                return
            core = self._core = raft._core
            self._commit = core.log.snapshot_index
        if core.commit != self._commit:
            self._commits(core)
        if core.role == "leader" and core.term != self._led_term:
            self._leads(core)
        if raft is not None and raft._applied != self._applied:
            self._applied = raft._applied
            self._state_is(self._applied)

    # Raft.

    def _commits(self, core: Core) -> None:
        facts, log = self._facts, core.log
        for entry in log.between(max(self._commit, log.snapshot_index) + 1, core.commit):
            now = entry.term, _digest(entry.data)
            first = facts.committed.setdefault(entry.index, now)
            if first != now:
                facts.report(
                    "committed-agree", [self._name],
                    f"index {entry.index} was committed in term {first[0]}, and in term "
                    f"{entry.term} {'as something else' if first[1] != now[1] else 'again'}",
                )  # fmt: skip
        self._commit = core.commit
        facts.commit_max = max(facts.commit_max, core.commit)

    def _leads(self, core: Core) -> None:
        facts = self._facts
        self._led_term = core.term
        first = facts.leaders.setdefault(core.term, self._name)
        if first != self._name:
            facts.report("one-leader-per-term", [first, self._name],
                         f"both lead in term {core.term}")  # fmt: skip
        index = facts.commit_max
        known = facts.committed.get(index)
        if known is None or index <= core.log.snapshot_index:
            return
        if core.log.term_at(index) != known[0]:
            facts.report(
                "leader-complete", [self._name],
                f"leads in term {core.term} with {core.log.term_at(index)} at index {index}, "
                f"where term {known[0]} is committed",
            )  # fmt: skip

    # The registry.

    def _watch_commands(self) -> None:
        """Hear of every command at the instant at which it is applied: a step may apply several."""
        machine, honest = self._machine, self._machine.apply

        def apply(index: int, command: bytes) -> object:
            result = honest(index, command)
            if self._loop.alive:  # not in the step in which the process dies
                name = _set_of(command).broker_set
                self._count(name, whole=index % WHOLE_EVERY == 0)
                self._state_is(index)
                self._decided(index, name)
            return result

        machine.apply = apply  # type: ignore[method-assign,assignment]

    def _count(self, name: str, *, whole: bool = False) -> None:
        """A command has changed a broker set; `whole`: or maybe any."""
        registry = self._machine.registry
        if registry is not self._registry or whole:  # restored, or not seen yet
            self._registry = registry
            self._sums = {n: _sum(known) for n, known in registry.sets.items()}
            self._state = sum(self._sums.values()) % SUM_MAX
        elif name in registry.sets:
            now = _sum(registry.sets[name])
            self._state = (self._state - self._sums.get(name, 0) + now) % SUM_MAX
            self._sums[name] = now

    def _state_is(self, index: int) -> None:
        """The state at an index; whoever applies up to there must have the same."""
        if self._machine.registry is not self._registry:
            self._count("")
        first, whose = self._facts.states.setdefault(index, (self._state, self._name))
        if first != self._state:
            self._facts.report(
                "applied-agree", [whose, self._name], f"other states at Raft index {index}"
            )

    def _decided(self, index: int, name: str) -> None:
        if index <= self._facts.decided_index:
            return  # another controller was first, or this one replays its log
        self._facts.decided_index = index
        known, before = self._machine.registry.sets.get(name), self._facts.set_of(name).registered
        if known is None:
            return
        now = Registered(
            index=index,
            master=known.master,
            master_epoch=known.master_epoch,
            members=tuple(known.sync_state_set),
            set_epoch=known.sync_state_set_epoch,
            unclean=self._node._config.enable_elect_unclean_master
            or (before is not None and before.unclean),
        )
        if before is None or now.decision != before.decision:
            self._facts.decided(name, now)
