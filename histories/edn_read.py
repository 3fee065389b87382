"""Reads EDN: what Jepsen and its tools print, bounded, and never failing on a tag that is unknown.

A history's values are plain (see `maxq.histories.op.Op`), so some forms become the nearest plain
one:

    keyword                  `Keyword`, a kind of string; the key of a map, and one with signs that
                             no keyword is written with, become a plain string
    symbol, character        string
    list, vector             list; tuple where it must hash
    set                      frozenset
    ratio, ##Inf, ##NaN      string, as it is written: a history holds finite numbers only
    1.5M                     float
    #jepsen.history.Op{...}  the map
    #:ns{:a 1}               the map, with the key "ns/a"
    #inst "..."              ["#inst", "..."], and so any other tag

Source: docs/spec/history-format.md 8.2.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from maxq.histories.edn import Keyword, name_of
from maxq.histories.op import HistoryError

DEPTH_MAX = 200
DIGITS_MAX = 4300  # of an integer: Python reads no longer ones, since that takes quadratic time
# What repeats is possessive: to go back over a string without its end takes 350 times its length.
_TOKEN = re.compile(
    r"""[\s,]*(?:(?P<comment>;[^\n]*)|(?P<discard>\#_)|(?P<set>\#\{)|(?P<special>\#\#[A-Za-z-]+)"""
    r"""|(?P<tag>\#:?[A-Za-z][^\s,()\[\]{}";]*)|(?P<open>[(\[{])|(?P<close>[)\]}])"""
    r"""|(?P<text>"(?:[^"\\]++|\\.)*+")|(?P<char>\\(?:newline|space|tab|return|formfeed|backspace)"""
    r"""|\\u[0-9a-fA-F]{4}|\\.)|(?P<word>[^\s,()\[\]{}";]+)|(?P<end>\Z))""",
    re.DOTALL,
)
# Vectors of numbers in a vector, one space between any two: the records of a store are many.
_NUMBERS = re.compile(
    r"\[\[\d{1,18}+(?: \d{1,18}+)*+\](?: \[\d{1,18}+(?: \d{1,18}+)*+\])*+\]", re.ASCII
)
_INTEGER = re.compile(r"[+-]?\d+N?")
_FLOAT = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?M?")
_CLOSES = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_NAMED = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r", "formfeed": "\f",
          "backspace": "\b"}  # fmt: skip
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", "\\": "\\", '"': '"'}
_WORDS: dict[str, Any] = {"nil": None, "true": True, "false": False}
_END = object()  # of the text, or of a collection


def read_edn(text: str) -> Iterator[Any]:
    """Every form of a text, in order.

    Raises:
        HistoryError: the text is no EDN; with the line.
    """
    reader = _Reader(text)
    while (form := reader.form()) is not _END:
        yield form


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def form(self, closes: str = "") -> Any:
        """The next form; `_END` at the closing bracket that is expected."""
        while True:
            found = _TOKEN.match(self._text, self._at)
            if found is None:
                raise self._wrong("an unfinished string, or a character that begins no form")
            kind, token = found.lastgroup, found.group(found.lastgroup or 0)
            self._at = found.end()
            if kind == "comment":
                continue
            if kind == "discard":
                if self.form(closes) is _END:
                    raise self._wrong("#_ without a form")
                continue
            if kind == "end" or kind == "close":
                if token != closes:
                    raise self._wrong(f"{token or 'the end'} instead of {closes or 'a form'}")
                return _END
            return self._value(str(kind), token)

    def _value(self, kind: str, token: str) -> Any:
        if kind == "open" or kind == "set":
            numbers = self._numbers() if token == "[" else None
            return self._collection(token) if numbers is None else numbers
        if kind == "tag":
            return self._tagged(token)
        if kind == "text":
            return self._string(token[1:-1])
        if kind == "char":
            name = token[1:]
            if len(name) == 5 and name[0] == "u":
                return self._encodable(chr(int(name[1:], 16)))
            return _NAMED.get(name, name)
        return token if kind == "special" else self._word(token)

    def _numbers(self) -> Any:
        """Vectors of plain numbers in the vector that was just opened; None: it is another one."""
        if self._depth + 2 > DEPTH_MAX or not self._text.startswith("[", self._at):
            return None
        found = _NUMBERS.match(self._text, self._at - 1)
        if found is None:
            return None
        try:
            numbers = msgspec.json.decode(found.group().replace(" ", ","))
        except msgspec.DecodeError:  # a leading zero
            return None
        self._at = found.end()
        return numbers

    def _collection(self, opening: str) -> Any:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._wrong(f"deeper than {DEPTH_MAX} collections")
        forms = []
        while (form := self.form(_CLOSES[opening])) is not _END:
            forms.append(form)
        self._depth -= 1
        if opening == "#{":
            return frozenset(self._frozen(form) for form in forms)
        if opening != "{":
            return forms
        if len(forms) % 2:
            raise self._wrong("a map with a key and no value")
        keys = (self._key(form) for form in forms[::2])
        return dict(zip(keys, forms[1::2], strict=True))

    def _tagged(self, tag: str) -> Any:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._wrong(f"deeper than {DEPTH_MAX} collections")
        form = self.form()
        self._depth -= 1
        if form is _END:
            raise self._wrong(f"{tag} without a form")
        if tag.startswith("#:"):
            if not isinstance(form, dict):
                raise self._wrong(f"{tag} without a map")
            return {_within(tag[2:], key): value for key, value in form.items()}
        record = "." in tag and isinstance(form, dict)
        return form if record else [tag, form]

    def _word(self, word: str) -> Any:
        if word in _WORDS:
            return _WORDS[word]
        if word[0] == ":" and len(word) > 1:
            return name_of(word[1:])
        if _INTEGER.fullmatch(word):
            if len(word) > DIGITS_MAX:
                raise self._wrong(f"an integer of {len(word)} digits, more than {DIGITS_MAX}")
            return int(word.rstrip("N"))
        if _FLOAT.fullmatch(word):
            number = float(word.rstrip("M"))
            return number if abs(number) != float("inf") else word
        return word

    def _string(self, text: str) -> str:
        def plain(found: re.Match[str]) -> str:
            escape = found.group(1)
            if len(escape) == 5:
                return chr(int(escape[1:], 16))
            if escape not in _ESCAPED:
                raise self._wrong(f"the escape \\{escape} is unknown")
            return _ESCAPED[escape]

        if "\\" not in text:
            return text
        return self._encodable(re.sub(r"\\(u[0-9a-fA-F]{4}|.)", plain, text, flags=re.DOTALL))

    def _encodable(self, text: str) -> str:
        """A text whose escapes are UTF-16, as Java's are: a pair of surrogates is one letter."""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise self._wrong("half of a pair of surrogates") from None

    def _key(self, form: Any) -> Any:
        return str(form) if isinstance(form, Keyword) else self._frozen(form)

    def _frozen(self, form: Any) -> Any:
        if isinstance(form, list):
            return tuple(self._frozen(each) for each in form)
        if isinstance(form, dict):
            raise self._wrong("a map as a key, or in a set: not supported")
        return form

    def _wrong(self, text: str) -> HistoryError:
        line = self._text.count("\n", 0, self._at) + 1
        return HistoryError(f"line {line}: not EDN: {text}")


def _within(namespace: str, key: Any) -> Any:
    return f"{namespace}/{key}" if isinstance(key, str) and "/" not in key else key
