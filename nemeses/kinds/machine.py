"""Clock, disk, delay, loss: what can happen to a machine while its node runs on.

    bump-clock        offset_ms; drift_ppm (microseconds more each second), in the simulator only
    reset-clock
    start-disk-fault  full, frozen: true; sync_ms: how long a sync takes; misread: the path of a
                      file, below the store, of which a bit is read as another, and `bit`: which,
                      counted from its beginning; not drawn
    stop-disk-fault
    start-delay       packets between the node and others are late: ms (longer than else),
                      jitter_ms (give or take so many, of `ms` at most), kb_s (no more than so many
                      kB, 1,000 bytes, come in a second on each connection; not in the simulator);
                      from: which others (`maxq.nemeses.peers`; the default: all); ways: ``in``
                      (packets to the node, the default), ``out``, ``both``; ports: ``all`` (the
                      default), ``ha``, ``raft``, ``remoting``
    stop-delay
    start-packet-loss percent (1 to 99) of the packets between the node and others are lost;
                      from: which others (`maxq.nemeses.peers`; the default: all);
                      ways: ``both`` (the default), ``in`` (only packets to the node), ``out``
                      (only packets from it); ports, as of start-delay: with any but ``all``
                      percent may be 100, which cuts these connections alone
    stop-packet-loss

A full, frozen or misreading disk may end its node: that is the fault's doing. No store is wiped for
it: a disk that takes nothing, or gives other bytes than it has, damages nothing, and a node that
does not start on it when it is sound again has a bug.

A loss stands beside partitions: its heal ends no cut, and no heal of a cut ends it. Clients lose
nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, get_args

from maxq.harness.contracts.cluster import (
    ClockShifting,
    Direction,
    DiskBreaking,
    Part,
)
from maxq.harness.contracts.environment import Capability, Misread
from maxq.harness.contracts.ways import Delayable, Lossy
from maxq.nemeses.bag import Bag
from maxq.nemeses.kind import ActKind, Args, Drawing, Fit, Kind, Step, on_each
from maxq.nemeses.kinds.process import held, one_of
from maxq.nemeses.peers import REST, complaint, no_ports, peers_of
from maxq.nemeses.stage import Stage, Told

# What a heal is for (`Ailing.ailments`).
CLOCK_AILS = frozenset({"clock"})
DISK_AILS = frozenset({"slow-disk", "frozen-disk", "full-disk", "misreading-disk"})
STRUCK: tuple[Part, ...] = ("master", "master", "slave", "controller-leader")
OFFSET_MS_MAX = 100 * 365 * 24 * 3_600_000
DRIFT_PPM_MAX = 500_000  # half a second each second
LASTS_MS_MAX = 3_600_000
DELAY_MAXIMA = {"ms": LASTS_MS_MAX, "jitter_ms": LASTS_MS_MAX, "kb_s": 10_000}
HELD_S = 5.0
LOSSY_S = 10.0  # so that TCP, which sends again after 0.2, 0.6, 1.4 and 3 s, may miss a heartbeat
CLOCKS: tuple[dict[str, Any], ...] = (
    {"offset_ms": 3_600_000}, {"offset_ms": 30_000}, {"drift_ppm": 50_000},
)  # fmt: skip
DISKS: tuple[dict[str, Any], ...] = ({"sync_ms": 1_000}, {"frozen": True}, {"full": True})
LOSSES: tuple[dict[str, Any], ...] = (
    {"percent": 5}, {"percent": 20}, {"percent": 50}, {"percent": 50, "ways": "in"},
    {"percent": 50, "ways": "out"},
)  # fmt: skip
DELAYS: tuple[dict[str, Any], ...] = (
    {"ms": 50}, {"ms": 500}, {"ms": 2_000}, {"kb_s": 100},
    {"ms": 200, "jitter_ms": 50, "kb_s": 1_000, "ways": "both"},
)  # fmt: skip


def _ailing(ailments: frozenset[str]) -> Callable[[Stage, Args], Fit]:
    return lambda stage, args: lambda node: bool(ailments & stage.ailments(node))


def _misread(args: Args) -> Misread | None:
    path = args.get("misread")
    return None if path is None else Misread(path, args["bit"])


def _no_misread(args: Args, nodes: Sequence[str]) -> str:
    path, bit = args.get("misread"), args.get("bit")
    if path is None and bit is None:
        return ""
    if isinstance(path, str) and path and isinstance(bit, int) and bit >= 0:
        return ""
    return f"misread needs the path of a file and a bit of it, not {path!r} and {bit!r}"


def _drifting(args: Args) -> frozenset[Capability]:
    return frozenset({Capability.DRIFT} if args.get("drift_ppm") else ())


def _rounds(
    strike: str,
    heal: str,
    ways: Sequence[dict[str, Any]],
    hold_s: float = HELD_S,
    also: Callable[[Args], frozenset[Capability]] = lambda args: frozenset(),
) -> Callable[[Drawing], Iterator[Sequence[Step]]]:
    def rounds(drawing: Drawing) -> Iterator[Sequence[Step]]:
        can = [args for args in ways if not also(args) & set(drawing.lacks)]
        parts, how = drawing.bag(STRUCK), Bag(drawing.rng, can)
        while True:
            yield held(Step(strike, who=one_of(parts), args=how.next()), heal, hold_s)

    return rounds


def _bounded(**maxima: int) -> Callable[[Args, Sequence[str]], str]:
    """Names a number that is none, or further from 0 than it may be."""

    def complaint(args: Args, nodes: Sequence[str]) -> str:
        for name, most in maxima.items():
            value = args.get(name, 0)
            if not isinstance(value, int) or abs(value) > most:
                return f"{name} {value!r:.50} is no whole number of at most {most}"
        return ""

    return complaint


CLOCK = Kind(
    name="clock",
    about="a node's clock jumps by 30 s or an hour, or, simulated, goes 5 % fast; on real "
    "machines if named",
    acts=(
        ActKind(
            f="bump-clock", needs=frozenset({Capability.CLOCK}),
            complaint=_bounded(offset_ms=OFFSET_MS_MAX, drift_ppm=DRIFT_PPM_MAX),
            also=_drifting,
            do=on_each(ClockShifting, lambda cluster, args: partial(
                cluster.bump_clock,
                offset_ms=int(args.get("offset_ms", 0)),
                drift_ppm=int(args.get("drift_ppm", 0)),
            )),
        ),
        ActKind(
            f="reset-clock", needs=frozenset({Capability.CLOCK}), back=True,
            fit=_ailing(CLOCK_AILS),
            do=on_each(ClockShifting, lambda cluster, args: cluster.reset_clock),
        ),
    ),
    rounds=_rounds("bump-clock", "reset-clock", CLOCKS, also=_drifting),
)  # fmt: skip
DISK = Kind(
    name="disk",
    about="a node's disk is full, frozen, or takes a second for each sync",
    acts=(
        ActKind(
            f="start-disk-fault", needs=frozenset({Capability.DISK}),
            complaint=lambda args, nodes: (
                _no_misread(args, nodes) or _bounded(sync_ms=LASTS_MS_MAX)(args, nodes)
            ),
            do=on_each(DiskBreaking, lambda cluster, args: partial(
                cluster.break_disk,
                full=bool(args.get("full")),
                sync_ms=args.get("sync_ms"),
                frozen=bool(args.get("frozen")),
                misread=_misread(args),
            )),
        ),
        ActKind(
            f="stop-disk-fault", needs=frozenset({Capability.DISK}), back=True,
            fit=_ailing(DISK_AILS),
            do=on_each(DiskBreaking, lambda cluster, args: cluster.heal_disk),
        ),
    ),
    rounds=_rounds("start-disk-fault", "stop-disk-fault", DISKS),
)  # fmt: skip


async def _delay(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    peers = await peers_of(stage, args.get("from", REST))
    delay = partial(
        stage.cluster.offers(Delayable).delay,
        ms=int(args.get("ms", 0)), jitter_ms=int(args.get("jitter_ms", 0)),
        kb_s=int(args.get("kb_s", 0)), peers=peers, ways=args.get("ways", "in"),
        ports=args.get("ports", "all"),
    )  # fmt: skip
    return await stage.each(delay, nodes)


def _bounded_way(args: Args) -> frozenset[Capability]:
    return frozenset({Capability.BANDWIDTH} if args.get("kb_s") else ())


def _no_way(args: Args, usual: Direction) -> str:
    """Names a direction or a kind of ports that is none."""
    ways = args.get("ways", usual)
    if ways not in get_args(Direction):
        return f"ways {ways!r} is none of {', '.join(get_args(Direction))}"
    return no_ports(args)


def _no_delay(args: Args, nodes: Sequence[str]) -> str:
    for name, most in DELAY_MAXIMA.items():
        value = args.get(name, 0)
        if not isinstance(value, int) or not 0 <= value <= most:
            return f"{name} {value!r:.50} is none of 0 to {most}"
    if args.get("jitter_ms", 0) > args.get("ms", 0):
        return f"jitter_ms {args['jitter_ms']} is more than ms {args.get('ms', 0)}"
    if wrong := _no_way(args, "in"):
        return wrong
    return complaint("delayed", args.get("from", REST), nodes)


DELAY = Kind(
    name="delay",
    about="packets between a node and others are up to 2 s late; on real machines if named, where "
    "bandwidth is bounded, too",
    acts=(
        ActKind(
            f="start-delay", needs=frozenset({Capability.DELAY}), do=_delay, complaint=_no_delay,
            also=_bounded_way,
        ),
        ActKind(
            f="stop-delay", needs=frozenset({Capability.DELAY}), back=True,
            fit=lambda stage, args: stage.cluster.offers(Delayable).delaying,
            do=on_each(Delayable, lambda cluster, args: cluster.stop_delay),
        ),
    ),
    rounds=_rounds("start-delay", "stop-delay", DELAYS, also=_bounded_way),
    stand_in="loss",  # TCP makes a delay of it
)  # fmt: skip


async def _lose(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    peers = await peers_of(stage, args.get("from", REST))
    lose = partial(
        stage.cluster.offers(Lossy).lose,
        percent=int(args["percent"]), peers=peers, ways=args.get("ways", "both"),
        ports=args.get("ports", "all"),
    )  # fmt: skip
    return await stage.each(lose, nodes)


def _no_loss(args: Args, nodes: Sequence[str]) -> str:
    percent, ports = args.get("percent"), args.get("ports", "all")
    most = 99 if ports == "all" else 100
    if not isinstance(percent, int) or not 1 <= percent <= most:
        return f"percent {percent!r} is none of 1 to {most}"
    if wrong := _no_way(args, "both"):
        return wrong
    return complaint("lost", args.get("from", REST), nodes)


LOSS = Kind(
    name="loss",
    about="a share of the packets between a node and others is lost",
    acts=(
        ActKind(
            f="start-packet-loss", needs=frozenset({Capability.LOSS}), do=_lose, complaint=_no_loss,
        ),
        ActKind(
            f="stop-packet-loss", needs=frozenset({Capability.LOSS}), back=True,
            fit=lambda stage, args: stage.cluster.offers(Lossy).losing,
            do=on_each(Lossy, lambda cluster, args: cluster.stop_losing),
        ),
    ),
    rounds=_rounds("start-packet-loss", "stop-packet-loss", LOSSES, LOSSY_S),
    asked_only=True,
    stand_in="partition",
)  # fmt: skip
