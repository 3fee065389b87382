"""What a run is asked to be: the words of a command line, and an operator's files, as options."""

import secrets
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxq.checkers.evidence.observations import listed
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.layouts import PAIR, LayoutKind
from maxq.harness.contracts.plugins import current, layout_named, layouts
from maxq.harness.contracts.target import SHIPPED, plan
from maxq.harness.environments.choose import AUTO, LOCAL, SIMULATED
from maxq.harness.environments.disks.node_disk import DISK_BYTES
from maxq.harness.run import doctor
from maxq.harness.run.execute import capabilities_of
from maxq.harness.run.run_plan import workloads
from maxq.harness.schedule.options import (
    BY_SENDING_KEYS,
    LATE_TOPICS,
    LATE_TOPICS_MAX,
    MODES,
    PAIR_NEMESES,
    PAIR_PROFILES,
    PAIR_WORKLOADS,
    POWER_FAULTS,
    TOGETHER,
    Options,
)
from maxq.harness.schedule.shares import FLOOD, READ_LATE, SHARES, share_of
from maxq.harness.targets.cluster_files import Described, Mode, describe
from maxq.harness.targets.known_keys import NEWEST, why_overlooked
from maxq.harness.targets.reference import OF_PAIRS, PROFILES
from maxq.harness.targets.rocketmq.releases import (
    BACK_ENDS,
    REFERENCE,
    excluded,
    misplaced,
    not_driven,
    release_of,
)
from maxq.harness.targets.settings_files import why_left_out
from maxq.histories.fault_facts import FAIL_STORE, REMOVE_BROKER
from maxq.nemeses.catalogue import NO_FAULT, fault_names, needs_of, unasked
from maxq.nemeses.kinds.machine import CLOCK, DELAY

SEED_BITS = 32
ALL = "all"  # every fault that the environment can do
CONTROLLERS = 3
JRAFT = f":{BACK_ENDS[1]}"  # how the name of a target ends whose controllers agree by it
# Of clusters that run already.
OF_EXISTING = ("existing", "consent", "max_unavailable", "only", "keep_going")
COUNTS = ("controllers", "namesrvs", "broker_sets", "replicas", "learners")
OF_CONTAINERS = (REMOVE_BROKER, FAIL_STORE)  # faults of one of several brokers in a process
OF_LAYOUTS = frozenset(("broker_sets", "replicas"))  # that a layout says
# Workloads whose messages wait at brokers, so that a flood must not come to the same ones.
# Faults of one broker, of which a container cannot restart one alone.
NOT_IN_CONTAINERS = ("replace-release", "change-settings")
FILES = tuple(f"{role.value}_conf" for role in Role)  # the options that name files of settings


def options_from(
    given: Mapping[str, Any], place: doctor.Place | None = None, *, lasting: bool = False
) -> Options:
    """Resolve what the command line said: environment, seed, the meaning of `all`. Where no
    environment is named they are tried (`doctor.choose`), each in its `place`.

    Raises:
        ValueError: options that exclude each other.
        EnvironmentUnavailable: none is named, and none can do what is asked.
    """
    wanted = asked_from(given)  # what is wrong anyway is said before anything is tried
    if given["environment"] != AUTO:
        return wanted
    chosen = doctor.choose(wanted, place or doctor.Place(), doctor.aloud, lasting=lasting)
    return asked_from({**given, "environment": chosen})


