"""What there is to say of each run of a store in a line, read from its folder.

Nothing here reads a whole history: a run's configuration and results, and how the history ends.
A folder whose files cannot be read, or whose history is shorter than its digests say, is damaged;
every operation is compared with its digest by ``maxq check`` only.
"""

import fcntl
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from maxq.checkers.availability.recovery import Recovery
from maxq.checkers.judgement.lost import Checked, Lost, lost_in
from maxq.harness.run.stored_run import Judged
from maxq.harness.schedule.options import PROFILES, Options
from maxq.histories.aliases import renamed
from maxq.histories.digests import digests_of
from maxq.histories.store import CONFIG, JOURNAL, REPORT, RESULTS, RunStore, table_of
from maxq.histories.text import NOT_JSON

State = Literal["valid", "invalid", "unknown", "running", "unfinished", "damaged"]
STATES: tuple[State, ...] = ("invalid", "unknown", "valid", "running", "unfinished", "damaged")
STORES_MAX = 1000
ERROR_MAX = 160  # characters; what follows is the end of a log
TAIL_BYTES = 1 << 16  # of a file, in which its last line is looked for
FILE_BYTES_MAX = 1 << 28  # of results that are read
STAMP = "%Y%m%dT%H%M%S.%f"
NAMES = {profile: name for name, profile in PROFILES.items()}


class First(msgspec.Struct, frozen=True):
    """A row of a verdict's first screen, as it is stored."""

    what: str = ""
    text: str = ""


class Stored(msgspec.Struct, frozen=True):
    """Of a run's results what an overview shows; older ones lack some of it."""

    valid: bool | str = "unknown"
    verdict: str = ""
    error: str = ""
    first: list[First] = []
    faults: list[str] | None = None
    claims: dict[str, str] = {}
    verdicts: list[Checked] = []
    recoveries: list[Recovery] | None = None

    @property
    def anomalies(self) -> dict[str, dict[str, int]]:
        """Of each claim of which anything was found: how many anomalies, by name."""
        found: dict[str, dict[str, int]] = {}
        for claim in (c for v in self.verdicts for c in v.claim_verdicts if c.found):
            mine = found.setdefault(claim.claim, {})
            for name, count in claim.found.items():
                mine[name] = max(count, mine.get(name, 0))
        return found


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A run. `name` is its folder in the store, `test` and time stamp; `said` the verdict in a
    sentence, or what is wrong with the folder. `faults` are those that were injected, in words,
    and `fault_count` how many, -1 where that is not stored. `settings` are named as on the command
    line. `claims` has the status of each claim, `anomalies` what was found of it, by name, also
    where it is not promised. `recoveries` is None where the folder does not say."""

    name: str
    state: State
    said: str
    started: str = ""
    settings: dict[str, str] = {}
    messages: Lost = Lost()
    fault_count: int = -1
    faults: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    claims: dict[str, str] = {}
    anomalies: dict[str, dict[str, int]] = {}
    recoveries: tuple[Recovery, ...] | None = None
    report: bool = False

    def plain(self) -> dict[str, Any]:
        """For JSON: what is said of messages as in a run's own (docs/json.md)."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        del plain["messages"]
        return {**plain, **self.messages.plain()}

    @property
    def lost(self) -> str:
        """How many messages were lost, in words; empty where none was to be judged."""
        return self.messages.of if self.messages.number else ""

    @property
    def load(self) -> str:
        """What was done, in a line: workloads and faults."""
        s = self.settings
        return f"{s['workload']} with {s['nemesis']}" if "workload" in s else ""

    @property
    def where(self) -> str:
        """Under which settings, in a line; what is not as by default, and what always matters."""
        s = self.settings
        shown = [s[k] for k in ("env", "target", "profile", "time-limit") if s.get(k)]
        more = [f"{k} {v}" for k, v in s.items() if k not in SHOWN]
        return ", ".join((*shown, *more))


SHOWN = frozenset(("workload", "nemesis", "env", "target", "profile", "time-limit"))


def entries(root: Path) -> list[Entry]:
    """Every run of a store, newest first."""
    return [entry_of(path) for path in reversed(RunStore(root).runs())]


