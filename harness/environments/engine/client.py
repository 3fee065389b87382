"""The Docker engine as the harness uses it: the one border to the SDK, which has no types.

Everything made here carries labels that say which run, which harness process and which boot of
this machine it belongs to, so that what a dead harness left behind can be distinguished from what
is in use (`maxq.harness.environments.engine.leaks`). Calls block; units: seconds, bytes.
"""

import importlib
import io
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from ipaddress import IPv4Network
from typing import Any, Literal

import msgspec

from maxq.harness.contracts.environment import EnvironmentUnavailable, Lack
from maxq.harness.environments.engine import rights

CALL_TIMEOUT_S = 60
BUILD_TIMEOUT_S = 600
SAY_MAX = 100  # characters of a step of a build
LABEL = "maxq.run"
CONFLICT = 409  # the engine's answer where a container is not as it must be, such as ended
DEFAULT_SOCKET = "unix:///var/run/docker.sock"
INSTEAD = "`--environment local` (no Docker, no root) and `--environment simulated` work without"
HELP = (
    "install one and start it (Debian: package docker.io; as root `docker/start-engine` does "
    f"both), or let this user use it (group docker); {INSTEAD}"
)


class EngineFailed(Exception):
    """The engine refused or did not answer; says what was asked and why it failed."""


class ContainerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A container to make: `binds` maps folders and files of the host to where they are inside;
    `read_only` names those of them that it must not change; `rights` are what its processes may
    have beyond other programs (`maxq.harness.environments.engine.rights`). One that is `beside`
    another has that one's network, and neither `hostname`, `network` nor `address`; an empty
    `address` is any of the network's."""

    name: str
    hostname: str
    image: str
    command: tuple[str, ...]
    network: str
    address: str
    labels: dict[str, str]
    binds: dict[str, str]
    read_only: frozenset[str] = frozenset()
    rights: frozenset[str] = frozenset()
    beside: str = ""


