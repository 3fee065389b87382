"""All runs of a store: what there is to say of each, damaged ones too, and the page of them."""

import fcntl
import http.client
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest
from report_evidence import ATTACK

from maxq.harness.experiments.overview import serving
from maxq.harness.experiments.overview.entries import (
    Entry,
    differences,
    entries,
    entry_of,
    inner_stores,
)
from maxq.harness.experiments.overview.page import page, write_index
from maxq.harness.experiments.overview.serving import server
from maxq.harness.schedule.options import Options
from maxq.histories.jsonl import JournalWriter
from maxq.histories.op import NEMESIS, Op
from maxq.histories.store import JOURNAL, REPORT, RESULTS, Run, RunStore

S = 1_000_000_000
RESULT = {
    "valid": False,
    "verdict": "INVALID: 3 of 40 acknowledged messages (7 %) were lost. S6 is broken.",
    "first": [{"what": "3 acknowledged messages lost", "text": "3 lost; blamed: kill b0-0"}],
    "faults": ["kill b0-0 at 3.00 s"],
    "claims": {"S6": "broken"},
    "verdicts": [
        {
            "checker": "durability",
            "claim_verdicts": [{"claim": "S6", "status": "broken"}],
            "counts": {"lost": 3, "acknowledged": 40},
        }
    ],
}


def ops() -> list[Op]:
    sets = {"b0": {"master": 1, "master_epoch": 4}}
    cut = {"c0": {"holds": True, "from": {"b0-0": "gone"}}}
    made = [
        Op("ok", 9, "observe-controller", {"node": "c0", "sets": sets}, time=S),
        Op("info", NEMESIS, "start-partition", "p", time=2 * S),
        Op("info", NEMESIS, "start-partition", cut, time=2 * S),
        *(Op("ok", 1, "send", [["send", 0, n]], time=3 * S) for n in range(10)),
    ]
    return [Op(o.type, o.process, o.f, o.value, o.error, n, o.time, o.ext)
            for n, o in enumerate(made)]  # fmt: skip


def made(root: Path, number: int = 0, results: Any = RESULT, test: str = "queue") -> Path:
    """A run's folder, with results or without."""
    run = RunStore(root).create(test, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number))
    options = Options(environment="simulated", seed=number, workload=("queue",))
    run.save_config({"options": msgspec.to_builtins(options)})
    with run.open_journal() as journal:
        for op in ops():
            journal.append(op)
    if results is not None:
        Run(run.path).save_verdict(results)
        (run.path / REPORT).write_text("<p>report")
    return run.path


@contextmanager
def held(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(fd)


def test_a_run_in_a_line(tmp_path: Path) -> None:
    run = entry_of(made(tmp_path, 5))
    assert (run.state, run.started) == ("invalid", "2026-01-01 05:00:00")
    assert run.said == "3 of 40 acknowledged messages (7 %) were lost. S6 is broken."
    assert (run.lost, run.messages.lost, run.fault_count) == ("3 of 40", 3, 1)
    assert run.load == "queue with kill, partition, change-address"
    assert run.where == "simulated, reference, safe, 60s, seed 5"
    assert run.found == ("3 lost; blamed: kill b0-0",)


def test_runs_are_listed_newest_first_and_links_are_no_runs(tmp_path: Path) -> None:
    for number in (1, 0, 2):
        made(tmp_path, number)
    assert [run.settings["seed"] for run in entries(tmp_path)] == ["2", "1", "0"]


def cut_results(run: Path) -> None:
    data = (run / RESULTS).read_bytes()
    (run / RESULTS).write_bytes(data[: len(data) // 2])


def cut_history(run: Path) -> None:
    lines = (run / JOURNAL).read_bytes().splitlines(keepends=True)
    (run / JOURNAL).write_bytes(b"".join(lines[:4]))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut_results, "results.json: "),
        (lambda run: (run / RESULTS).write_text("[]"), "results.json: "),
        (lambda run: (run / RESULTS).write_bytes(b"\xff\xfe"), "results.json: "),
        (lambda run: (run / "config.json").write_text("no"), "config.json: "),
        (lambda run: (run / "config.json").unlink(), "config.json: "),
        (lambda run: (run / "config.json").write_text('{"options": {"seed": "x"}}'), "config.json"),
        (lambda run: (run / JOURNAL).unlink(), "history.jsonl is missing"),
        (cut_history, "history.jsonl is cut off: 4 of 13 operations"),
        (
            lambda run: (run / JOURNAL).write_bytes((run / JOURNAL).read_bytes()[:-30]),
            "history.jsonl ends in the middle of a line",
        ),
    ],
)
def test_a_damaged_folder_is_said_to_be_damaged(tmp_path: Path, damage: Any, said: str) -> None:
    run = made(tmp_path)
    damage(run)
    found = entry_of(run)
    assert (found.state, found.said[: len(said)]) == ("damaged", said)
    assert "damaged" in page([found], title="x")


