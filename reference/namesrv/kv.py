"""Settings that operators keep in a name server: namespace, then key, then value.

They are the only thing that a name server writes to its disk, as RocketMQ's ``kvConfig.json``: the
whole table, aside and renamed, durable before it is answered or used. One namespace has a meaning
of its own: `ORDER_TOPICS`, how many queues of an ordered topic each broker has.
"""

import asyncio
from collections.abc import Mapping

from maxq.reference.host import Host, read_file, replace_file
from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire.body import Body
from maxq.reference.wire.seal import seal, unseal

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"
ENTRIES_MAX = 10_000
CHARS_MAX = 8 << 20  # of all names, keys and values: each change writes them all


class CorruptKv(Exception):
    """A settings file that cannot be read; says which and why."""


class KvFile(Body):
    """The file's content."""

    config_table: dict[str, dict[str, str]] = {}


class Kv:
    """The settings of one name server, in memory and below `path`."""

    def __init__(self, host: Host, path: str) -> None:
        self._host = host
        self._path = path
        self._table: dict[str, dict[str, str]] = {}
        self._write = asyncio.Lock()  # one write of the file at a time

    async def load(self) -> None:
        """Read the file, if there is one, and keep others from it.

        Raises:
            CorruptKv: it cannot be read.
            BlockingIOError: another name server uses it. It replaces the whole file by what it
                knows, and so takes back each setting that this one has answered for.
        """
        try:
            self._host.disk.lock(f"{self._path}.lock")
        except BlockingIOError:
            raise
        except OSError as error:  # where no file can be made, this one writes no settings either
            self._host.log("namesrv.kv.unwritable", why=str(error))
        stored = read_file(self._host.disk, self._path)
        if stored is not None:  # who wrote it may have been killed before the folder was synced
            await self._host.disk.sync_dir(self._path.rpartition("/")[0])
        try:
            self._table = {} if stored is None else KvFile.from_json(unseal(stored)).config_table
        except RemoteProtocolError as error:
            raise CorruptKv(f"{self._path}: {error}; restore it") from None

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """A namespace; None if nothing was ever put there."""
        return self._table.get(name)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value; durable when this returns.

        Raises:
            ValueError: there are too many, or they are too long.
            OSError: the disk is full or failed; nothing has changed.
        """
        async with self._write:
            known = self._table.get(namespace, {})
            count = sum(map(len, self._table.values()))
            if key not in known and count >= ENTRIES_MAX:
                raise ValueError(f"there are {count} settings already, which is the limit")
            table = {**self._table, namespace: {**known, key: value}}
            size = sum(len(n) + len(k) + len(v) for n, t in table.items() for k, v in t.items())
            if size > CHARS_MAX:
                raise ValueError(f"settings of {size} characters, at most {CHARS_MAX}")
            await self._replace(table)

    async def delete(self, namespace: str, key: str) -> None:
        """Forget a value, if there is one; durable when this returns. Raises OSError."""
        async with self._write:
            known = self._table.get(namespace, {})
            if key in known:
                left = {k: v for k, v in known.items() if k != key}
                await self._replace({**self._table, namespace: left})

    async def _replace(self, table: dict[str, dict[str, str]]) -> None:
        body = KvFile(config_table=table).to_json()
        await replace_file(self._host.disk, self._path, seal(body))
        self._table = table
