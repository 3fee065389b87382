"""Where a broker's log goes: among the lines of its process, under its name, or to its own file.

With ``isolateLogEnable`` they go to ``broker.log`` in a folder of the broker's name, below
``logs/rocketmqlogs`` of the user's home, and to no other place. That is RocketMQ's layout; RIP-31
has ``logs/NAME_rocketmqlogs``. RocketMQ's containers give every broker a file, and need no key for
it. A line that the disk does not take goes where all others go.

A file that is full becomes ``broker.1.log``, in the place of the one before. Units: bytes, ms.

Source: RIP-31, "Log Separation"; RocketMQ ``BrokerStartup``, ``rmq.broker.logback.xml``;
docs/spec/acting-master.md 2.9.
"""

import random
from contextlib import closing

import msgspec

from maxq.reference.host import Disk, Host

FILE_BYTES_MAX = 128 << 20  # as RocketMQ's


class BrokerLog:
    """A log in a file, which is open for no longer than a line takes.

    Args:
        disk: of the machine.
        folder: of the file; it need not be there.
        bytes_max: of a file.
    """

    def __init__(self, disk: Disk, folder: str, *, bytes_max: int = FILE_BYTES_MAX) -> None:
        self._disk = disk
        self._folder = folder
        self._bytes_max = bytes_max

    def write(self, fields: dict[str, object]) -> None:
        """Add a line, in JSON.

        Raises:
            OSError: it cannot be written; there may be a piece of it.
        """
        line = msgspec.json.encode(fields, enc_hook=str) + b"\n"
        if not self._fits(line):
            self._disk.rename(f"{self._folder}/broker.log", f"{self._folder}/broker.1.log")
            self._fits(line)

    def _fits(self, line: bytes) -> bool:
        """Write a line, if the file has room for it."""
        with closing(self._disk.open(f"{self._folder}/broker.log", create=True)) as file:
            at = file.size()
            if at and at + len(line) > self._bytes_max:
                return False
            file.pwrite(line, at)
            return True


class NamedHost:
    """A machine, as one of the brokers of a process sees it: the name is in what it logs, and in
    what it draws, or two brokers would draw the same.

    Args:
        host: the machine.
        name: of the broker.
        isolated: whether its log is a file of its own.
    """

    def __init__(self, host: Host, name: str, *, isolated: bool = False) -> None:
        self._host = host
        self._name = name
        folder = f"{host.home()}/logs/rocketmqlogs/{name}"
        self._file = BrokerLog(host.disk, folder) if isolated else None

    @property
    def disk(self) -> Disk:
        return self._host.disk

    def wall_ms(self) -> int:
        return self._host.wall_ms()

    def hour(self) -> int:
        return self._host.hour()

    def addresses(self) -> tuple[str, ...]:
        return self._host.addresses()

    def home(self) -> str:
        return self._host.home()

    def rng(self, name: str) -> random.Random:
        return self._host.rng(f"{self._name}/{name}")

    def log(self, trace: str, /, **fields: object) -> None:
        if self._file is not None:
            try:
                self._file.write({"at_ms": self.wall_ms(), "trace": trace, **fields})
                return
            except OSError as error:
                self._host.log("log.failed", broker=self._name, why=str(error))
        self._host.log(trace, broker=self._name, **fields)