def asked_from(given: Mapping[str, Any]) -> Options:
    """As `options_from`, but nothing is tried: `auto` is local, which can be asked for less than
    the simulator."""
    known = {name: value for name, value in given.items() if name not in OF_EXISTING}
    known["environment"] = given["environment"].replace(AUTO, LOCAL)
    if known["seed"] is None:
        known["seed"] = secrets.randbits(SEED_BITS)
    asked = flat(known["nemesis"])
    faults = every_fault(known["environment"]) if ALL in asked else asked
    known["nemesis"] = tuple(dict.fromkeys(faults))
    named = flat(known["workload"])
    known["workload"] = tuple(name for name in workloads() if name in named)
    chosen = {name for name in COUNTS if known.get(name)}
    pair, said = _take_files(known)
    _take_counts(known, chosen, pair=pair)
    if known["layout"]:
        chosen |= OF_LAYOUTS
    if pair:
        _take_pair(known, asked)
    else:
        known["controllers"] = known.get("controllers") or CONTROLLERS
    if said is not None:
        known["files"] = (_layout(known, said, chosen), *_said(known, said))
    if NO_FAULT in known["nemesis"] and len(known["nemesis"]) > 1:
        raise ValueError("--nemesis none excludes other faults")
    if known["profile"] not in (OF_PAIRS if pair else PROFILES):
        raise ValueError(f"{known['profile']} is a profile of --mode {MODES[not pair]}")
    _check_replicas(known, OF_PAIRS if pair else PROFILES)
    known["mutant"] = known["mutant"] or ""
    known["releases"] = dict(known.get("releases") or ())
    known["time_limit_ns"] = known.pop("time_limit")
    known["lull_ns"] = known.pop("lull", None) or 0
    known["poll_routes_ns"] = known.pop("poll_routes_ns", None) or 0
    known["send_timeout_ns"] = known.pop("send_timeout_ns", None) or 0
    known["interval_ns"] = known.pop("interval", None) or 0
    _take_topics(known)
    _take_flood(known)
    if known.get("pinned", 0) > known["concurrency"]:
        raise ValueError("--pinned is more than --concurrency")
    return _possible(Options(**known))


def _take_flood(known: dict[str, Any]) -> None:
    """Settle what share of a disk brokers have in a run that floods some.

    Raises:
        ValueError: no quiet brokers are beside them, or messages of another workload would go.
    """
    if FLOOD not in known["workload"]:
        return
    fit = [name for name, layout in sorted(layouts().items()) if layout.sets > 1]
    if known["layout"] not in fit:
        raise ValueError(f"--workload {FLOOD} needs --layout: {', '.join(fit)}")
    lost = [name for name in known["workload"] if name in READ_LATE]
    if lost:
        raise ValueError(f"--workload {FLOOD} is not for {lost[0]}: its messages may be deleted")
    if known["environment"] != SIMULATED and not SHARES & known["keys"].keys():
        ours = known.get("target", REFERENCE) == REFERENCE
        disk = shutil.disk_usage(Path.cwd())
        whole = DISK_BYTES if Options(**known).own_disks else disk.used + disk.free
        share = share_of(whole, ours=ours)
        known["keys"] = {**known["keys"], **share}


def _take_topics(known: dict[str, Any]) -> None:
    """Settle how many topics the workload queue has.

    Raises:
        ValueError: it is not there, or more of them are to be made late than may be.
    """
    late = known.get("topics_made", "before") != "before"
    asked = known.get("topics")
    known["topics"] = asked or (LATE_TOPICS if late else 1)
    if (late or known["topics"] > 1) and "queue" not in known["workload"]:
        option = "--topics" if asked else "--topics-made"
        raise ValueError(f"{option} is about the workload queue, which is not among --workload")
    if late and not 1 < known["topics"] <= LATE_TOPICS_MAX:
        raise ValueError(
            f"--topics-made {known['topics_made']} needs --topics 2 to {LATE_TOPICS_MAX}: "
            "the first one is made before the run"
        )
    key, asked_key = next(iter(BY_SENDING_KEYS)), "--topics-made by-sending"
    if known.get("topics_made") == "by-sending" and known["keys"].get(key) == "false":
        raise ValueError(f"{asked_key} needs {key}=true: with false no message makes a topic")


def _take_files(known: dict[str, Any]) -> tuple[bool, Described | None]:
    """Settle the mode, and what settings there are: those of files, and before them what was set by
    hand. Where there are files, all that they do not say is as RocketMQ ships it.

    Returns:
        Whether there are no controllers, and what the files say, if there are any.
    """
    given = [file for option in FILES for group in known.pop(option, None) or () for file in group]
    # A file that is named beside its folder is one node's all the same.
    files = [*{Path(file.name).resolve(): file for file in given}.values()]
    mode: Mode | None = known.pop("mode", None) or _mode_of(known)
    own = dict(known.get("keys") or ())
    if not files:
        mode = mode or "controllers"
        usual = PAIR_PROFILES[0] if mode == MODES[1] else "P-SAFE"
        known |= {"profile": known.get("profile") or usual, "keys": own}
        return mode == MODES[1], None
    found = describe(files, known.get("target") or REFERENCE, mode)
    known["profile"] = known.get("profile") or SHIPPED
    known["keys"] = {**found.keys, **own}
    known["by_address"] = known.get("by_address") or found.by_address
    _take_described(known, found)
    return found.mode == MODES[1], found


