"""Whether an HA address is a master's: a slave dials no other.

The controller names a master by its address for clients; where its HA port is, a name server says,
and a name server takes that from anyone who registers. The usual place is the port behind the one
for clients, at the same host. Any other must be confirmed by the master (906).
"""

from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Pool, split_address
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.node_headers import HaInfo

CALL_TIMEOUT_S = 3.0


def is_usual(master_address: str, ha_address: str) -> bool:
    """Whether this is where a master listens if nothing is configured."""
    host, port = split_address(master_address)
    return ha_address == f"{host}:{port + 1}"


async def confirmed(pool: Pool, master_address: str, ha_address: str) -> str:
    """Ask a master, unless the address is the usual one.

    Returns:
        Why it is not the master's; empty if it is.
    """
    if is_usual(master_address, ha_address):
        return ""
    try:
        own = await _own_of(pool, master_address)
    except (OSError, TimeoutError, RemoteProtocolError) as error:
        return f"{type(error).__name__}: {error}"
    return "" if own == ha_address else f"the master listens at {own or 'none'}"


async def asked_of(pool: Pool, master_address: str) -> str:
    """Where a master says that its HA port is; the usual place if it does not say."""
    host, port = split_address(master_address)
    usual = f"{host}:{port + 1}"
    try:
        return await _own_of(pool, master_address) or usual
    except (OSError, TimeoutError, RemoteProtocolError):
        return usual


async def _own_of(pool: Pool, address: str) -> str:
    return (await info_of(pool, address)).master_ha_address or ""


async def info_of(pool: Pool, address: str) -> HaInfo:
    """What a broker says of itself as a master; empty if it is none.

    Raises:
        NotSent, ConnectionLost, TimeoutError: no answer.
        RemoteProtocolError: it answers otherwise.
    """
    question = Frame(code=RequestCode.EXCHANGE_BROKER_HA_INFO, ext=to_ext(HaInfo()))
    answer = await pool.call(address, question, timeout_s=CALL_TIMEOUT_S)
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteProtocolError(f"code {answer.code}: {answer.remark}")
    return from_ext(HaInfo, answer.ext)
