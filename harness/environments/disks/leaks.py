"""Disks of machines that are in use: whose they are, and whether that process is dead.

They need no removal: the kernel detaches a disk when the last process, mount or namespace that
uses it has gone, and its image has no name. This module looks whether that is so, and `clean` frees
what should be left all the same.
"""

import os

from maxq.harness.environments.disks import kernel
from maxq.harness.environments.engine.leaks import Cleaned, this_process
from maxq.harness.environments.process_life import started

PREFIX = "maxq"


def label() -> str:
    """How the disks of this process are marked: its id, its start, and who numbers it."""
    here = this_process()
    return f"{PREFIX} {here.pid} {here.start} {here.processes}"


def of(harness: int) -> list[str]:
    """The disks of a process, in words; none are seen without root, and none are made."""
    return [f"loop device {n}" for n, words in _ours() if words[1] == str(harness)]


def clean() -> Cleaned:
    """Free the disks of processes that are dead."""
    dead, kept = _dead(), {}
    for number in dead:
        try:
            kernel.loop_off(number)
        except OSError as error:
            kept[number] = str(error)
    # The kernel keeps a device that is mounted, and frees it with its last use.
    kept |= dict.fromkeys(_dead() - kept.keys(), "it is in use")
    return Cleaned(
        removed=tuple(f"loop device {n}" for n in sorted(dead - kept.keys())),
        kept=tuple(f"loop device {n}: {why}" for n, why in sorted(kept.items())),
    )


def _dead() -> set[int]:
    here = this_process().processes
    return {n for n, words in _ours() if is_dead(words, here, started(int(words[1])))}


def is_dead(words: list[str], here: str, start: int | None) -> bool:
    """Whether the process that a label names is certainly gone; `start` is when the process began
    that has its number now, `here` who numbers this one."""
    return words[3] == here and words[2] != str(start)


def _ours() -> list[tuple[int, list[str]]]:
    if os.geteuid() != 0:
        return []
    found = [(number, text.split()) for number, text in sorted(kernel.loops().items())]
    return [(n, w) for n, w in found if len(w) == 4 and w[0] == PREFIX and w[1].isdecimal()]