def test_a_run_without_a_verdict_is_running_or_unfinished(tmp_path: Path) -> None:
    run = made(tmp_path, results=None)
    assert entry_of(run).state == "unfinished"
    with held(run):
        assert entry_of(run).state == "running"
    assert entry_of(made(tmp_path, 1, {"valid": "unknown", "error": "no"})).said == "error: no"


def test_two_runs_beside_each_other_differ_in_rows() -> None:
    one = Entry(name="a", state="valid", said="x", settings={"seed": "1", "env": "local"})
    other = Entry(name="b", state="invalid", said="y", settings={"seed": "2", "env": "local"},
                  found=("z",), claims={"S6": "broken"})  # fmt: skip
    rows = differences(one, other)
    assert ("verdict", "valid: x", "invalid: y") in rows
    assert ("seed", "1", "2") in rows
    assert ("finding 1", "", "z") in rows
    assert ("claim S6", "", "broken") in rows
    assert not [row for row in rows if row[0] == "env"]


def test_what_runs_say_is_text_in_the_page() -> None:
    evil = Entry(name=f"{ATTACK}/x", state="valid", said=ATTACK, started=ATTACK, report=True,
                 settings={"workload": ATTACK, "nemesis": ATTACK}, found=(ATTACK,),
                 faults=(ATTACK,), fault_count=1, claims={ATTACK: ATTACK})  # fmt: skip
    drawn = page([evil], title=ATTACK, inner={f"javascript:{ATTACK}": ATTACK}, served=True)
    assert drawn.count("<script>") == 1
    assert "<img" not in drawn
    assert "<svg" not in drawn
    for odd in "\0\r\u202e\ud800\u2028":
        assert odd not in drawn
    for link in re.findall(r'href="([^"]*)"', drawn):
        assert not re.match(r"[a-z]+:", unescape(link)), link
    assert "connect-src 'self'" in unescape(drawn)
    assert "connect-src" not in page([evil], title="")


