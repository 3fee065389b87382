"""HTML by construction: text is escaped wherever it goes in, so nothing can be forgotten.

A page shows what a cluster and a history said, and those may be hostile. Only `el` and `Html` of
this module make markup; tags, attribute names, and whatever `Html` wraps are literals of our own.
Characters that would end a line, turn the direction of text or are no characters at all are shown
as escapes.
"""

import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from typing import NamedTuple, TypeAlias

# Controls but tab and newline, marks and overrides of direction, surrogates, no characters.
_ODD = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9:-]*")
VOID = frozenset(("meta", "br", "input", "wbr"))
# What SVG draws has no content but a tooltip: an empty one closes itself.
EMPTY = frozenset(("path", "rect", "line", "circle", "use"))


class Html(NamedTuple):
    """Markup, as it goes into the page."""

    text: str

    def __str__(self) -> str:
        return self.text


Child: TypeAlias = Html | str | int | float | Iterable["Child"] | None
Attribute = str | int | float | bool | None


def clean(text: object) -> str:
    """Text without what cannot be shown, which is written as an escape instead."""
    return _ODD.sub(lambda m: f"\\u{ord(m[0]):04x}", str(text))


def text(content: object) -> Html:
    """Text, escaped."""
    return Html(escape(clean(content)))


def join(*children: Child) -> Html:
    """Children one after the other; strings and numbers are text."""
    parts: list[str] = []
    _flatten(children, parts)
    return Html("".join(parts))


def _flatten(children: Iterable[Child], parts: list[str]) -> None:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            parts.append(child.text)
        elif isinstance(child, str | int | float):
            parts.append(text(child).text)
        else:
            _flatten(child, parts)


def el(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """An element. Attributes: a trailing `_` is dropped, other `_` are `-`; None and False are
    left out.

    Raises:
        ValueError: a tag or an attribute has an impossible name, or a handler's.
    """
    pairs = [(name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items()]
    for name in (tag, *(name for name, _ in pairs)):
        if not _NAME.fullmatch(name) or name.startswith("on") or name == "style":
            raise ValueError(f"no name of an element or attribute of a report: {name!r}")
    text = "".join(_attribute(name, v) for name, v in pairs if v is not None and v is not False)
    content = join(*children).text
    if tag in VOID:
        return Html(f"<{tag}{text}>")
    if tag in EMPTY and not content:
        return Html(f"<{tag}{text}/>")
    return Html(f"<{tag}{text}>{content}</{tag}>")


def _attribute(name: str, value: Attribute) -> str:
    return f" {name}" if value is True else f' {name}="{text(value).text}"'


def short(value: object, length_max: int) -> str:
    """Text of a bounded length; says that there was more."""
    text = clean(value)
    return text if len(text) <= length_max else f"{text[:length_max]}… ({len(text)} characters)"


def policy(style: str, script: str) -> str:
    """A content security policy that allows this style and this script and nothing else."""

    def digest(what: str) -> str:
        return b64encode(sha256(what.encode()).digest()).decode()

    return (
        f"default-src 'none'; style-src 'sha256-{digest(style)}'; "
        f"script-src 'sha256-{digest(script)}'; base-uri 'none'; form-action 'none'"
    )
