"""What is printed for people, in which no name can act on the terminal.

Names of nodes, topics and groups come from a cluster or from a stored history, and may hold
anything. A control character in one could colour, hide or overwrite what was printed, give the
window another title, or answer for the user. A new line could begin with a false verdict, and marks
of direction reorder what is read.

Such characters are printed as JSON escapes them (``\\u001b``), so that printed JSON stays what it
is.
"""

import io
import sys
from collections.abc import Iterable, Sequence

import click

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_LINE_ENDS = (0x2028, 0x2029)
_ESCAPED = {code: f"\\u{code:04x}" for code in (*_CONTROLS, *_DIRECTIONS, *_LINE_ENDS)}
_ESCAPED_LINES = {code: text for code, text in _ESCAPED.items() if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """A text of several lines as it can be printed."""
    return text.translate(_ESCAPED_LINES)


def one_line(text: str) -> str:
    """A text that is one line, whatever it holds, as it can be printed."""
    return text.translate(_ESCAPED)


def echo(text: str, *, err: bool = False) -> None:
    """Print a text, of one line or several, on standard output or standard error."""
    click.echo(printable(text), err=err)


def table(
    columns: Sequence[tuple[str, int]],
    rows: Iterable[Sequence[tuple[str, str]]],
    *,
    width: int,
    colour: bool,
) -> str:
    """A table as lines of a terminal, for `echo_drawn`.

    Args:
        columns: of each its heading, and its share of the width.
        rows: of cells, each a text, of which what cannot be printed is escaped, and its style.
        width: of the terminal, in characters.
        colour: whether styles are shown.
    """
    # Here, since every command imports this module, and few draw a table.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name, ratio in columns:
        drawn.add_column(name, ratio=ratio, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(one_line(text), style) for text, style in row))
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colour, highlight=False, markup=False)
    console.print(drawn)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def echo_drawn(drawn: str) -> None:
    """Print what `table` drew: its cells are escaped, and the rest is ours."""
    click.echo(drawn)


def coloured() -> bool:
    """Whether standard output is a terminal; whether its user wants colours is asked of rich."""
    return sys.stdout.isatty()
