"""The flows whose every point is a crash: registration, change of master, truncation, logs that
are older than their epoch lists, retention, Raft.

A flow prepares a cluster, names a victim, and does one thing; from that until it is done, all that
the victim does is a point. After the crash the victim is restarted, whatever else the flow broke is
fixed, and the cluster must become whole: a master, all replicas in its SyncStateSet and level, a
message taken. Nothing that was acknowledged may be missing, every store keeps its id and none is
lost, and the oracle must have seen nothing. A node that refuses to start, naming a damaged file, is
replaced as an operator would: its store is removed; that is counted apart, and must have a reason.
Counted apart as well is a set of which a broker stays out by itself, and says why.

Times are seconds of virtual time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import msgspec

from maxq.harness.contracts.environment import Role
from maxq.harness.experiments.crash_points.arena import Arena, HeldBack, NotWhole, Refuses
from maxq.harness.simulation.crash_points import Crash, Point, loss_draws, watched_messages

DOWN_S = 0.3  # how long a victim is down
EPOCH_FILES = ("epochFileCheckpoint", "epochFileCheckpoint.bak")
Verdict = Literal["whole", "refused", "held-back", "broken"]


class Outcome(msgspec.Struct, frozen=True):
    """What came of a crash."""

    flow: str
    crash: Crash
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True, slots=True)
class Flow:
    """One thing that a cluster does.

    `prepare` brings the cluster to where it begins and returns the victim; `act` begins it; `done`
    says when it is over, and `proof` whether it was what its name says; `mend` does afterwards what
    an operator would, beside the restart of the victim.
    """

    name: str
    prepare: Callable[[Arena], str]
    act: Callable[[Arena], None]
    done: Callable[[Arena], bool]
    proof: Callable[[Arena, str], bool]
    mend: Callable[[Arena], None]
    controllers: int = 1
    brokers: int = 3
    keys: dict[str, str] = field(default_factory=dict)  # more settings of the brokers
    sync_flush: bool = True
    arena: type[Arena] = Arena

    def begun(self, crash: Crash | None) -> Arena:
        """A cluster that is to crash there."""
        return self.arena(crash, controllers=self.controllers, brokers=self.brokers,
                          keys=self.keys, sync_flush=self.sync_flush)  # fmt: skip


def nothing(arena: Arena) -> None:
    """Nothing needs to be mended."""


def start_all(arena: Arena) -> None:
    """Start whatever is down."""
    arena.start(*(name for name in arena.nodes if name not in arena.processes))


# Preparations.


def basis(arena: Arena) -> None:
    """Name servers and controllers are up, and a controller leads."""
    arena.start(*arena.of(Role.NAMESRV), *arena.of(Role.CONTROLLER))
    arena.until(lambda: arena.leader() is not None, "a controller leads")


def first_broker(arena: Arena) -> None:
    """And the first broker is master."""
    basis(arena)
    arena.start("b0-0")
    arena.until(lambda: arena.master() is not None, "the first broker is master")


def all_brokers(arena: Arena) -> str:
    """And all brokers are in sync and have some messages; returns the master."""
    first_broker(arena)
    start_all(arena)
    count = len(arena.of(Role.BROKER))
    arena.until(lambda: arena.in_sync(count) and len(arena.acked) >= 3, "all are in sync")
    return arena.master() or ""


def slaves(arena: Arena) -> list[str]:
    """The slaves in order of their ids: of equal ones the first is elected."""
    found = [n for n in arena.brokers() if n != arena.master()]
    return sorted(found, key=lambda name: arena.identity(name) or 0)


def tail_of_its_own(arena: Arena) -> str:
    """An old master, down, has messages that no other broker has; another one leads the rest."""
    old = all_brokers(arena)
    end = arena.brokers()[old]._store.end
    others = slaves(arena)
    arena.kill(*others)
    arena.until(lambda: arena.brokers()[old]._store.end > end, "a message of its own")
    arena.kill(old)
    arena.start(*others)
    acked = len(arena.acked)
    arena.until(lambda: arena.in_sync(2) and len(arena.acked) > acked, "another master")
    return old


def remove_epochs(arena: Arena) -> None:
    """Kill all brokers, and remove their epoch files."""
    arena.kill(*arena.brokers())
    for name in arena.of(Role.BROKER):
        for file in EPOCH_FILES:
            arena.world.machines[name].disk.remove(f"/{name}/store/{file}")


def unlabelled_tail(arena: Arena) -> str:
    """As `tail_of_its_own`, and no broker has an epoch list of before."""
    old = tail_of_its_own(arena)
    others = [*arena.brokers()]
    remove_epochs(arena)
    arena.start(*others)
    acked = len(arena.acked)
    arena.until(lambda: arena.in_sync(2) and len(arena.acked) > acked, "a master of the others")
    return old


def unlabelled_master(arena: Arena) -> str:
    """A master and a slave have messages that no epoch list labels; a third broker is new."""
    first_broker(arena)
    arena.start("b0-1")
    arena.until(lambda: arena.in_sync(2) and len(arena.acked) >= 3, "two are in sync")
    both = [*arena.brokers()]
    remove_epochs(arena)
    arena.start(*both)
    acked = len(arena.acked)
    arena.until(lambda: arena.in_sync(2) and len(arena.acked) > acked, "they are in sync again")
    return "b0-2"


def all_unlabelled(arena: Arena) -> str:
    """All brokers are down, slaves first, and without epoch files; returns the last master."""
    arena.old_master = all_brokers(arena)
    arena.kill(*slaves(arena))
    arena.until(lambda: arena.in_sync(1), "the master is alone")
    remove_epochs(arena)
    return arena.old_master


def long_log(arena: Arena) -> str:
    """A slave was down while the others wrote several files; returns the slave."""
    all_brokers(arena)
    behind = slaves(arena)[0]
    arena.kill(behind)
    arena.until(lambda: arena.in_sync(2) and arena.brokers()[arena.master() or ""]._store.end
                > FILES * FILE, "some files")  # fmt: skip
    return behind


def left_behind(arena: Arena) -> str:
    """And the others have lost what is old; so what that slave has is older than all they have."""
    behind = long_log(arena)
    arena.age()
    arena.until(lambda: _trimmed(arena), "old files are gone")
    return behind


def lagging_follower(arena: Arena) -> str:
    """A controller was down while the others put into a snapshot what it lacks."""
    first_broker(arena)
    behind = followers(arena)[0]
    arena.kill(behind)
    for controller in arena.controllers().values():
        compact_soon(controller)
    arena.start("b0-1")
    arena.until(lambda: arena.in_sync(2) and all(map(arena.has_snapshot, arena.controllers())),
                "a snapshot")  # fmt: skip
    return behind


def followers(arena: Arena) -> list[str]:
    """The controllers that do not lead."""
    return [name for name in arena.controllers() if name != arena.leader()]


def compact_soon(controller: object) -> None:
    """Let a controller take a snapshot after its next write."""
    controller._raft._compact_bytes = 1  # type: ignore[attr-defined]


# The flows.


def _victim(prepare: Callable[[Arena], object], choose: Callable[[Arena], str]) -> \
        Callable[[Arena], str]:  # fmt: skip
    def prepared(arena: Arena) -> str:
        prepare(arena)
        return choose(arena)

    return prepared


def _kill_master(arena: Arena) -> None:
    arena.old_master = arena.master() or ""
    arena.kill(arena.old_master)


def _new_master(arena: Arena) -> bool:
    """Another master has taken a message with the other slave."""
    return arena.master() not in (None, arena.old_master) and arena.in_sync(2) and arena.fresh()


def _designate(arena: Arena) -> None:
    arena.old_master = arena.master() or ""
    arena.ask(arena.designate(slaves(arena)[0]))


def _snapshots(arena: Arena) -> None:
    for controller in arena.controllers().values():
        compact_soon(controller)
    arena.start("b0-1")


def _trimmed(arena: Arena) -> bool:
    """The brokers that run have lost all that is old, and take messages."""
    starts = [broker._store.start for broker in arena.brokers().values()]
    return min(starts) >= FILES * FILE and arena.fresh()


def _level_controllers(arena: Arena) -> bool:
    applied = {c._raft._applied for c in arena.controllers().values() if c._raft is not None}
    return len(arena.controllers()) == 3 and len(applied) == 1 and min(applied) > 0


def _is_registered(arena: Arena, victim: str) -> bool:
    return arena.identity("b0-1") is not None


def _has_role(role: str, arena: Arena, victim: str) -> bool:
    return arena.roles(victim)[-1:] == [role]


def _was_cut(arena: Arena, victim: str) -> bool:
    return arena.logged(victim, "ha.slave.cut") > 0


def _was_compared_and_cut(arena: Arena, victim: str) -> bool:
    return _was_cut(arena, victim) and arena.logged(victim, "ha.slave.compares") > 0


def _is_third(arena: Arena, victim: str) -> bool:
    return arena.identity(victim) == 3 and arena.logged(victim, "ha.slave.compares") == 0


def _was_trimmed(arena: Arena, victim: str) -> bool:
    return arena.logged(victim, "broker.trimmed") > 0


def _began_anew(arena: Arena, victim: str) -> bool:
    return arena.brokers()[victim]._store.start >= FILES * FILE


def _has_snapshot(arena: Arena, victim: str) -> bool:
    return arena.has_snapshot(victim)


TWO: dict[str, Any] = {"brokers": 2}
FILE, FILES = 4096, 4
OLD_FILES_GO: dict[str, Any] = {"keys": {
    "mappedFileSizeCommitLog": str(FILE), "mappedFileSizeConsumeQueue": "200",
    "deleteWhen": ";".join(map(str, range(24))), "cleanResourceInterval": "200",
}}  # fmt: skip
GROUP: dict[str, Any] = {"controllers": 3, "brokers": 2}
_joined = partial(Arena.in_sync, count=2)
FLOWS: dict[str, Flow] = {
    flow.name: flow
    for flow in (
        Flow("registration", _victim(first_broker, lambda arena: "b0-1"),
             lambda arena: arena.start("b0-1"), _joined, _is_registered, nothing, **TWO),
        Flow("registration-controller", _victim(basis, lambda arena: "c0"),
             lambda arena: arena.start("b0-0", "b0-1"), _joined, _is_registered, nothing, **TWO),
        Flow("election", _victim(all_brokers, lambda arena: slaves(arena)[0]),
             _kill_master, _new_master, partial(_has_role, "master"), start_all),
        Flow("epoch-file", _victim(all_brokers, lambda arena: slaves(arena)[1]),
             _kill_master, _new_master, partial(_has_role, "slave"), start_all),
        Flow("demotion", all_brokers, _designate,
             lambda arena: arena.master() not in (None, arena.old_master) and arena.in_sync(3),
             partial(_has_role, "slave"), nothing),
        Flow("truncation", tail_of_its_own, start_all, partial(Arena.in_sync, count=3),
             _was_cut, nothing),
        Flow("unlabelled-cut", unlabelled_tail, start_all, partial(Arena.in_sync, count=3),
             _was_compared_and_cut, nothing),
        Flow("unlabelled-copy", unlabelled_master, start_all, partial(Arena.in_sync, count=3),
             _is_third, nothing),
        Flow("unlabelled-election", all_unlabelled, lambda arena: arena.start(arena.old_master),
             lambda arena: arena.master() is not None, partial(_has_role, "master"), start_all),
        Flow("retention", _victim(long_log, lambda arena: arena.master() or ""), Arena.age,
             _trimmed, _was_trimmed, start_all, **OLD_FILES_GO),
        Flow("retention-slave", left_behind, start_all, partial(Arena.in_sync, count=3),
             _began_anew, nothing, **OLD_FILES_GO),
        Flow("raft-append-leader", _victim(first_broker, lambda arena: arena.leader() or ""),
             lambda arena: arena.start("b0-1"), _joined, _is_registered, nothing, **GROUP),
        Flow("raft-append-follower", _victim(first_broker, lambda arena: followers(arena)[0]),
             lambda arena: arena.start("b0-1"), _joined, _is_registered, nothing, **GROUP),
        Flow("raft-snapshot", _victim(first_broker, lambda arena: arena.leader() or ""),
             _snapshots, _joined, _has_snapshot, nothing, **GROUP),
        Flow("raft-install", lagging_follower, start_all, _level_controllers, _has_snapshot,
             nothing, **GROUP),
    )
}  # fmt: skip


# Running them.


def record(flow: Flow) -> list[Point]:
    """Run a flow without a crash; returns its points.

    Raises:
        NotWhole: it does not do what its name says, or breaks something without any crash.
    """
    arena = flow.begun(None)
    try:
        with watched_messages(arena.points):
            victim = _run(flow, arena)
            arena.points.disarm()
            if not flow.proof(arena, victim):
                raise NotWhole(f"{flow.name} was no {flow.name}")
            flow.mend(arena)
            _judge(arena)
        return arena.points.seen
    finally:
        arena.world.close()


def perform(flow: Flow, crash: Crash) -> Outcome:
    """Run a flow, crash its victim at a point, and see what comes of it."""
    arena = flow.begun(crash)
    verdict: Verdict = "whole"
    why = ""
    try:
        with watched_messages(arena.points):
            victim = _run(flow, arena)
            # A sync that is under way at the end of the flow ends after it.
            arena.until(lambda: arena.points.fired, "the point is reached", seconds=1)
            _restart(flow, arena, victim, crash)
            try:
                _judge(arena)
            except Refuses as refusal:
                verdict, why = "refused", str(refusal)
                arena.replace(victim)
                _judge(arena)
    except HeldBack as held:
        verdict, why = "held-back", str(held)
    except (NotWhole, AssertionError) as error:
        verdict, why = "broken", f"{type(error).__name__}: {error}"
    finally:
        arena.world.close()
    return Outcome(flow.name, crash, verdict, why)


def _run(flow: Flow, arena: Arena) -> str:
    """Up to the crash, or to the end of the flow; returns the victim."""
    victim = flow.prepare(arena)
    arena.begin(victim)
    flow.act(arena)
    arena.until(lambda: flow.done(arena), flow.name)
    return victim


def _restart(flow: Flow, arena: Arena, victim: str, crash: Crash) -> None:
    machine = arena.world.machines[victim]
    if crash.loss != "kill":
        arena.oracle.lost_power(victim)
        machine.disk.power_loss(loss_draws(crash, flow.name))
    arena.sleep(DOWN_S)
    arena.points.restarted()
    arena.restart(victim)
    flow.mend(arena)


def _judge(arena: Arena) -> None:
    """Raises NotWhole if anything is not as it should be."""
    arena.become_whole()
    missing = arena.missing()
    if missing:
        raise NotWhole(f"{len(missing)} acknowledged messages are missing, first {missing[0]!r}")
    if fault := arena.id_fault():
        raise NotWhole(fault)
    if arena.oracle.anomalies:
        raise NotWhole(f"the oracle saw {arena.oracle.anomalies[0]}")
