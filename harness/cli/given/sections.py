"""Help that can be read: examples first, at most twelve options, the others by ``--help-all``."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from maxq.harness.contracts.terminal import echo

TITLE = "section"  # the attribute of an option that has one
OTHERS = "Other"
FIRST_MAX = 12  # options that `--help` shows
ALL = "--help-all"
Rows = list[tuple[str, str]]


def section(title: str, *options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Give a command these options, in this order, under a title of its help."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
            setattr(command.__click_params__[-1], TITLE, title)
        return command

    return decorate


class Sectioned(click.Command):
    """A command whose help begins with its examples, its epilog. Where it names the options that
    matter `first`, `--help` shows these, and `--help-all` all of them by their sections."""

    def __init__(self, *args: Any, first: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.first = tuple(first)
        if self.first:
            self.params.append(_help_all())

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Usage, what it does, examples, options."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Those that matter first, or a table for each section."""
        params = {param.name: param for param in self.get_params(ctx)}
        if self.first and not ctx.meta.get(ALL):
            helps = [p for p in params.values() if {"--help", ALL} & set(p.opts)]
            rows = (_record(p, ctx) for p in (*(params[name] for name in self.first), *helps))
            with formatter.section("Options"):
                formatter.write_dl([row for row in rows if row is not None])
            return
        found: dict[str, Rows] = {}
        for param in params.values():
            record = _record(param, ctx)
            if record is not None and ALL not in param.opts:
                found.setdefault(getattr(param, TITLE, OTHERS), []).append(record)
        titles = [t for t in found if t != OTHERS]
        for title in (*titles, OTHERS):
            with formatter.section(title if titles else "Options"):
                formatter.write_dl(found.get(title, []))


def _record(param: click.Parameter, ctx: click.Context) -> tuple[str, str] | None:
    """An option's row, without its older spellings: those behind the first long one."""
    record = param.get_help_record(ctx)
    if record is None:
        return None
    text, about = record
    for older in [o for o in param.opts if o.startswith("--")][1:]:
        text = text.replace(f", {older}", "")
    return text, about


def _help_all() -> click.Option:
    """The option that shows them all."""

    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            ctx.meta[ALL] = True
            echo(ctx.get_help())
            ctx.exit()

    return click.Option([ALL], is_flag=True, is_eager=True, expose_value=False, callback=show,
                        help="Show all options and exit.")  # fmt: skip