def inner_stores(root: Path) -> dict[str, Path]:
    """The stores of campaigns and other long work inside of a store, by their folders, such as
    ``losses`` and ``campaigns/nightly``."""
    every = (*root.glob("*/runs"), *root.glob("*/*/runs"))
    found = sorted(p for p in every if p.is_dir() and not p.is_symlink())
    return {str(path.relative_to(root).parent): path for path in found[:STORES_MAX]}


def entry_of(path: Path) -> Entry:
    """A run's folder in a line; never raises for what is in it."""
    name = os.fsencode(f"{path.parent.name}/{path.name}").decode("utf-8", "backslashreplace")
    started = _started(path.name)
    try:
        settings = _settings(path)
        state, said, stored = _state(path)
    except _Damaged as damage:
        return Entry(name=name, state="damaged", said=str(damage), started=started)
    report = (path / REPORT).is_file()
    return _entry(name, state, said, started, settings, stored or Stored(), report=report)


def _entry(
    name: str, state: State, said: str, started: str, settings: dict[str, str], known: Stored, *,
    report: bool = False,
) -> Entry:  # fmt: skip
    return Entry(
        name=name,
        state=state,
        said=said,
        started=started,
        settings=settings,
        messages=lost_in(known.verdicts),
        fault_count=-1 if known.faults is None else len(known.faults),
        faults=tuple(known.faults or ()),
        found=tuple(row.text for row in known.first),
        claims=known.claims,
        anomalies=known.anomalies,
        recoveries=None if known.recoveries is None else tuple(known.recoveries),
        report=report,
    )


def entry_judged(name: str, judged: Judged) -> Entry:
    """A run in a line, as it is judged now."""
    stored = msgspec.json.decode(msgspec.json.encode(judged.to_file()), type=Stored)
    settings, started = settings_of(judged.options), _started(name.rpartition("/")[2])
    return _entry(name, state_of(stored.valid), _said(stored), started, settings, stored)


class _Damaged(Exception):
    """A folder that is not what it should be; the text says why."""


def _started(stamp: str) -> str:
    with suppress(ValueError):
        at = datetime.strptime(stamp.removesuffix("Z"), STAMP).replace(tzinfo=UTC)
        return at.strftime("%Y-%m-%d %H:%M:%S")
    return stamp


def _state(path: Path) -> tuple[State, str, Stored | None]:
    if is_held(path):
        return "running", "the run goes on", None
    if not (path / RESULTS).exists():
        if not (path / JOURNAL).exists():
            return "unfinished", "it ended before its first operation", None
        return "unfinished", "it ended before its verdict; `maxq check` judges it", None
    stored = _decoded(path / RESULTS, Stored)
    _check_history(path, stored)
    return state_of(stored.valid), _said(stored), stored


def state_of(valid: bool | str) -> State:
    """A verdict in a word."""
    if isinstance(valid, bool):
        return "valid" if valid else "invalid"
    return "unknown"


def _said(stored: Stored) -> str:
    said = stored.verdict.partition(": ")[2] or stored.verdict
    return said or f"error: {stored.error[:ERROR_MAX]}"


def is_held(path: Path) -> bool:
    """Whether a process holds a run's folder: the run goes on, or is judged right now."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(fd)
    return False


def _check_history(path: Path, stored: Stored) -> None:
    """Complain of a history that is not there, or is shorter than it was."""
    journal = path / JOURNAL
    if not journal.exists():
        if table_of(path) is None and not stored.error:
            raise _Damaged(f"{JOURNAL} is missing")
        return
    last = _last_line(journal)
    if last is None and journal.stat().st_size:
        raise _Damaged(f"{JOURNAL} ends in the middle of a line")
    kept = (last or {}).get("index")
    end = (last or {}).get("count") if kept is None else int(kept) + 1
    blocks = digests_of(journal)
    digested = (_last_line(blocks) or {}).get("lines") if blocks.exists() else None
    if isinstance(digested, int) and isinstance(end, int) and end < digested - 1:
        raise _Damaged(f"{JOURNAL} is cut off: {end} of {digested} operations")


def _last_line(path: Path) -> dict[str, Any] | None:
    """The last line of a file of JSON objects, if it is whole."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            tail = file.read(TAIL_BYTES)
    except OSError as error:
        raise _Damaged(f"{path.name}: {error.strerror}") from None
    if not tail.endswith(b"\n"):
        return None
    try:
        return msgspec.json.decode(tail.splitlines()[-1], type=dict[str, Any])
    except NOT_JSON:
        return None


