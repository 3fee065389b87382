"""The page of upgrades: a table for each group, a cell for each upgrade and profile.

Pure: from what was seen. A cell says what was seen and in how many runs, and whether that is as
documented; one without a run says so.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from maxq.harness.contracts.target import Profile
from maxq.harness.experiments.upgrade.plans import Group, Upgrade, upgrades
from maxq.harness.experiments.upgrade.trials import Entry, Trials

PROFILES: tuple[Profile, ...] = ("P-SAFE", "P-DEFAULT")
EMPTY = "not run"
NOBODY = "nobody says"
TITLES: dict[Group, str] = {
    "compatibility": "Brokers of one release under controllers of another",
    "documented": "The documented upgrade, with its deleted epoch files",
    "rolling": "Neighbouring releases, one node after the other",
}
INTRODUCTIONS: dict[Group, str] = {
    "compatibility": "The master is killed under load, and started again 25 s later. "
    "*replaced*: all controllers were shut down, cleared, and started as the other release.",
    "documented": "Controllers are replaced and cleared; slaves and then the master stop; epoch "
    "files are deleted; the old master starts as the new release, then the slaves.",
    "rolling": "Each node in turn stops, and goes on as the other release on its store: the name "
    "server, the controllers, the brokers. Nothing is deleted.",
}


def page(trials: Trials) -> str:
    """The whole page, as Markdown."""
    return "\n".join(_lines(trials)) + "\n"


def _lines(trials: Trials) -> Iterator[str]:
    yield "# Upgrades"
    yield ""
    yield (
        f"Written by `maxq upgrade all --write docs/upgrade.md`; environment `{trials.environment}`"
        ", one name server, three controllers, one broker set of three, real processes. "
        "*reference* is our own implementation. What is documented is RocketMQ's page on "
        "persistent broker ids; it says nothing of most cells. So few runs show what can "
        "happen, and not how often. The same command goes on with what is missing."
    )
    for group, title in TITLES.items():
        yield from ("", f"## {title}", "", INTRODUCTIONS[group], "")
        yield f"| upgrade | documented | {' | '.join(PROFILES)} | command |"
        yield "|---|---|---|---|---|"
        for upgrade in upgrades():
            if upgrade.group == group:
                yield _row(upgrade, trials)


def _row(upgrade: Upgrade, trials: Trials) -> str:
    cells = [cell(upgrade, trials.entries(upgrade.name, profile)) for profile in PROFILES]
    says = upgrade.says or NOBODY
    return f"| {upgrade.name} | {says} | {' | '.join(cells)} | `maxq upgrade {upgrade.name}` |"


def cell(upgrade: Upgrade, entries: Sequence[Entry]) -> str:
    """What was seen of an upgrade under a profile.

    Args:
        upgrade: which.
        entries: its runs under one profile.
    """
    said = [entry for entry in entries if entry.came != "failed"]
    if not said:
        return f"{EMPTY}: {entries[-1].error}" if entries else EMPTY
    seen = Counter(entry.seen for entry in said)
    words = "; ".join(what if n == 1 else f"{what} ({n} times)" for what, n in seen.items())
    found = sorted({name for entry in said for name in entry.found})
    more = f"; found: {', '.join(found)}" if found else ""
    if not upgrade.expected:
        return f"{len(said)} run{'s' if len(said) > 1 else ''}: {words}{more}"
    shown = sum(entry.shows(upgrade.expected) for entry in said)
    return f"as documented in {shown} of {len(said)}: {words}{more}"
