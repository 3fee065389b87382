"""The runs of a store over HTTP: the same pages, read-only, and how the running run goes on.

For one person on this machine. It listens on the loopback only and answers nobody who asks for
another host, so no page of another site can read it through a browser. It serves what a store's
listing names and nothing else: no path of a request reaches the file system. A report that came
from elsewhere may hold anything, so each is served as if from an origin of its own.
"""

import json
import os
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from maxq.checkers.evidence.acts import Act, acts_of
from maxq.checkers.judgement.cuts import in_short
from maxq.harness.experiments.overview.entries import entries, inner_stores, is_held
from maxq.harness.experiments.overview.page import INDEX, page
from maxq.harness.run.process.live import Live
from maxq.harness.run.process.node_logs import paths
from maxq.harness.run.stored_run import options_of_folder
from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op
from maxq.histories.store import JOURNAL, REPORT, RESULTS, RunStore
from maxq.histories.text import decode_fields, op_of_fields

LOOPBACK = "127.0.0.1"
HOSTS = frozenset(("127.0.0.1", "localhost", "[::1]"))
READ_BYTES_MAX = 1 << 25  # of a journal, at each look
ACTS_MAX = 12
ANSWER_S_MAX = 10  # that one who asks may take
LIVE = "live.json"
LOG_BYTES_MAX = 1 << 24  # of a node's log, its end
HTML, JSON = "text/html; charset=utf-8", "application/json"
TEXT = "text/plain; charset=utf-8"
# Its own script and style run, and nothing is asked for; `sandbox` gives it an origin of its own.
ALONE = "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
ALONE += "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


class Follower:
    """Follows the history of a run that goes on."""

    def __init__(self, path: Path) -> None:
        options = options_of_folder(path)
        self._path, self._limit_ns = path, options.time_limit_ns
        self._live = Live(options.context().broker_sets)
        self._acts: list[Op] = []
        self._read = 0
        self._first_ns = -1

    def look(self, name: str) -> dict[str, Any]:
        """How it is now, as the page shows it."""
        with (self._path / JOURNAL).open("rb") as journal:
            journal.seek(self._read)
            data = journal.read(READ_BYTES_MAX)
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._take(line)
        now = self._live.now()
        counts = ", ".join(f"{n:,} {kind}" for kind, n in sorted(now.counts.items()))
        acts = acts_of(History(self._acts))
        hurting = [a for a in acts if a.fault.facts is None or not a.fault.facts.harmless]
        return {
            "name": name,
            "line": now.line(max(0, self._first_ns) + self._limit_ns),
            "counted": counts,
            "acts": [_told(act) for act in reversed(hurting[-ACTS_MAX:])],
        }

    def _take(self, line: bytes) -> None:
        try:
            op = op_of_fields(decode_fields(line))
        except HistoryError:  # the end marker, or damage that `maxq check` names
            return
        self._first_ns = op.time if self._first_ns < 0 else self._first_ns
        self._live.take(op)
        if not op.is_client:
            self._acts.append(op)


def _told(act: Act) -> str:
    end_ns, begun = act.end_ns(), f"{act.fault.begun_ns / 1e9:.2f} s"
    if not act.nodes:
        return f"{in_short(act)}: begun at {begun}"
    return f"{in_short(act)}: {begun} to {'now' if end_ns is None else f'{end_ns / 1e9:.2f} s'}"


