"""A node's settings while it runs: some may be changed by an operator (requests 25 and 318).

A change is taken whole or not at all, and lasts until the node stops: the file that it was started
with stays as it is (Java rewrites its file). Each role names the keys that it reads again at every
use; every other key is refused, since a change that does nothing would be a lie.
"""

from collections.abc import Callable, Iterable
from typing import Generic

import msgspec

from maxq.reference.config import C, ConfigError, parse_config, render_config
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.files import decode_properties
from maxq.reference.wire.frame import Frame

UPDATE_BYTES_MAX = 65_536  # far more than every key of a role; reading takes a hundred times that


class UpdateRefused(Exception):
    """Nothing was changed; the response code, and why."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code


class Settings(Generic[C]):
    """The current settings of one node.

    Args:
        config: what it was started with.
        live: keys that may be changed.
        black_list: keys that RocketMQ never changes.
        check: raises ConfigError where settings do not go together; called with all of them, with
            the text that changes some, and with the text's name.
    """

    def __init__(
        self,
        config: C,
        *,
        live: Iterable[str],
        black_list: Iterable[str],
        check: Callable[[C, bytes, str], object] = lambda config, content, file: None,
    ) -> None:
        self.now = config
        self._check = check
        self._live = frozenset(live)
        self._black_list = frozenset(black_list)
        self._fields = {f.encode_name: f.name for f in msgspec.structs.fields(config)}

    def update(self, content: bytes) -> frozenset[str]:
        """Take properties text; returns the keys that it names.

        Raises:
            UpdateRefused: it is too long, or a key is unknown, has a wrong value, or cannot be
                changed, or is named twice, or does not go together with what there is.
            RemoteProtocolError: it is no properties text.
        """
        if len(content) > UPDATE_BYTES_MAX:
            why = f"settings of {len(content)} bytes, at most {UPDATE_BYTES_MAX}"
            raise UpdateRefused(ResponseCode.INVALID_PARAMETER, why)
        named = [entry.key for entry in decode_properties(content)]
        keys = dict.fromkeys(named)
        if twice := sorted({key for key in keys if named.count(key) > 1}):
            raise UpdateRefused(ResponseCode.INVALID_PARAMETER, f"named twice: {', '.join(twice)}")
        if self._black_list & keys.keys():
            raise UpdateRefused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        try:
            wanted, warnings = parse_config(type(self.now), content, "request")
        except ConfigError as error:
            raise UpdateRefused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        if warnings:
            raise UpdateRefused(ResponseCode.INVALID_PARAMETER, "; ".join(warnings))
        fixed = sorted(keys.keys() - self._live)
        if fixed:
            why = f"cannot be changed while the node runs: {', '.join(fixed)}"
            raise UpdateRefused(ResponseCode.NO_PERMISSION, why)
        names = [self._fields[key] for key in keys]
        now = msgspec.structs.replace(self.now, **{n: getattr(wanted, n) for n in names})
        try:
            self._check(now, content, "request")
        except ConfigError as error:
            raise UpdateRefused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        self.now = now
        return frozenset(keys)

    def answer_get(self, request: Frame) -> Frame:
        """The current settings, as the answer to a request for them."""
        return request.answer(ResponseCode.SUCCESS, body=render_config(self.now).encode())

    def answer_update(self, request: Frame) -> Frame:
        """Take the properties in the body of `request`, or say why not."""
        try:
            self.update(request.body or b"")
        except UpdateRefused as refused:
            return request.answer(refused.code, str(refused))
        return request.answer(ResponseCode.SUCCESS)
