"""An environment of somebody else's: what begins on its machines begins as it says."""

import asyncio
from pathlib import Path

import pytest
from few_files_environment import FEW_FILES, FILES
from local_cluster import missing

from maxq.harness.client.probes import until
from maxq.harness.contracts.environment import MachineSpec
from maxq.harness.contracts.plugins import Needed
from maxq.harness.run.execute import make_target
from maxq.harness.schedule.options import Options

MISSING = missing()
pytestmark = [pytest.mark.local, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
TIMEOUT_S = 10.0


async def limit_in(folder: Path) -> str:
    """How many files a process may have open that runs there, as it says itself."""
    target = make_target(Options(environment=FEW_FILES.name, seed=0))
    needed = Needed(folder=folder, target=target, needs=frozenset(), say=print)
    environment = FEW_FILES.make(needed)
    await environment.up([MachineSpec("b0-0")])
    try:
        machine = environment.machine("b0-0")
        pid = (await machine.spawn(["sh", "-c", "ulimit -n"], log="said")).pid

        async def ended() -> bool:
            return (await machine.status(pid)).code is not None

        assert await until(ended, TIMEOUT_S)
        return (await machine.get(f"{machine.data_dir}/said") or b"").decode().strip()
    finally:
        await environment.down()


def test_a_process_has_few_files(tmp_path: Path) -> None:
    assert asyncio.run(limit_in(tmp_path)) == str(FILES)
