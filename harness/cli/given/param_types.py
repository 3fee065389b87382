"""Kinds of values on the command line, and how a wrong one is answered."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from maxq.checkers.judgement.summary import FAIL_ON
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.nearest import nearest
from maxq.harness.contracts.plugins import current
from maxq.harness.environments.choose import ORDER
from maxq.harness.run import plugins
from maxq.harness.schedule.format import SECONDS_MAX
from maxq.harness.targets import known_keys
from maxq.harness.targets.rocketmq.libraries import located
from maxq.harness.targets.rocketmq.releases import (
    LATEST,
    MISSING,
    NODE_COMPONENTS,
    PREFIX,
    REFERENCE,
    parse,
    spelled,
)
from maxq.harness.targets.settings_files import SettingsError, SettingsFile, read
from maxq.histories import aliases
from maxq.histories.aliases import THEN

DURATION_NS_MAX = SECONDS_MAX * 10**9
_UNITS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_SETTING = re.compile(
    r"((?:namesrv|controller|broker|[nc]\d+|b\d+-\d+):[A-Za-z][A-Za-z0-9._]*)=(.*)"
)
_PART = r"(\d+(?:\.\d+)?)(ms|s|min|m|h)"
_DURATION = re.compile(f"(?:{_PART})+")


class Duration(click.ParamType[int]):
    """A duration with its units, such as ``60s``, ``1min`` or ``1h30m``; a number alone is seconds.
    In ns."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = f"{value}s" if re.fullmatch(r"\d+(\.\d+)?", str(value)) else str(value)
        if _DURATION.fullmatch(text) is None:
            self.fail(f"{value!r} is no duration; write it as 500ms, 30s, 2m or 1h30m", param)
        parts = re.findall(_PART, text)
        duration_ns = round(sum(Decimal(number) * _UNITS[unit] for number, unit in parts))
        if not 0 < duration_ns <= DURATION_NS_MAX:
            self.fail(f"{value!r} is not between 1 ns and 7 days", param)
        return duration_ns


class Rate(click.FloatRange):
    """A number of operations a second."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        rate = super().convert(value, param, ctx)
        if math.isnan(rate):
            self.fail(f"{value!r} is no rate", param)
        return rate


class Percent(click.ParamType[int]):
    """A share of a hundred: ``1%``."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,3})%?", str(value))
        if found is None or int(found[1]) > 100:
            self.fail(f"{value!r} is no share; write one such as 1%", param)
        return int(found[1])


class Setting(click.ParamType[tuple[str, str]]):
    """A setting of a role's configuration, or of one node's: ``broker:flushDiskType=SYNC_FLUSH``,
    ``b0-1:flushDiskType=SYNC_FLUSH``."""

    name = "setting"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        found = _SETTING.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no setting; write ROLE:KEY=VALUE, the role namesrv, "
                      "controller or broker, or a node's name such as b0-1", param)  # fmt: skip
        if why := known_keys.fault(found[1]) or known_keys.value_fault(found[1], found[2]):
            self.fail(f"{value!r}: {why}", param)
        return found[1], found[2]


class Choices(click.ParamType[Any]):
    """Names to choose from, completed by the shell. Where plug-ins may add to them they are a
    function, asked when a command line is read.

    Args:
        known: the names, or what gives them.
        shown: what help calls one of them; empty: the names themselves.
    """

    name = "name"

    def __init__(self, known: Iterable[str] | Callable[[], Iterable[str]], shown: str = "") -> None:
        self._known = known if callable(known) else tuple(known)
        self._shown = shown

    @property
    def choices(self) -> tuple[str, ...]:
        """What there is now."""
        return tuple(self._known()) if callable(self._known) else self._known

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """As help shows a value."""
        return self._shown or f"[{'|'.join(self.choices)}]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin so; of several that commas join, the last one."""
        before, comma, word = incomplete.rpartition(",")
        return [CompletionItem(f"{before}{comma}{name}")
                for name in self.choices if name.startswith(word)]  # fmt: skip


