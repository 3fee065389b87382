"""A broker's calls of the controller that leads, which it finds and remembers.

Units: seconds.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

from maxq.reference.host import Host
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import NotSent, Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import Header, from_ext, to_ext
from maxq.reference.wire.node_headers import BrokerHeartbeat, MetadataResponse

CALL_TIMEOUT_S = 3.0

T = TypeVar("T")


class Refused(Exception):
    """A controller answered, and not what was hoped for."""


class Controllers:
    """The controllers at `addresses`, of which one leads."""

    def __init__(self, host: Host, pool: Pool, addresses: tuple[str, ...]) -> None:
        self._host = host
        self._pool = pool
        self.addresses = addresses
        self._leader = ""

    async def ask(
        self,
        code: RequestCode,
        header: Header,
        *,
        body: bytes | None = None,
        allow: tuple[ResponseCode, ...] = (ResponseCode.SUCCESS,),
    ) -> Frame:
        """Ask the leading controller, found first where it is not known.

        Raises:
            Refused: an answer with another code than `allow`.
            OSError, TimeoutError: no controller answered.
        """
        if not self._leader:
            self._leader = await self._find_leader()
        leader, self._leader = self._leader, ""  # forgotten unless it answers well
        answer = await self._pool.call(
            leader, Frame(code=code, ext=to_ext(header), body=body), timeout_s=CALL_TIMEOUT_S
        )
        if answer.code not in allow:
            raise Refused(f"{code.name}: {answer.code} {answer.remark or ''}")
        if answer.code != ResponseCode.CONTROLLER_NOT_LEADER:
            self._leader = leader
        return answer

    async def _find_leader(self) -> str:
        for controller in self.addresses:
            try:
                answer = await self._pool.call(
                    controller,
                    Frame(code=RequestCode.CONTROLLER_GET_METADATA_INFO, ext={}),
                    timeout_s=CALL_TIMEOUT_S,
                )
            except (OSError, TimeoutError):
                continue
            leader = from_ext(MetadataResponse, answer.ext).controller_leader_address
            if answer.code == ResponseCode.SUCCESS and leader:
                return leader
        raise Refused(f"no controller of {list(self.addresses)} names a leader")

    async def tried(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What `work` gives; None, and a line in the log, where a controller failed it."""
        try:
            return await work
        except (OSError, TimeoutError, Refused, RemoteProtocolError) as error:
            self._host.log("broker.controller.failed", why=f"{type(error).__name__}: {error}")
            return None

    async def heartbeat(self, controller: str, beat: BrokerHeartbeat) -> None:
        """Send a heartbeat to one controller, leading or not."""
        frame = Frame(code=RequestCode.BROKER_HEARTBEAT, ext=to_ext(beat))
        try:
            await self._pool.oneway(controller, frame)
        except NotSent as error:
            self._host.log("broker.heartbeat.failed", to=controller, why=str(error))
