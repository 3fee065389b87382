"""Every file of every store, damaged in eight ways: is that noticed?

Run as ``python -m benchmarks.damaged_stores``: a simulated cluster of three controllers and three
brokers takes messages; one node is killed, one file of its store is damaged, and it starts again
while the others run. Then it refuses and names the file, or the cluster is whole: every replica has
all that was acknowledged, and the oracle saw nothing. Anything else is WRONG. Prints a line a case
and a table; exit code 1 if any is wrong.

A record of a commit log has a checksum of its body and none of what stands before and behind it (as
RocketMQ's without ``enabledAppendPropCRC``). A flip there is noticed by the checksums of the whole
log (`maxq.reference.broker.store.seals`), up to what was written last before the node was killed
(`maxq.reference.broker.store.tail`).
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import product

import click
import msgspec

from maxq.harness.contracts.environment import Role
from maxq.harness.experiments.crash_points.arena import Arena, NotWhole, Refuses
from maxq.harness.experiments.crash_points.flows import start_all
from maxq.reference.wire.message import BLANK_BYTES, MAGIC_V1, MAGIC_V2, peek

MORE_S = 3.0  # of messages under another master, between the older copy of a store and the damage
START_S = 1.0
BORN_AT = 47  # in a record: the last byte of its bornTimestamp, which nothing else depends on
Files = Mapping[str, bytes]
Damage = Callable[[bytes, bytes | None, bytes | None], bytes | None]  # of a file now, older, other


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One file, one damage, and what came of it. `said`: the refusal, or what is wrong."""

    victim: str
    file: str
    damage: str
    outcome: str
    said: str = ""


