"""What is asked of a machine's toxiproxy: run on the machine, beside the server, for one question.

The questions, as one JSON object each, and the answers, as one JSON object on the last line:

    {"make": {NAME: UPSTREAM}}      proxies; where each listens, as {NAME: PORT}
    {"set": {NAME: [TOXIC]}}        the toxics of every proxy, none where none is named; what the
                                    server says then that each has, in the same shape
    {"try": [TOXIC]}                a proxy of its own with these toxics, to an echo: {"ms": how
                                    long an echo of a byte takes, or `ECHO_S` if not less, "kb_s":
                                    how fast data come, or null}

A toxic is {"type", "stream", "attributes"} as toxiproxy has them. The package `toxiproxy-python`
knows one server a process, and waits without an end: so it is used here, in a process for each
question, which an alarm ends.

Rules for those who edit it: this module also runs inside containers, so it imports nothing but the
standard library, the package, and what stands beside it.

Run as ``python -m maxq.harness.environments.machines.toxics QUESTION``.
"""

import contextlib
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from toxiproxy import Toxiproxy

HOST, PORT = "127.0.0.1", 8474  # of the server's API, in the machine's own network
LIFE_S = 60  # after which a process ends by an alarm, whatever it waits for
READY_S, LOOK_S = 10.0, 0.02
TWIN = "twin"
ECHOES, ECHO_S = 3, 5.0  # one that takes longer is waited for no longer, and once
TRIAL_S = 1.5  # that data of a bounded proxy take
PIECE = 65_536
Toxic = dict[str, Any]


def ready(server: Toxiproxy) -> None:
    """Wait until the server answers.

    Raises:
        TimeoutError: it does not.
    """
    until, quiet = time.monotonic() + READY_S, threading.Event()
    while not server.running():
        if time.monotonic() > until:
            raise TimeoutError(f"toxiproxy does not answer at {HOST}:{PORT} after {READY_S:.0f} s")
        quiet.wait(LOOK_S)  # `sleep` fails where clocks can be set off


def make(server: Toxiproxy, wanted: dict[str, str]) -> dict[str, int]:
    """Make proxies, each at a port that is free."""
    ready(server)
    return {
        name: int(server.create(upstream=upstream, name=name).listen.rpartition(":")[2])
        for name, upstream in wanted.items()
    }


def put(server: Toxiproxy, wanted: dict[str, list[Toxic]]) -> dict[str, list[Toxic]]:
    """Let every proxy have these toxics and no others, and read them back."""
    proxies = server.proxies()
    if (twin := proxies.pop(TWIN, None)) is not None:
        twin.destroy()  # of a trial that was given up
    for name, proxy in proxies.items():
        has, shall = shown(proxy), wanted.get(name, [])
        for toxic in has:
            if toxic not in shall:
                proxy.destroy_toxic(called(toxic))
        for toxic in shall:
            if toxic not in has:
                proxy.add_toxic(name=called(toxic), **toxic)
    found = {name: shown(proxy) for name, proxy in proxies.items()}
    return {name: toxics for name, toxics in found.items() if toxics}


def called(toxic: Toxic) -> str:
    """The name of a toxic: a proxy has one of each type for each stream."""
    return f"{toxic['type']}_{toxic['stream']}"


def shown(proxy: Any) -> list[Toxic]:
    """The toxics of a proxy, as the server has them."""
    return [
        {"type": toxic.type, "stream": toxic.stream, "attributes": toxic.attributes}
        for _, toxic in sorted(proxy.toxics().items())
    ]


def tried(server: Toxiproxy, toxics: list[Toxic]) -> dict[str, Any]:
    """What a proxy with these toxics does to an echo, and to data in the direction in which they
    are bounded."""
    with socket.create_server((HOST, 0)) as listener:
        upstream = f"{HOST}:{listener.getsockname()[1]}"
        proxy = server.create(upstream=upstream, name=TWIN)
        try:
            for toxic in toxics:
                proxy.add_toxic(name=called(toxic), **toxic)
            host, _, port = proxy.listen.rpartition(":")
            with socket.create_connection((host, int(port))) as near:
                far, _ = listener.accept()
                with far:
                    ms = [_echo_ms(near, far)]
                    if ms[0] < ECHO_S * 1000:
                        ms += [_echo_ms(near, far) for _ in range(ECHOES - 1)]
                    for toxic in toxics:
                        if "rate" not in toxic["attributes"]:
                            proxy.destroy_toxic(called(toxic))
                    rates = [_rate(near, far, toxic) for toxic in toxics if "rate" in
                             toxic["attributes"]]  # fmt: skip
            return {"ms": sorted(ms)[len(ms) // 2], "kb_s": max(rates, default=None)}
        finally:
            proxy.destroy()


def _echo_ms(near: socket.socket, far: socket.socket) -> float:
    begun = time.monotonic()
    for one, other in ((near, far), (far, near)):
        one.sendall(b"?")
        other.settimeout(max(0.001, begun + ECHO_S - time.monotonic()))
        try:
            other.recv(1)
        except TimeoutError:
            return ECHO_S * 1000
        finally:
            other.settimeout(None)
    return (time.monotonic() - begun) * 1000


def _rate(near: socket.socket, far: socket.socket, toxic: Toxic) -> float:
    """How many kB a second come, once they come."""
    up = toxic["stream"] == "upstream"
    sender, receiver = (near, far) if up else (far, near)
    count = max(1, round(float(toxic["attributes"]["rate"]) * TRIAL_S)) * 1000
    threading.Thread(target=_send, args=(sender, count), daemon=True).start()
    first = came = len(receiver.recv(PIECE))
    begun = time.monotonic()
    while came < count:
        came += len(receiver.recv(PIECE)) or count
    return (count - first) / 1000 / (time.monotonic() - begun)


def _send(sock: socket.socket, count: int) -> None:
    with contextlib.suppress(OSError):
        sock.sendall(bytes(count))


def main() -> None:
    signal.alarm(LIFE_S)
    server = Toxiproxy()
    server.update_api_consumer(HOST, PORT)
    [(do, what)] = json.loads(sys.argv[1]).items()
    answers: dict[str, Callable[[Toxiproxy, Any], Any]] = {"make": make, "set": put, "try": tried}
    print(json.dumps(answers[do](server, what)))


if __name__ == "__main__":
    main()
