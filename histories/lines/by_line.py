"""Jepsen's EDN, an operation a line, read by way of JSON: twenty times as fast as form by form.

Where a line has one map, and no other in it, its texts between two numbers say all that the two
languages differ in. A history has few such texts: each is translated once, and what comes of a line
is an object of JSON that a decoder in C turns into an operation.

A text of which that is not sure becomes what is no JSON, and its line is read form by form, by the
rules of `maxq.histories.jepsen`, whose operations both ways give. So is the whole file, if a line
of it is no operation or holds several.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from maxq.histories.aliases import current_f
from maxq.histories.edn import name_of
from maxq.histories.edn_read import read_edn
from maxq.histories.jepsen import MICRO, op_of_form, ops_of
from maxq.histories.op import Held, HistoryError, Op, Progress, without_cycles
from maxq.histories.text import INT64_MAX

CHUNK, TOGETHER = (
    1 << 20,
    1 << 12,
)  # bytes that are read, and operations that are decoded, at a time
BOM = b"\xef\xbb\xbf"
# From a sign that a number does not begin with up to the next number; strings as a whole.
_RUN = re.compile(
    rb'([{,\[:A-Za-z"](?:(?<=")[^"\\\n]*+")?(?:[^0-9"\\-]++|-(?![0-9])|"[^"\\\n]*+")*+)'
)
_TOKEN = re.compile(
    rb'(?P<text>"[^"\\\n]*+")|(?P<keyword>:[A-Za-z*+!_?<>=$%&-][^\s,()\[\]{}"\x80-\xff]*+)'
    rb'|(?P<word>[A-Za-z][^\s,()\[\]{}"\x80-\xff]*+)|(?P<comma>,)|(?P<space> +)|(?P<opens>[\[(])'
    rb"|(?P<closes>[\])])|(?P<map>\{)|(?P<end>\})|(?P<line>\n)"
)
_RECORD = re.compile(rb"^#[a-z][A-Za-z0-9_.]*\.[A-Za-z0-9]+\{", re.MULTILINE)
_NUMBERS = bytes.maketrans(b" ()", b",[]")  # of what is between two runs
_WORDS = {b"nil": b"null", b"true": b"true", b"false": b"false"}
_NO_JSON = b"\0"
HEADS = ("append", "poll", "r", "send", "w")  # of the parts of a transaction
_HEADS = frozenset(head.encode() for head in HEADS)
_NAMES = (b"type", b"f", b"process")  # keys of which a keyword is a name, and no value
_PLAIN = (b"index", b"time", b"value", *_NAMES)
_KEYWORD = "$keyword"


class Otherwise(Exception):
    """A line is no operation, or not one."""


def read_edn_history(
    path: Path, progress: Progress = lambda _: None, held: Held = tuple
) -> Sequence[Op]:
    """The operations of a file: a form each, or all in one vector or list.

    Raises:
        HistoryError: it is no history; with the line, or the number of the operation.
    """
    with without_cycles():
        try:
            with path.open("rb") as file:
                return held(_Reading().ops(file, progress))
        except (Otherwise, HistoryError, UnicodeDecodeError):
            return held(ops_of(path))


class _Translations(dict[bytes, bytes]):
    """The JSON of each run."""

    def __missing__(self, run: bytes) -> bytes:
        found = self[run] = translated(run)
        return found


def translated(run: bytes) -> bytes:
    """The JSON of what stands between two numbers; `_NO_JSON` where that is not sure.

    A keyword as a value becomes ``{"$keyword": name}``, but for one that is a name by its place:
    that of a type, an operation or a process, and the first of a part of a transaction.
    """
    found: list[bytes] = []
    at, before, key = 0, "", b""
    while at < len(run):
        match = _TOKEN.match(run, at)
        if match is None:
            return _NO_JSON
        kind, token, at = str(match.lastgroup), match[0], match.end()
        if kind in ("keyword", "text") and before in ("map", "comma"):
            key, kind = token.strip(b':"'), "key"
            if key == b"ext" or run[at : at + 1] != b" ":
                return _NO_JSON
            token, at = b'"%b":' % key, at + 1
        elif kind == "keyword":
            token = _keyword(token[1:], before, key)
        elif kind == "space" and before == "comma":
            continue
        else:
            key = b"" if kind == "map" else key
            token = _sign(kind, token)
        found.append(token)
        before = kind
    return b"".join(found)


def _keyword(name: bytes, before: str, key: bytes) -> bytes:
    if before == "key" and key in _NAMES:
        return b'"%b"' % name
    if before == "opens" and name in _HEADS and (not key or key == b"value"):
        return b'"%b"' % name
    known = key and key not in _PLAIN and before in ("key", "opens", "space")
    return b'{"%b":"%b"}' % (_KEYWORD.encode(), name) if known else _NO_JSON


def _sign(kind: str, token: bytes) -> bytes:
    match kind:
        case "space":
            return b","
        case "opens":
            return b"["
        case "closes":
            return b"]"
        case "word":
            return _WORDS.get(token, _NO_JSON)
        case _:
            return token


def _chunk(file: BinaryIO) -> bytes:
    """Some whole lines."""
    return file.read(CHUNK) + file.readline()


class _Reading:
    """Reads the lines of one file, in order."""

    def __init__(self) -> None:
        self._translations = _Translations()
        self._decoder = msgspec.json.Decoder(Op)
        self._indexed: bool | None = None  # as the first operation shows
        self._vector = b""  # the bracket that opens it
        self._count = 0

    def ops(self, file: BinaryIO, progress: Progress) -> Iterator[Op]:
        """Every operation.

        Raises:
            Otherwise: a line is none, or not one.
        """
        text = _chunk(file).removeprefix(BOM)
        if text.lstrip()[:1] in (b"[", b"("):
            self._vector, text = text.lstrip()[:1], text.lstrip()[1:] or b"\n"
        while text:
            progress(len(text))
            after = _chunk(file)
            if self._vector and not after:
                text = self._closed(text)
            yield from self._ops(text)
            text = after

    def _closed(self, text: bytes) -> bytes:
        """The end of a vector without its bracket.

        Raises:
            Otherwise: it has none.
        """
        text = text.rstrip()
        if text[-1:] != (b"]" if self._vector == b"[" else b")"):
            raise Otherwise
        return text[:-1]

    def _ops(self, text: bytes) -> list[Op]:
        if b"index -" in text:
            raise Otherwise
        if self._vector or b"\r" in text:
            text = b"\n".join(line.strip(b" ,\t\r") for line in text.split(b"\n"))
        if b"\n\n" in text or text.startswith(b"\n"):
            text = b"\n".join(filter(None, text.split(b"\n")))
        if text.startswith(b"#") or b"\n#" in text:
            text = _RECORD.sub(b"{", text)
        if text.count(b"{") != text.count(b"\n") + (not text.endswith(b"\n")) or b"\\" in text:
            return self._line_by_line(text)
        try:
            found = self._decoder.decode_lines(self._json(text))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self._line_by_line(text)
        return self._sure(found) or self._line_by_line(text)

    def _json(self, text: bytes) -> bytes:
        parts = _RUN.split(text)
        parts[::2] = [part.translate(_NUMBERS) for part in parts[::2]]
        parts[1::2] = map(self._translations.__getitem__, parts[1::2])
        return b"".join(parts)

    def _line_by_line(self, text: bytes) -> list[Op]:
        found = []
        for line in text.split(b"\n"):
            if line.strip():
                found += self._sure(self._one(line)) or self._form_by_form(line)
        return found

    def _one(self, line: bytes) -> list[Op]:
        """The operation of a line, if it is sure."""
        if line.count(b"{") != 1 or b"\\" in line:
            return []
        text = self._json(line)
        try:
            return [self._decoder.decode(text)]
        except msgspec.ValidationError:
            return self._with_more(text)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return []

    def _with_more(self, text: bytes) -> list[Op]:
        """An operation that has other keys too, or lacks some."""
        try:
            found = msgspec.json.decode(text, type=dict[str, Any])
            form = {key: _keywords(value) for key, value in found.items()}
            if "process" not in form:
                return []
            return [op_of_form(form, None if "index" in form else -1)]
        except (msgspec.MsgspecError, UnicodeDecodeError, HistoryError):
            return []

    def _form_by_form(self, line: bytes) -> list[Op]:
        """The operation of a line; none, where it has none.

        Raises:
            Otherwise: it is none, or not one.
        """
        forms = list(read_edn(line.decode()))
        if not forms:
            return []
        if len(forms) > 1 or not isinstance(forms[0], dict) or "process" not in forms[0]:
            raise Otherwise
        return self._placed([op_of_form(forms[0], None if "index" in forms[0] else -1)])

    def _sure(self, ops: list[Op]) -> list[Op]:
        """Operations as the other reader gives them; none, where that is not sure."""
        if not _bounded(ops) or not all(map(_named, ops)):
            return []
        for at, op in enumerate(ops):
            if op.error is not None:
                ops[at] = msgspec.structs.replace(op, error=_keywords(op.error))
        return self._placed(ops)

    def _placed(self, ops: list[Op]) -> list[Op]:
        """Operations with their index: their own, or their place.

        Raises:
            Otherwise: the first one has an index, and one of these has none.
        """
        if self._indexed is None and ops:
            self._indexed = ops[0].index >= 0
        if not self._indexed:
            places = range(self._count, self._count + len(ops))
            ops = [
                msgspec.structs.replace(op, index=at) for op, at in zip(ops, places, strict=True)
            ]
        elif any(op.index == -1 for op in ops):
            raise Otherwise
        self._count += len(ops)
        return ops


def at_once(data: bytes) -> Iterator[Op]:
    """The operations of a vector of objects of JSON; an index is the place.

    Raises:
        Otherwise: it is none, or an operation is not sure.
    """
    try:
        texts = msgspec.json.decode(data, type=list[msgspec.Raw])
        for start in range(0, len(texts), TOGETHER):
            some = b",".join(texts[start : start + TOGETHER])
            ops = msgspec.json.decode(b"[%b]" % some, type=list[Op])
            if not _bounded(ops) or any(current_f(op.f, op.process) != op.f for op in ops):
                raise Otherwise
            for at, op in enumerate(ops, start):
                yield op if op.index == at else msgspec.structs.replace(op, index=at)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Otherwise from error


def _bounded(ops: list[Op]) -> bool:
    """Whether no number is one that no history has."""
    times, indexes = [op.time for op in ops], [op.index for op in ops]
    processes = [abs(op.process) for op in ops if type(op.process) is int]
    most = max([0, *times, *indexes, *processes, -min(indexes, default=0)])
    return min(times, default=0) >= -1 and most <= INT64_MAX


def _named(op: Op) -> bool:
    """Whether an operation's words are what they were, by whatever way it was read."""
    if op.f in MICRO:
        return True
    return not _begins(op.value) and current_f(op.f, op.process) == op.f


def _begins(value: Any) -> bool:
    """Whether a vector begins with what may have been a keyword."""
    if type(value) is not list or not value:
        return False
    return value[0] in HEADS or any(_begins(each) for each in value if type(each) is list)


def _keywords(value: Any) -> Any:
    """A value in which keywords are such."""
    if isinstance(value, list):
        return [_keywords(each) for each in value]
    if isinstance(value, dict) and len(value) == 1 and _KEYWORD in value:
        return name_of(value[_KEYWORD])
    return value