def _mode_of(known: Mapping[str, Any]) -> Mode | None:
    """The mode that other options imply, before any file does."""
    if known.get("controllers") or known.get("embedded"):
        return "controllers"
    profile = known.get("profile")
    if profile is None or profile == SHIPPED:
        return None
    return "pair" if profile in PAIR_PROFILES else "controllers"


def _take_described(known: dict[str, Any], found: Described) -> None:
    """Settle the layout, where files say it.

    Raises:
        ValueError: an option says otherwise.
    """
    for name in COUNTS:
        wanted, described = known.get(name), getattr(found, name)
        several = name in ("broker_sets", "replicas", "learners") and found.named > 1
        if several and wanted and described is not None and wanted != described:
            raise ValueError(
                f"--{name.replace('_', '-')} {wanted}: the files have {described} of {found.named} "
                "brokers; give one file for all brokers, or leave the option out"
            )
        if known.get("layout") and found.named < 2 and name in OF_LAYOUTS:
            described = None  # one file for all brokers
        known[name] = wanted or described or (0 if name == "learners" else None)
    if not known.get("layout"):
        known["broker_sets"] = known["broker_sets"] or 1
    known["embedded"] = known.get("embedded") or found.embedded


def _layout(known: Mapping[str, Any], found: Described, chosen: Collection[str]) -> str:
    """Which cluster the files make, and which counts neither they nor options say, in words."""
    of = {name: _count(name, known[name]) for name in COUNTS if known[name]}
    parts = [of["broker_sets"], f"{of['replicas']} each", of.get("learners", ""),
             of.get("controllers", "no controllers"), of["namesrvs"]]  # fmt: skip
    unsaid = [name for name in COUNTS
              if name in of and name not in chosen and getattr(found, name) is None]  # fmt: skip
    text = f"cluster from your files: {', '.join(filter(None, parts))}"
    if not unsaid:
        return text
    options = ", ".join(f"--{name.replace('_', '-')}" for name in unsaid)
    return f"{text}. They do not say how many {listed(map(_noun, unsaid))}: set {options}"


def _count(name: str, n: int) -> str:
    return f"{n} {_noun(name).removesuffix('s') if n == 1 else _noun(name)}"


def _noun(name: str) -> str:
    return {"namesrvs": "name servers"}.get(name, name.replace("_", " "))


def _said(known: Mapping[str, Any], found: Described) -> Iterable[str]:
    """What became of the files, in sentences."""
    target = known.get("target") or REFERENCE
    if found.left_out:
        yield f"not taken from the files: {'; '.join(why_left_out(found.left_out))}"
    if found.overlooked:
        keys = ", ".join(why_overlooked(key, target) for key in found.overlooked)
        release = release_of(target) or NEWEST
        yield f"unknown to RocketMQ {release}, which ignores them: {keys}"
    yield from found.notes


def _take_counts(known: dict[str, Any], chosen: Collection[str], *, pair: bool) -> None:
    """Settle how many there are of what, where nobody said it; `chosen` are those that options
    say."""
    known["namesrvs"] = known.get("namesrvs") or 1
    known["learners"] = known.get("learners") or 0
    _take_layout(known, chosen, pair=pair)
    known["broker_sets"] = known.get("broker_sets") or 1 + pair
    known["replicas"] = known.get("replicas") or 3 - pair
    known["layout"] = known.get("layout") or ""


def _take_layout(known: dict[str, Any], chosen: Collection[str], *, pair: bool) -> None:
    """Settle the counts that follow from a layout of containers.

    Raises:
        ValueError: others were asked for, or what containers cannot do yet.
    """
    layout = layout_for(known.get("layout") or "", pair=pair)
    inside = [f"--workload {name}" for name in known["workload"] if name == "containers"]
    inside += [f"--nemesis {name}" for name in known["nemesis"] if name in OF_CONTAINERS]
    if layout is None and inside:
        raise ValueError(f"{inside[0]} needs --layout: {', '.join(sorted(layouts()))}")
    if layout is None:
        return
    replicas = PAIR if pair else layout.replicas
    for name, count in (("broker_sets", layout.sets), ("replicas", replicas)):
        if count and known.get(name) not in (None, count):
            option = f"not --{name.replace('_', '-')} {known[name]}"
            said = option if name in chosen else f"the files have {known[name]}"
            raise ValueError(f"--layout {layout.name} has {_count(name, count)}: {said}")
        known[name] = known.get(name) or count or None
    if known.get("releases"):
        raise ValueError("--layout runs one target: not yet --release")
    wrong = [n for n in known["nemesis"] if n in NOT_IN_CONTAINERS]
    if wrong:
        raise ValueError(f"--nemesis {wrong[0]} is not for --layout: a container is one process")