def test_each_store_inside_a_store_has_a_page_of_its_own(tmp_path: Path) -> None:
    made(tmp_path)
    inner = tmp_path / "campaigns" / "nightly" / "runs"
    made(inner)
    path = write_index(tmp_path)
    assert path.read_text().count("<tr") == 2
    made(tmp_path / "losses" / "runs")
    assert [*inner_stores(tmp_path)] == ["campaigns/nightly", "losses"]
    assert "./campaigns/nightly/runs/index.html" in path.read_text()
    assert (inner / "index.html").exists()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, Any]]:
    with server(tmp_path, 0) as http_server:
        thread = threading.Thread(target=http_server.serve_forever, args=(0.05,))
        thread.start()

        def ask(path: str, method: str = "GET", host: str = "127.0.0.1") -> tuple[int, Any, bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", http_server.server_port, timeout=9)
            connection.request(method, path, headers={"Host": host})
            answer = connection.getresponse()
            found = answer.status, dict(answer.getheaders()), answer.read()
            connection.close()
            return found

        yield tmp_path, ask
        http_server.shutdown()
        thread.join()


def test_only_what_the_listing_names_is_served(served: tuple[Path, Any]) -> None:
    root, ask = served
    run = made(root)
    (root / "secret").write_text("x")
    name = f"queue/{run.name}"
    status, _, body = ask("/")
    assert (status, b"1 runs" in body) == (200, True)
    status, headers, body = ask(f"/{name}/report.html")
    assert (status, body) == (200, b"<p>report")
    assert headers["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src")
    assert ask(f"/{name}/report.html", "HEAD")[2] == b""
    for path in ("/secret", f"/{name}/config.json", f"/{name}/../../secret", "/../secret",
                 "/%2e%2e/secret", f"/{name}%2f..%2f..%2fsecret",
                 "/queue/latest/report.html", f"/{name}/report.html/"):  # fmt: skip
        assert ask(path)[0] == 404, path
    assert ask("/", "POST")[0] == 501
    assert ask("/", host="evil.test")[0] == 403
    assert ask("/", host=f"localhost:{1234}")[0] == 200


def test_logs_that_a_report_links_are_served(
    served: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, ask = served
    run, secret = made(root), root / "secret"
    secret.write_text("x")
    for node in ("b0-0", "c0"):
        (run / "nodes" / node).mkdir(parents=True)
    (run / "nodes" / "b0-0" / "node.log").write_text("one\ntwo\n")
    (run / "nodes" / "b0-0" / "other.log").write_text("x")
    (run / "nodes" / "c0" / "node.log").symlink_to(secret)
    (run / "nodes" / "c1").symlink_to(run / "nodes" / "b0-0")
    (run / "nodes" / "n0").symlink_to(root)
    (root / "node.log").write_text("x")
    name = f"queue/{run.name}"
    status, headers, body = ask(f"/{name}/nodes/b0-0/node.log")
    assert (status, body) == (200, b"one\ntwo\n")
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["Content-Security-Policy"].startswith("sandbox")
    for path in ("b0-0/other.log", "c0/node.log", "c1/node.log", "n0/node.log", "b0-0",
                 "b0-0/../../../../secret", "%2e%2e/%2e%2e/%2e%2e/node.log", "b0-0%2fnode.log%00",
                 "../nodes/b0-0/node.log"):  # fmt: skip
        assert ask(f"/{name}/nodes/{path}")[0] == 404, path
    assert ask(f"/queue/{run.name}x/nodes/b0-0/node.log")[0] == 404
    monkeypatch.setattr(serving, "LOG_BYTES_MAX", 4)
    cut = ask(f"/{name}/nodes/b0-0/node.log")[2]
    assert cut == b"(the first 4 bytes are left out; the run's folder has all)\ntwo\n"


def test_the_running_run_is_followed(served: tuple[Path, Any]) -> None:
    root, ask = served
    run = RunStore(root).create("queue", datetime(2026, 1, 1, tzinfo=UTC))
    options = Options(environment="local", seed=1, workload=("queue",))
    run.save_config({"options": msgspec.to_builtins(options)})
    history = ops()
    with held(run.path), JournalWriter(run.path / JOURNAL) as journal:
        assert json.loads(ask("/live.json")[2])[0]["counted"] == ""
        for op in history[:3]:
            journal.append(op)
        journal.flush()
        (first,) = json.loads(ask("/live.json")[2])
        assert first["line"] == "2 s, 59 s left · b0: id 1 in epoch 4 · cut b0-0 ⇸ c0 · 0 ok/s"
        assert first["acts"] == ["cut b0-0 ⇸ c0: 2.00 s to now"]
        for op in history[3:]:
            journal.append(op)
        journal.flush()
        (later,) = json.loads(ask("/live.json")[2])
        assert later["counted"] == "11 ok"
        assert b"running" in ask("/")[2]
    assert json.loads(ask("/live.json")[2]) == []
