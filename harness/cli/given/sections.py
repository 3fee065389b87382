"""Options of a command by sections, so that its help can be read."""

from collections.abc import Callable
from typing import Any

import click

TITLE = "section"  # the attribute of an option that has one
OTHERS = "Other"


def section(title: str, *options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Give a command these options, in this order, under a title of its help."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
            setattr(command.__click_params__[-1], TITLE, title)
        return command

    return decorate


class Sectioned(click.Command):
    """A command whose help has its options by their sections, those without one last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A table for each section."""
        found: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                found.setdefault(getattr(param, TITLE, OTHERS), []).append(record)
        for title in (*(t for t in found if t != OTHERS), OTHERS):
            with formatter.section(title):
                formatter.write_dl(found.get(title, []))
