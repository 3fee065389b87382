"""How a broker gets its persistent id: offered by the controllers, claimed, proven, registered.

Each step is durable before the next (`maxq.reference.broker.membership.identity`), so that a crash
between two costs no id and gives none away. A step that fails is tried again, at the latest after
`RETRY_S`; nothing is given up, but for one: a broker whose id has another living owner, for longer
than a controller takes a silent one for alive, runs on a copy of that one's store, and ends.
Units: seconds. Source: docs/spec/controller-ha.md 3.2, 3.3.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from maxq.reference.broker.membership.controllers import Controllers, Refused
from maxq.reference.broker.membership.identity import (
    Claimed,
    IdentityError,
    IdentityFiles,
    New,
    Owned,
    State,
    check_code,
)
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.records import BrokerId
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.headers import from_ext

FIRST_RETRY_S = 0.1  # doubled up to RETRY_S: controllers may start as well
RETRY_S = 1.0
PATIENCE_S = 5.0  # beyond the time after which a controller takes a silent broker for dead

T = TypeVar("T")


class Joining:
    """The way of one broker to its id."""

    def __init__(self, config: BrokerConfig, host: Host, controllers: Controllers) -> None:
        self._config = config
        self._host = host
        self._controllers = controllers
        self._refused_since: float | None = None  # by the loop's clock
        self.incarnation = ""
        # The set's when this process registered last: who had the id until then may have led in it.
        self.epoch_before: int | None = None

    async def win(self, address: str) -> BrokerId:
        """Win an id, or take the one that is owned.

        Raises:
            IdentityError: the files of the id are damaged, or another broker's.
        """
        files = IdentityFiles(
            self._host.disk,
            self._config.identity_path,
            epochs=self._config.epoch_path,
            cluster=self._config.broker_cluster_name,
            broker_name=self._config.broker_name,
        )
        state = files.load()
        while not isinstance(state, Owned):
            state = await self._done(partial(self._advance, files, state, address))
        return state.broker_id

    async def register_at_last(self, broker_id: BrokerId, address: str) -> None:
        """Register, again until that is done.

        Raises:
            IdentityError: the id has another living owner.
        """
        registered = False
        while not registered:
            registered = await self._done(partial(self.register, broker_id, address))
            if not registered:
                await asyncio.sleep(RETRY_S)

    async def _done(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        retry_s = FIRST_RETRY_S
        while (done := await self._controllers.tried(step())) is None:
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_S)
        return done

    async def _advance(self, files: IdentityFiles, state: New | Claimed, address: str) -> State:
        """One step towards an id."""
        if isinstance(state, New):
            return await self._claim(files, address)
        return await self._prove(files, state)

    async def _claim(self, files: IdentityFiles, address: str) -> Claimed:
        request = headers.NextBrokerIdRequest(
            cluster_name=self._config.broker_cluster_name, broker_name=self._config.broker_name
        )
        answer = await self._controllers.ask(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, request)
        next_id = from_ext(headers.NextBrokerIdResponse, answer.ext).next_broker_id
        if next_id < 1:
            raise Refused(f"the controller offers id {next_id}")
        claim = Claimed(
            broker_id=BrokerId(next_id), check_code=check_code(address, self._host.wall_ms())
        )
        await files.save_claim(claim)
        return claim

    async def _prove(self, files: IdentityFiles, claim: Claimed) -> New | Owned:
        request = headers.ApplyBrokerIdRequest(
            cluster_name=self._config.broker_cluster_name,
            broker_name=self._config.broker_name,
            applied_broker_id=claim.broker_id,
            register_check_code=claim.check_code,
        )
        answer = await self._controllers.ask(
            RequestCode.CONTROLLER_APPLY_BROKER_ID,
            request,
            allow=(ResponseCode.SUCCESS, ResponseCode.CONTROLLER_BROKER_ID_INVALID),
        )
        if answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID:
            await files.drop_claim()
            return New()
        await files.keep(claim.broker_id)
        self._host.log("broker.id.won", id=claim.broker_id)
        return Owned(broker_id=claim.broker_id)

    async def register(self, broker_id: BrokerId, address: str) -> bool:
        """Register the address of an owned id; false while another living broker has it.

        Raises:
            IdentityError: that one has outlived every doubt.
            Refused, OSError, TimeoutError: as `Controllers.ask`.
        """
        self.incarnation = self.incarnation or f"{address};{self._host.wall_ms()}"
        request = headers.RegisterToControllerRequest(
            cluster_name=self._config.broker_cluster_name,
            broker_name=self._config.broker_name,
            broker_id=broker_id,
            broker_address=address,
            invoke_time=self._host.wall_ms(),
            incarnation=self.incarnation,
        )
        answer = await self._controllers.ask(
            RequestCode.CONTROLLER_REGISTER_BROKER,
            request,
            allow=(ResponseCode.SUCCESS, ResponseCode.CONTROLLER_BROKER_ID_INVALID),
        )
        if answer.code == ResponseCode.SUCCESS:
            self._refused_since = None
            known = from_ext(headers.RegisterToControllerResponse, answer.ext)
            # RocketMQ's controllers say it in the header's own field, while the master lives.
            before = known.epoch_before
            self.epoch_before = known.master_epoch if before is None else before
            return True
        self._bear(answer.remark or "")
        return False

    def _bear(self, why: str) -> None:
        """Another owner may be one that died unseen, and is alive until its time-out."""
        now = asyncio.get_running_loop().time()
        self._host.log("broker.id.in-use", why=why)
        if self._refused_since is None:
            self._refused_since = now
        timeout_s = self._config.controller_heart_beat_timeout_mills / 1000
        if now - self._refused_since > timeout_s + PATIENCE_S:
            raise IdentityError(
                f"{why}: {self._config.identity_path} is in a copy of that broker's store; "
                "stop one of them, and remove the copy"
            )