class Remain(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Something of a run that the engine holds."""

    kind: Literal["container", "network"]
    id: str
    name: str
    labels: dict[str, str]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a container is that somebody else made: its process as this machine numbers it (0: it has
    ended, with `code`), its address in each network, and the ports of this machine that lead to it.
    `shares` says whose network it has that is not its own, such as ``host``."""

    id: str
    name: str
    pid: int
    code: int
    paused: bool
    addresses: dict[str, str]
    ports: frozenset[int] = frozenset()
    shares: str = ""


class Engine:
    """An engine that answers."""

    def __init__(self, api: Any) -> None:
        self._api = api
        info = api.info()
        self.version: str = info["ServerVersion"]
        options = [str(option) for option in info.get("SecurityOptions") or ()]
        # Without root the engine maps its containers' root to its own user: this one.
        self.rootless = any("rootless" in option for option in options)
        self._remaps = any("name=userns" in option for option in options)

    def has_image(self, tag: str) -> bool:
        """Whether the engine holds an image of this name."""
        try:
            with _named_failures(f"look for image {tag}"):
                self._api.inspect_image(tag)
        except EngineFailed as error:
            if isinstance(error.__cause__, _sdk().errors.ImageNotFound):
                return False
            raise
        return True

    def pull(self, tag: str) -> None:
        """Fetch an image from where the engine gets them."""
        with _named_failures(f"pull image {tag}"):
            self._api.pull(tag)

    def build(
        self, tag: str, context: bytes, arguments: Mapping[str, str], say: Callable[[str], None]
    ) -> None:
        """Build an image from a tar archive.

        Raises:
            EngineFailed: a step failed; the message ends with its last lines.
        """
        lines: list[str] = []
        with _named_failures(f"build image {tag}"):
            steps = self._api.build(
                fileobj=io.BytesIO(context), custom_context=True, tag=tag, rm=True, forcerm=True,
                buildargs=dict(arguments), decode=True, timeout=BUILD_TIMEOUT_S,
            )  # fmt: skip
            for step in steps:
                if "error" in step:
                    last = " | ".join(lines[-5:])
                    raise EngineFailed(f"build image {tag}: {step['error']} (after: {last})")
                new = [line for line in str(step.get("stream", "")).splitlines() if line.strip()]
                lines += new
                for line in new:
                    if line.startswith("Step "):
                        say(line[:SAY_MAX])

    def networks(self) -> list[IPv4Network]:
        """The IPv4 networks that are taken on this engine."""
        with _named_failures("list networks"):
            found = self._api.networks()
        configs = [c for n in found for c in (n.get("IPAM") or {}).get("Config") or ()]
        subnets = [str(c.get("Subnet", "")) for c in configs]
        return [IPv4Network(s, strict=False) for s in subnets if s and ":" not in s]

    def make_network(self, name: str, subnet: IPv4Network, labels: Mapping[str, str]) -> bool:
        """Make a network that leads nowhere else; whether its addresses were free.

        The engine is the judge of that, because it alone sees every user and every process.
        """
        pool = _sdk().types.IPAMPool(subnet=str(subnet))
        try:
            with _named_failures(f"make network {name}"):
                self._api.create_network(
                    name, driver="bridge", internal=True, labels=dict(labels),
                    ipam=_sdk().types.IPAMConfig(pool_configs=[pool]),
                    # The host itself has no address there: containers cannot reach it either.
                    options={"com.docker.network.bridge.inhibit_ipv4": "true"},
                )  # fmt: skip
        except EngineFailed as error:
            if "overlaps" in str(error):
                return False
            raise
        return True

    def make_container(self, spec: ContainerSpec) -> None:
        """Make and start a container that removes itself at its end."""
        mounts = [
            _sdk().types.Mount(inside, host, type="bind", read_only=host in spec.read_only)
            for host, inside in spec.binds.items()
        ]
        with _named_failures(f"make container {spec.name}"):
            beside = f"container:{spec.beside}" if spec.beside else ""
            host_config = self._api.create_host_config(
                auto_remove=True, network_mode=beside or spec.network, mounts=mounts,
                cap_drop=["ALL"], cap_add=sorted(spec.rights), read_only=True,
                tmpfs=rights.WRITABLE, mem_limit=rights.MEMORY_BYTES,
                memswap_limit=rights.MEMORY_BYTES, pids_limit=rights.PROCESSES_MAX,
                # Folders of the run are not labelled for containers where SELinux rules.
                security_opt=["label=disable", "no-new-privileges"],
                userns_mode="host" if self._remaps else None,
            )  # fmt: skip
            named: dict[str, Any] = {}
            if not beside:
                end = self._api.create_endpoint_config(ipv4_address=spec.address or None)
                networking = self._api.create_networking_config({spec.network: end})
                named = {"hostname": spec.hostname, "networking_config": networking}
            made = self._api.create_container(
                spec.image, command=list(spec.command), name=spec.name, labels=spec.labels,
                host_config=host_config, user="0:0", **named,
            )  # fmt: skip
            self._api.start(made["Id"])

    def standing(self, container: str) -> Standing:
        """How a container is, by its name or id.

        Raises:
            EngineFailed: there is none.
        """
        with _named_failures(f"look at container {container}"):
            found = self._api.inspect_container(container)
        state, mode = found["State"], str(found["HostConfig"]["NetworkMode"])
        networks = found["NetworkSettings"]["Networks"] or {}
        alone = mode not in ("host", "none") and not mode.startswith("container:")
        return Standing(
            id=found["Id"],
            name=str(found["Name"]).strip("/"),
            pid=state["Pid"] if state["Running"] else 0,
            code=state["ExitCode"],
            paused=bool(state["Paused"]),
            addresses={n: str(of["IPAddress"]) for n, of in networks.items() if of["IPAddress"]},
            ports=frozenset(
                int(end["HostPort"])
                for ends in (found["NetworkSettings"].get("Ports") or {}).values()
                for end in ends or ()
            ),
            shares="" if alone else mode,
        )

    def running(self) -> list[str]:
        """The ids of all containers that run."""
        with _named_failures("list containers"):
            return [str(container["Id"]) for container in self._api.containers()]

    def do(self, container: str, verb: Literal["pause", "unpause", "start"]) -> None:
        """Have a container do something."""
        with _named_failures(f"{verb} container {container}"):
            getattr(self._api, verb)(container)

    def signal(self, container: str, number: int) -> None:
        """Send a signal to a container's first process; one that has ended is no error."""
        with _named_failures(f"send signal {number} to container {container}"):
            try:
                self._api.kill(container, number)
            except _sdk().errors.APIError as error:
                if error.status_code != CONFLICT:
                    raise

    def log(self, container: str, lines: int) -> bytes:
        """The last lines of what a container wrote."""
        with _named_failures(f"read the log of container {container}"):
            return bytes(self._api.logs(container, tail=lines))

    def remains(self, run: str = "") -> list[Remain]:
        """What the engine holds of one run, or of all; containers first."""
        filters = {"label": f"{LABEL}={run}" if run else LABEL}
        with _named_failures("list what is left of runs"):
            containers = self._api.containers(all=True, filters=filters)
            networks = self._api.networks(filters=filters)
        found = [
            Remain(kind="container", id=c["Id"], name=_name_of(c), labels=c["Labels"])
            for c in containers
        ]
        found += [
            Remain(kind="network", id=n["Id"], name=n["Name"], labels=n["Labels"]) for n in networks
        ]
        return sorted(found, key=lambda r: (r.kind, r.name))

    def remove(self, remain: Remain) -> None:
        """Remove something, a network with its endpoints that no container holds; what has gone is
        no error.

        Raises:
            EngineFailed: it is still there.
        """
        with _removing(remain):
            if remain.kind == "container":
                self._api.remove_container(remain.id, force=True, v=True)
                return
            # A harness killed while a container starts or ends can leave an endpoint whose
            # container the engine no longer has, and no network goes while it has endpoints.
            known = {c["Id"] for c in self._api.containers(all=True)}
            ends = self._api.inspect_network(remain.id).get("Containers") or {}
            for holder, end in ends.items():
                if holder not in known:
                    self._api.disconnect_container_from_network(end["Name"], remain.id, force=True)
            self._api.remove_network(remain.id)

    def close(self) -> None:
        """Give up the connections."""
        self._api.close()


def _name_of(container: Mapping[str, Any]) -> str:
    names = container["Names"] or [container["Id"]]  # one that is going has lost its name
    return str(names[0]).strip("/")


def connect(timeout_s: int = CALL_TIMEOUT_S) -> Engine:
    """The engine of this machine, which may take so long (s) for each answer.

    Raises:
        EnvironmentUnavailable: none answers, or it is not on this machine; says what helps.
    """
    given = _sdk().utils.kwargs_from_env()
    where = str(given.get("base_url") or DEFAULT_SOCKET)
    scheme, _, path = where.partition("://")
    if scheme not in ("unix", "http+unix"):
        raise EnvironmentUnavailable(
            f"docker: the engine at {where} is on another machine; nodes and harness share folders "
            f"and sockets, so it must be one of this machine; {INSTEAD}",
            Lack(f"the engine at {where} is on another machine", mend="unset DOCKER_HOST"),
        )
    try:
        # First by hand: of a socket that it cannot connect the SDK forgets to close its end.
        with socket.socket(socket.AF_UNIX) as trial:
            trial.connect("/" + path.lstrip("/"))
        return Engine(_sdk().APIClient(version="auto", timeout=timeout_s, **given))
    except (_sdk().errors.DockerException, OSError) as error:
        raise EnvironmentUnavailable(
            f"docker: no engine answers at {where} ({_why(error)}); {HELP}", silent(where, error)
        ) from None


def silent(where: str, error: Exception) -> Lack:
    """Why nothing is heard of the engine, and what would mend that."""
    if isinstance(error, PermissionError):
        return Lack(
            f"this user may not use the engine at {where}",
            mend="usermod --append --groups docker USER (as root; then log in again)",
        )
    return Lack(
        f"no engine answers at {where} ({_why(error)})",
        mend="docker/start-engine starts one (as root)",
    )


@cache
def _sdk() -> Any:
    """The SDK, when it is first needed: it takes a fifth of a second to load, and most commands
    need no engine. By its name only, because mypy takes the folder `docker/` for it."""
    return importlib.import_module("docker")


@contextmanager
def _removing(remain: Remain) -> Iterator[None]:
    try:
        with _named_failures(f"remove {remain.kind} {remain.name}"):
            yield
    except EngineFailed as error:
        if not isinstance(error.__cause__, _sdk().errors.NotFound):
            raise


@contextmanager
def _named_failures(what: str) -> Iterator[None]:
    """Errors of the SDK as ours."""
    try:
        yield
    except (_sdk().errors.DockerException, OSError) as error:
        raise EngineFailed(f"{what}: {_why(error)}") from error


def _why(error: Exception) -> str:
    explanation = getattr(error, "explanation", None)
    return str(explanation or error).strip() or type(error).__name__
