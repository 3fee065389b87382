"""What is printed for people, in which no name can act on the terminal.

Names of nodes, topics and groups come from a cluster or from a stored history, and may hold
anything. A control character in one could colour, hide or overwrite what was printed, give the
window another title, or answer for the user. A new line could begin with a false verdict, and marks
of direction reorder what is read.

Such characters are printed as JSON escapes them (``\\u001b``), so that printed JSON stays what it
is.
"""

import io
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

NAME = "maxq"  # of the program, in commands as they are stored
_LINKS = frozenset(("latest", "current"))  # to runs, in a store
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


def pasted(command: str) -> str:
    """A command as it can be pasted where this process was started: by the name that the program
    was called, and with runs by their own folders, as the newest one is soon another.

    Args:
        command: begins with ``maxq``.
    """
    first, *words = shlex.split(command)
    named = [program()] if first == NAME else [first]
    return " ".join([*named, *(shlex.quote(_lasting(word)) for word in words)])


def program() -> str:
    """How Max-Q is called here: as it was, or by the script that is installed beside Python."""
    called, words = Path(sys.argv[0]), sys.orig_argv
    if called.name == NAME:
        return shlex.quote(_short(called))
    module = words.index("-m") + 1 if "-m" in words else 0
    if module and words[module].startswith(NAME + "."):
        return shlex.join([_short(Path(words[0])), *words[1 : module + 1]])
    beside = Path(sys.executable).with_name(NAME)
    return shlex.quote(_short(beside)) if beside.exists() else NAME


def _short(path: Path) -> str:
    """A program by its name alone where the PATH leads to it; else as it was called."""
    found = shutil.which(path.name)
    if found is not None and path.exists() and path.samefile(found):
        return path.name
    return _from_here(path)


def _from_here(path: Path) -> str:
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return str(path)


def _lasting(word: str) -> str:
    """A word of a command; a link to a run as the run."""
    path = Path(word)
    if path.name in _LINKS and path.is_symlink():
        return _from_here(path.resolve())
    return word


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
