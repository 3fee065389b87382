"""An applicant for broker ids, at the level of the protocol: requests 1005, 1012 and 1013.

It does what a new broker does before it has an identity: asks the leading controller for the next
id, and claims it with a register code of its own. One attempt claims once. Units: seconds.
Source: docs/spec/controller-ha.md 3.3, RocketMQ ``ReplicasManager.registerBrokerToController``.
"""

import asyncio
from collections.abc import Callable, Sequence

from maxq.harness.contracts.error_classes import error_of, error_words
from maxq.harness.contracts.outcome import Fail, Info, Ok, Outcome, attempt
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Dial, NotSent, Pool
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import Header, from_ext, to_ext

CALL_TIMEOUT_S = 3.0

# Decided by a leader before anything is proposed, or as the outcome of what was applied.
REFUSED = frozenset(
    {
        ResponseCode.CONTROLLER_BROKER_ID_INVALID,
        ResponseCode.CONTROLLER_INVALID_REQUEST,
        ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
        ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    }
)


class Applicant:
    """Connections to the controllers.

    Args:
        controllers: gives their addresses now.
        resolve: gives the address of what a controller calls another.
        cluster: the cluster's name, part of every claim.
        dial: how they are reached.
        group: the run's tasks.
    """

    def __init__(
        self,
        controllers: Callable[[], Sequence[str]],
        resolve: Callable[[str], str],
        cluster: str,
        dial: Dial,
        group: asyncio.TaskGroup,
    ) -> None:
        self._controllers = controllers
        self._resolve = resolve
        self._cluster = cluster
        self._pool = Pool(group, dial=dial)
        self._leader = ""

    def close(self) -> None:
        self._pool.close()

    async def apply(self, broker_set: str, code: str) -> Outcome:
        """Claim the next id of a set; an `ok` carries it."""
        try:
            asked = headers.NextBrokerIdRequest(cluster_name=self._cluster, broker_name=broker_set)
            answer = await self._ask(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, asked)
            if answer.code != ResponseCode.SUCCESS:
                return Fail(error_of(answer.code, answer.remark))
            next_id = from_ext(headers.NextBrokerIdResponse, answer.ext).next_broker_id
        except (OSError, RemoteProtocolError) as error:  # a question changes nothing
            return Fail(error_words(error))
        return await self._claim(broker_set, code, next_id)

    async def _claim(self, broker_set: str, code: str, broker_id: int) -> Outcome:
        claim = headers.ApplyBrokerIdRequest(
            cluster_name=self._cluster,
            broker_name=broker_set,
            applied_broker_id=broker_id,
            register_check_code=code,
        )
        frame = Frame(code=RequestCode.CONTROLLER_APPLY_BROKER_ID, ext=to_ext(claim))
        # To whoever offered the id.
        leader, self._leader = self._leader, ""
        answer = await attempt(self._pool, leader, frame, timeout_s=CALL_TIMEOUT_S)
        if not isinstance(answer, Frame):
            return answer
        if answer.code == ResponseCode.SUCCESS:
            self._leader = leader
            return Ok(broker_id)
        why = error_of(answer.code, answer.remark)
        # A controller that has lost its lead does not know what became of the claim.
        return Fail(why) if answer.code in REFUSED else Info(why)

    async def _ask(self, code: RequestCode, header: Header) -> Frame:
        """Ask the leader, who is looked for again whenever it did not answer well."""
        leader, self._leader = self._leader or await self._find_leader(), ""
        frame = Frame(code=code, ext=to_ext(header))
        answer = await self._pool.call(leader, frame, timeout_s=CALL_TIMEOUT_S)
        if answer.code == ResponseCode.SUCCESS:
            self._leader = leader
        return answer

    async def _find_leader(self) -> str:
        request = Frame(code=RequestCode.CONTROLLER_GET_METADATA_INFO, ext={})
        controllers = self._controllers()
        for controller in controllers:
            try:
                answer = await self._pool.call(controller, request, timeout_s=CALL_TIMEOUT_S)
                reported = from_ext(headers.MetadataResponse, answer.ext)
            except (OSError, RemoteProtocolError):
                continue
            if answer.code == ResponseCode.SUCCESS and reported.controller_leader_address:
                return self._resolve(reported.controller_leader_address)
        raise NotSent(f"no controller of {controllers} names a leader")
