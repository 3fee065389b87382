"""Settings that change while a node runs (25, 318): all or nothing, and only what is read anew."""

import msgspec
import pytest

from maxq.reference.broker.admin import admin
from maxq.reference.config import BrokerConfig, NamesrvConfig
from maxq.reference.namesrv import handlers
from maxq.reference.settings import UPDATE_BYTES_MAX, Settings, UpdateRefused
from maxq.reference.wire.codes import ResponseCode


def settings() -> Settings[NamesrvConfig]:
    return Settings(NamesrvConfig(), live=handlers.LIVE_KEYS, black_list=handlers.BLACK_LIST)


def test_live_settings_change_at_once() -> None:
    made = settings()
    keys = made.update(b"orderMessageEnable=true\nwaitSecondsForService = 7\n")
    assert keys == {"orderMessageEnable", "waitSecondsForService"}
    assert made.now == NamesrvConfig(order_message_enable=True, wait_seconds_for_service=7)
    assert made.update(b"") == frozenset()


def test_a_change_that_is_too_long_is_not_read() -> None:
    """Escapes are matched one by one: 4 MB of them took 300 MiB."""
    made = settings()
    with pytest.raises(UpdateRefused, match="at most 65536") as refused:
        made.update(b"x" * (UPDATE_BYTES_MAX + 1))
    assert refused.value.code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize(
    ("line", "code", "why"),
    [
        ("kvConfigPath=/x", ResponseCode.NO_PERMISSION, "black list"),
        ("configBlackList=a", ResponseCode.NO_PERMISSION, "black list"),
        ("listenPort=1", ResponseCode.NO_PERMISSION, "cannot be changed while the node runs"),
        ("orderMessageEnabel=true", ResponseCode.INVALID_PARAMETER, "did you mean"),
        ("waitSecondsForService=x", ResponseCode.INVALID_PARAMETER, "not a whole number"),
        ("clusterTest=true", ResponseCode.INVALID_PARAMETER, "used by the Java system only"),
    ],
)
def test_what_cannot_change_refuses_the_whole_request(
    line: str, code: ResponseCode, why: str
) -> None:
    """16 for black-listed keys; and nothing is taken of a request with one wrong line.

    docs/spec/remoting.md 2.15
    """
    made = settings()
    with pytest.raises(UpdateRefused, match=why) as caught:
        made.update(f"orderMessageEnable=true\n{line}\n".encode())
    assert caught.value.code == code
    assert made.now == NamesrvConfig()


def test_every_live_key_is_a_key() -> None:
    for kind, keys in ((NamesrvConfig, handlers.LIVE_KEYS), (BrokerConfig, admin.LIVE_KEYS)):
        assert keys <= {f.encode_name for f in msgspec.structs.fields(kind)}