def cut(now: bytes, older: bytes | None, other: bytes | None) -> bytes | None:
    """Half of it."""
    return now[: len(now) // 2] if now else None


def emptied(now: bytes, older: bytes | None, other: bytes | None) -> bytes | None:
    """Nothing of it."""
    return b"" if now else None


def flipped(now: bytes, older: bytes | None, other: bytes | None) -> bytes | None:
    """A bit in the middle of what is written, which a file of zeros has none of."""
    end = len(now.rstrip(b"\0"))
    return now[: end // 2] + bytes([now[end // 2] ^ 4]) + now[end // 2 + 1 :] if end else None


def flipped_in_a_header(now: bytes, older: bytes | None, other: bytes | None) -> bytes | None:
    """A bit of the born time of the record in the middle; only a log has records."""
    starts = list(records(now))
    if not starts:
        return None
    at = starts[len(starts) // 2] + BORN_AT
    return now[:at] + bytes([now[at] ^ 1]) + now[at + 1 :]


def records(log: bytes) -> Iterator[int]:
    """Where the records of a log's file begin."""
    at = 0
    while at + BLANK_BYTES <= len(log):
        size, magic = peek(log, at)
        if magic not in (MAGIC_V1, MAGIC_V2):
            return
        yield at
        at += size


def of_another(now: bytes, older: bytes | None, other: bytes | None) -> bytes | None:
    """That of another node of the same role."""
    return other if other != now else None


def of_before(now: bytes, older: bytes | None, other: bytes | None) -> bytes | None:
    """As it was before another master was elected."""
    return older if older != now else None


CONTENTS: dict[str, Damage] = {
    "cut": cut,
    "emptied": emptied,
    "flipped": flipped,
    "flipped in a header": flipped_in_a_header,
    "another node's": of_another,
    "an older copy": of_before,
}
DAMAGES = (*CONTENTS, "deleted", "a folder")


def store(arena: Arena, node: str) -> dict[str, bytes]:
    """The files of a node's store, but for its lock; by path below it."""
    root = f"/{node}/store/"
    files = arena.world.machines[node].disk.files
    return {path.removeprefix(root): bytes(data) for path, data in sorted(files.items())
            if path.startswith(root) and not path.endswith("/lock")}  # fmt: skip


def ready(victim: str) -> tuple[Arena, str, Files]:
    """A whole cluster, the victim's name, killed, and its store of some time before."""
    arena = Arena(None, controllers=3, brokers=3)
    start_all(arena)
    arena.become_whole()
    older = {node: store(arena, node) for node in arena.nodes}
    arena.go_on()
    brokers, controllers = arena.of(Role.BROKER), arena.of(Role.CONTROLLER)
    before = arena.master()
    arena.ask(arena.designate(next(n for n in brokers if n != before)))
    arena.until(lambda: arena.master() not in (None, before), "another master")
    arena.sleep(MORE_S)
    arena.become_whole()
    master, leader = arena.master() or "", arena.leader() or ""
    name = {
        "master": master,
        "slave": next(n for n in brokers if n != master),
        "leader": leader,
        "follower": next(n for n in controllers if n != leader),
    }[victim]
    arena.kill(name)
    return arena, name, older[name]


def cases(victim: str) -> Iterator[tuple[str, str]]:
    """Files and damages of a victim, as far as there is such a file to damage."""
    arena, name, _ = ready(victim)
    files = store(arena, name)
    arena.world.close()
    yield from product(files, DAMAGES)


def tried(victim: str, file: str, damage: str) -> Case | None:
    """One case; None where the damage would leave the file as it is."""
    arena, name, older = ready(victim)
    try:
        if not done(arena, name, file, damage, older):
            return None
        outcome, said = came_of(arena, name, file)
    finally:
        arena.world.close()
    return Case(victim=victim, file=file, damage=damage, outcome=outcome, said=said)


def done(arena: Arena, name: str, file: str, damage: str, older: Files) -> bool:
    """Damage a file; whether that changes anything."""
    disk, path = arena.world.machines[name].disk, f"/{name}/store/{file}"
    now = bytes(disk.files[path])
    role = arena.nodes[name].role
    other = next(store(arena, n).get(file) for n in arena.of(role) if n != name)
    content = CONTENTS[damage](now, older.get(file), other) if damage in CONTENTS else b""
    if content is None:
        return False
    disk.remove(path)
    if damage in CONTENTS:
        disk.install(path, content)
    elif damage == "a folder":
        disk.install(f"{path}/file", b"")
    return True


def came_of(arena: Arena, name: str, file: str) -> tuple[str, str]:
    """Start the victim, and what came of it."""
    arena.go_on()
    arena.restart_missing(name)
    try:
        arena.sleep(START_S)  # who refuses has ended by then
        arena.become_whole()
    except Refuses as refusal:
        named = file.split("/")[0] in str(refusal)
        return ("refused" if named else "WRONG"), str(refusal)
    except NotWhole as why:  # of the disk's own errors those that name the file are refusals, too
        named = str(why).startswith(f"{name} failed: ") and f"/{name}/store/{file}" in str(why)
        return ("refused" if named else "WRONG"), str(why)
    missing, seen = arena.missing(), arena.oracle.anomalies
    if missing:
        return "WRONG", f"{len(missing)} acknowledged messages are missing"
    if seen:
        return "WRONG", f"the oracle saw {seen[0]}"
    return "whole", ""


def table(found: list[Case]) -> Iterator[str]:
    """Outcomes by file and damage, as Markdown."""
    yield f"| Node | File | {' | '.join(DAMAGES)} |"
    yield "|---|---|" + "---|" * len(DAMAGES)
    by = {(c.victim, c.file, c.damage): c.outcome for c in found}
    for victim, file in dict.fromkeys((c.victim, c.file) for c in found):
        row = [by.get((victim, file, damage), "") for damage in DAMAGES]
        yield f"| {victim} | `{file}` | {' | '.join(row)} |"


@click.command()
@click.option("--victim", multiple=True, help="only these: master, slave, leader, follower")
def main(victim: tuple[str, ...]) -> None:
    """Damage, start, and print."""
    found = []
    for name in victim or ("master", "slave", "leader", "follower"):
        for file, damage in cases(name):
            case = tried(name, file, damage)
            if case is not None:
                found.append(case)
                click.echo(f"{name}, {file}, {damage}: {case.outcome} {case.said}")
    click.echo("\n".join(table(found)))
    click.echo(", ".join(f"{n} {what}" for what, n in Counter(c.outcome for c in found).items()))
    sys.exit(any(c.outcome == "WRONG" for c in found))


if __name__ == "__main__":
    main()
