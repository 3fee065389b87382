"""Whom to kill, where and when: moments drawn from every phase of a short run. Pure.

A run's phase is read from what it prints and records, never guessed from a clock. A moment is a
phase and a share of its usual length, after which the victim is killed; by then the run may be a
phase further, which is what the table says.
"""

import re
from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from maxq.histories.fault_facts import AWAIT_RECOVERY, ELECT_MASTER, INSPECT

SETTING_UP, LOADING, FAULTS = "setting up", "loading", "with faults"
HEALING, READING, COLLECTING, JUDGING = "healing", "final reads", "collecting", "judging"
BEFORE, OVER = "before", "over"
PHASES = (SETTING_UP, LOADING, FAULTS, HEALING, READING, COLLECTING, JUDGING)
LENGTH_S = {SETTING_UP: 1.6, LOADING: 1.5, FAULTS: 3.0, HEALING: 1.5, READING: 1.5,
            COLLECTING: 0.4, JUDGING: 0.05}  # fmt: skip
PRINTED = (
    (re.compile(r"^starting \d+ nodes", re.M), SETTING_UP),
    (re.compile(r"^running .* with ", re.M), LOADING),
    (re.compile(r"^stopping the nodes", re.M), COLLECTING),
    (re.compile(r"^checking$", re.M), JUDGING),
    (re.compile(r"^(verdict:|error:)", re.M), OVER),
)
HARNESS, WATCHDOG, CLIENT, MACHINE, SHIM = "harness", "watchdog", "client", "machine", "shim"
AGENT, UNSHARE, BOTH = "agent", "unshare", "watchdog, harness"
DOCKER, LOCAL, USER = "docker", "local", "local-user"
# Who can be killed where, besides the harness. The watchdog cleans up in the engine, and what is
# left when it and the harness are killed in a moment is for `maxq clean`; `client` and
# `machine` are process 1 of the container of the clients and of a machine, by which faults are done
# and connections made; `shim` is what the engine holds a machine's container by. In local one agent
# holds all machines, below an `unshare`.
VICTIMS = {
    DOCKER: (WATCHDOG, BOTH, CLIENT, MACHINE, SHIM),
    LOCAL: (AGENT, UNSHARE),
    USER: (AGENT, UNSHARE),
}
HARNESS_SHARE = 0.5  # of the kills: it is what holds everything


class Recorded(msgspec.Struct, frozen=True):
    """Of a line of a history what tells the phase; the line at its end has none of these."""

    process: int | str = ""
    f: str = ""
    time: int = 0  # ns since the start of the history


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One kill: `share` is of the phase's usual length; `disks`: machines have disks of their own,
    that can lose their power; `run_seed` is of the run."""

    number: int
    world: str
    victim: str
    phase: str
    share: float
    disks: bool
    run_seed: int


def moments(seed: int, worlds: Sequence[str], *, disks: bool) -> Iterator[Moment]:
    """Endless kills: worlds and phases in turn, the rest drawn. The same for the same arguments."""
    number = 0
    while True:
        rng = Random(f"{seed}/{number}")
        world = worlds[number % len(worlds)]
        phase = PHASES[number // len(worlds) % len(PHASES)]
        # What is judged has no machines any more.
        alone = phase == JUDGING or rng.random() < HARNESS_SHARE
        yield Moment(
            number=number,
            world=world,
            victim=HARNESS if alone else rng.choice(VICTIMS[world]),
            phase=phase,
            share=round(rng.random(), 3),
            disks=disks and world != USER and rng.random() < 0.3,
            run_seed=rng.randrange(1 << 31),
        )
        number += 1


def phase_of(printed: str, ops: Sequence[Recorded], limit_ns: int) -> str:
    """In which phase a run is, or `BEFORE` all of them, or `OVER`.

    Args:
        printed: what it printed so far.
        ops: what its nemesis recorded so far.
        limit_ns: its time limit.
    """
    said = [phase for pattern, phase in PRINTED if pattern.search(printed)]
    phase = said[-1] if said else BEFORE
    return _by_history(ops, limit_ns) if phase == LOADING else phase


def _by_history(ops: Sequence[Recorded], limit_ns: int) -> str:
    """The phase of a run whose clients are at work or have been."""
    names = {op.f for op in ops}
    if ELECT_MASTER in names:
        return READING
    # The heal of what is still going on at the end comes with the time limit.
    late = [op for op in ops if op.time >= ops[0].time + limit_ns * 0.98]
    if AWAIT_RECOVERY in names or late:
        return HEALING
    return FAULTS if names - {INSPECT} else LOADING