class Site:
    """What is served: pages by address. Followers are kept while their runs go on."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._followers: dict[Path, Follower] = {}
        self._lock = threading.Lock()

    def answer(self, path: str) -> tuple[str, bytes, str] | None:
        """What is at an address: its type, its content, its policy; None: nothing."""
        stores = {f"/{name}/runs/": store for name, store in inner_stores(self._root).items()}
        stores["/"] = self._root
        for prefix in sorted(stores, key=len, reverse=True):
            if path.startswith(prefix):
                return self._in_store(stores[prefix], prefix, path.removeprefix(prefix), stores)
        return None

    def _in_store(
        self, store: Path, prefix: str, rest: str, stores: dict[str, Path]
    ) -> tuple[str, bytes, str] | None:
        if rest in ("", INDEX):
            inner = {f"{p[1:]}{INDEX}": p[1:].removesuffix("/runs/") for p in stores if p != "/"}
            title = prefix[1:].removesuffix("/runs/") or str(store)
            links = inner if prefix == "/" else {}
            drawn = page(entries(store), title=title, inner=links, served=True)
            return HTML, drawn.encode(), ""
        if rest == LIVE:
            return JSON, json.dumps(self._live(store)).encode(), ""
        folder, _, file = rest.rpartition("/")
        known = {f"{run.parent.name}/{run.name}": run for run in RunStore(store).runs()}
        if folder in known and file in (REPORT, RESULTS):
            kind, place = HTML if file == REPORT else JSON, known[folder] / file
        elif (log := _log_at(rest, known)) is not None:
            kind, place = TEXT, log
        else:
            return None
        try:
            return kind, _end_of(place) if kind == TEXT else place.read_bytes(), ALONE
        except OSError:
            return None

    def _live(self, store: Path) -> list[dict[str, Any]]:
        """Every run of a store that goes on."""
        found = []
        with self._lock:
            going = [run for run in RunStore(store).runs() if _goes_on(run)]
            for gone in self._followers.keys() - set(going):
                if gone.parent.parent == store:
                    del self._followers[gone]
            for run in reversed(going):
                try:
                    follower = self._followers.get(run) or Follower(run)
                    self._followers[run] = follower
                    found.append(follower.look(f"{run.parent.name}/{run.name}"))
                except (OSError, HistoryError):  # it has no configuration or no history yet
                    continue
        return found


def _log_at(rest: str, known: dict[str, Path]) -> Path | None:
    """The node's log that an address names, as reports link it; never by way of a link."""
    name, nodes, inner = rest.partition("/nodes/")
    for log in paths(known[name]).values() if name in known else ():
        inside = log.relative_to(known[name])
        if f"{nodes}{inner}" == f"/{inside}" and log.resolve() == known[name].resolve() / inside:
            return log
    return None


def _end_of(log: Path) -> bytes:
    """A log, or where it is long its last part, with a line that says so."""
    with log.open("rb") as file:
        left_out = max(0, file.seek(0, os.SEEK_END) - LOG_BYTES_MAX)
        file.seek(left_out)
        data = file.read(LOG_BYTES_MAX)
    if not left_out:
        return data
    return (
        f"(the first {left_out:,} bytes are left out; the run's folder has all)\n".encode() + data
    )


def _goes_on(run: Path) -> bool:
    return not (run / RESULTS).exists() and is_held(run)


def server(root: Path, port: int) -> ThreadingHTTPServer:
    """A server of a store on the loopback, not yet serving; port 0: a free one.

    Raises:
        OSError: the port is taken.
    """
    site = Site(root)

    class Handler(BaseHTTPRequestHandler):
        """Answers GET and HEAD."""

        server_version, sys_version, timeout = "maxq", "", ANSWER_S_MAX

        def do_GET(self) -> None:
            self._answer(self.wfile.write)

        def do_HEAD(self) -> None:
            self._answer(lambda _: None)

        def _answer(self, write: Callable[[bytes], object]) -> None:
            if _host_of(self.headers.get("Host", "")) not in HOSTS:
                self.send_error(403, "this server answers on the loopback only")
                return
            found = site.answer(unquote(urlsplit(self.path).path))
            if found is None:
                self.send_error(404)
                return
            kind, content, allowed = found
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Cache-Control", "no-store")
            if allowed:
                self.send_header("Content-Security-Policy", allowed)
            self.end_headers()
            write(content)

        def log_message(self, *_: object) -> None:
            """Nothing: who asks is the person at this terminal."""

    return ThreadingHTTPServer((LOOPBACK, port), Handler)


def _host_of(header: str) -> str:
    """The host that a request names, without its port."""
    return header.rpartition(":")[0] if header.rpartition("]")[2].count(":") else header
