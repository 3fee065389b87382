"""Who a broker is, over restarts: the identity files, and the steps by which an id is won.

A new broker asks for the next id, writes it with a check code of its own into a temporary file,
claims it from the controller, and writes the final file. A crash at any point leaves files from
which the next start goes on:

1. no file: nothing was claimed; begin again;
2. temporary file: the claim may or may not have reached the controller; claim again with the same
   code, which the controller takes as the same claim;
3. final file (with or without a left-over temporary one): the id is ours.

So the same store always has the same id, and no id has two owners. The temporary file is dropped
only when the controller says that its id belongs to another broker (2014); Java also drops it on a
time-out, which leaks the id. Claims: S1, S2.

Sources: docs/spec/controller-ha.md 3.1 to 3.3,
apache/rocketmq:docs/en/controller/persistent_unique_broker_id.md.
"""

from maxq.reference.host import Disk, read_file, replace_file
from maxq.reference.records import BrokerId, Record, RemoteProtocolError
from maxq.reference.wire.files import Identity, decode_identity, encode_identity

TEMP_SUFFIX = "-temp"


class IdentityError(Exception):
    """Identity files with which a broker must not start; says file and reason."""


class New(Record):
    """No claim was made yet."""


class Claimed(Record):
    """An id was asked for with this code; the answer is not known to have come."""

    broker_id: BrokerId
    check_code: str


class Owned(Record):
    """The id is ours."""

    broker_id: BrokerId


State = New | Claimed | Owned


def state_of(
    final: bytes | None, temporary: bytes | None, *, cluster: str, broker_name: str, path: str
) -> State:
    """Read what the files say.

    Args:
        final: content of the identity file; None if absent.
        temporary: content of the temporary file; None if absent.
        cluster: the configured cluster.
        broker_name: the configured broker name.
        path: of the identity file, for messages.

    Raises:
        IdentityError: the final file is damaged, or a file belongs to another cluster or name.
            Going on would take a second id, or another broker's.
    """
    if final is not None:
        try:
            found = decode_identity(final)
        except RemoteProtocolError as error:
            raise IdentityError(
                f"{path}: {error}; restore it, or remove it with the store"
            ) from None
        if found.broker_id < 1:
            raise IdentityError(f"{path}: id {found.broker_id} is none; restore the file")
        _check_names(found, cluster, broker_name, path)
        return Owned(broker_id=found.broker_id)
    if temporary is None:
        return New()
    try:
        found = decode_identity(temporary, temporary=True)
    except RemoteProtocolError:
        return New()  # torn before it was whole, so nothing was claimed with it
    _check_names(found, cluster, broker_name, path + TEMP_SUFFIX)
    return Claimed(broker_id=found.broker_id, check_code=found.check_code or "")


def _check_names(found: Identity, cluster: str, broker_name: str, path: str) -> None:
    if (found.cluster, found.broker_name) != (cluster, broker_name):
        raise IdentityError(
            f"{path} belongs to {found.cluster}#{found.broker_name}, "
            f"this broker is {cluster}#{broker_name}"
        )


def check_code(address: str, wall_ms: int) -> str:
    """Make a check code. The controller reads the address from it."""
    return f"{address};{wall_ms}"


class IdentityFiles:
    """The two files of one broker.

    Args:
        disk: of the broker.
        path: of the identity file.
        epochs: path of the epoch file of its log.
        cluster: the configured cluster.
        broker_name: the configured broker name.
    """

    def __init__(
        self, disk: Disk, path: str, *, epochs: str, cluster: str, broker_name: str
    ) -> None:
        self._disk = disk
        self._path = path
        self._epochs = epochs
        self._cluster = cluster
        self._broker_name = broker_name

    def load(self) -> State:
        """Read them.

        Raises:
            IdentityError: as `state_of`; or there is none, and the log has epochs, which only the
                owner of an id gives it: the file was lost.
        """
        final = read_file(self._disk, self._path)
        if final is None:
            self._refuse_lost()
        return state_of(
            final,
            read_file(self._disk, self._path + TEMP_SUFFIX),
            cluster=self._cluster,
            broker_name=self._broker_name,
            path=self._path,
        )

    def _refuse_lost(self) -> None:
        if read_file(self._disk, self._epochs):
            raise IdentityError(
                f"{self._path} is missing, and {self._epochs} is not: restore the file, or remove "
                "the whole store to begin as a new broker"
            )

    async def save_claim(self, claim: Claimed) -> None:
        """Make a claim durable, before it is sent."""
        identity = self._identity(claim.broker_id, claim.check_code)
        await replace_file(self._disk, self._path + TEMP_SUFFIX, encode_identity(identity))

    async def drop_claim(self) -> None:
        """Forget a claim that the controller refused for good."""
        await self._unlink(self._path + TEMP_SUFFIX)

    async def keep(self, broker_id: BrokerId) -> None:
        """Make a granted id durable; only then does the claim go."""
        await replace_file(self._disk, self._path, encode_identity(self._identity(broker_id)))
        await self._unlink(self._path + TEMP_SUFFIX)

    def _identity(self, broker_id: BrokerId, code: str | None = None) -> Identity:
        return Identity(
            cluster=self._cluster,
            broker_name=self._broker_name,
            broker_id=broker_id,
            check_code=code,
        )

    async def _unlink(self, path: str) -> None:
        try:
            self._disk.unlink(path)
        except FileNotFoundError:
            return
        await self._disk.sync_dir(path.rpartition("/")[0])
