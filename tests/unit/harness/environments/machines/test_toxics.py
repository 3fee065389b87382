"""What is asked of a toxiproxy by its client, without a server."""

import io
import json
import signal
from contextlib import redirect_stdout
from typing import Any

import pytest

from maxq.harness.environments.machines import toxics

LATE = {"type": "latency", "stream": "upstream", "attributes": {"latency": 40, "jitter": 0}}
NARROW = {"type": "bandwidth", "stream": "downstream", "attributes": {"rate": 100}}


class Toxic:
    def __init__(self, name: str, type: str, stream: str, attributes: Any) -> None:  # noqa: A002
        self.name, self.type, self.stream, self.attributes = name, type, stream, attributes


class Proxy:
    """As the package shows one."""

    def __init__(self, upstream: str, port: int) -> None:
        self.upstream, self.listen = upstream, f"127.0.0.1:{port}"
        self.has: dict[str, Toxic] = {}
        self.did: list[str] = []

    def toxics(self) -> dict[str, Toxic]:
        return dict(self.has)

    def add_toxic(self, **toxic: Any) -> None:
        self.did.append(f"+{toxic['name']}")
        self.has[toxic["name"]] = Toxic(**toxic)

    def destroy_toxic(self, name: str) -> None:
        self.did.append(f"-{name}")
        del self.has[name]


class Server:
    """Takes proxies once it runs."""

    def __init__(self, silent: int = 0) -> None:
        self.silent = silent
        self.made: dict[str, Proxy] = {}

    def update_api_consumer(self, host: str, port: int) -> None:
        assert (host, port) == ("127.0.0.1", 8474)

    def running(self) -> bool:
        self.silent -= 1
        return self.silent < 0

    def create(self, *, upstream: str, name: str) -> Proxy:
        self.made[name] = Proxy(upstream, 40_000 + len(self.made))
        return self.made[name]

    def proxies(self) -> dict[str, Proxy]:
        return self.made


def test_proxies_are_made_once_the_server_answers() -> None:
    server = Server(silent=2)
    made = toxics.make(server, {"b.1": "192.0.2.2:1", "c.2": "192.0.2.3:2"})
    assert made == {"b.1": 40_000, "c.2": 40_001}
    assert server.made["c.2"].upstream == "192.0.2.3:2"


def test_a_server_that_never_answers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toxics, "READY_S", 0.0)
    with pytest.raises(TimeoutError, match=r"toxiproxy does not answer at 127\.0\.0\.1:8474"):
        toxics.make(Server(silent=10**9), {})


def test_only_what_differs_is_changed_and_all_is_read_back() -> None:
    server = Server()
    toxics.make(server, {"b": "b:1", "c": "c:1"})
    assert toxics.put(server, {"b": [NARROW, LATE]}) == {"b": [NARROW, LATE]}
    longer = {**LATE, "attributes": {"latency": 90, "jitter": 0}}
    assert toxics.put(server, {"b": [NARROW, longer]}) == {"b": [NARROW, longer]}
    assert server.made["b"].did == [
        "+bandwidth_downstream", "+latency_upstream", "-latency_upstream", "+latency_upstream",
    ]  # fmt: skip
    assert toxics.put(server, {}) == {}
    assert server.made["c"].did == []


def test_a_question_is_answered_in_a_line_and_an_alarm_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alarms: list[int] = []
    monkeypatch.setattr(toxics, "Toxiproxy", Server)
    monkeypatch.setattr(signal, "alarm", alarms.append)
    monkeypatch.setattr("sys.argv", ["toxics", json.dumps({"make": {"b.1": "192.0.2.2:1"}})])
    with redirect_stdout(io.StringIO()) as said:
        toxics.main()
    assert json.loads(said.getvalue()) == {"b.1": 40_000}
    assert alarms == [toxics.LIFE_S]
