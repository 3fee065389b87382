"""What is printed for people, in which no name can act on the terminal.

Names of nodes, topics and groups come from a cluster or from a stored history, and may hold
anything. A control character in one could colour, hide or overwrite what was printed, give the
window another title, or answer for the user. A new line could begin with a false verdict, and marks
of direction reorder what is read.

Such characters are printed as JSON escapes them (``\\u001b``), so that printed JSON stays what it
is.
"""

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
