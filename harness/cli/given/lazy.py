"""Commands that are imported when they are asked for: what `maxq --help` prints is a table.

All that a run needs takes most of a second to import, and none of it is needed to say what commands
there are. The table's texts are compared with the commands' own by a test.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click
import msgspec

CLOSED = 141  # as a shell says it of a process whose reader has gone: 128 and SIGPIPE
WIDTH_MAX = 100


class Place(msgspec.Struct, frozen=True):
    """Where a command is, as module and name in it, and what it does, in a line."""

    module: str
    attribute: str
    about: str


class Commands(click.Group):
    """Commands by sections. A wrong one is answered with the nearest. Where the reader of the
    output has gone it ends with `CLOSED`: click's own 1 would say that a run was invalid."""

    def __init__(
        self, *args: Any, sections: Mapping[str, Mapping[str, Place]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections or {}
        self.places = {name: at for of in self.sections.values() for name, at in of.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        at = self.places.get(cmd_name)
        if at is None:
            return None
        found: click.Command = getattr(import_module(at.module), at.attribute)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A table for each section, for which nothing is imported."""
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, at.about) for name, at in commands.items()])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """As click, but for a reader that has gone: of `--help`."""
        with heard_out():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """As click, but for a reader that has gone."""
        with heard_out():
            done = super().invoke(ctx)
            sys.stdout.flush()
            return done

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.places:
            from maxq.harness.contracts.nearest import nearest

            known = ", ".join(sorted(self.places))
            ctx.fail(f"no command {args[0]!r}{nearest(args[0], self.places)}; there are: {known}")
        return super().resolve_command(ctx, args)


@contextmanager
def heard_out() -> Iterator[None]:
    """Where the reader of the output goes meanwhile, end with `CLOSED`.

    Raises:
        click.exceptions.Exit: it has gone.
    """
    try:
        yield
    except BrokenPipeError:
        silence()
        raise click.exceptions.Exit(CLOSED) from None


def silence() -> None:
    """Have what is still to be printed go nowhere, as its reader has gone."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
