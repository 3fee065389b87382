"""The SDK's client, of an engine with containers that somebody else made."""

from typing import Any

from docker.errors import APIError, NotFound


class Api:
    """Containers by name: each has a process while it runs, and an address in the network ``net``.

    One that starts again has the next process and, where `moves`, another address.
    """

    def __init__(
        self,
        addresses: dict[str, str],
        *,
        mode: str = "net",
        moves: bool = False,
        ports: dict[str, int] | None = None,
    ) -> None:
        self.addresses = dict(addresses)
        self.mode, self.moves, self.ports = mode, moves, ports or {}
        self.pids = {name: number for number, name in enumerate(addresses, start=100)}
        self.codes = dict.fromkeys(addresses, 0)
        self.held: set[str] = set()
        self.started = 0
        self.done: list[tuple[str, str]] = []

    def info(self) -> dict[str, Any]:
        return {"ServerVersion": "20.10"}

    def close(self) -> None:
        """Nothing is held."""

    def inspect_container(self, name: str) -> dict[str, Any]:
        name = name.removeprefix("id-")
        if name not in self.addresses:
            raise NotFound(f"No such container: {name}")
        pid = self.pids[name]
        port = self.ports.get(name)
        ends = [{"HostIp": "0.0.0.0", "HostPort": str(port)}] if port else None
        at = self.addresses[name] if pid and self.mode == "net" else ""
        return {
            "Id": f"id-{name}",
            "Name": f"/{name}",
            "State": {
                "Running": bool(pid), "Pid": pid, "ExitCode": self.codes[name],
                "Paused": name in self.held,
            },
            "HostConfig": {"NetworkMode": self.mode},
            "NetworkSettings": {
                "Networks": {"net": {"IPAddress": at}},
                "Ports": {"9876/tcp": ends, "10909/tcp": None},
            },
        }  # fmt: skip

    def containers(self) -> list[dict[str, Any]]:
        return [{"Id": f"id-{name}"} for name, pid in self.pids.items() if pid]

    def pause(self, name: str) -> None:
        self._do("pause", name)
        self.held.add(name.removeprefix("id-"))

    def unpause(self, name: str) -> None:
        self._do("unpause", name)
        self.held.discard(name.removeprefix("id-"))

    def start(self, name: str) -> None:
        self._do("start", name)
        name = name.removeprefix("id-")
        self.started += 1
        self.pids[name] = 1000 + self.started
        if self.moves:
            self.addresses[name] += "0"

    def kill(self, name: str, number: int) -> None:
        name = name.removeprefix("id-")
        if not self.pids[name]:
            error = APIError("409", explanation=f"Container {name} is not running")
            error.response = type("Response", (), {"status_code": 409})()
            raise error
        self._do(f"kill {number}", name)
        self.pids[name], self.codes[name] = 0, 128 + number

    def _do(self, what: str, name: str) -> None:
        self.done.append((what, name.removeprefix("id-")))
