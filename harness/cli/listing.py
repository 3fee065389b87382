"""The command ``maxq list``: what there is of each kind, with what it is, in a line."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

import click

from maxq.checkers.core.claims import BY_ID
from maxq.harness.cli.given.options import KNOWN_PROFILES
from maxq.harness.cli.given.param_types import PLUGIN_OPTION, Name
from maxq.harness.cli.histories.known_models import known_models
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.plugins import current, layouts
from maxq.harness.contracts.terminal import echo, one_line
from maxq.harness.environments.choose import DOCKER, LOCAL, SIMULATED
from maxq.harness.experiments import campaign
from maxq.harness.experiments.scenarios import kept_scenario, scenario
from maxq.harness.experiments.upgrade.plans import upgrades
from maxq.harness.run import plugins
from maxq.harness.run.judging import every_checker
from maxq.harness.run.run_plan import workloads
from maxq.harness.targets.known_keys import NEWEST
from maxq.harness.targets.rocketmq.releases import BACK_ENDS, LATEST, MISSING, PREFIX, REFERENCE
from maxq.harness.targets.settings_files import fate
from maxq.nemeses import catalogue
from maxq.reference import mutants
from maxq.reference.java_keys import MACHINE, keys_of

Rows = Iterable[tuple[str, str]]
FOREIGN = "; of a plug-in"


def _checkers() -> Iterator[tuple[str, str]]:
    own = current().checkers
    for checker in every_checker():
        if checker.name in own:
            yield checker.name, own[checker.name].about + FOREIGN
        else:
            claims = ", ".join(checker.claims)
            judged = f"judges {claims}" if claims else "judges no claim of its own"
            text = sys.modules[type(checker).__module__].__doc__
            yield checker.name, f"{_first(text)} ({judged})"


def _first(text: str | None) -> str:
    """The first sentence of a text, without its full stop."""
    line = " ".join((text or "").split())
    return line.partition(". ")[0].removesuffix(".")


def _nemeses() -> Iterator[tuple[str, str]]:
    own = catalogue.registered()
    for name in catalogue.fault_names():
        if name == catalogue.NO_FAULT:
            yield name, "no faults"
            continue
        (kind,) = catalogue.kinds_of(name)
        asked = "; not among `all`" if kind.asked_only else ""
        yield name, f"{kind.about}{asked}{FOREIGN if kind in own else ''}"
    yield "all", "all that the environment can do, but those that are named `not among all`"
    yield "A-then-B", "two of these in this order, close together: partition-then-kill"


def _workloads() -> Iterator[tuple[str, str]]:
    own = current().workloads
    for kind in workloads().values():
        yield kind.name, kind.about + (FOREIGN if kind.name in own else "")


def _layouts() -> Iterator[tuple[str, str]]:
    own = current().layouts
    for kind in layouts().values():
        yield kind.name, kind.about + (FOREIGN if kind.name in own else "")


def _targets() -> Iterator[tuple[str, str]]:
    yield REFERENCE, "our own nodes, in Python; the only ones of the simulator"
    for kind in current().targets.values():
        yield kind.name, kind.about + FOREIGN
    for release in (*MISSING, LATEST):
        newest = ": the newest of these" if release == LATEST else ""
        yield f"{PREFIX}{release}", f"Apache RocketMQ{newest}"
    yield f"{PREFIX}RELEASE:{BACK_ENDS[1]}", "with controllers that agree by jraft"


def _scenarios() -> Iterator[tuple[str, str]]:
    for name in kept_scenario.names():
        one = kept_scenario.kept_scenario_of(name)
        if one is not None:
            yield name, f"{one.script.header.name}; kept by the reference"
    for name in scenario.names():
        found = scenario.scenario_of(name)
        known = found.known
        yield name, f"{found.script.header.name}; bad in {known.bad}, good in {known.good}"


def _upgrades() -> Iterator[tuple[str, str]]:
    for up in upgrades():
        under = f"name servers {up.namesrvs}" if up.pair else f"controllers {up.controllers}"
        text = f"{up.group}: {under}, brokers {up.brokers}"
        yield up.name, text + (f"; {up.replaced} nodes are replaced" if up.replaced else "")


def _models() -> Iterator[tuple[str, str]]:
    for name, model in known_models().items():
        names = defaultdict[str, list[str]](list)
        for other, own in model.synonyms.items():
            names[own].append(other)
        also = ", ".join(f"{own} may be {' or '.join(others)}" for own, others in names.items())
        yield name, model.about + (f"; {also}" if also else "")


def _environments() -> Rows:
    return (
        (DOCKER, "a container for each node, on a Docker engine"),
        (LOCAL, "a network namespace for each node, on this machine, without root"),
        (SIMULATED, "virtual time in one process: exact repetition, the reference only"),
        ("auto", "the first of these that can do what is asked, here and now"),
        *((kind.name, kind.about) for kind in current().environments.values()),
    )


def _keys() -> Iterator[tuple[str, str]]:
    for role in Role:
        for name, of in sorted(keys_of(role.value).items()):
            newest = of[-1]
            until = "" if newest.last == NEWEST else f"until {newest.last}; "
            default = f"{newest.default or 'nothing'} as shipped"
            default = (
                "as shipped it depends on the machine" if newest.default == MACHINE else default
            )
            yield f"{role.value}:{name}", f"{until}{newest.type}, {default}; {fate(role, name)}"


LISTED: dict[str, tuple[str, Callable[[], Rows]]] = {
    "workloads": ("what clients do", _workloads),
    "nemeses": ("the faults", _nemeses),
    "layouts": ("which brokers share a process, for --layout", _layouts),
    "profiles": ("sets of settings, by what they promise", lambda: KNOWN_PROFILES.items()),
    "targets": ("what can be tested", _targets),
    "keys": ("settings of RocketMQ's nodes, and what Max-Q does with those of your files", _keys),
    "environments": ("where nodes can run", _environments),
    "checkers": ("what judges a run", _checkers),
    "models": ("models to judge any history by, for `maxq check FILE --model`",
               _models),
    "claims": ("what is promised", lambda: [(c.id, c.promise) for c in BY_ID.values()]),
    "mutants": ("seeded bugs of the reference",
                lambda: [(name, mutants.title(name)) for name in mutants.names()]),
    "scenarios": ("known bugs, and what a cluster keeps, for `maxq scenario`", _scenarios),
    "upgrades": ("clusters of two releases, for `maxq upgrade`", _upgrades),
    "campaigns": ("campaigns that come with Max-Q, for `maxq campaign`", campaign.built_in),
    "plugins": ("what comes from plug-ins, and where it is from",
                lambda: plugins.loaded().items()),
}  # fmt: skip


class Listed(click.Command):
    """Its help says what each kind is."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Kinds"):
            formatter.write_dl([(kind, about) for kind, (about, _) in LISTED.items()])


@click.command("list", cls=Listed)
@click.argument("kind", type=Name(LISTED, "KIND"), required=False)
@PLUGIN_OPTION
def list_command(kind: str | None) -> int:
    """List the kinds of things there are, or what there is of one kind, a line each."""
    kinds = ((name, about) for name, (about, _) in LISTED.items())
    rows = list(kinds if kind is None else LISTED[kind][1]())
    if not rows:
        echo(f"there are no {kind}")
    width = max((len(name) for name, _ in rows), default=0)
    for name, about in rows:
        echo(one_line(f"{name:{width}}  {about}".rstrip()))
    return 0