def _decoded(path: Path, kind: type[Stored]) -> Stored:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise _Damaged(f"{path.name} is too big")
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except NOT_JSON as error:
        raise _Damaged(f"{path.name}: {error}") from None
    except OSError as error:
        raise _Damaged(f"{path.name}: {error.strerror}") from None


def _settings(path: Path) -> dict[str, str]:
    """How a run was set up, by the names of the command line."""
    try:
        config = msgspec.json.decode((path / CONFIG).read_bytes(), type=dict[str, Any])
        options = msgspec.convert(renamed(config.get("options")), Options)
    except NOT_JSON as error:
        raise _Damaged(f"{CONFIG}: {error}") from None
    except OSError as error:
        raise _Damaged(f"{CONFIG}: {error.strerror}") from None
    return settings_of(options)


def settings_of(options: Options) -> dict[str, str]:
    """Options in words: those that name a run, and those that are not as by default."""
    plain = Options(environment=options.environment, seed=options.seed)
    alone = msgspec.structs.replace(options, layout="")  # whose plug-in may be missing
    said = {
        "workload": ", ".join(options.workload),
        "nemesis": ", ".join(options.nemesis),
        "env": options.environment,
        "target": alone.running,
        "profile": NAMES.get(options.profile, options.profile),
        "time-limit": f"{options.time_limit_ns / 1e9:g}s",
        "seed": str(options.seed),
        "mutant": options.mutant,
        "timing": options.timing if options.timing != plain.timing else "",
        "topology": "" if alone.topology == _usual(options) else _topology(options),
        "layout": options.layout,
        "set": ",".join(f"{key}={value}" for key, value in sorted(options.keys.items())),
        "schedule": "its own" if options.scripted else "",
    }
    return {name: value for name, value in said.items() if value}


def _usual(options: Options) -> Any:
    return Options(environment="", seed=0, workload=options.workload).topology


def _topology(options: Options) -> str:
    text = f"{options.broker_sets} x {options.replicas} brokers, controllers: "
    return f"{text}{options.controllers}, name servers: {options.namesrvs}"


SORTS: Mapping[str, Callable[[Entry], Any]] = {
    "newest": lambda entry: 0,  # as they come
    "verdict": lambda entry: STATES.index(entry.state),
    "lost": lambda entry: -(entry.messages.lost or 0),
    "faults": lambda entry: -entry.fault_count,
    "workload": lambda entry: entry.load,
}
MARKS: Mapping[State, str] = {"valid": ".", "invalid": "X", "unknown": "?"}
MARKS_MAX = 40  # runs of a trend


def trend(of: Sequence[Entry]) -> str:
    """The verdicts of runs, newest first, as marks from the older to the newest: ``..X.?``."""
    marks = [MARKS[entry.state] for entry in reversed(of) if entry.state in MARKS]
    return ("…" if len(marks) > MARKS_MAX else "") + "".join(marks[-MARKS_MAX:])


def differences(one: Entry, other: Entry) -> Sequence[tuple[str, str, str]]:
    """Two runs beside each other: what is set, what came of it, and what was found; a row each
    where they differ, and always for the verdict."""
    rows = [("verdict", f"{one.state}: {one.said}", f"{other.state}: {other.said}")]
    rows += _rows(one.settings, other.settings)
    rows.append(("lost", one.lost, other.lost))
    gone = [e.messages.shown_then_gone for e in (one, other)]
    rows.append(("shown, then gone", gone[0], gone[1]))
    rows.append(("faults", counted(one), counted(other)))
    rows += [(f"claim {name}", a, b) for name, a, b in _rows(one.claims, other.claims)]
    most = max(len(one.found), len(other.found))
    rows += [
        (f"finding {n + 1}", "".join(one.found[n : n + 1]), "".join(other.found[n : n + 1]))
        for n in range(most)
    ]
    return rows


def counted(entry: Entry) -> str:
    """How many faults were injected; empty where that is unknown."""
    return str(entry.fault_count) if entry.fault_count >= 0 else ""


def _rows(one: Mapping[str, str], other: Mapping[str, str]) -> list[tuple[str, str, str]]:
    names = dict.fromkeys((*one, *other))
    return [(n, one.get(n, ""), other.get(n, "")) for n in names if one.get(n) != other.get(n)]
