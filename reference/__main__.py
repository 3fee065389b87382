"""Run one node: ``python -m maxq.reference {namesrv,controller,broker,container} --config FILE``.

FILE is a properties file with RocketMQ's own keys; that of a container names the files of its
brokers. SIGTERM and SIGINT stop the node cleanly: it
says goodbye and syncs. Exit codes: 0 stopped as asked, 1 failed, 2 wrong arguments or settings.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from maxq.reference import mutants
from maxq.reference.broker.server import Broker
from maxq.reference.config import (
    ROLES,
    BrokerConfig,
    ConfigError,
    ContainerConfig,
    ControllerConfig,
    NamesrvConfig,
    NodeConfig,
    parse_config,
    render_config,
)
from maxq.reference.container.logs import NamedHost
from maxq.reference.container.server import Container
from maxq.reference.controller.server import Controller
from maxq.reference.host import Host, RealHost
from maxq.reference.namesrv.server import Namesrv
from maxq.reference.node import Joined, Node, describe, is_our_bug, owner_of
from maxq.reference.node_file import parse_node
from maxq.reference.wire.files import encode_properties


def make_node(
    configs: Sequence[NodeConfig], host: Host, *, mutant: str = "", file: str = ""
) -> Node:
    """Make the node that a file describes, as `parse_node` reads it. Raises ConfigError."""
    nodes = [_node(config, host, mutant, file) for config in configs]
    return nodes[0] if len(nodes) == 1 else Joined(nodes)


def _node(config: NodeConfig, host: Host, mutant: str, file: str) -> Node:
    match config:
        case NamesrvConfig():
            return Namesrv(config, host)
        case ControllerConfig():
            return Controller(config, host)
        case BrokerConfig():
            if config.isolate_log_enable:
                name = f"{config.broker_name}_{config.broker_id}"
                host = NamedHost(host, name, isolated=True)
            return Broker(config, host, mutant=mutant)
        case ContainerConfig():
            return Container(config, host, file=file, mutant=mutant)
    raise TypeError(f"no node for {type(config).__name__}")


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Read a node's command line; exits with 2 on a wrong one."""
    parser = argparse.ArgumentParser(prog="python -m maxq.reference", description=__doc__)
    parser.add_argument("role", choices=sorted(ROLES))
    parser.add_argument("-c", "--config", required=True, metavar="FILE", help="properties file")
    parser.add_argument("--seed", type=int, help="seed of the node's randomness")
    parser.add_argument("--mutant", default="", help="run a seeded bug (for testing checkers)")
    of = parser.add_argument_group("of a container, as RocketMQ's mqbrokercontainer has them")
    instead = "instead of what its file says"
    of.add_argument("-b", "--broker-config-paths", metavar="FILE:FILE", help=instead)
    of.add_argument("-n", "--namesrv-addr", metavar="HOST:PORT;…", help=instead)
    of.add_argument("-p", "--print-config", action="store_true", help="print its settings, and end")
    of.add_argument(
        "-m", "--print-important", action="store_true", help="the same, of namesrvAddr alone"
    )
    args = parser.parse_args(argv)
    given = (args.broker_config_paths, args.namesrv_addr, args.print_config, args.print_important)
    if any(given) and args.role != "container":
        parser.error("-b, -n, -p and -m are a container's")
    return args


def as_given(config: NodeConfig, args: argparse.Namespace) -> NodeConfig:
    """A container's settings with what its command line says instead. Raises ConfigError."""
    said = {"brokerConfigPaths": args.broker_config_paths, "namesrvAddr": args.namesrv_addr}
    given = {key: value for key, value in said.items() if value is not None}
    if not isinstance(config, ContainerConfig) or not given:
        return config
    checked, _ = parse_config(ContainerConfig, encode_properties(given), "command line")
    names = {f.encode_name: f.name for f in msgspec.structs.fields(checked)}
    return msgspec.structs.replace(config, **{names[k]: getattr(checked, names[k]) for k in given})


def shown(config: NodeConfig, *, important: bool) -> str:
    """Settings as properties text; of the important ones RocketMQ marks one that we have."""
    lines = render_config(config).splitlines(keepends=True)
    return "".join(line for line in lines if not important or line.startswith("namesrvAddr="))


async def run_until_signal(node: Node, host: Host) -> None:
    """Run a node until SIGTERM or SIGINT, or until it fails."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(node.run(lambda: None))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    broken: list[BaseException] = []

    def on_failure(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        # A callback failed: no task awaits it, so the node would limp on with a broken state.
        # Not so where the world failed, such as an accept without descriptors: the loop goes on.
        error = context.get("exception")
        if isinstance(error, OSError):
            host.log("node.trouble", why=str(context.get("message")), error=describe(error))
            return
        failure = error if isinstance(error, BaseException) else RuntimeError(str(context))
        if (fail := owner_of(context)) is not None:
            fail(failure)
            return
        broken.append(failure)
        task.cancel()

    loop.set_exception_handler(on_failure)
    with contextlib.suppress(asyncio.CancelledError):
        await task
    if broken:
        raise broken[0]
    host.log("node.stopped")


def main(argv: list[str]) -> int:
    args = parse_arguments(argv)
    host = RealHost(seed=args.seed)
    mutant: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    try:
        file = str(Path(args.config).absolute())
        configs, warnings = parse_node(args.role, Path(file).read_bytes(), args.config)
        configs = tuple(as_given(config, args) for config in configs)
        if args.print_config or args.print_important:
            print(shown(configs[0], important=args.print_important), end="")
            return 0
        if args.mutant:
            mutant = mutants.load(args.mutant)
        node = make_node(configs, host, mutant=args.mutant, file=file)
    except (ConfigError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for warning in warnings:
        host.log("config.ignored", warning=warning)
    try:
        with mutant, mutants.heard(lambda name, level: host.log(f"mutant.{level}", mutant=name)):
            asyncio.run(run_until_signal(node, host))
    except Exception as error:
        if is_our_bug(error):
            raise  # die with the whole story
        print(f"error: {describe(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
