"""The settings that a node says it has (26, 319, 1010), beside those that it was given.

A node is asked, and not its file: RocketMQ overlooks a key that it does not know, and a value that
it cannot read.
"""

from collections.abc import Mapping

from maxq.harness.client.probes import PROBE_TIMEOUT_S
from maxq.harness.contracts.environment import Role
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.files import decode_properties
from maxq.reference.wire.frame import Frame

QUESTIONS: Mapping[Role, int] = {
    Role.NAMESRV: RequestCode.GET_NAMESRV_CONFIG,
    Role.CONTROLLER: RequestCode.GET_CONTROLLER_CONFIG,
    Role.BROKER: RequestCode.GET_BROKER_CONFIG,
}


async def settings_of(pool: Pool, address: str, role: Role) -> dict[str, str] | None:
    """What a node answers, by RocketMQ's keys; None where it does not."""
    try:
        question = Frame(code=QUESTIONS[role], ext={})
        answer = await pool.call(address, question, timeout_s=PROBE_TIMEOUT_S)
        if answer.code != ResponseCode.SUCCESS:
            return None
        return {line.key: line.value for line in decode_properties(answer.body or b"")}
    except (OSError, RemoteProtocolError):
        return None


def otherwise(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """What a node has of the keys that it was given with another value; it may not show all."""
    return {key: found[key] for key, value in wanted.items()
            if key in found and not _same(value, found[key])}  # fmt: skip


def _same(one: str, other: str) -> bool:
    """Whether both are one value to Java: numbers have signs and zeros, truth has no case."""
    one, other = one.strip(), other.strip()
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other or one.lower() == other.lower() in ("true", "false")
