"""The cluster as a picture: nodes by role, what each was, and who was cut from whom, at a moment.

Lines are packets that do not arrive, from who sends them to who does not hear. The page draws one
moment: the first that matters. A script moves it to any other, by the changes that each part of the
picture carries (`data-as`, `data-is`, `data-at`: places on the time axis, in units). Words that
change are JSON in an attribute, put into the page as text.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import hypot
from typing import TypeVar

import msgspec

from maxq.checkers.judgement.cuts import ONE_WAY, Link, links_of, short_name
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import Node
from maxq.harness.report.bands import Actions, Band
from maxq.harness.report.lanes import Lane, Lanes
from maxq.harness.report.markup import Html, clean, el, short
from maxq.harness.report.plot import merged, span_of
from maxq.harness.report.timescale import WIDTH, TimeScale, seconds
from maxq.histories.fault_facts import GONE

PX = 420  # width of the picture; it is scaled to its place
LINE_MAX, LINES_MAX = 4, 3  # nodes of a line; lines of brokers that are drawn
BOX, TALL, GAP, ROWS_GAP, HEAD = 94, 42, 10, 32, 7  # px; of an arrow's head
FRAME = 5  # px of a container around its brokers
CHANGES_MAX = 600  # of one part of the picture
WORDS_MAX, MEMBERS_MAX = 60, 4
CALLED_FITS, CALLED_MAX = 13, 24  # characters of a node's name that fit, and that are drawn
# In the order of `data-as`; the script has the same list.
LOOKS = (
    *("unseen", "master", "slave", "acting", "isolated", "leader", "follower", "answers", "silent"),
    *("down", "held"),
)
TITLES = {Role.NAMESRV: "name server", Role.CONTROLLER: "controller", Role.BROKER: "broker"}

Place = tuple[float, float]  # px: the middle of a node's box
V = TypeVar("V", str, int)


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn where: each node's place, frames around who shares a process, lines of words
    between rows, the height."""

    places: Mapping[str, Place]
    frames: Mapping[str, tuple[float, float, float]]  # px: of a container its middle, top, bottom
    headings: Sequence[tuple[str, float]]  # what stands over a row, or a broker set, and where
    height: float
    left_out: int


def picture(
    time: TimeScale,
    nodes: Sequence[Node],
    seen: Lanes,
    done: Actions,
    ids: Mapping[str, int],
    at_ns: int,
    about: Sequence[str] = (),
) -> Html:
    """The cluster at a moment.

    Args:
        nodes: of the run, in their order.
        seen: what observers saw.
        done: what the nemesis did.
        ids: broker ids, by node.
        at_ns: the moment.
        about: nodes that must be in it, if there are more than can be drawn.
    """
    laid = layout(nodes, about)
    now = time.at(at_ns)
    states = {lane.node: lane for lane in seen.nodes}
    sets = {lane.name: lane for lane in seen.sets}
    on = done.by_node()
    boxes = [
        _box(time, now, node, laid.places[node.name], states.get(node.name),
             on.get(node.name, ()), ids.get(node.name))
        for node in nodes if node.name in laid.places
    ]  # fmt: skip
    heads = [_heading(time, now, name, y, sets) for name, y in laid.headings]
    frames = [_frame(name, *place) for name, place in laid.frames.items()]
    left = f"; {laid.left_out} more nodes are not drawn" if laid.left_out else ""
    return el(
        "figure",
        el("svg", frames, cuts(time, now, done.bands, laid.places), boxes, heads, class_="cluster",
           viewBox=f"0 0 {PX} {laid.height:g}", role="img",
           aria_label=f"the cluster at {seconds(at_ns)}"),
        el("figcaption", "The cluster at ", el("b", seconds(at_ns, 10_000_000), id="when"),
           ". Red: packets that did not arrive, from sender to receiver", left, "."),
        id="cluster", data_now=now,
    )  # fmt: skip


