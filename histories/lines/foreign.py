"""What a file is, found from its first bytes; and the formats of other checkers' files.

Jepsen's log has a line ``INFO  jepsen.util - 0 :invoke :write 3`` for each operation, in columns of
tabs or spaces, today with the day and the thread before it; other lines are passed over. Its
``history.txt`` has the same without what is before the process, Knossos' examples in brackets.

JSON: one vector of Jepsen's maps, as elle-cli takes them. Texts of transactions on registers,
without times (`maxq.histories.lines.sessions`): AWDIT's and Plume's. Everything else is a format of
ours (``maxq.histories.store``) or Jepsen's EDN.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from maxq.histories.edn_read import read_edn
from maxq.histories.jepsen import op_of_form
from maxq.histories.lines.by_line import Otherwise, at_once, read_edn_history
from maxq.histories.lines.sessions import AWDIT_HEAD, PLUME_HEAD, read_awdit, read_plume
from maxq.histories.op import Held, HistoryError, Op, Progress, without_cycles

FORMATS = ("edn", "jsonl", "parquet", "json", "jepsen-log", "awdit", "plume")
HEAD = 4096  # bytes from which a format is found
BOM = b"\xef\xbb\xbf"
PORCUPINES = (b'"ClientId"', b'"Operations"')  # keys of other checkers' JSON
WANTED = (
    "taken are Jepsen's history.edn, history.txt and log, elle-cli's JSON, texts of AWDIT and "
    "Plume, and .jsonl and .parquet of Max-Q's own (--format)"
)
_BARE = r"(\d+|:?nemesis)\s+:(invoke|ok|fail|info)"  # of history.txt, where no line is another
_HEAD = r"(?:\S+ \S+\s+)?INFO\b.*\bjepsen"  # of a line of a log: the day and the time, or none yet
_LOG = re.compile(rf"{_HEAD}|\[?{_BARE}\s+:".encode())
_RECORD = re.compile(rb"#[a-z][A-Za-z0-9_.]*\.[A-Za-z0-9]+\{")
_NUMBER = re.compile(r"[0-9]{1,18}")
_LOG_LINE = re.compile(
    rf"^(?:{_HEAD}\.util(?: -|:)?\s+(?:\[ \d+ \] )?(\S+)\s+:(\w+)|{_BARE})\s+:(\S+)\s+(.*)$"
)


def format_of(head: bytes) -> str:
    """The format of a file that begins so; empty: none that is known."""
    if head.startswith(b"PAR1"):
        return "parquet"
    text = head.removeprefix(BOM).lstrip()
    if _LOG.match(text):
        return "jepsen-log"
    if AWDIT_HEAD.match(text) or PLUME_HEAD.match(text):
        return "awdit" if AWDIT_HEAD.match(text) else "plume"
    while text.startswith(b";"):  # a comment of EDN
        text = text.partition(b"\n")[2].lstrip()
    first = text.lstrip(b"[( \r\n\t,")
    if first.startswith(b"{"):
        inner = first[1:].lstrip()
        if inner.startswith(b":"):
            return "edn"
        if inner.startswith(b'"'):
            if text.startswith(b"["):
                return "json"
            return "" if any(name in text for name in PORCUPINES) else "jsonl"
    return "edn" if _RECORD.match(first) else ""


def seen(head: bytes) -> str:
    """What a file that begins so seems to be, for who has to give another one."""
    if head.startswith(b"JEPSEN"):
        return "it is Jepsen's own test.jepsen: give the history.edn of the same folder"
    text = head.removeprefix(BOM).lstrip()
    if text.startswith(b"{") and any(name in text for name in PORCUPINES):
        return "it seems to be of Porcupine, or of etcd's robustness tests"
    if not text:
        return "it is empty"
    if b"\0" in text:
        return "it is no text"
    return f"it begins with {text[:40].decode(errors='replace').splitlines()[0]!r}"


def read_log(path: Path, progress: Progress = lambda _: None, held: Held = tuple) -> Sequence[Op]:
    """The operations of a Jepsen log.

    Raises:
        HistoryError: a line of it is none; with its number.
    """
    progress(path.stat().st_size)
    return held(_log_ops(path))


def _log_ops(path: Path) -> Iterator[Op]:
    count = 0
    for number, line in enumerate(path.read_bytes().decode(errors="replace").splitlines(), 1):
        match = _LOG_LINE.match(line[1:-1] if line.startswith("[") else line)
        if match is None:
            continue
        process, kind, f, value = (group for group in match.groups() if group is not None)
        try:
            form = {
                "process": int(process) if _NUMBER.fullmatch(process) else process.lstrip(":"),
                "type": kind, "f": f, "value": _value(kind, value),
            }  # fmt: skip
            yield op_of_form(form, count)
        except HistoryError as error:
            raise HistoryError(f"{path.name}: line {number}: {error}") from None
        count += 1


def _value(kind: str, text: str) -> object:
    if kind == "info":  # of a call without an answer it is why there is none
        return None
    forms = read_edn(text)
    found = list(islice(forms, 1) if kind == "fail" else forms)  # behind it stands why
    if len(found) != 1:
        raise HistoryError(f"not one value: {text:.100}")
    return found[0]


def read_json(path: Path, progress: Progress = lambda _: None, held: Held = tuple) -> Sequence[Op]:
    """The operations of a vector of maps.

    Raises:
        HistoryError: it is none; with the number of the operation.
    """
    data = path.read_bytes().removeprefix(BOM)
    progress(len(data))
    with without_cycles():
        try:
            if b'"ext"' not in data:
                return held(at_once(data))
        except Otherwise:
            pass
        return held(_json_ops(path, data))


def _json_ops(path: Path, data: bytes) -> Iterator[Op]:
    try:
        forms = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HistoryError(f"{path.name}: {error}") from None
    if not isinstance(forms, list):
        raise HistoryError(f"{path.name}: no vector of operations")
    for at, form in enumerate(forms):
        try:
            yield op_of_form(form, at)
        except HistoryError as error:
            raise HistoryError(f"{path.name}: operation {at}: {error}") from None


READERS: Mapping[str, Callable[..., Sequence[Op]]] = {
    "edn": read_edn_history, "json": read_json, "jepsen-log": read_log,
    "awdit": read_awdit, "plume": read_plume,
}  # fmt: skip
