"""Which cluster an operator's files describe: its mode, its roles, how many of what, its settings.

One broker's file stands for all brokers. Of several, each is a broker of its own: of the set that
its ``brokerName`` says, in the role that ``brokerRole`` says. What the files do not say is as the
release ships it, but for what Max-Q lays out itself (`maxq.harness.targets.settings_files.OWN`).
What cannot be laid out as the files say is refused, with the option that decides it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address
from typing import Literal

import msgspec

from maxq.harness.contracts.environment import Role
from maxq.harness.targets.settings_files import (
    OWN,
    SettingsError,
    SettingsFile,
    check,
    overlooked,
    roles_in,
)

Mode = Literal["controllers", "pair"]
MASTERS = ("ASYNC_MASTER", "SYNC_MASTER")
NODES_MAX = 9
# What the layout follows.
FOLLOWED = ("enableControllerMode", "asyncLearner", "enableControllerInNamesrv")
LETTERS = {Role.NAMESRV: "n", Role.CONTROLLER: "c"}
# What has no effect on a broker without controllers.
OF_CONTROLLERS = ("allAckInSyncStateSet", "syncFromLastFile", "asyncLearner")
Named = Mapping[str, SettingsFile]  # by the name of its node


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as files describe it; None is what they leave open.

    `keys` are settings of roles or nodes, as ``broker:flushDiskType``; `left_out` those that Max-Q
    sets itself, `overlooked` those that what runs has no key for. `by_address`: nodes know name
    servers and controllers by address, not by name. `notes` are sentences for the operator.
    """

    mode: Mode
    controllers: int | None
    embedded: bool
    namesrvs: int | None
    broker_sets: int | None
    replicas: int | None
    learners: int | None
    by_address: bool
    keys: dict[str, str]
    left_out: tuple[str, ...]
    overlooked: tuple[str, ...]
    notes: tuple[str, ...]
    named: int  # how many brokers have a file of their own


