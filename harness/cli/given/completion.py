"""Completion by the shell in a fraction of a second: what a command takes is noted once.

A command takes a second to be imported, longer than anybody waits for a Tab. So its options and
their values are written to the user's cache when they are first asked for, and read from there as
long as the code and the packages beside it stay what they are. Names of commands are a table.
"""

import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import click
import msgspec
from click.shell_completion import CompletionItem, get_completion_class

HERE = Path(__file__).resolve()
ROOT = HERE.parents[3]
# Folders in which a module more, or a package, may bring another name.
WATCHED = ("harness/cli", "nemeses/kinds", "reference/mutants", "harness/schedule/upstream",
           "workloads")  # fmt: skip


class Taken(msgspec.Struct, frozen=True):
    """An option of a command, or an argument, which has no `opts`: its values, each with the kind
    that a shell knows (``plain``, ``file``); `commas` join several."""

    opts: tuple[str, ...]
    about: str
    is_flag: bool
    commas: bool
    values: tuple[tuple[str, str], ...]


class Table(msgspec.Struct, frozen=True):
    """What a command takes, as of a state of the code."""

    stamp: str
    taken: tuple[Taken, ...]


def answer(group: click.Group, commands: Iterable[str], cache: Path, shell: str) -> None:
    """Print what a shell asks for in its variables, as its script has it (click's)."""
    kind = get_completion_class(shell)
    if kind is None:
        return
    asked = kind(group, {}, "maxq", "")
    args, incomplete = asked.get_completion_args()
    for item in items(args, incomplete, commands, lambda name: table_of(group, name, cache)):
        sys.stdout.write(asked.format_completion(item) + "\n")


def items(
    args: Sequence[str],
    incomplete: str,
    commands: Iterable[str],
    table: Callable[[str], Table],
) -> Iterator[CompletionItem]:
    """What may stand in the place of the incomplete word behind these, after ``maxq``."""
    known = list(commands)
    if not args or args[0] not in known:
        names = ("--help", "--version") if incomplete.startswith("-") else known
        yield from (CompletionItem(name) for name in names if name.startswith(incomplete))
        return
    taken = table(args[0]).taken
    before = next((t for t in taken if args[-1] in t.opts and not t.is_flag), None)
    if before is None and incomplete.startswith("-"):
        yield from (CompletionItem(option, help=t.about) for t in taken for option in t.opts
                    if option.startswith(incomplete))  # fmt: skip
        return
    for one in [before] if before is not None else [t for t in taken if not t.opts]:
        head, comma, word = incomplete.rpartition(",") if one.commas else ("", "", incomplete)
        for value, kind in one.values:
            if kind != "plain":
                yield CompletionItem(incomplete, type=kind)
            elif value.startswith(word):
                yield CompletionItem(f"{head}{comma}{value}")


def table_of(group: click.Group, name: str, cache: Path) -> Table:
    """What a command takes: as it was noted, or by importing it, and noted then."""
    path, stamp = cache / f"{name}.json", stamp_of()
    try:
        noted = msgspec.json.decode(path.read_bytes(), type=Table)
        if noted.stamp == stamp:
            return noted
    except (OSError, ValueError):  # not noted yet, or by another version
        pass
    made = Table(stamp, tuple(_taken(group, name)))
    try:
        cache.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(made))
    except OSError:  # a read-only home is no reason not to complete
        pass
    return made


def stamp_of() -> str:
    """What changes with the code, and with the packages that may bring plug-ins."""
    places = [ROOT / folder for folder in WATCHED] + [Path(sysconfig.get_path("purelib"))]
    files = [*(ROOT / "harness" / "cli").rglob("*.py"), *places]
    return str(max(path.stat().st_mtime_ns for path in files if path.exists()))


def _taken(group: click.Group, name: str) -> Iterator[Taken]:
    context = click.Context(group)
    command = group.get_command(context, name)
    if command is None:
        return
    context = click.Context(command, info_name=name, resilient_parsing=True)
    for param in command.get_params(context):
        is_flag = isinstance(param, click.Option) and (param.is_flag or param.count)
        opts = tuple(param.opts) if isinstance(param, click.Option) else ()
        values = () if is_flag else param.shell_complete(context, "")
        yield Taken(
            opts=opts,
            about=getattr(param, "help", None) or "",
            is_flag=is_flag,
            commas=(param.metavar or param.make_metavar(context)).endswith(",..."),
            values=tuple((str(item.value), item.type) for item in values),
        )
