"""The page of upgrades: a table for each group, a cell for each upgrade and profile.

Pure: from what was seen. A cell says what was seen and in how many runs, and whether that is as
documented; one without a run says so.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, repeat

from maxq.checkers.judgement.phrases import in_words
from maxq.harness.contracts.target import Profile
from maxq.harness.experiments.upgrade.plans import Group, Upgrade, upgrades
from maxq.harness.experiments.upgrade.trials import Entry, Trials

PROFILES: tuple[Profile, ...] = ("P-SAFE", "P-DEFAULT")
EMPTY = "not run"
NOBODY = "nobody says"
TITLES: dict[Group, str] = {
    "compatibility": "Brokers of one release under controllers of another",
    "documented": "The documented upgrade, with its deleted epoch files",
    "alone": "A broker that ran alone gets controllers",
    "rolling": "Neighbouring releases, one node after the other",
    "name-servers": "Masters and slaves without controllers under older and newer name servers",
}
INTRODUCTIONS: dict[Group, str] = {
    "compatibility": "The master is killed under load, and started again 25 s later. "
    "*replaced*: all controllers were shut down, cleared, and started as the other release.",
    "documented": "Controllers are replaced and cleared, and slaves and then the master stop. "
    "Epoch files are deleted. Of a release with persistent broker ids so are the files of the ids, "
    "which new controllers do not know. The old master starts as the new release, then the slaves. "
    "Clients go on writing meanwhile, so the master's log is longer than the slaves' when it "
    "stops. In *quiet* ones they do not, and all logs end at the same byte.",
    "alone": "A master without controllers is written to and stopped. Controllers are started, the "
    "broker as their first one, and then two slaves with empty stores.",
    "rolling": "Each node in turn stops, and goes on as the other release on its store: the name "
    "server, the controllers, the brokers. Nothing is deleted.",
    "name-servers": "One broker set with a master and a slave, under one name server; brokers with "
    "`enableSlaveActingMaster`, and of *compatible* ones with `compatibleWithOldNameSrv=true`. The "
    "master is killed under load, and started again 25 s later; then it is paused for 15 s: its "
    "connections stay. What is documented is RIP-32's section on compatibility. Of 4.9.7 only "
    "the name server runs here, so its other half, new name servers and old brokers, is not tried. "
    "Nobody reads from the slave: a 5.5.0 master would not come back then, under whatever name "
    "server ([the track record](track-record.md)).",
}


def page(trials: Trials, before: str = "") -> str:
    """The whole page, as Markdown.

    Args:
        trials: what was seen.
        before: the page as it was. A section, or a cell, of which nothing was run here stays as it
            is.
    """
    return "\n".join(_lines(trials, before)) + "\n"


def _lines(trials: Trials, before: str) -> Iterator[str]:
    yield "# Upgrades"
    yield ""
    yield (
        f"Written by `maxq upgrade all --write docs/upgrade.md`, in `{trials.environment}`, of "
        "real processes. Unless said otherwise there are one name server, three controllers and "
        "one broker set of three. "
        "*reference* is our own implementation. What is documented is RocketMQ's page on "
        "persistent broker ids, and that on deployment. They say nothing of most cells. So few "
        "runs show what can happen, and not how often. The same command goes on with what is "
        "missing. Where RocketMQ is not as documented, the cause is in "
        "[the track record](track-record.md), with what an operator can do meanwhile."
    )
    for group, title in TITLES.items():
        kept = section(before, title)
        if kept and not any(trials.entries(u.name, p) for u in _of(group) for p in _columns(group)):
            yield from ("", *kept.splitlines())
            continue
        yield from ("", f"## {title}", "", INTRODUCTIONS[group], "")
        yield f"| upgrade | documented | {' | '.join(_columns(group))} | command |"
        yield f"|{'---|' * (len(_columns(group)) + 3)}"
        for upgrade in _of(group):
            yield _row(upgrade, trials, kept)


def section(text: str, title: str) -> str:
    """A section of a page, its title included, without empty lines at its end; empty: there is
    none."""
    _, found, rest = f"\n{text}".partition(f"\n## {title}\n")
    body, *_ = rest.split("\n## ", 1)
    return f"## {title}\n{body}".rstrip() if found else ""


def _of(group: Group) -> list[Upgrade]:
    return [upgrade for upgrade in upgrades() if upgrade.group == group]


def _columns(group: Group) -> tuple[Profile, ...]:
    return _of(group)[0].profiles(PROFILES)


def _row(upgrade: Upgrade, trials: Trials, before: str) -> str:
    profiles = _columns(upgrade.group)
    known = _cells_before(upgrade.name, before, len(profiles))
    seen = [
        _cell(upgrade, trials.entries(upgrade.name, p), old)
        for p, old in zip(profiles, known, strict=True)
    ]
    says = upgrade.says or NOBODY
    return f"| {upgrade.name} | {says} | {' | '.join(seen)} | `maxq upgrade {upgrade.name}` |"


def _cell(upgrade: Upgrade, entries: Sequence[Entry], before: str) -> str:
    """A cell; as it was before where runs say nothing."""
    says = any(entry.came != "failed" for entry in entries)
    return cell(upgrade, entries) if says or before == EMPTY else before


def _cells_before(name: str, section: str, count: int) -> Sequence[str]:
    """What a section says was seen of an upgrade, under so many profiles."""
    for line in section.splitlines():
        cells = line.strip("| ").split(" | ")
        if cells[0] == name and len(cells) == count + 3:
            return cells[2:-1]
    return [EMPTY] * count


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
    hows = chain(("Found",), repeat("Also"))
    more = "".join(f" {how}: {in_words([name])}." for how, name in zip(hows, found, strict=False))
    if not upgrade.expected:
        return f"{len(said)} run{'s' if len(said) > 1 else ''}: {words}.{more}"
    shown = sum(entry.shows(upgrade.expected) for entry in said)
    return f"as documented in {shown} of {len(said)}: {words}.{more}"