def describe(files: Sequence[SettingsFile], target: str, mode: Mode | None = None) -> Described:
    """Say which cluster files describe.

    Args:
        files: of all nodes: of each role none, one for all of it, or one for each node.
        target: what runs.
        mode: who says which broker is master, where that is asked for; None: the files say it.

    Raises:
        SettingsError: they contradict each other, or describe what cannot be laid out.
    """
    check(files, target)
    brokers, controllers, namesrvs = (
        [f for f in files if f.role is role]
        for role in (Role.BROKER, Role.CONTROLLER, Role.NAMESRV)
    )
    embedding = [f for f in namesrvs if len(roles_in(f)) > 1]
    mode = mode or _mode(brokers, controllers or embedding)
    pair = mode == "pair"
    named = _named(brokers, pair=pair)
    of_roles = {f"{LETTERS[f.role]}{n}": f for group in (namesrvs, controllers)
                for n, f in enumerate(group)}  # fmt: skip
    keys = _keys({**named, **of_roles}, target)
    if pair:
        keys |= _masters(named)
    followed = {*FOLLOWED, *(("brokerId", "brokerRole") if pair else ())}
    sets = len({file.get("brokerName") for file in named.values()})
    alone = len(named) == 1
    return Described(
        mode=mode,
        controllers=None if pair else _controllers(brokers, controllers, embedding),
        embedded=bool(embedding) and not pair,
        namesrvs=_namesrvs(brokers, namesrvs),
        broker_sets=sets or None,
        replicas=_total(brokers[0]) if alone else len(named) // sets if sets else None,
        learners=None if alone or pair else _learners(named, len(named) // max(1, sets)),
        by_address=any(_numeric(f.get("namesrvAddr")) for f in brokers),
        keys=keys,
        left_out=_which(files, lambda f, role, key: key in OWN[role] and key not in followed),
        overlooked=_which(
            files, lambda f, role, key: role is f.role and overlooked(f, key, target)
        ),
        notes=tuple(_notes(brokers, pair=pair)),
        named=len(named),
    )


def _mode(brokers: Sequence[SettingsFile], electing: Sequence[SettingsFile]) -> Mode:
    """Controllers, if the brokers ask them; what has no broker's file is as its controllers say."""
    if not brokers:
        return "controllers" if electing else "pair"
    asks = {f.get("enableControllerMode", "false").lower() for f in brokers}
    if len(asks) > 1:
        raise SettingsError("enableControllerMode=true is in some of the brokers' files and not in "
                            "others; --mode controllers or --mode pair decides")  # fmt: skip
    if asks == {"true"}:
        return "controllers"
    if electing:
        raise SettingsError(
            f"{brokers[0].name} does not say enableControllerMode=true, so its brokers ask no "
            f"controller, and {electing[0].name} configures some; --mode controllers or --mode "
            "pair decides"
        )
    return "pair"


def _named(brokers: Sequence[SettingsFile], *, pair: bool) -> dict[str, SettingsFile]:
    """Each broker's file by the name of its node: a set's master first, learners last."""
    sets: dict[str, list[SettingsFile]] = {}
    for file in brokers:
        sets.setdefault(file.get("brokerName"), []).append(file)
    for name, files in sets.items():
        if pair:
            _check_pair(name, files)
    sizes = {len(files) for files in sets.values()}
    if len(sizes) > 1:
        each = ", ".join(f"{name or 'no name'} {len(of)}" for name, of in sets.items())
        raise SettingsError(f"broker sets of one size can be laid out, and the files have brokers "
                            f"by brokerName: {each}")  # fmt: skip
    return {
        f"b{s}-{r}": file
        for s, files in enumerate(sets.values())
        for r, file in enumerate(sorted(files, key=_place if pair else _learns))
    }


def _check_pair(name: str, files: Sequence[SettingsFile]) -> None:
    """Whether these can be a master and its slaves."""
    masters = [f.name for f in files if f.get("brokerRole", MASTERS[0]) in MASTERS]
    if not masters:
        raise SettingsError(f"{files[0].name} is a slave's (brokerRole=SLAVE), and no file is of "
                            f"its master {name}".rstrip())  # fmt: skip
    if len(masters) > 1:
        raise SettingsError(f"{' and '.join(masters)} are both masters of {name or 'one set'}: a "
                            "slave has brokerRole=SLAVE and a brokerId of 1 or more")  # fmt: skip
    for file in files:
        if file.name not in masters and _id(file) < 1:
            raise SettingsError(f"{file.name}: a slave's brokerId is 1 or more")


def _id(file: SettingsFile) -> int:
    return _number(file, "brokerId", 0)


def _number(file: SettingsFile, key: str, default: int) -> int:
    text = file.get(key, str(default))
    if not text.removeprefix("-").isdecimal():
        raise SettingsError(f"{file.name}:{file.lines[key].number}: {key}={text}: not a whole "
                            "number")  # fmt: skip
    return int(text)


def _place(file: SettingsFile) -> int:
    return 0 if file.get("brokerRole", MASTERS[0]) in MASTERS else _id(file)


def _learns(file: SettingsFile) -> bool:
    return file.get("asyncLearner").lower() == "true"


def _learners(named: Named, replicas: int) -> int:
    """How many replicas of each set are learners."""
    counts = {sum(_learns(f) for name, f in named.items() if name.startswith(f"b{s}-"))
              for s in range(len(named) // replicas)} if named else {0}  # fmt: skip
    if len(counts) > 1:
        raise SettingsError("asyncLearner=true is in more files of one broker set than of another; "
                            "all sets need as many")  # fmt: skip
    return counts.pop()


def _total(file: SettingsFile) -> int | None:
    """How many replicas a set has, where the one file that there is says so."""
    total = _number(file, "totalReplicas", 1)
    return min(total, NODES_MAX) if total > 1 else None


def _keys(named: Named, target: str) -> dict[str, str]:
    """The settings: of a role what all its files say alike, else of each node."""
    found: dict[str, str] = {}
    for role in Role:
        files = {name: f for name, f in named.items() if f.role is role}
        for of in dict.fromkeys(r for f in files.values() for r in roles_in(f)):
            by_node = {name: dict(_settings(f, of, target)) for name, f in files.items()}
            for key in dict.fromkeys(key for own in by_node.values() for key in own):
                values = {own.get(key) for own in by_node.values()}
                if len(values) == 1:
                    found[f"{of.value}:{key}"] = values.pop() or ""
                else:
                    found |= {f"{n}:{key}": own[key] for n, own in by_node.items() if key in own}
    return found


def _settings(file: SettingsFile, role: Role, target: str) -> Iterator[tuple[str, str]]:
    """What counts of a file for one of its node's roles."""
    for key, line in file.lines.items():
        if _is_own(file, key) or overlooked(file, key, target):
            continue
        only = SettingsFile(role, file.name, {key: line})
        if not overlooked(only, key, target):
            yield key, line.value


def _is_own(file: SettingsFile, key: str) -> bool:
    return any(key in OWN[role] for role in roles_in(file))


def _masters(named: Named) -> dict[str, str]:
    """Which kind of master each set has."""
    kinds = {name: f.get("brokerRole", MASTERS[0]) for name, f in named.items()
             if name.endswith("-0")}  # fmt: skip
    if len(set(kinds.values())) == 1:
        return {"broker:brokerRole": next(iter(kinds.values()))}
    return {f"{name}:brokerRole": kind for name, kind in kinds.items()}


def _controllers(
    brokers: Sequence[SettingsFile],
    controllers: Sequence[SettingsFile],
    embedding: Sequence[SettingsFile],
) -> int | None:
    """How many there are, as far as files say."""
    if len(own := controllers or embedding) > 1:
        return len(own)
    peers = [f.get("controllerDLegerPeers") for f in own]
    return _count([*peers, *(f.get("controllerAddr") for f in brokers)])


def _namesrvs(brokers: Sequence[SettingsFile], namesrvs: Sequence[SettingsFile]) -> int | None:
    if len(namesrvs) > 1:
        return len(namesrvs)
    return _count(f.get("namesrvAddr") for f in brokers)


def _count(lists: Iterable[str]) -> int | None:
    """How many addresses the longest of lists has; None where all are empty."""
    longest = max((len(set(filter(None, each.split(";")))) for each in lists), default=0)
    return min(longest, NODES_MAX) or None


def _numeric(addresses: str) -> bool:
    """Whether the first of some addresses is one, and no name."""
    try:
        IPv4Address(addresses.partition(";")[0].strip().rpartition(":")[0])
    except AddressValueError:
        return False
    return True


def _which(
    files: Iterable[SettingsFile], counts: Callable[[SettingsFile, Role, str], bool]
) -> tuple[str, ...]:
    """The keys of files that count, by the roles of their nodes."""
    return tuple(
        dict.fromkeys(
            f"{role.value}:{key}"
            for file in files
            for key in file.lines
            for role in roles_in(file)
            if counts(file, role, key)
        )
    )


def _notes(brokers: Sequence[SettingsFile], *, pair: bool) -> Iterator[str]:
    """What an operator may not expect of the files."""
    asks = {f.get("enableControllerMode", "false").lower() for f in brokers}
    if asks and pair == ("true" in asks):
        told = "enableControllerMode=true" if pair else "no enableControllerMode=true"
        yield f"the files say {told}, and --mode (or what implies it) says otherwise"
    idle = dict.fromkeys(key for f in brokers for key in OF_CONTROLLERS if key in f.lines)
    if pair and idle:
        yield (f"{', '.join(idle)}: without effect, as the files do not say "
               "enableControllerMode=true (--mode controllers adds controllers)")  # fmt: skip
