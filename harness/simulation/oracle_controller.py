"""The oracle's view of one controller process: Raft's safety, and what the registry decides.

Raft: one leader a term; what is committed at an index is the same everywhere and for ever; a leader
has everything that is committed (leader completeness); whoever has applied up to an index has the
same state. Registry: see `oracle_facts.Facts.decided`.

Source: Ongaro and Ousterhout, figure 3; controller-ha.md 6.3.
"""

from hashlib import blake2b

from harness.simulation.loop import SimLoop
from harness.simulation.oracle_facts import Facts, Registered
from harness.simulation.oracle_log import DIGEST_BYTES
from reference.controller.registry import BrokerSet, to_bytes
from reference.controller.server import Controller
from reference.raft.core import Core

Decision = tuple[int | None, int, tuple[int, ...], int]  # master, epoch, members, epoch of the set


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def _decision(known: BrokerSet) -> Decision:
    members = tuple(known.sync_state_set)
    return known.master, known.master_epoch, members, known.sync_state_set_epoch


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
            if not self._loop.alive:  # in the step in which the process dies
                return honest(index, command)
            before = self._decisions()
            result = honest(index, command)
            self._state_is(index)
            self._decided(index, before)
            return result

        machine.apply = apply  # type: ignore[method-assign,assignment]

    def _decisions(self) -> dict[str, Decision]:
        return {name: _decision(known) for name, known in self._machine.registry.sets.items()}

    def _state_is(self, index: int) -> None:
        """The state at an index; whoever applies up to there must have the same."""
        now = _digest(to_bytes(self._machine.registry))
        first, whose = self._facts.states.setdefault(index, (now, self._name))
        if first != now:
            self._facts.report(
                "applied-agree", [whose, self._name], f"other states at Raft index {index}"
            )

    def _decided(self, index: int, before: dict[str, Decision]) -> None:
        if index <= self._facts.decided_index:
            return  # another controller was first, or this one replays its log
        self._facts.decided_index = index
        unclean = self._node._config.enable_elect_unclean_master
        for name, now in self._decisions().items():
            if now != before.get(name):
                registered = self._facts.set_of(name).registered
                master, epoch, members, set_epoch = now
                self._facts.decided(name, Registered(
                    index=index, master=master, master_epoch=epoch, members=members,
                    set_epoch=set_epoch,
                    unclean=unclean or (registered is not None and registered.unclean),
                ))  # fmt: skip