def layout(nodes: Sequence[Node], about: Sequence[str]) -> Drawn:
    """Name servers above, controllers below them, then each broker set; who shares a process stands
    one below the other."""
    brokers = [n for n in nodes if n.role is Role.BROKER and not n.spare]
    sets: dict[str, list[Node]] = {}
    for node in brokers:
        sets.setdefault(node.broker_set, []).append(node)
    kept: set[str] = set()
    lines = 0
    for name in sorted(sets, key=lambda name: not any(n.name in about for n in sets[name])):
        lines += -(-len(sets[name]) // LINE_MAX)
        if not kept or lines <= LINES_MAX:
            kept.add(name)
    rows: list[tuple[str, list[Node]]] = [
        (TITLES[role], [n for n in nodes if n.role is role])
        for role in (Role.NAMESRV, Role.CONTROLLER)
    ]
    rows += [(name, each) for name, each in sets.items() if name in kept]
    shown = [n for n in brokers if n.broker_set in kept]
    columns = _columns(shown)
    places: dict[str, Place] = {}
    headings: list[tuple[str, float]] = []
    y = 12.0
    for name, row in ((name, row) for name, row in rows if row):
        headings.append((name, y))
        for at, line in enumerate(_lines(row, columns)):
            y += TALL / 2 + (6 if at == 0 else GAP)
            places.update((node.name, (x, y)) for node, x in line)
            y += TALL / 2
        y += ROWS_GAP
    ordinary = [n for n in nodes if not n.spare]
    return Drawn(places=places, frames=_frames(shown, places) if columns else {},
                 headings=headings, height=y - ROWS_GAP + 18,
                 left_out=len(ordinary) - len(places))  # fmt: skip


def _columns(brokers: Sequence[Node]) -> Sequence[str]:
    """The processes of brokers, each with a column of its own: containers first, as they are named.
    None where no broker is in one, or there are too many."""
    inside = sorted({n.container for n in brokers if n.container})
    found = (*inside, *(n.name for n in brokers if not n.container))
    return found if inside and len(found) <= LINE_MAX else ()


def _lines(row: Sequence[Node], columns: Sequence[str]) -> list[list[tuple[Node, float]]]:
    """The lines of a row, with the middle (px) of each node."""
    if not columns or not row[0].broker_set:
        lines = [row[at : at + LINE_MAX] for at in range(0, len(row), LINE_MAX)]
        return [[(node, _x(n, len(line))) for n, node in enumerate(line)] for line in lines]
    there = Counter[str]()
    found: list[list[tuple[Node, float]]] = []
    for node in row:
        at = there[node.process]
        there[node.process] += 1
        found += [[]] if at == len(found) else []
        found[at].append((node, _x(columns.index(node.process), len(columns))))
    return found


def _x(n: int, of: int) -> float:
    """The middle (px) of the n-th box of so many in a line."""
    gap = (PX - of * BOX) / (of + 1)
    return gap + BOX / 2 + n * (BOX + gap)


def _frames(
    brokers: Sequence[Node], places: Mapping[str, Place]
) -> dict[str, tuple[float, float, float]]:
    """Of each container its middle, its top and its bottom."""
    found = {}
    for name in sorted({n.container for n in brokers if n.container}):
        within = [places[n.name] for n in brokers if n.container == name]
        ys = [y for _, y in within]
        found[name] = (within[0][0], min(ys) - TALL / 2 - FRAME, max(ys) + TALL / 2 + FRAME)
    return found


def _frame(name: str, x: float, top: float, bottom: float) -> Html:
    """A container around its brokers, which are one process."""
    wide = BOX + 2 * FRAME
    return el(
        "g",
        el("title", f"container {name}: its brokers are one process"),
        el("rect", x=x - wide / 2, y=top, width=wide, height=bottom - top, rx=7),
        el("text", f"container {name}", x=x, y=bottom + 8, class_="who"),
        class_="frame",
    )


# A node.


def _box(
    time: TimeScale,
    now: float,
    node: Node,
    place: Place,
    lane: Lane | None,
    bands: Sequence[Band],
    broker_id: int | None,
) -> Html:
    x, y = place
    looks = _looks(time, node.name, lane, bands)
    words = _words(time, lane)
    struck = _struck(time, node.name, bands)
    role = "learner" if node.learner else TITLES[node.role]
    called = f"{node.name} (id {broker_id})" if broker_id is not None else node.name
    look = LOOKS[value_at(looks, now, 0)]
    return el(
        "g",
        el("title", f"{role} {node.name}"),
        el("rect", x=x - BOX / 2, y=y - TALL / 2, width=BOX, height=TALL, rx=5),
        el("text", short(called, CALLED_MAX), x=x, y=y - 8, class_="who", **_fitted(called)),
        el("text", value_at(words, now, ""), x=x, y=y + 4, class_="is", data_is=_json(words)),
        el("text", value_at(struck, now, ""), x=x, y=y + 16, class_="hit", data_is=_json(struck)),
        class_=f"node {look}", data_as=_json(looks),
    )  # fmt: skip


def _fitted(called: str) -> dict[str, str | int]:
    """What keeps a long name within its node's box."""
    if len(called) <= CALLED_FITS:
        return {}
    return {"textLength": BOX - 8, "lengthAdjust": "spacingAndGlyphs"}


def _looks(
    time: TimeScale, node: str, lane: Lane | None, bands: Sequence[Band]
) -> list[tuple[float, int]]:
    """What its box looks like: as it answered, unless it was known to be down or suspended."""
    seen = [(time.at(s.start_ns), LOOKS.index(s.state)) for s in lane.segments] if lane else []
    seen = sorted([*seen, *((x, 0) for x in _unseen(time, lane))])
    gone = [
        (*span_of(time, _struck_ns(band), band.end_ns(node)), LOOKS.index(str(band.act.effect)))
        for band in bands if band.act.effect in GONE
    ]  # fmt: skip
    places = sorted({x for x, _ in seen} | {x for start, end, _ in gone for x in (start, end)})
    found: list[tuple[float, int]] = []
    for x in places:
        silent = [look for start, end, look in gone if start <= x < end]
        found.append((x, silent[0] if silent else value_at(seen, x, 0)))
    return _changes(found)


def _words(time: TimeScale, lane: Lane | None) -> list[tuple[float, str]]:
    """What it said of itself."""
    found = []
    for s in lane.segments if lane is not None else ():
        state = "no answer" if s.state == "silent" else s.state
        said = " ".join(part for part in dict.fromkeys((state, s.label)) if part)
        found.append((time.at(s.start_ns), clean(said)[:WORDS_MAX]))
    return _changes(sorted([*found, *((x, "") for x in _unseen(time, lane))]))


def _unseen(time: TimeScale, lane: Lane | None) -> list[float]:
    """Where nothing is known of it from there on, but for the end of the run."""
    last = time.at(time.end_ns)
    return [x for at in lane.unseen() if (x := time.at(at)) < last] if lane is not None else []


def _struck(time: TimeScale, node: str, bands: Sequence[Band]) -> list[tuple[float, str]]:
    """The faults at work on it by name, but for cuts, which are lines."""
    spans = [
        (
            *span_of(time, _struck_ns(band), band.end_ns(node)),
            clean(short_name(band.fault))[:WORDS_MAX],
        )
        for band in bands
        if band.act.effect != "cut" and not (band.fault.facts and band.fault.facts.harmless)
    ]
    return _changes(
        [
            (x, ", ".join(dict.fromkeys(name for start, end, name in spans if start <= x < end)))
            for x in sorted({x for start, end, _ in spans for x in (start, end)})
        ]
    )


def _struck_ns(band: Band) -> int:
    """When it was seen to take effect."""
    fault = band.fault
    return fault.begun_ns if fault.ended_ns is None or fault.passes else fault.ended_ns


# A broker set, as controllers held it.


def _heading(time: TimeScale, now: float, name: str, y: float, sets: Mapping[str, Lane]) -> Html:
    """What stands over a row: the role, or the broker set with its epoch and SyncStateSet."""
    words = _set_words(time, name, sets)
    title = name if name in TITLES.values() else f"broker set {name}"
    return el(
        "text", el("tspan", short(title, WORDS_MAX)), ": " if words else "",
        el("tspan", value_at(words, now, ""), data_is=_json(words)) if words else None,
        x=4, y=y, class_="row-name",
    )  # fmt: skip


def _set_words(time: TimeScale, name: str, sets: Mapping[str, Lane]) -> list[tuple[float, str]]:
    master, members = sets.get(f"{name} master"), sets.get(f"{name} SyncStateSet")
    if master is None or members is None:
        return []
    epochs = [(time.at(s.start_ns), s.label) for s in master.segments]
    synced = [(time.at(s.start_ns), s.label) for s in members.segments]
    found = []
    for x in sorted({x for x, _ in (*epochs, *synced)}):
        epoch, _, leads = value_at(epochs, x, "").partition(": ")
        said = f"epoch {epoch}, master {leads}; SyncStateSet {_few(value_at(synced, x, ''))}"
        found.append((x, clean(said.replace("master no master", "no master"))[: 2 * WORDS_MAX]))
    return _changes(found)


def _few(members: str) -> str:
    """Members by name; of many how many more there are."""
    names = members.split()
    if len(names) <= MEMBERS_MAX:
        return members
    return f"{' '.join(names[: MEMBERS_MAX - 1])} and {len(names) - MEMBERS_MAX + 1} more"


# Cuts.


def cuts(
    time: TimeScale, now: float, bands: Iterable[Band], places: Mapping[str, Place]
) -> list[Html]:
    """A line from sender to receiver for each link that was ever cut between nodes in the picture;
    shown are those that are cut now."""
    spans: dict[Link, list[tuple[float, float]]] = defaultdict(list)
    for band in bands:
        if band.act.effect != "cut":
            continue
        for link in links_of(band.fault.result):
            if link.source in places and link.destination in places and link[0] != link[1]:
                span = span_of(time, _struck_ns(band), band.end_ns(link.destination))
                spans[link].append(span)
    return [
        el(
            "path", el("title", f"{link.source} {ONE_WAY} {link.destination}"),
            d=arrow(places[link.source], places[link.destination]), class_="cut",
            data_at=_json(merged(each)[:CHANGES_MAX]),
            visibility=None if any(a <= now < b for a, b in each) else "hidden",
        )
        for link, each in sorted(spans.items())
    ]  # fmt: skip


def arrow(source: Place, destination: Place) -> str:
    """A path from box to box with a head; one between nodes of a row bows around what is between.
    That of the other direction runs beside it."""
    (x1, y1), (x2, y2) = source, destination
    side = 5 if (x1, y1) < (x2, y2) else -5
    if y1 == y2:
        edge = y1 + TALL / 2  # below, where no words stand
        bow = edge + 4 + min(30.0, 12 * abs(x2 - x1) / BOX)
        start, end, turn = (x1 + side, edge), (x2 + side, edge), ((x1 + x2) / 2 + side, bow)
    else:
        down = 1 if y2 > y1 else -1
        start, end = (x1 + side, y1 + down * TALL / 2), (x2 + side, y2 - down * TALL / 2)
        turn = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    dx, dy = end[0] - turn[0], end[1] - turn[1]
    length = hypot(dx, dy) or 1.0
    ux, uy = dx / length * HEAD, dy / length * HEAD
    wings = [(end[0] - ux - w * uy / 2, end[1] - uy + w * ux / 2) for w in (1, -1)]
    (ax, ay), (bx, by) = wings
    return (
        f"M{start[0]:.1f} {start[1]:.1f}Q{turn[0]:.1f} {turn[1]:.1f} {end[0]:.1f} {end[1]:.1f}"
        f"M{ax:.1f} {ay:.1f}L{end[0]:.1f} {end[1]:.1f}L{bx:.1f} {by:.1f}"
    )


# Values that change.


def value_at(changes: Sequence[tuple[float, V]], now: float, first: V) -> V:
    """The value at a place: of the last change that is not behind it."""
    known = bisect_right(changes, now, key=lambda change: change[0])
    return changes[known - 1][1] if known else first


def _changes(found: Sequence[tuple[float, V]]) -> list[tuple[float, V]]:
    """Without what changes nothing, and of too many those that lasted longest."""
    kept: list[tuple[float, V]] = []
    for x, value in found:
        if not kept or kept[-1][1] != value:
            kept.append((x, value))
    if len(kept) <= CHANGES_MAX:
        return kept
    ends = [*(x for x, _ in kept[1:]), float(WIDTH)]
    longest = sorted(range(len(kept)), key=lambda n: kept[n][0] - ends[n])[:CHANGES_MAX]
    return [kept[n] for n in sorted(longest)]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
