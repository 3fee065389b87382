"""Apache RocketMQ's own name server, controller and broker, each a JVM on its machine.

They take the settings that our reference takes, by the same keys, and what a JVM needs beside: a
small heap (`maxq.harness.targets.rocketmq.memory`), a log that goes to the node's own, and lookups
of names that are not remembered, since machines change their addresses. Brokers are configured with
none of their own addresses: a broker finds its machine's when it starts, so one whose address
changed needs a restart.

Source: docs/spec/remoting.md 9 (class names, options of the JVM, logback of RocketMQ's own
package).
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from maxq.harness.contracts.environment import EnvironmentUnavailable, Lack, Machine, Role
from maxq.harness.contracts.target import CONTROLLER_PORT, Container, Node, Settings, plan
from maxq.harness.targets.reference import LOG_FILE_BYTES, container_file, properties
from maxq.harness.targets.rocketmq import memory
from maxq.harness.targets.rocketmq.libraries import digest, distribution, libraries
from maxq.harness.targets.rocketmq.releases import (
    CATCH_UP_S,
    Version,
    components,
    nearest_having,
    ordered,
    version_number,
)

MAIN = {
    Role.NAMESRV: "org.apache.rocketmq.namesrv.NamesrvStartup",
    Role.CONTROLLER: "org.apache.rocketmq.controller.ControllerStartup",
    Role.BROKER: "org.apache.rocketmq.broker.BrokerStartup",
}
CONTAINER, CONTAINER_MAIN = "container", "org.apache.rocketmq.container.BrokerContainerStartup"
OF_CONTAINERS = ("namesrvAddr", "haListenPort")  # no key of the file of a broker in one
# What a JVM of 2 cores starts fastest with, and what RocketMQ reaches into. Nobody here speaks TLS,
# for which each of its servers makes an RSA key at each start: half of all that a start takes.
JVM = (
    "-XX:+UseSerialGC", "-XX:-UsePerfData",
    "-Dtls.server.mode=disabled", "-Dsun.net.inetaddr.ttl=0",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)  # fmt: skip
# A broker with a timer counts its 604,800 slots for each answer to 28: 45 ms of a core in code that
# the second compiler has made, 400 ms without it. All else is over before that compiler pays.
FIRST_TIER = "-XX:TieredStopAtLevel=1"
TIMER = "timerWheelEnable"
JAVA = "java"
TERMINATED = 143  # how a JVM ends that was asked to: 128 and the signal
LEASE = "-Drocketmq.broker.rebalance.lockMaxLiveTime={}"
LOGBACK = """\
<configuration>
  <appender name="console" class="{package}.core.ConsoleAppender">
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %-5level %logger{{0}} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="console"/></root>
</configuration>
"""
PLAIN_UNTIL = "5.0.0"
SHADED, PLAIN = "org.apache.rocketmq.logging.ch.qos.logback", "ch.qos.logback"
SMALL = {  # what would take hundreds of megabytes, and is not used here
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    "timerWheelEnable": "false",
    "diskMaxUsedSpaceRatio": "98",
    # TransactionMetricsFlushService spins until its first interval is over: by default for 10 s, on
    # a whole core, at each start.
    "transactionMetricFlushInterval": "500",
}
# A broker without controllers asks its slaves for the checkpoints of their timers (60) before it is
# online, and one whose timer is off refuses that for ever. Its files are of no use here, and small;
# each flush compares all 37 MB of the wheel, by default every second: a quarter of a core.
IN_A_PAIR = {
    "timerWheelEnable": "true",
    "mappedFileSizeTimerLog": str(LOG_FILE_BYTES),
    "timerFlushIntervalMs": "10000",
}

# 5.0.0 fails when it is asked for its state and has no timer; and where no client writes its slaves
# leave the SyncStateSet again and again if they may be behind for less than its heartbeats.
NEEDED = {
    "5.0.0": {
        "timerWheelEnable": "true",
        "haMaxTimeSlaveNotCatchup": str(CATCH_UP_S["5.0.0"] * 1000),
    }
}


class RocketMQTarget:
    """Runs one release.

    Args:
        version: which.
        here: its machines have this machine's programs.
        place: of the cache of jars; None: the user's.
        contained: its brokers are in containers.
    """

    patience = 3  # a JVM needs some ten seconds of two busy cores to be part of its cluster again
    layer = "rocketmq"

    def __init__(
        self,
        version: Version,
        *,
        here: bool = True,
        place: Path | None = None,
        contained: bool = False,
    ) -> None:
        self.version = version
        self._contained = contained
        self._container = Path()  # its jars
        self._here = here
        self._place = place
        self._paths: dict[Role, Path] = {}
        self._fits = False  # known before the first node of the cluster takes anything

    @property
    def name(self) -> str:
        return str(self.version)

    def _own(self, settings: Settings) -> dict[str, str]:
        """What a broker of this release cannot do without, unless it was set."""
        needed = NEEDED.get(self.version.release, {})
        return {k: v for k, v in needed.items() if f"broker:{k}" not in settings.keys}

    def prepare(self) -> dict[str, str]:
        """Have the jars, and return of what release each component is, with the digest of its jars.

        Raises:
            EnvironmentUnavailable: they cannot be had, or there is no JVM.
        """
        if self._here and shutil.which(JAVA) is None:
            lack = Lack("there is no java", package="openjdk-17-jre-headless")
            raise EnvironmentUnavailable(str(lack), lack)
        if self.version.folder:
            return self._distribution(Path(self.version.folder))
        versions = {}
        of = components(self.version.release)
        for role in (role for role in Role if role.value in of):
            release = of[role.value]
            folder = self._paths[role] = libraries(role.value, release, self._place)
            versions[role.value] = f"{release} ({digest(folder)})"
        if self._contained:
            release = nearest_having(CONTAINER, self.version.release)
            self._container = libraries(CONTAINER, release, self._place)
            versions[CONTAINER] = f"{release} ({digest(self._container)})"
        return versions

    def _distribution(self, folder: Path) -> dict[str, str]:
        """Each component is of one distribution that is there."""
        jars, digest_of_all = distribution(folder)
        self._paths = dict.fromkeys(Role, jars)
        self._container = jars
        return {role.value: f"{self.version.release} in {folder} ({digest_of_all})"
                for role in Role}  # fmt: skip

    def folders(self) -> Sequence[Path]:
        """The jars of each component."""
        own = (self._container,) if self._contained else ()
        return tuple(dict.fromkeys((*self._paths.values(), *own)))

    def ends_with(self, node: Node) -> int:
        """As a JVM does."""
        return TERMINATED

    def follows_address(self, node: Node) -> bool:
        """All but brokers, who look for their address when they start."""
        return node.role is not Role.BROKER

    def answers_as(self, node: Node) -> int:
        """As the release that the node's component is taken of."""
        if self.version.folder:
            return version_number(self.version.release)
        return version_number(components(self.version.release)[node.role.value])

    def config(self, node: Node, settings: Settings, addresses: dict[str, str], data: str) -> str:
        lines = properties(node, settings, addresses, data)
        if node.role is Role.BROKER:
            self._check_memory(settings)
            lines = {**SMALL, **_paired(settings), **lines, **self._own(settings)}
            if node.container:
                lines = {k: v for k, v in lines.items() if k not in OF_CONTAINERS}
        if Role.CONTROLLER in node.roles and self.version.back_end == "jraft":
            lines |= _jraft(node, settings, addresses)
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def _check_memory(self, settings: Settings) -> None:
        if self._here and not self._fits:
            memory.refuse_what_does_not_fit(settings, memory.free_here())
        self._fits = True

    def argv(self, node: Node, settings: Settings, config_path: str) -> Sequence[str]:
        data = str(Path(config_path).parent)
        return [
            JAVA, *JVM, *self._tiers(node, settings),
            *memory.options(node.role, node.name, settings),
            f"-Drocketmq.home.dir={data}", f"-Duser.home={data}",
            f"-Drmq.logback.configurationFile={data}/logback.xml",
            *([LEASE.format(settings.lock_lease_ms)] if node.role is Role.BROKER else ()),
            "-cp", f"{self._paths[node.role]}/*", MAIN[node.role], "-c", config_path,
        ]  # fmt: skip

    def container(
        self, container: Container, settings: Settings, addresses: dict[str, str], data: str
    ) -> str:
        """As ours: the keys are RocketMQ's."""
        return container_file(container, settings, addresses, data)

    def container_argv(
        self, container: Container, settings: Settings, config_path: str
    ) -> Sequence[str]:
        """One JVM with the heaps of all its brokers."""
        data = str(Path(config_path).parent)
        return [
            JAVA, *JVM, *memory.of_container(len(container.brokers)),
            f"-Drocketmq.home.dir={data}", f"-Duser.home={data}",
            f"-Drmq.logback.configurationFile={data}/logback.xml",
            LEASE.format(settings.lock_lease_ms),
            "-cp", f"{self._container}/*", CONTAINER_MAIN, "-c", config_path,
        ]  # fmt: skip

    def _tiers(self, node: Node, settings: Settings) -> tuple[str, ...]:
        """Of the JVM's compilers."""
        own = {**_paired(settings), **self._own(settings)}
        timer = settings.keys.get(f"broker:{TIMER}", own.get(TIMER))
        return () if node.role is Role.BROKER and timer == "true" else (FIRST_TIER,)

    async def install(self, machine: Machine) -> None:
        """The configuration of its log."""
        shaded = ordered(self.version.release) > ordered(PLAIN_UNTIL)
        text = LOGBACK.format(package=SHADED if shaded else PLAIN)
        await machine.put(f"{machine.data_dir}/logback.xml", text.encode())
        if not shaded:  # it looks nowhere else
            for role in Role:
                path = f"{machine.data_dir}/conf/logback_{role.value}.xml"
                await machine.put(path, text.encode())


def _paired(settings: Settings) -> dict[str, str]:
    """What brokers need that have no controllers."""
    return {} if settings.topology.controllers else IN_A_PAIR


def _jraft(node: Node, settings: Settings, addresses: dict[str, str]) -> dict[str, str]:
    """The keys of the other back end, whose own calls go by another port."""
    peers = [n for n in plan(settings.topology) if Role.CONTROLLER in n.roles]
    named = {n.name: n.name if settings.by_name else addresses[n.name] for n in peers}
    return {
        "controllerType": "jRaft",
        "jRaftServerId": f"{named[node.name]}:{CONTROLLER_PORT + 1}",
        "jRaftInitConf": ",".join(f"{named[n.name]}:{CONTROLLER_PORT + 1}" for n in peers),
        "jRaftControllerRPCAddr": ",".join(f"{named[n.name]}:{CONTROLLER_PORT}" for n in peers),
    }
