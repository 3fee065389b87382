"""A container's settings while it runs (25, 26), and hooks at the start of its brokers."""

import errno
import json
from collections.abc import Iterator
from typing import Any

import pytest
from container_cluster import (
    CONTAINER,
    Mute,
    add,
    both_listed,
    furnish,
    listed,
    path_of,
    ports_of,
    refused,
    said,
    settings,
    up,
)
from reference_world import FILE, NAMESRV, Cluster

from maxq.reference.config import ContainerConfig
from maxq.reference.container.inner import BrokerBootHook
from maxq.reference.container.server import Container
from maxq.reference.host import File
from maxq.reference.node_file import parse_node
from maxq.reference.wire.codes import RequestCode


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A name server, and the files of three brokers on machine b1."""
    with Cluster() as made:
        furnish(made)
        yield made


class Hooked:
    """A container with one hook, on machine b1."""

    def __init__(self, cluster: Cluster, fails: str) -> None:
        self.calls: list[str] = []
        self.fails = fails

        def called(moment: str) -> Any:
            def call(broker: Any, config: Any) -> None:
                self.calls.append(f"{moment} {config.broker_name}")
                if self.fails == moment:
                    raise ValueError("not ready")

            return call

        hook = BrokerBootHook("probe", called("before"), called("after"))
        loop, host = cluster.world.process(cluster.machines["b1"])
        node = Container(ContainerConfig(namesrv_addr=NAMESRV), host, hooks=[hook])
        ready: list[bool] = []
        self.task = loop.create_task(node.run(lambda: ready.append(True)))
        cluster.until(lambda: bool(ready))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_hook_that_fails_takes_the_addition_back(cluster: Cluster, moment: str) -> None:
    hooked = Hooked(cluster, moment)
    why = "start broker failed: /etc/x.conf: HookFailed: hook probe: ValueError: not ready"
    assert said(add(cluster, path_of("x"))) == (1, why)
    assert refused(cluster, *ports_of("x"))
    assert listed(cluster) == set()
    hooked.fails, hooked.calls = "", []
    assert said(add(cluster, path_of("x"))) == (0, "")
    assert hooked.calls == ["before x", "after x"]


def test_25_moves_all_brokers_to_other_name_servers(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and at the next start, since its file is written; RocketMQ's container passes the
    addresses on within two minutes."""
    other = Mute(cluster, monkeypatch).address
    process = up(cluster, "x", "y")
    both_listed(cluster, "x", "y")
    answer = cluster.ask(CONTAINER, 25, body=f"namesrvAddr={other}".encode())
    assert said(answer) == (0, "")
    cluster.until(lambda: (listed(cluster), listed(cluster, other)) == (set(), {"x", "y"}))
    assert said(add(cluster, path_of("z"))) == (0, "")
    assert listed(cluster, other) == {"x", "y", "z"}
    assert cluster.disk("b1", FILE) == (
        f"namesrvAddr={other}\nbrokerConfigPaths=/etc/x.conf:/etc/y.conf\n".encode()
    )
    told = cluster.ask(CONTAINER, RequestCode.GET_BROKER_CONFIG)
    assert f"namesrvAddr={other}\n".encode() in (told.body or b"")
    assert '"counter":1' in (told.ext or {})["version"]
    process.loop.kill()
    configs, _ = parse_node("container", cluster.disk("b1", FILE) or b"", FILE)
    assert isinstance(configs[0], ContainerConfig)
    assert configs[0].namesrv_addr == other


def test_25_changes_nothing_where_its_file_cannot_be_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(cluster, "x")
    both_listed(cluster, "x")
    before, disk = cluster.disk("b1", FILE), cluster.machines["b1"].disk

    def full(path: str, *, create: bool = False) -> File:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(disk, "open", full)
    answer = cluster.ask(CONTAINER, 25, body=b"namesrvAddr=198.18.0.77:9876")
    why = f"{FILE} cannot be written, so nothing was changed: no space left"
    assert said(answer) == (1, why)
    monkeypatch.undo()
    assert (cluster.disk("b1", FILE), listed(cluster)) == (before, {"x"})
    told = cluster.ask(CONTAINER, RequestCode.GET_BROKER_CONFIG)
    assert f"namesrvAddr={NAMESRV}\n".encode() in (told.body or b"")


def own_log(cluster: Cluster, name: str) -> list[str]:
    """What a broker has logged in a file of its own."""
    content = cluster.disk("b1", f"/root/logs/rocketmqlogs/{name}/broker.log") or b""
    return [json.loads(line)["trace"] for line in content.splitlines()]


def test_each_broker_logs_where_its_file_says(cluster: Cluster) -> None:
    """A failure that ends it is the container's to log."""
    cluster.write("b1", path_of("y"), settings("y", isolateLogEnable="true"))
    process = up(cluster, "x", "y")
    both_listed(cluster, "x", "y")
    assert own_log(cluster, "c_x_0") == []
    assert "broker.started" in own_log(cluster, "c_y_0")
    lines = [(trace, fields.get("broker")) for _, trace, fields in cluster.machines["b1"].log]
    assert ("broker.started", "c_x_0") in lines
    assert not any(broker == "c_y_0" for _, broker in lines)
    process.node.brokers[1].fail(OSError("of a test"))
    cluster.until(lambda: cluster.logged("b1", "container.broker.failed") == 1)


def test_a_broker_alone_logs_in_a_folder_of_its_name(cluster: Cluster) -> None:
    """And id, without its cluster, as RocketMQ's."""
    cluster.up("b1", "broker", settings("x", isolateLogEnable="true"))
    assert "broker.started" in own_log(cluster, "x_0")
    assert cluster.logged("b1", "broker.started") == 0


BLACK = "Can not update config in black list."


@pytest.mark.parametrize(
    ("body", "code", "why"),
    [
        ("brokerConfigPaths=/x", 16, BLACK),
        ("configBlackList=x", 16, BLACK),
        ("rocketmqHome=/x", 16, BLACK),
        ("bindAddress=0.0.0.0", 16, BLACK),  # by configBlackList of its file
        ("listenPort=9", 16, "cannot be changed while the node runs: listenPort"),
        ("listenPrt=1", 29, "request:1: unknown key listenPrt; did you mean listenPort"),
        ("listenPort=1\nlistenPort=2", 29, "named twice: listenPort"),
    ],
)
def test_what_25_must_not_change(cluster: Cluster, body: str, code: int, why: str) -> None:
    up(cluster, "x", configBlackList="bindAddress")
    before = cluster.disk("b1", FILE)
    answer = cluster.ask(CONTAINER, RequestCode.UPDATE_BROKER_CONFIG, body=body.encode())
    assert (answer.code, (answer.remark or "")[: len(why)]) == (code, why)
    assert cluster.disk("b1", FILE) == before