def layout_for(name: str, *, pair: bool) -> LayoutKind | None:
    """The layout of a name, for pairs or with controllers; None of an empty one.

    Raises:
        ValueError: there is none, or it cannot have controllers.
    """
    found = layout_named(name)
    if found is not None and found.pairs_alone and not pair:
        raise ValueError(
            f"--layout {name} is for --mode pair: with controllers, brokers of one set have the "
            "same identity in a container, which refuses the second"
        )
    return found


def _take_pair(known: dict[str, Any], asked: Sequence[str]) -> None:
    """Settle what is otherwise in a run without controllers.

    Raises:
        ValueError: such a run cannot have a fault or a workload that was asked for.
    """
    if known.get("controllers"):
        raise ValueError(
            f"--mode pair has no controllers: not --controllers {known['controllers']}"
        )
    known["controllers"] = 0
    if set(known["workload"]) == set(TOGETHER):
        known["workload"] = tuple(n for n in known["workload"] if n in PAIR_WORKLOADS)
    if ALL in asked:
        known["nemesis"] = tuple(n for n in known["nemesis"] if n in PAIR_NEMESES)
    for what, can in (("nemesis", PAIR_NEMESES), ("workload", PAIR_WORKLOADS)):
        wrong = [n for n in known[what] if n not in can]
        if wrong:
            raise ValueError(
                f"--mode pair cannot do --{what} {','.join(wrong)}; it can do {','.join(can)}"
            )
    if known.get("releases"):
        raise ValueError("--mode pair runs one target: not yet --release")
    if known.get("target", REFERENCE).endswith(JRAFT):
        raise ValueError(f"--mode pair has no controllers: not --target {known['target']}")
    ending = known.get("ending", "current")
    if known.get("embedded") or known.get("learners") or ending != "current":
        needy = "--embedded-controllers, --learners and --ending"
        raise ValueError(f"--mode pair has no controllers: {needy} need some")


def _check_replicas(known: Mapping[str, Any], profiles: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse a set that can take no message.

    Raises:
        ValueError: it has too few replicas for what its brokers wait for.
    """
    prefix = f"{Role.BROKER.value}:"
    of_all = {k.removeprefix(prefix): v for k, v in known["keys"].items() if k.startswith(prefix)}
    keys = {**profiles[known["profile"]], **of_all}
    names = ("minInSyncReplicas", "inSyncReplicas")
    needed = max(int(keys.get(k, 1)) for k in names)
    learners, replicas = known["learners"], known["replicas"]
    if replicas - learners < needed:
        least = f"--replicas {needed + learners}"
        least += f" with --learners {learners}" if learners else ""
        said = ", ".join(f"{k}={keys[k]}" for k in names if k in keys)
        raise ValueError(f"{said} needs {least}: with fewer, brokers refuse every message")
    if replicas <= learners:
        raise ValueError(f"--learners {learners}: all of --replicas {replicas}")


def _possible(options: Options) -> Options:
    """The options, whose nodes can run what they shall.

    Raises:
        ValueError: they cannot.
    """
    nodes = [node.name for node in plan(options.topology)]
    why = misplaced(options.releases, nodes) or not_driven(options.components)
    why = why or excluded(options.targets, options.environment, options.mutant, current().targets)
    if why:
        raise ValueError(why)
    return options


def every_fault(environment: str) -> list[str]:
    """What `all` means: what the environment can do and is not for those alone who ask by name. On
    real machines the loss of power is: it takes root, and brokers that sync before they answer. So
    are wrong clocks and slow ways: nodes are started with a library for the first, and behind
    proxies for the others."""
    left_out = {*unasked(), NO_FAULT}
    if environment != SIMULATED:
        left_out |= {*POWER_FAULTS, CLOCK.name, DELAY.name}
    can = capabilities_of(environment)
    return [name for name in fault_names() if name not in left_out and needs_of([name]) <= can]


def flat(given: Iterable[str | Iterable[str]]) -> list[str]:
    """Names, each given alone or in a group."""
    return [name for each in given for name in ([each] if isinstance(each, str) else each)]
