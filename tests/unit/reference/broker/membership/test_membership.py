"""What every broker does to be a member of its set."""

import asyncio
from types import SimpleNamespace

from maxq.reference.broker.membership.membership import Membership


def test_an_ha_address_that_comes_once_the_master_was_left_is_nobodys() -> None:
    """While a slave asks a master for it, a name server may say that the master has gone."""
    slave = SimpleNamespace(master_address="", master_ha_address="", role="slave")
    asyncio.run(Membership._look_for_ha(slave, "198.18.0.32:10912"))  # type: ignore[arg-type]
    assert slave.master_ha_address == ""