class Name(Choices):
    """One of several names; a wrong one is answered with the nearest. `older` gives today's name of
    one that an older version had."""

    def __init__(
        self,
        known: Iterable[str] | Callable[[], Iterable[str]],
        shown: str = "",
        older: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(known, shown)
        self._older = older or {}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        value, choices = self._older.get(value, value), self.choices
        if value not in choices:
            known = ", ".join(choices) or "nothing"
            self.fail(f"{value!r} is unknown{nearest(value, choices)}; known: {known}", param)
        return str(value)


class EnvironmentName(Name):
    """Where nodes run: one of Max-Q's own environments, or of a plug-in's.

    Args:
        own: those of Max-Q that are meant.
    """

    def __init__(self, own: Sequence[str] = ORDER) -> None:
        super().__init__(lambda: (*own, *current().environments))


class SettingsFiles(click.ParamType[tuple[SettingsFile, ...]]):
    """A properties file of a role, as RocketMQ reads it, or a folder of files of any roles."""

    name = "file"

    def __init__(self, role: Role) -> None:
        self._role = role

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[SettingsFile, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return read(Path(value), self._role)
        except OSError as error:
            self.fail(f"{value}: {error.strerror}", param)
        except SettingsError as error:
            self.fail(f"\n{error}", param)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Files."""
        return [CompletionItem(incomplete, type="file")]


class Target(click.ParamType[str]):
    """What runs: the reference, or a release of Apache RocketMQ."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in (REFERENCE, *current().targets):
            return str(value)
        try:
            return str(parse(located(str(value))))
        except ValueError as error:
            self.fail(str(error), param)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The targets that begin so."""
        known = (REFERENCE, *current().targets, *(f"{PREFIX}{r}" for r in (LATEST, *MISSING)))
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]


class Releases(click.ParamType[tuple[tuple[str, str], ...]]):
    """Releases of components or nodes, joined by commas: ``controller=5.1.0,b0-1=reference``.
    Whether there is such a node depends on the other options."""

    name = "releases"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, str], ...]:
        if isinstance(value, tuple):
            return value
        found: dict[str, str] = {}
        for one in str(value).split(","):
            name, equals, release = one.partition("=")
            if not equals or not name:
                known = ", ".join(NODE_COMPONENTS)
                self.fail(f"{one!r} gives no release; write NODE=RELEASE, the node a name such as "
                          f"b0-1 or one of {known}", param)  # fmt: skip
            if name in found:
                self.fail(f"{name} has two releases", param)
            try:
                found[name] = spelled(located(release))
            except ValueError as error:
                self.fail(f"{name}: {error}", param)
        return tuple(found.items())


class Names(Choices):
    """Names joined by commas, each one of several."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        each = Name(self.choices)
        return tuple(each.convert(name, param, ctx) for name in str(value).split(","))


class Faults(Names):
    """Names of faults joined by commas; two joined by ``-then-`` are an ordered pair. Names of
    older versions are read as today's."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        each, found = Name(self.choices), []
        for name in str(value).split(","):
            parts = [each.convert(part, param, ctx) for part in aliases.current(name).split(THEN)]
            if len(parts) > 2 or (len(parts) == 2 and {"all", "none"} & set(parts)):
                self.fail(f"{name!r}: only two faults can be joined by {THEN}", param)
            found.append(THEN.join(parts))
        return tuple(found)


class Alias(Choices):
    """One of several names, each with a short one, in any case; gives the long one."""

    def __init__(self, long_of: Mapping[str, str]) -> None:
        super().__init__(long_of)
        self.long_of = dict(long_of)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        lower = str(value).lower()
        for short, long in self.long_of.items():
            if lower in (short.lower(), long.lower()):
                return long
        return self.long_of[Name(tuple(self.long_of)).convert(value, param, ctx)]


@contextmanager
def usage() -> Iterator[None]:
    """Options that exclude each other are a usage error."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def with_plugins(ctx: click.Context, param: click.Parameter, modules: Sequence[str]) -> None:
    """Load what the command line names, before any other value of it is read."""
    try:
        plugins.load(modules)
    except plugins.PluginError as error:
        raise click.UsageError(str(error)) from None


PLUGIN_OPTION = click.option(
    "--plugin",
    multiple=True,
    metavar="MODULE",
    is_eager=True,
    expose_value=False,
    callback=with_plugins,
    help="a module with workloads, faults, checkers, … of your own (docs/plugins.md)",
)

RELEASE_OPTION = click.option(
    "--release",
    "releases",
    type=Releases(),
    default=(),
    metavar="NODE=RELEASE,...",
    help="releases of single components or nodes, such as controller=5.1.0,b0-1=reference",
)

FAIL_ON_OPTION = click.option(
    "--fail-on",
    type=Name(FAIL_ON),
    default=None,
    help="exit with 1 although the settings promise nothing: for lost messages, for stale or "
    "reordered reads, or for any finding",
)

EXPLAIN_OPTION = click.option(
    "--explain",
    is_flag=True,
    help="find out which faults the findings need, by repeating a simulated run without some",
)
TRIES_MAX = 20
TRY_FIX_OPTION = click.option(
    "--try-fix",
    "tries",
    type=click.IntRange(0, TRIES_MAX),
    default=0,
    show_default=True,
    help="where something was lost, try which settings would have kept it, each so many times: "
    "the run is made again",
)
ACCEPT_PARTIAL_OPTION = click.option(
    "--accept-partial",
    is_flag=True,
    help="a run that a signal ends early exits with its verdict's code, not the signal's",
)
VERBOSE_OPTION = click.option(
    "--verbose",
    "-v",
    is_flag=True,
    help="print every finding with its explanation, every claim, fault and recovery",
)
